"""Gated activations and norms with results in blocks of float8 and in int8, and their gradients."""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._blocks import encode, exponents, format_of, quantize_both_axes
from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._gradient import wide_gradients
from torch_npu._cpu_ops._int8 import as_int8
from torch_npu._cpu_ops.microscaling import swiglu
from torch_npu._cpu_ops.norm import npu_rms_norm_backward

_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
_LEAST = 1e-4  # of a block's greatest value
_BLOCK = {0: 128, 1: 32}


def _rows(x: Tensor, group_index: Optional[Tensor]) -> Tensor:
    """Which rows count, bool [..., 1]: the first, as many as the groups have."""
    place = torch.arange(x.shape[0], device=x.device).view(-1, *[1] * (x.dim() - 1))
    return place < (x.shape[0] if group_index is None else group_index.sum())


def _activated(x: Tensor, limit: float) -> Tensor:
    """``silu(a) * b`` of the halves a, b of the last axis, a at most ``limit`` and b within it where it is positive."""
    a, b = wide(x).chunk(2, -1)
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    return F.silu(a) * b


def _in_blocks(y: Tensor, kind: str, mode: int, block: int, round_scale: bool) -> Tuple[Tensor, Tensor]:
    """(elements, scales) of blocks along the last axis: float32 for mode 0, exponents in pairs for mode 1."""
    size = y.shape[-1]
    count = -(-size // block)
    blocks = F.pad(y, (0, count * block - size)).unflatten(-1, (count, block))
    top = torch.where(torch.isfinite(blocks), blocks.abs(), 0.0).amax(-1).clamp(min=_LEAST)
    scale = top / _LARGEST[kind]
    shared = exponents(top, kind, 1, 0.0)
    if mode == 1 or round_scale:
        scale = torch.ldexp(torch.ones_like(scale), shared)
    elements = encode((blocks / scale.unsqueeze(-1)).flatten(-2)[..., :size].contiguous(), kind, "rint")
    if mode == 0:
        return elements, scale
    return elements, F.pad(shared + 127, (0, count % 2)).to(torch.uint8).unflatten(-1, (-1, 2))


class _StraightThrough(torch.autograd.Function):
    """Gradients as if nothing was rounded, by the operator's own backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Optional[Tensor], group_index: Optional[Tensor], limit: float, kind: str, mode: int,
                block: int, round_scale: bool) -> Tuple[Tensor, Tensor]:  # fmt: skip
        y = _activated(x, limit)
        weighted = torch.where(_rows(x, group_index), y if weight is None else y * wide(weight), 0.0)
        elements, scale = _in_blocks(weighted, kind, mode, block, round_scale)
        ctx.save_for_backward(x, weight, group_index)
        ctx.limit = limit
        ctx.mark_non_differentiable(scale)
        return elements, scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tuple[Optional[Tensor], ...]:
        x, weight, group_index = ctx.saved_tensors
        origin = None if weight is None else _activated(x, ctx.limit).to(x.dtype)
        for_x, for_weight = npu_swiglu_group_quant_backward(
            grad, x, weight=weight, y_origin=origin, group_index=group_index, clamp_limit=ctx.limit
        )
        return (for_x, None if weight is None else for_weight, *[None] * 6)


def npu_swiglu_group_quant(
    x: Tensor,
    *,
    weight: Optional[Tensor] = None,
    group_index: Optional[Tensor] = None,
    scale: Optional[Tensor] = None,
    dst_type: int = 291,
    quant_mode: int = 0,
    block_size: int = 0,
    round_scale: bool = False,
    clamp_limit: float = -1.0,
    dst_type_max: float = 15.0,
    output_origin: bool = False,
) -> Tuple[Tensor, Tensor, Tensor]:
    """``silu(a) * b`` of the halves a, b of the last axis, times ``weight``, as float8 in blocks.

    ``x``: [rows, ..., 2 * size]; ``clamp_limit``, where positive: a is at most that and b lies within it; ``weight``: float32
    [rows, ..., 1]; ``group_index``: int64 [groups], the rows of each: rows behind all of them are 0. ``quant_mode`` 0: blocks
    of 128 with a scale in float32, ``max |y| / greatest number of the format`` (a power of two with ``round_scale``); 1: MX
    blocks of 32, with the scale's exponent + 127 as uint8, in pairs. ``dst_type``: float8_e5m2 (23, 291) or float8_e4m3fn (24,
    292). Returns (elements, scales, ``silu(a) * b`` in x's dtype with ``output_origin``, else empty). Its gradient passes as if
    nothing was rounded. Raises NotImplementedError for the hifloat8 modes 2 and 3, and for ``scale``, which goes with them.
    """
    name = "npu_swiglu_group_quant"
    unsupported(name, scale=scale)
    if quant_mode not in _BLOCK or block_size not in (0, _BLOCK[quant_mode]):
        raise NotImplementedError(
            f"{name}: quant_mode {quant_mode} with block_size {block_size} is not supported; 0 with 128 and 1 with 32 are"
        )
    kind = format_of(name, dst_type)
    if kind not in _LARGEST:
        raise NotImplementedError(f"{name}: float4 is not supported; float8 is")
    elements, scales = _StraightThrough.apply(
        x, weight, group_index, clamp_limit, kind, quant_mode, _BLOCK[quant_mode], round_scale
    )
    origin = torch.where(_rows(x, group_index), _activated(x, clamp_limit), 0.0).to(x.dtype) if output_origin else x.new_empty(0)
    return elements, scales, origin


def npu_swiglu_group_quant_backward(
    grad_y: Tensor,
    x: Tensor,
    *,
    weight: Optional[Tensor] = None,
    y_origin: Optional[Tensor] = None,
    group_index: Optional[Tensor] = None,
    clamp_limit: float = 0.0,
) -> Tuple[Tensor, Tensor]:
    """Gradients of :func:`npu_swiglu_group_quant` before it rounds, for x and weight (empty without weight).

    ``y_origin``: its third result, found again where that is empty, needed with ``weight``, whose gradient is ``sum of grad_y *
    y_origin`` over the last axis.
    Rows behind the groups' are 0.
    """
    if weight is not None and y_origin is None:
        raise ValueError("npu_swiglu_group_quant_backward: with weight, y_origin must be given")
    rows = _rows(x, group_index)
    grad = torch.where(rows, grad_y.float(), 0.0)
    for_weight = x.new_empty(0, dtype=torch.float32)
    if weight is not None and y_origin is not None:
        origin = y_origin if y_origin.numel() else _activated(x, clamp_limit)
        for_weight = (grad * wide(origin)).sum(-1, keepdim=True).to(weight.dtype)
        grad = grad * wide(weight)
    return wide_gradients(lambda given: _activated(given, clamp_limit), (x,), grad)[0], for_weight


def _npu_swiglu_backward_mx_quant_with_dual_axis(
    x: Tensor,
    y_grad: Tensor,
    *,
    group_index: Optional[Tensor] = None,
    activate_left: bool = True,
    round_mode: str = "rint",
    scale_alg: int = 1,
    dst_type: int = 24,
    dst_type_max: float = 0.0,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient of swiglu for ``x`` [..., rows, 2 * size], ``silu(a) * b`` with ``activate_left``, else ``a * silu(b)``, then
    :func:`npu_dynamic_mx_quant_with_dual_axis` of it. Raises NotImplementedError for group_index."""
    name = "_npu_swiglu_backward_mx_quant_with_dual_axis"
    unsupported(name, group_index=group_index)

    grad = wide_gradients(lambda given: swiglu(given, activate_left), (x,), y_grad)[0]
    return quantize_both_axes(name, grad, dst_type, round_mode, scale_alg, dst_type_max)


def _npu_rms_norm_backward_quant(
    dy: Tensor,
    x: Tensor,
    rstd: Tensor,
    gamma: Tensor,
    scale_x: Tensor,
    *,
    offset_x: Optional[Tensor] = None,
    div_mode: Optional[bool] = True,
    quant_mode: str = "static",
    dst_type: Optional[int] = 1,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_rms_norm_backward` with int8 for x: ``round(dx / scale_x + offset_x)``, ``dx * scale_x`` unless ``div_mode``.

    ``rstd``: [...] or [..., 1]; ``scale_x`` and ``offset_x`` (int32): [1]. Returns (int8 like x, gradient of gamma as float32).
    Only static quantization to int8.
    """
    if quant_mode != "static" or dst_type not in (None, 1):
        raise NotImplementedError(
            f"_npu_rms_norm_backward_quant: quant_mode {quant_mode!r} ('static' is supported), dst_type {dst_type} (1 is)"
        )
    shape = [*x.shape[: x.dim() - gamma.dim()], *[1] * gamma.dim()]
    dx, dgamma = npu_rms_norm_backward(wide(dy), wide(x), gamma, rstd.reshape(shape))
    value = dx / wide(scale_x) if div_mode or div_mode is None else dx * wide(scale_x)
    return as_int8(value if offset_x is None else value + wide(offset_x)), dgamma
