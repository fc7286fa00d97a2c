"""The lightning indexer: which keys matter most to a token, and its training."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._gradient import gradients
from torch_npu._cpu_ops.sparse_attention import Rows, chosen_keys

_LARGEST = 9223372036854775807


def _later(scores: Tensor) -> Tensor:
    """Which keys lie behind their token, both counted from the end: bool [tokens, keys]."""
    tokens, keys = scores.shape
    return torch.ones(tokens, keys, dtype=torch.bool, device=scores.device).triu(keys - tokens + 1)


def _scores(query: Tensor, key: Tensor, weights: Tensor) -> Tensor:
    """``sum over heads of weights * relu(query key^T)``, [tokens, keys]; of keys [tokens, keys, size], each token has its own."""
    dots = torch.einsum("snd,skd->snk" if key.dim() == 3 else "snd,kd->snk", query, key)
    return (dots.relu() * weights.unsqueeze(-1)).sum(1)


def _index(
    name: str,
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_scale: Optional[Tensor] = None,
    key_scale: Optional[Tensor] = None,
    *,
    actual_seq_lengths_query: Optional[Tensor] = None,
    actual_seq_lengths_key: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    **_: int,
) -> Tuple[Tensor, Tensor]:
    """(places, values) of the keys that matter most."""
    rows = Rows(layout_query, layout_key, query, actual_seq_lengths_query, actual_seq_lengths_key, block_table)
    count, mode = sparse_count, sparse_mode
    if mode not in (0, 3):
        raise NotImplementedError(f"{name}: sparse_mode {mode} is not supported; 0 and 3 are")
    heads = key.shape[-2]
    indices = torch.full((*query.shape[:-2], heads, count), -1, dtype=torch.int32, device=query.device)
    values = torch.zeros(indices.shape, dtype=torch.float32, device=query.device)
    if query.device.type == "meta":
        return indices, values
    for b in range(rows.batches):
        q, w, k = wide(rows.query(query, b)), wide(rows.query(weights, b)), wide(rows.key(key, b))
        scores = torch.einsum("snd,td->snt", q, k[:, 0])
        if query_scale is not None and key_scale is not None:
            scores = scores * wide(rows.query(query_scale, b)).unsqueeze(-1) * wide(rows.key(key_scale, b))[:, 0]
        total = (scores.relu() * w.unsqueeze(-1)).sum(1)
        if mode == 3:
            total = total.masked_fill(_later(total), float("-inf"))
        best, found = total.sort(dim=-1, descending=True, stable=True)
        best, found = best[:, :count], torch.where(best[:, :count] == float("-inf"), -1, found[:, :count])
        rows.query(indices, b)[:, 0, : found.shape[1]] = found.int()
        rows.query(values, b)[:, 0, : found.shape[1]] = best
    return indices, values


def npu_lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    *,
    return_value: bool = False,
    **options: Any,
) -> Tuple[Tensor, Tensor]:
    """The keys that matter most to each token: the ``sparse_count`` greatest of ``sum over heads of weights * relu(query
    key^T)``.

    ``query`` [batch, length, heads, size] or, "TND", [tokens, heads, size] with running sums of lengths; ``key`` likewise
    with one head, or "PA_BSND", pages [pages, rows, 1, size] with ``block_table``; ``weights`` as query without size.
    ``sparse_mode`` 3: a token sees keys up to its own, counted from the end; 0: all. Returns (places int32 [..., 1,
    sparse_count], best first, -1 behind the last; values in query's dtype with ``return_value``, else empty). Keys of the
    same value come in their order.
    """
    indices, values = _index("npu_lightning_indexer", query, key, weights, **options)
    return indices, values.to(query.dtype) if return_value else query.new_empty(0)


def npu_quant_lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    query_quant_mode: int,
    key_quant_mode: int,
    *,
    query_dtype: Optional[int] = None,
    key_dtype: Optional[int] = None,
    **options: Any,
) -> Tensor:
    """:func:`npu_lightning_indexer` of int8 or float8 queries and keys with a scale for each head of a token: only the places.
    ``query_dequant_scale`` and ``key_dequant_scale``: the shapes of query and key without size. Modes must be 0."""
    name = "npu_quant_lightning_indexer"
    unsupported(
        name,
        query_dtype=query_dtype,
        key_dtype=key_dtype,
        query_quant_mode=query_quant_mode or None,
        key_quant_mode=key_quant_mode or None,
    )
    return _index(name, query, key, weights, query_dequant_scale, key_dequant_scale, **options)[0]


def npu_lightning_indexer_grad(
    query: Tensor,
    key: Tensor,
    dy: Tensor,
    sparse_indices: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Optional[Tensor] = None,
    actual_seq_lengths_key: Optional[Tensor] = None,
    layout: Optional[str] = "BSND",
    sparse_mode: Optional[int] = 3,
    pre_tokens: Optional[int] = _LARGEST,
    next_tokens: Optional[int] = _LARGEST,
) -> Tuple[Tensor, ...]:
    """Gradients of the values of :func:`npu_lightning_indexer` for query, key and weights.

    ``dy``: the values' gradient and ``sparse_indices``: int32 places, -1 none, [..., 1, count] each; the others as there,
    ``layout`` "BSND" or "TND" of all. What the mask hides has no place.
    """
    results = tuple(torch.zeros_like(t) for t in (query, key, weights))
    if query.device.type == "meta":
        return results
    rows = Rows(layout or "BSND", layout or "BSND", query, actual_seq_lengths_query, actual_seq_lengths_key, None)
    for b in range(rows.batches):
        places = rows.query(sparse_indices, b)[:, 0].long()
        _add_gradients(
            rows, b, results, (query, key, weights), wide(rows.query(dy, b)[:, 0]) * (places >= 0), places.clamp(min=0)
        )
    return results


def _add_gradients(
    rows: Rows, batch: int, results: Sequence[Tensor], inputs: Sequence[Tensor], grad: Tensor, places: Optional[Tensor]
) -> None:
    """The gradients of the scores of one sequence, at ``places`` [tokens, count] or of all keys, into ``results``."""
    query, key, weights = inputs

    def forward(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        return _scores(q, k if places is None else k[places], w)

    found = gradients(
        forward, (wide(rows.query(query, batch)), wide(rows.key(key, batch)[:, 0]), wide(rows.query(weights, batch))), grad
    )
    for_query, for_key, for_weights = results
    rows.query(for_query, batch).copy_(found[0])
    rows.key(for_key, batch)[:, 0].copy_(found[1])
    rows.query(for_weights, batch).copy_(found[2])


# Training: the indexer's softmax is to be that of the attention -------------------------------------------------------------


def _only_causal(name: str, sparse_mode: Optional[int]) -> None:
    if sparse_mode != 3:
        raise NotImplementedError(f"{name}: sparse_mode {sparse_mode} is not supported; 3 is")


def _statistic(tensor: Tensor, rows: Rows, batch: int) -> Tensor:
    """Of one sequence, [heads, tokens, ...] out of [batch, heads, tokens, ...] or, packed, [heads, tokens, ...]."""
    return (
        rows.query(tensor.movedim(0, 1), batch).movedim(1, 0)
        if rows.packed
        else rows.query(tensor.transpose(1, 2), batch).transpose(0, 1)
    )


def npu_dense_lightning_indexer_softmax_lse(
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    *,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_seq_klen: Optional[Sequence[int]] = None,
    layout: Optional[str] = "BSND",
    sparse_mode: Optional[int] = 3,
    **_: Any,
) -> Tuple[Tensor, Tensor]:
    """Greatest value and sum of exponentials of the indexer's scores ``sum over heads of weights * relu(query_index
    key_index^T)``.

    ``query_index``: [batch, tokens, heads, size] ("BSND") or [tokens, heads, size] ("TND", with running sums of the lengths);
    ``key_index``: the same with one head; ``weights``: as query_index without size. A token sees keys up to its own, counted
    from the end. Returns float32 (greatest, sum of exp(score - greatest)), [batch, 1, tokens] or [1, tokens]; 0 for tokens that
    see none.
    """
    _only_causal("npu_dense_lightning_indexer_softmax_lse", sparse_mode)
    rows = Rows(layout or "BSND", layout or "BSND", query_index, actual_seq_qlen, actual_seq_klen, None)
    shape = query_index.shape[:1] if rows.packed else query_index.shape[:2]
    top, total = (query_index.new_zeros(shape, dtype=torch.float32) for _ in range(2))
    for b in range(rows.batches):
        scores = _scores(wide(rows.query(query_index, b)), wide(rows.key(key_index, b)[:, 0]), wide(rows.query(weights, b)))
        scores = scores.masked_fill(_later(scores), float("-inf"))
        best = scores.amax(-1) if scores.shape[1] else scores.new_full(scores.shape[:1], float("-inf"))
        best = torch.where(best == float("-inf"), 0.0, best)
        rows.query(top, b).copy_(best)
        rows.query(total, b).copy_(torch.exp(scores - best.unsqueeze(-1)).sum(-1))
    return (top.unsqueeze(0), total.unsqueeze(0)) if rows.packed else (top.unsqueeze(1), total.unsqueeze(1))


class _Teacher:
    """The attention whose distribution the indexer learns: its weights, summed over the heads and normalised."""

    def __init__(
        self, tensors: Sequence[Tensor], ropes: Sequence[Optional[Tensor]], top: Tensor, total: Tensor, scale: float
    ) -> None:
        query, key = tensors
        if ropes[0] is not None and ropes[1] is not None:
            query, key = torch.cat([query, ropes[0]], -1), torch.cat([key, ropes[1]], -1)
        self.query, self.key, self.top, self.total, self.scale = query, key, top, total, scale

    def weights(self, rows: Rows, batch: int, places: Optional[Tensor], hidden: Tensor) -> Tensor:
        """[tokens, keys] of one sequence, at ``places`` [tokens, count] or of all keys, 0 where ``hidden``."""
        q, k = wide(rows.query(self.query, batch)), wide(rows.key(self.key, batch))
        groups = q.shape[1] // k.shape[1]
        if places is None:
            scores = torch.einsum("snd,knd->snk", q, k.repeat_interleave(groups, 1)) * self.scale
        else:
            scores = torch.einsum("snd,sknd->snk", q, k[places].repeat_interleave(groups, 2)) * self.scale
        top, total = (_statistic(t, rows, batch).transpose(0, 1).flatten(1).unsqueeze(-1) for t in (self.top, self.total))
        summed = (torch.exp(scores - wide(top)) / wide(total)).masked_fill(hidden.unsqueeze(1), 0.0).sum(1)
        whole = summed.sum(-1, keepdim=True)
        return summed / torch.where(whole == 0, 1.0, whole)


def _divergence(target: Tensor, log_found: Tensor) -> Tensor:
    """``sum of target * log(target / found)``, 0 where the target is."""
    return torch.where(target > 0, target * (torch.log(target.clamp(min=1e-38)) - log_found), 0.0).sum()


def _loss_and_gradients(
    rows: Rows,
    inputs: Sequence[Tensor],
    teacher: _Teacher,
    places_of: Callable[[int, int], Tuple[Optional[Tensor], Optional[Tensor]]],
    sums_of: Callable[[int, Tensor], Tensor],
) -> Tuple[Tensor, ...]:
    """(gradients for query, key and weights of the indexer, loss [1]). ``places_of(batch, keys)``: (places, which are none), or
    (None, None) for all keys; ``sums_of(batch, scores)``: the logarithm of the sum of exponentials of each token's scores."""
    results = tuple(torch.zeros_like(t) for t in inputs)
    losses: List[Tensor] = [inputs[0].new_zeros((), dtype=torch.float32)]
    for b in range(rows.batches):
        q, k, w = wide(rows.query(inputs[0], b)), wide(rows.key(inputs[1], b)[:, 0]), wide(rows.query(inputs[2], b))
        places, hidden = places_of(b, k.shape[0])
        scores = _scores(q, k if places is None else k[places], w)
        hidden = _later(scores) if hidden is None else hidden
        log_found = (scores - sums_of(b, scores.masked_fill(hidden, float("-inf"))).unsqueeze(-1)).masked_fill(hidden, 0.0)
        target = teacher.weights(rows, b, places, hidden)
        losses.append(_divergence(target, log_found))
        _add_gradients(rows, b, results, inputs, (torch.exp(log_found) - target).masked_fill(hidden, 0.0), places)
    return (*results, torch.stack(losses).sum().reshape(1).float())


def _lesson(
    name: str,
    tensors: Sequence[Tensor],
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    *,
    query_rope: Optional[Tensor] = None,
    key_rope: Optional[Tensor] = None,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_seq_klen: Optional[Sequence[int]] = None,
    layout: Optional[str] = "BSND",
    sparse_mode: Optional[int] = 3,
    **given: Any,
) -> Tuple[Rows, _Teacher]:
    """The rows of query and key, ``tensors``, and the attention that the indexer learns from."""
    _only_causal(name, sparse_mode)
    unsupported(name, "pre_tokens", "next_tokens", **given)
    rows = Rows(layout or "BSND", layout or "BSND", tensors[0], actual_seq_qlen, actual_seq_klen, None)
    return rows, _Teacher(tensors, (query_rope, key_rope), softmax_max, softmax_sum, scale_value)


def _empty_like(query: Tensor, key: Tensor, weights: Tensor) -> Tuple[Tensor, ...]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(weights), query.new_empty(1, dtype=torch.float32)


def npu_dense_lightning_indexer_grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_max_index: Tensor,
    softmax_sum_index: Tensor,
    scale_value: float,
    **options: Any,
) -> Tuple[Tensor, ...]:
    """How far the indexer's softmax is from the attention's, ``sum over tokens of KL(p || softmax(I))``, and the gradients.

    I are the scores of :func:`npu_dense_lightning_indexer_softmax_lse`, whose results are ``softmax_max_index`` and
    ``softmax_sum_index``; p is the softmax of ``scale_value * (query key^T + query_rope key_rope^T)`` with the statistics
    ``softmax_max`` and ``softmax_sum`` ([batch, kv heads, tokens, heads / kv heads], packed [kv heads, tokens, heads / kv
    heads]), summed over the heads and normalised. ``query``: [batch, tokens, heads, size] ("BSND") or [tokens, heads, size]
    ("TND", with running sums); key, ropes, ``query_index`` and ``key_index`` (one head) likewise. Returns (gradients for
    query_index, key_index and weights, loss float32 [1]). Only sparse_mode 3: a token sees keys up to its own, counted from the
    end.
    """
    name = "npu_dense_lightning_indexer_grad_kl_loss"
    rows, teacher = _lesson(name, (query, key), softmax_max, softmax_sum, scale_value, **options)
    if query.device.type == "meta":
        return _empty_like(query_index, key_index, weights)
    sums = wide(softmax_max_index) + wide(softmax_sum_index).log()
    return _loss_and_gradients(
        rows, (query_index, key_index, weights), teacher, lambda *_: (None, None), lambda b, _: _statistic(sums, rows, b)[0]
    )


def npu_sparse_lightning_indexer_grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    **options: Any,
) -> Tuple[Tensor, ...]:
    """:func:`npu_dense_lightning_indexer_grad_kl_loss` over the keys that ``sparse_indices`` names, int32 [..., 1, count], -1
    none.

    ``softmax_max`` and ``softmax_sum`` are results of :func:`npu_sparse_flash_attention`; the indexer's softmax is taken over the
    chosen keys. Raises NotImplementedError for ``sinks``: they are in softmax_sum, which is normalised away.
    """
    name = "npu_sparse_lightning_indexer_grad_kl_loss"
    rows, teacher = _lesson(name, (query, key), softmax_max, softmax_sum, scale_value, **options)
    if query.device.type == "meta":
        return _empty_like(query_index, key_index, weights)

    def places_of(batch: int, keys: int) -> Tuple[Tensor, Tensor]:
        places, seen = chosen_keys(rows.query(sparse_indices, batch)[:, 0], 1, keys, True)
        return places, ~seen

    return _loss_and_gradients(
        rows, (query_index, key_index, weights), teacher, places_of, lambda _, scores: scores.logsumexp(-1)
    )
