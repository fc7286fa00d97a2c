"""Attention. The scores are materialised: memory grows with the product of the sequence lengths."""

import functools
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import numbers_on, unsupported, wide
from torch_npu._cpu_ops._gradient import gradients
from torch_npu._cpu_ops.dropout import _bits, _npu_dropout_gen_mask_Tensor
from torch_npu._cpu_ops.inference_attention import npu_fused_infer_attention_score

_UNLIMITED = 2147483647
_LAST = 8  # the statistics of the softmax are repeated along a last dimension of this size
_LAYOUTS = {"BSH", "SBH", "BSND", "BNSD"}


def _split_heads(tensor: Any, layout: Any, heads: Any) -> Tensor:
    """To [batch, heads, length, width]."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "SBH":
        tensor = tensor.transpose(0, 1)
    batch, length, hidden = tensor.shape
    return tensor.reshape(batch, length, heads, hidden // heads).transpose(1, 2)


def _merge_heads(tensor: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return tensor
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor.contiguous()
    tensor = tensor.flatten(2)
    return tensor.transpose(0, 1).contiguous() if layout == "SBH" else tensor


def _hidden(rows: int, columns: int, atten_mask: Any, sparse_mode: Any, pre_tockens: Any, next_tockens: Any, device: Any,
            prefix: Any = None) -> Any:
    """Bool mask of scores that do not count, or None, as without a mask in every sparse_mode: 0 the mask and the band, 1 the mask
    alone, 2 causal from the upper left corner, 3 causal from the lower right one, 4 the band from the lower right, 5 and 6 as 3
    behind the first ``prefix[i]`` columns of sequence i, which all rows see."""
    if atten_mask is None:
        return None
    atten_mask = atten_mask.bool()[..., :rows, :columns]
    atten_mask = atten_mask.unsqueeze(1) if atten_mask.dim() == 3 else atten_mask
    if sparse_mode == 1 or (sparse_mode == 0 and pre_tockens >= rows and next_tockens >= columns):
        return atten_mask
    row = torch.arange(rows, device=device).unsqueeze(1)
    distance = torch.arange(columns, device=device) - row  # how far a column lies ahead of its row
    if sparse_mode >= 3:
        distance = distance - (columns - rows)
    if sparse_mode in (2, 3):
        return distance > 0
    if sparse_mode >= 5:
        ends = numbers_on(device, prefix).view(-1, 1, 1, 1)
        return (distance > 0) & (torch.arange(columns, device=device) >= ends)
    band = (distance > next_tockens) | (distance < -pre_tockens)
    return band if sparse_mode == 4 else band | atten_mask


class _Options:
    """What attention takes besides its tensors."""

    def __init__(self, name: str, heads: int, layout: str, sparse_mode: Any, pre: Any, following: Any, scale: float,
                 prefix: Any = None) -> None:
        if layout not in _LAYOUTS or not 0 <= sparse_mode <= (6 if prefix else 4):
            raise NotImplementedError(f"{name}: layout {layout!r} with sparse_mode={sparse_mode} is not supported; layouts are "
                                      f"{', '.join(sorted(_LAYOUTS))}, modes 0 to 4, and 5 and 6 with a prefix")
        self.prefix = prefix
        self.heads, self.layout, self.sparse_mode = heads, layout, sparse_mode
        self.pre, self.following, self.scale = pre, following, scale


def _attention(query: Any, key: Any, value: Any, bias: Any, mask: Any, options: Any, keep: Any = None,
               sink: Any = None) -> Tuple[Any, Any, Tensor]:
    """(attention in the layout and float32, maximum and sum of the softmax [B, N, S, 1]). ``bias`` is added to scaled scores, or
    what it answers to the numbers of rows and columns.
    ``keep`` is a function of the weights. ``sink``: a score of its own for each head, without a value."""
    layout, heads = options.layout, options.heads
    q = _split_heads(wide(query), layout, heads)
    kv_heads = key.shape[-1] // q.shape[-1] if layout in ("BSH", "SBH") else None
    k, v = (_split_heads(wide(t), layout, kv_heads) for t in (key, value))
    if k.shape[1] != heads:
        k, v = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)) * options.scale
    if bias is not None:
        scores = scores + wide(bias(*scores.shape[-2:]) if callable(bias) else bias)
    hidden = _hidden(q.shape[2], k.shape[2], mask, options.sparse_mode, options.pre, options.following, q.device, options.prefix)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    top = scores.detach().amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == float("-inf"), 0)   # a row that sees no key: its result is zero
    weights = torch.exp(scores - top)
    total = weights.sum(dim=-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(wide(sink).view(1, -1, 1, 1) - top)
    total = total.masked_fill(total == 0, 1)
    weights = weights / total
    if keep is not None:
        weights = keep(weights)
    return _merge_heads(torch.matmul(weights, v), layout), top, total


def _sequences(query_ends: Any, key_ends: Any) -> List[Tuple[Any, Any, Any, Any]]:
    """(first and last row of the query, of the key) of each sequence, out of the running sums of the lengths. Those at the end
    whose sums are 0 do not take part."""
    ends = [(q, k) for place, (q, k) in enumerate(zip(query_ends, key_ends)) if place == 0 or q or k]
    return [(q, q_end, k, k_end) for (q, k), (q_end, k_end) in zip([(0, 0), *ends], ends)]


def packed_statistics(parts: Sequence[Tensor], as_queries: bool = False) -> Tensor:
    """Statistics of the softmax [heads, rows, ...] of each sequence as one tensor [tokens, heads, ...]. Unless they lie as the
    queries do, they lie in it sequence after sequence, each as [heads, rows, ...]."""
    return torch.cat([t.transpose(0, 1) if as_queries else t.reshape(t.shape[1], t.shape[0], *t.shape[2:]) for t in parts])


def _as_queries(statistics: Tensor, ends: Sequence[int]) -> Tensor:
    """What :func:`packed_statistics` made, lying as the queries do. The sums of the lengths may start with 0."""
    bounds = [0, *(end for end in ends if end)]
    parts = [statistics[start:end].reshape(statistics.shape[1], -1, *statistics.shape[2:]).transpose(0, 1)
             for start, end in zip(bounds, bounds[1:])]
    return torch.cat([*parts, statistics[bounds[-1]:]])


def _kept_scores(counts: Sequence[int], keep_prob: float, seed: int, offset: int, mask: Optional[Tensor],
                 device: torch.device) -> Sequence[Optional[Tensor]]:
    """Which scores of each sequence a dropout keeps, None where it keeps all: by the bits of the mask, or of the one that
    _npu_dropout_gen_mask makes of the seed and the offset."""
    if keep_prob == 1:
        return [None] * len(counts)
    total = sum(counts)
    if device.type == "meta":
        return torch.empty(total, dtype=torch.bool, device=device).split(counts)
    if mask is None:
        mask = _npu_dropout_gen_mask_Tensor(torch.empty(0, device=device), [total], 1 - keep_prob, seed, offset)
    return _bits(mask, total).split(counts)


def _drop(kept: Tensor, keep_prob: float, weights: Tensor) -> Tensor:
    return weights * kept.view(weights.shape) / keep_prob


class _BiasKind(NamedTuple):
    """What pse is: added before (1) or after (0) the scores are scaled, or slopes of linear biases (2) or of roots (3), and where
    the rows of queries and keys begin then."""

    pse_type: int = 1
    query_start: int = 0
    key_start: int = 0

    def is_linear(self) -> bool:
        return self.pse_type in (2, 3)


_PLAIN = _BiasKind()


def _linear_bias(slopes: Tensor, kind: _BiasKind, rows: int, columns: int) -> Tensor:
    """[N, rows, columns], or [B, N, ...] of slopes [B, N]: -slope times the distance of query and key, or its root."""
    queries = torch.arange(rows, device=slopes.device) + kind.query_start
    distance = (torch.arange(columns, device=slopes.device) + kind.key_start - queries.unsqueeze(1)).abs().float()
    return -slopes.detach().float()[..., None, None] * (distance.sqrt() if kind.pse_type == 3 else distance)


_COMPRESSED_BIAS_ROWS = 1024


def _whole_bias(bias: Tensor, rows: int, columns: int) -> Tensor:
    """Of a bias that depends on the distance of query and key alone, and has only its last rows, all; 0 for later keys."""
    if bias.shape[-2] != _COMPRESSED_BIAS_ROWS or tuple(bias.shape[-2:]) == (rows, columns):
        return bias
    if rows != columns or rows > bias.shape[-1]:
        raise ValueError(f"npu_fusion_attention: pse {list(bias.shape)}, the last rows of a bias, for {rows} queries and "
                         f"{columns} keys")
    whole = bias.detach().new_zeros(*bias.shape[:2], rows, rows)
    for end in range(rows, 0, -_COMPRESSED_BIAS_ROWS):
        start = max(end - _COMPRESSED_BIAS_ROWS, 0)
        whole[..., start:end, :end] = bias.detach()[..., start - end:, bias.shape[-1] - end:]
    return whole


def _fusion(query: Any, key: Any, value: Any, pse: Any, settings: Any, keep_prob: Any, seed: Any, offset: Any,
            kind: _BiasKind = _PLAIN, sink: Any = None, dropout_mask: Any = None, softmax_layout: str = "") -> Any:
    """(result, maximum, sum), differentiable in query, key, value, pse and sink."""
    heads, layout, mask, scale, before, after, query_ends, key_ends, sparse_mode, prefix = settings
    bias: Any = None
    if kind.is_linear():
        bias = functools.partial(_linear_bias, pse, kind)
    elif pse is not None:
        added = wide(pse) * (scale if kind.pse_type == 1 else 1)
        bias = functools.partial(_whole_bias, added)

    counts = _score_counts(query, key, settings)
    keeps = [None if kept is None else functools.partial(_drop, kept, keep_prob)
             for kept in _kept_scores(counts, keep_prob, seed, offset, dropout_mask, query.device)]
    if layout != "TND":
        options = _Options("npu_fusion_attention", heads, layout, sparse_mode, before, after, scale, prefix)
        return _attention(query, key, value, bias, mask, options, keeps[0], sink)
    unsupported("npu_fusion_attention with layout TND", prefix=prefix)
    if pse is not None and not kind.is_linear() and (pse.dim() != 4 or pse.shape[2] != _COMPRESSED_BIAS_ROWS):
        raise ValueError(f"npu_fusion_attention: with layout TND pse is its last {_COMPRESSED_BIAS_ROWS} rows, not "
                         f"{list(pse.shape)}")
    options = _Options("npu_fusion_attention", heads, "BSND", sparse_mode, before, after, scale)

    def part(number: int, q: int, q_end: int, k: int, k_end: int, keep: Any) -> Tuple[Any, Any, Tensor]:
        if k == k_end:   # rows that see nothing
            nothing = wide(query[None, q:q_end, :, :1]).transpose(1, 2).detach() * 0
            return wide(query[None, q:q_end, :, : value.shape[-1]]) * 0, nothing, nothing
        own = bias
        if bias is not None and pse.dim() == 2:
            own = functools.partial(_linear_bias, pse[number], kind)
        elif bias is not None and not kind.is_linear() and pse.shape[0] > 1:
            own = functools.partial(_whole_bias, added[number:number + 1])
        return _attention(query[None, q:q_end], key[None, k:k_end], value[None, k:k_end], own, mask, options, keep, sink)

    rows = _sequences(query_ends, key_ends)
    parts = [part(number, *each, keep) for number, (each, keep) in enumerate(zip(rows, keeps))]
    out, top, total = ([part.squeeze(0) for part in column] for column in zip(*parts))
    return torch.cat(out), *(packed_statistics(t, softmax_layout == "TND") for t in (top, total))


def _check_fusion(query: Tensor, key: Tensor, value: Tensor, settings: Any, keep_prob: float) -> None:
    head_num, layout, query_ends, key_ends = settings[0], settings[1], settings[6], settings[7]
    ranks = (query.dim(), key.dim(), value.dim())
    if ranks not in ((3, 3, 3), (4, 4, 4)):
        raise RuntimeError(f"query, key and value need 3 or 4 dimensions each, as many as the others, but got {ranks}")
    if head_num <= 0 or not 0 <= keep_prob <= 1:
        raise RuntimeError(f"head_num must be positive and keep_prob between 0 and 1, but got {head_num} and {keep_prob}")
    if layout == "TND" and (not query_ends or len(query_ends) != len(key_ends or ())):
        raise RuntimeError("layout TND needs actual_seq_qlen and actual_seq_kvlen, one end of a sequence each")


def _score_counts(query: Tensor, key: Tensor, settings: Any) -> List[int]:
    """How many scores each packed sequence has, or all of them have together; each score has a bit of a dropout's mask."""
    head_num, layout, query_ends, key_ends = settings[0], settings[1], settings[6], settings[7]
    if layout == "TND":
        return [int(head_num * (q_end - q) * (k_end - k)) for q, q_end, k, k_end in _sequences(query_ends, key_ends)]
    batch, length = {"BNSD": (0, 2), "SBH": (1, 0)}.get(layout, (0, 1))
    return [int(query.shape[batch] * head_num * query.shape[length] * key.shape[length])]


def _check_dropout_mask(mask: Tensor, count: int, seed: int) -> None:
    wanted = (count + 127) // 128 * 16
    if mask.dtype != torch.uint8 or mask.numel() != wanted:
        raise RuntimeError(f"dropout_mask must have a bit for each of the {count} scores, as _npu_dropout_gen_mask makes it: "
                           f"{wanted} elements of uint8, but it has {mask.numel()} of {mask.dtype}")
    if seed == 0:
        raise RuntimeError("dropout_mask needs the seed and the offset that made it, for the gradient makes it again")


def _with_statistics(query: Tensor, key: Tensor, value: Tensor, pse: Optional[Tensor], settings: Any, keep_prob: float, seed: int,
                     offset: int, kind: _BiasKind, sink: Optional[Tensor], dropout_mask: Optional[Tensor],
                     softmax_layout: str) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """All that the operators return."""
    _check_fusion(query, key, value, settings, keep_prob)
    size = sum(_score_counts(query, key, settings))
    if keep_prob < 1:
        if dropout_mask is not None:
            _check_dropout_mask(dropout_mask, size, seed)
        seed = seed or (1 if query.device.type == "meta" else int(torch.randint(1, 2**31, ())))
    out, top, total = _fusion(query, key, value, pse, settings, keep_prob, seed, offset, kind, sink, dropout_mask,
                              softmax_layout)
    top, total = (t.detach().float().expand(*t.shape[:-1], _LAST).contiguous() for t in (top, total))
    return out.to(query.dtype).contiguous(), top, total, query.new_empty(0), seed, offset, size


def _fusion_gradients(grad: Tensor, query: Tensor, others: Sequence[Any], settings: Any, keep_prob: float,
                      seed: int, offset: int, kind: _BiasKind = _PLAIN) -> List[Tensor]:
    """Of query, and of key, value, pse and sink, ``others``; empty where there is none."""
    _check_fusion(query, others[0], others[1], settings, keep_prob)

    def forward(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, share: Tensor) -> Tensor:
        return _fusion(q, k, v, bias, settings, keep_prob, seed, offset, kind, share)[0]

    found = gradients(forward, (query, *others), wide(grad))
    results = [g.contiguous() if g is not None else query.new_empty(0) if given is None else torch.zeros_like(given)
               for g, given in zip(found, (query, *others))]
    return results if others[3] is not None else [*results[:4], results[4].float()]


def _check_softmax_layout(name: str, input_layout: str, softmax_layout: str) -> None:
    if softmax_layout and (input_layout, softmax_layout) != ("TND", "TND"):
        raise ValueError(f"{name}: softmax_layout may be TND with the layout TND, but got {softmax_layout} with {input_layout}")


def npu_fusion_attention(query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str,
                         pse: Optional[Tensor] = None, padding_mask: Optional[Tensor] = None, atten_mask: Optional[Tensor] = None,
                         scale: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = _UNLIMITED,
                         next_tockens: int = _UNLIMITED, inner_precise: int = 0, prefix: Optional[Sequence[int]] = None,
                         actual_seq_qlen: Optional[Sequence[int]] = None, actual_seq_kvlen: Optional[Sequence[int]] = None,
                         sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "",
                         sink: Optional[Tensor] = None, dropout_mask: Optional[Tensor] = None, seed: int = 0,
                         offset: int = 0) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """softmax((query key^T + pse) * scale, masked) value.

    ``input_layout``: "BSH", "SBH", "BSND", "BNSD", or "TND" with ``actual_seq_qlen`` and ``actual_seq_kvlen``, the running
    sums of the lengths. ``key`` and ``value`` may have fewer heads, a divisor of ``head_num``. ``atten_mask`` is true where
    a score does not count; without it all of them do. ``sparse_mode``: 0 the mask within the band of ``pre_tockens`` and
    ``next_tockens``, 1 the mask alone, 2 causal from the upper left corner, 3 causal from the lower right one, 4 the band from
    the lower right, 5 and 6 as 3 with the first ``prefix[i]`` keys of sequence i seen by all of its rows. ``sink``: [head_num],
    float32, a score that takes its share of each row and has no value. ``keep_prob`` is 1 minus the dropout probability; ``seed``
    and ``offset`` repeat the dropout of the call that returned them, a seed of 0 draws new ones. ``dropout_mask``: uint8 with a
    bit for each score [B, N, S, S], as _npu_dropout_gen_mask makes it of ``seed`` and ``offset``, which have to be given with it.
    ``softmax_layout``: "TND", with that ``input_layout``, asks for the statistics in the queries' order; without it those of
    each sequence lie as [its heads, its tokens, 8], one sequence after the other. Sequences at the end whose sums in
    ``actual_seq_qlen`` and ``actual_seq_kvlen`` are 0 do not take part.
    ``pse``: [B, N, S, S], or what broadcasts to it; or, of a bias that depends on the distance of query and key alone (ALiBi),
    for as many queries as keys of which later ones are hidden, the last 1024 rows, [B or 1, N, 1024, S], whose gradient is
    zero. With "TND" it is those, S the greatest length or more. ``inner_precise``, ``gen_mask_parallel`` and ``sync`` tune
    hardware.

    Returns (attention in ``input_layout``, maximum and sum of the softmax as float32 [B, N, S, 8] or [T, N, 8], an empty
    tensor, the dropout's seed and offset, as given without one, and the number of scores). Only ``max + log(sum)`` of the two
    statistics is defined. Has gradients for query, key, value, pse and sink. Raises NotImplementedError for padding_mask, and
    for prefix with TND; RuntimeError for a dropout_mask of another size or without its seed.
    """
    unsupported("npu_fusion_attention", padding_mask=padding_mask)
    _check_softmax_layout("npu_fusion_attention", input_layout, softmax_layout)
    settings = (head_num, input_layout, atten_mask, scale, pre_tockens, next_tockens, actual_seq_qlen, actual_seq_kvlen,
                sparse_mode, prefix or None)
    return _with_statistics(query, key, value, pse, settings, keep_prob, seed, offset, _PLAIN, sink, dropout_mask,
                            softmax_layout)


def npu_fusion_attention_grad(query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *,
                              pse: Optional[Tensor] = None, atten_mask: Optional[Tensor] = None,
                              softmax_sum: Optional[Tensor] = None, scale_value: float = 1.0, keep_prob: float = 1.0,
                              pre_tockens: int = _UNLIMITED, next_tockens: int = _UNLIMITED, seed: int = 0, offset: int = 0,
                              prefix: Optional[Sequence[int]] = None, actual_seq_qlen: Optional[Sequence[int]] = None,
                              actual_seq_kvlen: Optional[Sequence[int]] = None, sparse_mode: int = 0,
                              softmax_layout: str = "", sink: Optional[Tensor] = None, **_: Any) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_fusion_attention` for query, key, value, pse and sink (empty without them).

    Packed rows ("TND") whose ``softmax_sum`` is 0 have seen no keys, as those of npu_nsa_compress_attention may: no gradient."""
    if input_layout == "TND" and softmax_sum is not None:
        totals = softmax_sum if softmax_layout == "TND" else _as_queries(softmax_sum, actual_seq_qlen or ())
        dy = dy.masked_fill(totals[..., :1] == 0, 0)
    settings = (head_num, input_layout, atten_mask, scale_value, pre_tockens, next_tockens, actual_seq_qlen,
                actual_seq_kvlen, sparse_mode, prefix or None)
    return tuple(_fusion_gradients(dy, query, (key, value, pse, sink), settings, keep_prob, seed, offset))


def _bias_kind(name: str, heads: int, pse: Optional[Tensor], pse_type: int, query_start: Optional[Sequence[int]],
               key_start: Optional[Sequence[int]]) -> _BiasKind:
    if pse_type not in (0, 1, 2, 3):
        raise ValueError(f"{name}: pse_type must be 0, 1, 2 or 3, but got {pse_type}")
    kind = _BiasKind(pse_type, *(starts[0] if starts else 0 for starts in (query_start, key_start)))
    if kind.is_linear() and (pse is None or pse.dtype != torch.float32 or pse.shape[-1] != heads or pse.dim() > 2):
        raise RuntimeError(f"{name}: pse_type {pse_type} needs pse, the slopes of the heads, as float32 [N] or [B, N]")
    return kind


def _with_rope(name: str, query: Tensor, key: Tensor, query_rope: Optional[Tensor], key_rope: Optional[Tensor],
               layout: str, pse: Optional[Tensor], keep_prob: float) -> Tuple[Tensor, Tensor]:
    """Queries and keys with the elements of their heads that count for the scores alone."""
    if query_rope is None and key_rope is None:
        return query, key
    if query_rope is None or key_rope is None:
        raise RuntimeError(f"{name}: query_rope and key_rope are given together")
    if layout != "TND" or pse is not None or keep_prob != 1:
        raise NotImplementedError(f"{name}: query_rope and key_rope need the layout TND, no pse, and keep_prob 1")
    return torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)


def npu_fusion_attention_v2(query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, *,
                            pse: Optional[Tensor] = None, atten_mask: Optional[Tensor] = None,
                            query_rope: Optional[Tensor] = None, key_rope: Optional[Tensor] = None, scale: float = 1.0,
                            keep_prob: float = 1.0, pre_tokens: int = _UNLIMITED, next_tokens: int = _UNLIMITED,
                            prefix: Optional[Sequence[int]] = None, actual_seq_qlen: Optional[Sequence[int]] = None,
                            actual_seq_kvlen: Optional[Sequence[int]] = None, sparse_mode: int = 0, pse_type: int = 1,
                            q_start_idx: Optional[Sequence[int]] = None, kv_start_idx: Optional[Sequence[int]] = None,
                            sink: Optional[Tensor] = None, dropout_mask: Optional[Tensor] = None, seed: int = 0,
                            offset: int = 0, **given: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """:func:`npu_fusion_attention` with a choice of how ``pse`` counts: ``pse_type`` 1 adds it before the scores are scaled,
    0 after. With 2 and 3 it holds the slopes of linear biases (ALiBi), float32 [N] or [B, N], whose gradients are zero: what is
    added after scaling is ``-slope * abs(j + kv_start_idx - i - q_start_idx)`` for query i and key j, of 3 with the root of
    the distance, with TND too. ValueError for other types.

    ``query_rope`` [Tq, Nq, Dr] and ``key_rope`` [Tk, Nk, Dr], both or none, are more elements of the heads of query and key, for
    the scores: ``scale * (query @ key^T + query_rope @ key_rope^T)``. In layout TND, without ``pse``, with ``keep_prob`` 1;
    NotImplementedError otherwise.
    """
    query, key = _with_rope("npu_fusion_attention_v2", query, key, query_rope, key_rope, input_layout, pse, keep_prob)
    kind = _bias_kind("npu_fusion_attention_v2", head_num, pse, pse_type, q_start_idx, kv_start_idx)
    softmax_layout = given.pop("softmax_layout", "")
    _check_softmax_layout("npu_fusion_attention_v2", input_layout, softmax_layout)
    unsupported("npu_fusion_attention_v2", "inner_precise", "gen_mask_parallel", "sync", **given)
    settings = (head_num, input_layout, atten_mask, scale, pre_tokens, next_tokens, actual_seq_qlen, actual_seq_kvlen,
                sparse_mode, prefix or None)
    return _with_statistics(query, key, value, pse, settings, keep_prob, seed, offset, kind, sink, dropout_mask,
                            softmax_layout)


def npu_fusion_attention_grad_v2(query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *,
                                 pse: Optional[Tensor] = None, atten_mask: Optional[Tensor] = None,
                                 query_rope: Optional[Tensor] = None, key_rope: Optional[Tensor] = None,
                                 scale_value: float = 1.0, keep_prob: float = 1.0, pre_tokens: int = _UNLIMITED,
                                 next_tokens: int = _UNLIMITED, seed: int = 0, offset: int = 0,
                                 prefix: Optional[Sequence[int]] = None, actual_seq_qlen: Optional[Sequence[int]] = None,
                                 actual_seq_kvlen: Optional[Sequence[int]] = None, sparse_mode: int = 0, pse_type: int = 1,
                                 q_start_idx: Optional[Sequence[int]] = None, kv_start_idx: Optional[Sequence[int]] = None,
                                 sink: Optional[Tensor] = None, **_: Any) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_fusion_attention_v2` for query, key, value, pse, query_rope, key_rope and sink (those of what
    is not there are empty; slopes, and the last rows of a bias, get zeros)."""
    size = query.shape[-1]
    query, key = _with_rope("npu_fusion_attention_grad_v2", query, key, query_rope, key_rope, input_layout, pse, keep_prob)
    kind = _bias_kind("npu_fusion_attention_grad_v2", head_num, pse, pse_type, q_start_idx, kv_start_idx)
    settings = (head_num, input_layout, atten_mask, scale_value, pre_tokens, next_tokens, actual_seq_qlen, actual_seq_kvlen,
                sparse_mode, prefix or None)
    found = _fusion_gradients(dy, query, (key, value, pse, sink), settings, keep_prob, seed, offset, kind)
    if query_rope is None:
        return (*found[:4], query.new_empty(0), query.new_empty(0), found[4])
    by_query, by_key = (grad.tensor_split([size], -1) for grad in found[:2])
    return (by_query[0], by_key[0], *found[2:4], by_query[1], by_key[1], found[4])


def _limited(mask: Tensor, lengths: Optional[Sequence[int]], key: Tensor, columns: int) -> Tensor:
    """The mask, and true behind each sequence's own length."""
    if lengths is None or len(lengths) == 0:
        return mask
    beyond = torch.arange(columns, device=key.device) >= numbers_on(key.device, list(lengths)).view(-1, 1, 1, 1)
    return beyond if mask is None else mask.bool() | beyond


def _inference(name: Any, query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: Any, options: Any,
               out_layout: Any = None) -> Tuple[Any, Any]:
    columns = {"BNSD": 2, "SBH": 0}.get(options.layout, 1)
    mask = _limited(mask, lengths, key, key.shape[columns])
    if mask is not None and options.sparse_mode == 0 and options.following < key.shape[columns] and lengths:
        raise NotImplementedError(f"{name}: lengths together with a band are not supported")
    out, top, total = _attention(query, key, value, bias, mask, options)
    return (out.transpose(1, 2) if out_layout else out).to(query.dtype).contiguous(), (top + total.log()).float()


def _from_pages(cache: Any, table: Any, layout: Any, heads: Any) -> Any:
    """A cache in pages, [pages, rows, heads * size] or [pages, heads, rows, size], as each sequence's own rows."""
    if table is None:
        return cache
    pages = cache[table.clamp(min=0).reshape(-1).long()]
    pages = pages.transpose(1, 2).flatten(2) if pages.dim() == 4 else pages
    rows = pages.reshape(table.shape[0], -1, pages.shape[-1])
    if layout == "BSH":
        return rows
    split = rows.unflatten(-1, (heads, -1))
    return split if layout == "BSND" else split.transpose(1, 2)


def npu_prompt_flash_attention(query: Tensor, key: Tensor, value: Tensor, *, atten_mask: Optional[Tensor] = None,
                               pse_shift: Optional[Tensor] = None, num_heads: int = 1, scale_value: float = 1.0,
                               pre_tokens: int = _UNLIMITED, next_tokens: int = 0, input_layout: str = "BSH",
                               actual_seq_lengths_kv: Optional[Sequence[int]] = None, sparse_mode: int = 0,
                               **given: Any) -> Tensor:
    """softmax(query key^T * scale_value + pse_shift, masked) value, for inference on whole prompts.

    ``input_layout``: "BSH", "BSND", "BNSD", or "BNSD_BSND" (the result in BSND). ``atten_mask`` and ``sparse_mode`` as in
    :func:`npu_fusion_attention`; ``actual_seq_lengths_kv``: how many keys of each sequence count. Of int8, or with
    ``quant_scale2``: as :func:`npu_fused_infer_attention_score`, which calls ``deq_scale1`` and 2 dequant_scale1 and 2.
    """
    name = "npu_prompt_flash_attention"
    if given.get("deq_scale1") is not None or given.get("quant_scale2") is not None:
        renamed = {option.replace("deq_", "dequant_"): tensor for option, tensor in given.items()}
        return npu_fused_infer_attention_score(
            query, key, value, pse_shift=pse_shift, atten_mask=atten_mask, num_heads=num_heads, scale=scale_value,
            pre_tokens=pre_tokens, next_tokens=next_tokens, input_layout=input_layout,
            actual_seq_lengths_kv=actual_seq_lengths_kv, sparse_mode=sparse_mode, **renamed)[0]
    unsupported(name, "actual_seq_lengths", "num_key_value_heads", **given)
    layout = "BNSD" if input_layout == "BNSD_BSND" else input_layout
    options = _Options(name, num_heads, layout, sparse_mode, pre_tokens, next_tokens, scale_value)
    return _inference(name, query, key, value, pse_shift, atten_mask, actual_seq_lengths_kv, options,
                      "BSND" if input_layout == "BNSD_BSND" else None)[0]


def npu_incre_flash_attention(query: Tensor, key: Tensor, value: Tensor, *, atten_mask: Optional[Tensor] = None,
                              pse_shift: Optional[Tensor] = None, actual_seq_lengths: Optional[Sequence[int]] = None,
                              block_table: Optional[Tensor] = None, num_heads: int = 1, scale_value: float = 1.0,
                              input_layout: str = "BSH", num_key_value_heads: int = 0, **given: Any) -> Tensor:
    """softmax(query key^T * scale_value + pse_shift, masked) value for one new token: query has length 1.

    ``input_layout``: "BSH", "BSND" or "BNSD". ``actual_seq_lengths``: how many keys of each sequence count. With
    ``block_table`` [batch, pages of a sequence] key and value are caches in pages, [pages, rows, heads * size] or [pages,
    heads, rows, size]. Raises NotImplementedError for quantization and left padding. Floating point, as the result of the
    query's shape.
    """
    name = "npu_incre_flash_attention"
    unsupported(name, "block_size", "inner_precise", **given)
    options = _Options(name, num_heads, input_layout, 1, _UNLIMITED, _UNLIMITED, scale_value)
    key, value = (_from_pages(t, block_table, input_layout, num_key_value_heads or num_heads) for t in (key, value))
    return _inference(name, query, key, value, pse_shift, atten_mask, actual_seq_lengths, options)[0]


def npu_attention_update(lse: Sequence[Tensor], local_out: Sequence[Tensor],
                         update_type: int) -> Tuple[Tensor, Optional[Tensor]]:
    """Joins the attention over parts of the keys: results [rows, size] and the logsumexp of their scores [rows], of each part.

    Returns (attention, logsumexp) over all parts; the latter is None unless ``update_type`` is 1. All are floating
    point.
    """
    if not lse or not local_out:
        raise ValueError("npu_attention_update: an empty list")
    sums = wide(torch.stack(list(lse)))
    top = sums.amax(0)
    weights = (sums - top).exp()
    total = weights.sum(0)
    out = (wide(torch.stack(list(local_out))) * (weights / total).unsqueeze(-1)).sum(0)
    joined = (top + total.log()).to(lse[0].dtype)
    return out.to(local_out[0].dtype), joined if update_type == 1 else None


def npu_ring_attention_update(prev_attn_out: Tensor, prev_softmax_max: Tensor, prev_softmax_sum: Tensor, cur_attn_out: Tensor,
                              cur_softmax_max: Tensor, cur_softmax_sum: Tensor, *, actual_seq_qlen: Optional[Tensor] = None,
                              input_layout: str = "SBH", input_softmax_layout: str = "") -> Tuple[Tensor, Tensor, Tensor]:
    """Joins the attention over two parts of the keys, as :func:`npu_fusion_attention` returns them.

    ``input_layout``: "SBH", results [S, B, N * D] and statistics [B, N, S, 8]; or "TND", results [T, N, D] and statistics
    [T, N, 8], with ``actual_seq_qlen``, the running sums of the lengths, which may start with 0. ``input_softmax_layout``: the
    ``softmax_layout`` that the attention was given. Returns (attention, maximum, sum) over both. Raises NotImplementedError for
    other layouts."""
    if input_layout not in ("SBH", "TND"):
        raise NotImplementedError(f"npu_ring_attention_update: layout {input_layout!r} is not supported, only 'SBH' and 'TND'")
    if input_layout == "TND" and actual_seq_qlen is None:
        raise RuntimeError("npu_ring_attention_update: layout TND needs actual_seq_qlen, the running sums of the lengths")
    top = torch.maximum(prev_softmax_max, cur_softmax_max)
    previous, current = prev_softmax_sum * (prev_softmax_max - top).exp(), cur_softmax_sum * (cur_softmax_max - top).exp()
    total = previous + current

    def share(weight: Tensor) -> Tensor:
        if input_layout == "SBH":
            return (weight / total)[..., 0].permute(2, 0, 1).unsqueeze(-1)
        packed = (weight / total)[..., :1]
        if input_softmax_layout == "TND" or packed.device.type == "meta":
            return packed
        assert actual_seq_qlen is not None
        return _as_queries(packed, actual_seq_qlen.tolist())

    def heads(attention: Tensor) -> Tensor:
        return wide(attention).unflatten(-1, (top.shape[1], -1)) if input_layout == "SBH" else wide(attention)

    out = (heads(prev_attn_out) * share(previous) + heads(cur_attn_out) * share(current)).reshape(prev_attn_out.shape)
    return out.to(prev_attn_out.dtype), top, total
