"""Quantization to int8 and its products."""

from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import even_halves, groups_of, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, bias_parts, by_token, exact, numbers_of_scale, packed, result_offset, unpacked

_STORED = {  # by c10::ScalarType
    0: torch.uint8, 1: torch.int8, 3: torch.int32, 5: torch.float16, 6: torch.float32, 12: torch.int8, 13: torch.uint8,
    14: torch.int32, 15: torch.bfloat16,
}
_INT8, _INT4 = 127, 7  # the greatest number
_LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int32: (-2147483648, 2147483520)}


def _stored(dtype: Any) -> torch.dtype:
    number = {torch.qint8: 12, torch.quint8: 13, torch.qint32: 14}.get(dtype, dtype)
    return number if isinstance(number, torch.dtype) else _STORED[number]


def _rounded(value: Tensor, dtype: torch.dtype) -> Tensor:
    low, high = _LIMITS[dtype]
    return value.round().clamp(low, high).to(dtype)


# The dimensions that share a scale.
_SHARED = {"pertoken": (-1,), "perchannel": (-2,), "pertensor": None}


def _to_quantize(name: str, x: Tensor, smooth_scales: Optional[Tensor], group_index: Optional[Tensor], dst_type: Any,
                 quant_mode: str) -> Tuple[Tensor, int]:
    """The numbers that are to be quantized, in float32, and the greatest one that the result can hold."""
    if quant_mode not in _SHARED:
        raise ValueError(f"{name}: quant_mode '{quant_mode}' is not one of pertoken, pertensor, perchannel")
    if dst_type not in (None, 1, torch.int8, 16, torch.quint4x2):
        raise NotImplementedError(f"{name}: results of {dst_type} are not supported, only int8 and quint4x2")
    if x.dim() < 2:
        raise ValueError(f"{name}: the input has {x.dim()} dimensions, but needs two or more")
    limit = _INT8 if dst_type in (None, 1, torch.int8) else _INT4
    if limit == _INT4 and x.shape[-1] % 8:
        raise ValueError(f"{name}: eight int4 are one int32, and the last dimension is {x.shape[-1]}")
    values = wide(x)
    if smooth_scales is None:
        return values, limit
    if group_index is None:
        return values * wide(smooth_scales), limit
    rows = values.flatten(0, -2)
    group = groups_of(rows.shape[0], group_index).clamp(max=group_index.numel() - 1)
    return (rows * wide(smooth_scales)[group]).view(values.shape), limit


def _extreme(values: Tensor, find: str, quant_mode: str) -> Tensor:
    shared = _SHARED[quant_mode]
    return getattr(values, find)(shared or tuple(range(values.dim())), keepdim=True)


def _scales(numbers: Tensor, quant_mode: str) -> Tensor:
    shared = _SHARED[quant_mode]
    return (numbers.reshape(1) if shared is None else numbers.squeeze(shared)).float()


def npu_dynamic_quant(input: Tensor, *, smooth_scales: Optional[Tensor] = None, group_index: Optional[Tensor] = None,
                      dst_type: Optional[int] = None, quant_mode: str = "pertoken",
                      dst_type_max: float = 0.0) -> Tuple[Tensor, Tensor]:
    """int8 with a scale for each token: ``scale = max(|x * smooth_scales|) / 127`` over the last dimension.

    ``smooth_scales`` is a row; with ``group_index``, where each group of tokens ends, a row for each group. ``dst_type``
    torch.quint4x2 makes int4 with 7 in the place of 127, eight in each int32; ``dst_type_max``, unless 0, is what takes that
    place. ``quant_mode`` "pertensor" has one scale for all, "perchannel" one for each column over the rows.

    Returns (round(x * smooth_scales / scale), scales as float32 without the dimension that shares them). Raises ValueError for
    fewer than two dimensions and other modes, NotImplementedError for other dtypes. ``x``: [..., size], float16, bfloat16 or
    float32; scales: float32 [...], [1] of "pertensor".
    """
    values, limit = _to_quantize("npu_dynamic_quant", input, smooth_scales, group_index, dst_type, quant_mode)
    scale = _extreme(values.abs(), "amax", quant_mode) / (dst_type_max or limit)
    whole = torch.where(scale > 0, values / scale, 0.0)
    return as_int8(whole) if limit == _INT8 else packed(whole.round()), _scales(scale, quant_mode)


def npu_dynamic_quant_asymmetric(input: Tensor, *, smooth_scales: Optional[Tensor] = None, group_index: Optional[Tensor] = None,
                                 dst_type: Optional[int] = None, quant_mode: str = "pertoken",
                                 dst_type_max: float = 0.0) -> Tuple[Tensor, Tensor, Tensor]:
    """int8 with a scale and an offset for each token: ``scale = (max - min) / 255`` and ``offset = 127 - max / scale`` over
    the last dimension of ``x * smooth_scales``. The arguments are those of :func:`npu_dynamic_quant`; int4 has 15 and 7, and
    ``dst_type_max`` is without effect.

    Returns (round(x * smooth_scales / scale + offset), scales and offsets as float32 without the last dimension). Raises as
    :func:`npu_dynamic_quant`, and NotImplementedError for "perchannel". Shapes as there; scales and offsets are float32.
    """
    values, limit = _to_quantize("npu_dynamic_quant_asymmetric", input, smooth_scales, group_index, dst_type, quant_mode)
    if quant_mode == "perchannel":
        raise NotImplementedError("npu_dynamic_quant_asymmetric: quant_mode 'perchannel' is not supported")
    top = _extreme(values, "amax", quant_mode)
    scale = (top - _extreme(values, "amin", quant_mode)) / (2 * limit + 1)
    offset = torch.where(scale > 0, limit - top / scale, 0.0)
    whole = torch.where(scale > 0, values / scale, 0.0) + offset
    out = as_int8(whole) if limit == _INT8 else packed(whole.round())
    return out, _scales(scale, quant_mode), _scales(offset, quant_mode)


def _row_of(table: Any, group: Any) -> Tensor:
    """What belongs to each row: a row of the table, by the row's group."""
    table = wide(table)
    if table.dim() < 2:
        return table
    if group is None or table.shape[0] == 1:
        return table[0]
    return table[group.clamp(max=table.shape[0] - 1)]


def _swiglu(x: Tensor, activate_left: bool, mode: int = 0, limit: float = 0.0, alpha: float = 0.0, bias: float = 0.0) -> Tensor:
    left, right = even_halves("swiglu with quantization", x, -1)
    if mode == 0:
        return F.silu(left) * right if activate_left else left * F.silu(right)
    gate, linear = (x[..., ::2], x[..., 1::2]) if mode == 1 else (left, right) if activate_left else (right, left)
    gate = gate.clamp(max=limit)
    return gate * torch.sigmoid(alpha * gate) * (linear.clamp(-limit, limit) + bias)


def _quantized_int8(value: Tensor, shape: Sequence[int], group: Any, groups: int, smooth: Any, offset: Any,
                    quant_mode: int) -> Tuple[Tensor, Tensor]:
    def by_row(table: Tensor) -> Tensor:
        per_group = group is not None and table.dim() == 1 and table.numel() == groups
        return _row_of(table.unsqueeze(-1) if per_group else table, group)

    if quant_mode not in (0, 1):
        raise ValueError(f"swiglu with quantization: quant_mode is 0, static, or 1, dynamic, not {quant_mode}")
    value = value if smooth is None else value * by_row(smooth)
    value = value + by_row(offset) if quant_mode == 0 and offset is not None else value
    value = value if group is None else torch.where((group < groups).unsqueeze(-1), value, 0.0)
    out, scale = by_token(value) if quant_mode else (as_int8(value), value.new_zeros(value.shape[:-1], dtype=torch.float32))
    return out.reshape(*shape[:-1], -1), scale.reshape(shape[:-1])


def npu_swiglu_quant(x: Tensor, *, smooth_scales: Optional[Tensor] = None, offsets: Optional[Tensor] = None,
                     group_index: Optional[Tensor] = None, activate_left: bool = False, quant_mode: int = 0,
                     group_list_type: int = 0, dst_type: Optional[torch.dtype] = None) -> Tuple[Tensor, Tensor]:
    """swiglu of the halves a, b of the last dimension, as int8 with a scale for each token: what it was multiplied with, 127 over
    its greatest magnitude, where :func:`npu_dynamic_quant` tells the reciprocal.

    ``activate_left``: ``silu(a) * b``, otherwise ``a * silu(b)``. ``smooth_scales``: multiplies the result before it is
    rounded, one row or, with ``group_index``, one for each group of rows. ``group_index``: where the groups end
    (``group_list_type`` 0) or how long they are (1); rows behind the last become zero. ``quant_mode`` 0, static, rounds
    ``smooth_scales * value + offsets`` and gives zeros for scales; 1, dynamic, takes no offsets. Returns (int8, float32
    scales). Raises NotImplementedError for other dtypes than int8. ``x``: [..., 2 * size], floating point; the int8: [...,
    size], scales: float32 [...].
    """
    if dst_type not in (None, torch.int8):
        raise NotImplementedError("npu_swiglu_quant: only int8 is supported")
    rows, group = wide(x).reshape(-1, x.shape[-1]), None
    if group_index is not None:
        group = groups_of(rows.shape[0], group_index.cumsum(0) if group_list_type == 1 else group_index)
    count = 0 if group_index is None else group_index.numel()
    out, scale = _quantized_int8(_swiglu(rows, activate_left), x.shape, group, count, smooth_scales, offsets, quant_mode)
    if not quant_mode:
        return out, scale
    factor = scale.reciprocal()
    return out, factor if group is None else torch.where((group < count).view(scale.shape), factor, 0.0)


def npu_dequant_swiglu_quant(x: Tensor, *, weight_scale: Optional[Tensor] = None, activation_scale: Optional[Tensor] = None,
                             bias: Optional[Tensor] = None, quant_scale: Optional[Tensor] = None,
                             quant_offset: Optional[Tensor] = None, group_index: Optional[Tensor] = None,
                             activate_left: bool = False, quant_mode: int = 0, dst_type: Optional[int] = None,
                             round_mode: Optional[int] = None, activate_dim: Optional[int] = None, swiglu_mode: int = 0,
                             clamp_limit: float = 7.0, glu_alpha: float = 1.702, glu_bias: float = 1.0) -> Tuple[Tensor, Tensor]:
    """:func:`npu_swiglu_quant` of what an int8 product becomes in floating point.

    ``x``: int32 [tokens, size], times ``weight_scale`` [size] or [groups, size] and ``activation_scale`` [tokens]; an int32
    ``bias`` is added before, a floating one after. ``quant_scale``: smooths, [size / 2] or [groups, size / 2];
    ``group_index``: how many rows each group has. ``swiglu_mode`` 1 takes gates from the even columns and the others from the
    odd ones, 2 from the halves: ``g * sigmoid(glu_alpha * g) * (x + glu_bias)``, with g at most ``clamp_limit`` and x within it.
    Returns (int8, float32 scales). Raises NotImplementedError for other dtypes than int8, another ``round_mode`` than
    0 (to nearest, ties to even) and another ``activate_dim`` than the last.
    """
    name = "npu_dequant_swiglu_quant"
    if round_mode or activate_dim not in (None, -1, x.dim() - 1):
        raise NotImplementedError(f"{name}: a round_mode other than 0, and an activate_dim other than the last are not supported")
    if dst_type not in (None, 1, torch.int8):
        raise NotImplementedError(f"{name}: only int8 is supported")
    rows = wide(x).reshape(-1, x.shape[-1])
    group = None if group_index is None else groups_of(rows.shape[0], group_index.cumsum(0))
    before, behind = bias_parts(bias)
    rows = rows if before is None else rows + _row_of(before, group)
    rows = rows if weight_scale is None else rows * _row_of(weight_scale, group)
    rows = rows if activation_scale is None else rows * wide(activation_scale).reshape(-1, 1)
    rows = rows if behind is None else rows + _row_of(behind, group)
    return _quantized_int8(_swiglu(rows, activate_left, swiglu_mode, clamp_limit, glu_alpha, glu_bias), x.shape, group,
                           0 if group_index is None else group_index.numel(), quant_scale, quant_offset, quant_mode)


def _along(numbers: Any, x: Any, axis: Any) -> Any:
    if numbers is None or numbers.numel() == 1:
        return wide(numbers)
    return wide(numbers).view([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])


def npu_quantize(self: Tensor, scales: Tensor, zero_points: Optional[Tensor], dtype: int, axis: int = 1,
                 div_mode: bool = True) -> Tensor:
    """``round(self / scales) + zero_points``, or ``round(self * scales + zero_points)`` unless ``div_mode``.

    ``scales`` and ``zero_points`` are one number, or one for each element of dimension ``axis``; unless ``div_mode``, an ``axis``
    from -1 on means the last, so that the default does, too. ``dtype``: torch.qint8, quint8 or qint32 (stored as int8, uint8,
    int32), or an integer dtype. Values beyond its range become its ends. torch.quint4x2, which ``div_mode`` does not have, is
    int4, eight of the last dimension in each int32.
    """
    int4 = dtype in (16, torch.quint4x2)
    if int4 and div_mode:
        raise NotImplementedError("npu_quantize: quint4x2 is for div_mode=False")
    if int4 and (not self.dim() or self.shape[-1] % 8):
        raise ValueError(f"npu_quantize: eight int4 are one int32, and the last dimension of {tuple(self.shape)} does not fit")
    axis = axis if div_mode else min(axis, -1)
    scale, zero = _along(scales, self, axis), _along(zero_points, self, axis)
    if div_mode:
        value = (wide(self) / scale).round()
        value = value if zero is None else value + zero
    else:
        value = wide(self) * scale
        value = value if zero is None else value + zero
    return packed(value.round()) if int4 else _rounded(value, _stored(dtype))


def npu_anti_quant(x: Tensor, scale: Tensor, *, offset: Optional[Tensor] = None, dst_dtype: Optional[int] = None,
                   src_dtype: Optional[int] = None) -> Tensor:
    """``(x + offset) * scale`` in ``dst_dtype``, float16 by default.

    ``x`` has any shape, int8, or int4 eight in an int32 of the last dimension; scale and offset: [1], or [size] of the last
    dimension.
    """
    value = wide(x) if offset is None else wide(x) + wide(offset)
    return (value * wide(scale)).to(torch.float16 if dst_dtype is None else _stored(dst_dtype))


def npu_trans_quant_param(scale: Tensor, offset: Optional[Tensor] = None, round_mode: Optional[int] = 0) -> Tensor:
    """A float32 scale as the matrix unit takes it, int64, in the sizes of ``scale`` and ``offset`` broadcast: the bits of
    the float without its last 13, bit 46, and from bit 37 on the offset, rounded, in 9 bits. ``round_mode``: 0
    cuts the 13 bits off, 1 rounds them."""
    bits = scale.float().contiguous().view(torch.int32).long() & 0xFFFFFFFF
    bits = bits + (0x1000 if round_mode else 0) & 0xFFFFE000 | 1 << 46
    return bits if offset is None else bits | (offset.float().round().clamp(-256, 255).long() & 0x1FF) << 37


def npu_quant_matmul(x1: Tensor, x2: Tensor, scale: Tensor, *, offset: Optional[Tensor] = None,
                     pertoken_scale: Optional[Tensor] = None, bias: Optional[Tensor] = None, output_dtype: Optional[int] = None,
                     x1_dtype: Optional[int] = None, x2_dtype: Optional[int] = None, pertoken_scale_dtype: Optional[int] = None,
                     scale_dtype: Optional[int] = None, group_sizes: Optional[Sequence[int]] = None,
                     y_scale: Optional[Tensor] = None) -> Tensor:
    """``(x1 @ x2 + bias) * scale * pertoken_scale`` of int8 matrices.

    ``scale``: one or one for each column, float32, bfloat16 or from :func:`npu_trans_quant_param`, which is applied to float32
    where the result is int8 or float16 and has no ``pertoken_scale``, one for each row. An int32 ``bias`` is added before
    scaling, a floating one after. ``output_dtype``: int8 by default, then ``offset``, or that within ``scale``, is added and the
    result rounded; float16, bfloat16, or int32, the unscaled product.
    """
    unsupported("npu_quant_matmul", y_scale=y_scale)
    dtype = torch.int8 if output_dtype is None else _stored(output_dtype)
    total = exact(x1, x2)
    before, behind = bias_parts(bias)
    total = total if before is None else total + before.double()
    if dtype == torch.int32:
        return total.to(dtype)
    if scale.dtype == torch.float32 and pertoken_scale is None and dtype in (torch.int8, torch.float16):
        scale = npu_trans_quant_param(scale)
    value = total.float() * numbers_of_scale(scale)
    value = value if pertoken_scale is None else value * wide(pertoken_scale).unsqueeze(-1)
    value = value if behind is None else value + wide(behind)
    if dtype != torch.int8:
        return value.to(dtype)
    return _rounded(value + result_offset(scale, offset), dtype)


def npu_weight_quant_batchmatmul(x: Tensor, weight: Tensor, antiquant_scale: Tensor, antiquant_offset: Optional[Tensor] = None,
                                 quant_scale: Optional[Tensor] = None, quant_offset: Optional[Tensor] = None,
                                 bias: Optional[Tensor] = None, antiquant_group_size: int = 0, inner_precise: int = 0,
                                 weight_dtype: Optional[int] = None) -> Tensor:
    """``x @ ((weight + antiquant_offset) * antiquant_scale) + bias`` with a weight of int8, or of int4 packed in int32.

    Scale and offset: one, one for each column, or one for each column and ``antiquant_group_size`` rows. ``x``: [M, K], float16
    or bfloat16, as the result [M, N]; weight: [K, N]. With ``quant_scale``, float32 or from :func:`npu_trans_quant_param`, the
    result is multiplied by it and rounded to int8; ``quant_offset``, or that within the scale, is added before.
    """
    scale, offset, weight = wide(antiquant_scale), wide(antiquant_offset), unpacked(weight)
    if antiquant_group_size > 0:
        scale, offset = (t if t is None else t.repeat_interleave(antiquant_group_size, 0)[:weight.shape[0]]
                         for t in (scale, offset))
    w = (wide(weight) if offset is None else wide(weight) + offset) * scale
    out = torch.matmul(wide(x), w)
    out = out if bias is None else out + wide(bias)
    if quant_scale is None:
        return out.to(x.dtype)
    return as_int8(out * numbers_of_scale(quant_scale) + result_offset(quant_scale, quant_offset))
