"""Quantization to int8, sampling, and what else inference needs."""

import math
from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import even_halves, groups_of, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, bias_parts, by_token, exact, numbers_of_scale, packed, unpacked

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


def _to_quantize(name: str, x: Tensor, smooth_scales: Optional[Tensor], group_index: Optional[Tensor], dst_type: Any,
                 quant_mode: str) -> Tuple[Tensor, int]:
    """The numbers that are to be quantized, in float32, and the greatest one that the result can hold."""
    if quant_mode != "pertoken":
        raise NotImplementedError(f"{name}: only quant_mode 'pertoken' is supported")
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


def npu_dynamic_quant(input: Tensor, *, smooth_scales: Optional[Tensor] = None, group_index: Optional[Tensor] = None,
                      dst_type: Optional[int] = None, quant_mode: str = "pertoken",
                      dst_type_max: float = 0.0) -> Tuple[Tensor, Tensor]:
    """int8 with a scale for each token: ``scale = max(|x * smooth_scales|) / 127`` over the last dimension.

    ``smooth_scales`` is a row; with ``group_index``, where each group of tokens ends, a row for each group. ``dst_type``
    torch.quint4x2 makes int4 with 7 in the place of 127, eight in each int32.

    Returns (round(x * smooth_scales / scale), scales as float32 without the last dimension). Raises ValueError for fewer than two
    dimensions, NotImplementedError for other dtypes and other modes than "pertoken".
    """
    values, limit = _to_quantize("npu_dynamic_quant", input, smooth_scales, group_index, dst_type, quant_mode)
    if limit == _INT8:
        return by_token(values)
    scale = values.abs().amax(-1, keepdim=True) / limit
    return packed(torch.where(scale > 0, values / scale, 0.0).round()), scale.squeeze(-1).float()


def npu_dynamic_quant_asymmetric(input: Tensor, *, smooth_scales: Optional[Tensor] = None, group_index: Optional[Tensor] = None,
                                 dst_type: Optional[int] = None, quant_mode: str = "pertoken",
                                 dst_type_max: float = 0.0) -> Tuple[Tensor, Tensor, Tensor]:
    """int8 with a scale and an offset for each token: ``scale = (max - min) / 255`` and ``offset = 127 - max / scale`` over
    the last dimension of ``x * smooth_scales``. The arguments are those of :func:`npu_dynamic_quant`; int4 has 15 and 7.

    Returns (round(x * smooth_scales / scale + offset), scales and offsets as float32 without the last dimension). Raises as
    :func:`npu_dynamic_quant`.
    """
    values, limit = _to_quantize("npu_dynamic_quant_asymmetric", input, smooth_scales, group_index, dst_type, quant_mode)
    top = values.amax(-1, keepdim=True)
    scale = (top - values.amin(-1, keepdim=True)) / (2 * limit + 1)
    offset = torch.where(scale > 0, limit - top / scale, 0.0)
    whole = torch.where(scale > 0, values / scale, 0.0) + offset
    out = as_int8(whole) if limit == _INT8 else packed(whole.round())
    return out, scale.squeeze(-1).float(), offset.squeeze(-1).float()


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
    """swiglu of the halves a, b of the last dimension, as int8 with a scale for each token, as :func:`npu_dynamic_quant`.

    ``activate_left``: ``silu(a) * b``, otherwise ``a * silu(b)``. ``smooth_scales``: multiplies the result before it is
    rounded, one row or, with ``group_index``, one for each group of rows. ``group_index``: where the groups end
    (``group_list_type`` 0) or how long they are (1); rows behind the last become zero. ``quant_mode`` 0, static, rounds
    ``smooth_scales * value + offsets`` and gives zeros for scales; 1, dynamic, takes no offsets. Returns (int8, float32
    scales). Raises NotImplementedError for other dtypes than int8.
    """
    if dst_type not in (None, torch.int8):
        raise NotImplementedError("npu_swiglu_quant: only int8 is supported")
    rows, group = wide(x).reshape(-1, x.shape[-1]), None
    if group_index is not None:
        group = groups_of(rows.shape[0], group_index.cumsum(0) if group_list_type == 1 else group_index)
    return _quantized_int8(_swiglu(rows, activate_left), x.shape, group, 0 if group_index is None else group_index.numel(),
                           smooth_scales, offsets, quant_mode)


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
    Returns (int8, float32 scales). Raises NotImplementedError for round_mode, activate_dim and other dtypes than int8.
    """
    name = "npu_dequant_swiglu_quant"
    unsupported(name, round_mode=round_mode, activate_dim=activate_dim)
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

    ``scales`` and ``zero_points`` are one number, or one for each element of dimension ``axis``. ``dtype``: torch.qint8, quint8
    or qint32 (stored as int8, uint8, int32), or an integer dtype. Values beyond its range become its ends.
    """
    scale, zero = _along(scales, self, axis), _along(zero_points, self, axis)
    if div_mode:
        value = (wide(self) / scale).round()
        value = value if zero is None else value + zero
    else:
        value = wide(self) * scale
        value = value if zero is None else value + zero
    return _rounded(value, _stored(dtype))


def npu_anti_quant(x: Tensor, scale: Tensor, *, offset: Optional[Tensor] = None, dst_dtype: Optional[int] = None,
                   src_dtype: Optional[int] = None) -> Tensor:
    """``(x + offset) * scale`` in ``dst_dtype``, float16 by default."""
    value = wide(x) if offset is None else wide(x) + wide(offset)
    return (value * wide(scale)).to(torch.float16 if dst_dtype is None else _stored(dst_dtype))


def npu_trans_quant_param(scale: Tensor, offset: Optional[Tensor] = None, round_mode: Optional[int] = 0) -> Tensor:
    """A float32 scale as the matrix unit takes it, int64, in the sizes of ``scale`` and ``offset`` broadcast: the bits of
    the float without its last 13, bit 46, and from bit 37 on the offset, rounded, in 9 bits."""
    bits = scale.float().contiguous().view(torch.int32).long() & 0xFFFFE000 | 1 << 46
    return bits if offset is None else bits | (offset.float().round().long() & 0x1FF) << 37


def npu_quant_matmul(x1: Tensor, x2: Tensor, scale: Tensor, *, offset: Optional[Tensor] = None,
                     pertoken_scale: Optional[Tensor] = None, bias: Optional[Tensor] = None, output_dtype: Optional[int] = None,
                     x1_dtype: Optional[int] = None, x2_dtype: Optional[int] = None, pertoken_scale_dtype: Optional[int] = None,
                     scale_dtype: Optional[int] = None, group_sizes: Optional[Sequence[int]] = None,
                     y_scale: Optional[Tensor] = None) -> Tensor:
    """``(x1 @ x2 + bias) * scale * pertoken_scale`` of int8 matrices.

    ``scale``: one or one for each column, float32, bfloat16 or from :func:`npu_trans_quant_param`; ``pertoken_scale``: one for
    each row. An int32 ``bias`` is added before scaling, a floating one after. ``output_dtype``: int8 by default, then
    ``offset`` is added and the result rounded; float16, bfloat16, or int32, the unscaled product.
    """
    unsupported("npu_quant_matmul", y_scale=y_scale)
    dtype = torch.int8 if output_dtype is None else _stored(output_dtype)
    total = exact(x1, x2)
    before, behind = bias_parts(bias)
    total = total if before is None else total + before.double()
    if dtype == torch.int32:
        return total.to(dtype)
    value = total.float() * numbers_of_scale(scale)
    value = value if pertoken_scale is None else value * wide(pertoken_scale).unsqueeze(-1)
    value = value if behind is None else value + wide(behind)
    if dtype != torch.int8:
        return value.to(dtype)
    return _rounded(value if offset is None else value + wide(offset), dtype)


def npu_weight_quant_batchmatmul(x: Tensor, weight: Tensor, antiquant_scale: Tensor, antiquant_offset: Optional[Tensor] = None,
                                 quant_scale: Optional[Tensor] = None, quant_offset: Optional[Tensor] = None,
                                 bias: Optional[Tensor] = None, antiquant_group_size: int = 0, inner_precise: int = 0,
                                 weight_dtype: Optional[int] = None) -> Tensor:
    """``x @ ((weight + antiquant_offset) * antiquant_scale) + bias`` with a weight of int8, or of int4 packed in int32.

    Scale and offset: one, one for each column, or one for each column and ``antiquant_group_size`` rows. Raises
    NotImplementedError for quantized results (quant_scale, quant_offset).
    """
    unsupported("npu_weight_quant_batchmatmul", quant_scale=quant_scale, quant_offset=quant_offset)
    scale, offset, weight = wide(antiquant_scale), wide(antiquant_offset), unpacked(weight)
    if antiquant_group_size > 0:
        scale, offset = (t if t is None else t.repeat_interleave(antiquant_group_size, 0)[:weight.shape[0]]
                         for t in (scale, offset))
    w = (wide(weight) if offset is None else wide(weight) + offset) * scale
    out = torch.matmul(wide(x), w)
    return (out if bias is None else out + wide(bias)).to(x.dtype)


def npu_sign_bits_pack(self: Tensor, size: int) -> Tensor:
    """The signs of self, [n], as uint8 [size, bytes]: a bit for each element, the lowest first, 1 where it is not negative. The
    last byte is filled with zeros. Raises ValueError unless the bytes make ``size`` rows."""
    if self.dim() != 1:
        raise ValueError(f"npu_sign_bits_pack: the input has one dimension, not {self.dim()}")
    count = (self.numel() + 7) // 8
    if size <= 0 or count % size:
        raise ValueError(f"npu_sign_bits_pack: {count} bytes do not make {size} rows")
    bits = F.pad((self >= 0).to(torch.uint8), (0, 8 * count - self.numel())).view(size, -1, 8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=self.device)).sum(-1).to(torch.uint8)


def npu_sign_bits_unpack(input: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """The way back from :func:`npu_sign_bits_pack`: uint8 [n] as [size, 8 n / size] of 1 and -1 in ``dtype``."""
    if input.dim() != 1 or size <= 0 or 8 * input.numel() % size:
        raise ValueError(f"npu_sign_bits_unpack: {list(input.shape)} do not make {size} rows")
    bits = input.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=input.device) & 1
    return (2 * bits.to(torch.int32) - 1).to(dtype).reshape(size, -1)


def npu_top_k_top_p(logits: Tensor, p: Optional[Tensor] = None, k: Optional[Tensor] = None) -> Tensor:
    """``logits`` [batch, vocabulary] with minus infinity for all but the ``k`` [batch] largest, and of these all but the
    largest whose probabilities first add up to ``p`` [batch]. At least one stays."""
    values, order = wide(logits).sort(-1)
    hidden = torch.zeros_like(values, dtype=torch.bool)
    size = values.shape[-1]
    if k is not None:
        hidden = values < values.gather(-1, (size - k.long()).clamp(0, size - 1).unsqueeze(-1))
    if p is not None:
        weights = torch.softmax(values.masked_fill(hidden, float("-inf")), -1)
        small = weights.cumsum(-1) <= 1 - wide(p).unsqueeze(-1)
        hidden = hidden | torch.cat([small[..., :-1], torch.zeros_like(small[..., -1:])], -1)
    kept = values.masked_fill(hidden, float("-inf"))
    return torch.empty_like(kept).scatter(-1, order, kept).to(logits.dtype)


def npu_ring_attention_update(prev_attn_out: Tensor, prev_softmax_max: Tensor, prev_softmax_sum: Tensor, cur_attn_out: Tensor,
                              cur_softmax_max: Tensor, cur_softmax_sum: Tensor, *, actual_seq_qlen: Optional[Tensor] = None,
                              input_layout: str = "SBH", input_softmax_layout: str = "") -> Tuple[Tensor, Tensor, Tensor]:
    """Joins the attention over two parts of the keys: results [S, B, N * D], statistics [B, N, S, 8] as
    :func:`npu_fusion_attention` returns them. Returns (attention, maximum, sum) over both. Raises NotImplementedError for
    other layouts."""
    if input_layout != "SBH":
        raise NotImplementedError(f"npu_ring_attention_update: layout {input_layout!r} is not supported, only 'SBH'")
    top = torch.maximum(prev_softmax_max, cur_softmax_max)
    previous, current = prev_softmax_sum * (prev_softmax_max - top).exp(), cur_softmax_sum * (cur_softmax_max - top).exp()
    total = previous + current

    def part(attention: Any, weight: Tensor) -> Any:
        heads = wide(attention).unflatten(-1, (top.shape[1], -1))
        return heads * (weight / total)[..., 0].permute(2, 0, 1).unsqueeze(-1)

    out = (part(prev_attn_out, previous) + part(cur_attn_out, current)).flatten(-2)
    return out.to(prev_attn_out.dtype), top, total


def _bits(mask: Tensor, numel: Any) -> Tensor:
    return (mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8, device=mask.device) & 1).view(-1)[:numel].bool()


def npu_dropout_gen_mask(size: Sequence[int], p: float, *, dtype: Optional[torch.dtype] = None,
                         layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                         pin_memory: Optional[bool] = None) -> Tensor:
    """A mask for a dropout with probability ``p`` of a tensor of ``size``, as of :func:`_npu_dropout`: uint8, a bit for each
    element, the lowest first, 1 kept, rounded up to 128 bits.

    ``dtype``: the tensor's, which the mask does not depend on; ``device``: where the mask is, the NPU by default.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    count = (math.prod(size) + 127) // 128 * 16
    bits = (torch.rand(count, 8, device=device) >= p).to(torch.uint8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=device)).sum(-1).to(torch.uint8)


def _npu_dropout_gen_mask_Tensor(input: Tensor, size: Sequence[int], p: float, seed: int, offset: int, *,
                                 parallel: Optional[bool] = True, sync: Optional[bool] = None) -> Tensor:
    """:func:`npu_dropout_gen_mask` on ``input``'s device, the same for the same ``seed + offset``. The options change nothing."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    count = (math.prod(size) + 127) // 128 * 16
    if input.device.type == "meta":
        return input.new_empty(count, dtype=torch.uint8)
    generator = torch.Generator(device=input.device).manual_seed(seed + offset)
    bits = (torch.rand(count, 8, generator=generator, device=input.device) >= p).to(torch.uint8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=input.device)).sum(-1).to(torch.uint8)


def npu_sim_exponential_(self: Tensor, lambd: float = 1, *, generator: Optional[torch.Generator] = None) -> Tensor:
    """Fills self with numbers of the exponential distribution of rate ``lambd``, as ``exponential_``."""
    return self.exponential_(lambd, generator=generator)


def _npu_dropout(self: Tensor, p: Any) -> Tuple[Tensor, Tensor]:
    """Dropout with probability ``p``. Returns (result, mask): uint8 with a bit for each element, the lowest first, 1 kept,
    rounded up to 128 bits. Has a gradient."""
    mask = npu_dropout_gen_mask(self.shape, p, device=self.device)
    return npu_dropout_backward(self, mask, p), mask


def npu_dropout_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """``grad_output / (1 - p)`` where the mask of :func:`_npu_dropout` has a 1, else 0."""
    kept = _bits(mask, grad_output.numel()).view(grad_output.shape)
    factor = 0.0 if p == 1 else 1 / (1 - p)
    return torch.where(kept, wide(grad_output) * factor, 0.0).to(grad_output.dtype).contiguous()


def npu_dropout_do_mask(self: Tensor, mask: Tensor, p: float) -> Tuple[Tensor, Tensor]:
    """(self with the mask of :func:`_npu_dropout` applied, the mask). Has a gradient."""
    return npu_dropout_backward(self, mask, p), mask.clone()


def npu_dropout_with_add_softmax(self: Tensor, x1: Tensor, alpha: float, prob: float, dim: int) -> Tuple[Tensor, Tensor, Tensor]:
    """``softmax(x1 + alpha * self)`` over ``dim``, and a dropout of it with probability ``prob``. Has a gradient.

    Returns (the mask as of :func:`_npu_dropout`, the softmax, the result of the dropout).
    """
    softmax = torch.softmax(x1 + alpha * self, dim)
    out, mask = torch.ops.npu._npu_dropout(softmax, prob)
    return mask, softmax, out
