"""Memory of the NPU: what is allocated, where it went, and how it is handed out.

Names and meanings are torch.cuda.memory's. Sizes are bytes. ``device`` is a torch.device, a string, an index, or
None for the current device.
"""

import contextlib
import ctypes
import logging
import os
import warnings
from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state, _utils
from torch_npu.npu._memory_history import (
    _allocation_traceback as _allocation_traceback,
    _attach_out_of_memory_observer as _attach_out_of_memory_observer,
    _dump_snapshot as _dump_snapshot,
    _record_memory_history as _record_memory_history,
    _save_memory_usage as _save_memory_usage,
    _save_segment_usage as _save_segment_usage,
    _set_allocator_settings as _set_allocator_settings,
    _snapshot as _snapshot,
    memory_snapshot,
)
from torch_npu.npu._state import is_initialized  # noqa: F401  # the published module has it too
from torch_npu.npu._utils import _get_device_index

_log = logging.getLogger("torch_npu.memory")

__all__ = [
    "MemPool",
    "NPUPluggableAllocator",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "change_current_allocator",
    "empty_cache",
    "empty_host_cache",
    "empty_virt_addr_cache",
    "host_empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def _index(device: Device) -> Any:
    return _get_device_index(device, optional=True)


# ---- allocating by hand, and giving back ----


def caching_allocator_alloc(size: int, device: Device = None, stream: Any = None) -> int:
    """Allocates ``size`` bytes for other libraries and returns the address; free it with caching_allocator_delete.

    ``stream``: a Stream or the address of one (its ``npu_stream``); default: the device's current stream.
    """
    _state.lazy_init()
    index = _index(device)
    if stream is None:
        stream_id = _C._current_stream_id(index)
    elif isinstance(stream, torch.Stream):
        stream_id, index = stream.stream_id, stream.device_index
    elif isinstance(stream, int):
        stream_id = _C._external_stream(stream, index) if stream else 0
    else:
        raise TypeError(f"stream must be a Stream or the address of one, got {type(stream).__name__}")
    return _C._memory_alloc(size, index, stream_id)


def caching_allocator_delete(mem_ptr: Any) -> None:
    """Frees what caching_allocator_alloc gave. InvalidValueError for any other address."""
    try:
        _C._memory_free(mem_ptr)
    except ValueError as error:
        raise _utils.InvalidValueError(str(error)) from error


def caching_allocator_enable(value: Any = True) -> None:
    """Turns caching on or off: without it every allocation asks the device, and every free waits for it."""
    _C._memory_set_caching(bool(value))


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Turns caching off for the allocations inside."""
    before = _C._memory_caching()
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def empty_cache() -> None:
    """Gives the cached memory that no tensor uses back to the device. Waits for the device if there is any."""
    if _state.is_initialized():
        _log.info("cached memory is given back to the device")
        _C._memory_empty_cache((0, 0))


def empty_host_cache() -> None:
    """Frees the cached pinned host memory that no tensor uses."""
    _C._host_memory_empty_cache()


host_empty_cache = empty_host_cache


def empty_virt_addr_cache() -> None:
    """Gives back the addresses of expandable segments that no tensor uses, with their memory: :func:`empty_cache` does both."""
    empty_cache()


def set_per_process_memory_fraction(fraction: Any, device: Device = None) -> None:
    """Limits this process to ``fraction`` (0 to 1) of the device's memory; beyond it, OutOfMemoryError."""
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction: a float from 0.0 to 1.0 is needed, got {type(fraction).__name__}")
    _state.lazy_init()
    _C._memory_set_fraction(float(fraction), _index(device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The limit set_per_process_memory_fraction gave, 1.0 by default."""
    _state.lazy_init()
    return _C._memory_fraction(_index(device))


def mem_get_info(device: Device = None) -> Tuple[int, int]:
    """(free, total) bytes of the device, counting all processes. InvalidDeviceError for one that is not there."""
    _state.lazy_init()
    return _C._memory_info(_utils.existing_device(device))


def list_gpu_processes(device: Device = None) -> str:
    """What this process and all processes together hold of the device's memory, as text.

    CANN's runtime interface does not name the others; :func:`torch.npu.list_npu_processes` does.
    """
    free, total = mem_get_info(device)
    mine, all_of_them = (size / (1024 * 1024) for size in (memory_reserved(device), total - free))
    return "\n".join(
        [
            f"NPU:{_index(device)}",
            f"process {os.getpid():>10d} uses {mine:>12.3f} MB NPU memory",
            f"all processes      use {all_of_them:>12.3f} MB NPU memory",
        ]
    )


# ---- statistics ----


def memory_stats_as_nested_dict(device: Device = None) -> Any:
    """memory_stats as dictionaries in dictionaries; empty before the NPU is used."""
    if not _state.is_initialized() or _C._memory_is_replaced():
        return {}
    return _C._memory_stats(_index(device))


def memory_stats(device: Device = None) -> Any:
    """Statistics of the allocator, sorted by name: ``"<what>.<pool>.<figure>"``.

    What: ``allocation``, ``active``, ``segment``, ``inactive_split`` count blocks; the same with ``_bytes``,
    ``allocated_bytes``, ``reserved_bytes`` and ``requested_bytes`` are bytes. Pool: ``all``, ``small_pool`` (requests
    up to 1 MiB), ``large_pool``. Figure: ``current``, ``peak``, ``allocated`` and ``freed`` (totals). And
    ``num_alloc_retries``, ``num_ooms``, ``num_sync_all_streams``, ``num_device_alloc``, ``num_device_free``,
    ``max_split_size`` (-1: no limit), ``num_oom_rejections`` (0: nothing is refused before cached memory was given back),
    ``oversize_allocations.<figure>``, ``oversize_segments.<figure>``.
    """
    from torch_npu.npu import _memory_report

    return _memory_report.flatten(memory_stats_as_nested_dict(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the totals (``allocated``, ``freed``, the counts of events) to 0."""
    _state.lazy_init()
    _C._memory_reset_accumulated_stats(_index(device))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets every ``peak`` to the current value."""
    _state.lazy_init()
    _C._memory_reset_peak_stats(_index(device))


def _figure(device: Device, what: Any, figure: Any) -> Any:
    stats = memory_stats_as_nested_dict(device)
    return stats[what]["all"][figure] if stats else 0


def memory_allocated(device: Device = None) -> Any:
    """Bytes that tensors occupy now."""
    return _figure(device, "allocated_bytes", "current")


def max_memory_allocated(device: Device = None) -> Any:
    """The most bytes that tensors occupied since the start or reset_peak_memory_stats."""
    return _figure(device, "allocated_bytes", "peak")


def memory_reserved(device: Device = None) -> Any:
    """Bytes the allocator holds from the device now, in use or not."""
    return _figure(device, "reserved_bytes", "current")


def max_memory_reserved(device: Device = None) -> Any:
    """The most bytes the allocator held since the start or reset_peak_memory_stats."""
    return _figure(device, "reserved_bytes", "peak")


def _deprecated(old: Any, new: Any) -> None:
    warnings.warn(f"torch.npu.{old} is deprecated: use torch.npu.{new}", FutureWarning, stacklevel=3)


def memory_cached(device: Device = None) -> Any:
    """Deprecated name of memory_reserved."""
    _deprecated("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> Any:
    """Deprecated name of max_memory_reserved."""
    _deprecated("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Device = None) -> None:
    """Deprecated: resets all peaks, as reset_peak_memory_stats."""
    _deprecated("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """Deprecated: resets all peaks, as reset_peak_memory_stats."""
    _deprecated("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table to print; ``abbreviated`` leaves out the split by pool."""
    from torch_npu.npu import _memory_report

    return _memory_report.summary(_index(device), memory_stats(device), abbreviated)


def host_memory_stats_as_nested_dict() -> Dict[str, Any]:
    """host_memory_stats as dictionaries in dictionaries."""
    return _C._host_memory_stats()


def host_memory_stats() -> Any:
    """Statistics of pinned host memory: ``allocations``, ``allocated_bytes`` (held), ``active_requests``,
    ``active_bytes`` (in use), each with ``current``, ``peak``, ``allocated``, ``freed``; ``host_alloc_time`` and
    ``host_free_time`` in microseconds; ``num_host_alloc``, ``num_host_free``."""
    from torch_npu.npu import _memory_report

    return _memory_report.flatten(host_memory_stats_as_nested_dict())


def reset_accumulated_host_memory_stats() -> None:
    """Sets the totals of host_memory_stats to 0."""
    _C._host_memory_reset_accumulated_stats()


def reset_peak_host_memory_stats() -> None:
    """Sets the peaks of host_memory_stats to the current values."""
    _C._host_memory_reset_peak_stats()


# ---- pools and other allocators ----


class NPUPluggableAllocator:
    """An allocator from a shared library: ``void* alloc(size_t bytes, int device, aclrtStream)``, null when there is
    no room, and ``void free(void*, size_t bytes, int device, aclrtStream)``. For MemPool or
    change_current_allocator."""

    def __init__(self, path_to_so_file: Any, alloc_fn_name: Any, free_fn_name: Any) -> None:
        library = ctypes.CDLL(path_to_so_file)
        allocate, free = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in (alloc_fn_name, free_fn_name)
        )
        self._library = library  # keeps the functions loaded
        self._allocator = _C._memory_raw_allocator(allocate, free)

    def allocator(self) -> Any:
        return self._allocator


def change_current_allocator(allocator: Any) -> None:
    """Takes all memory from ``allocator`` (an NPUPluggableAllocator) from now on, without caching.

    RuntimeError once NPU memory was allocated.
    """
    _C._memory_replace_allocator(allocator.allocator())
    _in_use.append(allocator)


_in_use: List[Any] = []


def get_allocator_backend() -> str:
    """"native": our caching allocator; "pluggable" after change_current_allocator."""
    return "pluggable" if _C._memory_is_replaced() else "native"


class MemPool:
    """Memory of its own on the current device, for the allocations inside use_mem_pool.

    ``allocator``: where it takes segments from (NPUPluggableAllocator), default the device. ``use_on_oom``: its free
    blocks may serve others as a last resort. ``no_split``: a block is never cut from a segment. Its memory goes back
    once the pool and all tensors in it are gone.
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        _state.lazy_init()
        self._allocator = allocator
        raw = allocator.allocator() if isinstance(allocator, NPUPluggableAllocator) else allocator
        self._pool = _C._MemPool(_C._current_device(), raw, True, use_on_oom, no_split)

    @property
    def id(self) -> Tuple[int, int]:
        """Two numbers that name the pool in snapshots."""
        return self._pool.id

    @property
    def device(self) -> torch.device:
        return torch.device("npu", self._pool.device)

    def use_count(self) -> int:
        """How many hold the pool: this object, and each use_mem_pool inside which we are."""
        return self._pool.use_count()

    def snapshot(self, include_traces: bool = True) -> Any:
        """The pool's segments, as memory_snapshot gives them."""
        return memory_snapshot(self.id, include_traces=include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: Any, device: Device = None) -> Iterator[None]:
    """Sends this thread's allocations inside the block to ``pool``."""
    index = _index(device)
    _C._memory_begin_pool(index, pool.id)
    try:
        yield
    finally:
        _C._memory_end_pool(index, pool.id)
        _C._memory_release_pool(index, pool.id)
