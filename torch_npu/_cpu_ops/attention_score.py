"""Attention of older networks: scores with an additive mask, whole multi-head layers, and attention over pairs (Floyd)."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradients

__all__ = [
    "npu_fused_attention_score",
    "npu_fused_attention_score_backward",
    "npu_fused_attention_score_fwd",
    "npu_fused_attention_score_grad",
    "npu_fused_floyd_attention",
    "npu_fused_floyd_attention_backward",
    "npu_multi_head_attention",
]


def _turned(tensor: Tensor, transposed: bool) -> Tensor:
    return tensor.transpose(-2, -1) if transposed else tensor


def _scores(query: Tensor, key: Tensor, attention_mask: Tensor, scale: float) -> Tensor:
    scores = torch.matmul(wide(query), wide(key).transpose(-2, -1)) * scale
    return torch.softmax(scores + wide(attention_mask), -1)


def npu_fused_attention_score_fwd(
    query_layer: Tensor,
    key_layer: Tensor,
    value_layer: Tensor,
    attention_mask: Tensor,
    scale: float,
    keep_prob: float,
    query_transpose: bool = False,
    key_transpose: bool = False,
    bmm_score_transpose_a: bool = False,
    bmm_score_transpose_b: bool = False,
    value_transpose: bool = False,
    dx_transpose: bool = False,
) -> Tuple[Tensor, Tensor, Tensor]:
    """:func:`npu_fused_attention_score`, with what its gradient needs.

    Returns (the result, the softmax [batch, heads, queries, keys], uint8 dropout mask like the softmax, 1 where it stays).
    """
    query, key = _turned(query_layer, query_transpose), _turned(key_layer, key_transpose)
    softmax = _scores(query, key, attention_mask, scale)
    mask = torch.ones(softmax.shape, dtype=torch.uint8, device=softmax.device)
    if keep_prob < 1:
        mask = (torch.rand(softmax.shape, device=softmax.device) < keep_prob).to(torch.uint8)
    kept = softmax * mask / keep_prob
    out = torch.matmul(_turned(kept, bmm_score_transpose_a), wide(_turned(value_layer, value_transpose ^ bmm_score_transpose_b)))
    batch, heads, rows, size = out.shape
    out = out.transpose(1, 2).reshape(batch * rows, heads * size).to(query_layer.dtype)
    return out, softmax.to(query_layer.dtype), mask


def npu_fused_attention_score(
    query_layer: Tensor,
    key_layer: Tensor,
    value_layer: Tensor,
    attention_mask: Tensor,
    scale: float,
    keep_prob: float,
    query_transpose: bool = False,
    key_transpose: bool = False,
    bmm_score_transpose_a: bool = False,
    bmm_score_transpose_b: bool = False,
    value_transpose: bool = False,
    dx_transpose: bool = False,
) -> Tensor:
    """``dropout(softmax(query @ key.T * scale + attention_mask)) @ value``, the heads side by side: [batch * queries, heads *
    size].

    ``query_layer``, ``key_layer``, ``value_layer``: [batch, heads, tokens, size], with the last dimensions swapped where the
    argument ``..._transpose`` says so; ``attention_mask``: is added to the scores [batch, heads, queries, keys]; ``keep_prob``:
    1 - the dropout's probability. ``dx_transpose`` has no meaning here. Has a gradient.
    """
    return npu_fused_attention_score_fwd(
        query_layer,
        key_layer,
        value_layer,
        attention_mask,
        scale,
        keep_prob,
        query_transpose,
        key_transpose,
        bmm_score_transpose_a,
        bmm_score_transpose_b,
        value_transpose,
        dx_transpose,
    )[0]


def npu_fused_attention_score_backward(
    grad_output: Tensor,
    softmax_output: Tensor,
    query_layer: Tensor,
    key_layer: Tensor,
    value_layer: Tensor,
    mask: Tensor,
    scale: float,
    keep_prob: float,
    query_transpose: bool = False,
    key_transpose: bool = False,
    value_transpose: bool = False,
    dx_transpose: bool = False,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Gradients of :func:`npu_fused_attention_score` for query, key and value, from the results of its ``_fwd``."""
    query, key = wide(_turned(query_layer, query_transpose)), wide(_turned(key_layer, key_transpose))
    value, softmax = wide(_turned(value_layer, value_transpose)), wide(softmax_output)
    batch, heads, rows, _ = query.shape
    grad = wide(grad_output).reshape(batch, rows, heads, -1).transpose(1, 2)
    kept = softmax * mask / keep_prob
    grad_value = torch.matmul(kept.transpose(-2, -1), grad)
    grad_softmax = torch.matmul(grad, value.transpose(-2, -1)) * mask / keep_prob
    grad_scores = softmax * (grad_softmax - (grad_softmax * softmax).sum(-1, keepdim=True)) * scale
    found = (
        (torch.matmul(grad_scores, key), query_transpose),
        (torch.matmul(grad_scores.transpose(-2, -1), query), key_transpose),
        (grad_value, value_transpose),
    )
    first, second, third = (_turned(tensor, turned).to(query_layer.dtype).contiguous() for tensor, turned in found)
    return first, second, third


# Another name of the same operator, with the same arguments.
npu_fused_attention_score_grad = npu_fused_attention_score_backward


def npu_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    attn_mask: Tensor,
    out_proj_weight: Tensor,
    query_bias: Optional[Tensor],
    key_bias: Optional[Tensor],
    value_bias: Optional[Tensor],
    out_proj_bias: Optional[Tensor],
    dropout_mask: Optional[Tensor],
    attn_head_num: int,
    attn_dim_per_head: int,
    src_len: int,
    tgt_len: int,
    dropout_prob: float,
    softmax_use_float: bool,
) -> Tuple[Tensor, ...]:
    """A whole layer of multi-head attention: projections, scores with an additive mask, dropout, output projection.

    ``query``: [batch * tgt_len, E]; ``key``, ``value``: [batch * src_len, E]; weights [E, E] as of a linear layer;
    ``attn_mask``: [batch, heads, tgt_len, src_len], added to the scores; ``dropout_mask``: 1 where an element of the softmax
    stays, used if ``dropout_prob`` is not 0, and drawn if it is None. ``softmax_use_float``: has no meaning here, the softmax
    is always float32.

    Returns (result [batch * tgt_len, E], dropout mask, projected query, key and value [batch, heads, tokens, size], softmax,
    softmax after the dropout, context [batch * tgt_len, E]). Has a gradient.
    """
    heads, size = attn_head_num, attn_dim_per_head

    def projected(x: Tensor, weight: Tensor, bias: Optional[Tensor], tokens: int) -> Tensor:
        return F.linear(x, weight, bias).view(-1, tokens, heads, size).transpose(1, 2)

    q = projected(query, query_weight, query_bias, tgt_len)
    k, v = projected(key, key_weight, key_bias, src_len), projected(value, value_weight, value_bias, src_len)
    softmax = _scores(q, k, attn_mask, size**-0.5).to(query.dtype)
    mask, kept = torch.ones_like(softmax, dtype=torch.uint8) if dropout_mask is None else dropout_mask, softmax
    if dropout_prob:
        if dropout_mask is None:
            mask = (torch.rand(softmax.shape, device=softmax.device) >= dropout_prob).to(torch.uint8)
        kept = softmax * mask.reshape(softmax.shape).to(softmax.dtype) / (1 - dropout_prob)
    context = torch.matmul(kept, v).transpose(1, 2).reshape(query.shape[0], heads * size)
    return F.linear(context, out_proj_weight, out_proj_bias), mask, q, k, v, softmax, kept, context


def _floyd(
    query: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    mask: Optional[Tensor],
    scale: float,
) -> Tuple[Tensor, Tensor]:
    """(scores [B, H, N, M, K], result [B, H, N, M, D])."""
    scores = torch.einsum("bhnmd,bhnkd->bhnmk", query, key_ij) + torch.einsum("bhnmd,bhkmd->bhnmk", query, key_jk)
    scores = scores * scale
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), float("-inf"))
    weights = torch.softmax(scores, -1)
    out = torch.einsum("bhnmk,bhnkd->bhnmd", weights, value_ij) + torch.einsum("bhnmk,bhkmd->bhnmd", weights, value_jk)
    return scores, out


def npu_fused_floyd_attention(
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    *,
    atten_mask: Optional[Tensor] = None,
    scale_value: float = 1.0,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Attention from pairs (i, k) over all j: softmax over j of ``scale_value * (q_ik . k_ij + q_ik . k_jk)``, times the sum of
    the values.

    ``query_ik``: [B, H, N, M, D]; ``key_ij``, ``value_ij``: [B, H, N, K, D]; ``key_jk``, ``value_jk``: [B, H, K, M, D];
    ``atten_mask``: bool or uint8 [B, 1, N, 1, K], 1 where a score does not count.

    Returns (maxima of the scores and sums of their exponentials, float32 [B, H, N, M, 8] each, 8 times the same; the result).
    """
    tensors = [wide(t) for t in (query_ik, key_ij, value_ij, key_jk, value_jk)]
    scores, out = _floyd(*tensors, mask=atten_mask, scale=scale_value)
    highest = scores.amax(-1, keepdim=True)
    total = (scores - highest).exp().sum(-1, keepdim=True)
    shape = (*query_ik.shape[:-1], 8)
    return highest.expand(shape).contiguous(), total.expand(shape).contiguous(), out.to(query_ik.dtype)


def npu_fused_floyd_attention_backward(
    grad_output: Tensor,
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    *,
    atten_mask: Optional[Tensor] = None,
    scale_value: float = 1.0,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_fused_floyd_attention` for query, both keys and values, in the order of its arguments."""
    tensors = (query_ik, key_ij, value_ij, key_jk, value_jk)
    forward = lambda *t: _floyd(*t, mask=atten_mask, scale=scale_value)[1]
    found = gradients(forward, tuple(wide(t) for t in tensors), wide(grad_output))
    return tuple(grad.to(tensor.dtype) for grad, tensor in zip(found, tensors))
