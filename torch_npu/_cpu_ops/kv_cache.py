"""Caches of keys and values: writing tokens into them, reading sequences out, and the steps before that fuse with it.

A cache in pages is [pages, rows, heads, size], or ("NZ") [pages, heads * size / 16, rows, 16], 32 for int8. Slot s is row
s % rows of page s // rows.
"""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide

__all__ = [
    "npu_scatter_pa_kv_cache_functional",
    "npu_scatter_pa_cache_value",
    "npu_gather_pa_kv_cache",
    "npu_gather_pa_kv_cache_functional",
    "npu_scatter_list",
    "npu_quant_scatter",
    "npu_quant_scatter_",
    "npu_kv_rmsnorm_rope_cache",
    "npu_kv_rmsnorm_rope_cache_v2",
    "npu_kv_rmsnorm_rope_cache_v2_functional",
    "npu_qkv_rms_norm_rope_cache",
    "npu_qkv_rms_norm_rope_cache_functional",
    "npu_rope_quant_kvcache",
    "npu_dequant_rope_quant_kvcache",
    "npu_advance_step_flashattn",
]


def as_int8(value: Tensor) -> Tensor:
    """Rounded to even and within int8."""
    return value.round().clamp(-128, 127).to(torch.int8)


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension, in float32."""
    x = wide(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * wide(gamma)


def half_turned(x: Tensor) -> Tensor:
    """(-second half, first half) of the last dimension."""
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rope(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x turned, in float32. ``interleaved``: elements 2i and 2i + 1 belong together, and come apart into the two halves."""
    x = wide(x)
    if interleaved:
        x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return x * wide(cos) + half_turned(x) * wide(sin)


def write_slots(cache: Tensor, slots: Tensor, rows: Tensor, nz: bool) -> None:
    """Writes rows [tokens, heads, size] into a cache in pages; negative slots are left out."""
    slots = slots.reshape(-1).long()
    if cache.device.type == "meta":
        return
    kept = slots >= 0
    slots, rows = slots[kept], rows.reshape(slots.numel(), *rows.shape[-2:])[kept].to(cache.dtype)
    if not nz:
        cache.view(-1, *cache.shape[2:])[slots] = rows.view(-1, *cache.shape[2:])
        return
    lanes = 32 if cache.element_size() == 1 else 16
    length = (
        cache.shape[2]
        if cache.shape[-1] == lanes and cache.dim() == 4 and cache.shape[1] * lanes == rows[0].numel()
        else cache.shape[1]
    )
    tiles = cache.view(cache.shape[0], -1, length, lanes)
    tiles[slots // length, :, slots % length] = rows.reshape(len(rows), -1, lanes)


def npu_scatter_pa_kv_cache_functional(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Optional[Tensor] = None,
    compress_seq_offsets: Optional[Tensor] = None,
    seq_lens: Optional[Tensor] = None,
    cache_mode: Optional[str] = "PA_NZ",
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_scatter_pa_kv_cache` that leaves the caches alone and returns new ones, (keys, values)."""
    caches = key_cache.clone(), value_cache.clone()
    torch.ops.npu.npu_scatter_pa_kv_cache(
        key,
        value,
        *caches,
        slot_mapping,
        compress_lens=compress_lens,
        compress_seq_offsets=compress_seq_offsets,
        seq_lens=seq_lens,
        cache_mode=cache_mode,
    )
    return caches


def npu_scatter_pa_cache_value(
    key: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Optional[Tensor] = None,
    compress_seq_offsets: Optional[Tensor] = None,
    seq_lens: Optional[Tensor] = None,
    key_cache: Tensor,
) -> Tensor:
    """Writes ``key`` [tokens, heads, size] into ``key_cache`` [pages, rows, heads, size] at the slots of ``slot_mapping``, int32
    [tokens]; negative slots are left out. Returns key_cache. Raises NotImplementedError for the compress arguments."""
    unsupported("npu_scatter_pa_cache", compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets, seq_lens=seq_lens)
    write_slots(key_cache, slot_mapping, key, False)
    return key_cache


def _sequences(cache: Tensor, tables: Tensor, lengths: List[int], starts: List[int], width: int) -> Tensor:
    """The sequences' rows, one after the other, [tokens, width]."""
    tiled = cache.dim() == 4 and cache.shape[2] * cache.shape[3] != width  # NZ: [pages, width / 16, rows, 16]
    parts = []
    for table, length, start in zip(tables, lengths, starts):
        pages = cache[table.clamp(min=0).long()]
        pages = pages.transpose(1, 2) if tiled else pages
        parts.append(pages.reshape(-1, width)[start : start + length])
    return torch.cat(parts)


def npu_gather_pa_kv_cache(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seq_offset: Optional[Tensor] = None,
    is_seq_lens_cumsum: bool = False,
) -> None:
    """Reads the sequences of a cache in pages, one after the other, into ``key`` and ``value`` [tokens, heads, size].

    ``key_cache``, ``value_cache``: [pages, rows, heads, size], or [pages, heads * size / 16, rows, 16]. ``block_tables``: int32
    [sequences, pages of each]; ``seq_lens``: [sequences], or their running sums from 0, [sequences + 1], with
    ``is_seq_lens_cumsum``; ``seq_offset``: the first row of each sequence that is read.
    """
    if key.device.type == "meta":
        return
    lengths = seq_lens.tolist()
    if is_seq_lens_cumsum:
        lengths = [end - start for start, end in zip(lengths, lengths[1:])]
    starts = [0] * len(lengths) if seq_offset is None else seq_offset.tolist()
    for cache, out in ((key_cache, key), (value_cache, value)):
        found = _sequences(cache, block_tables, lengths, starts, out.shape[1:].numel())
        out[: len(found)] = found.view(-1, *out.shape[1:]).to(out.dtype)


def npu_gather_pa_kv_cache_functional(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seq_offset: Optional[Tensor] = None,
    is_seq_lens_cumsum: bool = False,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_gather_pa_kv_cache` that leaves ``key`` and ``value`` alone and returns new ones."""
    found = key.clone(), value.clone()
    npu_gather_pa_kv_cache(
        key_cache, value_cache, block_tables, seq_lens, *found, seq_offset=seq_offset, is_seq_lens_cumsum=is_seq_lens_cumsum
    )
    return found


def npu_scatter_list(
    self: List[Tensor], indices: Tensor, updates: Tensor, mask: Optional[Tensor] = None, reduce: str = "update", axis: int = -2
) -> List[Tensor]:
    """:func:`npu_scatter_list_` that leaves the tensors of the list alone and returns new ones."""
    found = [tensor.clone() for tensor in self]
    torch.ops.npu.npu_scatter_list_(found, indices, updates, mask, reduce, axis)
    return found


def _quantized(x: Tensor, scale: Optional[Tensor], offset: Optional[Tensor]) -> Tensor:
    """x * scale + offset as int8; x itself without a scale."""
    if scale is None:
        return x
    value = wide(x) * wide(scale)
    return as_int8(value if offset is None else value + wide(offset))


def npu_quant_scatter_(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Optional[Tensor] = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: Optional[int] = None,
    round_mode: Optional[str] = "rint",
) -> Tensor:
    """Writes ``updates``, quantised to int8 as ``round(updates / quant_scales + quant_zero_points)``, into the int8 tensor.

    ``indices``: int32 [batch], where along ``axis`` each batch's updates begin, or [batch, 2] with the batch to write to first.
    ``quant_scales``, ``quant_zero_points``: one for each element of dimension ``quant_axis`` (the last). Returns input.
    Raises NotImplementedError for another ``reduce``, ``round_mode`` or ``dst_type``.
    """
    if (
        reduce != "update"
        or dst_type not in (None, 1)
        or round_mode not in (None, "rint")
        or quant_axis not in (-1, updates.dim() - 1)
    ):
        raise NotImplementedError(
            "npu_quant_scatter: only reduce='update', int8, round_mode='rint' and the last quant_axis are supported"
        )
    value = wide(updates) / wide(quant_scales)
    value = as_int8(value if quant_zero_points is None else value + wide(quant_zero_points))
    axis = axis % self.dim()
    if self.device.type == "meta":
        return self
    places = indices.reshape(len(indices), -1).tolist()
    for i, place in enumerate(places):
        batch, start = (place[0], place[1]) if len(place) == 2 else (i, place[0])
        self[batch].narrow(axis - 1, start, value.shape[axis]).copy_(value[i])
    return self


def npu_quant_scatter(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Optional[Tensor] = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: Optional[int] = None,
    round_mode: Optional[str] = "rint",
) -> Tensor:
    """:func:`npu_quant_scatter_` that leaves the tensor alone and returns a new one."""
    return npu_quant_scatter_(
        self.clone(), indices, updates, quant_scales, quant_zero_points, axis, quant_axis, reduce, dst_type, round_mode
    )


def write_cache(cache: Tensor, index: Tensor, rows: Tensor, mode: str) -> None:
    """Writes rows [batch, length, size] into a cache with one head. ``mode``: "Norm": [batch, 1, rows, size], ``index`` [batch,
    length] the row of each; "PA", "PA_BNSD", "PA_BSND": pages [pages, rows, 1, size], a slot of each; "PA_NZ": the same with its
    elements in tiles; "PA_BLK_*": ``index`` has the first slot of each page that is filled."""
    if cache.device.type == "meta":
        return
    batch, length, size = rows.shape
    if mode in ("Norm", ""):
        places = index.reshape(batch, length).long().clamp(min=0)
        kept = index.reshape(batch, length) >= 0
        which = torch.arange(batch, device=cache.device).unsqueeze(1).expand(batch, length)
        cache[which[kept], 0, places[kept]] = rows[kept].to(cache.dtype)
        return
    if mode not in ("PA", "PA_BNSD", "PA_BSND", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_BSND", "PA_BLK_NZ"):
        raise ValueError(f"cache_mode {mode!r} is not one of Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD, PA_BLK_NZ")
    slots = index
    if mode.startswith("PA_BLK"):
        page = cache.shape[1]
        first = index.reshape(batch, -1).long()
        row = torch.arange(length, device=cache.device)
        slots = first[:, row // page] + row % page
        slots = torch.where(first[:, row // page] < 0, -1, slots)
    write_slots(cache, slots, rows.reshape(batch * length, 1, size), mode.endswith("NZ"))


def npu_kv_rmsnorm_rope_cache(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_rope_scale: Optional[Tensor] = None,
    c_kv_scale: Optional[Tensor] = None,
    k_rope_offset: Optional[Tensor] = None,
    c_kv_offset: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The cache of multi-head latent attention for new tokens: normalises one part, turns the other, writes both.

    ``kv``: [batch, 1, length, latent + turned]. The first ``gamma.numel()`` elements are RMS-normalised and go to
    ``ckv_cache``, the others, taken in pairs, are turned by ``cos`` and ``sin`` [batch, 1, length, turned] and go to
    ``k_cache``. With ``k_rope_scale`` and ``c_kv_scale`` the caches are int8, ``round(x * scale + offset)``. ``index``,
    ``cache_mode``: "Norm": caches [batch, 1, rows, size], a row for each token; "PA", "PA_BNSD": pages [pages, rows, 1,
    size], a slot for each token; "PA_NZ": with the elements in tiles; "PA_BLK_BNSD", "PA_BLK_NZ": the first slot of each
    page. Returns (k_cache, ckv_cache, turned, normalised), the last two with ``is_output_kv``, else empty. ``v`` is not
    supported.
    """
    unsupported("npu_kv_rmsnorm_rope_cache", v=v)
    latent, turned = kv.split([gamma.numel(), kv.shape[-1] - gamma.numel()], -1)
    y = rms_norm(latent, gamma, epsilon).to(kv.dtype)
    k = rope(turned, cos, sin, True).to(kv.dtype)
    write_cache(k_cache, index, _quantized(k, k_rope_scale, k_rope_offset).squeeze(1), cache_mode)
    write_cache(ckv_cache, index, _quantized(y, c_kv_scale, c_kv_offset).squeeze(1), cache_mode)
    if is_output_kv:
        return k_cache, ckv_cache, k, y
    return k_cache, ckv_cache, kv.new_empty(0), kv.new_empty(0)


def npu_kv_rmsnorm_rope_cache_v2(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_rope_scale: Optional[Tensor] = None,
    c_kv_scale: Optional[Tensor] = None,
    k_rope_offset: Optional[Tensor] = None,
    c_kv_offset: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    k_cache_dtype: Optional[int] = None,
    ckv_cache_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_kv_rmsnorm_rope_cache` that returns only (turned, normalised)."""
    unsupported("npu_kv_rmsnorm_rope_cache_v2", k_cache_dtype=k_cache_dtype, ckv_cache_dtype=ckv_cache_dtype)
    return npu_kv_rmsnorm_rope_cache(
        kv,
        gamma,
        cos,
        sin,
        index,
        k_cache,
        ckv_cache,
        k_rope_scale=k_rope_scale,
        c_kv_scale=c_kv_scale,
        k_rope_offset=k_rope_offset,
        c_kv_offset=c_kv_offset,
        v=v,
        epsilon=epsilon,
        cache_mode=cache_mode,
        is_output_kv=is_output_kv,
    )[2:]


def npu_kv_rmsnorm_rope_cache_v2_functional(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_rope_scale: Optional[Tensor] = None,
    c_kv_scale: Optional[Tensor] = None,
    k_rope_offset: Optional[Tensor] = None,
    c_kv_offset: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    k_cache_dtype: Optional[int] = None,
    ckv_cache_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_kv_rmsnorm_rope_cache_v2` with new caches: returns (turned, normalised, k_cache, ckv_cache)."""
    caches = k_cache.clone(), ckv_cache.clone()
    turned, normal = npu_kv_rmsnorm_rope_cache_v2(
        kv,
        gamma,
        cos,
        sin,
        index,
        *caches,
        k_rope_scale=k_rope_scale,
        c_kv_scale=c_kv_scale,
        k_rope_offset=k_rope_offset,
        c_kv_offset=c_kv_offset,
        v=v,
        epsilon=epsilon,
        cache_mode=cache_mode,
        is_output_kv=is_output_kv,
        k_cache_dtype=k_cache_dtype,
        ckv_cache_dtype=ckv_cache_dtype,
    )
    return turned, normal, *caches


def npu_qkv_rms_norm_rope_cache(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qkv_size: List[int],
    head_nums: List[int],
    *,
    k_scale: Optional[Tensor] = None,
    v_scale: Optional[Tensor] = None,
    k_offset: Optional[Tensor] = None,
    v_offset: Optional[Tensor] = None,
    epsilon: float = 1e-6,
    cache_mode: str = "PA_NZ",
    is_output_qkv: bool = False,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of new tokens: normalises and turns queries and keys, writes keys and values into the caches.

    ``qkv``: [batch * length, heads * size], ``qkv_size`` [batch, length, heads, size], ``head_nums`` the heads of (q, k, v).
    Queries and keys are RMS-normalised over a head and turned by ``cos`` and ``sin`` [batch * length, size], in halves. ``q_out``
    [batch * length, q heads * size] gets the queries, the caches the rest at the slots ``index`` [batch * length]; ``cache_mode``
    "PA_NZ": [pages, heads * size / 16, rows, 16] (32 for int8), others: [pages, rows, heads, size]. ``k_scale``, ``v_scale``: the
    caches are int8, ``round(x / scale + offset)``. Returns (queries, keys, values) with ``is_output_qkv``, else empty tensors.
    """
    batch, length, heads, size = qkv_size
    q_heads, k_heads, v_heads = head_nums
    q, k, v = qkv.view(batch * length, heads, size).split([q_heads, k_heads, v_heads], 1)
    cos, sin = (t.reshape(batch * length, 1, -1) for t in (cos, sin))
    q = rope(rms_norm(q, q_gamma, epsilon), cos, sin, False).to(qkv.dtype)
    k = rope(rms_norm(k, k_gamma, epsilon), cos, sin, False).to(qkv.dtype)
    q_out.copy_(q.reshape(q_out.shape))
    for cache, rows, scale, offset in ((k_cache, k, k_scale, k_offset), (v_cache, v, v_scale, v_offset)):
        if scale is not None:
            value = wide(rows) / wide(scale).reshape(-1, size)
            rows = as_int8(value if offset is None else value + wide(offset).reshape(-1, size))
        write_slots(cache, index, rows, cache_mode.endswith("NZ"))
    if not is_output_qkv:
        return tuple(qkv.new_empty(0) for _ in range(3))
    return tuple(t.reshape(batch * length, -1) for t in (q, k, v))


def npu_qkv_rms_norm_rope_cache_functional(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qkv_size: List[int],
    head_nums: List[int],
    *,
    k_scale: Optional[Tensor] = None,
    v_scale: Optional[Tensor] = None,
    k_offset: Optional[Tensor] = None,
    v_offset: Optional[Tensor] = None,
    epsilon: float = 1e-6,
    cache_mode: str = "PA_NZ",
    is_output_qkv: bool = False,
) -> Tuple[Tensor, ...]:
    """:func:`npu_qkv_rms_norm_rope_cache` with new tensors: returns its results, and then (q_out, k_cache, v_cache)."""
    written = q_out.clone(), k_cache.clone(), v_cache.clone()
    found = npu_qkv_rms_norm_rope_cache(
        qkv,
        q_gamma,
        k_gamma,
        cos,
        sin,
        index,
        *written,
        qkv_size,
        head_nums,
        k_scale=k_scale,
        v_scale=v_scale,
        k_offset=k_offset,
        v_offset=v_offset,
        epsilon=epsilon,
        cache_mode=cache_mode,
        is_output_qkv=is_output_qkv,
    )
    return (*found, *written)


def npu_rope_quant_kvcache(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: List[int],
    *,
    offset_k: Optional[Tensor] = None,
    offset_v: Optional[Tensor] = None,
    quant_mode: int = 0,
    input_layout: str = "BSND",
    kv_output: bool = False,
    cache_mode: str = "contiguous",
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values of new tokens: turns queries and keys, writes keys and values as int8 into the caches.

    ``x``: [batch, length, (q heads + k heads + v heads) * size] or [tokens, ...]; ``size_splits`` their sizes; ``cos``,
    ``sin``: [batch, length, 1, size], turning in halves. Written is ``round(x / scale + offset)``, ``scale_k`` and
    ``offset_k`` [size]. ``cache_mode`` "contiguous": caches [batch, rows, heads, size], ``indices`` int32 [batch], the first
    row written; "page": caches [pages, rows, heads, size], ``indices`` a slot for each token. Returns (queries [..., q heads,
    size], keys, values, k_cache, v_cache); keys and values are empty without ``kv_output``. Only ``quant_mode`` 0, static.
    """
    if quant_mode != 0 or input_layout != "BSND" or cache_mode not in ("contiguous", "page"):
        raise NotImplementedError(
            f"npu_rope_quant_kvcache: quant_mode={quant_mode} (0 is supported), input_layout={input_layout!r} (BSND), "
            f"cache_mode={cache_mode!r} (contiguous, page)"
        )
    heads, size = k_cache.shape[-2:]
    q, k, v = (part.unflatten(-1, (-1, size)) for part in x.split(list(size_splits), -1))
    cos, sin = (t.reshape(*x.shape[:-1], 1, -1) for t in (cos, sin))
    q, k = (rope(t, cos, sin, False).to(x.dtype) for t in (q, k))
    for cache, rows, scale, offset in ((k_cache, k, scale_k, offset_k), (v_cache, v, scale_v, offset_v)):
        value = wide(rows) / wide(scale)
        stored = as_int8(value if offset is None else value + wide(offset))
        if cache.device.type == "meta":
            continue
        if cache_mode == "page":
            write_slots(cache, indices, stored.reshape(-1, heads, size), False)
            continue
        for b, start in enumerate(indices.reshape(-1).tolist()):
            cache[b, start : start + stored.shape[1]] = stored[b]
    none = x.new_empty(0)
    return q, k if kv_output else none, v.contiguous() if kv_output else none, k_cache, v_cache


def npu_dequant_rope_quant_kvcache(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: List[int],
    *,
    offset_k: Optional[Tensor] = None,
    offset_v: Optional[Tensor] = None,
    weight_scale: Optional[Tensor] = None,
    activation_scale: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    quant_mode: int = 0,
    input_layout: str = "BSND",
    kv_output: bool = False,
    cache_mode: str = "contiguous",
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_rope_quant_kvcache` of an int32 product: times ``weight_scale`` [size of x] and ``activation_scale``
    [tokens], with ``bias`` before (int32) or behind; x may be floating too. The results have the dtype of ``cos``."""
    rows = wide(x)
    if x.dtype == torch.int32:
        if bias is not None and bias.dtype == torch.int32:
            rows = rows + wide(bias)
        rows = rows * wide(weight_scale)
        if activation_scale is not None:
            rows = rows * wide(activation_scale).reshape(*x.shape[:-1], 1)
    if bias is not None and bias.dtype != torch.int32:
        rows = rows + wide(bias)
    return npu_rope_quant_kvcache(
        rows.to(cos.dtype),
        cos,
        sin,
        k_cache,
        v_cache,
        indices,
        scale_k,
        scale_v,
        size_splits,
        offset_k=offset_k,
        offset_v=offset_v,
        quant_mode=quant_mode,
        input_layout=input_layout,
        kv_output=kv_output,
        cache_mode=cache_mode,
    )


def npu_advance_step_flashattn(
    input_tokens: Tensor,
    sampled_token_ids: Tensor,
    input_positions: Tensor,
    seq_lens: Tensor,
    slot_mapping: Tensor,
    block_tables: Tensor,
    num_seqs: int,
    num_queries: int,
    block_size: int,
    *,
    spec_token: Optional[Tensor] = None,
    accepted_num: Optional[Tensor] = None,
) -> None:
    """A step of decoding, in place: the first ``num_queries`` of ``input_tokens`` become the sampled ones,
    ``input_positions`` the lengths so far, ``seq_lens`` grow by one, and ``slot_mapping`` gets the slot of the new token out
    of ``block_tables`` [sequences, pages]. Raises NotImplementedError for speculative tokens.
    """
    unsupported("npu_advance_step_flashattn", spec_token=spec_token, accepted_num=accepted_num)
    position = seq_lens[:num_queries].clone()
    input_tokens[:num_queries] = sampled_token_ids.reshape(-1)[:num_queries].to(input_tokens.dtype)
    input_positions[:num_queries] = position.to(input_positions.dtype)
    seq_lens[:num_queries] = position + 1
    page = block_tables[:num_queries].gather(1, (position // block_size).long().unsqueeze(1)).squeeze(1)
    slot_mapping[:num_queries] = (page * block_size + position % block_size).to(slot_mapping.dtype)
