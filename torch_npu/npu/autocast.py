"""The autocast state of the NPU, and what its chips support."""

from typing import Any, List

import torch

from torch_npu.npu.device import is_available, is_bf16_supported

__all__ = ["get_amp_supported_dtype", "get_autocast_dtype", "is_autocast_enabled", "set_autocast_dtype", "set_autocast_enabled"]


def get_amp_supported_dtype() -> List[torch.dtype]:
    """dtypes that torch.autocast("npu") accepts."""
    if is_available() and not is_bf16_supported():
        return [torch.float16, torch.float32]
    return [torch.float16, torch.bfloat16, torch.float32]


def is_autocast_enabled() -> bool:
    """True inside an enabled autocast region."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: Any) -> None:
    """Turns autocast on or off for this thread."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """dtype that autocast computes in."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the dtype that autocast computes in: one of :func:`get_amp_supported_dtype`, else ValueError."""
    if isinstance(dtype, torch.dtype) and dtype not in get_amp_supported_dtype():
        supported = ", ".join(map(str, get_amp_supported_dtype()))
        raise ValueError(f"autocast on this NPU computes in one of {supported}, not in {dtype}")
    torch.set_autocast_dtype("npu", dtype)
