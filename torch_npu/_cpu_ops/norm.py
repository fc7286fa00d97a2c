"""Normalizations."""

from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import trailing, unsupported, wide
from torch_npu._cpu_ops._gradient import gradients
from torch_npu._cpu_ops._int8 import as_int8


def _rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tuple[Tensor, Tensor]:
    x = wide(x)
    rstd = torch.rsqrt(x.square().mean(trailing(gamma), keepdim=True) + epsilon)
    return x * rstd, rstd.float()


def _moments(x: Tensor, gamma: Tensor, epsilon: float) -> Tuple[Tensor, Tensor, Tensor]:
    dims = trailing(gamma)
    mean = x.mean(dims, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(dims, keepdim=True) + epsilon)
    return (x - mean) * rstd, mean.float(), rstd.float()


def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tuple[Tensor, Tensor]:
    """``self / sqrt(mean(self**2) + epsilon) * gamma`` over the trailing dimensions that ``gamma`` has.

    Returns (result in self's shape and dtype, the reciprocal of the root as float32, 1 for each normalized dimension).
    """
    normal, rstd = _rms(self, gamma, epsilon)
    return (normal * wide(gamma)).to(self.dtype).contiguous(), rstd


def npu_rms_norm_backward(dy: Tensor, self: Tensor, gamma: Tensor, rstd: Tensor) -> Tuple[Tensor, Tensor]:
    """Gradients of :func:`npu_rms_norm` for self (in its dtype) and gamma (float32)."""
    def forward(x: Tensor, weight: Tensor) -> Any:
        mean_square = 1 / wide(rstd).square() - wide(self).square().mean(trailing(gamma), keepdim=True)  # epsilon
        inverse = torch.rsqrt(wide(x).square().mean(trailing(gamma), keepdim=True) + mean_square)
        return wide(x) * inverse * wide(weight)

    dx, dgamma = gradients(forward, (self, gamma.float()), dy)
    return dx.to(self.dtype).contiguous(), dgamma.float().contiguous()


def npu_gemma_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tuple[Tensor, Tensor]:
    """:func:`npu_rms_norm` with ``1 + gamma`` for gamma."""
    normal, rstd = _rms(self, gamma, epsilon)
    return (normal * (1 + wide(gamma))).to(self.dtype).contiguous(), rstd


def npu_add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tuple[Tensor, Tensor, Tensor]:
    """:func:`npu_rms_norm` of ``x1 + x2``. Returns (result, reciprocal root as float32, the sum)."""
    total = x1 + x2
    y, rstd = npu_rms_norm(total, gamma, epsilon)
    return y, rstd, total.contiguous()


def npu_add_rms_norm_cast(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_add_rms_norm` in two types: (float32 result, result in x1's dtype, reciprocal root, the sum)."""
    total = x1 + x2
    normal, rstd = _rms(total, gamma, epsilon)
    y = (normal * wide(gamma)).contiguous()
    return y.float(), y.to(x1.dtype, copy=True), rstd, total.contiguous()


def npu_add_rms_norm_v2(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> Tensor:
    """:func:`npu_add_rms_norm` in place: x2 becomes the sum, x1 its normalization. Returns the reciprocal root."""
    y, rstd, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    x2.copy_(total)
    x1.copy_(y)
    return rstd


def npu_add_rms_norm_quant(x1: Tensor, x2: Tensor, gamma: Tensor, scales1: Tensor, zero_points1: Optional[Tensor],
                           beta: Optional[Tensor] = None, scales2: Optional[Tensor] = None, zero_points2: Optional[Tensor] = None,
                           *, axis: int = -1, epsilon: float = 1e-06, div_mode: bool = True,
                           dst_type: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """:func:`npu_add_rms_norm` as int8: ``round(norm / scales + zero_points)``, ``norm * scales`` unless ``div_mode``.

    ``beta`` is added to the norm. Returns (the result by scales1, that by scales2, zeros without it, the sum). Raises
    NotImplementedError for other dtypes than int8 and another axis than the last.
    """
    unsupported("npu_add_rms_norm_quant", dst_type=None if dst_type in (None, 1, torch.int8) else dst_type,
                axis=None if axis in (-1, x1.dim() - 1) else axis)
    total = wide(x1) + wide(x2)
    normal = _rms(total, gamma, epsilon)[0] * wide(gamma)
    normal = normal if beta is None else normal + wide(beta)

    def quantized(scales: Tensor, zeros: Any) -> Any:
        value = normal / wide(scales) if div_mode else normal * wide(scales)
        value = value if zeros is None else value + wide(zeros)
        return as_int8(value).contiguous()

    first = quantized(scales1, zero_points1)
    second = torch.zeros_like(first) if scales2 is None else quantized(scales2, zero_points2)
    return first, second, total.to(x1.dtype).contiguous()


def npu_deep_norm(x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float = 0.3,
                  epsilon: float = 1e-06) -> Tuple[Tensor, Tensor, Tensor]:
    """Layer norm of ``alpha * x + gx``. Returns (mean and reciprocal deviation as float32, result in x's dtype).

    ``x`` and ``gx``: [..., *normalized]; ``beta`` and ``gamma``: [*normalized]; the statistics: [..., 1, ...].
    """
    normal, mean, rstd = _moments(wide(x) * alpha + wide(gx), gamma, epsilon)
    return mean, rstd, (normal * wide(gamma) + wide(beta)).to(x.dtype).contiguous()


def npu_deep_norm_backward(dy: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor,
                           alpha: float = 0.3) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of :func:`npu_deep_norm` for x, gx (in their dtypes), beta and gamma (float32).

    The shapes are those of what they are for.
    """
    total = wide(x) * alpha + wide(gx)
    normal = (total - mean) * rstd
    grad, dims = wide(dy), trailing(gamma)
    scaled = grad * wide(gamma)
    dgx = rstd * (scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True))
    rows = list(range(grad.dim() - gamma.dim()))
    dbeta = grad.sum(rows) if rows else grad
    dgamma = (grad * normal).sum(rows) if rows else grad * normal
    return ((dgx * alpha).to(x.dtype).contiguous(), dgx.to(gx.dtype).contiguous(), dbeta.float().contiguous(),
            dgamma.float().contiguous())


def npu_add_layer_norm(x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-05,
                       additional_output: bool = False) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Layer norm of ``x1 + x2``. Returns (result, mean, reciprocal deviation, the sum).

    The sum has content only with ``additional_output``. ``gamma`` and ``beta`` have the trailing dimensions of ``x1`` [...,
    *normalized]; mean and deviation are float32 [..., 1, ...], the others as x1 and x2, or float32 where
    these differ.
    """
    total, dtype = wide(x1) + wide(x2), x1.dtype if x1.dtype == x2.dtype else torch.float32
    normal, mean, rstd = _moments(total, gamma, epsilon)
    out = (normal * wide(gamma) + wide(beta)).to(dtype).contiguous()
    return out, mean, rstd, total.to(dtype).contiguous() if additional_output else torch.empty_like(out)


def npu_add_layer_norm_backward(dy_opt: Optional[Tensor], x1: Tensor, x2: Tensor, rstd: Tensor, mean: Tensor, gamma: Tensor,
                                dsum_opt: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of :func:`npu_add_layer_norm` for x1, x2 (in their dtypes), gamma and beta (float32), out of the gradients of
    the result and of the sum.

    The shapes are those of what they are for.
    """
    normal = (wide(x1) + wide(x2) - mean) * rstd
    grad = torch.zeros_like(normal) if dy_opt is None else wide(dy_opt)
    scaled, dims = grad * wide(gamma), trailing(gamma)
    dx = rstd * (scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True))
    dx = dx if dsum_opt is None else dx + wide(dsum_opt)
    rows = list(range(grad.dim() - gamma.dim()))
    dgamma, dbeta = ((t.sum(rows) if rows else t.clone()).float().contiguous() for t in (grad * normal, grad))
    return dx.to(x1.dtype).contiguous(), dx.to(x2.dtype, copy=True).contiguous(), dgamma, dbeta


def npu_group_norm_silu(self: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], group: int,
                        eps: float = 0.00001) -> Tuple[Tensor, Tensor, Tensor]:
    """silu of a group norm. Returns (result, mean and reciprocal deviation in self's dtype, [batch, group])."""
    parts = wide(self).reshape(self.shape[0], group, -1)
    mean = parts.mean(-1)
    rstd = torch.rsqrt((parts - mean.unsqueeze(-1)).square().mean(-1) + eps)
    out = F.silu(F.group_norm(wide(self), group, wide(weight), wide(bias), eps))
    return out.to(self.dtype).contiguous(), mean.to(self.dtype), rstd.to(self.dtype)


def npu_group_norm_swish(self: Tensor, num_groups: int, weight: Tensor, bias: Tensor, eps: Optional[float] = 1e-05,
                         swish_scale: Optional[float] = 1.0) -> Tuple[Tensor, Tensor, Tensor]:
    """``y * sigmoid(swish_scale * y)`` of a group norm y. Returns (result, mean and reciprocal deviation [batch, groups]).

    The result has ``input``'s dtype, the statistics have ``weight``'s; both are floating point.
    """
    epsilon, scale = 1e-5 if eps is None else eps, 1.0 if swish_scale is None else swish_scale
    _, mean, rstd = npu_group_norm_silu(wide(self), weight, bias, num_groups, epsilon)
    y = F.group_norm(wide(self), num_groups, wide(weight), wide(bias), epsilon)
    return (y * torch.sigmoid(scale * y)).to(self.dtype), mean.to(weight.dtype), rstd.to(weight.dtype)


def npu_layer_norm_eval(self: Tensor, normalized_shape: Sequence[int], weight: Optional[Tensor] = None,
                        bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    """Layer norm, without statistics.

    ``input``: [..., *normalized_shape], floating point, as the result; weight and bias: [*normalized_shape].
    """
    return F.layer_norm(self, normalized_shape, weight, bias, eps)
