"""Quantised products of groups of rows, and what routes tokens to experts beside them."""

from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._blocks import format_of, quantize_blocks, unscaled
from torch_npu._cpu_ops._common import ends_of, groups_of, numbers_on, out_of_place, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, by_token, exact, numbers_of_scale, unpacked

# c10's numbers and CANN's.
_FLOAT8 = {23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 291: torch.float8_e5m2, 292: torch.float8_e4m3fn}
_PRODUCTS = {  # dtype of x: those of weights
    torch.int8: (torch.int8, torch.int32),
    torch.int32: (torch.int32,),
    **dict.fromkeys((torch.float8_e5m2, torch.float8_e4m3fn), (torch.float8_e5m2, torch.float8_e4m3fn)),
}


def _columns(weight: Tensor) -> int:
    """Of the product with a weight [k, n], whose int32 are eight int4 each, along the dimension that is dense in memory."""
    packed = weight.dtype == torch.int32 and not (weight.stride(-1) != 1 and weight.stride(-2) == 1)
    return weight.shape[-1] * (8 if packed else 1)


def _by_token_to_float8(value: Tensor, dtype: torch.dtype) -> Tuple[Tensor, Tensor]:
    """(x / s as float8, s = max |x| / the greatest float8 of each row, without the last dimension)."""
    limit = torch.finfo(dtype).max
    scale = value.abs().amax(-1, keepdim=True) / limit
    return torch.where(scale > 0, value / scale, 0.0).clamp(-limit, limit).to(dtype), scale.squeeze(-1).float()


def _eight_by_four(x: Tensor, weight: Tensor, scale: Tensor, correction: Optional[Tensor]) -> Tensor:
    """Rows of int8 by weights of int4 with scales for parts of their rows, [parts, n]. The matrix unit subtracts 8 from the rows,
    which ``correction``, 8 times the sum of the scaled weights, makes up for."""
    scales = numbers_of_scale(scale).reshape(-1, _columns(weight))
    parts = len(scales)
    rows = unpacked(x).double() - (0 if correction is None else 8)
    products = [a @ b * s for a, b, s in zip(rows.chunk(parts, 1), unpacked(weight).double().chunk(parts, 0), scales)]
    total = torch.stack(products).sum(0)
    return (total if correction is None else total + correction).float()


def _grouped(
    x: Tensor,
    weights: List[Tensor],
    scales: List[Tensor],
    x_scale: Tensor,
    ends: List[int],
    corrections: Optional[List[Tensor]] = None,
) -> Tensor:
    """Products of groups of quantized rows, times the scales of the rows and of the columns; float32, 0 behind the last group."""
    out = torch.zeros(x.shape[0], _columns(weights[0]), device=x.device)
    start = 0
    for i, (weight, scale, end) in enumerate(zip(weights, scales, ends)):
        if weight.dtype == torch.int32:
            product = _eight_by_four(x[start:end], weight, scale, corrections[i] if corrections else None)
        else:
            product = exact(x[start:end], weight).float() * wide(scale).reshape(1, -1)
        out[start:end] = product * x_scale[start:end].reshape(-1, 1)
        start = end
    return out


def _corrections(name: str, given: Optional[List[Tensor]], weight: Tensor) -> Optional[List[Tensor]]:
    """One for each group, of one tensor [groups, n] or a list."""
    if not given:
        return None
    if weight.dtype != torch.int32:
        raise NotImplementedError(f"{name}: a correction is for weights of 4 bits, not for {weight.dtype}")
    return list(given[0]) if len(given) == 1 and given[0].dim() > 1 else list(given)


def _swiglu_by_token(y: Tensor, last: int) -> Tuple[Tensor, Tensor]:
    a, b = y.chunk(2, -1)
    q, scale = by_token(F.silu(a) * b)
    q[last:], scale[last:] = 0, 0
    return q, scale


def npu_grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    *,
    bias: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Products of groups of int8 rows with a weight each, swiglu of their halves, and quantization by rows.

    ``x``: [m, k]; ``weight``: int8 [groups, k, n], or int4 packed in int32; ``group_list``: where the groups end;
    ``weight_scale`` [groups, n], ``x_scale`` [m]. Of int4, ``weight_scale`` may have parts of k, [groups, parts, n], and ``bias``
    [groups, n] is 8 times the sum over k of weights and scales: with it, 8 is subtracted from ``x``. Returns (int8 [m, n / 2],
    float32 scales [m], a zero-dim 0). Raises NotImplementedError for offset.
    """
    name = "npu_grouped_matmul_swiglu_quant"
    unsupported(name, offset=offset)
    none = x.new_zeros((), dtype=torch.float32)
    if x.device.type == "meta":
        return (
            x.new_empty(x.shape[0], _columns(weight) // 2, dtype=torch.int8),
            x.new_empty(x.shape[0], dtype=torch.float32),
            none,
        )
    ends = ends_of(group_list, 0)
    corrections = _corrections(name, None if bias is None else [bias], weight)
    y = _grouped(x, list(weight), list(weight_scale), wide(x_scale), ends, corrections)
    return (*_swiglu_by_token(y, ends[-1]), none)


def _swiglu_in_blocks(name: str, x: Tensor, weight: List[Tensor], weight_scale: List[Tensor], x_scale: Tensor, group_list: Tensor,
                      quant_dtype: Optional[int], group_list_type: Optional[int]) -> Tuple[Tensor, Tensor]:
    """:func:`npu_grouped_matmul_swiglu_quant_v2` of MX blocks."""
    if x.dtype not in _FLOAT8.values() or weight[0].dtype not in _FLOAT8.values() or quant_dtype not in _FLOAT8:
        raise NotImplementedError(f"{name}: MX scales of {x.dtype} by {weight[0].dtype} with a result of dtype {quant_dtype} "
                                  "are not supported, only of float8")
    half = weight[0].shape[-1] // 2
    if x.device.type == "meta":
        return (x.new_empty(x.shape[0], half, dtype=_FLOAT8[quant_dtype]),
                x.new_empty(x.shape[0], -(-half // 64), 2, dtype=torch.uint8))
    weights = list(weight[0]) if weight[0].dim() == 3 else weight
    scales = list(weight_scale[0]) if weight_scale[0].dim() == 4 else weight_scale
    y = torch.zeros(x.shape[0], 2 * half, device=x.device)
    start = 0
    for own, scale, end in zip(weights, scales, ends_of(group_list, group_list_type)):
        rows = unscaled(x[start:end], x_scale[start:end], -1, format_of(name, x.dtype))
        y[start:end] = rows @ unscaled(own, scale, -2, format_of(name, own.dtype))
        start = end
    a, b = y.chunk(2, -1)
    return quantize_blocks(name, F.silu(a) * b, -1, format_of(name, quant_dtype), "rint", 0)


def npu_grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: List[Tensor],
    weight_scale: List[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    *,
    smooth_scale: Optional[Tensor] = None,
    weight_assist_matrix: Optional[List[Tensor]] = None,
    dequant_mode: Optional[int] = 0,
    quant_mode: Optional[int] = 0,
    quant_dtype: Optional[int] = 1,
    group_list_type: Optional[int] = 0,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_grouped_matmul_swiglu_quant` with lists: one weight [groups, k, n], or one [k, n] for each group; likewise
    scales.

    ``group_list_type`` 0: where the groups end, 1: how long they are. ``smooth_scale`` [groups] or [groups, n / 2] multiplies
    before the quantization. ``x`` and ``weight`` are int8, int4 packed in int32 (of x, of the weights, or both), or float8; the
    result is int8, or with ``quant_dtype`` float8. ``weight_assist_matrix``: its ``bias``. Returns (it, float32 scales).
    With ``dequant_mode`` and ``quant_mode`` 2 float8 has MX scales: of the weights [groups, k / 64, n, 2], of x [m, k / 64, 2],
    and of the result, which then is float8, too. Raises NotImplementedError for float4 and hifloat8.
    """
    name = "npu_grouped_matmul_swiglu_quant_v2"
    unsupported(name, "dequant_dtype", "tuning_config", "weight_scale_dtype", "x_scale_dtype", **given)
    if dequant_mode == 2 and quant_mode == 2:
        unsupported(name, smooth_scale=smooth_scale, weight_assist_matrix=weight_assist_matrix)
        return _swiglu_in_blocks(name, x, weight, weight_scale, x_scale, group_list, quant_dtype, group_list_type)
    if quant_mode or dequant_mode == 2:
        raise NotImplementedError(f"{name}: quant_mode {quant_mode} with dequant_mode {dequant_mode} is not supported")
    if x.dtype not in _PRODUCTS or weight[0].dtype not in _PRODUCTS[x.dtype]:
        raise NotImplementedError(f"{name}: x of {x.dtype} with weights of {weight[0].dtype} is not supported, only int8, "
                                  "int32 (int4) and float8")
    made = _FLOAT8.get(quant_dtype or 0, torch.int8)
    if made == torch.int8 and quant_dtype not in (None, 0, 1):
        raise NotImplementedError(f"{name}: results of dtype number {quant_dtype} are not supported, only int8 and float8")
    weights = list(weight[0]) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    scales = list(weight_scale[0]) if len(weight_scale) == 1 and weight_scale[0].dim() >= 2 else list(weight_scale)
    if x.device.type == "meta":
        return x.new_empty(x.shape[0], _columns(weights[0]) // 2, dtype=made), x.new_empty(x.shape[0], dtype=torch.float32)
    ends = ends_of(group_list, group_list_type)
    y = _grouped(x, weights, scales, wide(x_scale), ends, _corrections(name, weight_assist_matrix, weights[0]))
    a, b = y.chunk(2, -1)
    value = F.silu(a) * b
    if smooth_scale is not None:
        group = groups_of(x.shape[0], numbers_on(x.device, ends)).clamp(max=len(ends) - 1)
        smooth = wide(smooth_scale)[group]
        value = value * (smooth.unsqueeze(-1) if smooth.dim() == 1 else smooth)
    value[ends[-1] :] = 0
    return by_token(value) if made == torch.int8 else _by_token_to_float8(value, made)


def npu_grouped_matmul_finalize_routing(
    x: Tensor,
    w: Tensor,
    group_list: Tensor,
    *,
    scale: Optional[Tensor] = None,
    pertoken_scale: Optional[Tensor] = None,
    shared_input: Optional[Tensor] = None,
    logit: Optional[Tensor] = None,
    row_index: Optional[Tensor] = None,
    dtype: Optional[torch.dtype] = None,
    shared_input_weight: float = 1.0,
    shared_input_offset: Optional[int] = 0,
    output_bs: Optional[int] = 0,
    group_list_type: Optional[int] = 1,
    **given: Any,
) -> Tensor:
    """Products of groups of int8 rows with an expert each, added up in the rows of their tokens.

    ``x`` [m, k], ``w`` [groups, k, n] int8; ``group_list``: how long the groups are (``group_list_type`` 1) or where they end
    (0); ``scale`` [groups, n], ``pertoken_scale`` [m]. Each row is multiplied by ``logit`` [m] and added to row ``row_index``
    [m] of the result, float32 [output_bs, n]; ``shared_input * shared_input_weight`` is added from row
    ``shared_input_offset`` on. Raises NotImplementedError for bias and offset (int4).
    """
    name = "npu_grouped_matmul_finalize_routing"
    other = None if dtype in (None, torch.float32) else dtype
    unsupported(name, "tuning_config", "scale_dtype", "pertoken_scale_dtype", **given, dtype=other)
    count = output_bs or x.shape[0]
    out = torch.zeros(count, w.shape[-1], device=x.device)
    if shared_input is not None:
        first = shared_input_offset or 0
        out[first : first + shared_input.shape[0]] += wide(shared_input) * shared_input_weight
    if x.device.type == "meta":
        return out
    ends = ends_of(group_list, group_list_type)
    ones = torch.ones(1, device=x.device)
    scales = [ones.expand(w.shape[-1])] * len(ends) if scale is None else list(scale)
    rows = _grouped(x, list(w), scales, ones.expand(x.shape[0]) if pertoken_scale is None else wide(pertoken_scale), ends)
    rows = rows if logit is None else rows * wide(logit).unsqueeze(-1)
    index = torch.arange(x.shape[0], device=x.device) if row_index is None else row_index.long()
    return out.index_add_(0, index[: ends[-1]], rows[: ends[-1]])


def npu_grouped_matmul_List(
    x: List[Tensor], weight: List[Tensor], *, group_list: Optional[List[int]] = None, **options: Any
) -> List[Tensor]:
    """:func:`npu_grouped_matmul` with the ends of the groups as a list."""
    groups = numbers_on(x[0].device, list(group_list)) if group_list else None
    return torch.ops.npu.npu_grouped_matmul(x, weight, group_list=groups, **options)


def npu_moe_init_routing_quant(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    active_num: int = 1024,
    expert_capacity: int = 0,
    expert_num: int = 256,
    drop_pad_mode: int = 0,
    expert_tokens_num_mode: int = 0,
    expert_tokens_before_capacity_flag: bool = False,
    quant_mode: int = 1,
) -> Tuple[Tensor, Tensor, Optional[Tensor], None, Optional[Tensor]]:
    """Copies of the tokens sorted by expert, as int8.

    ``x`` [tokens, size], ``expert_idx`` int32 [tokens, k]. ``quant_mode`` 0: ``round(x * scale + offset)``, one number each;
    1: a scale for each row of ``x * scale[expert]`` (``scale`` [1 or experts, size]). ``expert_tokens_num_mode`` 1: where the
    experts' copies end, 2: how many each has, both int32 [experts]. Returns (int8 [min(active_num, tokens * k), size], place
    of each copy int32 [tokens * k], the counts or None, None, float32 scales or None). Raises
    NotImplementedError for dropping.
    """
    name = "npu_moe_init_routing_quant"
    if drop_pad_mode != 0 or expert_tokens_before_capacity_flag:
        raise NotImplementedError(f"{name}: drop_pad_mode 1 is not supported; npu_moe_init_routing_v2 keeps all copies")
    k = expert_idx.shape[-1]
    experts = expert_idx.reshape(-1).long()
    order = torch.argsort(experts, stable=True)
    places = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device)).int()
    rows = min(active_num, order.numel()) if active_num > 0 else order.numel()
    chosen = order[:rows]
    value = wide(x)[chosen // k]
    if quant_mode == 0:
        value = value * wide(scale)
        q, scales = as_int8(value if offset is None else value + wide(offset)), None
    else:
        if scale is not None:
            value = value * wide(scale)[experts[chosen] if scale.shape[0] > 1 else torch.zeros_like(chosen)]
        q, scales = by_token(value)
    counts = None
    if expert_tokens_num_mode:
        counts = (experts.unsqueeze(0) == torch.arange(expert_num, device=x.device).unsqueeze(1)).sum(1)
        counts = (counts.cumsum(0) if expert_tokens_num_mode == 1 else counts).int()
    return q, places, counts, None, scales


def npu_moe_update_expert(
    expert_ids: Tensor,
    eplb_table: Tensor,
    *,
    expert_scales: Optional[Tensor] = None,
    pruning_threshold: Optional[Tensor] = None,
    active_mask: Optional[Tensor] = None,
    local_rank_id: int = -1,
    world_size: int = -1,
    balance_mode: int = 0,
) -> Tuple[Tensor, Tensor]:
    """Logical experts [tokens, k] as physical ones, and which of them stay.

    ``eplb_table`` [experts, 1 + copies]: how many copies an expert has, then which. ``balance_mode`` 0: the copy that belongs
    to ``local_rank_id`` of ``world_size``; 1: the tokens take turns. Stays what is in ``active_mask`` [tokens] and, with
    ``expert_scales`` [tokens, k] and ``pruning_threshold`` [k], is above the token's sum of scales times the threshold.
    Returns (experts, bool mask [tokens, k]).
    """
    ids = expert_ids.long()
    count = eplb_table[:, 0].long()[ids]
    if balance_mode == 0:
        each = -(-world_size // count)
        turn = torch.div(torch.full_like(ids, local_rank_id), each, rounding_mode="floor")
    else:
        turn = torch.arange(ids.shape[0], device=ids.device).unsqueeze(1) % count
    turn = torch.where(count == 1, 0, turn)
    found = eplb_table.long()[ids, 1 + turn].to(expert_ids.dtype)
    mask = torch.ones_like(ids, dtype=torch.bool)
    if expert_scales is not None:
        mask = wide(expert_scales).sum(-1, keepdim=True) * wide(pruning_threshold).reshape(1, -1) < wide(expert_scales)
    return found, mask if active_mask is None else mask & active_mask.reshape(-1, 1).bool()


def npu_add_quant_gmm_(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    group_list: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    group_list_type: Optional[int] = 0,
    **_: Any,
) -> Tensor:
    """Adds, for each group of columns of x1 [m, k] and of rows of x2 [k, n], their product times ``x2_scale`` [groups] and
    ``x1_scale`` [groups] to input [groups, m, n]. ``group_list``: where the groups end along k (0), or how long they are (1).
    Raises NotImplementedError for MX scales.

    x1 and x2 are float8 or int8, input and scales float32.
    """
    if x2_scale.dim() >= 3:
        raise NotImplementedError("npu_add_quant_gmm: MX scales are not supported; npu_add_quant_matmul takes them for one group")
    if self.device.type == "meta":
        return self
    start = 0
    for i, end in enumerate(ends_of(group_list, group_list_type)):
        y = torch.matmul(wide(x1[:, start:end]), wide(x2[start:end])) * wide(x2_scale).reshape(len(self), -1)[i]
        self[i] += y if x1_scale is None else y * wide(x1_scale).reshape(len(self), -1)[i]
        start = end
    return self


npu_add_quant_gmm = out_of_place(npu_add_quant_gmm_)
