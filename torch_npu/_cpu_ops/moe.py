"""Mixtures of experts.

A token goes to k experts, so there are tokens * k copies. Sorted by expert (stably), copy i, of token i // k, comes to a
place of its own.
"""

from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._gradient import gradients
from torch_npu._cpu_ops._int8 import as_int8, by_token


def npu_moe_gating_top_k_softmax(x: Tensor, finished: Optional[Tensor] = None, k: int = 1) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``k`` largest of softmax(x) for each token.

    ``x``: [tokens, experts] or [batch, tokens, experts] of float32, float16 or bfloat16; ``finished``: bool, without experts,
    tokens that go nowhere: their expert is the number of experts. Returns (weights in x's dtype, experts as int32, both
    [..., k]; numbers of the copies as int32, counted column by column).
    """
    if x.dim() not in (2, 3):
        raise ValueError(f"npu_moe_gating_top_k_softmax: the scores have 2 or 3 dimensions, but got {x.dim()}")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"npu_moe_gating_top_k_softmax: the scores are float32, float16 or bfloat16, but got {x.dtype}")
    weights, experts = torch.softmax(wide(x), -1).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.bool().unsqueeze(-1), x.shape[-1])
    rows = weights.numel() // k
    copies = torch.arange(rows * k, dtype=torch.int32, device=x.device).view(k, rows).t().reshape(weights.shape)
    return weights.to(x.dtype), experts.int(), copies.contiguous()


def npu_moe_gating_top_k_softmax_v2(x: Tensor, *, k: int = 1, finished: Optional[Tensor] = None, renorm: Optional[int] = 0,
                                    output_softmax: Optional[bool] = False) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``k`` largest of softmax(x) for each token, or with ``renorm`` 1 the softmax of the k largest of x.

    ``x``: [..., experts]; ``finished``: bool [...], tokens that go nowhere: their expert is the number of experts. Returns
    (weights in x's dtype, experts as int32, both [..., k]; softmax(x) as float32 with ``output_softmax`` and without
    ``renorm``, else empty).
    """
    softmax = torch.softmax(wide(x), -1)
    weights, experts = (wide(x) if renorm else softmax).topk(k, -1)
    weights = torch.softmax(weights, -1) if renorm else weights
    if finished is not None:
        experts = experts.masked_fill(finished.bool().unsqueeze(-1), x.shape[-1])
    asked = output_softmax and not renorm
    return weights.to(x.dtype), experts.int(), softmax.float() if asked else x.new_empty(0, dtype=torch.float32)


def npu_moe_gating_top_k(x: Tensor, k: int, *, bias: Optional[Tensor] = None, input_ids: Optional[Tensor] = None,
                         tid2eid: Optional[Tensor] = None, k_group: int = 1, group_count: int = 1, group_select_mode: int = 0,
                         renorm: int = 0, norm_type: int = 0, out_flag: bool = False, routed_scaling_factor: float = 1.0,
                         eps: float = 1e-20) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``k`` best experts for each token out of the best groups of experts.

    ``x``: [tokens, experts]. Normalized by softmax (``norm_type`` 0) or sigmoid (1), plus ``bias`` for the choice alone, the
    experts lie in ``group_count`` groups, of which the ``k_group`` best count: by their largest score
    (``group_select_mode`` 0) or the sum of their two largest (1). Weights are without bias, divided by ``sum + eps``
    for sigmoid, and times ``routed_scaling_factor``.

    ``input_ids`` [tokens] and ``tid2eid`` [vocabulary, k], integers, name the experts of each token instead: there is no choice
    then, only their weights.

    Returns (weights in x's dtype, experts as int32, both [tokens, k]; the normalized x as float32, with content only with
    ``out_flag``). Raises NotImplementedError for ``renorm``, ValueError for one of input_ids and tid2eid alone.
    """
    unsupported("npu_moe_gating_top_k", renorm=renorm or None)
    if (input_ids is None) != (tid2eid is None):
        raise ValueError("npu_moe_gating_top_k: input_ids and tid2eid must both be given, or none")
    normal = torch.softmax(wide(x), -1) if norm_type == 0 else torch.sigmoid(wide(x))
    scores = normal if bias is None else normal + wide(bias)
    if group_count > 1 and k_group < group_count:
        groups = scores.view(x.shape[0], group_count, -1)
        best = groups.amax(-1) if group_select_mode == 0 else groups.topk(2, -1).values.sum(-1)
        chosen = torch.zeros_like(best, dtype=torch.bool).scatter(1, best.topk(k_group, -1).indices, True)
        scores = groups.masked_fill(~chosen.unsqueeze(-1), float("-inf")).view(scores.shape)
    experts = scores.topk(k, -1).indices
    if input_ids is not None and tid2eid is not None:
        experts = tid2eid[input_ids.long()].long()
    weights = normal.gather(1, experts)
    if norm_type == 1:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return (weights * routed_scaling_factor).to(x.dtype), experts.int(), normal.float()


def npu_moe_gating_top_k_backward(x_norm: Tensor, grad_y: Tensor, expertIdx: Tensor, *, renorm: int = 0, norm_type: int = 0,
                                  routed_scaling_factor: float = 1.0, eps: float = 1e-20) -> Tensor:
    """Gradient of :func:`npu_moe_gating_top_k` for x, in the dtype of ``grad_y``.

    ``x_norm``: its third result; ``grad_y``: the gradient of its weights and ``expertIdx``: its experts, [tokens, k]. Raises
    NotImplementedError for ``renorm``.
    """
    unsupported("npu_moe_gating_top_k_backward", renorm=renorm or None)
    normal, grad = wide(x_norm), wide(grad_y) * routed_scaling_factor
    experts = expertIdx.long()
    if norm_type == 1:
        chosen = normal.gather(1, experts)
        total = chosen.sum(-1, keepdim=True) + eps
        grad = (grad - (grad * chosen / total).sum(-1, keepdim=True)) / total
    whole = torch.zeros_like(normal).scatter_add(1, experts, grad)
    if norm_type == 1:
        return (whole * normal * (1 - normal)).to(grad_y.dtype)
    return (normal * (whole - (whole * normal).sum(-1, keepdim=True))).to(grad_y.dtype)


def npu_moe_init_routing(x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Copies tokens into the order of their experts.

    ``x``: [tokens, size]; ``row_idx``: int32 [tokens, k], the numbers of the copies, column by column; ``expert_idx``: int32
    [tokens, k]. Returns (rows of x by expert, the first ``min(active_num, tokens) * k``; int32 [tokens * k], the place of
    each copy; the experts, sorted).
    """
    experts, order = expert_idx.reshape(-1).sort(stable=True)
    copies = row_idx.reshape(-1).long()[order]
    places = torch.empty_like(copies).index_copy(0, copies, torch.arange(copies.numel(), device=x.device))
    count = min(active_num, x.shape[0]) * expert_idx.shape[1]
    return x[copies[:count] % x.shape[0]], places.int(), experts


def _numbers_of_tokens(wanted: Any, first: Any, end: Any, expert_num: Any, kind: Any) -> Any:
    """How many copies the experts get: up to each (``kind`` 0), each (1), or pairs of an expert and its number (2)."""
    experts = torch.arange(first, end, device=wanted.device)
    counts = (wanted.unsqueeze(1) == experts).sum(0)
    if kind != 2:
        return counts.cumsum(0) if kind == 0 else counts
    used = (counts == 0).long().argsort(stable=True)
    pairs = torch.stack([experts, counts], 1)[used] * (counts[used] > 0).unsqueeze(1)
    return F.pad(pairs, (0, 0, 0, expert_num - pairs.shape[0]))


def npu_moe_init_routing_v2(x: Tensor, expert_idx: Tensor, *, scale: Optional[Tensor] = None,
                            offset: Optional[Tensor] = None, active_num: int = -1, expert_capacity: int = -1,
                            expert_num: int = -1, drop_pad_mode: int = 0, expert_tokens_num_type: int = 0,
                            expert_tokens_num_flag: bool = False,
                            quant_mode: int = -1, active_expert_range: Sequence[int] = [], row_idx_type: int = 0,
                            **given: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Copies tokens into the order of their experts, of those in ``active_expert_range`` [first, end), all by default.

    ``x``: [tokens, size]; ``expert_idx``: int32 [tokens, k]; ``active_num``: how many rows to return, tokens * k by default.
    Returns (rows by expert, zero behind the last; int32 [tokens * k]: the place of each copy with ``row_idx_type`` 0, -1 where
    it has none, or the copy at each place with 1, those for other experts last; with ``expert_tokens_num_flag`` int64 numbers
    of copies: up to each expert (``expert_tokens_num_type`` 0), for each (1), or pairs [expert_num, 2] of the experts that get
    some and the numbers (2); float32 scales of the rows). ``quant_mode`` 1: rows become int8 as by :func:`npu_dynamic_quant`,
    smoothed by ``scale``, a row or one for each expert; 0: ``x * scale + offset``, one number each; -1: ``scale`` [tokens] goes
    with the rows. ``drop_pad_mode`` 1: rows are [expert_num, expert_capacity, size], scales [expert_num * expert_capacity]; what
    an expert gets beyond its capacity is dropped, its place is -1. Raises NotImplementedError for x_dtype and other
    quantizations.
    """
    name = "npu_moe_init_routing_v2"
    unsupported(name, **given, quant_mode=None if quant_mode in (-1, 0, 1) else quant_mode,
                drop_pad_mode=None if drop_pad_mode in (0, 1) else drop_pad_mode)
    if (offset is None) == (quant_mode == 0) or (quant_mode == 0 and scale is None):
        raise ValueError(f"{name}: scale and offset go with quant_mode 0, an offset with no other")
    if expert_num <= 0:
        raise ValueError(f"{name}: expert_num is {expert_num}")
    first, end = active_expert_range or (0, expert_num)
    wanted = expert_idx.reshape(-1).long()
    here = (wanted >= first) & (wanted < end)
    order = torch.where(wanted >= first, wanted, torch.iinfo(torch.int64).max).argsort(stable=True)
    numbers = torch.arange(wanted.numel(), device=x.device)
    used = numbers < here.sum()
    if row_idx_type == 1:
        places = order
    else:
        places = torch.empty_like(order).index_copy(0, order, torch.where(used, numbers, -1))
    count = min(active_num, wanted.numel()) if active_num > 0 else wanted.numel()
    if drop_pad_mode == 1:
        if (first, end) != (0, expert_num) or row_idx_type != 0 or expert_capacity <= 0:
            raise ValueError(f"{name}: drop_pad_mode 1 is for all experts, row_idx_type 0 and an expert_capacity")
        count = expert_num * expert_capacity
        experts = wanted[order].clamp(0, expert_num - 1)
        within = (F.one_hot(experts, expert_num) * used.unsqueeze(1)).cumsum(0).gather(1, experts[:, None])[:, 0] - 1
        kept = used & (within < expert_capacity)
        slots = torch.where(kept, experts * expert_capacity + within, count)   # the last is for what is dropped
        places = torch.empty_like(order).index_copy(0, order, torch.where(kept, slots, -1))
        filled = torch.zeros(count + 1, dtype=torch.bool, device=x.device).index_fill(0, slots, True)
        order, used = torch.zeros(count + 1, dtype=order.dtype, device=x.device).index_copy(0, slots, order), filled
    order, used = order[:count], used[:count].unsqueeze(1)
    tokens = order // expert_idx.shape[-1]
    rows, scales = x[tokens], torch.zeros(count, dtype=torch.float32, device=x.device)
    if quant_mode == 1:
        rows = wide(rows)
        if scale is not None:
            rows = rows * (wide(scale) if scale.shape[0] == 1 else wide(scale)[(wanted[order] - first).clamp(0, end - first - 1)])
        rows, top = by_token(rows)
        scales = top * used.squeeze(1)
    elif quant_mode == 0:
        rows = as_int8(wide(rows) * wide(scale) + wide(offset))
    elif scale is not None:
        scales = (wide(scale).reshape(-1)[tokens] * used.squeeze(1)).float()
    counts = _numbers_of_tokens(wanted, first, end, expert_num, expert_tokens_num_type)
    rows = torch.where(used, rows, 0).to(rows.dtype)
    return (rows.view(expert_num, expert_capacity, -1) if drop_pad_mode == 1 else rows, places.int(),
            counts if expert_tokens_num_flag else torch.zeros_like(counts), scales)


def npu_moe_re_routing(tokens: Tensor, expert_token_num_per_rank: Tensor, *, per_token_scales: Optional[Tensor] = None,
                       expert_token_num_type: int = 1, idx_type: int = 0,
                       tokens_dtype: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Brings tokens that came from several ranks, sorted by expert in each rank's part, into the order of the experts.

    ``tokens``: [tokens, size]; ``expert_token_num_per_rank``: [ranks, experts]. Returns (tokens by expert, zero behind the
    last; ``per_token_scales`` [tokens] likewise, without content when not given; int32 [tokens], which token each is; how
    many each expert gets). Raises NotImplementedError for other ``expert_token_num_type``, ``idx_type`` and tokens_dtype.
    """
    unsupported("npu_moe_re_routing", expert_token_num_type=None if expert_token_num_type == 1 else expert_token_num_type,
                idx_type=idx_type or None, tokens_dtype=tokens_dtype)
    ranks, experts = expert_token_num_per_rank.shape
    ends = expert_token_num_per_rank.reshape(-1).long().cumsum(0)
    numbers = torch.arange(tokens.shape[0], device=tokens.device)
    part = torch.searchsorted(ends, numbers, right=True)
    order = torch.where(part < ranks * experts, part % experts, experts).argsort(stable=True)
    used = numbers < ends[-1]
    scales = torch.zeros(tokens.shape[0], dtype=torch.float32, device=tokens.device)
    if per_token_scales is not None:
        scales = torch.where(used, per_token_scales[order], 0.0).float()
    return (torch.where(used.unsqueeze(1), tokens[order], 0).to(tokens.dtype), scales, torch.where(used, order, 0).int(),
            expert_token_num_per_rank.sum(0).to(expert_token_num_per_rank.dtype))


def npu_moe_compute_expert_tokens(sorted_expert_for_source_row: Tensor, num_expert: int) -> Tensor:
    """How many copies go to experts 0 to e, for each e, out of the sorted experts of the copies.

    ``sorted_expert_for_source_row``: int32 [copies]; the result: int32 [num_expert].
    """
    bounds = torch.arange(num_expert, device=sorted_expert_for_source_row.device, dtype=sorted_expert_for_source_row.dtype)
    found = torch.searchsorted(sorted_expert_for_source_row.contiguous(), bounds, right=True)
    return found.to(sorted_expert_for_source_row.dtype)


def npu_moe_finalize_routing(expanded_permuted_rows: Tensor, skip1: Optional[Tensor], skip2: Optional[Tensor],
                             bias: Optional[Tensor], scales: Optional[Tensor], expanded_src_to_dst_row: Tensor,
                             export_for_source_row: Optional[Tensor], drop_pad_mode: Optional[int] = 0,
                             k: Optional[int] = 1) -> Tensor:
    """Adds up what the experts made of each token: ``skip1 + skip2 + sum(scales * (row + bias of its expert))``.

    ``expanded_permuted_rows``: [tokens * k, size]; skips: [tokens, size]; ``bias``: [experts, size]; ``scales``: [tokens, k];
    ``expanded_src_to_dst_row``: the place of each copy, column by column; ``export_for_source_row``: experts [tokens, k].
    All are floating point but ``expanded_src_to_dst_row``, int32.
    """
    unsupported("npu_moe_finalize_routing", drop_pad_mode=drop_pad_mode or None)
    tokens = expanded_src_to_dst_row.numel() if scales is None else scales.shape[0]
    rows = wide(expanded_permuted_rows)[expanded_src_to_dst_row.long()].view(-1, tokens, expanded_permuted_rows.shape[-1])
    if bias is not None:
        if export_for_source_row is None:
            raise ValueError("npu_moe_finalize_routing: bias needs export_for_source_row, the experts of the copies")
        rows = rows + wide(bias)[export_for_source_row.t().reshape(-1).long()].view(rows.shape)
    if scales is not None:
        rows = rows * wide(scales).t().unsqueeze(-1)
    total = sum((wide(skip) for skip in (skip1, skip2) if skip is not None), rows.sum(0))
    return total.to(expanded_permuted_rows.dtype)


def _k(indices: Tensor) -> int:
    return indices.shape[1] if indices.dim() == 2 else 1


def _at(rows: Tensor, places: Tensor) -> Tensor:
    """Rows at places, zeros for places behind the last."""
    there = places < rows.shape[0]
    return rows[places.clamp(max=max(rows.shape[0] - 1, 0))] * there.unsqueeze(-1).to(rows.dtype)


def npu_moe_token_permute(tokens: Tensor, indices: Tensor, num_out_tokens: Optional[int] = None,
                          padded_mode: bool = False) -> Tuple[Tensor, Tensor]:
    """Copies tokens into the order of their experts.

    ``tokens``: [tokens, size]; ``indices``: their experts, [tokens] or [tokens, k]. ``num_out_tokens``: how many rows to
    return, 0 all, a negative number all but so many. Returns (rows by expert, int32 place of each copy). Has a gradient
    for tokens. Raises NotImplementedError for ``padded_mode``.
    """
    unsupported("npu_moe_token_permute", padded_mode=padded_mode or None)
    order = indices.reshape(-1).argsort(stable=True)
    places = order.argsort(stable=True)
    count = num_out_tokens or 0
    count = min(count, order.numel()) if count > 0 else max(order.numel() + count, 0)
    return tokens[order[:count] // _k(indices)], places.int()


def npu_moe_token_permute_grad(tokens: Tensor, grad_permuted_tokens: Tensor, indices: Tensor, sorted_indices: Tensor,
                               padded_mode: bool = False) -> Tensor:
    """Gradient of :func:`npu_moe_token_permute` for tokens."""
    rows = _at(wide(grad_permuted_tokens), sorted_indices.long())
    return rows.view(-1, _k(indices), rows.shape[-1]).sum(1).to(tokens.dtype)


def npu_moe_token_unpermute(permuted_tokens: Tensor, sorted_indices: Tensor, probs: Optional[Tensor] = None,
                            padded_mode: bool = False, restore_shape: Optional[Sequence[int]] = None) -> Tensor:
    """Adds up the copies of each token, times ``probs``: the way back from :func:`npu_moe_token_permute`.

    ``sorted_indices``: its second result; ``probs``: [tokens, k], needed where a token has several copies. Has gradients
    for permuted_tokens and probs. Raises NotImplementedError for ``padded_mode``.
    """
    unsupported("npu_moe_token_unpermute", padded_mode=padded_mode or None)
    rows = _at(wide(permuted_tokens), sorted_indices.long())
    rows = rows.view(-1, 1 if probs is None else _k(probs), rows.shape[-1])
    rows = rows if probs is None else rows * wide(probs).reshape(rows.shape[0], -1, 1)
    return rows.sum(1).to(permuted_tokens.dtype)


def npu_moe_token_unpermute_grad(permuted_tokens: Tensor, grad_unpermuted_tokens: Tensor, sorted_indices: Tensor,
                                 probs: Optional[Tensor] = None, padded_mode: bool = False,
                                 restore_shape: Optional[Sequence[int]] = None) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_moe_token_unpermute` for permuted_tokens and probs (empty without probs)."""
    def forward(rows: Tensor, weights: Optional[Tensor]) -> Tensor:
        return npu_moe_token_unpermute(wide(rows), sorted_indices, None if weights is None else wide(weights))

    found = gradients(forward, (permuted_tokens, probs), wide(grad_unpermuted_tokens))
    return tuple(permuted_tokens.new_empty(0) if grad is None else grad for grad in found)
