"""Activations and softmaxes."""

import math
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import even_halves, wide
from torch_npu._cpu_ops._gradient import gradient_of

_SLOPE = 1.702


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    """``silu(a) * b`` for the two halves a, b of dimension ``dim``, whose size must be even.

    ``input`` has a floating point dtype, and so has the result, of half the size in that dimension.
    """
    a, b = even_halves("npu_swiglu", wide(self), dim)
    return (F.silu(a) * b).to(self.dtype).contiguous()


npu_swiglu_backward = gradient_of("npu_swiglu", npu_swiglu, in_float32=True)


def _geglu(x: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Tuple[Any, Tensor]:
    left, right = even_halves("npu_geglu", x, dim)
    activated, linear = (left, right) if activate_left else (right, left)
    gelu = F.gelu(activated, approximate="tanh" if approximate else "none")
    return linear * gelu, gelu


def npu_geglu(self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Tuple[Tensor, Tensor]:
    """``a * gelu(b)`` for the two halves a, b of dimension ``dim``; ``b * gelu(a)`` with ``activate_left``.

    ``approximate``: 0 the exact gelu, 1 by tanh. Returns (result, gelu). Both have ``input``'s floating point dtype and
    half its size in that dimension.
    """
    out, gelu = _geglu(wide(self), dim, approximate, activate_left)
    return out.to(self.dtype).contiguous(), gelu.to(self.dtype).contiguous()


# Its result gelu is not needed.
npu_geglu_grad = gradient_of("npu_geglu", lambda x, gelu, *how: _geglu(x, *how)[0], in_float32=True)


def npu_fast_gelu(self: Tensor) -> Tensor:
    """``x * sigmoid(1.702 x)``. ``input`` has any shape and a floating point dtype, and so has the result."""
    x = wide(self)
    return (x * torch.sigmoid(_SLOPE * x)).to(self.dtype).contiguous()


npu_fast_gelu_backward = gradient_of("npu_fast_gelu", npu_fast_gelu, in_float32=True)


def fast_gelu(self: Tensor) -> Tensor:
    """``x * sigmoid(1.702 x)``, as :func:`npu_fast_gelu`.

    ``input`` has any shape and a floating point dtype, and so has the result.
    """
    return npu_fast_gelu(self)


def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    """gelu; ``approximate`` "none" or "tanh".

    ``input`` has any shape and a floating point dtype, and so has the result.
    """
    return F.gelu(self.contiguous(), approximate=approximate)


def npu_gelu_mul(self: Tensor, *, approximate: str = "none") -> Tensor:
    """``gelu(a) * b`` for the two halves a, b of the last dimension.

    ``input`` has a floating point dtype, and so has the result, of half the size in that dimension.
    """
    a, b = even_halves("npu_gelu_mul", wide(self), -1)
    return (F.gelu(a, approximate=approximate) * b).to(self.dtype).contiguous()


def npu_silu(self: Tensor) -> Tensor:
    """``x * sigmoid(x)``. ``input`` has any shape and a floating point dtype, and so has the result."""
    return F.silu(self.contiguous())


def npu_silu_(self: Tensor) -> Tensor:
    """``x * sigmoid(x)`` in place. ``input`` has any shape and a floating point dtype."""
    return F.silu(self, inplace=True)


def npu_mish(self: Tensor) -> Tensor:
    """``x * tanh(softplus(x))``. ``input`` has any shape and a floating point dtype, and so has the result."""
    return F.mish(self.contiguous())


def _hidden(x: Tensor, mask: Tensor, fixed_triu_mask: Any) -> Tensor:
    if fixed_triu_mask:
        return torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return None if mask is None else mask.bool()


def npu_scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1, fixed_triu_mask: bool = False) -> Tensor:
    """Softmax of ``x * scale`` over the last dimension, where ``mask`` is true -10000 instead of the score.

    ``x``: [N, C, H, W]; ``mask``: bool, broadcastable to it. ``fixed_triu_mask``: the triangle above the diagonal is
    masked, whatever ``mask`` is.
    """
    scores = wide(x) * scale
    hidden = _hidden(x, mask, fixed_triu_mask)
    scores = scores if hidden is None else scores.masked_fill(hidden, -10000.0)
    return torch.softmax(scores, -1).to(x.dtype).contiguous()


def npu_scaled_masked_softmax_backward(y_grad: Tensor, y: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool) -> Tensor:
    """Gradient of :func:`npu_scaled_masked_softmax` for x, from its result y."""
    grad, prob = wide(y_grad), wide(y)
    dx = (grad - (grad * prob).sum(-1, keepdim=True)) * prob * scale
    hidden = _hidden(y, mask, fixed_triu_mask)
    return (dx if hidden is None else dx.masked_fill(hidden, 0.0)).to(y.dtype).contiguous()


def npu_masked_softmax_with_rel_pos_bias(x: Tensor, atten_mask: Optional[Tensor], relative_pos_bias: Tensor,
                                         scale_value: float = 1.0, inner_precision_mode: int = 0) -> Tensor:
    """Softmax of ``x * scale_value + atten_mask + relative_pos_bias`` over the last dimension.

    ``x``: [B, W, N, S1, S2]; ``atten_mask``: [W, S1, S2], added for each window; ``relative_pos_bias``: [N, S1, S2]. All
    are floating point, as the result of x's shape.
    """
    scores = wide(x) * scale_value
    if atten_mask is not None:
        scores = scores + wide(atten_mask).reshape(-1, 1, *x.shape[-2:])
    return torch.softmax(scores + wide(relative_pos_bias).reshape(-1, *x.shape[-2:]), -1).to(x.dtype).contiguous()


def npu_clipped_swiglu(x: Tensor, *, group_index: Optional[Tensor] = None, dim: int = -1, alpha: float = 1.702,
                       limit: float = 7.0, bias: float = 1.0, interleaved: bool = True) -> Tensor:
    """``a * sigmoid(alpha * a) * (b + bias)``, where a is clipped to at most ``limit`` and b to +-limit.

    a and b are the even and the odd elements of dimension ``dim``, its halves unless ``interleaved``. ``group_index``: how many
    of the rows, which the dimensions before ``dim`` count, each group has; the result of rows behind the last is zero.
    ``input`` has a floating point dtype, and so has the result, of half the size in that dimension.
    """
    if interleaved:
        a, b = wide(x).unflatten(dim, (-1, 2)).unbind(dim if dim < 0 else dim + 1)
    else:
        a, b = even_halves("npu_clipped_swiglu", wide(x), dim)
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    result = (a * torch.sigmoid(alpha * a) * (b + bias)).to(x.dtype)
    if group_index is None:
        return result
    before = result.shape[:dim % x.dim()]
    counted = torch.arange(math.prod(before), device=x.device) < group_index.sum()
    return torch.where(counted.view(*before, *[1] * (x.dim() - len(before))), result, 0)


def npu_softmax_cross_entropy_with_logits(self: Tensor, labels: Tensor) -> Tensor:
    """``-(labels * log_softmax(self)).sum(1)``: scores and probabilities [N, C], loss [N]. All are floating point."""
    return -(wide(labels) * torch.log_softmax(wide(self), 1)).sum(1).to(self.dtype)
