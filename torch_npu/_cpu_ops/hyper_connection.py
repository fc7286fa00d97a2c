"""Manifold-constrained hyper-connections (mHC): n parallel residual streams, mixed before and after each layer.

``...`` stands for [batch, steps] or [tokens]. Mappings and statistics are float32.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import numbers_on, wide
from torch_npu._cpu_ops._gradient import gradients

# Before a layer -------------------------------------------------------------------------------------------------------------


def _spread(alpha: Tensor, streams: int) -> Tensor:
    """The factor of each mapping's element: alpha's are for the parts (pre, post, residual) or (pre, post)."""
    sizes = [streams, streams, streams * streams][: alpha.numel()]
    return torch.repeat_interleave(wide(alpha), numbers_on(alpha.device, sizes), output_size=sum(sizes))


def npu_mhc_pre(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    *,
    gamma: Optional[Tensor] = None,
    norm_eps: float = 1e-06,
    hc_eps: float = 1e-06,
    out_flag: int = 0,
    inner_precise: int = 0,
) -> Tuple[Optional[Tensor], ...]:
    """The layer's input out of n streams ``x`` [..., n, D], and the mappings for after the layer.

    With x' the RMS normalization of all n * D elements (``norm_eps``, factors ``gamma`` [n, D] or None), the mappings are
    ``alpha * (x' @ phi.T) + bias``, in parts of n (pre), n (post) and n * n (residual): ``phi`` [2 n + n * n, n * D], ``bias``
    [2 n + n * n], ``alpha`` [3]; or without the residual part, ``alpha`` being [2]. Pre is ``sigmoid + hc_eps``, post ``2 *
    sigmoid``. ``inner_precise`` chooses a format of the cube unit and has no meaning here.

    Returns (input [..., D], post [..., n], residual [..., n, n] (0 without that part), and, None unless ``out_flag``, 1 / RMS
    [...], the product of x * gamma and phi before the RMS, pre [..., n]). All are floating point.
    """
    streams = x.shape[-2]
    flat = wide(x).flatten(-2)
    inverse = (flat.square().mean(-1) + norm_eps).rsqrt()
    scaled = flat if gamma is None else flat * wide(gamma).flatten()
    mix = scaled @ wide(phi).t()
    maps = _spread(alpha, streams) * (mix * inverse.unsqueeze(-1)) + wide(bias)
    pre = torch.sigmoid(maps[..., :streams]) + hc_eps
    post = 2 * torch.sigmoid(maps[..., streams : 2 * streams])
    residual = maps[..., 2 * streams :]
    residual = residual if alpha.numel() == 3 else maps.new_zeros(*maps.shape[:-1], streams * streams)
    given = (wide(x) * pre.unsqueeze(-1)).sum(-2).to(x.dtype)
    results = given, post, residual.unflatten(-1, (streams, streams))
    return (*results, inverse, mix, pre) if out_flag else (*results, None, None, None)


def npu_mhc_pre_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Optional[Tensor] = None,
    hc_eps: float = 1e-06,
    grad_x_post: Optional[Tensor] = None,
    inner_precise: int = 0,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Optional[Tensor]]:
    """Gradients of :func:`npu_mhc_pre` for x, phi, alpha, bias and gamma (None without gamma), from its results.

    ``grad_x_post``: another gradient that arrives at x, which is added. Each has the shape and the dtype, a floating point
    one, of what it is the gradient of.
    """
    streams = x.shape[-2]
    value, grad_in = wide(x), wide(grad_h_in)
    flat, inverse = value.flatten(-2), inv_rms.unsqueeze(-1)
    gate, half = h_pre - hc_eps, h_post / 2
    parts = [
        (value * grad_in.unsqueeze(-2)).sum(-1) * gate * (1 - gate),
        grad_h_post * h_post * (1 - half),
        grad_h_res.flatten(-2),
    ][: alpha.numel()]
    grad_maps = torch.cat(parts, -1)
    leading = tuple(range(grad_maps.dim() - 1))
    grad_bias = grad_maps.sum(leading)
    by_element = (grad_maps * h_mix * inverse).sum(leading)
    grad_alpha = torch.stack([part.sum() for part in by_element.split([p.shape[-1] for p in parts])])
    grad_product = grad_maps * _spread(alpha, streams)
    factors = torch.ones_like(flat[(0,) * len(leading)]) if gamma is None else wide(gamma).flatten()
    normal = flat * inverse
    grad_phi = grad_product.flatten(0, -2).t() @ (normal * factors).flatten(0, -2)
    grad_scaled = grad_product @ wide(phi)
    grad_normal = grad_scaled * factors
    grad_x = inverse * (grad_normal - normal * (grad_normal * normal).mean(-1, keepdim=True))
    grad_x = grad_x.unflatten(-1, x.shape[-2:]) + h_pre.unsqueeze(-1) * grad_in.unsqueeze(-2)
    grad_x = grad_x if grad_x_post is None else grad_x + wide(grad_x_post)
    grad_gamma = None if gamma is None else (grad_scaled * normal).sum(leading).reshape(gamma.shape)
    return grad_x.to(x.dtype), grad_phi, grad_alpha, grad_bias, grad_gamma


# The residual mapping, made doubly stochastic -------------------------------------------------------------------------------


def npu_mhc_sinkhorn(
    x: Tensor, *, eps: float = 1e-06, num_iters: int = 20, out_flag: int = 0
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Matrices ``x`` [..., n, n] made doubly stochastic: a softmax of the rows plus ``eps``, then columns and rows divided in
    turn by their sums plus ``eps``, ``num_iters`` times, columns last.

    ``x`` is float32 with 3 or 4 dimensions, n 4, 6 or 8. Returns (the matrices, and with ``out_flag``, else None: the matrices
    after each division, first the softmax; the divisors, first 0). Those two are float32 in one dimension: 2 * num_iters steps,
    each with the elements [n, n, matrices] and [n, matrices], the last n filled up with 0 to a multiple of 8. The gradient for x
    needs them.
    """
    value = torch.softmax(wide(x), -1) + eps
    values, sums = [value], [torch.zeros_like(value[..., 0])]
    for step in range(1, 2 * num_iters):
        dim = -2 if step % 2 else -1
        total = value.sum(dim, keepdim=True) + eps
        value = value / total
        values.append(value)
        sums.append(total.squeeze(dim))
    if not out_flag:
        return value.to(x.dtype), None, None
    fill = (0, 0, 0, -x.shape[-1] % 8)
    norm = torch.nn.functional.pad(torch.stack([v.flatten(0, -3).permute(1, 2, 0) for v in values]), fill)
    total = torch.nn.functional.pad(torch.stack([s.flatten(0, -2).t() for s in sums]), fill)
    return value.to(x.dtype), norm.flatten(), total.flatten()


def npu_mhc_sinkhorn_backward(grad_y: Tensor, norm: Tensor, sum: Tensor) -> Tensor:
    """Gradient of :func:`npu_mhc_sinkhorn` for x, from its second and third result.

    It has the shape and the dtype of ``grad_y``, what it is the gradient of.
    """
    size = grad_y.shape[-1]
    grad = wide(grad_y).reshape(-1, size, size)
    kept = -(-size // 8) * 8
    values = norm.reshape(-1, size, kept, grad.shape[0])[:, :, :size].permute(0, 3, 1, 2)
    totals = sum.reshape(-1, kept, grad.shape[0])[:, :size].transpose(1, 2)
    for step in range(len(values) - 1, 0, -1):
        dim = -2 if step % 2 else -1
        grad = (grad - (grad * values[step]).sum(dim, keepdim=True)) / totals[step].unsqueeze(dim)
    softmax = values[0] - (values[0].sum(-1, keepdim=True) - 1) / size  # without eps, as a row of it adds up to 1
    return (softmax * (grad - (grad * softmax).sum(-1, keepdim=True))).to(grad_y.dtype).view(grad_y.shape)


# After a layer --------------------------------------------------------------------------------------------------------------


def npu_mhc_post(x: Tensor, h_res: Optional[Tensor], h_out: Tensor, h_post: Tensor) -> Tensor:
    """The streams [..., n, D] after a layer: ``h_res @ x + h_post`` times ``h_out``.

    ``x``: the streams before [..., n, D]; ``h_res`` [..., n, n], None: x is kept; ``h_out``: the layer's result [..., D];
    ``h_post`` [..., n]. All are floating point.
    """
    kept = wide(x) if h_res is None else torch.matmul(wide(h_res), wide(x))
    return (kept + wide(h_post).unsqueeze(-1) * wide(h_out).unsqueeze(-2)).to(x.dtype)


def npu_mhc_post_backward(
    grad_y: Tensor, x: Tensor, h_res: Optional[Tensor], h_out: Tensor, h_post: Tensor
) -> Tuple[Optional[Tensor], ...]:
    """Gradients of :func:`npu_mhc_post` for x, h_res (None without it), h_out and h_post.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return gradients(npu_mhc_post, (x, h_res, h_out, h_post), grad_y)
