"""Overflow flags of NPUs that saturate, as tensors; and checks of gradients."""

from typing import Sequence

import torch
from torch import Tensor


def npu_alloc_float_status(input: Tensor) -> Tensor:
    """float32 [8] of zeros on the device of ``input``, for :func:`npu_get_float_status`."""
    return torch.zeros(8, dtype=torch.float32, device=input.device)


def npu_get_float_status(input: Tensor, mode: int = 0) -> Tensor:
    """int32 [8] on the device of ``input``: 1 first if an operator overflowed on an NPU that saturates, else 0.

    Always 0 on an NPU with inf and nan.
    """
    flag = input.device.type == "npu" and torch.npu.get_npu_overflow_flag()
    status = torch.zeros(8, dtype=torch.int32, device=input.device)
    status[0] = int(flag)
    return status


def npu_clear_float_status(input: Tensor, mode: int = 0) -> Tensor:
    """Clears the NPU's overflow flag. Returns float32 [8] of zeros on the device of ``input``, of any shape and dtype."""
    if input.device.type == "npu":
        torch.npu.clear_npu_overflow_flag()
    return npu_alloc_float_status(input)


def _amp_foreach_non_finite_check(scaled_grads: Sequence[Tensor]) -> bool:
    """True if there is inf or nan in one of the tensors, or the NPU's overflow flag is set, which then is cleared.

    Tensors of any shape, floating point.
    """
    from torch_npu.npu.overflow import npu_check_overflow

    return npu_check_overflow(list(scaled_grads))
