"""Making and leaving communicators; runs in each rank (see ranks.py)."""
import ctypes
import json
import os
import pathlib

import hccl
import numpy as np
from hccl import Buffer


def total(comm, value, stream=None):
    """The sum of `value` over the ranks."""
    send, receive = Buffer(np.array([value], np.int64)), Buffer(np.zeros(1, np.int64))
    comm.all_reduce(send, receive, 1, "int64", stream=stream)
    (stream or hccl).synchronize()
    found = int(receive.read()[0])
    send.free(), receive.free()
    return found


def subgroups(place):
    """Rows and columns of a 2 x 2 grid, twice the same, then one inside the other."""
    world = place.connect()
    rank = place.rank
    row, column = [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2 + 2, rank % 2]
    for _ in range(3):
        rows, columns = world.split(row, 1), world.split(column, 2, hccl.Config(name="columns"))
        assert (rows.rank, columns.rank) == (rank % 2, 1 - rank // 2)
        assert columns.name() == "columns"
        assert total(rows, 1 << rank) == sum(1 << r for r in row)
        assert total(columns, 1 << rank) == sum(1 << r for r in column)
        rows.destroy(), columns.destroy()
    shuffled = world.split([3, 1, 0, 2], 7)
    if rank in (0, 3):  # numbers 2 and 0 of it
        assert total(shuffled.split([2, 0], 1), 1 << rank) == 9
    handle = ctypes.c_void_p(5)
    assert hccl.hccl.HcclCreateSubCommConfig(ctypes.byref(world.handle), 0, None, ctypes.c_uint64(0xffffffff), 0, None,
                                             ctypes.byref(handle)) == 0 and handle.value is None
    assert total(world, 1) == 4
    world.destroy()


def configured(place):
    """Names and time limits come from the configuration."""
    def connect(*settings):
        if place.rank == 0:
            place.put(f"root-{settings[0]}", hccl.root_info())
        return hccl.Comm.connect_config(place.size, place.get(f"root-{settings[0]}"), place.rank, hccl.Config(*settings))

    comm = connect("mine")
    assert comm.name() == "mine"
    assert total(comm, 2) == 2 * place.size
    comm.destroy()
    comm = connect("hasty", 1)
    if place.rank == 0:
        send = Buffer(np.zeros(1, np.int8))
        comm.all_reduce(send, send, 1, "int8")
        try:
            hccl.synchronize()
            raise AssertionError("the limit of 1 s did not count")
        except hccl.HcclError as error:
            assert "HcclAllReduce of 1 int8, sum" in str(error) and "within 1 s" in str(error), error
        place.put("over")
    place.get("over")
    comm.destroy()


def wrong_arguments(place):
    """Refused before any other rank is involved."""
    comm = place.connect()

    def fails(code, text, function, *arguments):
        try:
            function(*arguments)
        except hccl.HcclError as error:
            assert error.code == code and text in str(error), (error.code, str(error))
        else:
            raise AssertionError(f"no error with {text!r}")

    buffer = Buffer(np.zeros(8, np.float32))
    fails(hccl.E_PTR, "null pointer", comm.all_reduce, None, buffer, 8, "float32")
    fails(hccl.E_PARA, "reach beyond", comm.all_reduce, buffer, buffer, 200, "float32")
    fails(hccl.E_PARA, "root 2 of 2", comm.broadcast, buffer, 8, "float32", 2)
    fails(hccl.E_PARA, "unknown reduction", comm.all_reduce, buffer, buffer, 8, "float32", 4)
    fails(hccl.E_NOT_SUPPORT, "float8_e4m3", comm.all_reduce, buffer, buffer, 8, "float8_e4m3")
    fails(hccl.E_PARA, "rank 5 of 2", comm.send, buffer, 8, "float32", 5)
    fails(hccl.E_PARA, "is given twice", comm.split, [place.rank, place.rank], 1)
    fails(hccl.E_PARA, "not from HcclGetRootInfo", hccl.Comm.connect, 2, b"\1" * hccl.ROOT_INFO_BYTES, place.rank)
    fails(hccl.E_PARA, "rank 3 of 2", hccl.Comm.connect, 2, hccl.root_info(), 3)
    fails(hccl.E_PARA, "was not initialized", hccl.Comm.connect_config, 2, hccl.root_info(), 0, (ctypes.c_char * 2240)())
    assert total(comm, 1) == 2
    comm.destroy()
    fails(hccl.E_PARA, "does not exist", comm.barrier)


def join_twice(place):
    """Two of three processes want to be rank 0; then they differ about the number of ranks. Who is second is refused, told why,
    and does what is right then: nothing is spoilt for the others."""
    if place.rank == 2:   # a process that is refused closes the roots it has made
        place.put("root", hccl.root_info())
        place.put("other", hccl.root_info())
    if place.rank < 2:
        rank = 0
        try:
            comm = hccl.Comm.connect(2, place.get("root"), 0)
        except hccl.HcclError as error:
            assert "rank 0 has joined already" in str(error), error
            place.put(f"refused-{place.rank}")
            rank = 1
            comm = hccl.Comm.connect(2, place.get("root"), 1)
        assert total(comm, 1 + rank) == 3
        comm.destroy()
        assert sum((place.folder / f"refused-{each}").exists() for each in range(2)) == 1
        size = 2 + place.rank
        try:
            comm = hccl.Comm.connect(size, place.get("other"), place.rank)
        except hccl.HcclError as error:
            assert f"says there are {size} ranks, another rank said {5 - size}" in str(error), error
            size = 5 - size
            place.put("size", str(size).encode())
            comm = hccl.Comm.connect(size, place.get("other"), place.rank)
    else:
        size = int(place.get("size"))
        if size == 2:
            place.get("done")
            return
        comm = hccl.Comm.connect(size, place.get("other"), place.rank)
    assert total(comm, 1) == size
    place.put("done")
    comm.destroy()


def one_process(place, size):
    """All ranks in one process, one device each, called from one thread."""
    handles = (ctypes.c_void_p * size)()
    hccl.check(hccl.hccl.HcclCommInitAll(ctypes.c_uint32(size), (ctypes.c_int32 * size)(*range(size)), handles))
    comms = [hccl.Comm(handle, rank, size) for rank, handle in enumerate(handles)]
    for count in (3, 50000):
        lines, results = [], []
        for rank, comm in enumerate(comms):
            hccl.open_device(rank)
            lines.append(hccl.Stream())
            send, receive = Buffer(np.arange(count, dtype=np.int32) * (rank + 1)), Buffer(np.zeros(count, np.int32))
            comm.all_reduce(send, receive, count, "int32", stream=lines[-1])
            results.append(receive)
        for rank in range(size):
            hccl.open_device(rank)
            lines[rank].synchronize()
            assert (results[rank].read() == np.arange(count) * (size * (size + 1) // 2)).all()
    for comm in comms:
        comm.destroy()


def rank_table(place):
    """A communicator by a file that lists the ranks, twice; then by one that is not right."""
    devices = [{"device_id": str(rank), "rank_id": str(rank)} for rank in range(place.size)]
    table = json.dumps({"version": "1.0", "server_list": [{"server_id": "here", "device": devices}]}, indent=1).encode()
    if place.rank == 0:
        place.put("table", table)
        place.put("endless", table + b" " * (16 << 20))
        place.put("gap", table.replace(b'"rank_id": "0"', b'"rank_id": "7"'))
    place.get("gap")

    def connect(name):
        handle, config = ctypes.c_void_p(), hccl.Config("by table")
        hccl.check(hccl.hccl.HcclCommInitClusterInfoConfig(str(place.folder / name).encode(), ctypes.c_uint32(place.rank),
                                                           ctypes.byref(config), ctypes.byref(handle)))
        return hccl.Comm(handle.value, place.rank, place.size)

    for _ in range(2):
        comm = connect("table")
        assert comm.name() == "by table" and total(comm, 1 << place.rank) == (1 << place.size) - 1
        comm.destroy()
    for name, text in (("gap", "are not 0, 1, 2"), ("nowhere", "cannot read"), ("endless", "longer than 16 MiB")):
        try:
            connect(name)
        except hccl.HcclError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error with {name}")


def apart(place):
    """The last rank is on what looks like another machine; those that are together still share memory in a subgroup."""
    def sockets():
        return sum(os.readlink(f"/proc/self/fd/{entry}").startswith("socket:") for entry in os.listdir("/proc/self/fd")
                   if os.path.islink(f"/proc/self/fd/{entry}"))

    world = place.connect()
    assert sockets() == place.size - 1, sockets()
    assert total(world, place.rank + 1) == place.size * (place.size + 1) // 2
    if place.rank < place.size - 1:
        near = world.split(list(range(place.size - 1)), 1)
        assert sockets() == place.size - 1, sockets()
        assert total(near, 1) == place.size - 1
        near.destroy()
    world.barrier(), hccl.synchronize()
    world.destroy()


def shared_descriptors():
    """Names of the open files that communicators of this process have brought."""
    names = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            pass
    return sorted(name for name in names if "softcann-comm" in name or "pidfd" in name)


def again_and_again(place, rounds):
    """Communicators come and go without leaving files, mappings or memory."""
    def state():
        maps = pathlib.Path("/proc/self/maps").read_text()
        return shared_descriptors(), maps.count("softcann-comm"), maps.count("softcann-memory")

    before = state()
    for i in range(rounds):
        comm = place.connect()
        assert total(comm, i) == i * place.size
        comm.barrier(), hccl.synchronize()
        comm.destroy()
    assert state() == before, (before, state())
