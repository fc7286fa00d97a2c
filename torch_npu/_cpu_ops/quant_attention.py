"""Attention of float8 tensors with a scale for each block of tokens."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradients

_BLOCKS = {"query": 128, "key": 256, "value": 512, "dy": 128}
_HIFLOAT8 = 290


def _check(name: str, layout: str, heads: int, query: Tensor, query_dtype: Optional[int]) -> None:
    if layout not in ("BSND", "BNSD"):
        raise NotImplementedError(f"{name}: the layout {layout!r} is not supported; BSND and BNSD are")
    if query_dtype == _HIFLOAT8 or query.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
        raise NotImplementedError(
            f"{name}: {query.dtype} (query_dtype {query_dtype}) is not supported; float8_e4m3fn and float8_e5m2 are"
        )
    if query.shape[2 if layout == "BSND" else 1] != heads:
        raise ValueError(f"{name}: query {list(query.shape)} has not {heads} heads")


def _unscaled(name: str, tensor: Tensor, scale: Tensor, layout: str) -> Tensor:
    """In float32 times the scales of its blocks, [batch, heads, tokens, size]."""
    x = tensor.float() if layout == "BNSD" else tensor.float().transpose(1, 2)
    spread = wide(scale).repeat_interleave(_BLOCKS[name], 2)[:, :, : x.shape[2]]
    if spread.shape[:3] != x.shape[:3]:
        raise ValueError(
            f"npu_quant_fusion_attention: scales {list(scale.shape)} of {name} {list(tensor.shape)} are not [batch, heads, "
            f"ceil(tokens / {_BLOCKS[name]}), 1]"
        )
    return x * spread


def _rounded(p: Tensor, p_scale: Optional[Tensor], dtype: torch.dtype) -> Tensor:
    """The weights as the product takes them: times ``p_scale`` in ``dtype``, and back. Gradients pass unrounded."""
    scale = wide(p_scale).reshape(()) if p_scale is not None else p.new_ones(())
    stored = (p.detach() * scale).clamp(max=torch.finfo(dtype).max).to(dtype).float() / scale
    return p + (stored - p.detach())


def _attention(
    q: Tensor, k: Tensor, v: Tensor, p_scale: Optional[Tensor], scale: float, dtype: torch.dtype
) -> Tuple[Tensor, Tensor, Tensor]:
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    top = scores.detach().amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return torch.matmul(_rounded(weights / total, p_scale, dtype), v), top, total.detach()


def npu_quant_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    *,
    d_scale_q: Tensor,
    d_scale_k: Tensor,
    d_scale_v: Tensor,
    p_scale: Optional[Tensor] = None,
    scale: float = 1.0,
    query_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """``p = softmax(scale * query key^T)`` in float8, and ``p value``, of float8 tensors times the scales of their blocks.

    ``query``: [batch, tokens, head_num, size] ("BSND") or [batch, head_num, tokens, size] ("BNSD"), float8_e4m3fn or
    float8_e5m2; ``key`` and ``value`` likewise, with a divisor of the heads; ``d_scale_q``, ``d_scale_k``, ``d_scale_v``:
    float32 [batch, heads, blocks of 128, 256 and 512 tokens, 1]; ``p_scale``: float32 [1], what p is multiplied by before it is
    rounded to float8, and divided by afterwards. Returns (attention as bfloat16, maximum and sum of the softmax as float32
    [batch, head_num, tokens, 1], an empty tensor, and 0, 0, 0: there is no dropout). Raises NotImplementedError for hifloat8.
    """
    _check("npu_quant_fusion_attention", input_layout, head_num, query, query_dtype)
    q, k, v = (_unscaled(name, t, s, input_layout)
               for name, t, s in (("query", query, d_scale_q), ("key", key, d_scale_k), ("value", value, d_scale_v)))  # fmt: skip
    out, top, total = _attention(q, k, v, p_scale, scale, query.dtype)
    out = out if input_layout == "BNSD" else out.transpose(1, 2)
    return out.contiguous().to(torch.bfloat16), top, total, query.new_empty(0, dtype=torch.bfloat16), 0, 0, 0


def npu_quant_fusion_attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    head_num: int,
    input_layout: str,
    d_scale_q: Tensor,
    d_scale_k: Tensor,
    d_scale_v: Tensor,
    d_scale_dy: Tensor,
    *,
    p_scale: Optional[Tensor] = None,
    ds_scale: Optional[Tensor] = None,
    softmax_max: Optional[Tensor] = None,
    softmax_sum: Optional[Tensor] = None,
    attention_in: Optional[Tensor] = None,
    scale_value: float = 1.0,
    query_dtype: Optional[int] = None,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_quant_fusion_attention` for the numbers that query, key and value stand for, as bfloat16.

    ``dy``: float8 with the scales ``d_scale_dy`` [batch, heads, blocks of 128 tokens, 1]. ``ds_scale``, ``softmax_max``,
    ``softmax_sum`` and ``attention_in`` are not needed: the scores and their gradient stay in float32. Returns (gradients of
    query, key and value, and four empty tensors).
    """
    _check("npu_quant_fusion_attention_backward", input_layout, head_num, query, query_dtype)
    inputs = [_unscaled(name, t, s, input_layout)
              for name, t, s in (("query", query, d_scale_q), ("key", key, d_scale_k), ("value", value, d_scale_v))]  # fmt: skip
    grad = _unscaled("dy", dy, d_scale_dy, input_layout)

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _attention(q, k, v, p_scale, scale_value, query.dtype)[0]

    found = [g if input_layout == "BNSD" else g.transpose(1, 2) for g in gradients(forward, inputs, grad)]
    return (*(g.contiguous().to(torch.bfloat16) for g in found), *(query.new_empty(0, dtype=torch.bfloat16) for _ in range(4)))
