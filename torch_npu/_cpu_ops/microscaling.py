"""Quantization in blocks: microscaling (MX) formats, whose scales are powers of two, and blocks with a scale in float32.

The formats: _blocks.py.
"""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._blocks import (
    _BLOCK,
    _FP8,
    _LARGEST,
    encode,
    exponents,
    format_of,
    quantize_blocks,
    quantize_both_axes,
    unscaled,
)
from torch_npu._cpu_ops._common import as_dtype, ends_of, unsupported, wide


def swiglu(x: Tensor, activate_left: bool) -> Tensor:
    """``silu(a) * b`` of the halves a, b of the last axis with ``activate_left``, else ``a * silu(b)``."""
    a, b = x.chunk(2, -1)
    return F.silu(a) * b if activate_left else a * F.silu(b)


def npu_dynamic_mx_quant(
    input: Tensor,
    *,
    axis: int = -1,
    round_mode: str = "rint",
    dst_type: int = 296,
    block_size: int = 32,
    scale_alg: Optional[int] = 0,
    dst_type_max: float = 0.0,
    max_low_bound: float = 0.0,
) -> Tuple[Tensor, Tensor]:
    """MX quantization: (elements, scales) of blocks of ``block_size`` elements along ``axis``.

    ``scale_alg`` 0: the scale is ``2 ** (floor(log2(max |x|)) - e)`` with e the exponent of the format's greatest number; 1,
    2: the least power of two that keeps elements within ``dst_type_max`` (0: the format's greatest). ``dst_type``:
    float4_e2m1fn_x2 (296), float4_e1m2fn_x2 (297), float8_e4m3fn, float8_e5m2. ``round_mode`` for float4: "rint", "round",
    "floor". Scales are uint8, exponent + 127, in pairs: see the module. Raises NotImplementedError for max_low_bound.
    """
    name = "npu_dynamic_mx_quant"
    unsupported(name, max_low_bound=max_low_bound or None)
    return quantize_blocks(name, input, axis, format_of(name, dst_type), round_mode, scale_alg or 0, dst_type_max, block_size)


def npu_dynamic_mx_quant_with_dual_axis(
    input: Tensor, *, round_mode: str = "rint", dst_type: int = 296, scale_alg: int = 0, dst_type_max: Optional[float] = 0.0
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_dynamic_mx_quant` along the last axis and along the one before it: (elements, scales, elements, scales)."""
    name = "npu_dynamic_mx_quant_with_dual_axis"
    return quantize_both_axes(name, input, dst_type, round_mode, scale_alg, dst_type_max or 0.0)


def npu_dynamic_block_mx_quant(
    input: Tensor, *, round_mode: str = "rint", dst_type: int = 296, scale_alg: int = 0, dst_type_max: float = 0.0
) -> Tuple[Tensor, Tensor, Tensor]:
    """MX quantization of squares of 32 by 32 elements of the last two axes, with one scale each.

    Returns (elements, scales for blocks along the last axis, scales for blocks along the one before): both repeat the
    squares'. ``x``: [..., rows, columns], float16 or bfloat16.
    """
    name = "npu_dynamic_block_mx_quant"
    kind = format_of(name, dst_type)
    rows, columns = input.shape[-2:]
    down, across = -(-rows // _BLOCK), -(-columns // _BLOCK)
    squares = F.pad(wide(input), (0, across * _BLOCK - columns, 0, down * _BLOCK - rows))
    squares = squares.unflatten(-1, (across, _BLOCK)).unflatten(-3, (down, _BLOCK))
    shared = exponents(squares.abs().amax((-1, -3)), kind, scale_alg, dst_type_max)  # [..., down, across]
    spread = shared.repeat_interleave(_BLOCK, -2)[..., :rows, :].repeat_interleave(_BLOCK, -1)[..., :columns]
    y = encode(wide(input) * torch.ldexp(torch.ones_like(spread, dtype=torch.float32), -spread), kind, round_mode)
    by_row = F.pad(shared + 127, (0, across % 2)).to(torch.uint8).repeat_interleave(_BLOCK, -2)[..., :rows, :]
    by_column = F.pad((shared + 127).transpose(-1, -2), (0, down % 2)).to(torch.uint8).unflatten(-1, (-1, 2))
    by_column = by_column.repeat_interleave(_BLOCK, -3)[..., :columns, :, :].movedim(-3, -2)
    return y, by_row.unflatten(-1, (-1, 2)).contiguous(), by_column.contiguous()


def npu_dynamic_dual_level_mx_quant(
    input: Tensor, *, smooth_scale: Optional[Tensor] = None, round_mode: str = "rint"
) -> Tuple[Tensor, Tensor, Tensor]:
    """float4_e2m1 in two steps along the last axis: blocks of 512 by ``max |x| / 6`` in float32, then MX blocks of 32 of those.

    Returns (elements as uint8 [..., size / 2], float32 scales [..., ceil(size / 512)], MX scales in pairs).
    """
    x = wide(input) if smooth_scale is None else wide(input) * wide(smooth_scale)
    size = x.shape[-1]
    count = -(-size // 512)
    blocks = F.pad(x, (0, count * 512 - size)).unflatten(-1, (count, 512))
    first = blocks.abs().amax(-1) / _LARGEST["e2m1"]
    scaled = torch.where(first.unsqueeze(-1) > 0, blocks / first.unsqueeze(-1), 0.0).flatten(-2)[..., :size].to(input.dtype)
    y, second = quantize_blocks("npu_dynamic_dual_level_mx_quant", scaled, -1, "e2m1", round_mode, 0)
    return y, first, second


def npu_grouped_dynamic_mx_quant(
    x: Tensor,
    group_index: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 23,
    blocksize: int = 32,
    scale_alg: Optional[int] = 0,
    dst_type_max: Optional[float] = 0.0,
) -> Tuple[Tensor, Tensor]:
    """MX quantization along the rows of x [rows, size], the blocks of each group for themselves.

    ``group_index``: where the groups end, int32 [groups]. Returns (elements [rows, size], scales [rows / 64 + groups, size,
    2]: group g's begin at its first row / 64 + g, ceil(its rows / 64) pairs; the rest is 0).
    """
    name = "npu_grouped_dynamic_mx_quant"
    kind = format_of(name, dst_type)
    rows, size = x.shape
    scales = x.new_zeros((rows // (2 * blocksize) + group_index.numel(), size, 2), dtype=torch.uint8)
    y = x.new_zeros((rows, size), dtype=_FP8[kind]) if kind in _FP8 else x.new_zeros((rows, size // 2), dtype=torch.uint8)
    if x.device.type == "meta":
        return y, scales
    start = 0
    for group, end in enumerate(group_index.tolist()):
        if end > start:
            part, pairs = quantize_blocks(name, x[start:end], 0, kind, round_mode, scale_alg or 0, dst_type_max or 0.0, blocksize)
            y.view(torch.uint8)[start:end] = part.view(torch.uint8)
            place = start // (2 * blocksize) + group
            scales[place : place + pairs.shape[0]] = pairs
        start = end
    return y, scales


def _block_target(name: str, dst_type: Any) -> Tuple[torch.dtype, float]:
    if dst_type in (1, torch.int8):
        return torch.int8, 127.0
    kind = format_of(name, dst_type)
    if kind not in _FP8:
        raise NotImplementedError(f"{name}: float4 is not supported; int8 (1) and float8 are")
    return _FP8[kind], _LARGEST[kind]


def _in_blocks(x: Tensor, rows: int, columns: int, dtype: torch.dtype, largest: float, least: float) -> Tuple[Tensor, Tensor]:
    height, width = x.shape[-2:]
    down, across = -(-height // rows), -(-width // columns)
    blocks = F.pad(wide(x), (0, across * columns - width, 0, down * rows - height))
    blocks = blocks.unflatten(-1, (across, columns)).unflatten(-3, (down, rows))
    scale = (blocks.abs().amax((-1, -3)) / largest).clamp(min=least)
    spread = scale.repeat_interleave(rows, -2)[..., :height, :].repeat_interleave(columns, -1)[..., :width]
    value = torch.where(spread > 0, wide(x) / spread, 0.0)
    value = value.round().clamp(-128, 127) if dtype == torch.int8 else value.clamp(-largest, largest)
    return value.to(dtype), scale


def npu_dynamic_block_quant(
    x: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 1,
    row_block_size: int = 1,
    col_block_size: int = 128,
    dst_type_max: float = 0.0,
) -> Tuple[Tensor, Tensor]:
    """int8 or float8 with a scale for each block of the last two axes: ``scale = max(max |x| / m, min_scale)``, m the format's
    greatest number or ``dst_type_max``.

    Returns (round(x / scale), scales as float32 [..., ceil(rows / row_block_size), ceil(columns / col_block_size)]).
    """
    dtype, largest = _block_target("npu_dynamic_block_quant", dst_type)
    return _in_blocks(x, row_block_size, col_block_size, dtype, dst_type_max or largest, min_scale)


def npu_grouped_dynamic_block_quant(
    x: Tensor,
    group_list: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 291,
    row_block_size: int = 1,
    col_block_size: int = 128,
    group_list_type: int = 0,
    dst_type_max: float = 0.0,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_dynamic_block_quant` of x [rows, columns], the blocks of each group of rows for themselves.

    ``group_list``: where the groups end (``group_list_type`` 0) or how long they are (1). Returns (elements, scales [rows //
    row_block_size + groups, ceil(columns / col_block_size)]: group g's begin at its first row // row_block_size + g; the rest
    is 0).
    """
    dtype, largest = _block_target("npu_grouped_dynamic_block_quant", dst_type)
    rows, columns = x.shape[-2:]
    y = torch.zeros_like(x, dtype=dtype)
    shape = (*x.shape[:-2], rows // row_block_size + group_list.numel(), -(-columns // col_block_size))
    scales = x.new_zeros(shape, dtype=torch.float32)
    if x.device.type == "meta":
        return y, scales
    ends = ends_of(group_list, group_list_type)
    start = 0
    for group, end in enumerate(ends):
        if end > start:
            part, found = _in_blocks(
                x[..., start:end, :], row_block_size, col_block_size, dtype, dst_type_max or largest, min_scale
            )
            y.view(torch.uint8)[..., start:end, :] = part.view(torch.uint8)
            place = start // row_block_size + group
            scales[..., place : place + found.shape[-2], :] = found
        start = end
    return y, scales


def npu_anti_mx_quant(
    x: Tensor, mxscale: Tensor, *, axis: Optional[int] = -1, dst_type: Optional[int] = 15, src_type: Optional[int] = 292
) -> Tensor:
    """Elements of the format ``src_type`` times their MX scales, in ``dst_type``: 15 bfloat16, 5 float16, 6 float32.

    Elements and scales are those of :func:`npu_dynamic_mx_quant`; the result has the elements' shape.
    """
    return unscaled(x, mxscale, -1 if axis is None else axis, format_of("npu_anti_mx_quant", src_type)).to(as_dtype(dst_type))


def npu_swiglu_mx_quant(
    x: Tensor,
    *,
    group_index: Optional[Tensor] = None,
    activate_dim: int = -1,
    activate_left: bool = False,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
    group_mode: int = 0,
    axis: int = -1,
    dst_type: int = 296,
    round_mode: str = "rint",
    scale_alg: int = 0,
    max_dtype_value: float = 0.0,
) -> Tuple[Tensor, Tensor]:
    """swiglu of the halves a, b of ``activate_dim``, then :func:`npu_dynamic_mx_quant` along ``axis``.

    ``swiglu_mode`` 0: ``silu(a) * b`` with ``activate_left``, else ``a * silu(b)``; 1: a and b are the even and the odd elements,
    ``clamp(a, max) sigmoid(glu_alpha a) (clamp(b) + glu_bias)`` with ``clamp_limit``; 2: the same of the halves. Raises
    NotImplementedError for group_index.
    """
    name = "npu_swiglu_mx_quant"
    unsupported(name, group_index=group_index)
    value = wide(x)
    a, b = (value[..., ::2], value[..., 1::2]) if swiglu_mode == 1 else value.chunk(2, activate_dim)
    if swiglu_mode == 0:
        value = F.silu(a) * b if activate_left else a * F.silu(b)
    else:
        a, b = (a, b) if activate_left or swiglu_mode == 1 else (b, a)
        a, b = a.clamp(max=clamp_limit), b.clamp(-clamp_limit, clamp_limit)
        value = a * torch.sigmoid(glu_alpha * a) * (b + glu_bias)
    return quantize_blocks(name, value.to(x.dtype), axis, format_of(name, dst_type), round_mode, scale_alg, max_dtype_value)


def npu_rms_norm_dynamic_mx_quant(
    x: Tensor,
    gamma: Tensor,
    *,
    beta: Optional[Tensor] = None,
    epsilon: float = 1e-6,
    scale_alg: int = 0,
    round_mode: str = "rint",
    dst_type: int = 296,
) -> Tuple[Tensor, Tensor, Tensor]:
    """``x / rms(x) * gamma + beta``, then :func:`npu_dynamic_mx_quant` along the last axis.

    Returns (elements, scales, an empty float32 tensor in the place of 1 / rms)."""
    name = "npu_rms_norm_dynamic_mx_quant"
    value = wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + epsilon) * wide(gamma)
    value = (value if beta is None else value + wide(beta)).to(x.dtype)
    elements, scales = quantize_blocks(name, value, -1, format_of(name, dst_type), round_mode, scale_alg)
    return elements, scales, x.new_empty(0, dtype=torch.float32)


def npu_add_rms_norm_dynamic_mx_quant(
    x1: Tensor, x2: Tensor, gamma: Tensor, **options: Any
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_rms_norm_dynamic_mx_quant` of x1 + x2: returns (elements, x1 + x2, scales, an empty tensor)."""
    total = (wide(x1) + wide(x2)).to(x1.dtype)
    y, scales, rstd = npu_rms_norm_dynamic_mx_quant(total, gamma, **options)
    return y, total, scales, rstd


def npu_swiglu_mx_quant_with_dual_axis(
    x: Tensor,
    *,
    group_index: Optional[Tensor] = None,
    activate_left: bool = True,
    round_mode: str = "rint",
    scale_alg: int = 1,
    dst_type: int = 24,
    dst_type_max: float = 0.0,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """swiglu of the halves a, b of the last axis, ``silu(a) * b`` with ``activate_left``, else ``a * silu(b)``, then
    :func:`npu_dynamic_mx_quant_with_dual_axis`. Raises NotImplementedError for group_index."""
    name = "npu_swiglu_mx_quant_with_dual_axis"
    unsupported(name, group_index=group_index)
    value = swiglu(wide(x), activate_left).to(x.dtype)
    return quantize_both_axes(name, value, dst_type, round_mode, scale_alg, dst_type_max)


def npu_dual_level_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    *,
    bias: Optional[Tensor] = None,
    output_dtype: int = 15,
) -> Tensor:
    """The product of what :func:`npu_dynamic_dual_level_mx_quant` made of [m, k] and of [n, k]: ``x1 @ x2^T + bias``.

    ``x1`` uint8 [m, k / 2], ``x2`` uint8 [n, k / 2], scales as that operator returns them. Returns [m, n] in
    ``output_dtype``: 15 bfloat16, 5 float16.
    """

    def whole(y: Tensor, first: Tensor, second: Tensor) -> Tensor:
        values = unscaled(y, second, -1, "e2m1")
        return values * first.repeat_interleave(512, -1)[..., : values.shape[-1]]

    product = torch.matmul(whole(x1, x1_level0_scale, x1_level1_scale), whole(x2, x2_level0_scale, x2_level1_scale).t())
    return (product if bias is None else product + wide(bias)).to(as_dtype(output_dtype))
