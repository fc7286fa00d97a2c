"""Autocast and gradient scaling: also the calls that mean CUDA without naming it."""
import functools
from typing import Any

import torch

from torch_npu.contrib.transfer_to_npu._replace import device, put, replace


def apply() -> None:
    replace(torch.amp.autocast, "__init__", device_type=device)
    replace(torch.amp.GradScaler, "__init__", device=device)
    for name in ("custom_fwd", "custom_bwd", "is_autocast_available"):
        replace(torch.amp, name, device_type=device)
    for name in ("get_autocast_dtype", "set_autocast_dtype"):
        replace(torch, name, device_type=device, everywhere=True)
    _without_device()


def _without_device() -> None:
    is_enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled
    get_dtype, set_dtype = torch.get_autocast_dtype, torch.set_autocast_dtype

    @functools.wraps(is_enabled)
    def is_autocast_enabled(device_type: str = "npu") -> bool:
        return is_enabled(device(device_type))

    @functools.wraps(set_enabled)
    def set_autocast_enabled(*args: Any, **kwargs: Any) -> Any:
        # set_autocast_enabled(enabled) and set_autocast_enabled(device_type, enabled)
        if len(args) + len(kwargs) == 1:
            return set_enabled("npu", *args, **kwargs)
        return set_enabled(*map(device, args), **{name: device(value) for name, value in kwargs.items()})

    @functools.wraps(torch.get_autocast_gpu_dtype)
    def get_autocast_gpu_dtype() -> torch.dtype:
        return get_dtype("npu")

    @functools.wraps(torch.set_autocast_gpu_dtype)
    def set_autocast_gpu_dtype(dtype: torch.dtype) -> Any:
        return set_dtype("npu", dtype)

    for function in (is_autocast_enabled, set_autocast_enabled, get_autocast_gpu_dtype, set_autocast_gpu_dtype):
        put(torch, function.__name__, function)
