"""Times of collectives; runs in each rank (see ranks.py). Used by benchmarks/collectives_c.py."""
import ctypes
import time

import hccl
import numpy as np
from hccl import Buffer

FLOAT, MAX = 4, 2


def median(place, comm, call, bytes_moved):
    """Seconds of one call and its synchronize."""
    rounds = int(min(2000, max(7, 2e8 / (bytes_moved + 1e5))))
    synchronize = hccl.acl.aclrtSynchronizeStream
    for _ in range(3):
        call()
    comm.barrier()
    hccl.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        synchronize(None)
        times.append(time.perf_counter() - start)
    return sorted(times)[rounds // 2]


def measure(place, sizes):
    """Prints a line for each size, in bytes of the larger buffer."""
    comm = place.connect()
    size, rank, c = place.size, place.rank, hccl.hccl
    root, handle = ctypes.c_uint32(0), comm.handle
    for total in sizes:
        count = ctypes.c_uint64(max(total // 4, 1))
        part = ctypes.c_uint64(max(total // 4 // size, 1))
        a = Buffer(np.ones(max(count.value, part.value * size), np.float32))
        b = Buffer(np.ones(max(count.value, part.value * size), np.float32))
        p, q, data = a.address, b.address, ctypes.c_size_t(total)
        send, receive = (c.HcclSend, c.HcclRecv)

        def message():
            if rank == 0:
                send(p, count, FLOAT, ctypes.c_uint32(1), handle, None)
            elif rank == 1:
                receive(p, count, FLOAT, root, handle, None)

        share = (size - 1) / size
        calls = [("copy", 1, lambda: hccl.acl.aclrtMemcpyAsync(q, data, p, data, 3, None)),
                 ("all_reduce", 2 * share, lambda: c.HcclAllReduce(p, p, count, FLOAT, MAX, handle, None)),
                 ("broadcast", 1, lambda: c.HcclBroadcast(p, count, FLOAT, root, handle, None)),
                 ("all_gather", share, lambda: c.HcclAllGather(p, q, part, FLOAT, handle, None)),
                 ("reduce_scatter", share, lambda: c.HcclReduceScatter(p, q, part, FLOAT, MAX, handle, None)),
                 ("all_to_all", share, lambda: c.HcclAlltoAll(p, part, FLOAT, q, part, FLOAT, handle, None))]
        if size > 1:
            calls.append(("send/recv", 1, message))
        cells = []
        for name, factor, call in calls:
            seconds = median(place, comm, call, total)
            cells.append(f"{name} {seconds * 1e6:.1f} us {total * factor / seconds / 1e9:.2f} GB/s")
        if rank == 0:
            print(f"{total:>9} B: " + ", ".join(cells), flush=True)
        a.free(), b.free()
    comm.destroy()
