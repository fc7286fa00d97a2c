"""Runtime calls that pyACL has no names for, by ctypes: notifies, reductions, fills of words, pools, access, numbers of devices."""
import ctypes
import time

import numpy as np
import pytest
from acl_tools import LIBRARIES, run_program

SUM, MAXIMUM, MINIMUM, EQUAL = 10, 11, 12, 13
FLOAT, FLOAT16, INT8, INT32, INT16, INT64 = 0, 1, 2, 3, 6, 9
INVALID, HANDLE, UNSUPPORTED, MEMORY, PARAMETER = 100000, 107017, 207000, 207001, 107000


def synchronized(acl, stream):
    return acl.rt.synchronize_stream(stream.value)


def test_a_stream_waits_for_a_notify(acl, rt, stream, copied):
    other, _ = acl.rt.create_stream()
    notify, number = ctypes.c_void_p(), ctypes.c_uint32()
    assert rt.aclrtCreateNotify(ctypes.byref(notify), ctypes.c_uint64(0)) == 0
    assert rt.aclrtGetNotifyId(notify, ctypes.byref(number)) == 0
    x, back = copied(np.zeros(4, np.int32))
    for value in (1, 2):   # the wait lowers it again
        assert rt.aclrtWaitAndResetNotify(notify, ctypes.c_void_p(other), 0) == 0
        assert rt.aclrtMemsetD32Async(x, ctypes.c_size_t(16), value, ctypes.c_size_t(4), ctypes.c_void_p(other)) == 0
        time.sleep(0.02)
        assert back().tolist() == [value - 1] * 4
        assert rt.aclrtRecordNotify(notify, stream) == 0
        assert acl.rt.synchronize_stream(other) == 0 and back().tolist() == [value] * 4
    # Raised before anybody waits, and lowered by the host.
    assert rt.aclrtRecordNotify(notify, stream) == 0 and synchronized(acl, stream) == 0
    assert rt.aclrtNotifyBatchReset((ctypes.c_void_p * 1)(notify), ctypes.c_size_t(1)) == 0
    assert rt.aclrtWaitAndResetNotify(notify, ctypes.c_void_p(other), 1) == 0
    assert acl.rt.synchronize_stream(other) == 107019 and "within 1 s" in acl.get_recent_err_msg()
    # A task that waits keeps what it waits for.
    assert rt.aclrtRecordNotify(notify, stream) == 0 and rt.aclrtDestroyNotify(notify) == 0
    assert rt.aclrtDestroyNotify(notify) == HANDLE and rt.aclrtRecordNotify(None, stream) == INVALID
    assert synchronized(acl, stream) == 0 and acl.rt.destroy_stream(other) == 0


@pytest.mark.parametrize("dtype, number", [(np.float32, FLOAT), (np.float16, FLOAT16), (np.int8, INT8), (np.int16, INT16),
                                           (np.int32, INT32)])
@pytest.mark.parametrize("kind, function", [(SUM, np.add), (MAXIMUM, np.maximum), (MINIMUM, np.minimum)])
def test_reductions(acl, rt, stream, copied, dtype, number, kind, function):
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal(33) * 100).astype(dtype) for _ in range(2))
    (to, back), (source, _) = copied(a), copied(b)
    assert rt.aclrtReduceAsync(to, source, ctypes.c_uint64(a.nbytes), kind, number, stream, None) == 0
    assert synchronized(acl, stream) == 0
    np.testing.assert_array_equal(back(), function(a, b))   # whole numbers run over, as numpy's do


def test_reductions_of_bfloat16(acl, rt, stream, copied):
    values = np.array([1.0, 2.5, -3.0], np.float32)
    halves = (values.view(np.uint32) >> 16).astype(np.uint16)
    (to, back), (source, _) = copied(halves), copied(halves)
    assert rt.aclrtReduceAsync(to, source, ctypes.c_uint64(6), SUM, 27, stream, None) == 0 and synchronized(acl, stream) == 0
    assert (back().astype(np.uint32) << 16).view(np.float32).tolist() == [2.0, 5.0, -6.0]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_reductions_at_any_address(acl, rt, stream, copied, offset):
    values = np.arange(100, dtype=np.float32)
    raw = np.zeros(404, np.uint8)
    raw[offset:offset + 400] = values.view(np.uint8)
    (to, back), (source, _) = copied(raw), copied(values)
    place = ctypes.c_void_p(to.value + offset)
    assert rt.aclrtReduceAsync(place, source, ctypes.c_uint64(400), SUM, FLOAT, stream, None) == 0
    assert synchronized(acl, stream) == 0
    found = back()
    assert np.array_equal(found[offset:offset + 400].view(np.float32), values * 2) and found[:offset].sum() == 0


def test_reductions_that_are_refused(acl, rt, stream, copied):
    x, back = copied(np.ones(4, np.float32))
    size = ctypes.c_uint64(16)
    assert rt.aclrtReduceAsync(x, x, size, EQUAL, FLOAT, stream, None) == UNSUPPORTED
    assert rt.aclrtReduceAsync(x, x, size, SUM, INT64, stream, None) == UNSUPPORTED
    assert rt.aclrtReduceAsync(x, x, ctypes.c_uint64(15), SUM, FLOAT, stream, None) == INVALID
    assert rt.aclrtReduceAsync(None, x, size, SUM, FLOAT, stream, None) == INVALID
    assert rt.aclrtReduceAsync(x, x, ctypes.c_uint64(1 << 40), SUM, FLOAT, stream, None) != 0
    assert synchronized(acl, stream) == 0 and back().tolist() == [1] * 4


def test_words_are_set(acl, rt, stream, copied):
    x, back = copied(np.zeros(4, np.uint32))
    count = ctypes.c_size_t
    assert rt.aclrtMemsetD32(x, count(16), 0x01020304, count(3)) == 0
    assert back().tolist() == [0x01020304] * 3 + [0]
    assert rt.aclrtMemsetD32Async(x, count(16), 7, count(4), stream) == 0 and synchronized(acl, stream) == 0
    assert back().tolist() == [7] * 4
    assert rt.aclrtMemsetD32(x, count(16), 7, count(5)) == PARAMETER
    assert rt.aclrtMemsetD32(x, count(16), 7, count(1 << 62)) != 0
    assert rt.aclrtMemsetD32(ctypes.c_void_p(x.value + 2), count(8), 7, count(1)) != 0 and back().tolist() == [7] * 4


def test_a_process_ends_although_nobody_raises_the_notify(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text(
        "import ctypes, sys\n"
        f"acl, none = ctypes.CDLL({str(LIBRARIES / 'libascendcl.so')!r}), ctypes.c_uint64(0)\n"
        "memory, notify, one, two = (ctypes.c_void_p() for _ in range(4))\n"
        "assert acl.aclInit(None) == acl.aclrtSetDevice(0) == acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(8), 0) == 0\n"
        "assert acl.aclrtMemset(memory, ctypes.c_size_t(8), 0, ctypes.c_size_t(8)) == 0\n"
        "assert acl.aclrtCreateNotify(ctypes.byref(notify), none) == acl.aclrtCreateStream(ctypes.byref(one)) == 0\n"
        "assert acl.aclrtCreateStream(ctypes.byref(two)) == acl.aclrtWaitAndResetNotify(notify, one, 0) == 0\n"
        "assert acl.aclrtValueWait(memory, ctypes.c_uint64(1), 1, two) == 0\n")
    begun = time.monotonic()
    done = run_program(tmp_path, program)
    assert done.returncode == 0 and time.monotonic() - begun < 40, done.stderr   # 5 s, not the minute that computing gets


class Location(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("type", ctypes.c_int)]


class PoolProps(ctypes.Structure):
    _fields_ = [("alloc", ctypes.c_int), ("handle", ctypes.c_int), ("location", Location), ("most", ctypes.c_size_t),
                ("reserved", ctypes.c_ubyte * 32)]


def test_pools_of_memory(acl, rt, stream):
    def attribute(number, value=None):
        word = ctypes.c_uint64(0 if value is None else value)
        call = rt.aclrtMemPoolGetAttr if value is None else rt.aclrtMemPoolSetAttr
        assert call(pool, number, ctypes.byref(word)) == 0
        return word.value

    pool, pointer = ctypes.c_void_p(), ctypes.c_void_p()
    props = PoolProps(0, 0, Location(0, 1), 1 << 20)
    assert rt.aclrtMemPoolCreate(ctypes.byref(pool), ctypes.byref(props)) == 0
    free = acl.rt.get_mem_info(1)[0]
    assert rt.aclrtMemPoolMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(4096), pool, stream) == 0
    assert rt.aclrtMemsetD32Async(pointer, ctypes.c_size_t(4096), 1, ctypes.c_size_t(1024), stream) == 0
    assert attribute(7) == attribute(8) == 4096 and acl.rt.get_mem_info(1)[0] <= free - 4096
    assert rt.aclrtMemPoolMallocAsync(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20), pool, stream) == MEMORY
    assert rt.aclrtMemPoolFreeAsync(pointer, stream) == 0 and synchronized(acl, stream) == 0
    assert rt.aclrtMemPoolFreeAsync(pointer, stream) == PARAMETER
    assert (attribute(7), attribute(8)) == (0, 4096) and acl.rt.get_mem_info(1)[0] == free
    attribute(8, 0)
    assert attribute(8) == 0 and attribute(4, 123) == 123 == attribute(4)
    assert rt.aclrtMemPoolSetAttr(pool, 7, ctypes.byref(ctypes.c_uint64(1))) == INVALID
    assert rt.aclrtMemPoolTrimTo(pool, ctypes.c_size_t(0)) == 0
    assert rt.aclrtMemPoolDestroy(pool) == 0 and rt.aclrtMemPoolDestroy(pool) == HANDLE


def test_memory_of_a_pool_may_be_freed_as_any_other(acl, rt, stream):
    pool, pointer, used = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(9)
    assert rt.aclrtMemPoolCreate(ctypes.byref(pool), ctypes.byref(PoolProps(0, 0, Location(0, 1), 0))) == 0
    assert rt.aclrtMemPoolMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(4096), pool, stream) == 0
    assert rt.aclrtFree(pointer) == 0
    assert rt.aclrtMemPoolGetAttr(pool, 7, ctypes.byref(used)) == 0 and used.value == 0
    other, code = acl.rt.malloc(4096, 0)
    assert code == 0 and other == pointer.value   # which is not the pool's
    assert rt.aclrtMemPoolFreeAsync(pointer, stream) == PARAMETER and acl.rt.free(other) == 0
    assert rt.aclrtMemPoolDestroy(pool) == 0


class AccessDesc(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_int), ("location", Location), ("reserved", ctypes.c_ubyte * 12)]


class PhysicalProp(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_int), ("alloc", ctypes.c_int), ("attr", ctypes.c_int), ("location", Location),
                ("reserve", ctypes.c_uint64)]


def test_mapped_memory_tells_its_access_and_its_handle(acl, rt):
    size = ctypes.c_size_t(2 << 20)
    address, handle, again, flag = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    prop = PhysicalProp(0, 0, 4, Location(0, 1), 0)
    assert rt.aclrtReserveMemAddress(ctypes.byref(address), size, ctypes.c_size_t(0), None, ctypes.c_uint64(1)) == 0
    assert rt.aclrtMallocPhysical(ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0)) == 0
    assert rt.aclrtMemGetAccess(address, ctypes.byref(Location(0, 1)), ctypes.byref(flag)) == PARAMETER   # not mapped yet
    assert rt.aclrtMapMem(address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0)) == 0
    for location, expected in ((Location(0, 1), 3), (Location(0, 0), 0)):
        assert rt.aclrtMemGetAccess(address, ctypes.byref(location), ctypes.byref(flag)) == 0 and flag.value == expected
    assert rt.aclrtMemSetAccess(address, size, (AccessDesc * 1)(AccessDesc(1, Location(0, 0))), ctypes.c_size_t(1)) == 0
    assert rt.aclrtMemGetAccess(address, ctypes.byref(Location(0, 0)), ctypes.byref(flag)) == 0 and flag.value == 1
    assert rt.aclrtMemSetAccess(address, ctypes.c_size_t(4096), (AccessDesc * 1)(), ctypes.c_size_t(1)) == PARAMETER
    assert rt.aclrtMemRetainAllocationHandle(address, ctypes.byref(again)) == 0 and again.value == handle.value
    found = PhysicalProp(9, 9, 9, Location(9, 9), 9)
    assert rt.aclrtMemGetAllocationPropertiesFromHandle(again, ctypes.byref(found)) == 0
    assert (found.handle, found.alloc, found.location.id, found.location.type, found.reserve) == (0, 0, 0, 1, 0)
    assert rt.aclrtUnmapMem(address) == 0
    assert rt.aclrtFreePhysical(handle) == 0 and rt.aclrtFreePhysical(again) == 0 and rt.aclrtFreePhysical(handle) == HANDLE
    assert rt.aclrtReleaseMemAddress(address) == 0


@pytest.mark.parametrize("kind, room", [(1, 8), (2, 128)])
def test_handles_for_other_processes(acl, rt, kind, room):
    handle, imported = ctypes.c_void_p(), ctypes.c_void_p()
    prop = PhysicalProp(0, 0, 4, Location(0, 1), 0)
    assert rt.aclrtMallocPhysical(ctypes.byref(handle), ctypes.c_size_t(2 << 20), ctypes.byref(prop), ctypes.c_uint64(0)) == 0
    shared = ctypes.create_string_buffer(b"\xff" * (room + 8), room + 8)
    assert rt.aclrtMemExportToShareableHandleV2(handle, ctypes.c_uint64(0), kind, shared) == 0
    assert shared.raw[room:] == b"\xff" * 8
    assert rt.aclrtMemSetPidToShareableHandleV2(shared, kind, (ctypes.c_int32 * 1)(1), ctypes.c_size_t(1)) == 0
    assert rt.aclrtMemImportFromShareableHandleV2(shared, kind, ctypes.c_uint64(0), ctypes.byref(imported)) == 0
    assert rt.aclrtFreePhysical(imported) == 0
    assert rt.aclrtMemExportToShareableHandleV2(handle, ctypes.c_uint64(0), 3, shared) == INVALID
    assert rt.aclrtFreePhysical(handle) == 0


def test_memory_with_attributes_and_memory_freed_after_all_work(acl, rt, stream):
    pointer = ctypes.c_void_p()
    none = (ctypes.c_size_t * 2)(0, 1)   # one attribute, at no address
    assert rt.aclrtMallocWithCfg(ctypes.byref(pointer), ctypes.c_size_t(64), 0, none) == INVALID
    assert rt.aclrtMallocWithCfg(ctypes.byref(pointer), ctypes.c_size_t(64), 0, None) == 0
    assert rt.aclrtMemsetD32Async(pointer, ctypes.c_size_t(64), 1, ctypes.c_size_t(16), stream) == 0
    assert rt.aclrtMemFlush(pointer, ctypes.c_size_t(64)) == 0 and rt.aclrtMemInvalidate(pointer, ctypes.c_size_t(0)) == INVALID
    assert rt.aclrtFreeWithDevSync(pointer) == 0 and rt.aclrtFreeWithDevSync(pointer) != 0
    host, _ = acl.rt.malloc_host(64)
    assert rt.aclrtFreeHostWithDevSync(ctypes.c_void_p(host)) == 0


def test_which_device_it_is(acl, rt):
    number = ctypes.c_int32(-1)
    for name in ("aclrtGetPhyDevIdByLogicDevId", "aclrtGetLogicDevIdByPhyDevId", "aclrtGetUserDevIdByLogicDevId",
                 "aclrtGetPhyDevIdByUserDevId", "aclrtGetUserDevIdByPhyDevId", "aclrtQueryDeviceStatus"):
        assert getattr(rt, name)(0, ctypes.byref(number)) == 0 and number.value == 0, name
        assert getattr(rt, name)(99, ctypes.byref(number)) != 0, name
    soc = acl.get_soc_name().encode()
    for other, compatible in ((soc, 1), (b"Ascend310P3", 0), (b"none", 0)):
        assert rt.aclrtCheckArchCompatibility(other, ctypes.byref(number)) == 0 and number.value == compatible
    assert rt.aclrtGetDeviceCapability(0, 21, ctypes.byref(number)) == 0 and number.value == 0
    assert rt.aclrtGetDeviceCapability(0, 22, ctypes.byref(number)) == INVALID
    assert rt.aclrtDevicePeerAccessStatus(0, 99, ctypes.byref(number)) != 0


def test_as_many_ends_as_beginnings(tmp_path):
    program = tmp_path / "counts.py"
    program.write_text(
        "import ctypes, sys\n"
        f"acl = ctypes.CDLL({str(LIBRARIES / 'libascendcl.so')!r})\n"
        "left = ctypes.c_uint64(9)\n"
        "end = lambda: (acl.aclFinalizeReference(ctypes.byref(left)), left.value)\n"
        "print([acl.aclInit(None), acl.aclInit(None), acl.aclInit(None)], end(), end(), end(), end())\n"
        "print(acl.aclInit(None), acl.aclInit(None), acl.aclFinalize(), acl.aclFinalizeReference(None), acl.aclInit(None))\n")
    done = run_program(tmp_path, program)
    assert done.stdout.splitlines() == ["[0, 100002, 100002] (0, 2) (0, 1) (0, 0) (100037, 0)", "0 100002 0 100037 0"], done.stderr
