"""Names of the published torch_npu's C++ part: each answers as the public function behind it."""
import pytest
import torch

import torch_npu
from torch_npu._published import c_extension

_C = torch_npu._C


def test_the_table_resolves_and_hides_nothing():
    for name in c_extension._table():
        assert callable(getattr(_C, name)) and name not in vars(_C)
    with pytest.raises(AttributeError, match="module 'torch_npu._C' has no attribute '_npu_nothing'"):
        _C._npu_nothing
    assert not hasattr(_C, "__path__")


def test_devices():
    assert _C._npu_getDeviceCount() == torch.npu.device_count() and _C._npu_getDevice() == torch.npu.current_device()
    assert _C._npu_getDeviceName() == torch.npu.get_device_name(0) == _C._npu_getDeviceProperties(0).name
    memories = _C._npu_getDeviceMemories(0)
    assert memories.total_memory == torch.npu.get_device_properties(0).total_memory >= memories.free_memory > 0
    torch.ones(1, device="npu:0")
    assert _C._npu_hasPrimaryContext(0)
    with pytest.raises(RuntimeError, match="there is no npu:99"):
        _C._npu_hasPrimaryContext(99)
    assert _C._npu_get_soc_version() == torch.npu.get_soc_version() and _C._npu_is_bf16_supported() is True


def test_streams():
    stream = torch.npu.Stream()
    before = _C._npu_getCurrentStream(0)
    assert before == (torch.npu.current_stream(0).stream_id, 0, 20) and _C._npu_getDefaultStream(0)[1:] == (0, 20)
    _C._npu_setStream(stream.stream_id, stream.device_index, 20)
    try:
        assert torch.npu.current_stream() == stream and _C._npu_getCurrentRawStream(0) == stream.npu_stream
    finally:
        _C._npu_setStream(*before)
    with pytest.raises(ValueError, match="device type 1 is none of the NPU"):
        _C._npu_setStream(0, 0, 1)


def test_memory():
    before = torch.npu.memory_allocated()
    address = _C._npu_npuCachingAllocator_raw_alloc(4096, _C._npu_getCurrentRawStream(0))
    assert torch.npu.memory_allocated() == before + 4096
    _C._npu_npuCachingAllocator_raw_delete(address)
    assert torch.npu.memory_allocated() == before
    stats = _C._npu_memoryStats(0)
    assert stats["allocated_bytes"]["all"]["current"] == before and set(_C._npu_memorySnapshot()) >= {"segments", "device_traces"}
    _C._npu_record_memory_history("all", "all", "python", 10)
    try:
        kept = torch.ones(3, device="npu")
        assert any(entry["addr"] == kept.data_ptr() for trace in _C._npu_memorySnapshot(None)["device_traces"] for entry in trace)
    finally:
        _C._npu_record_memory_history(None, None, "all", 10)
    pool = torch.npu.MemPool()
    _C._npu_beginAllocateCurrentThreadToPool(0, pool.id)
    inside = torch.ones(5, device="npu")
    _C._npu_endAllocateToPool(0, pool.id)
    _C._npu_releasePool(0, pool.id)
    assert any(block["address"] == inside.data_ptr() for segment in pool.snapshot() for block in segment["blocks"])
    _C._npu_setMemoryFraction(0.5, 0)
    assert _C._npu_getMemoryFraction(0) == pytest.approx(0.5)
    _C._npu_setMemoryFraction(1.0, 0)
    assert _C._npu_getAllocatorBackend() == "native"


def test_settings():
    assert _C._npu_getOption("nothing") is None and _C._npu_getOption("ALLOW_INTERNAL_FORMAT") in (b"enable", b"disable")
    _C._npu_setOption({"ACL_OP_DEBUG_LEVEL": "1"})
    assert _C._npu_getOption("ACL_OP_DEBUG_LEVEL") == b"1" and _C._npu_getOption("ACL_DEBUG_DIR") == b""
    assert _C._get_cann_version("CANN") == torch_npu.npu.utils.get_cann_version()
    assert _C._is_gte_cann_version("1.0.0", "CANN") is True
    assert _C.get_autocast_dtype() == torch.get_autocast_dtype("npu") and _C.is_autocast_enabled() is False
    made = _C._empty_strided_npu((2, 3), (1, 2), torch.float16)
    assert made.stride() == (1, 2) and made.dtype == torch.float16 and made.is_npu
    before = torch.utils.deterministic.fill_uninitialized_memory
    _C._npu_set_fill_uninitialized_memory(not before)
    assert _C._npu_get_fill_uninitialized_memory() is not before
    _C._npu_set_fill_uninitialized_memory(before)


def test_limits_and_addresses():
    stream, limits = torch.npu.Stream(), torch.npu.get_device_limit(0)
    three = stream.stream_id, stream.device_index, 20
    assert [_C._npu_get_device_res_limit(0, kind) for kind in (0, 1)] == [limits["cube_core_num"], limits["vector_core_num"]]
    _C._npu_set_stream_res_limit(*three, 1, 4)
    assert _C._npu_get_stream_res_limit(*three, 1) == 4 == torch.npu.get_stream_limit(stream)["vector_core_num"]
    _C._npu_reset_stream_res_limit(*three)
    assert _C._npu_get_stream_res_limit(*three, 1) == limits["vector_core_num"]
    assert isinstance(stream, _C._NPUStreamBase) and isinstance(torch.npu.Event(), _C._NPUEventBase)
    x, y = torch.ones(2, device="npu"), torch.ones(2, device="npu")
    assert _C._tensors_data_ptrs_at_indices_equal([x, y], [x.data_ptr(), 0], [0])
    assert not _C._tensors_data_ptrs_at_indices_equal([x, y], [x.data_ptr(), 0], [0, 1])
    view = x[1:]
    assert _C._storage_Use_Count(x.untyped_storage()._cdata) == _C._storage_Use_Count(y.untyped_storage()._cdata) + 1
    assert view.data_ptr() == x.data_ptr() + 4
    assert torch_npu.npu.npu_config.get_device_limit(0) == limits and torch_npu.npu.npu_config.config is torch.npu.config
