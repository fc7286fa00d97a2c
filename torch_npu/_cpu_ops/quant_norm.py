"""Norms, activations and rotations with quantised results."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._blocks import encode, format_of, quantize_blocks
from torch_npu._cpu_ops._common import groups_of, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, by_token, packed


def npu_add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    smooth_scale1: Optional[Tensor] = None,
    smooth_scale2: Optional[Tensor] = None,
    beta: Optional[Tensor] = None,
    epsilon: float = 1e-6,
    output_mask: Optional[List[bool]] = None,
    y_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y = x / rms(x) * gamma + beta with x = x1 + x2, as int8 with a scale for each row, once or twice.

    Quantised are ``y * smooth_scale1`` and ``y * smooth_scale2`` (y without them), as :func:`npu_dynamic_quant`.
    ``output_mask``: which of the two are wanted; without it the first, and the second where both smooth scales are given.
    Returns (first, second, x, scales of the first, of the second), zero-dim where not wanted. Only int8. ``x1`` and ``x2``:
    [..., size], float16 or bfloat16; the factors: [size]; scales: float32 [...].
    """
    if y_dtype not in (None, 1):
        raise NotImplementedError(f"npu_add_rms_norm_dynamic_quant: y_dtype {y_dtype} is not supported, only int8")
    total = wide(x1) + wide(x2)
    x = total.to(x1.dtype)
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + epsilon) * wide(gamma)
    y = y if beta is None else y + wide(beta)
    wanted = list(output_mask) if output_mask else [True, smooth_scale1 is not None and smooth_scale2 is not None]
    results = []
    for flag, smooth in zip(wanted, (smooth_scale1, smooth_scale2)):
        found = by_token(y if smooth is None else y * wide(smooth)) if flag else None
        results.append(found or (x1.new_zeros((), dtype=torch.int8), x1.new_zeros((), dtype=torch.float32)))
    return results[0][0], results[1][0], x, results[0][1], results[1][1]


def npu_rms_norm_quant(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    epsilon: float = 1e-6,
    *,
    dst_dtype: Optional[int] = None,
) -> Tensor:
    """``round((x / rms(x) * gamma + beta) * scale + offset)`` as int8; scale and offset have one element."""
    if dst_dtype not in (None, 1):
        raise NotImplementedError(f"npu_rms_norm_quant: dst_dtype {dst_dtype} is not supported, only int8")
    normal = wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + epsilon)
    return as_int8((normal * wide(gamma) + wide(beta)) * wide(scale) + wide(offset))


def npu_rms_norm_quant_v2(
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    *,
    offset: Optional[Tensor] = None,
    beta: Optional[Tensor] = None,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    """``round(y / scale + offset)`` as int8 with ``y = x / rms(x) * gamma + beta``, or ``y * scale`` unless ``div_mode``.

    ``x``: floating point [..., size]; ``gamma``, ``beta``: [size]; ``scale``, ``offset``: [1] or [size]. Returns (int8 like x,
    an empty float32 tensor in the place of 1 / rms)."""
    if dst_dtype not in (None, 1):
        raise NotImplementedError(f"npu_rms_norm_quant_v2: dst_dtype {dst_dtype} is not supported, only int8")
    y = wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + epsilon) * wide(gamma)
    y = y if beta is None else y + wide(beta)
    y = y / wide(scale) if div_mode else y * wide(scale)
    return as_int8(y if offset is None else y + wide(offset)), x.new_empty(0, dtype=torch.float32)


def npu_add_rms_norm_v2_functional(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor, Tensor]:
    """:func:`npu_add_rms_norm_v2` with new tensors: returns (1 / rms, y, x1 + x2)."""
    y, rstd, total = torch.ops.npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    return rstd, y, total


def npu_gelu_quant(
    self: Tensor,
    *,
    input_scale: Optional[Tensor] = None,
    input_offset: Optional[Tensor] = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
    dst_type: Optional[int] = None,
    round_mode: str = "rint",
) -> Tuple[Tensor, Optional[Tensor]]:
    """gelu(x) as int8: "dynamic", a scale for each row of ``gelu(x) * input_scale``; "static", ``round(gelu(x) * input_scale +
    input_offset)``. Returns (int8, float32 scales, None in static mode).

    ``self``: [..., size], floating point; the int8 has its shape, scales are [...].
    """
    if dst_type not in (None, 1) or round_mode != "rint" or quant_mode not in ("dynamic", "static"):
        raise NotImplementedError(
            f"npu_gelu_quant: dst_type={dst_type} (int8 is supported), round_mode={round_mode!r} (rint), "
            f"quant_mode={quant_mode!r} (dynamic, static)"
        )
    y = F.gelu(wide(self), approximate=approximate)
    y = y if input_scale is None else y * wide(input_scale)
    if quant_mode == "dynamic":
        return by_token(y)
    return as_int8(y if input_offset is None else y + wide(input_offset)), None


def npu_group_quant(
    x: Tensor, scale: Tensor, group_index: Tensor, *, offset: Optional[Tensor] = None, dst_dtype: Optional[torch.dtype] = None
) -> Tensor:
    """``round(x * scale[g] + offset)`` as int8: x [rows, size], ``scale`` [groups, size], ``group_index``: the groups' ends."""
    if dst_dtype not in (None, torch.int8, 1):
        raise NotImplementedError(f"npu_group_quant: dst_dtype {dst_dtype} is not supported, only int8")
    group = groups_of(x.shape[0], group_index).clamp(max=scale.shape[0] - 1)
    y = wide(x) * wide(scale)[group]
    return as_int8(y if offset is None else y + wide(offset))


def npu_kronecker_quant(
    x: Tensor,
    kronecker_p1: Tensor,
    kronecker_p2: Tensor,
    clip_ratio: Optional[float] = None,
    dst_dtype: Optional[int] = None,
    dst_type_max: Optional[float] = None,
) -> Tuple[Tensor, Tensor]:
    """``p1 x p2`` for each x [m, n] of [batch, m, n], as int4 with a scale for each: ``s = max |y| * clip_ratio / 7``.

    Returns (int4, eight in an int32, [batch, m, n / 8]; float32 scales [batch]). Raises NotImplementedError for other dtypes.
    """
    unsupported("npu_kronecker_quant", dst_type_max=dst_type_max or None)
    if dst_dtype not in (None, 3):
        raise NotImplementedError(f"npu_kronecker_quant: dst_dtype {dst_dtype} is not supported, only int4 packed in int32 (3)")
    y = torch.matmul(torch.matmul(wide(kronecker_p1), wide(x)), wide(kronecker_p2))
    scale = y.abs().amax((-1, -2)) * (1.0 if clip_ratio is None else clip_ratio) / 7
    spread = scale.view(-1, 1, 1)
    return packed(torch.where(spread > 0, y / spread, 0.0).round()), scale.float()


def npu_rotate_quant(
    x: Tensor,
    rotation: Tensor,
    *,
    alpha: Optional[Tensor] = None,
    dst_dtype: Optional[int] = None,
    axis: Optional[int] = -1,
    round_mode: Optional[str] = "rint",
    scale_alg: Optional[int] = 0,
    dst_type_max: Optional[float] = 0.0,
    transpose_y: Optional[bool] = False,
) -> Tuple[Tensor, Tensor]:
    """x [rows, size] turned by the matrix ``rotation`` [r, r], in parts of r elements, then quantised: to int8 with a scale
    for each row, or (``dst_dtype`` float8, float4) as :func:`npu_dynamic_mx_quant`, with scales of torch.float8_e8m0fnu. Raises
    NotImplementedError for alpha and transpose_y."""
    unsupported("npu_rotate_quant", alpha=alpha, transpose_y=transpose_y or None)
    y = torch.matmul(wide(x).unflatten(-1, (-1, rotation.shape[0])), wide(rotation)).flatten(-2)
    if dst_dtype in (None, 1):
        return by_token(y)
    name, along = "npu_rotate_quant", -1 if axis is None else axis
    kind, largest = format_of(name, dst_dtype), dst_type_max or 0.0
    elements, scale = quantize_blocks(name, y.to(x.dtype), along, kind, round_mode or "rint", scale_alg or 0, largest)
    return elements, scale.view(torch.float8_e8m0fnu)


def npu_quant_max(
    x: Tensor, scale: Tensor, *, round_mode: str = "rint", dst_dtype: int = 291, group_list: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor]:
    """``x * scale`` in float8, and the greatest |x|: (elements, [1] in x's dtype). With ``group_list``, where the groups of
    rows end, ``scale`` and the maxima are [groups]."""
    kind = format_of("npu_quant_max", dst_dtype)
    if group_list is None:
        return encode(wide(x) * wide(scale), kind, round_mode), x.abs().amax().reshape(1)
    group = groups_of(x.shape[0], group_list).clamp(max=scale.numel() - 1)
    spread = wide(scale).reshape(-1)[group].view(-1, *[1] * (x.dim() - 1))
    rows = wide(x).abs().flatten(1).amax(1)
    top = torch.zeros(scale.numel(), device=x.device).scatter_reduce(0, group, rows, "amax")
    return encode(wide(x) * spread, kind, round_mode), top.to(x.dtype)
