"""Calls that clients make before a device is set, numbers that streams write and wait for, and limits of cores: each in a process of its own."""
import os
import pathlib
import subprocess
import sys

import pytest

LIBRARIES = pathlib.Path(__file__).resolve().parents[2] / "torch_npu" / "softcann" / "lib"
START = """
import ctypes, sys
acl = ctypes.CDLL({library!r})
u32, u64, p = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
def ok(code): assert code == 0, code
def number(address):
    value = u64()
    ok(acl.aclrtMemcpy(ctypes.byref(value), ctypes.c_size_t(8), address, ctypes.c_size_t(8), 2))
    return value.value
def device():
    ok(acl.aclrtSetDevice(0))
    memory, streams = p(), [p(), p()]
    ok(acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(64), 0))
    ok(acl.aclrtMemset(memory, ctypes.c_size_t(64), 0, ctypes.c_size_t(64)))
    for stream in streams: ok(acl.aclrtCreateStream(ctypes.byref(stream)))
    return memory, streams
ok(acl.aclInit(None))
"""


def run(program):
    if not (LIBRARIES / "libascendcl.so").exists():
        pytest.skip(f"{LIBRARIES} has no libascendcl.so: build first")
    text = START.format(library=str(LIBRARIES / "libascendcl.so")) + program
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, "SOFTCANN_DEVICE_COUNT": "2"})
    assert done.returncode == 0, done.stderr


def test_memory_before_a_device_is_set():
    run("""
free, total, address, device = ctypes.c_size_t(), ctypes.c_size_t(), p(), ctypes.c_int32()
ok(acl.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total)))
assert 0 < free.value <= total.value
ok(acl.aclrtReserveMemAddress(ctypes.byref(address), ctypes.c_size_t(1 << 21), ctypes.c_size_t(0), None, u64(1)))
assert address.value
assert acl.aclrtGetDevice(ctypes.byref(device)) == 107002  # it was not set by that
ok(acl.aclrtReleaseMemAddress(address))
""")


def test_streams_wait_for_numbers():
    run("""
memory, (writer, waiter) = device()
ok(acl.aclrtValueWait(memory, u64(5), u32(0), waiter))       # not less than 5
ok(acl.aclrtValueWrite(p(memory.value + 8), u64(77), u32(0), waiter))
ok(acl.aclrtValueWrite(memory, u64(3), u32(0), writer))
ok(acl.aclrtSynchronizeStream(writer))
assert number(memory) == 3 and number(p(memory.value + 8)) == 0
ok(acl.aclrtValueWrite(memory, u64(6), u32(0), writer))
ok(acl.aclrtSynchronizeStream(waiter))
assert number(p(memory.value + 8)) == 77
for flag, value in ((1, 6), (2, 4), (3, 1)):                  # equal, a common bit, a bit in neither
    ok(acl.aclrtValueWait(memory, u64(value), u32(flag), waiter))
ok(acl.aclrtSynchronizeStream(waiter))
assert acl.aclrtValueWait(memory, u64(1), u32(4), waiter) == 100000
assert acl.aclrtValueWrite(memory, u64(1), u32(1), waiter) == 100000
assert acl.aclrtValueWrite(p(memory.value + 4), u64(1), u32(0), waiter) == 200003
assert acl.aclrtValueWrite(None, u64(1), u32(0), waiter) == 100000
""")


def test_streams_wait_for_numbers_in_a_graph():
    run("""
memory, (writer, waiter) = device()
second = p(memory.value + 8)
graph = p()
ok(acl.aclmdlRICaptureBegin(waiter, u32(2)))
ok(acl.aclrtValueWait(memory, u64(5), u32(1), waiter))
ok(acl.aclrtValueWrite(memory, u64(0), u32(0), waiter))      # lowers it for the next execution
ok(acl.aclrtValueWrite(second, u64(77), u32(0), waiter))
ok(acl.aclmdlRICaptureEnd(waiter, ctypes.byref(graph)))
for _ in range(3):
    ok(acl.aclrtValueWrite(second, u64(1), u32(0), writer))
    ok(acl.aclrtSynchronizeStream(writer))
    ok(acl.aclmdlRIExecuteAsync(graph, waiter))
    assert number(second) == 1
    ok(acl.aclrtValueWrite(memory, u64(5), u32(0), writer))
    ok(acl.aclrtSynchronizeStream(waiter))
    assert (number(memory), number(second)) == (0, 77)
ok(acl.aclmdlRIDestroy(graph))
""")


def test_host_memory_that_is_registered_is_the_devices_too():
    run("""
memory, (stream, _) = device()
host, mapped, size = p(), p(), ctypes.c_size_t(4096)
ok(acl.aclrtMallocHost(ctypes.byref(host), size))
copy = lambda to, source, kind: acl.aclrtMemcpy(to, ctypes.c_size_t(8), source, ctypes.c_size_t(8), ctypes.c_int(kind))
assert copy(memory, host, 3) == 107000                        # from the device, which that is not
assert acl.aclrtValueWrite(host, u64(1), u32(0), stream) == 107000
ok(acl.aclrtHostRegister(host, u64(4096), ctypes.c_int(0), ctypes.byref(mapped)))
assert acl.aclrtHostRegister(host, u64(4096), ctypes.c_int(0), ctypes.byref(mapped)) == 507910
ok(acl.aclrtValueWrite(mapped, u64(9), u32(0), stream))
ok(acl.aclrtSynchronizeStream(stream))
ok(copy(memory, mapped, 3))
assert number(memory) == 9
ok(acl.aclrtHostUnregister(host))
assert acl.aclrtHostUnregister(host) != 0
assert copy(memory, host, 3) == 107000
middle, end = p(host.value + 1024), p(host.value + 2048)      # a part of the memory
ok(acl.aclrtHostRegister(middle, u64(1024), ctypes.c_int(0), ctypes.byref(mapped)))
ok(copy(memory, middle, 3))
assert copy(memory, host, 3) == copy(memory, end, 3) == 107000
assert acl.aclrtHostUnregister(host) != 0
ok(acl.aclrtHostUnregister(middle))
ok(acl.aclrtFreeHost(host))
""")


def test_limits_of_cores():
    run("""
memory, (first, second) = device()
value = u32()
def told(code):
    ok(code)
    return value.value
there = ctypes.byref(value)
most = told(acl.aclrtGetDeviceResLimit(0, 0, there))
assert most > 4
ok(acl.aclrtSetDeviceResLimit(0, 0, u32(4)))
assert told(acl.aclrtGetDeviceResLimit(0, 0, there)) == 4
assert told(acl.aclrtGetDeviceResLimit(1, 0, there)) == most
assert told(acl.aclrtGetStreamResLimit(first, 0, there)) == 4
ok(acl.aclrtSetStreamResLimit(first, 0, u32(2)))
assert told(acl.aclrtGetStreamResLimit(first, 0, there)) == 2 and told(acl.aclrtGetStreamResLimit(second, 0, there)) == 4
ok(acl.aclrtUseStreamResInCurrentThread(first))
assert told(acl.aclrtGetResInCurrentThread(0, there)) == 2
ok(acl.aclrtUnuseStreamResInCurrentThread(first))
assert told(acl.aclrtGetResInCurrentThread(0, there)) == 4
ok(acl.aclrtResetStreamResLimit(first))
ok(acl.aclrtResetDeviceResLimit(0))
assert told(acl.aclrtGetStreamResLimit(first, 0, there)) == most
assert acl.aclrtSetDeviceResLimit(0, 0, u32(most + 1)) == 100000
assert acl.aclrtSetDeviceResLimit(0, 7, u32(1)) == 100000
ok(acl.aclrtSetStreamResLimit(first, 0, u32(2)))
ok(acl.aclrtDestroyStream(first))
""")
