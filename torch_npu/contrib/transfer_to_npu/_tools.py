"""Calls that programs make for the sake of tools: CUDA's are not there, so nobody listens; PyTorch's profiler is."""
import functools
import sys
import types
from typing import Any

import torch

from torch_npu.contrib.transfer_to_npu._replace import put, replace

IGNORED = {
    "torch.cuda": ("check_error",),
    "torch.cuda.nvtx": (
        "_device_range_end", "_device_range_start", "mark", "range_end", "range_pop", "range_push", "range_start"),
    "torch.cuda.profiler": ("init", "start", "stop"),
}


def apply() -> None:
    for module_name, names in IGNORED.items():
        module = sys.modules.get(module_name)
        for name in names:
            if hasattr(module, name):
                put(module, name, _ignored(getattr(module, name)))
    put(torch.cuda, "cudart", functools.wraps(torch.cuda.cudart)(lambda: _RUNTIME))
    for name in ("__init__", "toggle_collection_dynamic"):
        replace(torch.profiler.profiler._KinetoProfile, name, activities=_activities)
    replace(torch.profiler.profile, "__init__", activities=_activities)


def _ignored(original: Any) -> Any:
    @functools.wraps(original)
    def ignored(*args: Any, **kwargs: Any) -> int:
        return 0

    return ignored


# What is asked of CUDA's runtime through PyTorch. Page-locking makes copies faster; they are right without it.
_RUNTIME = types.SimpleNamespace(**dict.fromkeys(
    ("cudaHostRegister", "cudaHostUnregister", "cudaProfilerStart", "cudaProfilerStop"), lambda *args: 0))


def _activities(value: Any) -> Any:
    """The activities to record, with the NPU's where they name CUDA's; of torch 2.15 a dict, too."""
    kinds = torch.profiler.ProfilerActivity
    named = {kinds.CUDA: kinds.PrivateUse1}
    if isinstance(value, dict):
        return {named.get(kind, kind): settings for kind, settings in value.items()}
    return value if value is None else [named.get(kind, kind) for kind in value]
