"""Every collective against numpy; runs in each rank (see ranks.py)."""

import hccl
import numpy as np
from hccl import Buffer

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
REDUCIBLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16"]
SMALL, LARGE = 37, 3001 * 7  # through the control segment; straight from the peers' buffers


def to_float(array, dtype):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else array.astype(np.float32)


def from_float(array, dtype):
    if dtype != "bfloat16":
        return array.astype(dtype)
    bits = array.view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def data(seed, ranks, count, dtype):
    """The same on every rank: what each of them contributes."""
    rng = np.random.default_rng(seed)
    if dtype in ("float16", "bfloat16"):
        return from_float(rng.standard_normal((ranks, count)).astype(np.float32), dtype)
    if dtype.startswith("float") and not dtype.startswith("float8"):
        return rng.standard_normal((ranks, count)).astype(dtype)
    if dtype == "int128":
        return rng.integers(0, 256, (ranks, count, 16), np.uint8)
    numbers = np.dtype("uint8" if dtype.startswith(("float8", "hif8")) else dtype)
    limits = np.iinfo(numbers)
    return rng.integers(limits.min, limits.max, (ranks, count), numbers, endpoint=True)


def reduced_wide(rows, op):
    """The same for 128-bit integers, which numpy does not know: one row of 16 bytes an element."""
    apply = {"sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": max, "min": min}[op]
    numbers = [[int.from_bytes(bytes(item), "little", signed=True) for item in row] for row in rows]
    totals = numbers[0]
    for row in numbers[1:]:
        totals = [apply(a, b) for a, b in zip(totals, row)]
    data = b"".join((total % (1 << 128)).to_bytes(16, "little") for total in totals)
    return np.frombuffer(data, np.uint8).reshape(-1, 16)


def reduced(rows, dtype, op):
    """In the order of ranks; 16-bit floating point in float32, rounded at the end."""
    if dtype == "int128":
        return reduced_wide(rows, op)
    half = dtype in ("float16", "bfloat16")
    total = to_float(rows[0], dtype) if half else rows[0].copy()
    for row in rows[1:]:
        row = to_float(row, dtype) if half else row
        with np.errstate(all="ignore"):
            total = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op](total, row)
    return from_float(total, dtype) if half else total


def expect(buffer, array, *what):
    found = buffer.read()
    buffer.free()
    if not np.array_equal(found.view(np.uint8), np.ascontiguousarray(array).view(np.uint8)):
        raise AssertionError(f"{what}: found {found.ravel()[:8]}, expected {np.asarray(array).ravel()[:8]}")


def empty_like(array):
    return Buffer(np.zeros_like(array))


def reductions(place, counts, dtypes):
    comm = place.connect()
    size, rank = place.size, place.rank
    for count in counts:
        for dtype in dtypes:
            for op, code in OPS.items():
                what = (count, dtype, op)
                rows = data(count, size, count * size, dtype)
                heads = np.ascontiguousarray(rows[:, :count])
                send, whole = Buffer(heads[rank]), Buffer(rows[rank])
                everywhere, here, part, same = empty_like(heads[0]), empty_like(heads[0]), empty_like(heads[0]), Buffer(heads[rank])
                comm.all_reduce(send, everywhere, count, dtype, code)
                comm.all_reduce(same, same, count, dtype, code)
                comm.reduce(send, here, count, dtype, code, size - 1)
                comm.reduce_scatter(whole, part, count, dtype, code)
                hccl.synchronize()
                total = reduced(heads, dtype, op)
                expect(everywhere, total, "all_reduce", *what)
                expect(same, total, "all_reduce in place", *what)
                expect(here, total if rank == size - 1 else np.zeros_like(total), "reduce", *what)
                expect(part, reduced(rows, dtype, op)[rank * count:(rank + 1) * count], "reduce_scatter", *what)
                send.free(), whole.free()
    comm.destroy()


def copies(place, counts, dtypes):
    comm = place.connect()
    size, rank = place.size, place.rank
    for count in counts:
        for dtype in dtypes:
            rows = data(count + 1, size, count * size, dtype)
            heads = np.ascontiguousarray(rows[:, :count])
            send, whole, root = Buffer(heads[rank]), Buffer(rows[rank]), count % size
            given, gathered, scattered, exchanged = Buffer(heads[rank]), empty_like(heads), empty_like(heads[0]), empty_like(rows[0])
            comm.broadcast(given, count, dtype, root)
            comm.all_gather(send, gathered, count, dtype)
            comm.scatter(whole if rank == root else None, scattered, count, dtype, root)
            comm.all_to_all(whole, exchanged, count, dtype)
            hccl.synchronize()
            expect(given, heads[root], "broadcast", count, dtype)
            expect(gathered, heads, "all_gather", count, dtype)
            expect(scattered, rows[root, rank * count:(rank + 1) * count], "scatter", count, dtype)
            expect(exchanged, np.concatenate([row[rank * count:(rank + 1) * count] for row in rows]), "all_to_all", count, dtype)
            send.free(), whole.free()
    comm.destroy()


def starts(counts, gap):
    """Displacements that leave `gap` elements between parts."""
    return [int(sum(counts[:i])) + gap * i for i in range(len(counts))]


def uneven(place, scale):
    """The V variants: counts differ, some are 0, parts lie apart from each other."""
    comm = place.connect()
    size, rank = place.size, place.rank
    counts = [(i * 5 + 3) % 7 * scale for i in range(size)]
    counts[-1] = 0
    gaps = starts(counts, 3)
    extent = sum(counts) + 3 * size

    rows = data(1, size, max(counts) + 1, "int32")
    send, receive = Buffer(rows[rank, :counts[rank]]), Buffer(np.full(extent, -1, np.int32))
    comm.all_gather_v(send, receive, counts, gaps, "int32")
    hccl.synchronize()
    expected = np.full(extent, -1, np.int32)
    for peer in range(size):
        expected[gaps[peer]:gaps[peer] + counts[peer]] = rows[peer, :counts[peer]]
    expect(receive, expected, "all_gather_v", scale)

    rows = data(2, size, extent, "float32")
    send, receive = Buffer(rows[rank]), Buffer(np.zeros(counts[rank], np.float32))
    comm.reduce_scatter_v(send, receive, counts, gaps, "float32")
    hccl.synchronize()
    expect(receive, reduced(rows, "float32", "sum")[gaps[rank]:gaps[rank] + counts[rank]], "reduce_scatter_v", scale)

    matrix = np.array([[(3 * i + 5 * j) % 4 * scale for j in range(size)] for i in range(size)], np.int64)
    out, back = [int(n) for n in matrix[rank]], [int(n) for n in matrix[:, rank]]
    rows = data(3, size, 4 * size * scale + 3 * size, "int64")
    send, receive = Buffer(rows[rank]), Buffer(np.full(sum(back) + 2 * size, -1, np.int64))
    comm.all_to_all_v(send, out, starts(out, 1), receive, back, starts(back, 2), "int64")
    hccl.synchronize()
    expected = np.full(sum(back) + 2 * size, -1, np.int64)
    for peer in range(size):
        first = starts([int(n) for n in matrix[peer]], 1)[rank]
        place_here = starts(back, 2)[peer]
        expected[place_here:place_here + back[peer]] = rows[peer, first:first + back[peer]]
    expect(receive, expected, "all_to_all_v", scale)

    receive = Buffer(np.zeros(sum(back), np.int64))
    comm.all_to_all_vc(send, matrix, receive, "int64")
    hccl.synchronize()
    parts = [rows[peer, int(matrix[peer, :rank].sum()):int(matrix[peer, :rank + 1].sum())] for peer in range(size)]
    expect(receive, np.concatenate(parts), "all_to_all_vc", scale)
    comm.destroy()


def messages(place, count):
    """A ring in one batch, pairs in order, messages to oneself, more in flight than there are lanes."""
    comm = place.connect()
    size, rank = place.size, place.rank
    rows = data(4, size, count, "float32")
    after, before = (rank + 1) % size, (rank - 1) % size
    send, receive = Buffer(rows[rank]), empty_like(rows[0])
    comm.batch([(0, send, count, "float32", after), (1, receive, count, "float32", before)])
    hccl.synchronize()
    expect(receive, rows[before], "ring", count)

    back, forth = empty_like(rows[0]), empty_like(rows[0])
    comm.batch([(1, back, count, "float32", after), (0, send, count, "float32", before),
                (0, send, count, "float32", rank), (1, forth, count, "float32", rank)])
    hccl.synchronize()
    expect(back, rows[after], "the other way round", count)
    expect(forth, rows[rank], "to oneself", count)

    received = [empty_like(rows[0]) for _ in range(20)]
    for i in range(20):
        if rank == 0 and size > 1:
            send.write(rows[0] + i)
            comm.send(send, count, "float32", 1)
            hccl.synchronize()
        elif rank == 1:
            comm.receive(received[i], count, "float32", 0)
    hccl.synchronize()
    for i in range(20):
        if rank == 1:
            expect(received[i], rows[0] + i, "message", i)
    comm.barrier()
    hccl.synchronize()
    comm.destroy()


def streams(place, rounds):
    """Several communicators and several streams of one, with operations in flight on all of them."""
    comms = [place.connect() for _ in range(2)]
    lines = [hccl.Stream() for _ in range(3)]
    size, rank = place.size, place.rank
    rows = data(5, size, LARGE, "int32")
    send = Buffer(rows[rank])
    for _ in range(rounds):
        results = []
        for i in range(9):
            receive = empty_like(rows[0])
            comms[i % 2].all_reduce(send, receive, LARGE if i % 3 else SMALL, "int32", stream=lines[i % 3])
            results.append(receive)
        for line in lines:
            line.synchronize()
        total = reduced(rows, "int32", "sum")
        for i, receive in enumerate(results):
            count = LARGE if i % 3 else SMALL
            expect(receive, np.concatenate([total[:count], np.zeros(LARGE - count, np.int32)]), "streams", i)
    for comm in comms:
        comm.destroy()


def in_order(place, rounds):
    """Many small operations without waiting in between, so that slots are used again and again."""
    comm = place.connect()
    value, total = Buffer(np.array([1 + place.rank], np.int64)), Buffer(np.zeros(1, np.int64))
    gathered = Buffer(np.zeros(place.size, np.int64))
    for i in range(rounds):
        comm.all_reduce(value, total, 1, "int64")
        comm.broadcast(total, 1, "int64", i % place.size)
        comm.all_gather(total, gathered, 1, "int64")
        comm.reduce(total, total, 1, "int64", hccl.MAX, i % place.size)
    hccl.synchronize()
    expect(gathered, np.full(place.size, place.size * (place.size + 1) // 2), "in order")
    comm.destroy()
