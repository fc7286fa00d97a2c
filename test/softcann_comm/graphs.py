"""Collectives in captured graphs; runs in each rank (see ranks.py)."""
import ctypes
import os
import signal

import hccl
import numpy as np
from collectives import data, reduced, starts
from communicators import total
from failures import broken
from hccl import Buffer, Graph, Stream


def zeros(shape, dtype=np.int32):
    return Buffer(np.zeros(shape, dtype))


def equal(buffer, array, *what):
    found = buffer.read()
    assert np.array_equal(found, array), f"{what}: found {found.ravel()[:8]}, expected {np.asarray(array).ravel()[:8]}"


def every_collective(place, count):
    """One graph of all of them, replayed with other data each time."""
    comm, stream = place.connect(), Stream()
    size, rank = place.size, place.rank
    root, after, before = size - 1, (rank + 1) % size, (rank - 1) % size
    counts = [count + i for i in range(size)]
    whole, head, uneven = zeros(count * size), zeros(count), zeros(counts[rank])
    sums, most, scattered, part = (zeros(count) for _ in range(4))
    gathered, exchanged, given = zeros(count * size), zeros(count * size), zeros(count)
    gathered_v, reduced_v, exchanged_v, exchanged_vc = zeros(sum(counts)), zeros(count), zeros(count * size), zeros(count * size)
    ring, message = zeros(count), zeros(count)
    even, places = [count] * size, starts([count] * size, 0)
    with Graph(stream) as graph:
        comm.all_reduce(head, sums, count, "int32", stream=stream)
        comm.reduce(head, most, count, "int32", hccl.MAX, root, stream=stream)
        comm.reduce_scatter(whole, part, count, "int32", stream=stream)
        comm.reduce_scatter_v(whole, reduced_v, even, places, "int32", stream=stream)
        comm.broadcast(given, count, "int32", root, stream=stream)
        comm.all_gather(head, gathered, count, "int32", stream=stream)
        comm.all_gather_v(uneven, gathered_v, counts, starts(counts, 0), "int32", stream=stream)
        comm.scatter(whole if rank == root else None, scattered, count, "int32", root, stream=stream)
        comm.all_to_all(whole, exchanged, count, "int32", stream=stream)
        comm.all_to_all_v(whole, even, places, exchanged_v, even, places, "int32", stream=stream)
        comm.all_to_all_vc(whole, np.full((size, size), count), exchanged_vc, "int32", stream=stream)
        comm.barrier(stream=stream)
        comm.batch([(0, head, count, "int32", after), (1, ring, count, "int32", before)], stream=stream)
        if rank == 0 and size > 1:
            comm.send(sums, count, "int32", 1, stream=stream)
        elif rank == 1:
            comm.receive(message, count, "int32", 0, stream=stream)
    for seed in range(3):
        rows = data(seed, size, count * size, "int32")
        heads = np.ascontiguousarray(rows[:, :count])
        ends = data(seed + 10, size, max(counts), "int32")
        for buffer, array in ((whole, rows[rank]), (head, heads[rank]), (given, heads[rank]), (uneven, ends[rank, :counts[rank]])):
            buffer.write(array)
        graph.replay()
        stream.synchronize()
        mine = slice(rank * count, (rank + 1) * count)
        columns = np.concatenate([row[mine] for row in rows])
        equal(sums, reduced(heads, "int32", "sum"), "all_reduce", seed)
        if rank == root:
            equal(most, reduced(heads, "int32", "max"), "reduce", seed)
        equal(part, reduced(rows, "int32", "sum")[mine], "reduce_scatter", seed)
        equal(reduced_v, reduced(rows, "int32", "sum")[mine], "reduce_scatter_v", seed)
        equal(given, heads[root], "broadcast", seed)
        equal(gathered, heads.ravel(), "all_gather", seed)
        equal(gathered_v, np.concatenate([ends[r, :counts[r]] for r in range(size)]), "all_gather_v", seed)
        equal(scattered, rows[root, mine], "scatter", seed)
        for buffer in (exchanged, exchanged_v, exchanged_vc):
            equal(buffer, columns, "all_to_all", seed)
        equal(ring, heads[before], "batch", seed)
        if rank == 1:
            equal(message, reduced(heads, "int32", "sum"), "message", seed)
    graph.destroy()
    comm.destroy()


def branches(place, count):
    """Two ranks send to each other on one stream and receive on another, in the same order: neither may wait for its own
    send to end. Then a collective on each of three streams, which depend on each other."""
    there, back = place.connect(), place.connect()   # of one direction each
    mine, theirs = (there, back) if place.rank == 0 else (back, there)
    origin, sends, receives = Stream(), Stream(), Stream()
    source, arrived, sums, doubled = (zeros(count) for _ in range(4))
    peer = 1 - place.rank
    with Graph(origin) as graph:
        sends.wait_for(origin), receives.wait_for(origin)
        mine.send(source, count, "int32", peer, stream=sends)
        theirs.receive(arrived, count, "int32", peer, stream=receives)
        origin.wait_for(receives)
        there.all_reduce(arrived, sums, count, "int32", stream=origin)
        receives.wait_for(origin)
        there.all_reduce(sums, doubled, count, "int32", stream=receives)
        origin.wait_for(sends), origin.wait_for(receives)
    other = Stream()
    for seed in range(4):
        rows = data(seed, 2, count, "int32")
        source.write(rows[place.rank])
        for stream in (origin, other) if seed % 2 else (origin,):
            graph.replay(stream)
            stream.synchronize()
        equal(arrived, rows[peer], "message", seed)
        equal(sums, reduced(rows, "int32", "sum"), "sum", seed)
        equal(doubled, 2 * reduced(rows, "int32", "sum"), "twice the sum", seed)
    graph.destroy()
    there.destroy(), back.destroy()


def in_flight(place, rounds):
    """Executions in a row that nobody waits for, with calls outside between them; the graph is destroyed meanwhile. Some ranks
    replay what others call."""
    comm, stream = place.connect(), Stream()
    value = Buffer(np.array([place.rank], np.int64))
    whole = Buffer(np.zeros(40000, np.int64))
    call = lambda: (comm.all_reduce(value, value, 1, "int64", hccl.MAX, stream=stream),
                    comm.all_reduce(whole, whole, 40000, "int64", stream=stream))
    with Graph(stream) as graph:
        call()
    assert value.read()[0] == place.rank
    for i in range(rounds):
        call() if (i + place.rank) % 3 == 0 else graph.replay()
        comm.broadcast(value, 1, "int64", i % place.size, stream=stream)
    graph.destroy()
    stream.synchronize()
    assert value.read()[0] == place.size - 1
    comm.destroy()


def mismatch(place):
    comm, stream = place.connect(), Stream()
    value = zeros(8)
    with Graph(stream) as graph:
        comm.all_reduce(value, value, 5 + (place.rank == place.size - 1), "int32", stream=stream)
        comm.barrier(stream=stream)

    def replay():
        graph.replay()
        stream.synchronize()

    broken(comm, hccl.E_PARA, replay, "HcclAllReduce of 5 int32", "HcclAllReduce of 6 int32", f"rank {place.size - 1} ")
    # A replay of the broken communicator says so each time; the stream and other communicators work.
    broken(comm, hccl.E_PARA, replay, "HcclAllReduce of 5 int32")
    comm.destroy()
    try:
        replay()
        raise AssertionError("a communicator that was destroyed worked")
    except hccl.HcclError as error:
        assert "HcclAllReduce of 5 int32" in str(error) or "destroyed" in str(error), error
    assert total(place.connect(), 1, stream) == place.size


def killed(place, branched):
    """The last rank dies while the others replay."""
    comm, stream, other = place.connect(), Stream(), Stream()
    value = zeros(50000)
    with Graph(stream) as graph:
        if branched:
            other.wait_for(stream)
        comm.all_reduce(value, value, 50000, "int32", stream=other if branched else stream)
        if branched:
            stream.wait_for(other)
    graph.replay()
    stream.synchronize()
    if place.rank == place.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def replay():
        for _ in range(5):
            graph.replay()
        stream.synchronize()

    broken(comm, hccl.E_REMOTE, replay, f"rank {place.size - 1}")
    comm.destroy()
    # The stream is well.
    hccl.check(hccl.acl.aclrtMemsetAsync(value.address, ctypes.c_size_t(4), 1, ctypes.c_size_t(4), stream.handle))
    stream.synchronize()
    assert value.read()[0] == 0x01010101
    print("told")


def left(place):
    """What a rank does not replay before it leaves is told to those who wait for it."""
    comm, stream = place.connect(), Stream()
    value = zeros(4)
    with Graph(stream) as graph:
        comm.all_reduce(value, value, 4, "int32", stream=stream)
    if place.rank == 1:
        comm.destroy()
        return

    def replay():
        graph.replay()
        stream.synchronize()

    broken(comm, hccl.E_REMOTE, replay, "rank 1 has destroyed the communicator")
    comm.destroy()


def refused(place):
    """A graph that communicates is not part of another one, and its collectives are not updated."""
    comm, stream, other = place.connect(), Stream(), Stream()
    value = zeros(4)
    group = ctypes.c_void_p()
    with Graph(stream) as graph:
        hccl.check(hccl.acl.aclmdlRICaptureTaskGrpBegin(stream.handle))
        comm.all_reduce(value, value, 4, "int32", stream=stream)
        hccl.check(hccl.acl.aclmdlRICaptureTaskGrpEnd(stream.handle, ctypes.byref(group)))
    try:
        with Graph(other):
            graph.replay(other)
        raise AssertionError("captured")
    except hccl.HcclError as error:
        assert "a graph that communicates" in str(error), error
    hccl.check(hccl.acl.aclmdlRICaptureTaskUpdateBegin(other.handle, group))
    comm.all_reduce(value, value, 4, "int32", stream=other)
    try:
        hccl.check(hccl.acl.aclmdlRICaptureTaskUpdateEnd(other.handle))
        raise AssertionError("updated")
    except hccl.HcclError as error:
        assert "HcclAllReduce, communicates" in str(error), error
    value.write(np.full(4, place.rank + 1, np.int32))
    graph.replay()
    stream.synchronize()
    equal(value, np.full(4, sum(range(1, place.size + 1)), np.int32), "after refusals")
    comm.destroy()


def injected(place):
    """A step that fails by itself (SOFTCANN_FAULT), on whichever stream, is told where the graph was executed."""
    comm, stream, other = place.connect(), Stream(), Stream()
    value = zeros(8)
    with Graph(stream) as graph:
        other.wait_for(stream)
        comm.all_reduce(value, value, 8, "int32", stream=other)
        stream.wait_for(other)
    graph.replay()
    try:
        stream.synchronize()
        raise AssertionError("no error")
    except hccl.HcclError as error:
        assert error.code == 507015 and "fault injected" in str(error), (error.code, str(error))
    # Skipped collectives break the communicator, not the stream.
    hccl.check(hccl.acl.aclrtMemsetAsync(value.address, ctypes.c_size_t(4), 1, ctypes.c_size_t(4), stream.handle))
    stream.synchronize()
    assert value.read()[0] == 0x01010101
