"""Formats of elements in blocks: float8 and float4, and the scales of microscaling (MX), powers of two.

An MX block is 32 elements along an axis with one scale, stored as its exponent plus 127 in a uint8 (the format e8m0).
Elements are float8_e4m3fn, float8_e5m2, or float4: e2m1 or e1m2, two in a uint8, the first in the lower half. Scales come in
pairs: the axis has half as many, rounded up, and a last dimension of 2 is added; what fills up the last pair is 0.
"""

from typing import Any, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import numbers_on, wide

_BLOCK = 32
_FP4 = {"e2m1": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], "e1m2": [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]}
_EXPONENT = {"e2m1": 2, "e1m2": 0, "e4m3": 8, "e5m2": 15}  # of the greatest number
_LARGEST = {"e2m1": 6.0, "e1m2": 1.75, "e4m3": 448.0, "e5m2": 57344.0}
_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
# Numbers of dtypes: c10::ScalarType, or 256 and CANN's number.
_FORMATS = {23: "e5m2", 24: "e4m3", 291: "e5m2", 292: "e4m3", 296: "e2m1", 297: "e1m2", 40: "e2m1", 41: "e1m2"}


def format_of(name: str, dtype: Any) -> str:
    """The short name of a dtype given as such or by number. Raises NotImplementedError for others than float8 and float4."""
    by_type = {torch.float8_e5m2: "e5m2", torch.float8_e4m3fn: "e4m3", getattr(torch, "float4_e2m1fn_x2", None): "e2m1"}
    found = by_type.get(dtype) if isinstance(dtype, torch.dtype) else _FORMATS.get(dtype)
    if found is None:
        raise NotImplementedError(
            f"{name}: elements of dtype {dtype} are not supported; float8_e4m3fn (24, 292), float8_e5m2 (23, "
            "291), float4_e2m1fn_x2 (296) and float4_e1m2fn_x2 (297) are"
        )
    return found


def _to_fp4(x: Tensor, kind: str, mode: str) -> Tensor:
    """Codes of 4 bits as uint8: the nearest value (ties to the even code; ``mode`` "round": away from zero), or "floor"."""
    levels = x.new_tensor(_FP4[kind])
    size = x.abs()
    above = torch.searchsorted(levels, size.contiguous()).clamp(max=7)  # the first level not below
    below = torch.where(levels[above] <= size, above, (above - 1).clamp(min=0))
    low, high = size - levels[below], levels[above] - size
    if mode == "floor":
        code = torch.where((x < 0) & (low > 0), above, below)
    else:
        tie = above if mode == "round" else torch.where(below % 2 == 0, below, above)
        code = torch.where(low < high, below, torch.where(low > high, above, tie))
    code = torch.where(size >= levels[7], 7, code)
    return (code + torch.where(x.signbit(), 8, 0)).to(torch.uint8)


def _packed(codes: Tensor) -> Tensor:
    if codes.shape[-1] % 2:
        raise ValueError(f"float4: the last dimension has the odd size {codes.shape[-1]}; two elements share a byte")
    pairs = codes.unflatten(-1, (-1, 2))
    return pairs[..., 0] | (pairs[..., 1] << 4)


def encode(x: Tensor, kind: str, mode: str) -> Tensor:
    """Numbers in a format, values beyond its range as its ends; float4 as uint8 with a last dimension of half the size."""
    if kind in _FP8:
        if mode != "rint":
            raise NotImplementedError(f"float8: round_mode {mode!r} is not supported, only 'rint'")
        return x.clamp(-_LARGEST[kind], _LARGEST[kind]).to(_FP8[kind])
    if mode not in ("rint", "round", "floor"):
        raise ValueError(f"round_mode {mode!r} is not one of rint, round, floor")
    return _packed(_to_fp4(x, kind, mode))


def decode(y: Tensor, kind: str) -> Tensor:
    """What :func:`encode` stored, in float32."""
    if kind in _FP8:
        return y.view(_FP8[kind]).float() if y.dtype == torch.uint8 else y.float()
    codes = torch.stack([y & 15, y >> 4], -1).flatten(-2).long()
    size = numbers_on(y.device, _FP4[kind])[codes & 7]
    return torch.where(codes >= 8, -size, size)


def exponents(top: Tensor, kind: str, alg: int, largest: float) -> Tensor:
    """The exponents of the blocks' scales, by the greatest absolute value of each. ``alg`` 0: of the greatest number; 1 and 2:
    the least power of two with which no element is beyond ``largest`` (0: the format's greatest)."""
    if alg == 0:
        found = torch.frexp(top)[1] - 1 - _EXPONENT[kind]
    else:
        mantissa, exponent = torch.frexp(top / (largest or _LARGEST[kind]))
        found = torch.where(mantissa == 0.5, exponent - 1, exponent)
    return torch.where(top > 0, found, -127).clamp(-127, 127)


def quantize_blocks(
    name: str, x: Tensor, axis: int, kind: str, mode: str, alg: int, largest: float = 0.0, block: int = _BLOCK
) -> Tuple[Tensor, Tensor]:
    """(x / scale in the format ``kind``, scales in pairs) for blocks of ``block`` elements along ``axis``."""
    if alg not in (0, 1, 2):
        raise ValueError(f"{name}: scale_alg {alg} is not one of 0, 1, 2")
    axis %= x.dim()
    rows = wide(x).movedim(axis, -1)
    size = rows.shape[-1]
    count = -(-size // block)
    blocks = F.pad(rows, (0, count * block - size)).unflatten(-1, (count, block))
    shared = exponents(blocks.abs().amax(-1), kind, alg, largest)
    values = (blocks * torch.ldexp(torch.ones_like(blocks[..., :1]), -shared.unsqueeze(-1))).flatten(-2)[..., :size]
    pairs = F.pad(shared + 127, (0, count % 2)).to(torch.uint8).unflatten(-1, (-1, 2))
    return encode(values.movedim(-1, axis).contiguous(), kind, mode), pairs.movedim(-2, axis).contiguous()


def quantize_both_axes(
    name: str, x: Tensor, dst_type: int, mode: str, alg: int, largest: float
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`quantize_blocks` along the last axis and along the one before it: (elements, scales, elements, scales)."""
    kind = format_of(name, dst_type)
    return (*quantize_blocks(name, x, -1, kind, mode, alg, largest), *quantize_blocks(name, x, -2, kind, mode, alg, largest))


def unscaled(y: Tensor, scales: Tensor, axis: int, kind: str) -> Tensor:
    """What :func:`quantize_blocks` made, in float32 again."""
    values = decode(y, kind)
    axis %= values.dim()
    rows = values.movedim(axis, -1)
    shared = scales.view(torch.uint8).movedim(axis, -2).flatten(-2).int() - 127
    powers = torch.ldexp(torch.ones(shared.shape, device=y.device), shared)
    powers = powers.repeat_interleave(_BLOCK, -1)[..., : rows.shape[-1]]
    return (rows * powers).movedim(-1, axis)
