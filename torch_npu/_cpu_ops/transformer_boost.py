"""The operators of Ascend's transformer library (ATB) that serving calls: torch.ops.atb.*, ``torch_npu._npu_*``,
``torch_npu.atb.*``.

Lengths are tensors on the host. A mask only says that a sequence is causal: it is not read, unless it has a row for each token.
"""

import itertools
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

import torch_npu._C
from torch_npu._cpu_ops._cache import rms_norm, write_slots
from torch_npu._cpu_ops._common import no_workspace, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8
from torch_npu._cpu_ops.inference_attention import attend, numbers, pages_of


def causal_mask(rows: int, columns: int, device: torch.device) -> Tensor:
    ahead = torch.arange(columns, device=device) - torch.arange(rows, device=device).unsqueeze(1)
    return (ahead > columns - rows).unsqueeze(0)


def _rows(cache: Tensor, table: Tensor, heads: int, length: int) -> Tensor:
    """One sequence out of pages [pages, rows, heads, size], [heads, rows, size]."""
    return pages_of(cache.flatten(2), table, heads, length)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: List[int],
    key_lengths: List[int],
    kv_heads: int,
    scale: float,
    causal: bool,
    out: Tensor,
    table: Optional[Tensor] = None,
) -> bool:
    """The same as the loops over sequences below by one operator of the NPU, where its documented limits allow: float16 and
    bfloat16, one new token each over pages, or heads of 128 elements. False if they do not, and nothing is done."""
    one_each, size, page = max(lengths, default=0) == 1, query.shape[-1], 16 if table is None else key.shape[1]
    takes = query.dtype in (torch.float16, torch.bfloat16) and query.dtype == key.dtype == value.dtype and page % 16 == 0
    decoding = takes and one_each and table is not None and min(lengths) == 1 and page <= 512 and len(lengths) == len(query)
    if query.device.type != "npu" or key.shape[-1] != value.shape[-1] or not (decoding or (takes and size == 128)):
        return False
    options: dict = {}
    if table is not None:
        key, value = key.flatten(2), value.flatten(2)
        options.update(block_table=table[: len(lengths)], block_size=page)
    if decoding:
        query, layout = query.unsqueeze(1), "BSND"
    else:
        layout = "TND"
        options.update(actual_seq_lengths=list(itertools.accumulate(lengths)))
        if causal:
            options.update(sparse_mode=3, atten_mask=torch_npu._C._compressed_causal_mask(query.device))
        if table is None:
            key_lengths = list(itertools.accumulate(key_lengths))
    y = torch.ops.npu.npu_fused_infer_attention_score(
        query,
        key,
        value,
        num_heads=query.shape[-2],
        num_key_value_heads=kv_heads,
        scale=scale,
        input_layout=layout,
        actual_seq_lengths_kv=key_lengths,
        **options,
    )[0]
    rows = sum(lengths)
    out[:rows] = y.reshape(len(query), -1)[:rows].view(out[:rows].shape)
    return True


def attend_paged(
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
    alibi: Optional[Tensor] = None,
    causal: bool = True,
    sums: Optional[Tensor] = None,
) -> None:
    """Sequences of new tokens, packed [tokens, heads, size] or [tokens, heads * size], each over its pages; causal to the last
    key. ``alibi`` [heads, 1, keys], also for each sequence, is added to the scores; ``sums`` [heads, tokens] takes their
    logsumexp."""
    if query.device.type == "meta":
        return
    if query.dim() == 2:
        query = query.unflatten(1, (-1, key_cache.flatten(2).shape[2] // kv_heads))
    if mask is not None and (mask.dim() != 2 or mask.shape[0] != query.shape[0] or mask.shape[1] < max(contexts)):
        mask = None  # without a row for each token
    plain = mask is None and alibi is None and sums is None and causal
    if plain and _fused(query, key_cache, value_cache, lengths, contexts, kv_heads, scale, True, out, table):
        return
    start = 0
    for b, (length, context) in enumerate(zip(lengths, contexts)):
        rows = slice(start, start + length)
        q = query[rows].transpose(0, 1)
        k, v = _rows(key_cache, table[b], kv_heads, context), _rows(value_cache, table[b], kv_heads, context)
        hidden = causal_mask(length, context, q.device) if causal else None
        if mask is not None:
            hidden = (mask[rows, :context] != 0).unsqueeze(0)
        bias = None if alibi is None else (alibi[b] if alibi.dim() == 4 else alibi)[..., :context]
        y, lse = attend(q, k, v, scale, hidden, bias)
        out[rows] = y.transpose(0, 1).reshape(out[rows].shape).to(out.dtype)
        if sums is not None:
            sums[:, rows] = lse
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

    ``query`` [tokens, heads, size] or [tokens, heads * size], caches [pages, rows, kv heads, size], ``block_table`` int32
    [tokens, pages], ``context_lens`` int32 [tokens]. ``workspace`` is not needed.
    """
    contexts = numbers(context_lens)
    attend_paged(query, key_cache, value_cache, block_table, [1] * len(contexts), contexts, num_kv_heads, scale_value, out)


_npu_paged_attention_get_workspace = no_workspace("_npu_paged_attention")


def _npu_paged_attention_v2_out(
    query: Tensor,
    key_cache: Tensor,
    block_table: Tensor,
    context_lens: List[int],
    *,
    value_cache: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    num_kv_heads: int = 0,
    num_heads: int = 0,
    scale_value: float = 1.0,
    mask_type: int = 0,
    out: Tensor,
    **_: Any,
) -> Tensor:
    """:func:`_npu_paged_attention` with the lengths as a list. ``mask_type`` 2: ``mask`` [heads, 1, keys], also for each
    sequence, is ALiBi's bias; 0: none. Raises NotImplementedError for others."""
    if mask_type not in (0, 2):
        raise NotImplementedError(f"_npu_paged_attention_v2: mask_type {mask_type} is not supported, only 0 (none) and 2 (ALiBi)")
    alibi = mask if mask_type == 2 else None
    contexts, values = list(context_lens), key_cache if value_cache is None else value_cache
    ones = [1] * len(contexts)
    attend_paged(
        query, key_cache, values, block_table, ones, contexts, num_kv_heads or num_heads, scale_value, out, alibi=alibi
    )
    return out


_npu_paged_attention_v2_get_workspace = no_workspace("_npu_paged_attention_v2")


def _npu_paged_attention_quant(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    quant_type: int,
    outdata_type: int,
    k_descale: Tensor,
    v_descale: Tensor,
    out: Tensor,
) -> None:
    """:func:`_npu_paged_attention` over int8 caches, whose numbers are times ``k_descale``, ``v_descale`` float32 [kv heads *
    size]. Raises NotImplementedError where ``quant_type`` is not 1: int8 queries."""
    if quant_type != 1:
        raise NotImplementedError(f"_npu_paged_attention_quant: quant_type {quant_type} is not supported, only 1, int8 caches")
    pairs = (key_cache, k_descale), (value_cache, v_descale)
    k, v = (wide(cache) * wide(scale).view(cache.shape[2:]) for cache, scale in pairs)
    _npu_paged_attention(query, k, v, num_kv_heads, num_heads, scale_value, block_table, context_lens, out)


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
    attend_paged(
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
    attend_paged(
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


class _Mask(NamedTuple):
    """What packed sequences see of themselves: of ``kind``, mask types of the transformer library; ``given`` is the mask of kind
    2, the slopes of 4 and 5."""

    kind: int
    given: Any = None

    def of(self, sequence: int, rows: int, device: torch.device) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """(hidden, bias) of one sequence, [heads or 1, rows, rows]."""
        if self.kind == 0:
            return None, None
        hidden = causal_mask(rows, rows, device)
        if self.kind in (1, 3):  # the square of a triangle is not read
            return hidden, None
        if self.kind == 2:
            bias = self.given if self.given.dim() == 3 else self.given[sequence if len(self.given) > 1 else 0]
            return hidden, bias[..., :rows, :rows]
        at = torch.arange(rows, device=device)
        distance = (at.unsqueeze(1) - at).clamp(min=0).float()
        return hidden, -wide(self.given).view(-1, 1, 1) * (distance if self.kind == 4 else distance.sqrt())


def _packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: List[int],
    heads: int,
    kv_heads: int,
    scale: float,
    mask: _Mask,
    out: Tensor,
) -> None:
    if query.device.type == "meta":
        return
    q, k, v = (t.view(len(t), n, -1) for t, n in ((query, heads), (key, kv_heads), (value, kv_heads)))
    if mask.kind in (0, 1, 3) and _fused(q, k, v, lengths, lengths, kv_heads, scale, mask.kind != 0, out):
        return
    start = 0
    for b, length in enumerate(lengths):
        rows = slice(start, start + length)
        query_rows, key_rows, value_rows = (t[rows].transpose(0, 1) for t in (q, k, v))
        y = attend(query_rows, key_rows, value_rows, scale, *mask.of(b, length, q.device))[0].transpose(0, 1)
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
    _packed(query, key, value, numbers(seq_len), num_heads, num_kv_heads, scale_value, _Mask(1), out)


def _npu_flash_attention_v2_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: List[int],
    *,
    mask: Optional[Tensor] = None,
    slopes: Optional[Tensor] = None,
    mask_type: int = 2,
    scale_value: float = 1,
    num_heads: int = 0,
    num_kv_heads: int = 0,
    out: Tensor,
    **_: Any,
) -> Tensor:
    """:func:`_npu_flash_attention` with the lengths as a list. ``mask_type``: 0 none; 1 and 3 causal; 2 causal, and ``mask``
    [heads, rows, rows], also for each sequence, is added (ALiBi); 4 and 5 causal, less ``slopes`` [heads] times the distance,
    or its root. Raises NotImplementedError for others."""
    if not 0 <= mask_type <= 5:
        raise NotImplementedError(f"_npu_flash_attention_v2: mask_type {mask_type} is not supported, only 0 to 5")
    kinds = _Mask(mask_type, mask if mask_type == 2 else slopes)
    _packed(query, key, value, list(seq_len), num_heads, num_kv_heads or num_heads, scale_value, kinds, out)
    return out


def _npu_flash_attention_prefix_v2_out(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: List[int],
    context_lens: List[int],
    *,
    slopes: Optional[Tensor] = None,
    mask_type: int = 3,
    num_kv_heads: int = 0,
    num_heads: int = 0,
    scale_value: float = 1,
    out: Tensor,
    **_: Any,
) -> Tensor:
    """:func:`_npu_paged_attention_splitfuse` with the lengths as lists; the compressed mask is not read. Raises
    NotImplementedError for ``mask_type`` 4 and 5, ALiBi."""
    if mask_type != 3:
        raise NotImplementedError(f"_npu_flash_attention_prefix_v2: mask_type {mask_type} is not supported, only 3 (causal)")
    lengths, contexts = list(seq_len), list(context_lens)
    attend_paged(query, key_cache, value_cache, block_table, lengths, contexts, num_kv_heads or num_heads, scale_value, out)
    return out


def npu_self_attention_prefix_encoder_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_tables: Tensor,
    seqlen: List[int],
    kv_seqlen: List[int],
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    *,
    mask_type: Optional[str] = None,
    output: Tensor,
    **_: Any,
) -> Tensor:
    """:func:`npu_self_attention_prefix_encoder` into ``output``."""
    if mask_type not in (None, "mask_type_causal_mask", "mask_type_norm_compress"):
        raise NotImplementedError(f"npu_self_attention_prefix_encoder: mask_type {mask_type!r} is not supported, only causal")
    lengths, contexts = list(seqlen), list(kv_seqlen)
    attend_paged(query, key, value, block_tables, lengths, contexts, kv_headnum, qk_scale, output)
    return output


def npu_self_attention_prefix_encoder(query: Tensor, *args: Any, **options: Any) -> Tensor:
    """Causal attention of ``seqlen`` new tokens of each sequence, packed [tokens, heads, size] or [tokens, heads * size], over
    ``kv_seqlen`` rows of its pages [pages, rows, kv heads, size]; shaped as the query."""
    return npu_self_attention_prefix_encoder_out(query, *args, **options, output=torch.empty_like(query))


def _npu_flash_attention_v3(*args: Any, mask_type: Optional[int] = 3, **options: Any) -> None:
    """:func:`_npu_flash_attention` with a compressed mask."""
    _npu_flash_attention(*args, **options)


def _npu_flash_attention_unpad(
    query: Tensor, key: Tensor, value: Tensor, seq_len: Tensor, scale_value: float, num_heads: int, num_kv_heads: int, out: Tensor
) -> None:
    """:func:`_npu_flash_attention` without a mask: all tokens of a sequence see each other."""
    _packed(query, key, value, numbers(seq_len), num_heads, num_kv_heads, scale_value, _Mask(0), out)


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


def _npu_quant_rms_norm(
    self: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, output: Tensor, eps: float = 1e-05
) -> None:
    """Writes ``round((self / rms(self) * gamma + beta) / scale + offset)`` as int8 into ``output``."""
    output.copy_(as_int8((rms_norm(self, gamma, eps) + wide(beta)) / wide(scale) + wide(offset)))


def npu_fused_add_topk_div(
    x: Tensor,
    add_num: Tensor,
    *,
    activation_type: Optional[str] = None,
    group_num: int = 1,
    group_topk: int = 1,
    n: int = 1,
    k: int = 1,
    is_norm: bool = True,
    scale: float = 1,
    enable_expert_mapping: bool = False,
    **_: Any,
) -> Tuple[Tensor, Tensor]:
    """The experts of tokens: the ``k`` greatest of ``sigmoid(x) + add_num`` [tokens, experts] within the ``group_topk`` best of
    ``group_num`` groups, which count by the sum of their ``n`` best. Returns (``sigmoid(x)`` of those, divided by its sum where
    ``is_norm``, times ``scale``, float32 [tokens, k]; their indices, int32). Raises NotImplementedError for mapped experts."""
    unsupported("npu_fused_add_topk_div", enable_expert_mapping=enable_expert_mapping or None)
    if activation_type not in (None, "activation_sigmoid"):
        raise NotImplementedError(f"npu_fused_add_topk_div: activation_type {activation_type!r} is not 'activation_sigmoid'")
    score = wide(x).sigmoid()
    groups = (score + wide(add_num)).unflatten(-1, (group_num, -1))
    best = groups.topk(n, -1)[0].sum(-1).topk(group_topk, -1)[1]
    kept = torch.zeros(groups.shape[:-1], dtype=torch.bool, device=x.device).scatter_(-1, best, True)
    chosen = groups.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(-2).topk(k, -1)[1]
    weight = score.gather(-1, chosen)
    if is_norm:
        weight = weight / weight.sum(-1, keepdim=True)
    return (weight * scale).float(), chosen.int()


def npu_fused_add_topk_div_out(*args: Any, y: Tensor, indices: Tensor, **options: Any) -> Tuple[Tensor, Tensor]:
    """:func:`npu_fused_add_topk_div` into ``y`` and ``indices``."""
    weight, chosen = npu_fused_add_topk_div(*args, **options)
    return y.copy_(weight), indices.copy_(chosen)


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
