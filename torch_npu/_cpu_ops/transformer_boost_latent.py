"""Latent attention of Ascend's transformer library (ATB): torch.ops.atb.*, ``torch_npu.atb.*``."""

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._cache import rms_norm, rope, write_slots
from torch_npu._cpu_ops._common import no_workspace, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, by_token, exact, numbers_of_scale
from torch_npu._cpu_ops.inference_attention import attend
from torch_npu._cpu_ops.transformer_boost import attend_paged, causal_mask


def _latent_attention(
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
    mask: Optional[Tensor] = None,
    qseqlen: Optional[List[int]] = None,
    mask_type: Optional[str] = None,
    calc_type: Optional[str] = None,
    cache_mode: Optional[str] = None,
    output: Tensor,
    lse: Optional[Tensor] = None,
    workspace: Optional[Tensor] = None,
    **given: Any,
) -> Tensor:
    """Into ``output`` and, where given, ``lse`` [tokens, heads, 1]."""
    name = "npu_multi_head_latent_attention"
    unsupported(name, **given, cache_mode=None if cache_mode in (None, "krope_ctkv", "nzcache") else cache_mode)
    if mask_type not in (None, "undefined", "mask_type_spec", "mask_type_free"):
        raise NotImplementedError(f"{name}: mask_type {mask_type!r} is not one of undefined, mask_type_spec, mask_type_free")
    if cache_mode == "nzcache":
        ctkv, k_rope = (cache.transpose(1, 2).flatten(2).unflatten(-1, (kv_headnum, -1)) for cache in (ctkv, k_rope))
    sums = None if lse is None else torch.zeros(q_headnum, len(q_nope), device=q_nope.device)
    attend_paged(
        torch.cat([q_nope, q_rope], -1),
        torch.cat([ctkv, k_rope], -1),
        ctkv,
        block_tables,
        list(qseqlen or [1] * len(context_lens)),
        list(context_lens),
        kv_headnum,
        qk_scale,
        output,
        mask if mask_type == "mask_type_spec" else None,
        causal=mask_type == "mask_type_free",
        sums=sums,
    )
    if lse is not None and sums is not None:
        lse.copy_(sums.t().unsqueeze(-1))
    return output


def npu_multi_head_latent_attention(q_nope: Tensor, q_rope: Tensor, *args: Any, **options: Any) -> Tensor:
    """Latent attention over caches in pages: ``q_nope`` [tokens, heads, latent] and ``q_rope`` [tokens, heads, rope];
    ``ctkv`` [pages, rows, kv heads, latent], which are the values too, and ``k_rope`` [pages, rows, kv heads, rope]; in tiles
    [pages, kv heads * size / 16, rows, 16] with ``cache_mode`` "nzcache". ``qseqlen``: new tokens of each sequence (one without
    it). ``mask_type``: "undefined" none, "mask_type_free" causal, "mask_type_spec" ``mask`` [tokens, keys], not 0 where a key
    does not count. Returns [tokens, heads, latent]. Raises NotImplementedError for int8 caches."""
    return _latent_attention(q_nope, q_rope, *args, **options, output=torch.empty_like(q_nope, dtype=q_rope.dtype))


def npu_multi_head_latent_attention_out(*args: Any, output: Tensor, **options: Any) -> Tensor:
    """:func:`npu_multi_head_latent_attention` into ``output``."""
    return _latent_attention(*args, **options, output=output)


def npu_multi_head_latent_attention_lse(
    q_nope: Tensor, q_rope: Tensor, *args: Any, calc_type: Optional[str] = None, **options: Any
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_multi_head_latent_attention` and, with ``calc_type`` "calc_type_ring", the logsumexp of the scores [tokens,
    heads, 1], empty otherwise."""
    *rest, return_lse = args
    asked = return_lse and calc_type == "calc_type_ring"
    output = torch.empty_like(q_nope, dtype=q_rope.dtype)
    lse = q_rope.new_empty((*q_nope.shape[:2], 1) if asked else 0)
    return _latent_attention(q_nope, q_rope, *rest, **options, output=output, lse=lse if asked else None), lse


def npu_multi_head_latent_attention_lse_out(
    q_nope: Tensor, *args: Any, output: Tensor, lse: Tensor, **options: Any
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_multi_head_latent_attention` into ``output`` and ``lse``."""
    *rest, return_lse = args
    return _latent_attention(q_nope, *rest, **options, output=output, lse=lse if return_lse else None), lse


_npu_multi_head_latent_attention_get_workspace_lse = no_workspace("npu_multi_head_latent_attention")


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
    sequences] for queries and keys. ``mask_type`` "mask_type_triu": causal; "no_mask". ``calc_type`` "calc_type_first_ring",
    as without it: the first part; "calc_type_default": ``pre_out`` and ``prev_lse`` are the results so far. Returns (attention
    [tokens, heads, size], logsumexp float32 [heads, tokens]).
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
        hidden = None if mask_type in (None, "no_mask", "undefined") else causal_mask(length, k_length, query.device)
        y, lse = attend(
            query[rows].transpose(0, 1), key[columns].transpose(0, 1), value[columns].transpose(0, 1), qk_scale, hidden
        )
        y = y.transpose(0, 1)
        lse = torch.where(lse == float("inf"), float("-inf"), lse)
        if pre_out is not None and calc_type == "calc_type_default":
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


class _Linear(NamedTuple):
    """A product of int8 with what stands before it."""

    gamma: Tensor
    beta: Tensor
    weight: Tensor  # [outputs, inputs], or in tiles [1, inputs / 32, outputs, 32]
    descale: Tensor
    scale: Optional[Tensor]
    offset: Optional[Tensor]
    bias: Optional[Tensor]

    def of(self, x: Tensor, per_token: bool) -> Tensor:
        """Rows are normed, made int8 and multiplied."""
        normal = rms_norm(x, self.gamma, 1e-5) + wide(self.beta)
        weight = self.weight.transpose(1, 2).flatten(2)[0] if self.weight.dim() == 4 else self.weight
        descale = numbers_of_scale(self.descale)
        if per_token:
            rows, scale = by_token(normal)
            y = exact(rows, weight.t()).float() * descale * scale.unsqueeze(-1)
        else:
            y = exact(as_int8(normal / wide(self.scale) + wide(self.offset)), weight.t()).float()
            y = (y if self.bias is None else y + self.bias) * descale
        return y.to(x.dtype)


def npu_mla_preprocess_out(
    input: Tensor,
    gamma0: Tensor,
    beta0: Tensor,
    wdqkv: Tensor,
    descale0: Tensor,
    gamma1: Tensor,
    beta1: Tensor,
    wuq: Tensor,
    descale1: Tensor,
    gamma2: Tensor,
    cos: Tensor,
    sin: Tensor,
    wuk: Tensor,
    kv_cache: Tensor,
    kv_cache_rope: Tensor,
    slotmapping: Tensor,
    *,
    quant_scale0: Optional[Tensor] = None,
    quant_offset0: Optional[Tensor] = None,
    bias0: Optional[Tensor] = None,
    quant_scale1: Optional[Tensor] = None,
    quant_offset1: Optional[Tensor] = None,
    bias1: Optional[Tensor] = None,
    ctkv_scale: Optional[Tensor] = None,
    q_nope_scale: Optional[Tensor] = None,
    cache_mode: Optional[str] = None,
    quant_mode: Optional[str] = None,
    q_out0: Tensor,
    kv_cache_out0: Tensor,
    q_out1: Tensor,
    kv_cache_out1: Tensor,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_mla_preprocess` into ``q_out0``, ``q_out1`` and, at the slots, ``kv_cache_out0`` and ``kv_cache_out1``."""
    results = q_out0, kv_cache_out0, q_out1, kv_cache_out1
    if cache_mode not in (None, "krope_ctkv", "int8_nzcache", "nzcache"):
        raise ValueError(f"npu_mla_preprocess: cache_mode {cache_mode!r} is not one of krope_ctkv, int8_nzcache, nzcache")
    if quant_mode not in (None, "per_token_quant_symm", "per_tensor_quant_asymm"):
        raise ValueError(f"npu_mla_preprocess: quant_mode {quant_mode!r} is not per_token_quant_symm or per_tensor_quant_asymm")
    if input.device.type == "meta":
        return results
    per_token, tiled = quant_mode != "per_tensor_quant_asymm", cache_mode in ("int8_nzcache", "nzcache")
    latent, turned = gamma2.numel(), cos.shape[-1]
    down = _Linear(gamma0, beta0, wdqkv, descale0, quant_scale0, quant_offset0, bias0).of(input, per_token)
    up = _Linear(gamma1, beta1, wuq, descale1, quant_scale1, quant_offset1, bias1).of(down[:, latent + turned :], per_token)
    queries = up.unflatten(-1, (wuk.shape[0], -1))
    absorb = wuk.transpose(1, 2).flatten(2) if wuk.dim() == 4 else wuk
    row = rms_norm(down[:, :latent], gamma2, 1e-5)
    q = torch.einsum("thn,hnl->thl", wide(queries[..., :-turned]), wide(absorb))
    if cache_mode == "int8_nzcache":
        row, q = as_int8(row / wide(ctkv_scale)), as_int8(q / wide(q_nope_scale).view(-1, 1))
    rows = row if cache_mode == "int8_nzcache" else row.to(input.dtype)
    write_slots(kv_cache_out0, slotmapping, rows.unsqueeze(1), tiled)
    write_slots(
        kv_cache_out1, slotmapping, rope(down[:, latent : latent + turned], cos, sin, False).to(input.dtype).unsqueeze(1), tiled
    )
    q_out0.copy_(q)
    q_out1.copy_(rope(queries[..., -turned:], cos.unsqueeze(1), sin.unsqueeze(1), False))
    return results


def npu_mla_preprocess(input: Tensor, *args: Any, **options: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """What comes before :func:`npu_multi_head_latent_attention`, of hidden states [tokens, hidden].

    They are normed (``gamma0``, ``beta0``), made int8 and multiplied by ``wdqkv`` int8 [latent + rope + queries' latent,
    hidden], times ``descale0``; the first part, normed by ``gamma2``, goes to ``kv_cache`` [pages, rows, 1, latent] at the
    slots, the second, turned by ``cos``, ``sin`` [tokens, rope] in halves, to ``kv_cache_rope``, the third, normed by
    ``gamma1``, ``beta1``, made int8 and multiplied by ``wuq`` int8 [heads * (nope + rope), queries' latent], becomes queries,
    whose first part is multiplied by ``wuk`` [heads, nope, latent] and whose second is turned. ``quant_mode``
    "per_token_quant_symm" makes int8 with a scale of each token, "per_tensor_quant_asymm" with ``quant_scale0``,
    ``quant_offset0`` and ``...1``, and adds ``bias0``, ``bias1``. ``cache_mode`` "nzcache": caches in tiles; "int8_nzcache":
    the latent one int8 / ``ctkv_scale``, queries / ``q_nope_scale``.
    Returns (queries [tokens, heads, latent], a new cache with the rows at the slots, queries [tokens, heads, rope], the other
    such cache)."""
    heads, cos, kv_cache, kv_cache_rope = args[11].shape[0], args[9], args[12], args[13]
    q = kv_cache.new_empty(input.shape[0], heads, args[8].numel())
    turned = input.new_empty(input.shape[0], heads, cos.shape[-1])
    caches = torch.empty_like(kv_cache), torch.empty_like(kv_cache_rope)
    return npu_mla_preprocess_out(
        input, *args, **options, q_out0=q, kv_cache_out0=caches[0], q_out1=turned, kv_cache_out1=caches[1]
    )
