"""Snapshots of the allocator, the history of its allocations, and what is done when memory is out."""

import os
import pickle
import sys
import time
from typing import Any, Dict, List, Optional

import torch
from torch.types import Device

from torch_npu import _C, _options
from torch_npu.npu import _state
from torch_npu.npu._utils import InvalidValueError


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False, *, include_traces: bool = True,
              mempool_id: Any = None) -> Dict[str, Any]:
    """The allocator's state on all devices: ``segments`` with their ``blocks``, and ``device_traces``, in the schema
    of torch.cuda.memory._snapshot; PyTorch's tools (torch.cuda._memory_viz, pytorch.org/memory_viz) open it.

    ``augment_with_fx_traces``: frames in the code of a torch.fx graph also tell which node of it they are of. NotImplementedError
    where torch cannot tell (2.10 can)."""
    count = _C._device_count() if _state.is_initialized() else 0
    snapshot = _C._memory_snapshot(count, mempool_id, include_traces)
    if not augment_with_fx_traces:
        return snapshot
    augment = getattr(torch._utils, "_augment_memory_snapshot_stack_traces", None)
    if augment is None:
        raise NotImplementedError(f"torch {torch.__version__} does not tell nodes by frames: augment_with_fx_traces=False")
    return augment(snapshot)


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """The segments of _snapshot, of one pool if ``mempool_id`` is given."""
    return _snapshot(include_traces=include_traces, mempool_id=mempool_id)["segments"]


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Saves _snapshot as a pickle."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with open(filename, "wb") as file:
        pickle.dump(snapshot, file)


def _save_segment_usage(filename: str = "output.svg", snapshot: Any = None) -> None:
    """Saves a flame graph of the bytes in a snapshot by segment, state and stack, in SVG. torch fetches flamegraph.pl for it
    where ~/.cache has none.
    """
    from torch_npu.npu import _memory_viz

    graph = _memory_viz.segments(_snapshot() if snapshot is None else snapshot)
    with open(filename, "w") as file:
        file.write(graph)


def _save_memory_usage(filename: str = "output.svg", snapshot: Any = None) -> None:
    """As _save_segment_usage, of each stream's segments together."""
    from torch_npu.npu import _memory_viz

    graph = _memory_viz.memory(_snapshot() if snapshot is None else snapshot)
    with open(filename, "w") as file:
        file.write(graph)


_STACKS = {None: 0, "state": 1, "alloc": 2, "all": 3}


def _record_memory_history(enabled: str = "all", context: str = "all", stacks: str = "all", max_entries: Any = sys.maxsize,
                           device: Device = None, clear_history: bool = False, skip_actions: Any = None) -> None:
    """Keeps where memory was allocated, for _snapshot.

    ``enabled``: None off, and what was kept is dropped; "state" stacks of live allocations only; "all" also a history of
    allocations and frees.
    ``context``: which stacks are kept: None, "state" (live allocations), "alloc" (history of allocations), "all"
    (frees too). ``stacks``: "python", or "all" with C++ frames. ``max_entries``: length of the history.
    """
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    if enabled not in (None, "state", "all"):
        raise InvalidValueError(f"enabled must be None, 'state' or 'all', got {enabled!r}")
    if context not in _STACKS:
        raise InvalidValueError(f"context must be None, 'state', 'alloc' or 'all', got {context!r}")
    if stacks not in ("python", "all"):
        raise InvalidValueError(f"stacks must be 'python' or 'all', got {stacks!r}")
    kept = 0 if enabled is None else _STACKS[context]
    if enabled == "state":
        kept = min(kept, _STACKS["state"])
    _C._memory_record_history(enabled == "all", kept, stacks == "all", max_entries,
                              clear_history or enabled is None, skip_actions or [])


def _allocation_traceback(data_ptr: int) -> Optional[List[Dict[str, Any]]]:
    """Frames of the live allocation that starts at ``data_ptr``; None if unknown or not recorded."""
    if not _state.is_initialized():
        return None
    return _C._memory_frames_of(data_ptr, _C._device_count())


def _attach_out_of_memory_observer(observer: Any) -> None:
    """Calls ``observer(device, bytes_asked, device_total, device_free)`` before each OutOfMemoryError."""
    _C._memory_attach_oom_observer(observer)


def _set_allocator_settings(settings: Any) -> None:
    """Replaces the settings of PYTORCH_NPU_ALLOC_CONF from now on. ValueError when they are wrong."""
    _C._memory_set_settings(settings)


def _dump_at_out_of_memory(device: Device, asked: Any, total: Any, free: Any) -> None:
    folder = _options.get("oom_snapshot_path") or "."
    name = f"oom_snapshot_{os.getpid()}_npu{device}_{time.strftime('%Y%m%d-%H%M%S')}.pickle"
    os.makedirs(folder, exist_ok=True)
    _dump_snapshot(os.path.join(folder, name))


def _watch_out_of_memory() -> None:
    _record_memory_history(max_entries=100000, stacks="python")
    _attach_out_of_memory_observer(_dump_at_out_of_memory)


if _options.get("oom_snapshot"):
    _state.lazy_call(_watch_out_of_memory)
