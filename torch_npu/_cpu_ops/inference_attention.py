"""The fused attention of inference: one sequence after the other, each with a length of its own."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import no_workspace, unsupported, wide
from torch_npu._cpu_ops._int8 import numbers_of_scale

_UNLIMITED = 2147483647
_PACKED = ("TND", "NTD")


def sequence_of(tensor: Tensor, layout: str, heads: int, batch: int, start: int, end: int) -> Tensor:
    """Sequence ``batch`` of a tensor in ``layout`` as [heads, rows, size]; of packed ones, rows [start, end)."""
    if layout == "BNSD":
        return tensor[batch, :, start:end]
    if layout == "BSND":
        return tensor[batch, start:end].transpose(0, 1)
    if layout == "BSH":
        return tensor[batch, start:end].unflatten(-1, (heads, tensor.shape[-1] // heads)).transpose(0, 1)
    if layout == "NBSD":
        return tensor[:, batch, start:end]
    return tensor[start:end].transpose(0, 1) if layout == "TND" else tensor[:, start:end]


def pages_of(cache: Tensor, table: Tensor, heads: int, length: int) -> Tensor:
    """The pages of one sequence as [heads, rows, size]: they are [rows, heads * size], [heads, rows, size] or
    [heads, size / 16, rows, 16] each."""
    pages = cache[table.clamp(min=0).long()]
    if pages.dim() == 5:
        pages = pages.transpose(2, 3).flatten(3)
    if pages.dim() == 3:
        pages = pages.unflatten(-1, (heads, pages.shape[-1] // heads)).transpose(1, 2)
    return pages.transpose(0, 1).flatten(1, 2)[:, :length]


def numbers(lengths: Union[None, Tensor, Sequence[int]]) -> List[int]:
    """Lengths as a list, out of a tensor or a list; none for a tensor without content."""
    if isinstance(lengths, torch.Tensor):
        return [] if lengths.device.type == "meta" else lengths.tolist()
    return list(lengths or ())


def span(lengths: List[int], summed: bool, batch: int, rows: int) -> Tuple[int, int]:
    """(first, last) row of a sequence. ``lengths``: running sums, or one for each, or one for all; none: all rows."""
    if not lengths:
        return 0, rows
    if summed:
        return lengths[batch - 1] if batch else 0, lengths[batch]
    return 0, min(lengths[min(batch, len(lengths) - 1)], rows)


def _hidden(
    mask: Optional[Tensor],
    mode: int,
    before: int,
    after: int,
    batch: int,
    batches: int,
    rows: int,
    columns: int,
    device: torch.device,
) -> Optional[Tensor]:
    """Scores that do not count, [1, rows, columns], or None."""
    ahead = torch.arange(columns, device=device) - torch.arange(rows, device=device).unsqueeze(1)
    if mode == 2:
        return (ahead > 0).unsqueeze(0)
    if mode == 3:
        return (ahead > columns - rows).unsqueeze(0)
    if mode == 4:
        ahead = ahead - (columns - rows)
        return ((ahead < -before) | (ahead > after)).unsqueeze(0)
    if mask is None:
        return None
    mask = mask.bool()
    if mask.dim() == 2 and rows == 1 and mask.shape[0] == batches:
        mask = mask.unsqueeze(1)
    if mask.dim() == 4:
        mask = mask.squeeze(1)
    if mask.dim() == 3:
        mask = mask[0 if mask.shape[0] == 1 else batch]
    mask = mask[:rows, :columns].unsqueeze(0)
    if mode == 0 and rows > 1 and (before < rows or after < columns):
        mask = mask | (ahead < -before) | (ahead > after)
    return mask


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    hidden: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    sink: Optional[Tensor] = None,
    weight_scale: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """(softmax(query key^T * scale + bias) value, logsumexp of the scores); [heads, rows, size] in float32. Fewer heads of
    key and value serve several of query's. Rows that see nothing are 0, their logsumexp infinite. With ``weight_scale`` the
    weights are int8, exponentials up to 1 times it, until the division by their sum."""
    query, key, value = wide(query), wide(key), wide(value)
    repeats = query.shape[0] // key.shape[0]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 0), value.repeat_interleave(repeats, 0)
    if key.shape[1] == 0:
        return query.new_zeros(*query.shape[:2], value.shape[-1]), query.new_full(query.shape[:2], float("inf"))
    scores = torch.matmul(query, key.transpose(1, 2)) * scale
    if bias is not None:
        scores = scores + wide(bias)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    sums = scores.logsumexp(-1)
    if sink is not None:
        sums = torch.logaddexp(sums, wide(sink).view(-1, 1))
    weights = (scores - sums.unsqueeze(-1)).exp()
    if hidden is not None:
        nothing = hidden.all(-1).expand_as(sums)
        weights, sums = weights.masked_fill(nothing.unsqueeze(-1), 0.0), sums.masked_fill(nothing, float("inf"))
    if weight_scale is None:
        return torch.matmul(weights, value), sums
    top = weights.amax(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return torch.matmul((weights / top * weight_scale).round().clamp(-128, 127), value) * top, sums


def _unquantized(x: Tensor, scale: Optional[Tensor], offset: Optional[Tensor], per_token: bool, batch: int) -> Tensor:
    if scale is None:
        return x

    def spread(given: Tensor) -> Tensor:
        given = wide(given)
        if per_token:
            rows = given.reshape(-1, given.shape[-1])
            return rows[0 if rows.shape[0] == 1 else batch][: x.shape[1]].view(1, -1, 1)
        return given.view(1, 1, 1) if given.numel() == 1 else given.reshape(x.shape[0], 1, x.shape[2])

    return (wide(x) + (spread(offset) if offset is not None else 0)) * spread(scale)


def _npu_fused_infer_attention_score_infer_output(
    query: Tensor,
    value: Tensor,
    *,
    input_layout: str = "BSH",
    quant_scale2: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    num_heads: int = 1,
    num_key_value_heads: int = 0,
    softmax_lse_flag: bool = False,
    **_: Any,
) -> Tuple[Tensor, Tensor]:
    """Tensors for the results of :func:`npu_fused_infer_attention_score`, (attention, logsumexp)."""
    source, target = input_layout.partition("_")[::2]
    target = target or source
    dims = {"BSH": "BS", "BSND": "BSN", "BNSD": "BNS", "TND": "TN", "NTD": "NT"}.get(source)
    if dims is None or query.dim() != (3 if source in ("BSH", *_PACKED) else 4):
        raise NotImplementedError(f"attention: a query of {query.dim()} dimensions in the layout {source} is not supported")
    size = dict(zip(dims, query.shape))
    size.setdefault("N", num_heads)
    if value.dim() == 5:
        width = value.shape[2] * value.shape[4]
    elif value.dim() == 3 if block_table is not None else source == "BSH":
        width = value.shape[-1] // (num_key_value_heads or num_heads)
    else:
        width = value.shape[-1]
    if target == "BSH":
        shape = [size["B"], size["S"], size["N"] * width]
    elif target in ("BSND", "BNSD", "NBSD", "TND", "NTD"):
        shape = [size[letter] for letter in target[:-1]] + [width]
    else:
        raise NotImplementedError(f"attention: results in the layout {target} are not supported")
    sums = [0]
    if softmax_lse_flag:
        sums = [size["T"], size["N"], 1] if source in _PACKED else [size["B"], size["N"], size["S"], 1]
    dtype = torch.int8 if quant_scale2 is not None else torch.float16 if query.dtype == torch.int8 else query.dtype
    return query.new_zeros(shape, dtype=dtype), query.new_zeros(sums, dtype=torch.float32)


class _Cached(NamedTuple):
    """Where the keys and values of each sequence are: in tensors of ``layout``, or with ``table`` in pages, ``heads`` of them."""

    layout: str
    heads: int
    lengths: List[int]
    table: Optional[Tensor]
    prefix_length: List[int]

    @property
    def dim(self) -> int:
        """The dimension of a sequence's rows."""
        return {"BNSD": 2, "TND": 0}.get(self.layout, 1)

    def rows(self, cache: Tensor, b: int) -> Tensor:
        """Sequence ``b`` as [heads, rows, size]."""
        if self.table is not None:
            return pages_of(cache, self.table[b], self.heads, span(self.lengths, False, b, 1 << 62)[1])
        first, last = span(self.lengths, self.layout in _PACKED, b, cache.shape[self.dim])
        return sequence_of(cache, self.layout, self.heads, b, first, last)

    def whole(self, cache: Tensor, prefix: Optional[Tensor], scale: Optional[Tensor], offset: Optional[Tensor], mode: int,
              b: int) -> Tensor:  # fmt: skip
        """Sequence ``b`` behind the prefix of all, and no longer quantised."""
        found = self.rows(cache, b)
        if prefix is not None:
            length = (self.prefix_length or [prefix.shape[self.dim]])[0]
            found = torch.cat([sequence_of(prefix, self.layout, self.heads, 0, 0, length), found], 1)
        return _unquantized(found, scale, offset, mode == 1, b)


def _quantized(y: Tensor, scale: Tensor, offset: Optional[Tensor]) -> Tensor:
    """``round(y * scale + offset)`` of [heads, rows, size], with one scale, or one for each element of each head."""

    def channels(t: Tensor) -> Tensor:
        return wide(t).view(1, 1, 1) if t.numel() == 1 else wide(t).reshape(y.shape[0], 1, -1)

    y = y * channels(scale) + (0 if offset is None else channels(offset))
    return y.round().clamp(-128, 127)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    pse_shift: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    actual_seq_lengths: Optional[Sequence[int]] = None,
    actual_seq_lengths_kv: Optional[Sequence[int]] = None,
    dequant_scale1: Optional[Tensor] = None,
    quant_scale1: Optional[Tensor] = None,
    dequant_scale2: Optional[Tensor] = None,
    quant_scale2: Optional[Tensor] = None,
    quant_offset2: Optional[Tensor] = None,
    antiquant_scale: Optional[Tensor] = None,
    antiquant_offset: Optional[Tensor] = None,
    key_antiquant_scale: Optional[Tensor] = None,
    key_antiquant_offset: Optional[Tensor] = None,
    value_antiquant_scale: Optional[Tensor] = None,
    value_antiquant_offset: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    key_shared_prefix: Optional[Tensor] = None,
    value_shared_prefix: Optional[Tensor] = None,
    actual_shared_prefix_len: Optional[Sequence[int]] = None,
    query_rope: Optional[Tensor] = None,
    key_rope: Optional[Tensor] = None,
    num_heads: int = 1,
    scale: float = 1.0,
    pre_tokens: int = _UNLIMITED,
    next_tokens: int = _UNLIMITED,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    antiquant_mode: int = 0,
    key_antiquant_mode: int = 0,
    value_antiquant_mode: int = 0,
    softmax_lse_flag: bool = False,
    learnable_sink: Optional[Tensor] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_fused_infer_attention_score`, also with ``learnable_sink``, which only the second version has."""
    name = "npu_fused_infer_attention_score"
    unsupported(name, "inner_precise", "block_size", **given)
    if not 0 <= sparse_mode <= 4 or max(key_antiquant_mode, value_antiquant_mode, antiquant_mode) > 1:
        raise NotImplementedError(
            f"{name}: sparse_mode={sparse_mode} (0 to 4 are supported) with antiquant modes "
            f"{key_antiquant_mode}, {value_antiquant_mode}, {antiquant_mode} (0 and 1 are)"
        )
    layout, kv_heads = input_layout.partition("_")[0], num_key_value_heads or num_heads
    target = input_layout.partition("_")[2] or layout
    out, sums = _npu_fused_infer_attention_score_infer_output(
        query,
        value,
        input_layout=input_layout,
        quant_scale2=quant_scale2,
        block_table=block_table,
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        softmax_lse_flag=softmax_lse_flag,
    )
    if out.device.type == "meta" or out.numel() == 0:
        return out, sums
    packed = layout in _PACKED
    query_lengths, key_lengths = numbers(actual_seq_lengths), numbers(actual_seq_lengths_kv)
    if (query_rope is None) != (key_rope is None):
        raise ValueError(f"{name}: query_rope and key_rope go together")
    of_int8 = dequant_scale1 is not None and quant_scale1 is not None and dequant_scale2 is not None
    if of_int8 != (query.dtype == torch.int8):
        raise ValueError(f"{name}: a query of int8 goes with dequant_scale1, quant_scale1 and dequant_scale2")
    factors = [None if t is None else numbers_of_scale(t) for t in (dequant_scale1, quant_scale1, dequant_scale2)]
    if packed and not (query_lengths and key_lengths):
        raise ValueError(f"{name}: the layout {layout} needs actual_seq_lengths and actual_seq_lengths_kv")
    scales, offsets = [key_antiquant_scale, value_antiquant_scale], [key_antiquant_offset, value_antiquant_offset]
    modes = [key_antiquant_mode, value_antiquant_mode]
    if antiquant_scale is not None and key_antiquant_scale is None:  # of keys and values together
        scales, modes = list(antiquant_scale), [antiquant_mode] * 2
        offsets = [None, None] if antiquant_offset is None else list(antiquant_offset)
    cached = _Cached(layout, kv_heads, key_lengths, block_table, numbers(actual_shared_prefix_len))
    batches = len(query_lengths) if packed else query.shape[0]
    for b in range(batches):
        start, end = span(query_lengths, packed, b, query.shape[cached.dim])
        q = sequence_of(query, layout, num_heads, b, start, end)
        k = cached.whole(key, key_shared_prefix, scales[0], offsets[0], modes[0], b)
        v = cached.whole(value, value_shared_prefix, scales[1], offsets[1], modes[1], b)
        if query_rope is not None and key_rope is not None:
            q = torch.cat([q, sequence_of(query_rope, layout, num_heads, b, start, end)], -1)
            k = torch.cat([k, cached.rows(key_rope, b).to(k.dtype)], -1)
        count, columns, hidden = q.shape[1], k.shape[1], None
        if count > 1 or query_rope is not None or sparse_mode < 2 or packed:  # else one new token, which sees all keys
            hidden = _hidden(atten_mask, sparse_mode, pre_tokens, next_tokens, b, batches, count, columns, q.device)
        bias = None if pse_shift is None else pse_shift[0 if pse_shift.shape[0] == 1 else b][:, :count, :columns]
        if factors[0] is not None:
            y, lse = attend(wide(q) * factors[0], k, v, scale, hidden, bias, learnable_sink, factors[1])
            y = y if factors[2] is None else y * factors[2]
        else:
            y, lse = attend(q, k, v, scale, hidden, bias, learnable_sink)
        y = y if quant_scale2 is None else _quantized(y, quant_scale2, quant_offset2)
        sequence_of(out, target, num_heads, b, start, end).copy_(y)
        if softmax_lse_flag:
            sequence_of(sums, "TND" if packed else "BNSD", num_heads, b, start, end).copy_(lse.unsqueeze(-1))
    return out, sums


def npu_fused_infer_attention_score(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tuple[Tensor, Tensor]:
    """softmax(query key^T * scale + pse_shift, masked) value, for prompts and for single new tokens.

    ``input_layout``: "BSH", "BSND", "BNSD", "TND" or "NTD", and, behind an underscore, the result's ("BNSD_BSND", "BSH_NBSD",
    "TND_NTD", ...). ``actual_seq_lengths``, ``actual_seq_lengths_kv``: how many rows of each sequence count; in the packed
    layouts TND and NTD they are running sums, the keys' only without pages. ``block_table`` [batch, pages of a sequence]: key
    and value are caches in pages, [pages, rows, heads * size], [pages, heads, rows, size] or [pages, heads, size / 16, rows,
    16]. ``query_rope`` and ``key_rope``: more elements of each vector. ``key_shared_prefix``: keys and values in front of every
    sequence's. ``sparse_mode``: 0 ``atten_mask`` (true where a score does not count) within the band of ``pre_tokens`` and
    ``next_tokens``, 1 the mask alone, 2 causal from the upper left corner, 3 causal from the lower right one, 4 the band from
    the lower right. Caches of int8 become ``(x + offset) * scale`` by ``antiquant_*`` ([2, ...]: keys, values) or
    ``key_antiquant_*`` and ``value_antiquant_*``; modes: 0 for each channel, 1 for each token. With ``quant_scale2`` the result
    is int8, ``round(y * quant_scale2 + quant_offset2)``. A query, key and value of int8 need ``dequant_scale1`` for the
    scores, ``quant_scale1`` for the softmax's weights (exponentials up to 1), which become int8, and ``dequant_scale2`` for
    their product with the value; without ``quant_scale2`` the result is float16.

    Returns (attention, logsumexp of the scores as float32, [batch, heads, rows, 1] or [tokens, heads, 1], with
    ``softmax_lse_flag``, else empty). Raises NotImplementedError for left padding and quantised ropes.
    ``inner_precise`` tunes hardware.
    """
    return _fused(query, key, value, **options)


# What the second version calls otherwise.
_FIRST_NAMES = {
    "actual_seq_qlen": "actual_seq_lengths",
    "actual_seq_kvlen": "actual_seq_lengths_kv",
    "num_query_heads": "num_heads",
    "softmax_scale": "scale",
    "return_softmax_lse": "softmax_lse_flag",
    "dequant_scale_key": "key_antiquant_scale",
    "dequant_offset_key": "key_antiquant_offset",
    "dequant_scale_value": "value_antiquant_scale",
    "dequant_offset_value": "value_antiquant_offset",
    "dequant_scale_key_rope": "key_rope_antiquant_scale",
    "quant_scale_out": "quant_scale2",
    "quant_offset_out": "quant_offset2",
    "key_quant_mode": "key_antiquant_mode",
    "value_quant_mode": "value_antiquant_mode",
}


def _by_first_names(options: Dict[str, Any]) -> Dict[str, Any]:
    """Options of the second version as the first calls them, without those that have no meaning here."""
    kept = ((name, value) for name, value in options.items() if not name.endswith("_dtype") and name != "query_quant_mode")
    return {_FIRST_NAMES.get(name, name): value for name, value in kept}


def npu_fused_infer_attention_score_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    dequant_scale_query: Optional[Tensor] = None,
    quant_scale_p: Optional[Tensor] = None,
    **options: Any,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_fused_infer_attention_score` with other names of its arguments, and ``learnable_sink`` [heads]: a score of
    each head's own that takes part in the softmax and has no value.

    ``num_query_heads``, ``softmax_scale``, ``actual_seq_qlen``, ``actual_seq_kvlen``, ``return_softmax_lse``,
    ``dequant_scale_key`` and so on are what the other calls num_heads, scale, actual_seq_lengths, actual_seq_lengths_kv,
    softmax_lse_flag and key_antiquant_scale. The dtypes by number, and ``out_dtype`` other than int8, have no meaning here.
    """
    unsupported("npu_fused_infer_attention_score_v2", dequant_scale_query=dequant_scale_query, quant_scale_p=quant_scale_p)
    return _fused(query, key, value, **_by_first_names(options))


def _into(out: Sequence[Tensor], results: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tensor]:
    if len(out) != 2:
        raise ValueError(f"attention: out is (attention, logsumexp), but got {len(out)} tensors")
    for target, result in zip(out, results):
        if result.numel():  # else not wanted
            target.copy_(result.view(target.shape))
    return out[0], out[1]


def npu_fused_infer_attention_score_out(
    query: Tensor, key: Tensor, value: Tensor, *, workspace: Optional[Tensor] = None, out: Sequence[Tensor], **options: Any
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_fused_infer_attention_score` into ``out``, (attention, logsumexp). ``workspace`` is not needed."""
    return _into(out, torch.ops.npu.npu_fused_infer_attention_score(query, key, value, **options))


def npu_fused_infer_attention_score_v2_out(
    query: Tensor, key: Tensor, value: Tensor, *, workspace: Optional[Tensor] = None, out: Sequence[Tensor], **options: Any
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_fused_infer_attention_score_v2` into ``out``, (attention, logsumexp). ``workspace`` is not needed."""
    return _into(out, torch.ops.npu.npu_fused_infer_attention_score_v2(query, key, value, **options))


_npu_fused_infer_attention_score_get_max_workspace = no_workspace("npu_fused_infer_attention_score")


_npu_fused_infer_attention_score_v2_get_max_workspace = no_workspace("npu_fused_infer_attention_score_v2")


def _npu_fused_infer_attention_score_v2_infer_output(query: Tensor, value: Tensor, **options: Any) -> Tuple[Tensor, Tensor]:
    """Tensors for the results of :func:`npu_fused_infer_attention_score_v2`, (attention, logsumexp)."""
    return _npu_fused_infer_attention_score_infer_output(query, value, **_by_first_names(options))
