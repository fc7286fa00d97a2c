"""Native sparse attention: keys compressed in windows, the blocks of keys that matter most, attention to those blocks.

Source: J. Yuan et al., Native Sparse Attention, 2025. Packed sequences ("TND"): lengths are running sums.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import wide_gradients
from torch_npu._cpu_ops.attention import packed_statistics

_LAST = 8  # the statistics of the softmax are repeated along a last dimension of this size
_TRIANGLE = (2048, 2048)  # a mask of this shape stands for "no later keys", however long the sequences are


def _spans(name: str, argument: str, ends: Optional[Sequence[int]]) -> List[Tuple[int, int]]:
    """(first, end) of each sequence, out of the running sums of the lengths."""
    if ends is None:
        raise ValueError(f"{name}: {argument} must be given, the running sums of the lengths")
    return list(zip([0, *ends], ends))


# Compression ----------------------------------------------------------------------------------------------------------------


def _compressed(rows: Tensor, weight: Tensor, block: int, stride: int) -> Tensor:
    """Weighted sums of windows of ``rows`` [length, heads, size]: [windows, heads, size]."""
    starts = torch.arange(0, max(0, rows.shape[0] - block + 1), stride, device=rows.device)
    windows = rows[starts.unsqueeze(1) + torch.arange(block, device=rows.device)]
    return (windows * weight.unsqueeze(-1)).sum(1)


def npu_nsa_compress(
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Optional[Sequence[int]] = None,
) -> Tensor:
    """Keys or values compressed: ``sum over r of weight[r] * input[i * compress_stride + r]`` for each window i of a sequence.

    ``input``: [tokens, heads, size]; ``weight``: [compress_block_size, heads]; ``actual_seq_len``: running sums of the lengths. A
    sequence of s tokens has ``(s - compress_block_size) // compress_stride + 1`` windows, none if it is shorter than one. Returns
    [windows of all sequences, heads, size]. Has gradients for input and weight. All are floating point.
    """
    parts = [
        _compressed(wide(input[start:end]), wide(weight), compress_block_size, compress_stride)
        for start, end in _spans("npu_nsa_compress", "actual_seq_len", actual_seq_len)
    ]
    return torch.cat(parts).to(input.dtype)


def npu_nsa_compress_grad(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_nsa_compress` for input and weight.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return npu_nsa_compress(x, w, compress_block_size, compress_stride, actual_seq_len=actual_seq_len)

    return wide_gradients(forward, (input, weight), grad)


def npu_nsa_compress_infer_cache(
    input: Tensor,
    weight: Tensor,
    slot_mapping: Tensor,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    *,
    block_table: Optional[Tensor] = None,
    actual_seq_len: Optional[Sequence[int]] = None,
    cache: Tensor,
) -> Tensor:
    """The window that a new token completes, compressed as by :func:`npu_nsa_compress`, into ``cache``.

    ``input``: pages [pages, page_block_size, heads, size] with ``block_table`` int32 [batch, pages of a sequence];
    ``actual_seq_len``: the length of each sequence. Where ``length - compress_block_size`` is a multiple of
    ``compress_stride``, the last ``compress_block_size`` tokens go to the slot ``slot_mapping[b]`` (int32 [batch]) of ``cache``
    [..., heads, size], whose slots are its leading dimensions. Other sequences write nothing. Returns ``cache``.
    """
    name = "npu_nsa_compress_infer"
    if block_table is None or actual_seq_len is None:
        raise ValueError(f"{name}: block_table and actual_seq_len must be given")
    if input.dim() != 4 or input.shape[1] != page_block_size:
        raise ValueError(f"{name}: input has the shape {list(input.shape)}, not [pages, {page_block_size}, heads, size]")
    if cache.device.type == "meta":
        return cache
    slots = cache.view(-1, *cache.shape[-2:])
    for b, length in enumerate(actual_seq_len):
        first = length - compress_block_size
        if first < 0 or first % compress_stride:
            continue
        place = torch.arange(first, length, device=input.device)
        rows = input[block_table[b].long()[place // page_block_size], place % page_block_size]
        new = (wide(rows) * wide(weight).unsqueeze(-1)).sum(0, keepdim=True).to(cache.dtype)
        slots.index_copy_(0, slot_mapping[b : b + 1].long(), new)
    return cache


# Attention ------------------------------------------------------------------------------------------------------------------


def _heads_first(tensor: Tensor, groups: int = 1) -> Tensor:
    """[rows, heads, size] as float32 [heads, rows, size], each head ``groups`` times."""
    return wide(tensor).transpose(0, 1).repeat_interleave(groups, 0)


def _softmax(query: Tensor, key: Tensor, scale: float, hidden: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """(weights [heads, rows, columns], greatest score and sum of exponentials [heads, rows, 1]). Rows without keys have weights
    and sums of 0."""
    scores = torch.matmul(query, key.transpose(1, 2)) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    if scores.shape[-1] == 0:
        empty = scores.new_zeros(*scores.shape[:2], 1)
        return scores, empty, empty
    top = scores.detach().amax(-1, keepdim=True)
    top = torch.where(top == float("-inf"), 0.0, top)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total), top, total


def _hidden(name: str, mask: Optional[Tensor], rows: int, columns: int) -> Optional[Tensor]:
    """Which scores ``mask`` hides, [rows, columns]."""
    if mask is None:
        return None
    if mask.dim() == 2 and mask.shape[0] >= rows and mask.shape[1] >= columns:
        return mask[:rows, :columns].bool()
    if tuple(mask.shape) == _TRIANGLE:
        return torch.ones(rows, columns, dtype=torch.bool, device=mask.device).triu(1)
    raise ValueError(f"{name}: atten_mask {list(mask.shape)} does not cover {rows} tokens and {columns} keys")


def _statistics(values: List[Tensor]) -> Tensor:
    """[heads, rows, 1] of each sequence as [tokens, heads, 8]."""
    return torch.cat([t.detach().transpose(0, 1) for t in values]).float().expand(-1, -1, _LAST).contiguous()


def _shared_strides(windows: int, blocks: int, block: int, stride: int, chosen: int, device: torch.device) -> Tensor:
    """How many strides each window of ``block`` tokens and each block of ``chosen`` tokens have in common, [windows, blocks]."""
    window = torch.arange(windows, device=device).unsqueeze(1)
    first = torch.arange(blocks, device=device) * (chosen // stride)
    shared = torch.minimum(window + block // stride, first + chosen // stride) - torch.maximum(window, first)
    return shared.clamp(min=0).float()


def _best_blocks(importance: Tensor, count: int) -> Tensor:
    """The ``count`` most important blocks of each row, best first, those of the same importance in their order; -1 behind the
    last. [heads, rows, blocks] to int32 [rows, heads, count]."""
    order = importance.sort(dim=-1, descending=True, stable=True)[1][..., :count]
    order = torch.nn.functional.pad(order, (0, count - order.shape[-1]), value=-1)
    return order.transpose(0, 1).int()


def _importance(weights: Tensor, kv_heads: int, shared: Tensor) -> Tensor:
    """Of the blocks: the weights of the windows by the strides that they share, summed over the heads of a group."""
    return torch.matmul(weights.detach().unflatten(0, (kv_heads, -1)).sum(1), shared.to(weights.dtype))


def npu_nsa_compress_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    *,
    topk_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_cmp_seq_kvlen: Optional[Sequence[int]] = None,
    actual_sel_seq_kvlen: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention to compressed keys, and the blocks of keys that matter most to each token.

    ``p = softmax(scale_value * query key^T)``, 0 where ``atten_mask`` is true, and ``p value``. The importance of a block of
    ``select_block_size`` tokens is the sum of the p of the windows that overlap it, times the strides they share, over the
    heads of a group; where ``topk_mask`` is true a block is always chosen. ``query``: [tokens, head_num, size], ``key`` and
    ``value``: [windows, kv heads, size of each]; ``atten_mask``: bool [queries, windows] and ``topk_mask``: bool [queries,
    blocks], for the longest sequence; lengths: running sums of tokens, windows and blocks (by default ceil(windows *
    compress_stride / select_block_size) of a sequence).

    Returns (attention [tokens, head_num, size of value], places int32 [tokens, kv heads, select_block_count], best first, -1
    behind the last, maximum and sum of the softmax as float32 [tokens, head_num, 8], in the order of
    :func:`npu_fusion_attention`). Has gradients for query, key and value.
    """
    name = "npu_nsa_compress_attention"
    if select_block_size % compress_stride or compress_block_size % compress_stride:
        raise ValueError(f"{name}: compress_block_size and select_block_size must be multiples of compress_stride")
    spans = list(
        zip(_spans(name, "actual_seq_qlen", actual_seq_qlen), _spans(name, "actual_cmp_seq_kvlen", actual_cmp_seq_kvlen))
    )
    step, kv_heads = select_block_size // compress_stride, key.shape[1]
    blocks = [-(-(k_end - k) // step) for _, (k, k_end) in spans]
    if actual_sel_seq_kvlen is not None:
        blocks = [end - start for start, end in _spans(name, "actual_sel_seq_kvlen", actual_sel_seq_kvlen)]
    out, places, tops, totals = [], [], [], []
    for ((start, end), (k, k_end)), count in zip(spans, blocks):
        keys, values = (_heads_first(t[k:k_end], head_num // kv_heads) for t in (key, value))
        hidden = _hidden(name, atten_mask, end - start, k_end - k)
        weights, own_top, own_total = _softmax(_heads_first(query[start:end]), keys, scale_value, hidden)
        shared = _shared_strides(k_end - k, count, compress_block_size, compress_stride, select_block_size, query.device)
        importance = _importance(weights, kv_heads, shared)
        if topk_mask is not None:
            importance = importance.masked_fill(topk_mask[: end - start, :count].bool(), float("inf"))
        out.append(torch.matmul(weights, values).transpose(0, 1))
        places.append(_best_blocks(importance, select_block_count))
        tops.append(own_top)
        totals.append(own_total)
    top, total = (packed_statistics(t).detach().float().expand(-1, -1, _LAST).contiguous() for t in (tops, totals))
    return torch.cat(out).to(query.dtype), torch.cat(places), top, total


def _in_blocks(places: Tensor, block: int, columns: int) -> Tensor:
    """Which of ``columns`` keys lie in the blocks ``places`` [rows, heads, count], -1 none: bool [heads, rows, columns]."""
    count = -(-columns // block)
    index = torch.where((places < 0) | (places >= count), count, places).long()
    chosen = torch.zeros(*places.shape[:2], count + 1, dtype=torch.bool, device=places.device).scatter(-1, index, True)
    return chosen[..., :count].repeat_interleave(block, -1)[..., :columns].transpose(0, 1)


def npu_nsa_select_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    atten_mask: Optional[Tensor] = None,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_seq_kvlen: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Attention of each token to the blocks of keys that ``topk_indices`` names: ``softmax(scale_value * query key^T) value``
    of those.

    ``query``: [tokens, head_num, size]; ``key`` and ``value``: [keys, kv heads, size of each]; ``topk_indices``: int32 [tokens,
    kv heads, select_block_count], blocks of ``select_block_size`` keys of the token's sequence, -1 none; ``atten_mask``: bool
    [queries, keys] of the longest sequence, true where a key is not seen, or [2048, 2048] for "no later ones"; lengths: running
    sums.

    Returns (attention [tokens, head_num, size of value], maximum and sum of the softmax as float32 [tokens, head_num, 8]). Has
    gradients for query, key and value.
    """
    name = "npu_nsa_select_attention"
    if topk_indices.shape[-1] != select_block_count:
        raise ValueError(f"{name}: topk_indices names {topk_indices.shape[-1]} blocks of each token, not {select_block_count}")
    spans = zip(_spans(name, "actual_seq_qlen", actual_seq_qlen), _spans(name, "actual_seq_kvlen", actual_seq_kvlen))
    groups, out, tops, totals = head_num // key.shape[1], [], [], []
    for (start, end), (k, k_end) in spans:
        hidden = ~_in_blocks(topk_indices[start:end], select_block_size, k_end - k).repeat_interleave(groups, 0)
        masked = _hidden(name, atten_mask, end - start, k_end - k)
        hidden = hidden if masked is None else hidden | masked
        keys, values = (_heads_first(t[k:k_end], groups) for t in (key, value))
        weights, top, total = _softmax(_heads_first(query[start:end]), keys, scale_value, hidden)
        out.append(torch.matmul(weights, values).transpose(0, 1))
        tops.append(top)
        totals.append(total)
    return torch.cat(out).to(query.dtype), _statistics(tops), _statistics(totals)


def npu_nsa_select_attention_grad(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    **options: Any,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_nsa_select_attention` for query, key and value. Its results are found again."""

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        given = topk_indices, scale_value, head_num, select_block_size, select_block_count
        return npu_nsa_select_attention(q, k, v, *given, **options)[0]

    return wide_gradients(forward, (query, key, value), grad)
