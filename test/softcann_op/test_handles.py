"""What a client hands in is checked: handles are of the right kind and alive, tensors lie in memory that is allocated."""
import ctypes

import pytest
import torch
from test_descriptors import INVALID, NULL, Call, run

INVALID_HANDLE = 107017
LONG = ctypes.c_int64


def described(call, address, elements, stride=1, offset=0, storage=None):
    """float32 of one dimension, in a storage that the client says has so many elements."""
    storage = storage or offset + elements * stride
    return ctypes.c_void_p(call.lib.aclCreateTensor(
        ctypes.byref(LONG(elements)), ctypes.c_uint64(1), 0, ctypes.byref(LONG(stride)), LONG(offset), 2,
        ctypes.byref(LONG(storage)), ctypes.c_uint64(1), ctypes.c_void_p(address)))


@pytest.fixture
def memory(call):
    """1024 bytes of the device."""
    address = ctypes.c_void_p()
    assert call.acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(1024), 0) == 0
    yield address.value
    call.acl.aclrtFree(address)


@pytest.mark.parametrize("elements, stride, offset", [(257, 1, 0), (1, 1, 256), (129, 2, 0), (256, 1, 1), (1 << 30, 1, 0)])
def test_a_view_past_its_allocation_is_refused(call, memory, elements, stride, offset):
    beyond, fine = described(call, memory, elements, stride, offset), described(call, memory, 4)
    for arguments in ((beyond, fine), (fine, beyond)):
        step = Call(call, "aclnnNeg", *arguments)
        assert step.status == INVALID and "beyond their allocation, which has 1024 bytes" in step.message()


@pytest.mark.parametrize("elements, stride, offset", [(256, 1, 0), (1, 1, 255), (128, 2, 0), (255, 1, 1)])
def test_a_view_up_to_its_end_is_fine(call, memory, elements, stride, offset):
    x = described(call, memory, elements, stride, offset)
    step = Call(call, "aclnnNeg", x, x)
    assert step.status == 0 and step.launch() == 0


def test_an_empty_view_may_lie_anywhere(call, memory):
    for address in (memory, memory + 1024, None):
        empty = described(call, address, 0, storage=1)
        step = Call(call, "aclnnNeg", empty, empty)
        assert step.status == 0 and step.launch() == 0


def test_memory_that_was_freed_is_refused(call):
    address = ctypes.c_void_p()
    for _ in range(3):
        assert call.acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(1024), 0) == 0
        x = described(call, address.value, 256)
        step = Call(call, "aclnnNeg", x, x)
        assert step.status == 0 and step.launch() == 0 and call.acl.aclrtSynchronizeStream(call.stream) == 0
        assert call.acl.aclrtFree(address) == 0
        step = Call(call, "aclnnNeg", x, x)
        assert step.status == INVALID and "is not allocated" in step.message()


def test_tensors_of_a_list_are_checked_too(call, memory):
    beyond, fine = described(call, memory, 300), described(call, memory, 4)
    made = (ctypes.c_void_p * 2)(fine.value, beyond.value)
    tensors = ctypes.c_void_p(call.lib.aclCreateTensorList(made, ctypes.c_uint64(2)))
    step = Call(call, "aclnnCat", tensors, LONG(0), described(call, memory, 8))
    assert step.status == INVALID and "parameter tensors" in step.message()


def test_null_where_sizes_should_be_is_refused(call, memory):
    """Also where the pool has a tensor of that rank."""
    for rank in (1, 2, 3):
        sizes, count = (LONG * rank)(*[1] * rank), ctypes.c_uint64(rank)
        for dims, storage in ((sizes, sizes), (None, sizes), (sizes, None)):
            made = call.lib.aclCreateTensor(dims, count, 0, sizes, LONG(0), 2, storage, count, ctypes.c_void_p(memory))
            assert bool(made) == (dims is storage)
            assert made is None or call.lib.aclDestroyTensor(ctypes.c_void_p(made)) == 0
            assert made is not None or b"the array of dimensions is null" in call.acl.aclGetRecentErrMsg()


def test_host_memory_is_refused(libraries):
    done = run(libraries, """
x = torch.ones(4)
try:
    call("aclnnNeg", x, x)
except RuntimeError as error:
    print(error)
print(x.tolist())
""", SOFTCANN_HOST_TENSORS="0")
    assert done.returncode == 0, done.stdout
    assert f"{INVALID}: aclnnNeg: parameter self, Float[4], is at" in done.stdout and "not device memory" in done.stdout
    assert "[1.0, 1.0, 1.0, 1.0]" in done.stdout


@pytest.mark.parametrize("dims, strides", [([1 << 40, 1 << 40], [1 << 40, 1]), ([1 << 31] * 3, None), ([2], [1 << 62]),
                                           ([3, 3], [1 << 61, 1 << 61]), ([1 << 62], [1])])
def test_sizes_that_no_memory_has_are_refused(call, dims, strides):
    longs = LONG * len(dims)
    for storage in (dims, [4]):
        made = call.lib.aclCreateTensor(longs(*dims), ctypes.c_uint64(len(dims)), 0, longs(*strides) if strides else None, LONG(0),
                                        2, (LONG * len(storage))(*storage), ctypes.c_uint64(len(storage)), None)
        assert made is None
        assert b"further than memory can be addressed" in call.acl.aclGetRecentErrMsg()
    made = call.lib.aclCreateTensor(ctypes.byref(LONG(4)), ctypes.c_uint64(1), 0, None, LONG(1 << 62), 2,
                                    ctypes.byref(LONG(4)), ctypes.c_uint64(1), None)
    assert made is None


def test_a_handle_of_another_kind_is_told(call, memory):
    x, number = described(call, memory, 4), call.scalar(1.0)
    sizes = call.array("aclCreateIntArray", LONG, [1, 2])
    for self, other, alpha, name, found in ((number, x, number, "self", "aclScalar"), (x, sizes, number, "other", "aclIntArray"),
                                            (x, x, x, "alpha", "aclTensor")):
        step = Call(call, "aclnnAdd", self, other, alpha, x)
        assert step.status == INVALID
        assert f"parameter {name}" in step.message() and f"is an {found}, not an acl" in step.message()
    kind = ctypes.c_int()
    assert call.lib.aclGetDataType(number, ctypes.byref(kind)) == INVALID
    assert call.lib.aclDestroyScalar(x) == INVALID and call.lib.aclDestroyTensor(number) == INVALID
    assert call.lib.aclGetDataType(x, ctypes.byref(kind)) == 0  # still there


def test_a_handle_that_was_destroyed_is_told(call, memory):
    x, y = described(call, memory, 4), described(call, memory, 4)
    assert call.lib.aclDestroyTensor(x) == 0
    step = Call(call, "aclnnNeg", x, y)
    assert step.status == INVALID and "is no aclTensor: it was destroyed, or never created" in step.message()
    assert call.lib.aclDestroyTensor(x) == INVALID
    made = (ctypes.c_void_p * 2)(y.value, x.value)
    assert call.lib.aclCreateTensorList(made, ctypes.c_uint64(2)) is None
    tensors = ctypes.c_void_p(call.lib.aclCreateTensorList(made, ctypes.c_uint64(1)))
    size = ctypes.c_uint64()
    assert call.lib.aclDestroyTensorList(tensors) == 0
    assert call.lib.aclDestroyTensorList(tensors) == INVALID
    assert call.lib.aclGetTensorListSize(tensors, ctypes.byref(size)) == INVALID


def test_a_handle_whose_object_lives_again_is_told(call, memory):
    stale, kind = described(call, memory, 4), ctypes.c_int()
    assert call.lib.aclDestroyTensor(stale) == 0
    fresh = described(call, memory, 4)
    address = (1 << 48) - 1
    assert fresh.value != stale.value and fresh.value & address == stale.value & address   # the same object
    step = Call(call, "aclnnNeg", stale, fresh)
    assert step.status == INVALID and "is no aclTensor: it was destroyed, or never created" in step.message()
    assert call.lib.aclGetDataType(stale, ctypes.byref(kind)) == INVALID and call.lib.aclDestroyTensor(stale) == INVALID
    assert call.lib.aclGetDataType(fresh, ctypes.byref(kind)) == 0


def test_an_executor_that_lives_again_is_not_the_old_one(call, memory):
    x = described(call, memory, 4)
    first = Call(call, "aclnnNeg", x, x)
    assert first.launch() == 0 and call.acl.aclrtSynchronizeStream(call.stream) == 0
    second = Call(call, "aclnnNeg", x, x)
    assert first.executor.value != second.executor.value
    assert first.launch() == INVALID and call.lib.aclDestroyAclOpExecutor(first.executor) == INVALID
    assert second.launch() == 0


def test_an_executor_in_a_queue_is_not_the_clients(libraries):
    done = run(libraries, """
import ctypes
x = torch.ones(1 << 20)
lib, made = call.lib, [call.tensor(x), call.tensor(x)]
size, executor = ctypes.c_uint64(), ctypes.c_void_p()
assert lib.aclnnNegGetWorkspaceSize(*made, ctypes.byref(size), ctypes.byref(executor)) == 0
codes = [lib.aclnnNeg(None, size, executor, call.stream) for _ in range(3)]
codes.append(lib.aclDestroyAclOpExecutor(executor))
assert call.acl.aclrtSynchronizeStream(call.stream) == 0
print(codes, x[0].item())
""", SOFTCANN_INLINE_NS="0")
    assert done.returncode == 0 and done.stdout.strip() == f"[0, {INVALID}, {INVALID}, {INVALID}] -1.0", done.stdout


def test_a_list_knows_that_an_element_was_destroyed(call, memory):
    x, y, out = described(call, memory, 4), described(call, memory, 4), described(call, memory, 8)
    tensors = ctypes.c_void_p(call.lib.aclCreateTensorList((ctypes.c_void_p * 2)(x.value, y.value), ctypes.c_uint64(2)))
    assert call.lib.aclDestroyTensor(y) == 0
    other, kind = described(call, memory, 4), ctypes.c_int()
    step = Call(call, "aclnnCat", tensors, LONG(0), out)
    assert step.status == INVALID and "element 1 of parameter tensors was destroyed" in step.message()
    assert call.lib.aclDestroyTensorList(tensors) == 0
    assert call.lib.aclGetDataType(x, ctypes.byref(kind)) == INVALID       # a list takes its elements along,
    assert call.lib.aclGetDataType(other, ctypes.byref(kind)) == 0   # but not what lies where one of them was


@pytest.mark.parametrize("address", [0xdead000, 64, (1 << 64) - 4096])
def test_addresses_that_are_no_descriptors(call, memory, address):
    stranger, x, kind = ctypes.c_void_p(address), described(call, memory, 4), ctypes.c_int()
    for bad in (stranger, ctypes.c_void_p(x.value + 8), ctypes.c_void_p(memory), call.stream):
        step = Call(call, "aclnnNeg", bad, x)
        assert step.status == INVALID and "is no aclTensor" in step.message()
        assert call.lib.aclGetDataType(bad, ctypes.byref(kind)) == INVALID and call.lib.aclDestroyTensor(bad) == INVALID
        assert call.lib.aclnnNeg(None, ctypes.c_uint64(0), bad, call.stream) == INVALID
        assert call.lib.aclDestroyAclOpExecutor(bad) == INVALID


def test_an_executor_serves_one_launch(call, memory):
    x = described(call, memory, 4)
    step = Call(call, "aclnnNeg", x, x)
    assert step.launch() == 0
    assert step.launch() == INVALID and "destroyed" in step.message()
    assert call.lib.aclDestroyAclOpExecutor(step.executor) == INVALID
    assert call.lib.aclnnNeg(None, ctypes.c_uint64(0), x, call.stream) == INVALID


@pytest.mark.parametrize("address", [0xdead000, 64, (1 << 64) - 4096])
def test_addresses_that_are_no_handles(call, address):
    """The runtime looks at no address that it has not given out."""
    stranger, status = ctypes.c_void_p(address), ctypes.c_int()
    acl = call.acl
    assert acl.aclrtStreamQuery(stranger, ctypes.byref(status)) == INVALID_HANDLE
    assert acl.aclrtSynchronizeStream(stranger) == INVALID_HANDLE
    assert acl.aclrtDestroyStream(stranger) == INVALID_HANDLE
    assert acl.aclrtRecordEvent(stranger, call.stream) == INVALID_HANDLE
    assert acl.aclrtDestroyEvent(stranger) == INVALID_HANDLE
    assert acl.aclrtSetCurrentContext(stranger) == INVALID_HANDLE
    middle = ctypes.c_void_p(call.stream.value + 8)
    assert acl.aclrtSynchronizeStream(middle) == INVALID_HANDLE


def test_no_descriptor_has_no_size(call):
    call.acl.aclGetTensorDescSize.restype = ctypes.c_size_t
    assert call.acl.aclGetTensorDescSize(None) == 0


def test_an_array_that_must_be_there_may_not_be_null(call, memory):
    x = described(call, memory, 4)
    step = Call(call, "aclnnRepeat", x, None, x)
    assert step.status == NULL and "parameter repeats is null" in step.message()


def test_device_memory_computes(call, memory):
    x = torch.arange(4.0)
    copy = call.acl.aclrtMemcpy
    size = ctypes.c_size_t(16)
    assert copy(ctypes.c_void_p(memory), size, ctypes.c_void_p(x.data_ptr()), size, 1) == 0
    view = described(call, memory, 4)
    step = Call(call, "aclnnNeg", view, view)
    assert step.status == 0 and step.launch() == 0 and call.acl.aclrtSynchronizeStream(call.stream) == 0
    assert copy(ctypes.c_void_p(x.data_ptr()), size, ctypes.c_void_p(memory), size, 2) == 0
    assert x.tolist() == [0, -1, -2, -3]
