"""Graphs that a client builds of streams it binds, with labels, branches and streams that others activate."""
import ctypes

import numpy as np
import pytest

INVALID, HANDLE, UNSUPPORTED, NOT_BOUND, EXECUTE, ABORTED = 100000, 107017, 207000, 107005, 507011, 507023
HEAD, DEFAULT, PERSISTENT = 0, 0x7FFFFFFF, 4
size = ctypes.c_size_t


@pytest.fixture
def word(copied):
    """A number in device memory: its address, and what it is."""
    def make(value, dtype=np.uint32):
        address, back = copied(np.array([value], dtype))
        return address, lambda: int(back()[0])
    return make


@pytest.fixture
def built(rt):
    """A graph that has begun, and a function that binds a new stream to it."""
    graph, streams = ctypes.c_void_p(), []
    assert rt.aclmdlRIBuildBegin(ctypes.byref(graph), 0) == 0

    def bind(flag=DEFAULT):
        stream = ctypes.c_void_p()
        assert rt.aclrtCreateStreamWithConfig(ctypes.byref(stream), 0, PERSISTENT) == 0
        assert rt.aclmdlRIBindStream(graph, stream, flag) == 0
        streams.append(stream)
        return stream
    yield graph, bind
    assert rt.aclmdlRIDestroy(graph) == 0
    assert [rt.aclrtDestroyStream(stream) for stream in streams] == [0] * len(streams)


def put(rt, address, value, stream):
    assert rt.aclrtMemsetD32Async(address, size(4), value, size(1), stream) == 0


def ended(rt, graph, stream):
    assert rt.aclmdlRIEndTask(graph, stream) == 0 and rt.aclmdlRIBuildEnd(graph, None) == 0


def executed(acl, rt, graph, stream):
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    return acl.rt.synchronize_stream(stream.value)


def labels(rt, count):
    made, group = (ctypes.c_void_p * count)(), ctypes.c_void_p()
    for i in range(count):
        label = ctypes.c_void_p()
        assert rt.aclrtCreateLabel(ctypes.byref(label)) == 0
        made[i] = label
    assert rt.aclrtCreateLabelList(made, size(count), ctypes.byref(group)) == 0
    return [ctypes.c_void_p(one) for one in made], group


def test_a_label_by_its_number(acl, rt, stream, built, word):
    graph, bind = built
    head = bind(HEAD)
    (index, _), (x, value) = word(1), word(0)
    made, group = labels(rt, 3)
    assert rt.aclrtSwitchLabelByIndex(index, 3, group, head) == 0
    for i, label in enumerate(made):
        assert rt.aclrtSetLabel(label, head) == 0
        put(rt, x, 10 + i, head)
        if i < 2:   # on to the end
            assert rt.aclrtSwitchLabelByIndex(word(2)[0], 3, group, head) == 0
    ended(rt, graph, head)
    assert value() == 0   # nothing has run yet
    for number in (0, 1, 2, 9):   # beyond the last: the last
        put(rt, index, number, stream)
        assert executed(acl, rt, graph, stream) == 0 and value() == 12
    assert rt.aclrtDestroyLabelList(group) == 0 == rt.aclrtDestroyLabel(made[0])
    assert rt.aclrtDestroyLabelList(group) == HANDLE == rt.aclrtDestroyLabel(made[0])


def test_a_jump_to_a_label_leaves_the_rest_out(acl, rt, stream, built, word):
    graph, bind = built
    head, other = bind(HEAD), bind()
    (index, _), (x, first), (y, second) = word(0), word(0), word(0)
    made, group = labels(rt, 2)
    put(rt, y, 5, other)                       # before the label: not run
    assert rt.aclrtSetLabel(made[1], other) == 0
    put(rt, x, 2, other)
    assert rt.aclmdlRIEndTask(graph, other) == 0
    assert rt.aclrtSwitchLabelByIndex(index, 2, group, head) == 0
    put(rt, x, 9, head)                        # after the jump: never
    assert rt.aclrtSetLabel(made[0], head) == 0
    put(rt, x, 1, head)
    assert rt.aclrtActiveStream(other, head) == 0
    assert rt.aclmdlRIBuildEnd(graph, None) == 0
    put(rt, index, 1, stream)
    assert executed(acl, rt, graph, stream) == 0 and (first(), second()) == (2, 0)
    put(rt, index, 0, stream)
    assert executed(acl, rt, graph, stream) == 0 and (first(), second()) == (2, 5)


@pytest.mark.parametrize("condition, holds", [(0, "=="), (1, "!="), (2, ">"), (3, ">="), (4, "<"), (5, "<=")])
@pytest.mark.parametrize("wide", [0, 1])
def test_branches_by_numbers(acl, rt, stream, built, word, condition, holds, wide):
    graph, bind = built
    head, taken, last = bind(HEAD), bind(), bind()
    dtype = np.int64 if wide else np.int32
    low = -2**40 if wide else -7
    (left, _), (right, _), (x, value) = word(low, dtype), word(low, dtype), word(0)
    assert rt.aclrtSwitchStream(left, condition, right, wide, taken, None, head) == 0
    put(rt, x, 1, head)
    assert rt.aclrtActiveStream(last, head) == 0
    put(rt, x, 2, taken)
    assert rt.aclrtActiveStream(last, taken) == 0
    ended(rt, graph, last)
    for a in (low - 1, low, low + 1):
        array = np.array([a], dtype)
        assert acl.rt.memcpy(left.value, array.nbytes, array.ctypes.data, array.nbytes, 1) == 0
        assert executed(acl, rt, graph, stream) == 0
        assert value() == (2 if eval(f"{a} {holds} {low}") else 1)


def test_a_loop_of_streams(acl, rt, stream, built, word):
    """head -> body -> body ... until the sum is 5: each round adds 1."""
    graph, bind = built
    head, body, last = bind(HEAD), bind(), bind()
    (total, value), (one, _), (limit, _) = word(0, np.int32), word(1, np.int32), word(5, np.int32)
    assert rt.aclrtActiveStream(body, head) == 0
    assert rt.aclrtReduceAsync(total, one, ctypes.c_uint64(4), 10, 3, body, None) == 0
    assert rt.aclrtSwitchStream(total, 3, limit, 0, last, None, body) == 0
    assert rt.aclrtActiveStream(head, body) == 0   # which activates it again
    ended(rt, graph, last)
    assert executed(acl, rt, graph, stream) == 0 and value() == 5


def test_events_order_the_streams(acl, rt, stream, built, word):
    graph, bind = built
    first, second = bind(HEAD), bind(HEAD)
    event, (x, value) = ctypes.c_void_p(), word(0)
    assert rt.aclrtCreateEventExWithFlag(ctypes.byref(event), 1) == 0
    put(rt, x, 1, first)
    assert rt.aclrtRecordEvent(event, first) == 0 == rt.aclrtStreamWaitEvent(second, event)
    put(rt, x, 2, second)
    ended(rt, graph, second)
    assert executed(acl, rt, graph, stream) == 0 and value() == 2
    assert rt.aclrtStreamWaitEvent(stream, event) == NOT_BOUND
    assert rt.aclrtDestroyEvent(event) == 0


def test_bound_streams_belong_to_their_graph(acl, rt, stream, built, word):
    graph, bind = built
    head, (x, value) = bind(HEAD), word(3)
    found, count = (ctypes.c_void_p * 2)(), ctypes.c_uint32(2)
    assert rt.aclmdlRIGetStreams(graph, None, ctypes.byref(count)) == 0 and count.value == 1
    assert rt.aclmdlRIGetStreams(graph, found, ctypes.byref(count)) == 0 and found[0] == head.value
    for call in (rt.aclrtSynchronizeStream, rt.aclrtDestroyStream, rt.aclrtPersistentTaskClean):
        assert call(head) == NOT_BOUND and "bound to graph" in acl.get_recent_err_msg()
    assert rt.aclmdlRIBindStream(graph, head, HEAD) == INVALID
    assert rt.aclmdlRICaptureEnd(head, ctypes.byref(ctypes.c_void_p())) == 107029
    assert rt.aclmdlRIExecuteAsync(graph, stream) != 0   # it is not complete
    put(rt, x, 4, head)
    ended(rt, graph, head)
    assert executed(acl, rt, graph, stream) == 0 and value() == 4
    assert rt.aclrtSetLabel(labels(rt, 1)[0][0], head) == NOT_BOUND   # the building is over
    assert rt.aclmdlRIUnbindStream(graph, head) == 0 and rt.aclmdlRIUnbindStream(graph, head) == NOT_BOUND
    put(rt, x, 6, head)   # runs by itself again
    assert rt.aclrtPersistentTaskClean(head) == 0 and rt.aclrtPersistentTaskClean(stream) == INVALID
    put(rt, x, 5, stream)
    assert executed(acl, rt, graph, stream) == 0 and value() == 4


def test_tasks_after_the_end_fail_the_executions(acl, rt, stream, built, word):
    graph, bind = built
    head = bind(HEAD)
    ended(rt, graph, head)
    assert executed(acl, rt, graph, stream) == 0
    put(rt, word(0)[0], 1, head)
    assert executed(acl, rt, graph, stream) == EXECUTE and "after aclmdlRIBuildEnd" in acl.get_recent_err_msg()


def test_graphs_that_cannot_come_to_their_end(acl, rt, stream, built):
    graph, bind = built
    bind(HEAD)
    ended(rt, graph, bind())   # which nobody activates
    assert executed(acl, rt, graph, stream) == EXECUTE and "did not come to its end" in acl.get_recent_err_msg()


def test_an_execution_is_stopped(acl, rt, stream, built, word):
    graph, bind = built
    head, again = bind(HEAD), bind()
    assert rt.aclrtActiveStream(again, head) == 0 == rt.aclrtActiveStream(head, again)   # without end
    ended(rt, graph, bind())
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
    assert rt.aclrtSynchronizeStreamWithTimeout(stream, 50) == 507046
    assert rt.aclmdlRIAbort(graph) == 0
    assert acl.rt.synchronize_stream(stream.value) == ABORTED


def test_an_endless_execution_ends_with_its_stream_s_tasks(acl, rt, stream, built, word):
    graph, bind = built
    head, again, (x, value) = bind(HEAD), bind(), word(0)
    assert rt.aclrtActiveStream(again, head) == 0 == rt.aclrtActiveStream(head, again)
    ended(rt, graph, bind())
    for abort in (lambda: rt.aclrtStreamAbort(stream), lambda: rt.aclrtDeviceTaskAbort(0, 20000)):
        assert rt.aclmdlRIExecuteAsync(graph, stream) == 0
        assert rt.aclrtSynchronizeStreamWithTimeout(stream, 20) == 507046
        put(rt, x, 1, stream)   # dropped, too
        assert abort() == 0
        rt.aclrtSynchronizeStream(stream)   # the abort of a device is told
        assert value() == 0
    put(rt, x, 2, stream)
    assert acl.rt.synchronize_stream(stream.value) == 0 and value() == 2


def test_a_built_graph_is_a_task_of_a_captured_one(acl, rt, stream, built, word):
    graph, bind = built
    head, (x, value) = bind(HEAD), word(0)
    put(rt, x, 7, head)
    ended(rt, graph, head)
    outer = ctypes.c_void_p()
    assert rt.aclmdlRICaptureBegin(stream, 2) == 0 and rt.aclmdlRIExecuteAsync(graph, stream) == 0
    assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(outer)) == 0 and value() == 0
    assert rt.aclmdlRIAbort(outer) == UNSUPPORTED and rt.aclmdlRIGetStreams(outer, None, ctypes.byref(ctypes.c_uint32())) == INVALID
    assert executed(acl, rt, outer, stream) == 0 and value() == 7 and rt.aclmdlRIDestroy(outer) == 0


def test_what_is_refused(acl, rt, stream, built, word):
    graph, bind = built
    head, (x, _) = bind(HEAD), word(0)
    made, group = labels(rt, 2)
    other = ctypes.c_void_p()
    assert rt.aclmdlRIBuildBegin(ctypes.byref(other), 1) == INVALID == rt.aclmdlRIBuildBegin(None, 0)
    assert rt.aclmdlRIBindStream(graph, stream, HEAD) == INVALID   # not a persistent one
    assert rt.aclmdlRIBindStream(graph, None, HEAD) == INVALID and rt.aclmdlRIBindStream(stream, head, HEAD) == HANDLE
    assert rt.aclrtSwitchLabelByIndex(x, 3, group, head) == INVALID == rt.aclrtSwitchLabelByIndex(x, 0, group, head)
    assert rt.aclrtSwitchLabelByIndex(None, 2, group, head) == INVALID
    assert rt.aclrtSwitchLabelByIndex(x, 2, made[0], head) == HANDLE == rt.aclrtSetLabel(group, head)
    assert rt.aclrtSwitchLabelByIndex(x, 2, group, stream) == NOT_BOUND == rt.aclrtSetLabel(made[0], stream)
    assert rt.aclrtActiveStream(stream, head) == NOT_BOUND == rt.aclrtActiveStream(head, stream)
    assert rt.aclrtSwitchStream(x, 0, x, 0, stream, None, head) == NOT_BOUND
    assert rt.aclrtSwitchStream(x, 6, x, 0, head, None, head) == INVALID == rt.aclrtSwitchStream(x, 0, x, 2, head, None, head)
    assert rt.aclrtSwitchStream(x, 0, x, 0, head, head, head) == INVALID == rt.aclrtSwitchStream(x, 0, None, 0, head, None, head)
    assert rt.aclrtSetLabel(made[0], head) == 0 and rt.aclrtSetLabel(made[0], head) == INVALID
    assert rt.aclrtCreateLabelList((ctypes.c_void_p * 1)(made[0]), size(0), ctypes.byref(other)) == INVALID
    assert rt.aclmdlRIEndTask(graph, head) == 0 and rt.aclmdlRIEndTask(graph, head) == INVALID
    assert rt.aclmdlRIEndTask(graph, stream) == NOT_BOUND and rt.aclmdlRIBuildEnd(graph, stream) == INVALID
    assert rt.aclmdlRIBuildEnd(graph, None) == 0 and rt.aclmdlRIBuildEnd(graph, None) == INVALID
    empty = ctypes.c_void_p()
    assert rt.aclmdlRIBuildBegin(ctypes.byref(empty), 0) == 0
    assert rt.aclmdlRIBuildEnd(empty, None) == INVALID and "HEAD" in acl.get_recent_err_msg() and rt.aclmdlRIDestroy(empty) == 0
