"""Memory of one device for another, mappings in the client's own places, and what a device says of itself."""
import ctypes
import subprocess
import sys

import numpy as np
import pytest
from acl_tools import LIBRARIES

INVALID, HANDLE, UNSUPPORTED, PARAMETER, NO_DEVICE, NO_MEMORY = 100000, 107017, 207000, 107000, 107001, 207001
size, none = ctypes.c_size_t, ctypes.c_uint64(0)
PIECE, GIB = 2 << 20, 1 << 30


class Location(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("type", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_int), ("allocation", ctypes.c_int), ("memory", ctypes.c_int), ("location", Location), ("reserve", ctypes.c_uint64)]


class Access(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_int), ("location", Location), ("rsv", ctypes.c_uint8 * 12)]


def reserved(rt, bytes_=PIECE):
    place = ctypes.c_void_p()
    assert rt.aclrtReserveMemAddress(ctypes.byref(place), size(bytes_), size(0), None, none) == 0
    return place


@pytest.fixture
def physical(rt):
    made = ctypes.c_void_p()
    assert rt.aclrtMallocPhysical(ctypes.byref(made), size(PIECE), ctypes.byref(Properties(location=Location(0, 1))), none) == 0
    yield made
    assert rt.aclrtFreePhysical(made) == 0


def access(rt, place):
    found = ctypes.c_uint64(9)
    assert rt.aclrtMemGetAccess(place, ctypes.byref(Location(0, 1)), ctypes.byref(found)) == 0
    return found.value


def test_a_mapping_without_access(acl, rt, physical):
    place = reserved(rt)
    assert rt.aclrtMemMapNoAccess(place, size(PIECE), size(0), None, none) == INVALID
    assert rt.aclrtMemMapNoAccess(place, size(PIECE), size(0), physical, ctypes.c_uint64(1)) == PARAMETER
    assert acl.get_recent_err_msg().startswith("aclrtMemMapNoAccess: ")
    assert rt.aclrtMemMapNoAccess(place, size(PIECE), size(0), physical, none) == 0 == access(rt, place)
    wanted = Access(flags=3, location=Location(0, 1))
    assert rt.aclrtMemSetAccess(place, size(PIECE), ctypes.byref(wanted), size(1)) == 0 and access(rt, place) == 3
    assert rt.aclrtUnmapMem(place) == 0 == rt.aclrtReleaseMemAddress(place)


def test_the_same_memory_at_two_places(acl, rt, physical):
    first, second = reserved(rt), reserved(rt)
    assert rt.aclrtMemMapSelectedLink(second, size(PIECE), first, 1) == PARAMETER   # nothing is mapped yet
    assert rt.aclrtMapMem(first, size(PIECE), size(0), physical, none) == 0
    assert rt.aclrtMemMapSelectedLink(second, size(PIECE), first, 2) == INVALID
    assert rt.aclrtMemMapSelectedLink(second, size(PIECE // 2), first, 0) == PARAMETER
    assert rt.aclrtMemMapSelectedLink(second, size(PIECE), first, 0) == 0
    numbers, found = np.arange(1000, dtype=np.int32), np.zeros(1000, np.int32)
    assert acl.rt.memcpy(first.value + 4096, 4000, numbers.ctypes.data, 4000, 1) == 0
    assert acl.rt.memcpy(found.ctypes.data, 4000, second.value + 4096, 4000, 2) == 0 and (found == numbers).all()
    assert rt.aclrtUnmapMem(first) == 0 == acl.rt.memcpy(found.ctypes.data, 4000, second.value + 4096, 4000, 2)   # the other stays
    assert rt.aclrtUnmapMem(second) == 0 == rt.aclrtReleaseMemAddress(first) == rt.aclrtReleaseMemAddress(second)


def test_addresses_that_the_client_names(acl, rt):
    reserve = rt.aclrtReserveMemAddressNoUCMemory
    free, found = reserved(rt, GIB), ctypes.c_void_p()
    assert reserve(ctypes.byref(found), size(GIB), size(0), free, none) == NO_MEMORY and "are taken" in acl.get_recent_err_msg()
    assert rt.aclrtReleaseMemAddress(free) == 0
    assert reserve(ctypes.byref(found), size(GIB), size(0), free, none) == 0 and found.value == free.value
    assert rt.aclrtReleaseMemAddress(found) == 0
    assert reserve(ctypes.byref(found), size(GIB), size(0), None, none) == UNSUPPORTED
    assert reserve(ctypes.byref(found), size(GIB // 2), size(0), free, none) == PARAMETER


PEERS = """
import ctypes
rt, none, size = ctypes.CDLL({library!r}), ctypes.c_uint64(0), ctypes.c_size_t
memory = ctypes.c_void_p()
assert rt.aclInit(None) == rt.aclrtSetDevice(0) == rt.aclrtMalloc(ctypes.byref(memory), size(4096), 0) == 0
print(rt.aclrtMemP2PMap(memory, size(4096), 1, none), rt.aclrtMemP2PMap(memory, size(4096), 0, none), rt.aclrtMemP2PMap(memory, size(4096), 2, none),
      rt.aclrtMemP2PMap(memory, size(1 << 30), 1, none), rt.aclrtMemP2PMap(ctypes.create_string_buffer(64), size(64), 1, none),
      rt.aclrtMemP2PMap(memory, size(4096), 1, ctypes.c_uint64(1)))
"""


def test_memory_of_one_device_for_another(monkeypatch):
    monkeypatch.setenv("SOFTCANN_DEVICE_COUNT", "2")
    done = subprocess.run([sys.executable, "-c", PEERS.format(library=str(LIBRARIES / "libascendcl.so"))], capture_output=True, text=True)
    assert done.stdout.split() == [str(code) for code in (0, INVALID, NO_DEVICE, PARAMETER, INVALID, INVALID)], done.stdout + done.stderr


def test_what_a_device_says_of_itself(rt):
    found = ctypes.c_int(9)
    kinds = {}
    for kind in range(10):
        assert rt.aclrtHostMemMapCapabilities(0, kind, ctypes.byref(found)) == 0
        kinds[kind] = found.value
    assert [kind for kind, reached in kinds.items() if not reached] == [5, 8, 9]   # of networks and their like
    assert rt.aclrtHostMemMapCapabilities(0, 10, ctypes.byref(found)) == INVALID
    assert rt.aclrtHostMemMapCapabilities(999, 0, ctypes.byref(found)) == NO_DEVICE
    assert rt.aclrtSetTsDevice(0) == 0 == rt.aclrtSetTsDevice(1) and rt.aclrtSetTsDevice(2) == INVALID
    assert rt.aclrtDeviceL2CacheFlush(None) == 0 and rt.aclrtDeviceL2CacheFlush(ctypes.byref(found)) == INVALID


@pytest.mark.parametrize("names", [("aclrtGetFloatOverflowStatus", "aclrtResetFloatOverflowStatus", []),
                                   ("aclrtNpuGetFloatOverFlowStatus", "aclrtNpuClearFloatOverFlowStatus", [0])])
def test_the_flag_of_overflow_by_its_other_names(acl, rt, stream, names):
    """Raised by saturating arithmetic it is in test_op_network.py."""
    read, lower, mode = getattr(rt, names[0]), getattr(rt, names[1]), names[2]
    pointer, code = acl.rt.malloc(64, 0)
    block = ctypes.c_void_p(pointer)
    assert code == 0 == acl.rt.memset(pointer, 64, 255, 64)
    assert lower(*mode, stream) == 0 == read(block, ctypes.c_uint64(64), *mode, stream) == acl.rt.synchronize_stream(stream.value)
    found = np.full(16, 7, np.uint32)
    assert acl.rt.memcpy(found.ctypes.data, 64, pointer, 64, 2) == 0 and not found.any()
    assert read(block, ctypes.c_uint64(32), *mode, stream) == INVALID and names[0] in acl.get_recent_err_msg()
    assert read(found.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(64), *mode, stream) == INVALID
    if mode:
        assert read(block, ctypes.c_uint64(64), 1, stream) == INVALID == lower(1, stream)
    assert acl.rt.free(pointer) == 0
