"""SOFTCANN_CHECK: each kind of fault, planted below the adapter, is found and named; sound programs have no reports."""
import pathlib

import pytest
from fork_server import run_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = """
import ctypes, sys
sys.path.insert(0, {folder!r})
from nn_client import Client
call = Client({libraries!r})
acl, lib, LONG = call.acl, call.lib, ctypes.c_int64
def allocate(size):
    address = ctypes.c_void_p()
    assert acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(size), 0) == 0
    return address
def described(address, elements, stride=1):
    return ctypes.c_void_p(lib.aclCreateTensor(ctypes.byref(LONG(elements)), ctypes.c_uint64(1), 0, ctypes.byref(LONG(stride)),
                           LONG(0), 2, ctypes.byref(LONG(elements * stride)), ctypes.c_uint64(1), address))
def launch(name, *arguments):
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    assert getattr(lib, name + "GetWorkspaceSize")(*arguments, ctypes.byref(size), ctypes.byref(executor)) == 0
    return getattr(lib, name)(None, ctypes.c_uint64(0), executor, call.stream)
def synchronize():
    return acl.aclrtSynchronizeStream(call.stream)
def message():
    return (acl.aclGetRecentErrMsg() or b"").decode()
SIZE = ctypes.c_size_t
host = (ctypes.c_float * 64)(*range(64))
"""


def run(code, kinds, **environment):
    libraries = str(ROOT / "torch_npu" / "softcann" / "lib")
    prologue = CLIENT.format(folder=str(ROOT / "test" / "softcann_op"), libraries=libraries)
    done = run_python(prologue + code, timeout=300, SOFTCANN_HOST_TENSORS=0, SOFTCANN_MEMORY="256M", SOFTCANN_CHECK=kinds, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("softcann check: ")], done.stderr


def test_an_operator_that_reads_what_nobody_wrote_is_refused():
    lines, _ = run("""
x, y = allocate(256), allocate(256)
assert acl.aclrtMemcpy(x, SIZE(256), host, SIZE(100), 1) == 0      # 25 of 64 elements
assert launch("aclnnNeg", described(x, 64), described(y, 64)) == 161002
text = message()
assert "aclnnNeg(self=" in text and "parameter self: element 25 of its memory" in text, text
assert launch("aclnnNeg", described(x, 25), described(y, 25)) == 0
assert launch("aclnnNeg", described(y, 26), described(x, 26)) == 161002   # what was refused wrote nothing
assert synchronize() == 0
""", "init")
    assert len(lines) == 2 and all("init: aclnnNeg reads what nobody wrote" in line for line in lines)


def test_a_reduction_is_looked_at_too():
    lines, _ = run("""
x, y, notify, other = allocate(256), allocate(256), ctypes.c_void_p(), ctypes.c_void_p()
reduce = lambda: acl.aclrtReduceAsync(x, y, ctypes.c_uint64(256), 10, 0, call.stream, None)
assert acl.aclrtMemcpy(x, SIZE(256), host, SIZE(256), 1) == 0
assert acl.aclrtMemcpy(y, SIZE(256), host, SIZE(100), 1) == 0
assert reduce() == 0 and synchronize() == 161002 and "byte 100 of the source was never written" in message(), message()
assert acl.aclrtMemcpy(y, SIZE(256), host, SIZE(256), 1) == 0
assert acl.aclrtCreateNotify(ctypes.byref(notify), ctypes.c_uint64(0)) == acl.aclrtCreateStream(ctypes.byref(other)) == 0
assert acl.aclrtWaitAndResetNotify(notify, call.stream, 0) == reduce() == 0
assert acl.aclrtFree(y) == 107000 and "is in use by aclrtReduceAsync" in message(), message()
assert acl.aclrtRecordNotify(notify, other) == synchronize() == acl.aclrtFree(y) == 0
""", "memory,init,leak")
    assert [line.split(": ")[1] for line in lines[:2]] == ["init", "memory"]
    assert any("leak: 1 x notify" in line for line in lines)


def test_memory_of_a_pool_that_is_used_still_stays_with_the_client():
    lines, _ = run("""
class Props(ctypes.Structure):
    _fields_ = [("kinds", ctypes.c_int * 2), ("id", ctypes.c_uint32), ("type", ctypes.c_int), ("most", SIZE), ("rest", ctypes.c_ubyte * 32)]
pool, y, notify, other, used = (ctypes.c_void_p() for _ in range(5))
ZERO = ctypes.c_uint64(0)
assert acl.aclrtMemPoolCreate(ctypes.byref(pool), ctypes.byref(Props(type=1))) == acl.aclrtCreateStream(ctypes.byref(other)) == 0
assert acl.aclrtMemPoolMallocAsync(ctypes.byref(y), SIZE(256), pool, call.stream) == acl.aclrtCreateNotify(ctypes.byref(notify), ZERO) == 0
assert acl.aclrtWaitAndResetNotify(notify, other, 0) == acl.aclrtMemsetAsync(y, SIZE(256), 0, SIZE(256), other) == 0
assert acl.aclrtMemPoolFreeAsync(y, call.stream) == 0 and synchronize() == 161002 and "aclrtMemsetAsync" in message(), message()
assert acl.aclrtMemPoolGetAttr(pool, 7, ctypes.byref(used)) == 0 and used.value == 256    # it is in use, as before
assert acl.aclrtRecordNotify(notify, call.stream) == acl.aclrtSynchronizeStream(other) == 0
assert acl.aclrtMemPoolFreeAsync(y, call.stream) == synchronize() == 0
assert acl.aclrtMemPoolGetAttr(pool, 7, ctypes.byref(used)) == 0 and not used.value
assert acl.aclrtDestroyNotify(notify) == acl.aclrtDestroyStream(other) == acl.aclrtMemPoolDestroy(pool) == 0
""", "memory")
    assert len(lines) == 1


def test_what_is_refused_in_a_queue_is_told_at_the_synchronize():
    lines, _ = run("""
x, y = allocate(256), allocate(256)
assert launch("aclnnNeg", described(x, 64), described(y, 64)) == 0
assert synchronize() == 161002 and "was never written" in message()
assert synchronize() == 0
""", "init", SOFTCANN_INLINE_NS="0")
    assert len(lines) == 1


def test_views_with_gaps_reach_only_their_own_elements():
    lines, _ = run("""
x, y = allocate(256), allocate(256)
for i in range(0, 64, 2):
    assert acl.aclrtMemcpy(ctypes.c_void_p(x.value + 4 * i), SIZE(4), host, SIZE(4), 1) == 0
assert launch("aclnnNeg", described(x, 32, 2), described(y, 32, 2)) == 0
assert launch("aclnnNeg", described(y, 32, 2), described(x, 32, 2)) == 0
assert launch("aclnnNeg", described(x, 63), described(y, 63)) == 161002 and "element 1 of" in message()
""", "init")
    assert len(lines) == 1


def test_copies_carry_what_was_written_along():
    lines, _ = run("""
x, y = allocate(256), allocate(256)
assert acl.aclrtMemset(x, SIZE(256), 0, SIZE(128)) == 0
assert acl.aclrtMemcpyAsync(y, SIZE(256), x, SIZE(256), 3, call.stream) == 0
assert synchronize() == 0
assert launch("aclnnNeg", described(y, 32), described(y, 32)) == 0
assert acl.aclrtMemcpy(host, SIZE(128), y, SIZE(128), 2) == 0
assert acl.aclrtMemcpy(host, SIZE(132), y, SIZE(132), 2) == 107000 and "byte 128 of the source" in message()
assert acl.aclrtMemcpyAsync(host, SIZE(132), y, SIZE(132), 2, call.stream) == 0
assert synchronize() == 161002 and "byte 128 of the source" in message()
""", "init")
    assert len(lines) == 2


def test_new_memory_is_not_a_number():
    run("""
x, y = allocate(256), allocate(256)
assert acl.aclrtMemset(x, SIZE(256), 0, SIZE(256)) == 0
for p in (x, y):
    assert acl.aclrtFree(p) == 0
x = allocate(256)
assert launch("aclnnNeg", described(x, 1), described(x, 1)) == 161002
""", "init")


def test_memory_that_queued_work_uses_cannot_be_freed():
    lines, _ = run("""
x, y = allocate(256), allocate(256)
gate = allocate(256)
assert acl.aclrtMemset(gate, SIZE(256), 0, SIZE(256)) == 0
assert acl.aclrtValueWait(gate, ctypes.c_uint64(1), ctypes.c_uint32(1), call.stream) == 0
assert launch("aclnnInplaceZero", described(x, 64)) == 0
assert acl.aclrtMemcpyAsync(y, SIZE(256), x, SIZE(256), 3, call.stream) == 0
assert acl.aclrtFree(x) == 107000 and "in use by aclnnInplaceZero" in message().replace("aclrtMemcpyAsync", "aclnnInplaceZero")
assert acl.aclrtFree(y) == 107000 and "in use by aclrtMemcpyAsync" in message()
other = ctypes.c_void_p()
assert acl.aclrtCreateStream(ctypes.byref(other)) == 0
assert acl.aclrtValueWrite(gate, ctypes.c_uint64(1), ctypes.c_uint32(0), other) == 0
assert synchronize() == 0
assert acl.aclrtFree(x) == 0 and acl.aclrtFree(y) == 0
""", "memory")
    assert len(lines) == 2 and "memory: aclrtFree(" in lines[0]


def test_memory_that_another_stream_uses_cannot_be_freed():
    lines, _ = run("""
x, gate, other, third = allocate(256), allocate(256), ctypes.c_void_p(), ctypes.c_void_p()
assert acl.aclrtMemset(gate, SIZE(256), 0, SIZE(256)) == 0
assert acl.aclrtCreateStream(ctypes.byref(other)) == 0 and acl.aclrtCreateStream(ctypes.byref(third)) == 0
assert launch("aclnnInplaceZero", described(x, 64)) == 0 and synchronize() == 0     # its own stream is done with it
assert acl.aclrtValueWait(gate, ctypes.c_uint64(1), ctypes.c_uint32(1), other) == 0
assert acl.aclrtMemsetAsync(x, SIZE(256), 0, SIZE(256), other) == 0
assert acl.aclrtFree(x) == 107000 and "in use by aclrtMemsetAsync" in message()
assert acl.aclrtValueWrite(gate, ctypes.c_uint64(1), ctypes.c_uint32(0), third) == 0
assert acl.aclrtSynchronizeStream(other) == 0 and acl.aclrtFree(x) == 0
""", "memory")
    assert len(lines) == 1 and "aclrtMemsetAsync that uses it" in lines[0]


def test_memory_that_was_freed_is_not_handed_out_at_once():
    """A use after the free, on whichever stream, meets no other allocation in its place."""
    lines, _ = run("""
other = ctypes.c_void_p()
assert acl.aclrtCreateStream(ctypes.byref(other)) == 0
x = allocate(1 << 20)
stale, places = described(x, 64), {x.value}
assert acl.aclrtFree(x) == 0 and acl.aclrtFree(x) == 107000
for _ in range(20):
    y = allocate(1 << 20)
    assert y.value not in places
    places.add(y.value)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    assert lib.aclnnInplaceZeroGetWorkspaceSize(stale, ctypes.byref(size), ctypes.byref(executor)) == 161002
    assert "is not allocated" in message()
    assert acl.aclrtMemsetAsync(x, SIZE(256), 0, SIZE(256), other) == 107000
    assert acl.aclrtFree(y) == 0
kept = [allocate(55 << 20) for _ in range(4)]      # nearly all of the 256 MiB: what rests makes room
for y in kept:
    assert acl.aclrtFree(y) == 0
allocate(200 << 20)
""", "memory")
    assert lines == []


def test_what_is_alive_at_exit_is_told_with_its_maker():
    lines, text = run("""
allocate(1000)
kept = [allocate(512) for _ in range(3)]
assert acl.aclrtFree(kept[0]) == 0
event = ctypes.c_void_p()
assert acl.aclrtCreateEvent(ctypes.byref(event)) == 0
described(kept[1], 4)
lib.aclDestroyTensor(described(kept[1], 4))
assert acl.aclrtDestroyStream(call.stream) == 0
""", "leak")
    assert lines[-1] == "softcann check: leak: 5 objects are alive at exit"
    told = "\n".join(lines)
    assert "2 x device memory, 1024 bytes" in told and "1 x device memory, 1000 bytes" in told
    assert "1 x event" in told and "1 x aclTensor" in told and "stream" not in told
    assert "    aclrtMalloc (libascendcl.so)" in text and "    aclCreateTensor (libopapi.so)" in text


def test_a_leak_is_told_with_its_place_in_python():
    lines, text = run("""
def twice():
    return [allocate(512) for _ in range(2)]
import threading
kept = twice()
thread = threading.Thread(target=lambda: (acl.aclrtSetDevice(0), kept.append(allocate(64))))
thread.start(), thread.join()
assert acl.aclrtDestroyStream(call.stream) == 0
""", "leak")
    assert lines == ["softcann check: leak: 2 x device memory, 1024 bytes, made by", "softcann check: leak: 1 x device memory, 64 bytes, "
                     "made by", "softcann check: leak: 3 objects are alive at exit"]
    _, first, second = text.split("called from Python at\n")
    assert 'File "<string>"' in first and " in allocate" in first and " in twice" in first and " in <module>" in first, text
    assert " in allocate" in second and " in run" in second and "twice" not in second and "<module>" not in second, text


def test_a_leak_of_the_adapter_is_told_with_its_place_in_python():
    code = """
import torch, torch_npu
def keep():
    return torch.ones(1 << 22, device="npu")
kept = keep()
torch.npu.synchronize()
"""
    done = run_python(code, SOFTCANN_CHECK="leak")
    assert done.returncode == 0, done.stderr
    memory = done.stderr.split("x device memory, ")[1].split("softcann check")[0]
    assert 'File "<string>", line 4 in keep' in memory and 'File "<string>", line 5 in <module>' in memory, done.stderr


def test_nothing_alive_is_nothing_told():
    lines, _ = run("assert acl.aclrtDestroyStream(call.stream) == 0 and acl.aclrtFree(allocate(64)) == 0", "leak")
    assert lines == []


@pytest.mark.parametrize("value", ["leaks", "memory;init", "all"])
def test_another_word_is_refused(value):
    done = run_python("import torch, torch_npu; torch.ones(1, device='npu')", SOFTCANN_CHECK=value)
    assert done.returncode != 0 and f"SOFTCANN_CHECK={value} is not valid: memory, init and leak" in done.stderr


def test_training_has_no_reports():
    """Memory of every kind of operator, both directions, an optimizer, and data from the host."""
    code = """
import torch, torch_npu
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                          torch.nn.Flatten(), torch.nn.Linear(1352, 10)).npu()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    x, y = torch.randn(8, 1, 28, 28).npu(), torch.randint(0, 10, (8,)).npu()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
assert torch.isfinite(loss).item()
try:
    print((torch.empty(1 << 22, device="npu") + 1).sum().item())     # more than the allocator has at hand
except RuntimeError as error:
    assert "was never written" in str(error), error
else:
    raise AssertionError("read what nobody wrote")
"""
    done = run_python(code, SOFTCANN_CHECK="memory,init")
    assert done.returncode == 0, done.stderr
    # The planted one, and the sum of what was not computed therefore.
    lines = [line for line in done.stderr.splitlines() if "softcann check" in line]
    assert [line.split()[3] for line in lines] == ["aclnnAdds", "aclnnReduceSum"], done.stderr
