"""What strangers and damaged ranks do to communicators over TCP; runs in each rank (see ranks.py)."""
import ctypes
import hashlib
import hmac
import os
import resource
import socket
import struct
import time

import hccl
import numpy as np
import wire
from communicators import total
from hccl import Buffer


def knock(root):
    """Connections of the kinds that port scanners and worse make. Returns those that stay open."""
    kept = []
    for _ in range(20):
        socket.create_connection(root.address, 60).close()
    for data in (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(4096), b"x"):
        connection = socket.create_connection(root.address, 60)
        connection.sendall(data)
        kept.append(connection)
    kept += [socket.create_connection(root.address, 60) for _ in range(40)]   # idle
    return kept


def visited(place, transport):
    """Strangers at the root's port neither break nor delay a communicator, nor make local ranks use TCP."""
    if place.rank == 0:
        info = hccl.root_info()
        kept = knock(wire.Root(info))
        place.put("visited-root", info)
    begin = time.monotonic()
    comm = hccl.Comm.connect(place.size, place.get("visited-root"), place.rank)
    assert time.monotonic() - begin < 4, "strangers have delayed it"   # less than one of them may take
    assert total(comm, place.rank + 1) == place.size * (place.size + 1) // 2
    comm.destroy()
    if place.rank == 0:
        for connection in kept:
            connection.close()


def wrong_secret(place):
    """Who knows the address but not the secret is shown the door, and the rank it posed as can still join."""
    if place.rank == 0:
        place.put("secret-root", hccl.root_info())
    info = place.get("secret-root")
    if place.rank == 1:
        root = wire.Root(info)
        for secret in (bytes(32), root.secret[:-1] + bytes([root.secret[-1] ^ 1])):
            with socket.create_connection(root.address, 60) as connection:
                try:
                    wire.introduce(connection, secret, 1, place.size)
                except ConnectionError as error:
                    assert "ended after 0" in str(error), error
                else:
                    raise AssertionError("let in without the secret")
    comm = hccl.Comm.connect(place.size, info, place.rank)
    assert total(comm, 1) == place.size
    comm.destroy()


def expect_failure(comm, *texts):
    value = Buffer(np.zeros(100, np.float32))
    try:
        for _ in range(2):
            comm.all_reduce(value, value, 100, "float32")
            hccl.synchronize()
    except hccl.HcclError as error:
        for text in texts:
            assert text in str(error), error
    else:
        raise AssertionError("no error")


def damaged(place, what):
    """The last rank is none of ours: it joins as one and sends a frame that cannot be."""
    ranks = place.size
    if place.rank == 0:
        place.put(f"{what}-root", hccl.root_info())
    info = place.get(f"{what}-root")
    if place.rank == ranks - 1:
        connections = wire.join(wire.Root(info), place.rank, ranks)
        sizes = {"huge": 1 << 62, "large": 3 << 30, "text": 1 << 20}
        type = {"text": wire.FAILURE, "codeless": wire.FAILURE, "foreign": wire.FAILURE, "unknown": 77}.get(what, wire.COLLECTIVE)
        for connection in connections.values():
            connection.sendall(wire.frame(type, {"foreign": 77}.get(what, 0), sizes.get(what, 0)) + bytes(1000))
        place.get(f"{what}-measured-0")
        for connection in connections.values():
            connection.close()
        return
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    comm = hccl.Comm.connect(ranks, info, place.rank)
    if what == "large":   # announced, but does not come: costs nothing until the connection ends
        time.sleep(0.5)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 64 << 10, f"{grown} KiB more"
        place.put(f"{what}-measured-{place.rank}")
        expect_failure(comm, f"rank {ranks - 1} has ended")
    else:
        expect_failure(comm, f"rank {ranks - 1} (127.0.0.1", "which no rank sends")
        place.put(f"{what}-measured-{place.rank}")
    comm.destroy()


def message_of_another_length(place):
    """A message whose call fits what is expected, but whose length does not, is refused: nothing of it was written."""
    if place.rank == 0:
        place.put("message-root", hccl.root_info())
    info = place.get("message-root")
    if place.rank == 1:
        connection = wire.join(wire.Root(info), 1, 2)[0]
        ten_floats = struct.pack("=BBBBIQ", 0, hccl.TYPES["float32"], 0, 0, 0, 10)
        connection.sendall(wire.frame(wire.MESSAGE, 0, 8, call=ten_floats) + bytes(8))
        place.get("message-refused")
        connection.close()
        return
    comm = hccl.Comm.connect(2, info, 0)
    value = Buffer(np.ones(10, np.float32))
    try:
        comm.receive(value, 10, "float32", 1)
        hccl.synchronize()
    except hccl.HcclError as error:
        assert "rank 1 sends 10 float32 (8 bytes) to rank 0, which expects 10 float32" in str(error), error
    else:
        raise AssertionError("taken")
    place.put("message-refused")
    comm.destroy()


def secret_stays(place):
    """What travels when a sub-communicator is made does not tell its secret; who knows the communicator's can work it out."""
    if place.rank == 0:
        place.put("parent-root", hccl.root_info())
    info = place.get("parent-root")
    if place.rank == 1:
        parent = wire.Root(info)
        connection = wire.join(parent, 1, 2)[0]
        type, key, data = wire.read_frame(connection)
        while type != wire.INVITE:
            type, key, data = wire.read_frame(connection)
        root = wire.Root(data)
        assert root.secret == bytes(32), "the secret travels"
        root.secret = hmac.digest(parent.secret, b"sub-communicator" + struct.pack("=QQ", key, root.nonce), hashlib.sha256)
        kept = wire.join(root, 1, 2)[0]
        place.get("child-made")
        kept.close()
        connection.close()
        return
    comm = hccl.Comm.connect(2, info, 0)
    child = comm.split([0, 1], 5)   # connects: the other one knew the secret
    place.put("child-made")
    expect_failure(child, "rank 1 has ended")


def listening(place, expected):
    """Where the root listens."""
    assert wire.Root(hccl.root_info()).address[0] == expected


def other_user(place):
    """Where ranks meet by a rank table, another user's process learns nothing."""
    table = b'[{"rank_id": "0"}, {"rank_id": "1"}]'
    if place.rank == 0:
        place.put("other-table", table)
    place.get("other-table")
    if place.rank == 1:
        hash = 14695981039346656037
        for byte in table:
            hash = (hash ^ byte) * 1099511628211 % 2**64
        name = f"\0softcann-table-{os.geteuid()}-{hash:x}"
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            told = b"nobody was there"
            for _ in range(6000):
                with socket.socket(socket.AF_UNIX) as caller:
                    try:
                        caller.connect(name)
                    except ConnectionRefusedError:
                        time.sleep(0.01)
                        continue
                    try:   # the root may hang up before anything is sent, or after
                        caller.sendall(b"\1\0\0\0")
                        told = caller.recv(4096)
                    except (ConnectionResetError, BrokenPipeError):
                        told = b""
                    break
            os._exit(1 if told else 0)
        assert os.waitpid(child, 0)[1] == 0, "another user was told the communicator's secret, or met nobody"
    handle = ctypes.c_void_p()
    hccl.check(hccl.hccl.HcclCommInitClusterInfo(str(place.folder / "other-table").encode(), ctypes.c_uint32(place.rank),
                                                 ctypes.byref(handle)))
    comm = hccl.Comm(handle.value, place.rank, place.size)
    assert total(comm, 1) == place.size
    comm.destroy()


def not_an_address(place):
    try:
        hccl.root_info()
    except hccl.HcclError as error:
        assert error.code == hccl.E_PARA and "HCCL_IF_IP=localhost is not an IPv4 or IPv6 address" in str(error), error
    else:
        raise AssertionError("taken")


def other_users_memory(place):
    """What ranks share are memory files without a name: another user's process can open none of them by way of /proc."""
    comm = place.connect()
    assert total(comm, 1) == place.size
    folder = f"/proc/{os.getpid()}/fd"
    paths = [f"{folder}/{file}" for file in os.listdir(folder)]   # and the folder itself, which is closed again
    files = [path for path in paths if os.path.lexists(path) and os.readlink(path).startswith("/memfd:")]
    assert files, "no device memory"   # as this user sees it
    for file in files:
        os.close(os.open(file, os.O_RDWR))
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        opened = []
        for file in files:
            try:
                os.open(file, os.O_RDONLY)
                opened.append(file)
            except PermissionError:
                pass
        os._exit(len(opened))
    assert os.waitpid(child, 0)[1] == 0, "another user has opened a rank's memory"
    comm.destroy()
