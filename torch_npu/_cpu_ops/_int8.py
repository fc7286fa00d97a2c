"""int8, int4 packed in int32, and the products of them."""

from typing import Optional, Tuple

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


def unpacked(t: Tensor) -> Tensor:
    """int32 taken for eight int4 each, the first lowest, along the dimension that is dense in memory; others as they are."""
    if t.dtype != torch.int32:
        return t
    if t.dim() > 1 and t.stride(-1) != 1 and t.stride(-2) == 1:
        return unpacked(t.mT).mT
    codes = (t.long().unsqueeze(-1) >> torch.arange(0, 32, 4, device=t.device)) & 15
    return torch.where(codes >= 8, codes - 16, codes).flatten(-2).to(torch.int8)


def packed(numbers: Tensor) -> Tensor:
    """Whole numbers within int4, eight of the last dimension in each int32, the first lowest."""
    codes = (numbers.clamp(-8, 7).long() & 15).unflatten(-1, (-1, 8))
    word = (codes << torch.arange(0, 32, 4, device=codes.device)).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).int()


def exact(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices of int8, or int4 packed in int32, in float64, which holds their sums."""
    return torch.matmul(unpacked(a).double(), unpacked(b).double())


def bias_parts(bias: Optional[Tensor]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """(an integer bias, which belongs to a product before its scales; a floating one, which belongs to the result)."""
    return (None, bias) if bias is None or bias.is_floating_point() else (bias, None)


def numbers_of_scale(scale: Tensor) -> Tensor:
    """A scale of the matrix unit's results as float32; an int64 is what npu_trans_quant_param made of one."""
    if scale.dtype not in (torch.int64, torch.uint64):
        return wide(scale)
    return (scale.view(torch.int64) & 0xFFFFE000).int().view(torch.float32)


def result_offset(scale: Tensor, offset: Optional[Tensor]) -> Tensor:
    """What is added to a quantized result: ``offset``, else that which npu_trans_quant_param put into ``scale``."""
    if offset is not None:
        return wide(offset)
    if scale.dtype not in (torch.int64, torch.uint64):
        return scale.new_zeros(())
    bits = scale.view(torch.int64) >> 37 & 0x1FF
    return torch.where(bits > 255, bits - 512, bits).float()
