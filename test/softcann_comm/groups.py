"""Groups of calls, communicators that are suspended, resumed or made of several roots, registered memory; runs in each rank."""
import ctypes

import hccl
import numpy as np
from collectives import data, reduced
from communicators import total
from failures import broken
from hccl import Buffer, Graph, HcclError, Stream, check

E_SUSPENDING = 22
library = hccl.hccl


class Group:
    """Calls that belong together."""

    def __enter__(self):
        check(library.HcclGroupStart())

    def __exit__(self, kind, error, trace):
        code = library.HcclGroupEnd()
        if kind is None:
            check(code)


def zeros(count, dtype=np.int32):
    return Buffer(np.zeros(count, dtype))


def equal(buffer, array, *what):
    found = buffer.read()
    assert np.array_equal(found, array), f"{what}: found {found.ravel()[:8]}, expected {np.asarray(array).ravel()[:8]}"


def refused(code, call, text):
    try:
        call()
    except HcclError as error:
        assert error.code == code and text in str(error), (error.code, str(error))
    else:
        raise AssertionError(f"no error with {text}")


def messages(place, count):
    """Everybody sends to all others before it receives, on one stream; without the group nobody would come to receive. In a
    graph, too."""
    comm, stream = place.connect(), Stream()
    rank, peers = place.rank, [peer for peer in range(place.size) if peer != place.rank]
    sources = {peer: zeros(count + rank) for peer in peers}
    arrived = {peer: zeros(count + peer) for peer in peers}

    def exchange():
        with Group():
            for peer in peers:
                comm.send(sources[peer], count + rank, "int32", peer, stream=stream)
            with Group():
                for peer in reversed(peers):
                    comm.receive(arrived[peer], count + peer, "int32", peer, stream=stream)

    with Graph(stream) as graph:
        exchange()
    for seed, run in enumerate((exchange, graph.replay, exchange)):
        rows = data(seed, place.size * place.size, count + place.size, "int32")
        for peer in peers:
            sources[peer].write(rows[rank * place.size + peer, :count + rank])
        run()
        stream.synchronize()
        for peer in peers:
            equal(arrived[peer], rows[peer * place.size + rank, :count + peer], "message", seed, peer)
    comm.destroy()


def collectives(place, count):
    """Parts of different lengths gathered by a broadcast of each rank's, and reductions on two communicators."""
    comm, other, stream, line = place.connect(), place.connect(), Stream(), Stream()
    rows = data(7, place.size, count + place.size, "int32")
    parts = [Buffer(rows[r, :count + r]) if r == place.rank else zeros(count + r) for r in range(place.size)]
    mine, sums, most = Buffer(rows[place.rank]), zeros(count + place.size), zeros(count + place.size)
    with Group():
        for rank, part in enumerate(parts):
            comm.broadcast(part, count + rank, "int32", rank, stream=stream)
        comm.all_reduce(mine, sums, count + place.size, "int32", stream=line)
        other.all_reduce(mine, most, count + place.size, "int32", hccl.MAX, stream=line)
    stream.synchronize(), line.synchronize()
    for rank, part in enumerate(parts):
        equal(part, rows[rank, :count + rank], "part", rank)
    equal(sums, reduced(rows, "int32", "sum"), "sum")
    equal(most, reduced(rows, "int32", "max"), "max")
    comm.destroy(), other.destroy()


def misused(place):
    """What is wrong is refused, nothing of the group is started, and the communicator goes on."""
    comm = place.connect()
    value = Buffer(np.ones(4, np.int32))
    refused(hccl.E_NOT_SUPPORT, lambda: check(library.HcclGroupEnd()), "no group has begun")

    def wrong_call():
        with Group():
            comm.all_reduce(value, value, 4, "int32")
            try:
                comm.broadcast(value, 4, "int32", place.size)
            except HcclError as error:
                assert f"root {place.size}" in str(error), error

    refused(hccl.E_PARA, wrong_call, "HcclBroadcast was refused")

    def mixed():
        with Group():
            comm.all_reduce(value, value, 4, "int32")
            comm.send(value, 4, "int32", 1 - place.rank)

    refused(hccl.E_NOT_SUPPORT, mixed, "not several of these")
    hccl.synchronize()
    equal(value, np.ones(4, np.int32), "nothing ran")
    with Group():
        pass
    assert total(comm, 1) == place.size
    comm.destroy()


def one_thread(place):
    """One thread makes the communicators of two devices, and calls for both."""
    info, handles, streams, buffers = hccl.root_info(), [ctypes.c_void_p() for _ in range(2)], [], []
    with Group():
        for device in range(2):
            hccl.open_device(device)
            check(library.HcclCommInitRootInfo(ctypes.c_uint32(2), info, ctypes.c_uint32(device), ctypes.byref(handles[device])))
            assert handles[device].value is None
    comms = [hccl.Comm(handle.value, device, 2) for device, handle in enumerate(handles)]
    rows = data(3, 2, 30000, "int32")
    for device in range(2):
        hccl.open_device(device)
        streams.append(Stream())
        buffers.append(Buffer(rows[device]))
    with Group():
        for device in range(2):
            hccl.open_device(device)
            comms[device].all_reduce(buffers[device], buffers[device], 30000, "int32", stream=streams[device])
    for device in range(2):
        hccl.open_device(device)
        streams[device].synchronize()
        equal(buffers[device], reduced(rows, "int32", "sum"), "device", device)
    for comm in comms:
        comm.destroy()


def resumed(place):
    """A suspended communicator takes nothing; one that broke works again when all ranks have resumed it, time after time."""
    comm, value = place.connect(), zeros(50000)
    check(library.HcclCommSuspend(comm.handle))
    refused(E_SUSPENDING, lambda: comm.all_reduce(value, value, 1, "int32"), "HcclCommResume lets it go on")
    check(library.HcclCommResume(comm.handle))
    assert total(comm, 1) == place.size
    before = comm.name()
    for _ in range(2):
        broken(comm, hccl.E_PARA, lambda: comm.all_reduce(value, value, 40000 + place.rank, "int32"), "HcclAllReduce of 4000")
        check(library.HcclCommResume(comm.handle))
        assert comm.async_error() == 0 and comm.name() == before
        assert total(comm, place.rank + 1) == sum(range(1, place.size + 1))
    assert total(comm.split(list(range(place.size)), 1), 1) == place.size
    comm.destroy()


def abandoned(place):
    """A rank that does not resume is named."""
    comm, value = place.connect(), zeros(8)
    broken(comm, hccl.E_PARA, lambda: comm.all_reduce(value, value, 4 + place.rank, "int32"), "HcclAllReduce of 4")
    if place.rank == 0:
        place.get("over")
        return
    refused(hccl.E_TIMEOUT, lambda: check(library.HcclCommResume(comm.handle)), "rank 0 of communicator")
    place.put("over")


def scalable(place):
    """Half of the ranks has a root each."""
    roots = 2 if place.size > 2 else 1
    if place.rank % (place.size // roots) == 0:
        info = ctypes.create_string_buffer(hccl.ROOT_INFO_BYTES)
        check(library.HcclGetRootInfoScalable(info))
        place.put(f"scalable-{place.rank // (place.size // roots)}", info.raw)
    infos = b"".join(place.get(f"scalable-{i}") for i in range(roots))
    config, handle = hccl.Config(name="large"), ctypes.c_void_p()

    def connect(nroot=roots, external=0):
        check(library.HcclCommInitRootInfoScalable(ctypes.c_uint32(place.size), ctypes.c_uint32(nroot), infos,
                                                   ctypes.c_uint32(place.rank), ctypes.c_uint32(external), ctypes.byref(config),
                                                   ctypes.byref(handle)))

    refused(hccl.E_PARA, lambda: connect(0), "0 roots")
    refused(hccl.E_NOT_SUPPORT, lambda: connect(external=1), "nExtRoot 1")
    connect()
    comm = hccl.Comm(handle.value, place.rank, place.size)
    assert comm.name() == "large" and total(comm, 1) == place.size
    comm.destroy()


def registered(place):
    """Memory that ranks make known to each other, and windows that all have."""
    comm, memory = place.connect(), zeros(1 << 16, np.uint8)
    peers = [peer for peer in range(place.size) if peer != place.rank]
    handle, window, found, offset = (ctypes.c_void_p() for _ in range(4))
    size, address = ctypes.c_uint64(1 << 16), memory.address

    def register(where=address, bytes=size, flag=0):
        check(library.HcclCommRegister(comm.handle, where, bytes, ctypes.byref(handle), ctypes.c_uint32(flag)))

    def exchange(ranks):
        check(library.HcclCommExchangeMem(comm.handle, handle, (ctypes.c_uint32 * max(1, len(ranks)))(*ranks),
                                          ctypes.c_uint32(len(ranks))))

    refused(hccl.E_PARA, lambda: register(bytes=ctypes.c_uint64(1 << 40)), "")
    refused(hccl.E_NOT_SUPPORT, lambda: register(flag=1), "flag 1")
    register()
    refused(hccl.E_PARA, register, "overlap")
    exchange(peers)
    refused(hccl.E_PARA, lambda: exchange([place.rank]), "is this one")
    refused(hccl.E_PARA, lambda: exchange([place.size]), "not one of")
    check(library.HcclCommDeregister(comm.handle, handle))
    refused(hccl.E_PARA, lambda: check(library.HcclCommDeregister(comm.handle, handle)), "not registered")
    refused(hccl.E_PARA, lambda: exchange(peers), "not registered")

    def open_window(bytes):
        check(library.HcclCommSymWinRegister(comm.handle, address, ctypes.c_uint64(bytes), ctypes.byref(window), ctypes.c_uint32(1)))

    def look_up(where, bytes):
        check(library.HcclCommSymWinGet(comm.handle, ctypes.c_void_p(address.value + where), ctypes.c_size_t(bytes),
                                        ctypes.byref(found), ctypes.byref(offset)))
        return found.value, offset.value or 0

    refused(hccl.E_PARA, lambda: open_window(4096 << (place.rank == 1)), f"rank {1 - place.rank} registers")
    open_window(4096)
    assert look_up(100, 16) == (window.value, 100)
    assert look_up(4000, 97) == (None, 0)
    assert total(comm, 1) == place.size
    check(library.HcclCommSymWinDeregister(window))
    refused(hccl.E_PARA, lambda: check(library.HcclCommSymWinDeregister(window)), "not registered")
    assert look_up(100, 16) == (None, 0)
    for setting, value in ((0, 1), (1, 3)):
        check(library.HcclSetCommConfig(comm.handle, setting, value))
        check(library.HcclGetCommConfig(comm.handle, setting, ctypes.byref(offset)))
        assert offset.value == value
    refused(hccl.E_PARA, lambda: check(library.HcclSetCommConfig(comm.handle, 2, 0)), "unknown setting 2")
    comm.destroy()
