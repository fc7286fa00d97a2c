"""Attention to some of the keys: those that an index names for each token, or blocks that a mask names."""

from itertools import accumulate
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._gradient import gradients, wide_gradients
from torch_npu._cpu_ops.inference_attention import attend, numbers, span

_LARGEST = 9223372036854775807
Lengths = Union[None, Tensor, Sequence[int]]


class Rows:
    """Where the queries and the keys of each sequence are. ``layout`` "BSND", "TND" (lengths are running sums), "PA_BSND"
    (keys in pages [pages, rows, ...], with ``table``)."""

    def __init__(
        self,
        layout_query: str,
        layout_key: str,
        query: Tensor,
        query_lengths: Lengths,
        key_lengths: Lengths,
        table: Optional[Tensor],
    ) -> None:
        if layout_query not in ("BSND", "TND") or layout_key not in ("BSND", "TND", "PA_BSND"):
            raise NotImplementedError(
                f"layouts {layout_query!r} and {layout_key!r} are not supported; BSND, TND and, for keys, PA_BSND are"
            )
        self.packed, self.layout_key, self.table = layout_query == "TND", layout_key, table
        self.query_lengths, self.key_lengths = numbers(query_lengths), numbers(key_lengths)
        self.batches = len(self.query_lengths) if self.packed else query.shape[0]

    def query(self, t: Tensor, b: int) -> Tensor:
        if self.packed:
            start, end = span(self.query_lengths, True, b, t.shape[0])
            return t[start:end]
        return t[b, : span(self.query_lengths, False, b, t.shape[1])[1]]

    def key(self, t: Tensor, b: int) -> Tensor:
        if self.layout_key == "PA_BSND":
            if self.table is None:
                raise ValueError("keys in the layout PA_BSND need block_table")
            length = self.key_lengths[b]
            return t[self.table[b].clamp(min=0).long()].flatten(0, 1)[:length]
        if self.layout_key == "TND":
            start, end = span(self.key_lengths, True, b, t.shape[0])
            return t[start:end]
        return t[b, : span(self.key_lengths, False, b, t.shape[1])[1]]


def chosen_keys(places: Tensor, block: int, keys: int, causal: bool) -> Tuple[Tensor, Tensor]:
    """(keys of each token [tokens, count * block], which of them are seen): blocks of ``block`` that ``places`` [tokens, count]
    names, -1 none; ``causal``: up to the token's own, counted from the end. Those that are not seen have the place 0."""
    tokens = places.shape[0]
    index = (places.long().unsqueeze(-1) * block + torch.arange(block, device=places.device)).flatten(1)
    seen = (places >= 0).repeat_interleave(block, -1) & (index < keys)
    if causal:
        seen = seen & (index <= torch.arange(keys - tokens, keys, device=places.device).unsqueeze(1))
    return torch.where(seen, index, 0), seen


def _attend_chosen(
    query: Tensor, key: Tensor, value: Tensor, places: Tensor, seen: Tensor, scale: float, sinks: Optional[Tensor]
) -> Tuple[Tensor, Tensor, Tensor]:
    """(attention [tokens, heads, size], greatest score and denominator of the softmax [tokens, heads]) of one sequence."""
    if key.shape[0] == 0:
        empty = query.new_zeros(query.shape[:2])
        return query.new_zeros(*query.shape[:2], value.shape[-1]), empty, empty
    scores = torch.einsum("snd,skd->snk", query, key[places]) * scale
    scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))
    top = scores.detach().amax(-1)
    top = torch.where(top == float("-inf"), 0.0, top)
    weights = torch.exp(scores - top.unsqueeze(-1))
    total = weights.sum(-1)
    if sinks is not None:
        total = total + torch.exp(wide(sinks) - top)
    weights = weights / torch.where(total == 0, 1.0, total).unsqueeze(-1)
    return torch.einsum("snk,skd->snd", weights, value[places]), top, total


def _with_rope(tensor: Tensor, rope: Optional[Tensor]) -> Tensor:
    return tensor if rope is None else torch.cat([tensor, rope], -1)


class _SparseFlashAttention(torch.autograd.Function):
    """The operator with the gradient that CANN has: of one layout for queries and keys, without sinks."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Optional[Tensor], query_rope: Optional[Tensor],
                key_rope: Optional[Tensor], places: Tensor, scale: float, options: Dict[str, Any]) -> Tuple[Tensor, ...]:
        operator = torch.ops.npu.npu_sparse_flash_attention
        with_statistics = {**options, "return_softmax_lse": True}
        results = operator(query, key, value, places, scale, query_rope=query_rope, key_rope=key_rope, **with_statistics)
        ctx.save_for_backward(query, key, value, query_rope, key_rope, places, *results)
        ctx.scale, ctx.options = scale, options
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        query, key, value, query_rope, key_rope, places, *results = ctx.saved_tensors
        o = ctx.options
        found = torch.ops.npu.npu_sparse_flash_attention_grad(
            query, key, value, places, grads[0], *results, ctx.scale, o["sparse_block_size"], query_rope, key_rope,
            o["actual_seq_lengths_query"], o["actual_seq_lengths_kv"], o["layout_query"], o["sparse_mode"])  # fmt: skip
        given = (query, key, value, query_rope, key_rope)
        return (*(None if t is None else g for t, g in zip(given, found)), None, None, None)


def npu_sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Optional[Tensor],
    sparse_indices: Tensor,
    scale_value: float,
    *,
    block_table: Optional[Tensor] = None,
    actual_seq_lengths_query: Optional[Tensor] = None,
    actual_seq_lengths_kv: Optional[Tensor] = None,
    query_rope: Optional[Tensor] = None,
    key_rope: Optional[Tensor] = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    return_softmax_lse: bool = False,
    sinks: Optional[Tensor] = None,
    **_: Any,
) -> Tuple[Tensor, Tensor, Tensor]:
    """``softmax(scale_value * (query key^T + query_rope key_rope^T)) value`` over the keys that ``sparse_indices`` names.

    ``query``: [batch, tokens, heads, size] ("BSND") or [tokens, heads, size] ("TND"); ``key`` and ``value`` with one head
    likewise, or pages [pages, rows, 1, size] ("PA_BSND") with ``block_table``; without ``value`` the keys are the values.
    ``sparse_indices``: int32 [..., 1, count], blocks of ``sparse_block_size`` keys, -1 none, behind the others. Lengths: of
    each sequence, packed ones as running sums. ``sparse_mode`` 3: a token sees keys up to its own, counted from the end; 0:
    all. ``sinks``: float32 [heads], a score that takes weight and has no value.

    Returns (attention like query, and with ``return_softmax_lse`` the greatest score and the softmax's denominator as float32
    [batch, 1, tokens, heads] or [1, tokens, heads], else empty). Has gradients for query, key, value and ropes.
    """
    name = "npu_sparse_flash_attention"
    if sparse_mode not in (0, 3) or key.shape[-2] != 1:
        raise NotImplementedError(
            f"{name}: sparse_mode {sparse_mode} (0 and 3 are supported), {key.shape[-2]} heads of key (1 is)"
        )
    if query.device.type == "npu" and sinks is None and layout_kv == layout_query:
        options = {"actual_seq_lengths_query": actual_seq_lengths_query, "actual_seq_lengths_kv": actual_seq_lengths_kv,
                   "sparse_block_size": sparse_block_size, "layout_query": layout_query, "layout_kv": layout_kv,
                   "sparse_mode": sparse_mode}
        results = _SparseFlashAttention.apply(query, key, value, query_rope, key_rope, sparse_indices, scale_value, options)
        return results if return_softmax_lse else (results[0], *(r.new_empty(0) for r in results[1:]))
    values = key if value is None else value
    out = query.new_zeros(*query.shape[:-1], values.shape[-1], dtype=wide(query).dtype)
    top, total = (query.new_zeros(query.shape[:-1], dtype=torch.float32) for _ in range(2))
    if query.device.type != "meta":
        rows = Rows(layout_query, layout_kv, query, actual_seq_lengths_query, actual_seq_lengths_kv, block_table)
        for b in range(rows.batches):
            q = wide(_with_rope(rows.query(query, b), None if query_rope is None else rows.query(query_rope, b)))
            k = wide(_with_rope(rows.key(key, b), None if key_rope is None else rows.key(key_rope, b)))[:, 0]
            places, seen = chosen_keys(rows.query(sparse_indices, b)[:, 0], sparse_block_size, k.shape[0], sparse_mode == 3)
            parts = _attend_chosen(q, k, wide(rows.key(values, b))[:, 0], places, seen, scale_value, sinks)
            rows.query(out, b).copy_(parts[0])
            rows.query(top, b).copy_(parts[1].detach())
            rows.query(total, b).copy_(parts[2].detach())
    out = out.to(query.dtype)
    if not return_softmax_lse:
        return out, top.new_empty(0), top.new_empty(0)
    dim = 0 if layout_query == "TND" else 1
    return out, top.unsqueeze(dim), total.unsqueeze(dim)


def npu_sparse_flash_attention_grad(
    query: Tensor,
    key: Tensor,
    value: Optional[Tensor],
    sparse_indices: Tensor,
    d_out: Tensor,
    out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    sparse_block_size: int,
    query_rope: Optional[Tensor] = None,
    key_rope: Optional[Tensor] = None,
    actual_seq_qlen: Optional[Tensor] = None,
    actual_seq_kvlen: Optional[Tensor] = None,
    layout: Optional[str] = "BSND",
    sparse_mode: Optional[int] = 3,
    pre_tokens: Optional[int] = _LARGEST,
    next_tokens: Optional[int] = _LARGEST,
    attention_mode: Optional[int] = 0,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_sparse_flash_attention` for query, key, value, query_rope and key_rope; empty for those not given.

    ``layout``: "BSND" or "TND" of all. Results and statistics of the attention are not needed: they are found again.
    """
    given = (query, key, value, query_rope, key_rope)
    if query.device.type == "meta":
        return tuple(query.new_empty(0) if t is None else torch.empty_like(t) for t in given)

    def forward(q: Tensor, k: Tensor, v: Optional[Tensor], q_rope: Optional[Tensor], k_rope: Optional[Tensor]) -> Tensor:
        return npu_sparse_flash_attention(
            q, k, v, sparse_indices, scale_value, actual_seq_lengths_query=actual_seq_qlen,
            actual_seq_lengths_kv=actual_seq_kvlen, query_rope=q_rope, key_rope=k_rope, sparse_block_size=sparse_block_size,
            layout_query=layout or "BSND", layout_kv=layout or "BSND", sparse_mode=3 if sparse_mode is None else sparse_mode,
        )[0]  # fmt: skip

    found: Sequence[Optional[Tensor]] = gradients(forward, [wide(t) for t in given], wide(d_out))
    return tuple(query.new_empty(0) if t is None or g is None else g.to(t.dtype) for g, t in zip(found, given))


# A quantised cache ----------------------------------------------------------------------------------------------------------


def sparse_rows(places: Tensor, block: int, length: int) -> Tensor:
    """The keys that blocks of ``block`` name, in their order; those behind ``length`` left out."""
    chosen = places[places >= 0].long()
    if block > 1:
        chosen = (chosen.unsqueeze(1) * block + torch.arange(block, device=chosen.device)).reshape(-1)
    return chosen[chosen < length]


def _tiles(packed: Tensor, rope_size: int, tile: int) -> Tuple[Tensor, Tensor]:
    """(latent in float32, rope) out of rows of int8: numbers, the bytes of a bfloat16 rope, the bytes of a float32 scale for each
    tile."""
    for size in range(tile, packed.shape[-1], tile):
        if size + 2 * rope_size + 4 * (size // tile) == packed.shape[-1]:
            break
    else:
        raise ValueError(
            f"npu_kv_quant_sparse_flash_attention: rows of {packed.shape[-1]} bytes are not numbers, a rope of "
            f"{rope_size} and a scale for each {tile} numbers"
        )
    raw = packed.contiguous()
    turned = raw[..., size : size + 2 * rope_size].contiguous().view(torch.bfloat16)
    scales = raw[..., size + 2 * rope_size :].contiguous().view(torch.float32)
    return raw[..., :size].float() * scales.repeat_interleave(tile, -1), turned.float()


def npu_kv_quant_sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    key_quant_mode: int,
    value_quant_mode: int,
    *,
    block_table: Optional[Tensor] = None,
    actual_seq_lengths_query: Optional[Tensor] = None,
    actual_seq_lengths_kv: Optional[Tensor] = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    quant_scale_repo_mode: int = 1,
    tile_size: int = 128,
    rope_head_dim: int = 64,
    **given: Any,
) -> Tensor:
    """Latent attention over the keys that ``sparse_indices`` names for each token, -1 none; the cache is int8.

    ``query`` [batch, length, heads, latent + rope] or, "TND", [tokens, ...]; ``key``: rows of bytes with one head: latent
    int8 numbers, a bfloat16 rope of ``rope_head_dim``, a float32 scale for each ``tile_size`` numbers; "PA_BSND": in pages
    with ``block_table``. The values are the latent parts of the keys. ``sparse_mode`` 3: a token sees keys up to its own,
    counted from the end. Returns [..., heads, latent]. Only modes 2, quant_scale_repo_mode 1 and attention_mode 2.
    """
    name = "npu_kv_quant_sparse_flash_attention"
    unsupported(name, "pre_tokens", "next_tokens", "attention_mode", **given)
    if (key_quant_mode, value_quant_mode, quant_scale_repo_mode) != (2, 2, 1) or key.dtype != torch.int8:
        raise NotImplementedError(f"{name}: only int8 caches with quant modes 2 and quant_scale_repo_mode 1 are supported")
    out = query.new_zeros(*query.shape[:-1], query.shape[-1] - rope_head_dim)
    if query.device.type == "meta":
        return out
    rows = Rows(layout_query, layout_kv, query, actual_seq_lengths_query, actual_seq_lengths_kv, block_table)
    for b in range(rows.batches):
        latent, turned = _tiles(rows.key(key, b)[:, 0], rope_head_dim, tile_size)
        whole = torch.cat([latent, turned], -1)
        q, target, places = rows.query(query, b), rows.query(out, b), rows.query(sparse_indices, b)
        for i in range(q.shape[0]):
            last = whole.shape[0] - q.shape[0] + i + 1 if sparse_mode == 3 else whole.shape[0]
            chosen = sparse_rows(places[i, 0], sparse_block_size, last)
            target[i] = (
                attend(q[i].unsqueeze(1), whole[chosen].unsqueeze(0), latent[chosen].unsqueeze(0), scale_value)[0]
                .squeeze(1)
                .to(out.dtype)
            )
    return out


# Blocks that a mask names ---------------------------------------------------------------------------------------------------


def _spans(layout: str, lengths: Optional[Sequence[int]], batch: int, rows: int) -> List[Tuple[int, int, int]]:
    """(batch, first, end) of each sequence: of packed ones rows of the tensor, of others rows of the batch."""
    if layout == "TND":
        ends = list(accumulate(lengths or ()))
        return [(0, first, end) for first, end in zip([0, *ends], ends)]
    return [(b, 0, rows if lengths is None else min(lengths[b], rows)) for b in range(batch)]


def _block_sparse(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    block_shape: Optional[Sequence[int]],
    layout: Tuple[str, str],
    lengths: Tuple[Optional[Sequence[int]], Optional[Sequence[int]]],
    scale: float,
) -> Tuple[Tensor, Tensor]:
    """(attention like query, logarithm of the sum of exponentials like query with a last dimension of 1) in float32."""
    name, source = "npu_block_sparse_attention", layout[0]
    if source not in ("TND", "BNSD") or layout[1] != source:
        raise NotImplementedError(f"{name}: layouts {layout} are not supported; TND and BNSD of both are")
    if (lengths[0] is None) != (lengths[1] is None) or (source == "TND" and lengths[0] is None):
        raise ValueError(
            f"{name}: actual_seq_lengths and actual_seq_lengths_kv must both be given for TND, and both or none for BNSD"
        )
    if block_shape is None or len(block_shape) < 2 or min(block_shape[:2]) <= 0:
        raise ValueError(f"{name}: block_shape {block_shape} is not two positive sizes, of queries and of keys")
    q, k, v = (wide(t.transpose(0, 1).unsqueeze(0) if source == "TND" else t) for t in (query, key, value))
    out, sums = q.new_zeros(*q.shape[:-1], v.shape[-1]), q.new_zeros(*q.shape[:-1], 1)
    spans = zip(_spans(source, lengths[0], q.shape[0], q.shape[2]), _spans(source, lengths[1], k.shape[0], k.shape[2]))
    for i, ((b, first, end), (_, k_first, k_end)) in enumerate(spans):
        hidden = ~mask[i].bool().repeat_interleave(block_shape[0], -2).repeat_interleave(block_shape[1], -1)
        hidden = hidden[:, : end - first, : k_end - k_first]
        found, lse = attend(q[b, :, first:end], k[b, :, k_first:k_end], v[b, :, k_first:k_end], scale, hidden)
        out[b, :, first:end].copy_(found)
        sums[b, :, first:end, 0].copy_(lse)
    return (out[0].transpose(0, 1), sums[0].transpose(0, 1)) if source == "TND" else (out, sums)


def npu_block_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_sparse_mask: Tensor,
    block_shape: Sequence[int],
    *,
    q_input_layout: str = "TND",
    kv_input_layout: str = "TND",
    num_key_value_heads: int = 1,
    scale_value: float = 0.0,
    inner_precise: int = 1,
    actual_seq_lengths: Optional[Sequence[int]] = None,
    actual_seq_lengths_kv: Optional[Sequence[int]] = None,
    softmax_lse_flag: Optional[int] = 0,
) -> Tuple[Tensor, Tensor]:
    """``softmax(scale_value * query key^T) value`` over the blocks where ``block_sparse_mask`` is 1.

    ``query``: [tokens, heads, size] ("TND") or [batch, heads, tokens, size] ("BNSD"); ``key`` and ``value`` with
    ``num_key_value_heads`` heads likewise; ``block_sparse_mask``: int8 [batch, heads, ceil(longest / block_shape[0]),
    ceil(longest of keys / block_shape[1])]. The lengths of the sequences must be given for "TND"; those of "BNSD" may be
    shorter than the tensors. ``inner_precise`` tunes hardware. Returns (attention like query, logarithm of the sum of
    exponentials as float32 like query with a last dimension of 1, whatever ``softmax_lse_flag`` says). Tokens that see nothing,
    or lie behind a length, are 0. Has gradients for query, key and value.
    """
    layouts, lengths = (q_input_layout, kv_input_layout), (actual_seq_lengths, actual_seq_lengths_kv)
    out, sums = _block_sparse(query, key, value, block_sparse_mask, block_shape, layouts, lengths, scale_value)
    return out.contiguous().to(query.dtype), sums.detach().float().contiguous()


def npu_block_sparse_attention_backward(
    d_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_lse: Tensor,
    block_sparse_mask: Tensor,
    block_shape: Optional[Sequence[int]],
    actual_seq_lengths: Optional[Sequence[int]],
    actual_seq_lengths_kv: Optional[Sequence[int]],
    q_input_layout: str,
    kv_input_layout: str,
    num_key_value_heads: int,
    scale_value: float,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_block_sparse_attention` for query, key and value. Its results are found again."""
    layouts, lengths = (q_input_layout, kv_input_layout), (actual_seq_lengths, actual_seq_lengths_kv)

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _block_sparse(q, k, v, block_sparse_mask, block_shape, layouts, lengths, scale_value)[0]

    return wide_gradients(forward, (query, key, value), d_out)
