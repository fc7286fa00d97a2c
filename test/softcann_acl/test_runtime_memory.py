"""Memory by calls that pyACL has no names for: shared by host and devices, a client's allocators, random numbers, addresses in memory."""
import ctypes

import numpy as np
import pytest

INVALID, HANDLE, UNSUPPORTED, PARAMETER, REFUSED = 100000, 107017, 207000, 107000, 161002
size = ctypes.c_size_t
PAGE = 2 << 20


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int32)]


DEVICE, HOST = Location(1, 0), Location(2, 0)


@pytest.fixture
def managed(rt):
    pointer = ctypes.c_void_p()
    assert rt.aclrtMemAllocManaged(ctypes.byref(pointer), ctypes.c_uint64(3 * PAGE + 1), 1) == 0   # 4 pages
    assert pointer.value % PAGE == 0 and 0x90000000000 <= pointer.value < 0x90000000000 + (3 << 40)
    yield pointer
    assert rt.aclrtFree(pointer) == 0 and rt.aclrtFree(pointer) == PARAMETER


def test_others_may_have_mapped_something_at_such_addresses(acl, rt):
    """Behind the first piece there is memory of somebody else, and behind that enough room."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fixed_noreplace, private_anonymous, read = 0x100000, 0x22, 1
    pieces = [ctypes.c_void_p() for _ in range(3)]
    assert rt.aclrtMemAllocManaged(ctypes.byref(pieces[0]), ctypes.c_uint64(PAGE), 1) == 0
    strange = pieces[0].value + PAGE
    assert libc.mmap(strange, size(PAGE // 2), read, private_anonymous | fixed_noreplace, -1, 0) == strange
    for piece in pieces[1:]:
        assert rt.aclrtMemAllocManaged(ctypes.byref(piece), ctypes.c_uint64(2 * PAGE), 1) == 0, acl.get_recent_err_msg()
    assert [piece.value - strange for piece in pieces[1:]] == [PAGE, 3 * PAGE]
    assert libc.munmap(ctypes.c_void_p(strange), size(PAGE // 2)) == 0 and [rt.aclrtFree(piece) for piece in pieces] == [0, 0, 0]


def test_host_and_device_share_memory(acl, rt, stream, managed, copied):
    host = np.ctypeslib.as_array(ctypes.cast(managed, ctypes.POINTER(ctypes.c_float)), (PAGE,))
    host[:] = 1
    ones, back = copied(np.full(PAGE, 2, np.float32))
    assert rt.aclrtReduceAsync(managed, ones, ctypes.c_uint64(4 * PAGE), 10, 0, stream, None) == 0   # the device adds
    assert acl.rt.synchronize_stream(stream.value) == 0 and (host == 3).all()
    host[7] = 5
    assert rt.aclrtMemcpyAsync(ones, size(4 * PAGE), managed, size(4 * PAGE), 3, stream) == 0 == acl.rt.synchronize_stream(stream.value)
    assert back()[7] == 5 and back()[8] == 3
    assert rt.aclrtMemset(managed, size(4 * PAGE), 0, size(64)) == 0 and host[0] == 0
    assert rt.aclrtReduceAsync(managed, ones, ctypes.c_uint64(4 * PAGE + 4), 10, 0, stream, None) == PARAMETER   # too far


def told(rt, pointer, length, attribute, count=1):
    found = (ctypes.c_int32 * count)(*[77] * count)
    assert rt.aclrtMemManagedGetAttr(attribute, pointer, size(length), found, size(4 * count)) == 0
    return found[0] if count == 1 else list(found)


def advised(rt, pointer, pages, advice, location):
    return rt.aclrtMemManagedAdvise(pointer, ctypes.c_uint64(pages * PAGE), advice, location)


def test_advice_is_told_again(rt, stream, managed):
    second = ctypes.c_void_p(managed.value + PAGE)
    assert told(rt, managed, 4 * PAGE, 1) == 0
    assert advised(rt, managed, 1, 0, Location()) == 0
    assert (told(rt, managed, PAGE, 1), told(rt, managed, PAGE + 1, 1)) == (1, 0)   # of all pages
    assert advised(rt, managed, 1, 1, Location()) == 0 and told(rt, managed, PAGE, 1) == 0
    assert [told(rt, managed, PAGE, attribute) for attribute in (2, 4, 5)] == [-2, 0, -2]
    assert advised(rt, managed, 2, 2, DEVICE) == 0 == advised(rt, second, 1, 2, HOST)
    assert [told(rt, managed, PAGE, attribute) for attribute in (2, 4, 5)] == [0, 1, 0]
    assert [told(rt, second, PAGE, attribute) for attribute in (2, 4)] == [-1, 2]
    assert [told(rt, managed, 2 * PAGE, attribute) for attribute in (2, 4)] == [-2, 0]
    assert advised(rt, managed, 2, 3, Location()) == 0 and told(rt, managed, 2 * PAGE, 4) == 0
    assert advised(rt, managed, 2, 4, DEVICE) == 0 == advised(rt, managed, 1, 4, HOST)
    assert told(rt, managed, PAGE, 3, 3) == [0, -1, -2] and told(rt, managed, 2 * PAGE, 3, 3) == [0, -2, -2]
    assert advised(rt, managed, 2, 5, DEVICE) == 0 and told(rt, managed, PAGE, 3, 2) == [-1, -2]
    several, sizes = (ctypes.c_void_p * 2)(), (ctypes.c_size_t * 2)(4, 8)
    one, two = ctypes.c_int32(), (ctypes.c_int32 * 2)()
    several[0], several[1] = ctypes.addressof(one), ctypes.addressof(two)
    assert rt.aclrtMemManagedGetAttrs((ctypes.c_int * 2)(1, 3), size(2), managed, size(PAGE), several, sizes) == 0
    assert list(two) == [-1, -2]


def test_pages_are_fetched(acl, rt, stream, managed):
    assert rt.aclrtMemManagedPrefetchAsync(managed, size(PAGE), DEVICE, 0, stream) == 0
    assert [told(rt, managed, PAGE, attribute) for attribute in (6, 7, 8)] == [0, 1, 0] and told(rt, managed, 2 * PAGE, 7) == 0
    pieces = (ctypes.c_void_p * 3)(*(managed.value + i * PAGE for i in range(3)))
    sizes, places, first = (ctypes.c_size_t * 3)(PAGE, PAGE, PAGE), (Location * 2)(HOST, DEVICE), (ctypes.c_size_t * 2)(0, 2)
    batch = rt.aclrtMemManagedPrefetchBatchAsync
    assert batch(pieces, sizes, size(3), places, first, size(2), ctypes.c_uint64(0), stream) == 0
    assert acl.rt.synchronize_stream(stream.value) == 0
    assert [told(rt, ctypes.c_void_p(piece), PAGE, 6) for piece in pieces] == [-1, -1, 0]
    for wrong in ((1, 2), (0, 0), (0, 3)):
        assert batch(pieces, sizes, size(3), places, (ctypes.c_size_t * 2)(*wrong), size(2), ctypes.c_uint64(0), stream) == INVALID
    assert batch(pieces, sizes, size(1), places, first, size(2), ctypes.c_uint64(0), stream) == INVALID


def test_what_managed_memory_refuses(acl, rt, stream, managed):
    pointer, room = ctypes.c_void_p(), ctypes.c_int32()
    assert rt.aclrtMemAllocManaged(ctypes.byref(pointer), ctypes.c_uint64(0), 1) == INVALID
    assert rt.aclrtMemAllocManaged(ctypes.byref(pointer), ctypes.c_uint64(1), 0) == INVALID
    assert rt.aclrtMemAllocManaged(ctypes.byref(pointer), ctypes.c_uint64(1 << 63), 1) == 207001
    assert advised(rt, managed, 5, 0, HOST) == INVALID and advised(rt, managed, 1, 6, HOST) == INVALID
    assert rt.aclrtMemManagedAdvise(managed, ctypes.c_uint64(4096), 0, HOST) == INVALID
    assert advised(rt, managed, 1, 2, Location(1, 99)) == 107001 and advised(rt, managed, 1, 2, Location(3, 0)) == UNSUPPORTED
    assert advised(rt, managed, 1, 2, Location(0, 0)) == INVALID
    get = rt.aclrtMemManagedGetAttr
    assert get(9, managed, size(PAGE), ctypes.byref(room), size(4)) == INVALID == get(1, managed, size(PAGE), ctypes.byref(room), size(8))
    assert get(3, managed, size(PAGE), ctypes.byref(room), size(3)) == INVALID
    assert get(1, ctypes.c_void_p(4096), size(PAGE), ctypes.byref(room), size(4)) == INVALID
    assert rt.aclrtMemManagedPrefetchAsync(managed, size(PAGE), DEVICE, 1, stream) == INVALID
    assert rt.aclrtFree(ctypes.c_void_p(managed.value + PAGE)) == PARAMETER


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
NEAR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
ADDRESS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def test_allocators_of_a_client(rt, stream):
    rt.aclrtAllocatorCreateDesc.restype = ctypes.c_void_p
    desc = ctypes.c_void_p(rt.aclrtAllocatorCreateDesc())
    functions = ALLOCATE(lambda _, n: n), FREE(lambda _, block: None), NEAR(lambda _, n, at: at), ADDRESS(lambda block: block)
    assert rt.aclrtAllocatorRegister(stream, desc) == INVALID   # it lacks everything
    assert rt.aclrtAllocatorSetObjToDesc(desc, ctypes.c_void_p(1234)) == 0
    for name, function in zip(("AllocFunc", "FreeFunc", "AllocAdviseFunc", "GetAddrFromBlockFunc"), functions):
        call = getattr(rt, f"aclrtAllocatorSet{name}ToDesc")
        assert call(desc, function) == 0 and call(desc, None) == INVALID and call(None, function) == INVALID
    found = [ctypes.c_void_p() for _ in range(6)]
    by_stream = [ctypes.byref(one) for one in found]
    assert rt.aclrtAllocatorGetByStream(stream, *by_stream) == INVALID
    assert rt.aclrtAllocatorRegister(stream, desc) == 0 and rt.aclrtAllocatorRegister(None, desc) == INVALID
    assert rt.aclrtAllocatorGetByStream(stream, *by_stream) == 0
    assert [one.value for one in found] == [desc.value, 1234, *(ctypes.cast(one, ctypes.c_void_p).value for one in functions)]
    assert ALLOCATE(found[2].value)(found[1], 99) == 99
    assert rt.aclrtAllocatorUnregister(stream) == 0 == rt.aclrtAllocatorUnregister(stream)
    assert rt.aclrtAllocatorGetByStream(stream, *by_stream) == INVALID
    assert rt.aclrtAllocatorDestroyDesc(desc) == 0 and rt.aclrtAllocatorDestroyDesc(desc) == HANDLE


class Parameter(ctypes.Structure):
    _fields_ = [("is_address", ctypes.c_uint8), ("value", ctypes.c_uint8 * 8), ("size", ctypes.c_uint8), ("rsv", ctypes.c_uint8 * 6)]

    @classmethod
    def of(cls, value):
        made = cls(0)
        raw = value.tobytes()
        made.size = len(raw)
        made.value[:len(raw)] = raw
        return made

    @classmethod
    def at(cls, address):
        made = cls(1, size=8)
        made.value[:] = address.to_bytes(8, "little")
        return made


class RandomTask(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("kind", ctypes.c_int), ("first", Parameter), ("second", Parameter), ("parameters", ctypes.c_void_p),
                ("result", ctypes.c_void_p), ("counter", ctypes.c_void_p), ("seed", Parameter), ("count", Parameter), ("rsv", ctypes.c_uint8 * 8)]


MASK, UNIFORM, NORMAL, TRUNCATED = range(4)
TYPES = {np.int32: 3, np.int64: 9, np.uint32: 8, np.uint64: 10, np.float16: 1, np.float32: 0}


@pytest.fixture
def drawn(acl, rt, stream, copied):
    """Random numbers of a kind, and the code of the call and the stream."""
    def draw(kind, of, low, high=0, many=20000, key=1, begins=0, room=None, as_dtype=None, **fields):
        start, _ = copied(np.array([begins, 0], np.uint64))
        result, back = copied(np.zeros(many if room is None else room, as_dtype or of))
        task = RandomTask(TYPES[of], kind, Parameter.of(of(low)), Parameter.of(of(high)), None, result, start,
                          Parameter.of(np.uint64(key)), Parameter.of(np.uint64(many)))
        for name, value in fields.items():
            setattr(task, name, value)
        code = rt.aclrtRandomNumAsync(ctypes.byref(task), stream, None)
        return back, code or acl.rt.synchronize_stream(stream.value)
    return draw


@pytest.mark.parametrize("dtype", TYPES)
def test_uniform_numbers(drawn, dtype):
    low, high = (2, 12) if np.dtype(dtype).kind == "u" else (-5, 5)
    back, code = drawn(UNIFORM, dtype, low, high)
    values = back()
    assert code == 0 and values.min() >= low and values.max() < high
    counts, _ = np.histogram(values.astype(np.float64), bins=10, range=(low, high))
    assert (abs(counts - 2000) < 300).all()   # 7 standard deviations of 2000 of 20000
    assert np.array_equal(drawn(UNIFORM, dtype, low, high)[0](), values)   # by seed and counter alone
    assert not np.array_equal(drawn(UNIFORM, dtype, low, high, key=2)[0](), values)
    assert not np.array_equal(drawn(UNIFORM, dtype, low, high, begins=9)[0](), values)


def test_the_counter_goes_on(drawn):
    """Four words of 32 bits are one step of it, and two of them one number."""
    values = drawn(UNIFORM, np.float32, 0, 1)[0]()
    assert np.array_equal(drawn(UNIFORM, np.float32, 0, 1, begins=5, many=100)[0](), values[10:110])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_normal_numbers(drawn, dtype):
    values = drawn(NORMAL, dtype, 3, 2)[0]().astype(np.float64)
    assert abs(values.mean() - 3) < 0.1 and abs(values.std() - 2) < 0.07 and (abs(values - 3) > 4).mean() > 0.03
    cut = drawn(TRUNCATED, dtype, 3, 2)[0]().astype(np.float64)
    assert abs(cut - 3).max() <= 4.01 and abs(cut.mean() - 3) < 0.1 and abs(cut.std() - 1.76) < 0.07   # 0.8796 of 2


def test_masks_of_dropout(drawn):
    back, code = drawn(MASK, np.float32, 0.25, many=20003, room=2502, as_dtype=np.uint8)
    bits = np.unpackbits(back(), bitorder="little")
    assert code == 0 and abs(bits[:20003].mean() - 0.75) < 0.02 and not bits[20003:].any()   # 1 keeps


def test_random_numbers_in_a_graph_and_with_parameters_in_memory(acl, rt, stream, copied):
    bounds, _ = copied(np.array([10, 20], np.int32))
    start, _ = copied(np.zeros(2, np.uint64))
    result, back = copied(np.zeros(64, np.int32))
    task = RandomTask(3, UNIFORM, Parameter.at(bounds.value), Parameter.at(bounds.value + 4), None, result, start, Parameter.of(np.uint64(1)),
                      Parameter.of(np.uint64(64)))
    graph, results = ctypes.c_void_p(), []
    assert rt.aclmdlRICaptureBegin(stream, 2) == 0 == rt.aclrtRandomNumAsync(ctypes.byref(task), stream, None)
    assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0
    for low in (10, 200):   # what is in memory when it runs
        assert rt.aclrtMemcpy(bounds, size(8), np.array([low, low + 10], np.int32).ctypes.data_as(ctypes.c_void_p), size(8), 1) == 0
        assert rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value)
        results.append(back() - low)
    assert np.array_equal(*results) and results[0].min() >= 0 and results[0].max() < 10 and rt.aclmdlRIDestroy(graph) == 0


def test_what_random_numbers_refuse(acl, rt, stream, drawn):
    assert drawn(NORMAL, np.int32, 1, 2)[1] == UNSUPPORTED == drawn(UNIFORM, np.float32, 1, 2, dtype=2)[1]
    assert drawn(9, np.float32, 1, 2)[1] == INVALID == drawn(UNIFORM, np.float32, 1, 2, result=None)[1]
    assert drawn(UNIFORM, np.float32, 1, 2, first=Parameter.of(np.float64(1)))[1] == INVALID   # 8 bytes of a float
    assert drawn(UNIFORM, np.float32, 1, 2, first=Parameter.at(8))[1] == PARAMETER   # nothing is there
    for first, second, count, room in ((2, 1, 10, 10), (1, 2, 1 << 40, 10)):
        assert drawn(UNIFORM, np.float32, first, second, many=count, room=room)[1] == REFUSED
    for first, second in ((-np.inf, 1), (0, np.inf), (np.nan, 1)):
        assert drawn(UNIFORM, np.float32, first, second)[1] == REFUSED and "not finite" in acl.get_recent_err_msg()
    assert drawn(MASK, np.float32, 1.5)[1] == REFUSED


def test_whole_numbers_from_a_range_that_floats_cannot_tell(drawn):
    back, code = drawn(UNIFORM, np.int64, 2**60, 2**60 + 2)
    assert code == 0 and set(back().tolist()) == {2**60, 2**60 + 1}


def test_copies_by_addresses_in_memory(acl, rt, stream, copied):
    a, from_a = copied(np.arange(8, dtype=np.int32))
    b, from_b = copied(np.zeros(8, np.int32))
    desc, room = ctypes.c_void_p(), ctypes.c_size_t()
    assert rt.aclrtGetMemcpyDescSize(6, ctypes.byref(room)) == 0 and rt.aclrtGetMemcpyDescSize(3, ctypes.byref(room)) == UNSUPPORTED
    assert rt.aclrtMalloc(ctypes.byref(desc), room, 0) == 0
    assert rt.aclrtSetMemcpyDesc(desc, 6, a, b, size(16), None) == 0
    graph = ctypes.c_void_p()
    assert rt.aclmdlRICaptureBegin(stream, 2) == 0 == rt.aclrtMemcpyAsyncWithDesc(desc, 6, stream)
    assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0 == rt.aclmdlRIExecuteAsync(graph, stream)
    assert acl.rt.synchronize_stream(stream.value) == 0 and from_b().tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert rt.aclrtSetMemcpyDesc(desc, 6, a, ctypes.c_void_p(b.value + 16), size(8), None) == 0   # the graph reads it anew
    assert rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value)
    assert from_b().tolist() == [0, 1, 2, 3, 0, 1, 0, 0] and rt.aclmdlRIDestroy(graph) == 0
    assert rt.aclrtSetMemcpyDesc(desc, 6, a, b, size(1 << 40), None) == 0 == rt.aclrtMemcpyAsyncWithDesc(desc, 6, stream)
    assert acl.rt.synchronize_stream(stream.value) == REFUSED and "reach beyond" in acl.get_recent_err_msg()
    assert rt.aclrtSetMemcpyDesc(desc, 6, a, b, size(0), None) == INVALID == rt.aclrtMemcpyAsyncWithDesc(None, 6, stream)

    bases, _ = copied(np.array([b.value, a.value], np.uint64))
    source = ctypes.c_void_p(bases.value + 8)
    assert rt.aclrtMemcpyAsyncWithOffset(bases, size(32), size(4), source, size(8), size(20), 6, stream) == 0
    assert acl.rt.synchronize_stream(stream.value) == 0 and from_b().tolist() == [0, 5, 6, 3, 0, 1, 0, 0]
    assert rt.aclrtMemcpyAsyncWithOffset(bases, size(4), size(0), source, size(8), size(0), 6, stream) == INVALID
    assert rt.aclrtMemcpyAsyncWithOffset(bases, size(8), size(0), source, size(8), size(0), 3, stream) == UNSUPPORTED
    assert rt.aclrtFree(desc) == 0 and from_a().tolist() == list(range(8))


def test_prefetches_by_addresses_in_memory(acl, rt, stream, copied):
    a, _ = copied(np.arange(8, dtype=np.int32))
    room, desc = ctypes.c_size_t(), ctypes.c_void_p()
    assert rt.aclrtCmoGetDescSize(ctypes.byref(room)) == 0 == rt.aclrtMalloc(ctypes.byref(desc), room, 0)
    assert rt.aclrtCmoSetDesc(desc, a, size(32)) == 0 == rt.aclrtCmoAsyncWithDesc(desc, 0, stream, None)
    assert acl.rt.synchronize_stream(stream.value) == 0
    assert rt.aclrtCmoSetDesc(desc, a, size(1 << 40)) == 0 == rt.aclrtCmoAsyncWithDesc(desc, 0, stream, None)
    assert acl.rt.synchronize_stream(stream.value) == REFUSED
    assert rt.aclrtCmoSetDesc(desc, a, size(0)) == INVALID and rt.aclrtCmoAsyncWithDesc(desc, 1, stream, None) == UNSUPPORTED
    assert rt.aclrtCmoAsyncWithDesc(desc, 0, stream, a) == INVALID and rt.aclrtFree(desc) == 0


def test_kinds_of_memory(acl, rt):
    allocated, reserved, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32(9)
    assert rt.aclrtMallocForTaskScheduler(ctypes.byref(allocated), size(64), 0, None) == 0
    assert rt.aclrtReserveMemAddress(ctypes.byref(reserved), size(PAGE), size(0), None, ctypes.c_uint64(1)) == 0
    both = (ctypes.c_void_p * 2)(allocated, reserved)
    for count, kinds, expected in ((1, 2, 1), (1, 8, 1), (1, 16, 0), (2, 2, 0), (2, 18, 1)):
        assert rt.aclrtCheckMemType(both, count, kinds, ctypes.byref(result), 0) == 0 and result.value == expected
    assert rt.aclrtCheckMemType(both, 0, 2, ctypes.byref(result), 0) == INVALID == rt.aclrtCheckMemType(both, 1, 4, ctypes.byref(result), 0)
    assert rt.aclrtFree(allocated) == 0 == rt.aclrtReleaseMemAddress(reserved)
    assert rt.aclrtCheckMemType(both, 1, 2, ctypes.byref(result), 0) == 0 and result.value == 0


def test_a_pools_memory_that_a_graph_gives_back(acl, rt, stream):
    """It is the graph's: out of the pool at once, used by each execution, the device's again when the graph is gone."""
    class Props(ctypes.Structure):
        _fields_ = [("alloc", ctypes.c_int), ("handle", ctypes.c_int), ("id", ctypes.c_uint32), ("type", ctypes.c_int),
                    ("most", ctypes.c_size_t), ("reserved", ctypes.c_ubyte * 32)]
    pool, pointer, graph, used = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert rt.aclrtMemPoolCreate(ctypes.byref(pool), ctypes.byref(Props(type=1))) == 0
    free = acl.rt.get_mem_info(1)[0]
    for ends in (True, False):
        assert rt.aclmdlRICaptureBegin(stream, 2) == 0
        assert rt.aclrtMemPoolMallocAsync(ctypes.byref(pointer), size(4096), pool, stream) == 0
        assert rt.aclrtMemsetD32Async(pointer, size(4096), 1, size(1024), stream) == 0
        assert rt.aclrtMemPoolFreeAsync(pointer, stream) == 0 and rt.aclrtMemPoolFreeAsync(pointer, stream) == PARAMETER
        assert rt.aclrtMemPoolGetAttr(pool, 7, ctypes.byref(used)) == 0 and used.value == 0
        if not ends:   # the capture comes to nothing
            assert rt.aclrtSynchronizeStream(stream) != 0 != rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph))
        else:
            assert rt.aclmdlRICaptureEnd(stream, ctypes.byref(graph)) == 0
            for _ in range(3):
                assert rt.aclmdlRIExecuteAsync(graph, stream) == 0 == acl.rt.synchronize_stream(stream.value)
            assert acl.rt.get_mem_info(1)[0] <= free - 4096 and rt.aclmdlRIDestroy(graph) == 0
        assert acl.rt.get_mem_info(1)[0] == free
    assert rt.aclrtMemPoolDestroy(pool) == 0
