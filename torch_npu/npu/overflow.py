"""Overflows on chips that saturate, where no inf shows them; and one question that works on all chips."""

import math
from typing import Any, Sequence, Union

import torch
from torch import Tensor

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import InvalidTypeError, fixed
from torch_npu.npu.device import device as _device

__all__ = ["clear_npu_overflow_flag", "clear_overflow_flags", "get_npu_overflow_flag", "is_support_inf_nan", "npu_check_overflow"]


@fixed
def is_support_inf_nan() -> bool:
    """True if the NPU computes with inf and nan: Ascend910B and later, unless INF_NAN_MODE_ENABLE=0.

    Otherwise it saturates: a result that is too large becomes the largest number of its type, nan becomes 0, and the
    device's overflow flag is set.
    """
    _state.lazy_init()
    return not _C._saturates()


def get_npu_overflow_flag() -> bool:
    """True if an operator overflowed on this device since the flag was cleared. Waits for the current stream.

    Always False on an NPU with inf and nan: look at the numbers there, or use :func:`npu_check_overflow`.
    """
    return not is_support_inf_nan() and _C._overflow_flag()


def clear_npu_overflow_flag() -> None:
    """Clears the overflow flag of this device, after the work that the current stream already has."""
    if not is_support_inf_nan():
        _C._reset_overflow_flag()


def clear_overflow_flags(devices: Any) -> None:
    """Clears the flags of several devices, each after the work that its current stream already has."""
    if not is_support_inf_nan():
        for index in {torch.device(device).index for device in devices}:
            with _device(index):
                _C._reset_overflow_flag()


def npu_check_overflow(grad: Union[Tensor, float, Sequence[Any]]) -> bool:
    """True if there was an overflow in ``grad``: a tensor, a number, or a list or tuple of them.

    Where the NPU has inf and nan: whether ``grad`` holds any. Where it saturates: whether the device's overflow flag is
    set, which then is cleared, or ``grad`` holds inf or nan all the same. Waits for the device.
    """
    flag = get_npu_overflow_flag()
    if flag:
        clear_npu_overflow_flag()
    return _holds_nonfinite(grad) or flag


def _holds_nonfinite(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any([_holds_nonfinite(item) for item in value])
    if isinstance(value, torch.Tensor):
        if value.is_sparse:
            value = value._values()
        return not bool(torch.isfinite(value).all())
    if isinstance(value, (int, float)):
        return not math.isfinite(value)
    raise InvalidTypeError(f"expected a tensor, a number, or a list of them, got {type(value).__name__}")
