"""int8 and the products of it."""

from typing import Tuple

import torch
from torch import Tensor


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
