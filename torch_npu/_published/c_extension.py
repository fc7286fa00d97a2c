"""Names of the published torch_npu's C++ part, ``torch_npu._C``, that programs and tests call directly.

``torch_npu._C`` asks :func:`lookup` for what it lacks. Each name is what the public function behind it does; what has no
counterpart here is missing, as any other attribute.
"""

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

import torch_npu._C

_PRIVATE_USE = 20  # c10's number of the device type
# Kinds of cores by the published numbers: keys of limits that are read, arguments that set them.
_CORES = ("cube_core_num", "vector_core_num")
_LIMITS = ("cube_num", "vector_num")


def lookup(name: str) -> Any:
    """A name that ``torch_npu._C`` lacks. AttributeError where it is not served."""
    if name in ("get_autocast_dtype", "is_autocast_enabled", "set_autocast_dtype", "set_autocast_enabled"):
        from torch_npu import npu

        return getattr(npu, name)
    if name == "_distributed_rpc" and hasattr(torch_npu._C, "_rpc_npu_init"):
        torch_npu._C._rpc_npu_init()
        return vars(torch_npu._C)[name]
    if name.startswith("_") and not name.startswith("__") and name in _table():
        return _table()[name]
    raise AttributeError(f"module 'torch_npu._C' has no attribute {name!r}")


def listed() -> List[str]:
    """``dir(torch_npu._C)``."""
    from torch_npu import _C

    return sorted({*vars(_C), *_table()})


@functools.lru_cache(maxsize=None)
def _table() -> Dict[str, Any]:
    return {**_devices_and_streams(), **_memory(), **_settings_and_tensors()}


def _devices_and_streams() -> Dict[str, Any]:
    from torch_npu import npu
    from torch_npu.npu import _recovery, streams, utils
    from torch_npu.utils import affinity

    return {
        "_npu_init": npu.init, "_npu_synchronize": npu.synchronize, "_npu_setDevice": npu.set_device,
        "_npu_getDevice": npu.current_device, "_npu_getDeviceWithoutSet": npu.current_device,
        "_npu_getLocalDevice": npu.current_device, "_npu_getDeviceCount": npu.device_count,
        "_npu_getDeviceName": lambda: npu.get_device_name(), "_npu_getDeviceProperties": npu.get_device_properties,
        "_npu_getDeviceMemories": _Memories, "_npu_getDeviceUtilizationRate": npu.utilization,
        "_npu_canDeviceAccessPeer": npu.can_device_access_peer, "_npu_hasPrimaryContext": _has_context,
        "_npu_exchangeDevice": npu._exchange_device, "_npu_maybeExchangeDevice": npu._maybe_exchange_device,
        "_npu_get_soc_version": npu.get_soc_version, "_npu_is_bf16_supported": npu.is_bf16_supported,
        "_npu_ipc_collect": npu.ipc_collect, "_npu_stress_detect": utils.stress_detect, "_npu_stopDevice": npu.stop_device,
        "_npu_restart_device": npu.restart_device, "_npu_check_uce_in_memory": npu.check_uce_in_memory,
        "_mark_all_npu_data_ptr_unsafe": _recovery.mark_all_npu_tensor_unsafe,
        "_check_npu_data_ptr": _recovery.check_npu_storage_is_safe, "_update_npu_data_ptr": _recovery.update_npu_storage_to_safe,
        "_get_npu_data_unsafe_flag": _recovery.get_npu_tensor_unsafe_check_flag,
        "_set_npu_data_unsafe_flag": _recovery.set_npu_tensor_unsafe_check_flag,
        "_npu_set_thread_affinity": affinity.set_thread_affinity, "_npu_reset_thread_affinity": affinity.reset_thread_affinity,
        "_npu_set_op_timeout_ms": npu.set_op_timeout_ms,
        "_npu_getCurrentStream": lambda device: _three(npu.current_stream(device)),
        "_npu_getDefaultStream": lambda device: _three(npu.default_stream(device)),
        "_npu_setStream": _set_stream, "_npu_getCurrentRawStream": streams._get_current_raw_stream,
        "_npu_getCurrentRawStreamNoWait": streams._get_current_raw_stream, "_npu_sleep": npu._sleep,
        "_npu_isCurrentStreamCapturing": npu.is_current_stream_capturing, "_npu_eraseStream": streams.erase_stream,
        "_NPUStreamBase": npu.Stream, "_NPUEventBase": npu.Event,
        "_npu_get_device_res_limit": lambda device, kind: npu.get_device_limit(device)[_CORES[kind]],
        "_npu_set_device_res_limit": lambda device, kind, value: npu.set_device_limit(device, **{_LIMITS[kind]: value}),
        "_npu_get_stream_res_limit": _stream_limit, "_npu_set_stream_res_limit": _set_stream_limit,
        "_npu_reset_stream_res_limit": lambda stream_id, device_index, device_type: npu.reset_stream_limit(
            npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)),
        "_subscribe_report": npu._subscribe_report,
        "_unsubscribe_report": npu._unsubscribe_report,
    }


def _memory() -> Dict[str, Any]:
    from torch_npu import _C, npu
    from torch_npu.npu import memory

    return {
        "_npu_emptyCache": npu.empty_cache, "_npu_emptyVirtAddrCache": npu.empty_virt_addr_cache,
        "_npu_memoryStats": memory.memory_stats_as_nested_dict, "_npu_memorySnapshot": _snapshot,
        "_npu_resetAccumulatedMemoryStats": npu.reset_accumulated_memory_stats,
        "_npu_resetPeakMemoryStats": npu.reset_peak_memory_stats,
        "_npu_setMemoryFraction": npu.set_per_process_memory_fraction,
        "_npu_getMemoryFraction": npu.get_per_process_memory_fraction, "_npu_getAllocatorBackend": npu.get_allocator_backend,
        "_npu_npuCachingAllocator_raw_alloc": _raw_alloc, "_npu_npuCachingAllocator_raw_delete": npu.caching_allocator_delete,
        "_npu_npuCachingAllocator_set_allocator_settings": memory._set_allocator_settings,
        "_npu_attach_out_of_memory_observer": memory._attach_out_of_memory_observer,
        "_npu_record_memory_history": _record_history, "_npu_beginAllocateCurrentThreadToPool": _C._memory_begin_pool,
        "_npu_endAllocateToPool": _C._memory_end_pool, "_npu_releasePool": _C._memory_release_pool,
        "_npu_customAllocator": _C._memory_raw_allocator, "_npu_changeCurrentAllocator": _C._memory_replace_allocator,
        "_npu_hostEmptyCache": npu.empty_host_cache, "_npu_hostMemoryStats": memory.host_memory_stats_as_nested_dict,
        "_npu_resetAccumulatedHostMemoryStats": npu.reset_accumulated_host_memory_stats,
        "_npu_resetPeakHostMemoryStats": npu.reset_peak_host_memory_stats,
    }


def _settings_and_tensors() -> Dict[str, Any]:
    from torch_npu import npu
    from torch_npu.npu import dump, settings, utils

    return {
        "_npu_initDump": dump.init_dump, "_npu_setDump": dump.set_dump, "_npu_finalizeDump": dump.finalize_dump,
        "_tensors_data_ptrs_at_indices_equal": _have_addresses,
        "_npu_getOption": settings.published_option, "_npu_setOption": npu.set_option,
        "_npu_get_sync_debug_mode": npu.get_sync_debug_mode, "_npu_set_sync_debug_mode": npu.set_sync_debug_mode,
        "_npu_get_deterministic_level": npu._get_deterministic_level,
        "_npu_set_deterministic_level": npu.set_deterministic_level,
        "_npu_get_task_queue_enable": npu.get_task_queue_enable, "_npu_set_task_queue_enable": npu.set_task_queue_enable,
        "_npu_is_jit_compile_false": npu.is_jit_compile_false, "_npu_is_support_inf_nan": npu.is_support_inf_nan,
        "_get_cann_version": utils.get_cann_version,
        "_is_gte_cann_version": utils._is_gte_cann_version,
        "_npu_get_fill_uninitialized_memory": lambda: bool(torch.utils.deterministic.fill_uninitialized_memory),
        "_npu_set_fill_uninitialized_memory": _fill_uninitialized,
        "_check_overflow_npu": npu.get_npu_overflow_flag, "_clear_overflow_npu": npu.clear_npu_overflow_flag,
        "_storage_Use_Count": torch._C._storage_Use_Count,  # trl looks for it here, not in torch._C
        "_empty_strided_npu": _empty_strided, "_npu_to_dlpack": torch.utils.dlpack.to_dlpack,
        "_npu_from_dlpack": torch.utils.dlpack.from_dlpack,
    }


def _stream_limit(stream_id: int, device_index: int, device_type: int, type: int) -> int:
    from torch_npu import npu

    return npu.get_stream_limit(npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))[_CORES[type]]


def _set_stream_limit(stream_id: int, device_index: int, device_type: int, type: int, value: int) -> None:
    from torch_npu import npu

    stream = npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    npu.set_stream_limit(stream, **{_LIMITS[type]: value})


def _have_addresses(tensors: Sequence[torch.Tensor], data_ptrs: Sequence[int], indices: Sequence[int]) -> bool:
    return all(tensors[index].data_ptr() == data_ptrs[index] for index in indices)


class _Memories:
    """``total_memory`` and ``free_memory`` of a device, in bytes."""

    def __init__(self, device: int) -> None:
        from torch_npu import npu

        self.free_memory, self.total_memory = npu.mem_get_info(device)


def _three(stream: Any) -> Tuple[int, int, int]:
    return stream.stream_id, stream.device_index, _PRIVATE_USE


def _set_stream(stream_id: int, device_index: int, device_type: int = _PRIVATE_USE) -> None:
    from torch_npu import _C

    if device_type != _PRIVATE_USE:
        raise ValueError(f"a stream of device type {device_type} is none of the NPU ({_PRIVATE_USE})")
    _C._set_stream(stream_id, device_index)


def _has_context(device: int) -> bool:
    """Whether the process has used the device. RuntimeError for one that is not there."""
    from torch_npu import npu

    if not 0 <= device < npu.device_count():
        raise RuntimeError(f"there is no npu:{device}")
    return npu.is_initialized() and (device == npu.current_device() or npu.memory_reserved(device) > 0)


def _snapshot(mempool_id: Optional[Tuple[int, int]] = None, include_traces: bool = True) -> Dict[str, Any]:
    from torch_npu.npu import memory

    return memory._snapshot(mempool_id=mempool_id, include_traces=include_traces)


def _raw_alloc(size: int, stream: int) -> int:
    from torch_npu import npu

    return npu.caching_allocator_alloc(size, None, stream)


def _record_history(enabled: Optional[str], context: Optional[str], stacks: str, max_entries: int) -> None:
    from torch_npu.npu import memory

    record: Callable[..., None] = memory._record_memory_history
    record(enabled, context, stacks, max_entries)


def _fill_uninitialized(fill: bool) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = fill


def _empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="npu")
