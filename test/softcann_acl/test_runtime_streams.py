"""What streams do by calls that pyACL has no names for: events with flags and limits, notifies of processes, counts, host functions."""
import ctypes
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from acl_tools import LIBRARIES

INVALID, HANDLE, UNSUPPORTED, PARAMETER, LATE, ABORTED = 100000, 107017, 207000, 107000, 107019, 107022
size = ctypes.c_size_t
none = ctypes.c_uint64(0)


@pytest.fixture
def event(rt):
    made = ctypes.c_void_p()
    assert rt.aclrtCreateEventExWithFlag(ctypes.byref(made), 1) == 0
    yield made
    assert rt.aclrtDestroyEvent(made) == 0


def put(rt, address, value, stream):
    assert rt.aclrtMemsetD32Async(address, size(4), value, size(1), stream) == 0


def captured(rt, stream, *calls):
    graph = ctypes.c_void_p()
    assert rt.aclmdlRICaptureBegin(stream, 2) == 0
    assert [call() for call in calls] == [None] * len(calls)
    assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0
    return graph


def good(code):
    assert code == 0


def notify_of(rt):
    made = ctypes.c_void_p()
    assert rt.aclrtCreateNotify(ctypes.byref(made), none) == 0
    return made


def test_a_graph_waits_for_a_record_outside(acl, rt, stream, other, event, copied):
    x, back = copied(np.zeros(1, np.int32))
    y, found = copied(np.zeros(1, np.int32))
    gate = notify_of(rt)
    graph = captured(rt, stream, lambda: good(rt.aclrtStreamWaitEventWithFlag(stream, event, 0, 1)),
                     lambda: good(rt.aclrtMemcpyAsync(y, size(4), x, size(4), 3, stream)))
    for value in (1, 2):   # each execution waits for the record that was the latest when it was asked for
        assert rt.aclrtWaitAndResetNotify(gate, other, 0) == 0
        put(rt, x, value, other)
        assert rt.aclrtRecordEvent(event, other) == 0 and rt.aclmdlRIExecuteAsync(graph, stream) == 0
        time.sleep(0.02)
        assert found()[0] == value - 1
        assert rt.aclrtRecordNotify(gate, None) == 0 and acl.rt.synchronize_stream(stream.value) == 0
        assert found()[0] == value == back()[0]
    assert rt.aclmdlRIDestroy(graph) == 0 == rt.aclrtDestroyNotify(gate)


@pytest.mark.parametrize("branch", [False, True])
def test_the_abort_of_its_stream_ends_a_wait_of_a_graph(acl, rt, stream, other, event, copied, branch):
    """Of the stream that it is executed on, also where the wait is on a branch of the graph."""
    x, back = copied(np.zeros(1, np.int32))
    gate, third, fork, join = notify_of(rt), *(ctypes.c_void_p() for _ in range(3))
    assert rt.aclrtCreateStream(ctypes.byref(third)) == rt.aclrtCreateEvent(ctypes.byref(fork)) == rt.aclrtCreateEvent(ctypes.byref(join)) == 0
    waits = third if branch else stream
    begin = [lambda: good(rt.aclrtRecordEvent(fork, stream)), lambda: good(rt.aclrtStreamWaitEvent(third, fork))]
    end = [lambda: good(rt.aclrtRecordEvent(join, third)), lambda: good(rt.aclrtStreamWaitEvent(stream, join))]
    graph = captured(rt, stream, *begin, lambda: good(rt.aclrtStreamWaitEventWithFlag(waits, event, 0, 1)),
                     lambda: put(rt, x, 1, waits), *end)
    assert rt.aclrtWaitAndResetNotify(gate, other, 0) == 0 == rt.aclrtRecordEvent(event, other)
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    late = threading.Timer(10, lambda: good(rt.aclrtSetDevice(0)) or good(rt.aclrtRecordNotify(gate, None)))   # for one that does not end
    late.start()
    begun = time.monotonic()
    assert rt.aclrtStreamAbort(stream) == 0 and time.monotonic() - begun < 5 and back()[0] == 0
    late.cancel()
    assert rt.aclrtRecordNotify(gate, None) == 0 == acl.rt.synchronize_stream(other.value)
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value) and back()[0] == 1
    assert rt.aclmdlRIDestroy(graph) == rt.aclrtDestroyNotify(gate) == rt.aclrtDestroyEvent(fork) == rt.aclrtDestroyEvent(join) == 0
    assert rt.aclrtDestroyStream(third) == 0


@pytest.mark.parametrize("abort, told", [("stream", 0), ("device", ABORTED)])
def test_an_abort_ends_whatever_a_branch_of_a_graph_waits_for(acl, rt, stream, other, event, abort, told):
    """And leaves no error behind for the next execution. The event makes the graph run task by task."""
    gate, fork, join = notify_of(rt), ctypes.c_void_p(), ctypes.c_void_p()
    assert rt.aclrtCreateEvent(ctypes.byref(fork)) == 0 == rt.aclrtCreateEvent(ctypes.byref(join))
    graph = captured(rt, stream, lambda: good(rt.aclrtRecordEvent(fork, stream)), lambda: good(rt.aclrtStreamWaitEvent(other, fork)),
                     lambda: good(rt.aclrtRecordEventWithFlag(event, stream, 1)), lambda: good(rt.aclrtWaitAndResetNotify(gate, other, 0)),
                     lambda: good(rt.aclrtRecordEvent(join, other)), lambda: good(rt.aclrtStreamWaitEvent(stream, join)))
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    late = threading.Timer(10, lambda: good(rt.aclrtSetDevice(0)) or good(rt.aclrtRecordNotify(gate, None)))
    late.start()
    begun = time.monotonic()
    assert (rt.aclrtStreamAbort(stream) if abort == "stream" else rt.aclrtDeviceTaskAbort(0, 0)) == 0 and time.monotonic() - begun < 5
    late.cancel()
    assert acl.rt.synchronize_stream(stream.value) == told
    assert rt.aclrtRecordNotify(gate, None) == rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value)
    assert rt.aclmdlRIDestroy(graph) == rt.aclrtDestroyNotify(gate) == rt.aclrtDestroyEvent(fork) == rt.aclrtDestroyEvent(join) == 0


def test_a_record_in_a_graph_is_waited_for_outside(acl, rt, stream, other, event, copied):
    x, _ = copied(np.zeros(1, np.int32))
    y, found = copied(np.zeros(1, np.int32))
    gate = notify_of(rt)
    graph = captured(rt, stream, lambda: good(rt.aclrtWaitAndResetNotify(gate, stream, 0)), lambda: put(rt, x, 5, stream),
                     lambda: good(rt.aclrtRecordEventWithFlag(event, stream, 1)))
    again = captured(rt, stream, lambda: good(rt.aclrtStreamWaitEventWithFlag(stream, event, 0, 1)),
                     lambda: good(rt.aclrtMemcpyAsync(y, size(4), x, size(4), 3, stream)))
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    assert rt.aclmdlRIExecuteAsync(again, other) == 0   # one graph behind another
    assert acl.rt.synchronize_stream_with_timeout(other.value, 50) != 0 and found()[0] == 0
    assert rt.aclrtRecordNotify(gate, None) == 0 and acl.rt.synchronize_stream(other.value) == 0 and found()[0] == 5
    assert rt.aclrtRecordNotify(gate, None) == 0 and rt.aclmdlRIExecuteAsync(graph, stream) == 0
    assert rt.aclrtStreamWaitEvent(other, event) == 0 and acl.rt.synchronize_stream(other.value) == 0
    assert rt.aclmdlRIDestroy(graph) == 0 == rt.aclmdlRIDestroy(again) and rt.aclrtDestroyNotify(gate) == 0


def test_what_events_with_flags_refuse(acl, rt, stream, event):
    timed, plain = ctypes.c_void_p(), ctypes.c_void_p()
    assert rt.aclrtCreateEventExWithFlag(ctypes.byref(timed), 9) == 0 == rt.aclrtCreateEventWithFlag(ctypes.byref(plain), 1)
    assert rt.aclrtRecordEventWithFlag(event, stream, 2) == INVALID == rt.aclrtStreamWaitEventWithFlag(stream, event, 0, 2)
    assert rt.aclrtRecordEventWithFlag(event, stream, 1) == 107029   # not captured; and the event is one of that kind now
    assert rt.aclrtRecordEventWithFlag(event, stream, 0) == INVALID
    assert rt.aclmdlRICaptureBegin(stream, 2) == 0
    for one in (timed, plain):
        assert rt.aclrtRecordEventWithFlag(one, stream, 1) == UNSUPPORTED
    assert rt.aclrtStreamWaitEventWithFlag(stream, event, 1, 1) == INVALID   # no limit
    assert rt.aclrtRecordEventWithFlag(event, stream, 1) == 0
    assert rt.aclrtStreamWaitEventWithFlag(stream, event, 0, 1) == INVALID and "already" in acl.get_recent_err_msg()
    graph = ctypes.c_void_p()
    assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0 == rt.aclmdlRIDestroy(graph)
    assert rt.aclrtDestroyEvent(timed) == 0 == rt.aclrtDestroyEvent(plain)


def test_waits_with_a_limit(acl, rt, stream, other, event, copied):
    x, back = copied(np.zeros(1, np.int32))
    gate = notify_of(rt)
    assert rt.aclrtStreamWaitEventWithTimeout(stream, event, 1) == 0 == acl.rt.synchronize_stream(stream.value)   # never recorded
    assert rt.aclrtWaitAndResetNotify(gate, other, 0) == 0
    put(rt, x, 1, other)
    assert rt.aclrtRecordEventWithFlag(event, other, 0) == 0
    assert rt.aclrtStreamWaitEventWithTimeout(stream, event, 1) == 0
    assert acl.rt.synchronize_stream(stream.value) == LATE and "within 1 s" in acl.get_recent_err_msg()
    assert rt.aclrtStreamWaitEventWithFlag(stream, event, 60, 0) == 0
    put(rt, x, 2, stream)
    assert rt.aclrtRecordNotify(gate, None) == 0 and acl.rt.synchronize_stream(stream.value) == 0 and back()[0] == 2
    assert rt.aclrtStreamWaitEventWithTimeout(stream, event, -1) == INVALID
    assert rt.aclrtDestroyNotify(gate) == 0


CHILD = """
import ctypes, sys
rt, none = ctypes.CDLL({library!r}), ctypes.c_uint64(0)
notify, answer, stream = (ctypes.c_void_p() for _ in range(3))
assert rt.aclInit(None) == rt.aclrtSetDevice(0) == rt.aclrtCreateStream(ctypes.byref(stream)) == 0
print("ready", flush=True)
keys = sys.stdin.readline().split()
codes = [rt.aclrtNotifyImportByKey(ctypes.byref(made), key.encode(), none) for made, key in zip((notify, answer), keys)]
print(*codes, flush=True)
if codes == [0, 0]:
    assert rt.aclrtNotifyGetExportKey(notify, ctypes.create_string_buffer(65), ctypes.c_size_t(65), none) == 107000
    assert rt.aclrtWaitAndResetNotify(notify, stream, 30) == rt.aclrtRecordNotify(answer, stream) == 0
    assert rt.aclrtSynchronizeStream(stream) == rt.aclrtDestroyNotify(notify) == rt.aclrtDestroyNotify(answer) == 0
    print("done", flush=True)
"""


@pytest.mark.parametrize("allowed", ["nobody", "by number", "anybody"])
def test_notifies_of_two_processes(acl, rt, stream, allowed):
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(library=str(LIBRARIES / "libascendcl.so"))], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    notifies, keys = [notify_of(rt), notify_of(rt)], []
    assert rt.aclrtNotifySetImportPid(notifies[0], (ctypes.c_int32 * 1)(child.pid), size(1)) == PARAMETER   # not shared yet
    for one in notifies:
        key = ctypes.create_string_buffer(65)
        assert rt.aclrtNotifyGetExportKey(one, key, size(65), ctypes.c_uint64(2 if allowed == "anybody" else 0)) == 0
        keys.append(key.value.decode())
        if allowed == "by number":
            assert rt.aclrtNotifySetImportPid(one, (ctypes.c_int32 * 1)(child.pid), size(1)) == 0
    print(*keys, file=child.stdin, flush=True)
    codes = child.stdout.readline().split()
    if allowed == "nobody":
        assert codes == ["207006", "207006"] and child.wait() == 0
    else:
        assert codes == ["0", "0"]
        assert rt.aclrtRecordNotify(notifies[0], stream) == 0 == rt.aclrtWaitAndResetNotify(notifies[1], stream, 30)
        assert acl.rt.synchronize_stream(stream.value) == 0
        assert child.stdout.readline() == "done\n" and child.wait() == 0
    assert [rt.aclrtDestroyNotify(one) for one in notifies] == [0, 0]
    assert rt.aclrtNotifyImportByKey(ctypes.byref(ctypes.c_void_p()), keys[0].encode(), none) != 0
    assert "has destroyed the notify" in acl.get_recent_err_msg()


def test_what_sharing_a_notify_refuses(acl, rt, stream):
    notify, key = notify_of(rt), ctypes.create_string_buffer(65)
    assert rt.aclrtNotifyGetExportKey(notify, key, size(64), none) == INVALID
    assert rt.aclrtNotifyGetExportKey(notify, key, size(65), ctypes.c_uint64(1)) == INVALID
    assert rt.aclrtNotifyGetExportKey(notify, None, size(65), none) == INVALID
    assert rt.aclrtNotifyGetExportKey(stream, key, size(65), none) == HANDLE
    assert rt.aclrtNotifyImportByKey(ctypes.byref(ctypes.c_void_p()), b"softcann-m-1-2-3-4", none) == INVALID
    # What was raised before stays raised.
    assert rt.aclrtRecordNotify(notify, stream) == 0 == acl.rt.synchronize_stream(stream.value)
    assert rt.aclrtNotifyGetExportKey(notify, key, size(65), none) == 0
    assert rt.aclrtWaitAndResetNotify(notify, stream, 1) == 0 == acl.rt.synchronize_stream(stream.value)
    assert rt.aclrtNotifySetImportPid(notify, None, size(1)) == INVALID
    assert rt.aclrtNotifySetImportPid(notify, (ctypes.c_int32 * 1)(1), size(0)) == PARAMETER
    assert rt.aclrtDestroyNotify(notify) == 0


class Record(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int), ("value", ctypes.c_uint32)]


class Wait(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int), ("value", ctypes.c_uint32), ("timeout", ctypes.c_uint32), ("clears", ctypes.c_uint8),
                ("rsv", ctypes.c_uint8 * 3)]


@pytest.fixture
def count(rt):
    made, number = ctypes.c_void_p(), ctypes.c_uint32()
    assert rt.aclrtCntNotifyCreate(ctypes.byref(made), none) == 0 == rt.aclrtCntNotifyGetId(made, ctypes.byref(number))
    yield made
    assert rt.aclrtCntNotifyDestroy(made) == 0 and rt.aclrtCntNotifyDestroy(made) == HANDLE


@pytest.mark.parametrize("graph", [False, True])
def test_counts(acl, rt, stream, other, count, graph):
    def work():
        for mode, value in ((0, 5), (1, 3), (2, 16), (4, 25)):   # 5, 8, 24, 24
            good(rt.aclrtCntNotifyRecord(count, stream, ctypes.byref(Record(mode, value))))
        for mode, value in ((0, 25), (1, 24), (2, 23), (3, 24), (4, 8)):
            good(rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(mode, value, 20))))
        good(rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(1, 24, 20, 1))))   # and makes it 0
        good(rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(1, 0, 20))))
    if graph:
        made = captured(rt, stream, work)
        for _ in range(2):
            assert rt.aclmdlRIExecuteAsync(made, stream) == 0 == acl.rt.synchronize_stream(stream.value)
        assert rt.aclmdlRIDestroy(made) == 0
    else:
        work()
    assert acl.rt.synchronize_stream(stream.value) == 0
    assert rt.aclrtCntNotifyRecord(count, stream, ctypes.byref(Record(0, 2))) == 0 == rt.aclrtCntNotifyReset(count, stream)
    assert rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(2, 0, 1))) == 0
    assert acl.rt.synchronize_stream(stream.value) == LATE and "the count is 0" in acl.get_recent_err_msg()


@pytest.mark.parametrize("kind", ["count", "notify", "value"])
def test_waits_of_graphs_end_with_the_stream_s_tasks(acl, rt, stream, count, copied, kind):
    x, back = copied(np.zeros(2, np.uint64))
    gate = notify_of(rt)
    waits = {"count": lambda: rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(1, 5, 0))),
             "notify": lambda: rt.aclrtWaitAndResetNotify(gate, stream, 0),
             "value": lambda: rt.aclrtValueWait(x, ctypes.c_uint64(5), 1, stream)}
    after = ctypes.c_void_p(x.value + 8)
    graph = captured(rt, stream, lambda: good(waits[kind]()), lambda: put(rt, after, 7, stream))
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    assert rt.aclrtSynchronizeStreamWithTimeout(stream, 20) == 507046
    assert rt.aclrtStreamAbort(stream) == 0 and back().tolist() == [0, 0]   # what comes after is dropped, too
    put(rt, after, 8, stream)
    assert acl.rt.synchronize_stream(stream.value) == 0 and back().tolist() == [0, 8]
    assert rt.aclmdlRIDestroy(graph) == 0 == rt.aclrtDestroyNotify(gate)


def test_what_counts_refuse(rt, stream, count):
    assert rt.aclrtCntNotifyCreate(ctypes.byref(ctypes.c_void_p()), ctypes.c_uint64(1)) == INVALID
    assert rt.aclrtCntNotifyRecord(count, stream, ctypes.byref(Record(3, 1))) == INVALID == rt.aclrtCntNotifyRecord(count, stream, None)
    assert rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(5, 1))) == INVALID
    assert rt.aclrtCntNotifyWaitWithTimeout(count, stream, ctypes.byref(Wait(0, 1, 0, 2))) == INVALID
    assert rt.aclrtCntNotifyReset(stream, stream) == HANDLE and rt.aclrtCntNotifyReset(None, stream) == INVALID


def test_host_functions_in_a_subscribed_thread(acl, rt, stream):
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    ran, end = [], threading.Event()
    function = kind(lambda _: ran.append(threading.get_ident()))
    codes = []

    def serve():
        while not end.is_set():
            codes.append(rt.aclrtProcessHostFunc(20))
    thread = threading.Thread(target=serve)
    thread.start()
    identity = ctypes.c_uint64(thread.ident)
    assert rt.aclrtSubscribeHostFunc(identity, stream) == 0 and rt.aclrtSubscribeHostFunc(identity, stream) == 107011
    assert rt.aclrtLaunchHostFunc(stream, function, None) == 0 == acl.rt.synchronize_stream(stream.value)
    graph = captured(rt, stream, lambda: good(rt.aclrtLaunchHostFunc(stream, function, None)))
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value)
    assert ran == [thread.ident] * 2
    end.set()
    thread.join()
    assert rt.aclrtLaunchHostFunc(stream, function, None) == 0   # nobody comes for it: it runs all the same
    assert rt.aclrtStreamAbort(stream) == 0 and len(ran) == 3 and ran.pop() != thread.ident
    assert rt.aclrtLaunchHostFunc(stream, function, None) == 0   # nobody comes for it,
    assert rt.aclrtUnSubscribeHostFunc(identity, stream) == 0    # so that the stream runs it
    assert acl.rt.synchronize_stream(stream.value) == 0 and len(ran) == 3 and ran[2] != thread.ident
    assert rt.aclrtUnSubscribeHostFunc(identity, stream) == 107015 and rt.aclrtProcessHostFunc(20) == 107012
    assert rt.aclrtProcessHostFunc(0) == INVALID == rt.aclrtSubscribeHostFunc(none, stream)
    assert rt.aclrtSubscribeHostFunc(identity, None) == INVALID and rt.aclmdlRIDestroy(graph) == 0
    assert set(codes) <= {0, 107012, 507012}   # no stream yet, or nothing came in time


def test_streams_by_a_configuration(acl, rt):
    rt.aclrtCreateStreamConfigHandle.restype = ctypes.c_void_p
    handle, stream, found = ctypes.c_void_p(rt.aclrtCreateStreamConfigHandle()), ctypes.c_void_p(), ctypes.c_uint32()
    for attribute, value in ((0, ctypes.c_void_p(0)), (1, size(0)), (2, size(8)), (2, ctypes.c_uint32(4)), (3, ctypes.c_uint32(2))):
        assert rt.aclrtSetStreamConfigOpt(handle, attribute, ctypes.byref(value), size(ctypes.sizeof(value))) == 0
    assert rt.aclrtSetStreamConfigOpt(handle, 3, ctypes.byref(size(1)), size(8)) == INVALID
    assert rt.aclrtSetStreamConfigOpt(handle, 4, ctypes.byref(size(1)), size(8)) == INVALID
    assert rt.aclrtCreateStreamV2(ctypes.byref(stream), handle) == 0
    assert rt.aclrtStreamGetPriority(stream, ctypes.byref(found)) == 0 and found.value == 2
    assert rt.aclrtStreamGetFlags(stream, ctypes.byref(found)) == 0 and found.value == 4
    assert rt.aclrtDestroyStream(stream) == 0
    assert rt.aclrtSetStreamConfigOpt(handle, 3, ctypes.byref(ctypes.c_uint32(8)), size(4)) == 0
    assert rt.aclrtCreateStreamV2(ctypes.byref(stream), handle) == INVALID == rt.aclrtCreateStreamV2(ctypes.byref(stream), None)
    assert rt.aclrtDestroyStreamConfigHandle(handle) == 0 and rt.aclrtDestroyStreamConfigHandle(None) == INVALID
