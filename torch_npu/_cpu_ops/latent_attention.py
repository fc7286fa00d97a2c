"""Multi-head latent attention: the projections in front of it."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._cache import rms_norm, rope, write_cache
from torch_npu._cpu_ops._common import functional, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, by_token, exact


def _project(x: Tensor, weight: Tensor, x_scale: Optional[Tensor], weight_scale: Optional[Tensor]) -> Tensor:
    """x @ weight in float32; int8 ones times their scales, [rows, 1] and [1, columns]."""
    if weight.dtype != torch.int8:
        return torch.matmul(wide(x), wide(weight))
    return exact(x, weight).float() * wide(x_scale).reshape(-1, 1) * wide(weight_scale).reshape(1, -1)


class _Prolog:
    """The four ways through the operator. ``dtype``: of what is not quantised, that of rope_cos."""

    def __init__(self, token_x: Tensor, rope_cos: Tensor, rope_sin: Tensor) -> None:
        self.lead, self.dtype = token_x.shape[:-1], rope_cos.dtype
        self.x = token_x.reshape(-1, token_x.shape[-1])
        self.cos, self.sin = (t.reshape(-1, t.shape[-1]) for t in (rope_cos, rope_sin))

    def queries(
        self,
        weight_dq: Tensor,
        weight_uq_qr: Tensor,
        weight_uk: Tensor,
        gamma: Tensor,
        epsilon: float,
        x_scale: Optional[Tensor],
        dq_scale: Optional[Tensor],
        uq_scale: Optional[Tensor],
        smooth: Optional[Tensor],
        correction: float,
    ) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
        """(queries [tokens, heads, latent], turned [tokens, heads, rope], the normalised c, its scales where it is int8)."""
        c = rms_norm(_project(self.x, weight_dq, x_scale, dq_scale).to(self.dtype), gamma, epsilon) * correction
        c, scale = c.to(self.dtype), None
        if weight_uq_qr.dtype == torch.int8:
            c, scale = by_token(wide(c) if smooth is None else wide(c) * wide(smooth).reshape(-1))
        heads, width, _ = weight_uk.shape
        q = _project(c, weight_uq_qr, scale, uq_scale).to(self.dtype).unflatten(-1, (heads, -1))
        latent = torch.matmul(wide(q[..., :width]).transpose(0, 1), wide(weight_uk)).transpose(0, 1).to(self.dtype)
        turned = rope(q[..., width:], self.cos.unsqueeze(1), self.sin.unsqueeze(1), True).to(self.dtype)
        return latent.contiguous(), turned, c, scale

    def keys(
        self,
        weight: Tensor,
        gamma: Tensor,
        epsilon: float,
        x_scale: Optional[Tensor],
        weight_scale: Optional[Tensor],
        correction: float,
    ) -> Tuple[Tensor, Tensor]:
        """(normalised [tokens, latent], turned [tokens, rope])."""
        both = _project(self.x, weight, x_scale, weight_scale).to(self.dtype)
        latent, turned = both.split([gamma.numel(), both.shape[-1] - gamma.numel()], -1)
        return (rms_norm(latent, gamma, epsilon) * correction).to(self.dtype), rope(turned, self.cos, self.sin, True).to(
            self.dtype
        )

    def shaped(self, t: Tensor) -> Tensor:
        return t.reshape(*self.lead, *t.shape[1:])


def _store(cache: Tensor, rows: Tensor, scale: Optional[Tensor], index: Optional[Tensor], mode: str) -> None:
    if cache.dtype == torch.int8:
        rows = as_int8(wide(rows) * wide(scale).reshape(-1))
    if mode in ("BSND", "TND"):
        cache.copy_(rows.reshape(cache.shape))
    elif index is None:
        raise ValueError(f"npu_mla_prolog: cache_mode {mode!r} needs cache_index")
    else:
        write_cache(cache, index, rows.unsqueeze(0), mode)


def _mla_prolog(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    *,
    cache_index: Optional[Tensor] = None,
    dequant_scale_x: Optional[Tensor] = None,
    dequant_scale_w_dq: Optional[Tensor] = None,
    dequant_scale_w_uq_qr: Optional[Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[Tensor] = None,
    quant_scale_ckv: Optional[Tensor] = None,
    quant_scale_ckr: Optional[Tensor] = None,
    smooth_scales_cq: Optional[Tensor] = None,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    cache_mode: str = "PA_BSND",
    query_norm_flag: bool = False,
    weight_quant_mode: int = 0,
    kv_cache_quant_mode: int = 0,
    query_quant_mode: int = 0,
    qc_qr_scale: float = 1.0,
    kc_scale: float = 1.0,
    **given: Any,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_mla_prolog_v3`, with floating point queries in the dtype of rope_cos."""
    name = "npu_mla_prolog"
    unsupported(name, "tile_size", **given)
    if kv_cache_quant_mode == 3 or weight_quant_mode > 2:
        raise NotImplementedError(
            f"{name}: kv_cache_quant_mode={kv_cache_quant_mode} (0 to 2 are supported), weight_quant_mode="
            f"{weight_quant_mode} (0 to 2 are)"
        )
    prolog = _Prolog(token_x, rope_cos, rope_sin)
    latent, turned, c, c_scale = prolog.queries(
        weight_dq,
        weight_uq_qr,
        weight_uk,
        rmsnorm_gamma_cq,
        rmsnorm_epsilon_cq,
        dequant_scale_x,
        dequant_scale_w_dq,
        dequant_scale_w_uq_qr,
        smooth_scales_cq,
        qc_qr_scale,
    )
    k, t = prolog.keys(weight_dkv_kr, rmsnorm_gamma_ckv, rmsnorm_epsilon_ckv, dequant_scale_x, dequant_scale_w_dkv_kr, kc_scale)
    _store(kv_cache, k, quant_scale_ckv, cache_index, cache_mode)
    _store(kr_cache, t, quant_scale_ckr, cache_index, cache_mode)
    query_scale = latent.new_empty(0, dtype=torch.float32)
    if query_quant_mode == 1:
        latent, query_scale = by_token(wide(latent))
        query_scale = query_scale.unsqueeze(-1)
    none = latent.new_empty(0, dtype=torch.float32)
    norm = prolog.shaped(c) if query_norm_flag else latent.new_empty(0, dtype=c.dtype)
    norm_scale = c_scale.unsqueeze(-1) if query_norm_flag and c_scale is not None else none
    return prolog.shaped(latent), prolog.shaped(turned.bfloat16()), query_scale, norm, norm_scale


def npu_mla_prolog_v3(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    **options: Any,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What comes before multi-head latent attention: queries, and keys into the caches.

    ``c = rms_norm(x @ weight_dq) * qc_qr_scale``; ``(q, r) = c @ weight_uq_qr`` for each head; queries are ``q @ weight_uk``
    and ``rope(r)``. ``(k, t) = x @ weight_dkv_kr``: ``rms_norm(k) * kc_scale`` goes to ``kv_cache`` and ``rope(t)`` to
    ``kr_cache``. The rope takes elements 2i and 2i + 1 together. Shapes: token_x [tokens, he] or [batch, length, he],
    weight_dq [he, hcq], weight_uq_qr [hcq, heads * (d + dr)], weight_uk [heads, d, hckv], weight_dkv_kr [he, hckv + dr],
    rope_sin and rope_cos [..., dr], caches [pages, rows, 1, hckv] and [..., dr]. ``cache_index``: the slot of each token
    ("PA_BSND", "PA_NZ"), or the first of each page ("PA_BLK_BSND", "PA_BLK_NZ"); "BSND", "TND": the caches are as long as
    token_x. int8 weights come with ``dequant_scale_w_*`` (and token_x with ``dequant_scale_x``); before weight_uq_qr in int8,
    c is quantised by rows after ``smooth_scales_cq``. int8 caches hold ``round(x * quant_scale_ckv)`` and ``round(x *
    quant_scale_ckr)``. ``query_quant_mode`` 1: queries are int8 with a scale for each head.

    Returns (queries bfloat16 [..., heads, hckv], turned bfloat16 [..., heads, dr], scales of int8 queries [tokens, heads, 1], c
    and its scales with ``query_norm_flag``, else empty). Raises NotImplementedError for caches quantised in tiles, merged
    caches and MX weights.
    """
    weights = (token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv)
    latent, turned, scale, norm, norm_scale = _mla_prolog(*weights, rope_sin, rope_cos, kv_cache, kr_cache, **options)
    return latent if latent.dtype == torch.int8 else latent.bfloat16(), turned, scale, norm, norm_scale


npu_mla_prolog_v3_functional = functional(npu_mla_prolog_v3, "kv_cache", "kr_cache")


def npu_mla_prolog_v2(token_x: Tensor, *args: Tensor, **options: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_mla_prolog_v3`, with ``cache_index`` in front of the caches, that returns (queries, turned, kv_cache, kr_cache,
    scales of int8 queries or [1]). Queries are int8 where token_x and kv_cache are, else of the dtype of rope_cos."""
    *weights, cache_index, kv_cache, kr_cache = args
    quantized = token_x.dtype == torch.int8 and kv_cache.dtype == torch.int8
    options.update(cache_index=cache_index, query_quant_mode=int(quantized))
    latent, turned, scale, *_ = _mla_prolog(*[token_x, *weights, kv_cache, kr_cache], **options)
    return latent, turned, kv_cache, kr_cache, scale if quantized else scale.new_zeros(1)


def npu_mla_prolog(*args: Tensor, **options: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_mla_prolog_v2` without the scales: returns (queries, turned, kv_cache, kr_cache). Queries that are not
    quantised, and turned ones, have the dtype of ``token_x``."""
    queries, turned, *caches = torch.ops.npu.npu_mla_prolog_v2(*args, **options)[:4]
    dtype = args[0].dtype
    if dtype.is_floating_point:
        queries, turned = queries.to(dtype), turned.to(dtype)
    return queries, turned, *caches
