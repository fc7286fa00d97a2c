"""Attention of older networks: scores with an additive mask, whole multi-head layers, and attention over pairs (Floyd)."""

import math
from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import wide_gradients


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

    Returns (the result, the softmax [batch, heads, queries, keys], uint8 dropout mask, 1 where an element
    of the softmax stays, in one dimension).
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
    return out, softmax.to(query_layer.dtype), mask.flatten()


def npu_fused_attention_score(*args: Any) -> Tensor:
    """``dropout(softmax(query @ key.T * scale + attention_mask)) @ value``, the heads side by side: [batch * queries, heads *
    size].

    ``query_layer``, ``key_layer``, ``value_layer``: [batch, heads, tokens, size], with the last dimensions swapped where the
    argument ``..._transpose`` says so; ``attention_mask``: is added to the scores [batch, heads, queries, keys]; ``keep_prob``:
    1 - the dropout's probability. ``dx_transpose`` has no meaning here. Has a gradient. All are floating point, as the
    result.
    """
    return npu_fused_attention_score_fwd(*args)[0]


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
    mask = mask.reshape(softmax.shape)
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
    ``attn_mask``: [batch, heads, tgt_len, src_len] or as many elements in another shape, added to the scores;
    ``dropout_mask``: 1 where an element of the softmax stays, used if ``dropout_prob`` is not 0, and drawn if it is None.
    ``softmax_use_float``: has no meaning here, the softmax is always float32.

    Returns (result [batch * tgt_len, E], dropout mask, projected query, key and value [batch, heads, tokens, size], softmax,
    softmax after the dropout, context [batch * tgt_len, E]). Has a gradient.
    """
    heads, size = attn_head_num, attn_dim_per_head

    def projected(x: Tensor, weight: Tensor, bias: Optional[Tensor], tokens: int) -> Tensor:
        return F.linear(x, weight, bias).view(-1, tokens, heads, size).transpose(1, 2)

    q = projected(query, query_weight, query_bias, tgt_len)
    k, v = projected(key, key_weight, key_bias, src_len), projected(value, value_weight, value_bias, src_len)
    whole = (q.shape[0], heads, tgt_len, src_len)
    added = attn_mask.reshape(whole) if attn_mask.numel() == math.prod(whole) else attn_mask
    softmax = _scores(q, k, added, size**-0.5).to(query.dtype)
    mask, kept = torch.ones_like(softmax, dtype=torch.uint8) if dropout_mask is None else dropout_mask, softmax
    if dropout_prob:
        if dropout_mask is None:
            mask = (torch.rand(softmax.shape, device=softmax.device) >= dropout_prob).to(torch.uint8)
        kept = softmax * mask.reshape(softmax.shape).to(softmax.dtype) / (1 - dropout_prob)
    context = torch.matmul(kept, v).transpose(1, 2).reshape(query.shape[0], heads * size)
    return F.linear(context, out_proj_weight, out_proj_bias), mask, q, k, v, softmax, kept, context


def npu_multi_head_attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    out_proj_weight: Tensor,
    query_bias: Optional[Tensor],
    key_bias: Optional[Tensor],
    value_bias: Optional[Tensor],
    out_proj_bias: Optional[Tensor],
    query_res: Tensor,
    key_res: Tensor,
    value_res: Tensor,
    attn_scores: Tensor,
    attn_res: Tensor,
    context: Tensor,
    y_grad: Tensor,
    dropout_mask: Tensor,
    attn_head_num: int,
    attn_dim_per_head: int,
    src_len: int,
    tgt_len: int,
    dropout_prob: float,
    softmax_use_float: bool,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_multi_head_attention`, out of its results ``query_res`` ... ``context`` and ``dropout_mask``.

    Returns those for (query_weight, key_weight, value_weight, out_proj_weight, query, key, value, query_bias, key_bias,
    value_bias, out_proj_bias); of a bias that is None too.
    """
    heads, size = attn_head_num, attn_dim_per_head
    rows = (wide(y_grad) @ wide(out_proj_weight)).view(-1, tgt_len, heads, size).transpose(1, 2)
    q, k, v, softmax, kept = (wide(t) for t in (query_res, key_res, value_res, attn_scores, attn_res))
    for_weights = torch.matmul(rows, v.transpose(-2, -1))
    if dropout_prob:
        for_weights = for_weights * dropout_mask.reshape(softmax.shape) / (1 - dropout_prob)
    scores = softmax * (for_weights - (for_weights * softmax).sum(-1, keepdim=True)) * size**-0.5
    parts = (scores @ k, scores.transpose(-2, -1) @ q, kept.transpose(-2, -1) @ rows)
    grads = [part.transpose(1, 2).reshape(-1, heads * size) for part in parts]
    inputs, weights = (query, key, value), (query_weight, key_weight, value_weight)
    found = [
        *(grad.t() @ wide(x) for grad, x in zip(grads, inputs)),
        wide(y_grad).t() @ wide(context),
        *(grad @ wide(weight) for grad, weight in zip(grads, weights)),
        *(grad.sum(0) for grad in grads),
        wide(y_grad).sum(0),
    ]
    return tuple(t.to(query.dtype) for t in found)


def npu_fused_attention_layernorm_qkv_fwd(
    x: Tensor,
    kernel_query: Tensor,
    kernel_key: Tensor,
    kernel_value: Tensor,
    gamma: Tensor,
    beta: Tensor,
    bias_query: Optional[Tensor] = None,
    bias_key: Optional[Tensor] = None,
    bias_value: Optional[Tensor] = None,
    seq_len: int = 128,
    num_heads: int = 12,
    eps: float = 1e-05,
) -> List[Tensor]:
    """Layer normalization, and queries, keys and values of it.

    ``x``: [batch * seq_len, hidden]; kernels: [hidden, hidden], multiplied from the right; biases, ``gamma``, ``beta``: [hidden].
    Returns [the normalised x, queries, keys, values [batch, num_heads, seq_len, hidden / num_heads], mean and variance [batch *
    seq_len]]. Has a gradient. All are floating point.
    """
    variance, mean = torch.var_mean(wide(x), -1, correction=0)
    normal = F.layer_norm(x, x.shape[-1:], gamma, beta, eps)

    def projected(kernel: Tensor, bias: Optional[Tensor]) -> Tensor:
        rows = normal @ kernel
        rows = rows if bias is None else rows + bias
        return rows.view(-1, seq_len, num_heads, rows.shape[-1] // num_heads).transpose(1, 2).contiguous()

    pairs = ((kernel_query, bias_query), (kernel_key, bias_key), (kernel_value, bias_value))
    return [normal, *(projected(*pair) for pair in pairs), mean.to(x.dtype), variance.to(x.dtype)]


def npu_fused_attention_qkv_grad(
    grad_output_query: Tensor,
    grad_output_key: Tensor,
    grad_output_value: Tensor,
    query_kernel: Tensor,
    key_kernel: Tensor,
    value_kernel: Tensor,
    hidden_states: Tensor,
    grad_output_ln: Tensor,
) -> List[Tensor]:
    """Gradients of the projections of :func:`npu_fused_attention_layernorm_qkv_fwd`.

    The projections' gradients: [batch * seq_len, hidden] each; ``hidden_states``: what was projected; ``grad_output_ln``: another
    gradient of that, which is added. Returns [gradient of hidden_states, of the three kernels, of the three biases]. All
    are floating point.
    """
    grads = (grad_output_query, grad_output_key, grad_output_value)
    total = wide(grad_output_ln)
    for grad, kernel in zip(grads, (query_kernel, key_kernel, value_kernel)):
        total = total + wide(grad) @ wide(kernel).t()
    kernels = [(wide(hidden_states).t() @ wide(grad)).to(query_kernel.dtype) for grad in grads]
    return [total.to(hidden_states.dtype), *kernels, *(wide(grad).sum(0).to(query_kernel.dtype) for grad in grads)]


def _floyd(
    mask: Optional[Tensor], scale: float, query: Tensor, key_ij: Tensor, value_ij: Tensor, key_jk: Tensor, value_jk: Tensor
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
    scores, out = _floyd(atten_mask, scale_value, *tensors)
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
    return wide_gradients(lambda *t: _floyd(atten_mask, scale_value, *t)[1], tensors, grad_output)
