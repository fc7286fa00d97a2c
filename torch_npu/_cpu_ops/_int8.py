"""int8 and the products of it."""

from typing import Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def as_int8(value: Tensor) -> Tensor:
    """Rounded to even and within int8."""
    return value.round().clamp(-128, 127).to(torch.int8)


def by_token(value: Tensor) -> Tuple[Tensor, Tensor]:
    """(round(x / s) as int8, s = max |x| / 127 of each row, without the last dimension)."""
    scale = value.abs().amax(-1, keepdim=True) / 127
    return as_int8(torch.where(scale > 0, value / scale, 0.0)), scale.squeeze(-1).float()


def exact(a: Tensor, b: Tensor) -> Tensor:
    """The product of two int8 matrices in float64, which holds their sums."""
    return torch.matmul(a.double(), b.double())


def numbers_of_scale(scale: Tensor) -> Tensor:
    """A scale of the matrix unit's results as float32; an int64 is what npu_trans_quant_param made of one."""
    if scale.dtype not in (torch.int64, torch.uint64):
        return wide(scale)
    return (scale.view(torch.int64) & 0xFFFFE000).int().view(torch.float32)
