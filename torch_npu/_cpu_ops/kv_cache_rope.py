"""What fuses with writing keys and values into a cache: norms, turns, quantization. Caches: see _cache.py.

Scales of int8 caches go two ways, as CANN's kernels have them: npu_kv_rmsnorm_rope_cache (and the prolog of latent attention)
multiplies by them, npu_rope_quant_kvcache and npu_qkv_rms_norm_rope_cache divide.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._cache import rms_norm, rope, write_cache, write_slots
from torch_npu._cpu_ops._common import functional, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8


def _quantized(x: Tensor, scale: Optional[Tensor], offset: Optional[Tensor]) -> Tensor:
    """x * scale + offset as int8; x itself without a scale."""
    if scale is None:
        return x
    value = wide(x) * wide(scale)
    return as_int8(value if offset is None else value + wide(offset))


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
    epsilon: float = 1e-5,
    cache_mode: str = "Norm",
    is_output_kv: bool = False,
    **given: Any,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The cache of multi-head latent attention for new tokens: normalises one part, turns the other, writes both.

    ``kv``: [batch, 1, length, latent + turned]. The first ``gamma.numel()`` elements are RMS-normalised and go to
    ``ckv_cache``, the others, taken in pairs, are turned by ``cos`` and ``sin`` [batch, 1, length, turned] and go to
    ``k_cache``. With ``k_rope_scale`` and ``c_kv_scale`` the caches are int8, ``round(x * scale + offset)``. ``index``,
    ``cache_mode``: "Norm": caches [batch, 1, rows, size], a row for each token; "PA", "PA_BNSD": pages [pages, rows, 1,
    size], a slot for each token; "PA_NZ": with the elements in tiles; "PA_BLK_BNSD", "PA_BLK_NZ": the first slot of each
    page. Returns (k_cache, ckv_cache, turned, normalised), the last two with content only where ``is_output_kv``. ``v`` is not
    supported.
    """
    unsupported("npu_kv_rmsnorm_rope_cache", **given)
    latent, turned = kv.split([gamma.numel(), kv.shape[-1] - gamma.numel()], -1)
    y = rms_norm(latent, gamma, epsilon).to(kv.dtype)
    k = rope(turned, cos, sin, True).to(kv.dtype)
    write_cache(k_cache, index, _quantized(k, k_rope_scale, k_rope_offset).squeeze(1), cache_mode)
    write_cache(ckv_cache, index, _quantized(y, c_kv_scale, c_kv_offset).squeeze(1), cache_mode)
    if is_output_kv:
        return k_cache, ckv_cache, k, y
    return k_cache, ckv_cache, torch.zeros_like(k), torch.zeros_like(y)


def npu_kv_rmsnorm_rope_cache_v2(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    *,
    k_cache_dtype: Optional[int] = None,
    ckv_cache_dtype: Optional[int] = None,
    **options: Any,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_kv_rmsnorm_rope_cache` that returns only (turned, normalised)."""
    unsupported("npu_kv_rmsnorm_rope_cache_v2", k_cache_dtype=k_cache_dtype, ckv_cache_dtype=ckv_cache_dtype)
    return npu_kv_rmsnorm_rope_cache(kv, gamma, cos, sin, index, k_cache, ckv_cache, **options)[2:]


npu_kv_rmsnorm_rope_cache_v2_functional = functional(npu_kv_rmsnorm_rope_cache_v2, "k_cache", "ckv_cache")


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
) -> Tuple[Optional[Tensor], ...]:
    """Queries, keys and values of new tokens: normalises and turns queries and keys, writes keys and values into the caches.

    ``qkv``: [batch * length, heads * size], ``qkv_size`` [batch, length, heads, size], ``head_nums`` the heads of (q, k, v).
    Queries and keys are RMS-normalised over a head and turned by ``cos`` and ``sin`` [batch * length, size], in halves. ``q_out``
    [batch * length, q heads * size] gets the queries, the caches the rest at the slots ``index`` [batch * length]; ``cache_mode``
    "PA_NZ": [pages, heads * size / 16, rows, 16] (32 for int8), others: [pages, rows, heads, size]. ``k_scale``, ``v_scale``: the
    caches are int8, ``round(x / scale + offset)``. Returns (queries, keys, values) with ``is_output_qkv``, else None three times.
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
        return None, None, None
    return tuple(t.reshape(batch * length, -1) for t in (q, k, v.clone()))


npu_qkv_rms_norm_rope_cache_functional = functional(npu_qkv_rms_norm_rope_cache, "q_out", "k_cache", "v_cache")


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
    weight_scale: Optional[Tensor] = None,
    activation_scale: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    **options: Any,
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
    given = rows.to(cos.dtype), cos, sin, k_cache, v_cache, indices, scale_k, scale_v, size_splits
    return npu_rope_quant_kvcache(*given, **options)
