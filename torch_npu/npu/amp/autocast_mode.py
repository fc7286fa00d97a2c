"""torch.npu.amp.autocast and the decorators for custom autograd functions."""

from typing import Any, Callable, Optional

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class _AutocastOfNpu(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is not autocast:
            return super().__instancecheck__(instance)
        return isinstance(instance, torch.autocast) and instance.device == "npu"


class autocast(torch.autocast, metaclass=_AutocastOfNpu):
    """``torch.autocast("npu", ...)``: what a call gives is a ``torch.autocast``, the one class that Dynamo traces without
    leaving the graph."""

    def __new__(cls, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> Any:
        if cls is not autocast:
            return super().__new__(cls)
        return torch.autocast("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16,
                 cache_enabled: bool = True) -> None:   # of subclasses
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Optional[Callable[..., Any]] = None, *, cast_inputs: Optional[torch.dtype] = None) -> Any:
    """``torch.amp.custom_fwd(device_type="npu")``: forward of a torch.autograd.Function, outside of autocast with its inputs in
    ``cast_inputs`` where that is given."""
    return torch.amp.custom_fwd(fwd, device_type="npu", cast_inputs=cast_inputs)


def custom_bwd(bwd: Optional[Callable[..., Any]] = None) -> Any:
    """``torch.amp.custom_bwd(device_type="npu")``: backward with the autocast state of the forward."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
