"""libmspti and mstx: records of what a program runs, given to itself while it runs."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
PYTHON = ROOT / "third_party" / "softcann" / "python"

START = """
import ctypes, time
import mspti
from mspti import MsptiResult as R
acl = ctypes.CDLL("libascendcl.so")
tx = ctypes.CDLL("libms_tools_ext.so")
tx.mstxRangeStartA.restype = tx.mstxDomainRangeStartA.restype = ctypes.c_uint64
tx.mstxDomainCreateA.restype = ctypes.c_void_p
pti = ctypes.CDLL("libmspti.so")
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
memory, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(4096), 0) == 0 and acl.aclrtCreateStream(ctypes.byref(stream)) == 0
stream_id = ctypes.c_int32()
assert acl.aclrtStreamGetId(stream, ctypes.byref(stream_id)) == 0
"""


def run(code):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "PYTHONPATH": str(PYTHON)}
    done = subprocess.run([sys.executable, "-c", START + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_marks_and_ranges_of_host_and_device():
    run("""
marks, ranges = [], []
monitor = mspti.MstxMonitor()
assert tx.mstxRangeStartA(b"nobody looks", None) == 0
begun = time.time_ns()
assert monitor.start(marks.append, ranges.append) is R.MSPTI_SUCCESS
tx.mstxMarkA(b"host", None)
tx.mstxMarkA(b"both", stream)
domain = ctypes.c_void_p(tx.mstxDomainCreateA(b"data"))
range_id = ctypes.c_uint64(tx.mstxDomainRangeStartA(domain, b"load", stream))
assert range_id.value != 0
plain = ctypes.c_uint64(tx.mstxRangeStartA(b"plain", None))
tx.mstxDomainRangeEnd(domain, range_id)
tx.mstxRangeEnd(plain)
tx.mstxRangeEnd(plain)          # ended already: nothing
assert acl.aclrtSynchronizeStream(stream) == 0
assert monitor.disable_domain("data") is R.MSPTI_SUCCESS
tx.mstxDomainMarkA(domain, b"silent", None)
assert monitor.stop() is R.MSPTI_SUCCESS
ended = time.time_ns()
tx.mstxMarkA(b"late", None)
assert [(m.name, m.domain, m.source_kind.name[-4:]) for m in marks] == [
    ("host", "default", "HOST"), ("both", "default", "HOST"), ("both", "default", "VICE")], [vars(m) for m in marks]
assert marks[2].id == marks[1].id != marks[0].id
assert (marks[2].object_id.device_id, marks[2].object_id.stream_id) == (0, stream_id.value)
assert marks[1].flag.name.endswith("WITH_DEVICE") and not marks[0].flag.name.endswith("WITH_DEVICE")
assert [(r.name, r.domain, r.source_kind.name[-4:]) for r in ranges] == [
    ("load", "data", "HOST"), ("load", "data", "VICE"), ("plain", "default", "HOST")]
for r in ranges:
    assert begun <= r.start <= r.end <= ended
""")


def test_buffers_are_asked_for_and_records_walked():
    """Without the Python package: a buffer of two records is filled, the rest is dropped when the client gives none."""
    run("""
class Api(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("kind", ctypes.c_uint32), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("pid", ctypes.c_uint32),
                ("tid", ctypes.c_uint32), ("correlation", ctypes.c_uint64), ("name", ctypes.c_char_p)]
class External(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("kind", ctypes.c_uint32), ("of", ctypes.c_uint32), ("id", ctypes.c_uint64), ("correlation", ctypes.c_uint64)]
import os, threading
space = ctypes.create_string_buffer(80)     # an external correlation and a call, and a bit
asked, seen = [], []
def request(buffer, size, most):
    asked.append(1)
    buffer[0], size[0], most[0] = (ctypes.addressof(space) if len(asked) < 3 else None), 80, 0
def complete(buffer, size, valid):
    record = ctypes.c_void_p()
    while pti.msptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0:
        kind = ctypes.c_uint32.from_address(record.value).value
        layout = {8: External, 10: Api}[kind].from_address(record.value)
        seen.append((kind, layout.correlation, layout.id if kind == 8 else layout.name.decode()))
        if kind == 10:
            assert layout.pid == os.getpid() and layout.tid == threading.get_native_id() and layout.start <= layout.end
P = ctypes.POINTER
request_ = ctypes.CFUNCTYPE(None, P(ctypes.c_void_p), P(ctypes.c_size_t), P(ctypes.c_size_t))(request)
complete_ = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(complete)
subscriber, other = ctypes.c_void_p(), ctypes.c_void_p()
assert pti.msptiActivityFlushAll(0) == 1                                     # nobody to give to
assert pti.msptiSubscribe(ctypes.byref(subscriber), None, None) == 0
assert pti.msptiSubscribe(ctypes.byref(other), None, None) == 2              # one at a time
assert pti.msptiActivityRegisterCallbacks(None, complete_) == 1
assert pti.msptiActivityRegisterCallbacks(request_, complete_) == 0
assert pti.msptiActivityEnable(5) == 1 and pti.msptiActivityEnable(99) == 1  # no records of memory: not a silent success
pti.msptiActivityIsEnabled.restype = ctypes.c_bool
assert pti.msptiActivityEnable(8) == 0 and pti.msptiActivityEnable(10) == 0 and pti.msptiActivityIsEnabled(10)
last = ctypes.c_uint64()
assert pti.msptiActivityPopExternalCorrelationId(2, ctypes.byref(last)) == 5
assert pti.msptiActivityPushExternalCorrelationId(2, ctypes.c_uint64(41)) == 0
assert pti.msptiActivityPushExternalCorrelationId(2, ctypes.c_uint64(42)) == 0
for _ in range(3):
    assert acl.aclrtMemsetAsync(memory, ctypes.c_size_t(64), 1, ctypes.c_size_t(64), stream) == 0
assert pti.msptiActivityPopExternalCorrelationId(2, ctypes.byref(last)) == 0 and last.value == 42
assert pti.msptiActivityFlushAll(0) == 0
dropped = ctypes.c_size_t()
assert pti.msptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped)) == 0 and dropped.value == 2, dropped.value
assert len(asked) == 3 and [s[0] for s in seen] == [8, 10, 8, 10], seen
assert [s[2] for s in seen] == [42, "aclrtMemsetAsync"] * 2
assert seen[0][1] == seen[1][1] != seen[2][1] == seen[3][1]                   # each with its own call
assert pti.msptiUnsubscribe(subscriber) == 0 and pti.msptiUnsubscribe(subscriber) == 1 and not pti.msptiActivityIsEnabled(10)
""")


def test_kernels_belong_to_the_calls_that_launched_them():
    """Through an adapter: each aclnn call has its kernel, by the correlation."""
    pytest.importorskip("torch_npu")
    code = """
import torch, torch_npu
kernels = []
x = torch.ones(8, 8, device="npu")
monitor = mspti.KernelMonitor()
assert monitor.start(7) is R.MSPTI_ERROR_INVALID_PARAMETER and monitor.set_buffer_size(0) is R.MSPTI_ERROR_INVALID_PARAMETER
assert monitor.start(kernels.append) is R.MSPTI_SUCCESS
(x @ x).relu().sum().item()
assert monitor.flush_all() is R.MSPTI_SUCCESS
some = len(kernels)
assert some >= 3
assert monitor.stop() is R.MSPTI_SUCCESS
x + x
torch.npu.synchronize()
assert len(kernels) == some
names = [k.name for k in kernels]
assert any("Mm" in name or "Matmul" in name for name in names) and "aclnnRelu" in names, names
cube = next(k for k in kernels if "Mm" in k.name or "Matmul" in k.name)
assert cube.type == "KERNEL_AICORE" and next(k for k in kernels if k.name == "aclnnRelu").type == "KERNEL_AIVEC"
assert all(k.correlation_id > 0 and k.start <= k.end and k.device_id == 0 for k in kernels)
assert len({k.correlation_id for k in kernels}) == len(kernels)
"""
    run(code)


def test_periods_deliver_by_themselves():
    run("""
import threading
got = threading.Event()
monitor = mspti.MstxMonitor()
assert monitor.start(lambda mark: got.set()) is R.MSPTI_SUCCESS
assert monitor.flush_period(20) is R.MSPTI_SUCCESS and monitor.flush_period(-1) is R.MSPTI_ERROR_INVALID_PARAMETER
tx.mstxMarkA(b"soon", None)
assert got.wait(20)
assert monitor.stop() is R.MSPTI_SUCCESS
""")


def test_collectives_have_their_elements_and_group():
    pytest.importorskip("torch_npu")
    run("""
import tempfile
import torch, torch_npu
import torch.distributed as dist
dist.init_process_group("hccl", init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
x = torch.ones(1000, dtype=torch.bfloat16, device="npu")
dist.all_reduce(x)
data, rates = [], []
both = mspti.CommunicationMonitor(), mspti.HcclMonitor()
assert [monitor.start(into.append) for monitor, into in zip(both, (data, rates))] == [R.MSPTI_SUCCESS] * 2
dist.all_reduce(x)
torch.npu.synchronize()
assert [monitor.stop() for monitor in both] == [R.MSPTI_SUCCESS] * 2
one, = data
assert (one.name, one.count, one.data_type.name) == ("HcclAllReduce", 1000, "MSPTI_ACTIVITY_COMMUNICATION_BFP16")
assert one.comm_name and one.correlation_id and one.start < one.end
rate, = rates
assert rate.bandwidth == 2000 / (rate.end - rate.start) and rate.comm_name == one.comm_name
dist.destroy_process_group()
""")


CALLBACKS = """
class Data(ctypes.Structure):
    _fields_ = [("site", ctypes.c_int), ("name", ctypes.c_char_p), ("params", ctypes.c_void_p), ("result", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("correlation", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 2),
                ("between", ctypes.POINTER(ctypes.c_uint64))]
told = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(Data))
def callback(userdata, domain, cbid, data):
    told.append((userdata, domain, cbid, data.contents.site, data.contents.name.decode(), data.contents.correlation))
    if data.contents.site == 0:
        assert data.contents.between[0] == 0
        data.contents.between[0] = 100 + cbid
        acl.aclrtGetMemInfo(1, ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))   # a call of the callback's own
    else:
        assert data.contents.between[0] == 100 + cbid
subscriber = ctypes.c_void_p()
assert pti.msptiSubscribe(ctypes.byref(subscriber), callback, ctypes.c_void_p(42)) == 0
"""


def test_callbacks_at_the_begin_and_the_end_of_calls():
    run(CALLBACKS + """
SET, SYNCHRONIZE, MALLOC, FREE, CREATE, DESTROY = 28, 9, 15, 16, 7, 8
assert pti.msptiEnableCallback(1, subscriber, 1, MALLOC) == 0 and pti.msptiEnableCallback(1, subscriber, 1, SET) == 0
for wrong in ((None, 1, MALLOC), (subscriber, 3, MALLOC), (subscriber, 1, 0), (subscriber, 1, 37), (subscriber, 2, 13)):
    assert pti.msptiEnableCallback(1, wrong[0], wrong[1], wrong[2]) == 1
assert pti.msptiEnableDomain(1, None, 1) == 1
more = ctypes.c_void_p()
def work():
    assert acl.aclrtMalloc(ctypes.byref(more), ctypes.c_size_t(64), 0) == 0
    assert acl.aclrtMemsetAsync(more, ctypes.c_size_t(64), 1, ctypes.c_size_t(64), stream) == 0
    assert acl.aclrtSynchronizeStream(stream) == 0 and acl.aclrtFree(more) == 0
work()
assert [t[:5] for t in told] == [(42, 1, MALLOC, 0, "aclrtMalloc"), (42, 1, MALLOC, 1, "aclrtMalloc"),
                                 (42, 1, SET, 0, "aclrtMemsetAsync"), (42, 1, SET, 1, "aclrtMemsetAsync")], told
assert told[0][5] == told[1][5] != told[2][5] == told[3][5] != 0
told.clear()
assert pti.msptiEnableDomain(1, subscriber, 1) == 0
work()
other = ctypes.c_void_p()
assert acl.aclrtCreateStream(ctypes.byref(other)) == 0 and acl.aclrtDestroyStream(other) == 0
assert [t[2] for t in told] == [x for c in (MALLOC, SET, SYNCHRONIZE, FREE, CREATE, DESTROY) for x in (c, c)], told
assert [t[3] for t in told] == [0, 1] * 6
told.clear()
assert acl.aclrtMalloc(None, ctypes.c_size_t(64), 0) != 0        # refused: begins and ends all the same
assert [t[2:4] for t in told] == [(MALLOC, 0), (MALLOC, 1)], told
told.clear()
assert pti.msptiEnableCallback(0, subscriber, 1, SET) == 0
assert acl.aclrtMemsetAsync(memory, ctypes.c_size_t(64), 1, ctypes.c_size_t(64), stream) == 0 and told == []
assert pti.msptiEnableDomain(0, subscriber, 1) == 0
work()
assert told == []
assert pti.msptiEnableDomain(1, subscriber, 1) == 0 and pti.msptiUnsubscribe(subscriber) == 0
work()
assert told == []
""")


def test_callbacks_of_kernels_and_of_activities_have_one_correlation():
    pytest.importorskip("torch_npu")
    run(CALLBACKS + """
import torch, torch_npu
LAUNCH = 10
x = torch.ones(8, device="npu")
kernels = []
pti.msptiUnsubscribe(subscriber)
monitor = mspti.KernelMonitor()
assert monitor.start(kernels.append) is R.MSPTI_SUCCESS
x + x
assert monitor.stop() is R.MSPTI_SUCCESS and len(kernels) == 1
assert pti.msptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
for cbid in range(10, 15):
    assert pti.msptiEnableCallback(1, subscriber, 1, cbid) == 0
assert (x * 3).relu().tolist() == [3.0] * 8
assert [(t[2], t[3], t[4]) for t in told] == [(LAUNCH, site, name) for name in ("aclnnMuls", "aclnnRelu") for site in (0, 1)], told
""")
