"""What goes wrong between ranks; runs in each rank (see ranks.py). Each function ends without anybody hanging."""
import ctypes
import os
import signal
import threading
import time

import hccl
import numpy as np
from communicators import total
from hccl import Buffer


def broken(comm, code, call, *texts):
    """Calls a collective, then waits for the default stream: one of the two must fail with all of the texts, and the
    communicator tells the same. The call itself is refused where the failure was known before it was made."""
    try:
        call()
        hccl.synchronize()
    except hccl.HcclError as error:
        found = str(error)
    else:
        raise AssertionError(f"rank {comm.rank}: no error with {texts}")
    for text in texts:
        assert text in found, found
    assert comm.async_error() == code, comm.async_error()
    try:
        comm.barrier()
    except hccl.HcclError as error:
        assert "is broken" in str(error), error
    else:
        raise AssertionError("a broken communicator was used")


def mismatch(place, what):
    comm = place.connect()
    assert total(comm, 1) == place.size
    odd = place.rank == place.size - 1
    large = Buffer(np.zeros(50000, np.float32))
    count, dtype = 40000, "float32"
    if what == "count":
        call = lambda: comm.all_reduce(large, large, count + odd, dtype)
        texts = ["40000 float32", "40001 float32", f"rank {place.size - 1} calls"]
    elif what == "small":
        call = lambda: comm.all_reduce(large, large, 1 + odd, dtype)
        texts = ["HcclAllReduce of 1 float32", "HcclAllReduce of 2 float32"]
    elif what == "dtype":
        call = lambda: comm.all_gather(large, large, 10, "int32" if odd else "float32")
        texts = ["10 int32", "10 float32"]
    elif what == "op":
        call = lambda: comm.all_reduce(large, large, count, dtype, hccl.MAX if odd else hccl.SUM)
        texts = ["sum", "max"]
    elif what == "root":
        call = lambda: comm.reduce(large, large, count, dtype, hccl.SUM, 1 if odd else 0)
        texts = ["root 0", "root 1"]
    elif what in ("small broadcast", "small reduce", "small broadcasts"):
        # Nobody waits for another rank, so what comes next tells it: here a call of them all, or when the slot is used again.
        def call():
            root = int(odd) if "broadcast" in what else 1 - odd
            if what == "small reduce":
                comm.reduce(large, large, 10, dtype, hccl.SUM, root)
            else:
                comm.broadcast(large, 10, dtype, root)
            if what == "small broadcasts":
                for _ in range(40):
                    comm.broadcast(large, 10, dtype, place.rank)
            comm.all_reduce(large, large, 1, dtype)
        texts = ["root 0", "root 1", "of 10 float32", "(call 1"]
    elif what == "order":
        call = comm.barrier if odd else lambda: comm.all_reduce(large, large, count, dtype)
        texts = ["HcclBarrier", "HcclAllReduce of 40000 float32, sum"]
    elif what == "parts":
        counts = [9000] * place.size
        if odd:
            counts[0] = 9001
        call = lambda: comm.all_to_all_v(large, [9000] * place.size, [0] * place.size, large, counts, [10000] * place.size, dtype)
        texts = [f"rank 0 sends 9000 elements to rank {place.size - 1}, which expects 9001"]
    elif what == "message":
        if place.rank == 0:
            call = lambda: comm.send(large, 30000, dtype, 1)
        else:
            call = lambda: comm.receive(large, 30001, dtype, 0)
        texts = ["rank 0 sends 30000 float32 to rank 1, which expects 30001 float32"]
    broken(comm, hccl.E_PARA, call, *texts)
    comm.destroy()


def killed(place, how):
    """The last rank dies while the others wait for it."""
    comm = place.connect()
    assert total(comm, 1) == place.size
    comm.barrier(), hccl.synchronize()
    large = Buffer(np.zeros(1 << 20, np.float32))
    if place.rank == place.size - 1:
        if how == "in flight":
            # Dies somewhere in the middle.
            for _ in range(10000):
                comm.all_reduce(large, large, 1 << 20, "float32")
                if _ == 20:
                    os.kill(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def call():
        if how == "message":
            comm.receive(large, 1 << 20, "float32", place.size - 1)
        else:
            for _ in range(200):
                comm.all_reduce(large, large, (1 << 20) if how == "in flight" else 1, "float32")

    broken(comm, hccl.E_REMOTE, call, f"rank {place.size - 1} ", "has ended")
    comm.destroy()
    print("told")


def left(place):
    """Rank 1 destroys its communicator; what it had started comes to an end for the others, what it had not fails."""
    comm = place.connect()
    value = Buffer(np.array([place.rank], np.int32))
    comm.broadcast(value, 1, "int32", 1)
    if place.rank == 1:
        hccl.synchronize()
        comm.destroy()
        return
    hccl.synchronize()
    assert value.read()[0] == 1
    broken(comm, hccl.E_REMOTE, lambda: comm.all_reduce(value, value, 1, "int32"), "rank 1 has destroyed the communicator")
    comm.destroy()


def destroyed_in_flight(place):
    """Rank 0 destroys a communicator whose collective waits for a peer that never comes."""
    comm = place.connect()
    value = Buffer(np.zeros(1, np.int32))
    if place.rank == 0:
        comm.all_reduce(value, value, 1, "int32")
        time.sleep(0.1)
        comm.destroy()
        try:
            hccl.synchronize()
            raise AssertionError("the collective succeeded")
        except hccl.HcclError as error:
            assert "was destroyed" in str(error), error
        place.put("over")
    place.get("over")


def held_up(place, how):
    """Rank 0 waits for rank 1, which waits for rank 2, which stands still or never makes its call: that is told to both."""
    comm = place.connect()
    if place.rank == 2:
        place.put("pid", str(os.getpid()).encode())
        place.get("over")
        place.get("also-over")
        return
    other = int(place.get("pid"))
    if how == "stopped":
        os.kill(other, signal.SIGSTOP)
    value = Buffer(np.zeros(4, np.float32))
    try:
        broken(comm, hccl.E_TIMEOUT, lambda: comm.receive(value, 4, "float32", place.rank + 1),
               f"rank 2 (process {other}) is stopped" if how == "stopped" else "rank(s) 2")
    finally:
        os.kill(other, signal.SIGCONT)
    place.put("also-over" if place.rank else "over")
    comm.destroy()


def stopped(place):
    """A rank that stands still is named when the time limit is over."""
    comm = place.connect()
    place.put(f"pid-{place.rank}", str(os.getpid()).encode())
    if place.rank == 1:
        place.get("over")
        return
    other = int(place.get("pid-1"))
    os.kill(other, signal.SIGSTOP)
    try:
        large = Buffer(np.zeros(50000, np.float32))
        broken(comm, hccl.E_TIMEOUT, lambda: comm.all_reduce(large, large, 50000, "float32"),
               "HcclAllReduce of 50000 float32, sum (call 0)", "rank(s) 1 did not come to rank 0 within 1 s")
    finally:
        os.kill(other, signal.SIGCONT)
    place.put("over")
    comm.destroy()


def go_no_further(place, how):
    """Sends this process a signal that ends or stops it."""
    os.kill(os.getpid(), how)
    place.get("told")   # another thread may take the signal: this one stops a little later
    os._exit(0)


def beside_a_slow_one(place, how):
    """Rank 1 dies or stands still after it has done its part, rank 2 is slow: rank 0, whose time is over, tells of rank 1."""
    comm = place.connect()
    comm.barrier(), hccl.synchronize()
    if place.rank == 1:
        comm.barrier()
        time.sleep(0.3)   # until what it has to say has been said
        place.put("pid", str(os.getpid()).encode())
        go_no_further(place, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    if place.rank == 2:
        place.get("told")
        return
    other = int(place.get("pid"))
    try:
        broken(comm, hccl.E_TIMEOUT, comm.barrier, f"rank 1 (process {other}) {'has ended' if how == 'killed' else 'is stopped'}",
               "rank(s) 2 did not come to rank 0 within 1 s")
    finally:
        if how == "stopped":
            os.kill(other, signal.SIGCONT)
        place.put("told")
    comm.destroy()


def joined_beside_a_slow_one(place):
    """Rank 1 stands still while it waits for the others to join, rank 2 is slow: both are named, rank 1 with its reason."""
    if place.rank == 1:
        place.put("pid", str(os.getpid()).encode())
        root = place.get("root")

        def join():
            hccl.open_device()
            hccl.Comm.connect(place.size, root, 1)

        threading.Thread(target=join, daemon=True).start()
        time.sleep(1)   # until it has joined, which takes milliseconds
        go_no_further(place, signal.SIGSTOP)
    if place.rank == 2:
        place.get("told")
        return
    other = int(place.get("pid"))
    place.put("root", hccl.root_info())
    try:
        hccl.Comm.connect(place.size, place.get("root"), 0)
    except hccl.HcclError as error:
        assert error.code == hccl.E_TIMEOUT and f"rank 1 (process {other}) is stopped; rank(s) 2 of 3 did not join" in str(error), error
    else:
        raise AssertionError("joined without rank 2")
    finally:
        os.kill(other, signal.SIGCONT)
        place.put("told")


def asynchronous(place):
    """The host goes on while a peer is late, and can tell that the stream is busy."""
    comm = place.connect()
    assert total(comm, 1) == 2
    value, after = Buffer(np.ones(1, np.int32)), Buffer(np.zeros(1, np.int32))
    line = hccl.Stream()
    if place.rank == 1:
        place.get("called")   # comes after the call of rank 0, which therefore must not wait
    comm.all_reduce(value, after, 1, "int32", stream=line)
    if place.rank == 0:
        status = ctypes.c_int(-1)
        hccl.check(hccl.acl.aclrtStreamQuery(line.handle, ctypes.byref(status)))
        place.put("called")
        assert status.value != 0, "the stream claims to be ready"  # 0: all complete
    line.synchronize()
    assert after.read()[0] == 2
    comm.destroy()


def late(place):
    """Rank 1 joins and dies, rank 0 gives up, and only then rank 2 comes: it learns of rank 1 all the same."""
    if place.rank == 1:
        root = place.get("root")

        def join():
            hccl.open_device()   # a thread has a context of its own
            hccl.Comm.connect(place.size, root, 1)

        threading.Thread(target=join, daemon=True).start()
        place.put("joining")
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    if place.rank == 0:
        place.put("root", hccl.root_info())
        place.get("joining")
    else:
        place.get("told")
    try:
        hccl.Comm.connect(place.size, place.get("root"), place.rank)
    except hccl.HcclError as error:
        assert error.code == hccl.E_REMOTE and "rank 1 " in str(error) and "has ended" in str(error), error
    else:
        raise AssertionError("joined without rank 1")
    place.put("told")
    if place.rank == 0:
        place.get("over")
    else:
        place.put("over")


def never_there(place):
    """Rank 1 does not join."""
    if place.rank == 1:
        return
    try:
        place.connect()
    except hccl.HcclError as error:
        assert error.code == hccl.E_TIMEOUT and "rank(s) 1 of 2 did not join within 1 s" in str(error), error
    else:
        raise AssertionError("joined alone")


