"""Mixed precision on the NPU: torch.amp with the device type filled in."""

import importlib
from typing import Any

from torch_npu import _lazy
from torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Whether there is no NPU."""
    from torch_npu import npu

    return not npu.is_available()


__dir__ = _lazy.listing("torch_npu.npu.amp", ("common", "sharded_grad_scaler"))


def __getattr__(name: str) -> Any:
    if name in ("common", "sharded_grad_scaler"):   # the first stands for this package; the second imports FSDP
        return importlib.import_module(f"torch_npu.npu.amp.{name}")
    raise AttributeError(f"module 'torch_npu.npu.amp' has no attribute {name!r}")
