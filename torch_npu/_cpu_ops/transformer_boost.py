"""The operators of Ascend's transformer library (ATB) that serving calls: torch.ops.atb.*, ``torch_npu._npu_*``,
``torch_npu.atb.*``.

Lengths are tensors on the host. A mask only says that a sequence is causal: it is not read, unless it has a row for each token.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._cache import write_slots
from torch_npu._cpu_ops._common import no_workspace, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8
from torch_npu._cpu_ops.inference_attention import attend, numbers, pages_of


def _causal(rows: int, columns: int, device: torch.device) -> Tensor:
    ahead = torch.arange(columns, device=device) - torch.arange(rows, device=device).unsqueeze(1)
    return (ahead > columns - rows).unsqueeze(0)


def _rows(cache: Tensor, table: Tensor, heads: int, length: int) -> Tensor:
    """One sequence out of pages [pages, rows, heads, size], [heads, rows, size]."""
    return pages_of(cache.flatten(2), table, heads, length)


def _attend_paged(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    table: Tensor,
    lengths: List[int],
    contexts: List[int],
    kv_heads: int,
    scale: float,
    out: Tensor,
    mask: Optional[Tensor] = None,
) -> None:
    """Sequences of new tokens, packed, each over its pages; causal to the last key."""
    if query.device.type == "meta":
        return
    start = 0
    if mask is not None and (mask.dim() != 2 or mask.shape[0] != query.shape[0] or mask.shape[1] < max(contexts)):
        mask = None  # without a row for each token
    for b, (length, context) in enumerate(zip(lengths, contexts)):
        q = query[start : start + length].transpose(0, 1)
        k, v = _rows(key_cache, table[b], kv_heads, context), _rows(value_cache, table[b], kv_heads, context)
        hidden = _causal(length, context, q.device)
        if mask is not None:
            hidden = (mask[start : start + length, :context] != 0).unsqueeze(0)
        y = attend(q, k, v, scale, hidden)[0].transpose(0, 1)
        out[start : start + length] = y.reshape(out[start : start + length].shape).to(out.dtype)
        start += length


def _npu_paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    **_: Any,
) -> None:
    """Attention of one new token of each sequence over its cache in pages, into ``out`` [tokens, heads, size].

    ``query`` [tokens, heads, size], caches [pages, rows, kv heads, size], ``block_table`` int32 [tokens, pages],
    ``context_lens`` int32 [tokens]. ``workspace`` is not needed.
    """
    contexts = numbers(context_lens)
    _attend_paged(query, key_cache, value_cache, block_table, [1] * len(contexts), contexts, num_kv_heads, scale_value, out)


_npu_paged_attention_get_workspace = no_workspace("_npu_paged_attention")


def _npu_paged_attention_mla(
    query: Tensor,
    key_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    mla_vheadsize: int,
    out: Tensor,
) -> None:
    """:func:`_npu_paged_attention` whose values are the first ``mla_vheadsize`` elements of the keys."""
    contexts = numbers(context_lens)
    _attend_paged(
        query,
        key_cache,
        key_cache[..., :mla_vheadsize],
        block_table,
        [1] * len(contexts),
        contexts,
        num_kv_heads,
        scale_value,
        out,
    )


def _npu_paged_attention_splitfuse(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> None:
    """:func:`_npu_paged_attention` of ``seq_len`` new tokens of each sequence, packed, causal; ``mask`` may have a row for
    each token, not 0 where a key does not count."""
    _attend_paged(
        query, key_cache, value_cache, block_table, numbers(seq_len), numbers(context_lens), num_kv_heads, scale_value, out, mask
    )


def _npu_paged_attention_splitfuse_v2(*args: Any, mask_type: Optional[int] = 5, **options: Any) -> None:
    """:func:`_npu_paged_attention_splitfuse` with a compressed mask."""
    _npu_paged_attention_splitfuse(*args, **options)


def _npu_flash_attention_qlens(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    context_lens: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> None:
    """:func:`_npu_paged_attention_splitfuse` with its arguments in another order."""
    _npu_paged_attention_splitfuse(
        query, key_cache, value_cache, block_table, context_lens, mask, seq_len, num_kv_heads, num_heads, scale_value, out
    )


def _packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: List[int],
    heads: int,
    kv_heads: int,
    scale: float,
    causal: bool,
    out: Tensor,
) -> None:
    if query.device.type == "meta":
        return
    start = 0
    for length in lengths:
        rows = slice(start, start + length)
        q, k, v = (
            t[rows].reshape(length, n, -1).transpose(0, 1) for t, n in ((query, heads), (key, kv_heads), (value, kv_heads))
        )
        y = attend(q, k, v, scale, _causal(length, length, q.device) if causal else None)[0].transpose(0, 1)
        out[rows] = y.reshape(out[rows].shape).to(out.dtype)
        start += length


def _npu_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> None:
    """Causal attention of packed sequences [tokens, heads, size], of ``seq_len`` tokens each, into ``out``."""
    _packed(query, key, value, numbers(seq_len), num_heads, num_kv_heads, scale_value, True, out)


def _npu_flash_attention_v3(*args: Any, mask_type: Optional[int] = 3, **options: Any) -> None:
    """:func:`_npu_flash_attention` with a compressed mask."""
    _npu_flash_attention(*args, **options)


def _npu_flash_attention_unpad(
    query: Tensor, key: Tensor, value: Tensor, seq_len: Tensor, scale_value: float, num_heads: int, num_kv_heads: int, out: Tensor
) -> None:
    """:func:`_npu_flash_attention` without a mask: all tokens of a sequence see each other."""
    _packed(query, key, value, numbers(seq_len), num_heads, num_kv_heads, scale_value, False, out)


def _npu_flash_attention_unpad_v2(*args: Any, kernel_type: Optional[int] = 0, **options: Any) -> None:
    """:func:`_npu_flash_attention_unpad`; ``kernel_type`` tunes hardware."""
    _npu_flash_attention_unpad(*args, **options)


def _npu_reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor) -> None:
    """Writes keys and values [tokens, heads, size] into caches [pages, rows, heads, size] at the slots int32 [tokens], none where
    negative."""
    for rows, cache in ((key, key_cache), (value, value_cache)):
        write_slots(cache, slot_indices, rows, False)


def _npu_reshape_and_cache_siso(key: Tensor, key_cache: Tensor, slot_indices: Tensor) -> None:
    """:func:`_npu_reshape_and_cache` for one tensor."""
    write_slots(key_cache, slot_indices, key, False)


def _npu_rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool
) -> None:
    """Turns queries and keys [tokens, heads * head_size] in place, the first elements of each head, as many as ``cos_sin_cache``
    [positions, cosines and sines] has: in halves (``is_neox_style``) or in neighbours."""
    cos, sin = (t.unsqueeze(-2) for t in wide(cos_sin_cache)[positions.reshape(-1).long()].chunk(2, -1))
    turned = cos_sin_cache.shape[-1]
    for t in (query, key):
        heads = t.reshape(positions.numel(), -1, head_size)
        x = wide(heads[..., :turned])
        a, b = x.chunk(2, -1) if is_neox_style else (x[..., ::2], x[..., 1::2])
        parts = [a * cos - b * sin, b * cos + a * sin]
        y = torch.cat(parts, -1) if is_neox_style else torch.stack(parts, -1).flatten(-2)
        t.copy_(torch.cat([y.to(t.dtype), heads[..., turned:]], -1).reshape(t.shape))


def _npu_group_topk(self: Tensor, k: int = 0, group_num: int = 1, n: int = 1) -> None:
    """Sets the scores [tokens, experts] outside the ``k`` best of ``group_num`` groups to 0, in place; a group counts by the
    sum of its ``n`` best."""
    groups = self.unflatten(-1, (group_num, -1))
    best = wide(groups).topk(n, -1)[0].sum(-1).topk(k, -1)[1]
    kept = torch.zeros(groups.shape[:-1], dtype=torch.bool, device=self.device).scatter_(-1, best, True)
    self.copy_(torch.where(kept.unsqueeze(-1), groups, 0).flatten(-2))


def _npu_matmul_add_fp32(x: Tensor, weight: Tensor, C: Tensor) -> None:
    """Adds ``x^T @ weight`` to ``C``, float32 [m, n], in place: x [k, m], weight [k, n]."""
    C.add_(torch.matmul(wide(x).t(), wide(weight)))


def _npu_quantize_per_tensor(x: Tensor, scale: Tensor, zero_point: Tensor, y: Tensor) -> None:
    """Writes ``round(x / scale) + zero_point`` as int8 into ``y``."""
    y.copy_(as_int8((wide(x) / wide(scale)).round() + wide(zero_point)))


def npu_multi_head_latent_attention(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: List[int],
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    *,
    qseqlen: Optional[List[int]] = None,
    cache_mode: Optional[str] = None,
    **given: Any,
) -> Tensor:
    """Latent attention over caches in pages: ``q_nope`` [tokens, heads, latent] and ``q_rope`` [tokens, heads, rope];
    ``ctkv`` [pages, rows, kv heads, latent], which are the values too, and ``k_rope`` [pages, rows, kv heads, rope].
    ``qseqlen``: new tokens of each sequence (one without it), causal. Returns [tokens, heads, latent]. Raises
    NotImplementedError for int8 caches."""
    unsupported(
        "npu_multi_head_latent_attention",
        *("mask", "mask_type", "calc_type"),
        **given,
        cache_mode=None if cache_mode in (None, "krope_ctkv") else cache_mode,
    )
    out = torch.empty_like(q_nope)
    lengths = list(qseqlen or [1] * len(context_lens))
    _attend_paged(
        torch.cat([q_nope, q_rope], -1),
        torch.cat([ctkv, k_rope], -1),
        ctkv,
        block_tables,
        lengths,
        list(context_lens),
        kv_headnum,
        qk_scale,
        out,
    )
    return out


def npu_multi_head_latent_attention_out(*args: Any, output: Tensor, **options: Any) -> Tensor:
    """:func:`npu_multi_head_latent_attention` into ``output``."""
    return output.copy_(npu_multi_head_latent_attention(*args, **options))


def npu_ring_mla(
    q_nope: Tensor,
    q_rope: Tensor,
    k_nope: Tensor,
    k_rope: Tensor,
    value: Tensor,
    mask: Tensor,
    seqlen: Tensor,
    head_num: int,
    kv_head_num: int,
    *,
    pre_out: Optional[Tensor] = None,
    prev_lse: Optional[Tensor] = None,
    qk_scale: float = 1,
    mask_type: Optional[str] = None,
    calc_type: Optional[str] = None,
    **_: Any,
) -> Tuple[Tensor, Tensor]:
    """Attention of packed sequences over one part of the keys, joined to that over the parts before.

    ``q_nope``, ``q_rope``, ``k_nope``, ``k_rope``, ``value`` [tokens, heads, size]; ``seqlen`` int32 [sequences], or [2,
    sequences] for queries and keys. ``mask_type`` "mask_type_triu": causal; "no_mask". ``calc_type`` "calc_type_first_ring":
    the first part; otherwise ``pre_out`` and ``prev_lse`` are the results so far. Returns (attention [tokens, heads, size],
    logsumexp float32 [heads, tokens]).
    """
    out = q_nope.new_zeros(*q_nope.shape[:-1], value.shape[-1])
    sums = torch.zeros(head_num, q_nope.shape[0], device=q_nope.device)
    if q_nope.device.type == "meta":
        return out, sums
    lengths = seqlen.tolist() if seqlen.dim() == 2 else [seqlen.tolist()] * 2
    query, key = torch.cat([q_nope, q_rope], -1), torch.cat([k_nope, k_rope], -1)
    start = k_start = 0
    for length, k_length in zip(*lengths):
        rows, columns = slice(start, start + length), slice(k_start, k_start + k_length)
        hidden = None if mask_type in (None, "no_mask", "undefined") else _causal(length, k_length, query.device)
        y, lse = attend(
            query[rows].transpose(0, 1), key[columns].transpose(0, 1), value[columns].transpose(0, 1), qk_scale, hidden
        )
        y = y.transpose(0, 1)
        lse = torch.where(lse == float("inf"), float("-inf"), lse)
        if pre_out is not None and calc_type != "calc_type_first_ring":
            before = wide(prev_lse)[:, rows]
            joined = torch.logaddexp(before, lse)
            shares = [(part - joined).exp().nan_to_num().transpose(0, 1).unsqueeze(-1) for part in (before, lse)]
            y, lse = wide(pre_out)[rows] * shares[0] + y * shares[1], joined
        out[rows], sums[:, rows] = y.to(out.dtype), lse
        start, k_start = start + length, k_start + k_length
    return out, sums


def npu_ring_mla_out(*args: Any, output: Tensor, softmax_lse: Tensor, **options: Any) -> Tuple[Tensor, Tensor]:
    """:func:`npu_ring_mla` into ``output`` and ``softmax_lse``."""
    found, sums = npu_ring_mla(*args, **options)
    return output.copy_(found), softmax_lse.copy_(sums)


def npu_paged_cache_load_out(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    *,
    seq_starts: Optional[Tensor] = None,
    cumsum: bool = False,
    key: Tensor,
    value: Tensor,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_paged_cache_load` into ``key`` and ``value``."""
    torch.ops.npu.npu_gather_pa_kv_cache(
        key_cache, value_cache, block_table, context_lens, key, value, seq_offset=seq_starts, is_seq_lens_cumsum=cumsum
    )
    return key, value


def npu_paged_cache_load(
    key_cache: Tensor, value_cache: Tensor, block_table: Tensor, context_lens: Tensor, *, cumsum: bool = False, **options: Any
) -> Tuple[Tensor, Tensor]:
    """The sequences of caches in pages [pages, rows, heads, size], one after the other: (keys, values) [tokens, heads, size]."""
    ends = context_lens.tolist()
    total = ends[-1] if cumsum else sum(ends)
    key, value = (cache.new_empty(total, *cache.shape[2:]) for cache in (key_cache, value_cache))
    caches = key_cache, value_cache, block_table, context_lens
    return npu_paged_cache_load_out(*caches, cumsum=cumsum, **options, key=key, value=value)
