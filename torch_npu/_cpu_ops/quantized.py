"""Norms and activations with quantised results, and products of quantised matrices, grouped ones too."""

from typing import List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import as_dtype, unsupported, wide
from torch_npu._cpu_ops.kv_cache import as_int8

__all__ = [
    "npu_add_rms_norm_dynamic_quant",
    "npu_rms_norm_quant",
    "npu_rms_norm_quant_v2",
    "npu_add_rms_norm_v2_functional",
    "npu_gelu_quant",
    "npu_group_quant",
    "npu_dequant_bias",
    "npu_quant_matmul_gelu",
    "npu_quant_matmul_reduce_sum",
    "npu_quant_matmul_dequant",
    "npu_quant_grouped_matmul_dequant",
    "npu_transpose_quant_batchmatmul",
    "npu_convert_weight_to_int4pack",
    "npu_kronecker_quant",
    "npu_rotate_quant",
    "npu_grouped_matmul_swiglu_quant",
    "npu_grouped_matmul_swiglu_quant_v2",
    "npu_grouped_matmul_finalize_routing",
    "npu_grouped_matmul_List",
    "npu_moe_init_routing_quant",
    "npu_moe_update_expert",
    "npu_add_quant_matmul",
    "npu_add_quant_matmul_",
    "npu_add_quant_gmm",
    "npu_add_quant_gmm_",
    "npu_quant_max",
    "npu_batch_gather_matmul",
    "npu_batch_gather_matmul_",
    "npu_quant_conv2d",
]


def by_token(value: Tensor) -> Tuple[Tensor, Tensor]:
    """(round(x / s) as int8, s = max |x| / 127 of each row, without the last dimension)."""
    scale = value.abs().amax(-1, keepdim=True) / 127
    return as_int8(torch.where(scale > 0, value / scale, 0.0)), scale.squeeze(-1).float()


def exact(a: Tensor, b: Tensor) -> Tensor:
    """The product of two int8 matrices in float64, which holds their sums."""
    return torch.matmul(a.double(), b.double())


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
    Returns (first, second, x, scales of the first, of the second), empty where not wanted. Only int8.
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
        results.append(found or (x1.new_empty(0, dtype=torch.int8), x1.new_empty(0, dtype=torch.float32)))
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

    Returns (int8, 1 / rms as float32 [..., 1])."""
    if dst_dtype not in (None, 1):
        raise NotImplementedError(f"npu_rms_norm_quant_v2: dst_dtype {dst_dtype} is not supported, only int8")
    rstd = torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + epsilon)
    y = wide(x) * rstd * wide(gamma)
    y = y if beta is None else y + wide(beta)
    y = y / wide(scale) if div_mode else y * wide(scale)
    return as_int8(y if offset is None else y + wide(offset)), rstd


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
) -> Tuple[Tensor, Tensor]:
    """gelu(x) as int8: "dynamic", a scale for each row of ``gelu(x) * input_scale``; "static", ``round(gelu(x) * input_scale +
    input_offset)``. Returns (int8, float32 scales, empty in static mode)."""
    if dst_type not in (None, 1) or round_mode != "rint" or quant_mode not in ("dynamic", "static"):
        raise NotImplementedError(
            f"npu_gelu_quant: dst_type={dst_type} (int8 is supported), round_mode={round_mode!r} (rint), "
            f"quant_mode={quant_mode!r} (dynamic, static)"
        )
    y = F.gelu(wide(self), approximate=approximate)
    y = y if input_scale is None else y * wide(input_scale)
    if quant_mode == "dynamic":
        return by_token(y)
    return as_int8(y if input_offset is None else y + wide(input_offset)), self.new_empty(0, dtype=torch.float32)


def _groups(rows: int, ends: Tensor) -> Tensor:
    """The group of each row; the number of groups behind the last."""
    return torch.searchsorted(ends.long().contiguous(), torch.arange(rows, device=ends.device), right=True)


def npu_group_quant(
    x: Tensor, scale: Tensor, group_index: Tensor, *, offset: Optional[Tensor] = None, dst_dtype: Optional[torch.dtype] = None
) -> Tensor:
    """``round(x * scale[g] + offset)`` as int8: x [rows, size], ``scale`` [groups, size], ``group_index``: the groups' ends."""
    if dst_dtype not in (None, torch.int8, 1):
        raise NotImplementedError(f"npu_group_quant: dst_dtype {dst_dtype} is not supported, only int8")
    group = _groups(x.shape[0], group_index).clamp(max=scale.shape[0] - 1)
    y = wide(x) * wide(scale)[group]
    return as_int8(y if offset is None else y + wide(offset))


def npu_dequant_bias(
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Optional[Tensor],
    bias: Optional[Tensor],
    *,
    output_dtype: Optional[torch.dtype] = None,
) -> Tensor:
    """An int32 product [rows, columns] in floating point: ``x * weight_scale * activation_scale``, with an int32 ``bias`` added
    before, a floating one after. The result is float16, or ``output_dtype``."""
    whole = bias is not None and bias.dtype == torch.int32
    y = wide(x) + (wide(bias) if whole else 0)
    y = y * wide(weight_scale)
    y = y if activation_scale is None else y * wide(activation_scale).unsqueeze(-1)
    y = y + wide(bias) if bias is not None and not whole else y
    return y.to(torch.float16 if output_dtype is None else as_dtype(output_dtype))


def npu_quant_matmul_gelu(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    *,
    bias: Optional[Tensor] = None,
    approximate: Optional[str] = "gelu_erf",
) -> Tensor:
    """gelu of ``x1 @ x2 * x2_scale * x1_scale`` for int8 matrices; ``x1_scale`` [rows], ``x2_scale`` [columns]. An int32
    ``bias`` is added before the scales, another after. ``approximate``: "gelu_erf", "gelu_tanh". The result is float16, or
    bfloat16 where x2_scale or bias are."""
    y = exact(x1, x2)
    whole = bias is not None and bias.dtype == torch.int32
    y = (y + bias.double() if whole else y).float() * wide(x2_scale) * wide(x1_scale).unsqueeze(-1)
    y = y + wide(bias) if bias is not None and not whole else y
    y = F.gelu(y, approximate="tanh" if approximate == "gelu_tanh" else "none")
    brain = x2_scale.dtype == torch.bfloat16 or (bias is not None and bias.dtype == torch.bfloat16)
    return y.to(torch.bfloat16 if brain else torch.float16)


def npu_quant_matmul_reduce_sum(
    x1: Tensor, x2: Tensor, *, x1_scale: Optional[Tensor] = None, x2_scale: Optional[Tensor] = None
) -> Tensor:
    """The sum over the batch of ``x1 @ x2 * x1_scale * x2_scale``: int8 [batch, m, k] and [batch, k, n], ``x1_scale`` [batch, m],
    ``x2_scale`` [n]. Returns bfloat16 [m, n]."""
    if x1_scale is None or x2_scale is None:
        raise ValueError("npu_quant_matmul_reduce_sum: x1_scale and x2_scale must be given")
    return (exact(x1, x2).float() * wide(x1_scale).unsqueeze(-1) * wide(x2_scale)).sum(0).to(torch.bfloat16)


def _quantized_input(
    x: Tensor, x_scale: Optional[Tensor], x_offset: Optional[Tensor], smooth_scale: Optional[Tensor], quant_mode: Optional[str]
) -> Tuple[Tensor, Tensor]:
    value = wide(x) if smooth_scale is None else wide(x) * wide(smooth_scale)
    if quant_mode == "pertoken" and x_scale is None:
        return by_token(value)
    if x_scale is None:
        raise ValueError("quant_mode 'pertensor' needs x_scale")
    scale = wide(x_scale).reshape(-1)
    spread = scale.unsqueeze(-1) if scale.numel() > 1 else scale
    value = value / spread
    return as_int8(value if x_offset is None else value + wide(x_offset)), scale.expand(x.shape[0])


def npu_quant_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    *,
    bias: Optional[Tensor] = None,
    x_scale: Optional[Tensor] = None,
    x_offset: Optional[Tensor] = None,
    smooth_scale: Optional[Tensor] = None,
    quant_mode: Optional[str] = "pertoken",
) -> Tensor:
    """``x @ w^T`` where x [m, k] is quantised to int8 first: the int8 weight is [n, k], ``weight_scale`` [n].

    ``quant_mode`` "pertoken": a scale for each row, found or given by ``x_scale`` [m]; "pertensor": ``x_scale`` [1].
    ``smooth_scale`` [k] multiplies x before; an int32 ``bias`` [n] is added to the int32 product. Raises NotImplementedError
    for x_offset.
    """
    unsupported("npu_quant_matmul_dequant", x_offset=x_offset)
    q, scale = _quantized_input(x, x_scale, x_offset, smooth_scale, quant_mode)
    product = exact(q, quantized_weight.t())
    product = product if bias is None else product + bias.double()
    return (product.float() * scale.unsqueeze(-1) * wide(weight_scale)).to(x.dtype)


def npu_quant_grouped_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    group_list: Tensor,
    *,
    bias: Optional[Tensor] = None,
    x_scale: Optional[Tensor] = None,
    x_offset: Optional[Tensor] = None,
    smooth_scale: Optional[Tensor] = None,
    quant_mode: Optional[str] = "pertoken",
) -> Tensor:
    """:func:`npu_quant_matmul_dequant` with a weight for each group of rows: weights [groups, n, k], ``weight_scale``
    [groups, n], ``bias`` [groups, n], ``smooth_scale`` [groups, k]; ``group_list``: where the groups end. Rows behind the
    last are 0."""
    unsupported("npu_quant_grouped_matmul_dequant", x_offset=x_offset)
    out = x.new_zeros(x.shape[0], quantized_weight.shape[1])
    if x.device.type == "meta":
        return out
    start = 0
    for i, end in enumerate(group_list.tolist()):

        def part(t: Optional[Tensor], i: int = i) -> Optional[Tensor]:
            return t if t is None or t.dim() < 2 else t[i]

        rows = slice(start, end)
        scale = None if x_scale is None else x_scale[rows] if x_scale.numel() > 1 else x_scale
        out[rows] = npu_quant_matmul_dequant(
            x[rows],
            quantized_weight[i],
            weight_scale[i],
            bias=part(bias),
            x_scale=scale,
            smooth_scale=part(smooth_scale),
            quant_mode=quant_mode,
        )
        start = end
    return out


def npu_transpose_quant_batchmatmul(
    x1: Tensor,
    x2: Tensor,
    dtype: int,
    *,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    group_sizes: Optional[List[int]] = None,
    perm_x1: Optional[List[int]] = None,
    perm_x2: Optional[List[int]] = None,
    perm_y: Optional[List[int]] = None,
    batch_split_factor: Optional[int] = 1,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
) -> Tensor:
    """``(x1.permute(perm_x1) @ x2.permute(perm_x2) * x2_scale * x1_scale).permute(perm_y)`` for float8 or int8 [.., .., ..].

    ``x1_scale`` [m], ``x2_scale`` [n]. Raises NotImplementedError for bias, MX scales, group_sizes and x1_dtype, x2_dtype.
    """
    name = "npu_transpose_quant_batchmatmul"
    unsupported(
        name,
        bias=bias,
        group_sizes=group_sizes,
        x1_dtype=x1_dtype,
        x2_dtype=x2_dtype,
        mx_scales=x1_scale if x1_scale is not None and x1_scale.dim() > 1 else None,
    )
    a, b = wide(x1).permute(perm_x1 or [0, 1, 2]), wide(x2).permute(perm_x2 or [0, 1, 2])
    y = torch.matmul(a, b)
    y = y if x2_scale is None else y * wide(x2_scale)
    y = y if x1_scale is None else y * wide(x1_scale).view(-1, 1)
    return y.permute(perm_y or [0, 1, 2]).contiguous().to(as_dtype(dtype))


def npu_convert_weight_to_int4pack(weight: Tensor, inner_k_tiles: int = 0) -> Tensor:
    """int32 numbers from -8 to 7, [rows, columns], as int4, eight in an int32, the first lowest: [rows, columns / 8]."""
    if weight.shape[-1] % 8:
        raise ValueError(f"npu_convert_weight_to_int4pack: the last dimension, {weight.shape[-1]}, is no multiple of 8")
    nibbles = weight.to(torch.int64).bitwise_and(15).unflatten(-1, (-1, 8))
    shifts = torch.arange(0, 32, 4, device=weight.device)
    packed = (nibbles << shifts).sum(-1)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)


def _int4_packed(value: Tensor) -> Tensor:
    return npu_convert_weight_to_int4pack(value.round().clamp(-8, 7).to(torch.int32))


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
    return _int4_packed(torch.where(spread > 0, y / spread, 0.0)), scale.float()


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
    for each row, or (``dst_dtype`` float8, float4) as :func:`npu_dynamic_mx_quant`. Raises NotImplementedError for alpha and
    transpose_y."""
    from torch_npu._cpu_ops import microscaling

    unsupported("npu_rotate_quant", alpha=alpha, transpose_y=transpose_y or None)
    y = torch.matmul(wide(x).unflatten(-1, (-1, rotation.shape[0])), wide(rotation)).flatten(-2)
    if dst_dtype in (None, 1):
        return by_token(y)
    return microscaling.quantize_blocks(
        "npu_rotate_quant",
        y.to(x.dtype),
        -1 if axis is None else axis,
        microscaling.format_of("npu_rotate_quant", dst_dtype),
        round_mode,
        scale_alg or 0,
        dst_type_max or 0.0,
    )


def npu_quant_max(
    x: Tensor, scale: Tensor, *, round_mode: str = "rint", dst_dtype: int = 291, group_list: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor]:
    """``x * scale`` in float8, and the greatest |x|: (elements, [1] in x's dtype). With ``group_list``, where the groups of
    rows end, ``scale`` and the maxima are [groups]."""
    from torch_npu._cpu_ops import microscaling

    kind = microscaling.format_of("npu_quant_max", dst_dtype)
    if group_list is None:
        return microscaling.encode(wide(x) * wide(scale), kind, round_mode), x.abs().amax().reshape(1)
    group = _groups(x.shape[0], group_list).clamp(max=scale.numel() - 1)
    spread = wide(scale).reshape(-1)[group].view(-1, *[1] * (x.dim() - 1))
    rows = wide(x).abs().flatten(1).amax(1)
    top = torch.zeros(scale.numel(), device=x.device).scatter_reduce(0, group, rows, "amax")
    return microscaling.encode(wide(x) * spread, kind, round_mode), top.to(x.dtype)


def _ends(group_list: Tensor, kind: Optional[int]) -> List[int]:
    """Where the groups end, out of that (0), their lengths (1), or pairs of a group and its length (2)."""
    return (group_list.cumsum(0) if kind == 1 else group_list).tolist()


def _grouped(x: Tensor, weights: List[Tensor], scales: List[Tensor], x_scale: Tensor, ends: List[int]) -> Tensor:
    """int8 products of groups of rows, times the scales of the rows and of the columns; float32, 0 behind the last group."""
    out = torch.zeros(x.shape[0], weights[0].shape[-1], device=x.device)
    start = 0
    for weight, scale, end in zip(weights, scales, ends):
        product = exact(x[start:end], weight).float()
        out[start:end] = product * wide(scale).reshape(1, -1) * x_scale[start:end].reshape(-1, 1)
        start = end
    return out


def _swiglu_by_token(y: Tensor, last: int) -> Tuple[Tensor, Tensor]:
    a, b = y.chunk(2, -1)
    q, scale = by_token(F.silu(a) * b)
    q[last:], scale[last:] = 0, 0
    return q, scale


def npu_grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    *,
    bias: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Products of groups of int8 rows with a weight each, swiglu of their halves, and quantization by rows.

    ``x``: [m, k]; ``weight``: int8 [groups, k, n]; ``group_list``: where the groups end; ``weight_scale`` [groups, n],
    ``x_scale`` [m]. Returns (int8 [m, n / 2], float32 scales [m], an empty tensor). Raises NotImplementedError for bias and
    offset.
    """
    unsupported("npu_grouped_matmul_swiglu_quant", bias=bias, offset=offset)
    none = x.new_empty(0, dtype=torch.float32)
    if x.device.type == "meta":
        return (
            x.new_empty(x.shape[0], weight.shape[-1] // 2, dtype=torch.int8),
            x.new_empty(x.shape[0], dtype=torch.float32),
            none,
        )
    ends = _ends(group_list, 0)
    y = _grouped(x, list(weight), list(weight_scale), wide(x_scale), ends)
    return (*_swiglu_by_token(y, ends[-1]), none)


def npu_grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: List[Tensor],
    weight_scale: List[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    *,
    smooth_scale: Optional[Tensor] = None,
    weight_assist_matrix: Optional[List[Tensor]] = None,
    bias: Optional[Tensor] = None,
    dequant_mode: Optional[int] = 0,
    dequant_dtype: Optional[int] = 6,
    quant_mode: Optional[int] = 0,
    quant_dtype: Optional[int] = 1,
    group_list_type: Optional[int] = 0,
    tuning_config: Optional[List[int]] = None,
    x_dtype: Optional[int] = None,
    weight_dtype: Optional[int] = None,
    weight_scale_dtype: Optional[int] = None,
    x_scale_dtype: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_grouped_matmul_swiglu_quant` with lists: one weight [groups, k, n], or one [k, n] for each group; likewise
    scales.

    ``group_list_type`` 0: where the groups end, 1: how long they are. ``smooth_scale`` [groups] or [groups, n / 2] multiplies
    before the quantization. Returns (int8, float32 scales). Only int8; raises NotImplementedError for int4 and MX.
    """
    name = "npu_grouped_matmul_swiglu_quant_v2"
    unsupported(
        name,
        weight_assist_matrix=weight_assist_matrix or None,
        bias=bias,
        x_dtype=x_dtype,
        weight_dtype=weight_dtype,
        dequant_mode=dequant_mode or None,
        quant_mode=quant_mode or None,
    )
    if x.dtype != torch.int8 or weight[0].dtype != torch.int8:
        raise NotImplementedError(f"{name}: x of {x.dtype} with weights of {weight[0].dtype} is not supported, only int8")
    weights = list(weight[0]) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    scales = list(weight_scale[0]) if len(weight_scale) == 1 and weight_scale[0].dim() >= 2 else list(weight_scale)
    if x.device.type == "meta":
        return x.new_empty(x.shape[0], weights[0].shape[-1] // 2, dtype=torch.int8), x.new_empty(x.shape[0], dtype=torch.float32)
    ends = _ends(group_list, group_list_type)
    y = _grouped(x, weights, scales, wide(x_scale), ends)
    if smooth_scale is None:
        return _swiglu_by_token(y, ends[-1])
    a, b = y.chunk(2, -1)
    group = _groups(x.shape[0], torch.tensor(ends, device=x.device)).clamp(max=len(ends) - 1)
    smooth = wide(smooth_scale)[group]
    q, scale = by_token(F.silu(a) * b * (smooth.unsqueeze(-1) if smooth.dim() == 1 else smooth))
    q[ends[-1] :], scale[ends[-1] :] = 0, 0
    return q, scale


def npu_grouped_matmul_finalize_routing(
    x: Tensor,
    w: Tensor,
    group_list: Tensor,
    *,
    scale: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    pertoken_scale: Optional[Tensor] = None,
    shared_input: Optional[Tensor] = None,
    logit: Optional[Tensor] = None,
    row_index: Optional[Tensor] = None,
    dtype: Optional[torch.dtype] = None,
    shared_input_weight: Optional[float] = 1.0,
    shared_input_offset: Optional[int] = 0,
    output_bs: Optional[int] = 0,
    group_list_type: Optional[int] = 1,
    tuning_config: Optional[List[int]] = None,
    x_dtype: Optional[int] = None,
    w_dtype: Optional[int] = None,
    scale_dtype: Optional[int] = None,
    pertoken_scale_dtype: Optional[int] = None,
) -> Tensor:
    """Products of groups of int8 rows with an expert each, added up in the rows of their tokens.

    ``x`` [m, k], ``w`` [groups, k, n] int8; ``group_list``: how long the groups are (``group_list_type`` 1) or where they end
    (0); ``scale`` [groups, n], ``pertoken_scale`` [m]. Each row is multiplied by ``logit`` [m] and added to row ``row_index``
    [m] of the result, float32 [output_bs, n]; ``shared_input * shared_input_weight`` is added from row
    ``shared_input_offset`` on. Raises NotImplementedError for bias and offset (int4).
    """
    name = "npu_grouped_matmul_finalize_routing"
    unsupported(name, bias=bias, offset=offset, x_dtype=x_dtype, w_dtype=w_dtype)
    count = output_bs or x.shape[0]
    out = torch.zeros(count, w.shape[-1], device=x.device)
    if shared_input is not None:
        first = shared_input_offset or 0
        out[first : first + shared_input.shape[0]] += wide(shared_input) * shared_input_weight
    if x.device.type == "meta":
        return out
    ends = _ends(group_list, group_list_type)
    ones = torch.ones(1, device=x.device)
    scales = [ones.expand(w.shape[-1])] * len(ends) if scale is None else list(scale)
    rows = _grouped(x, list(w), scales, ones.expand(x.shape[0]) if pertoken_scale is None else wide(pertoken_scale), ends)
    rows = rows if logit is None else rows * wide(logit).unsqueeze(-1)
    index = torch.arange(x.shape[0], device=x.device) if row_index is None else row_index.long()
    return out.index_add_(0, index[: ends[-1]], rows[: ends[-1]])


def npu_grouped_matmul_List(
    x: List[Tensor],
    weight: List[Tensor],
    *,
    bias: Optional[List[Tensor]] = None,
    scale: Optional[List[Tensor]] = None,
    offset: Optional[List[Tensor]] = None,
    antiquant_scale: Optional[List[Tensor]] = None,
    antiquant_offset: Optional[List[Tensor]] = None,
    per_token_scale: Optional[List[Tensor]] = None,
    group_list: Optional[List[int]] = None,
    activation_input: Optional[List[Tensor]] = None,
    activation_quant_scale: Optional[List[Tensor]] = None,
    activation_quant_offset: Optional[List[Tensor]] = None,
    split_item: Optional[int] = 0,
    group_type: Optional[int] = None,
    group_list_type: Optional[int] = 0,
    act_type: Optional[int] = 0,
    output_dtype: Optional[torch.dtype] = None,
) -> List[Tensor]:
    """:func:`npu_grouped_matmul` with the ends of the groups as a list."""
    groups = torch.tensor(list(group_list), device=x[0].device) if group_list else None
    return torch.ops.npu.npu_grouped_matmul(
        x,
        weight,
        bias=bias,
        scale=scale,
        offset=offset,
        antiquant_scale=antiquant_scale,
        antiquant_offset=antiquant_offset,
        per_token_scale=per_token_scale,
        group_list=groups,
        activation_input=activation_input,
        activation_quant_scale=activation_quant_scale,
        activation_quant_offset=activation_quant_offset,
        split_item=split_item,
        group_type=group_type,
        group_list_type=group_list_type,
        act_type=act_type,
        output_dtype=output_dtype,
    )


def npu_moe_init_routing_quant(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    active_num: int = 1024,
    expert_capacity: int = 0,
    expert_num: int = 256,
    drop_pad_mode: int = 0,
    expert_tokens_num_mode: int = 0,
    expert_tokens_before_capacity_flag: bool = False,
    quant_mode: int = 1,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Copies of the tokens sorted by expert, as int8.

    ``x`` [tokens, size], ``expert_idx`` int32 [tokens, k]. ``quant_mode`` 0: ``round(x * scale + offset)``, one number each;
    1: a scale for each row of ``x * scale[expert]`` (``scale`` [1 or experts, size]). ``expert_tokens_num_mode`` 1: where the
    experts' copies end, 2: how many each has, both int32 [experts]. Returns (int8 [min(active_num, tokens * k), size], place
    of each copy int32 [tokens * k], the counts or empty, an empty tensor, float32 scales or empty). Raises
    NotImplementedError for dropping.
    """
    name = "npu_moe_init_routing_quant"
    if drop_pad_mode != 0 or expert_tokens_before_capacity_flag:
        raise NotImplementedError(f"{name}: drop_pad_mode 1 is not supported; npu_moe_init_routing_v2 keeps all copies")
    k = expert_idx.shape[-1]
    experts = expert_idx.reshape(-1).long()
    order = torch.argsort(experts, stable=True)
    places = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device)).int()
    rows = min(active_num, order.numel()) if active_num > 0 else order.numel()
    chosen = order[:rows]
    value = wide(x)[chosen // k]
    none, no_counts = x.new_empty(0, dtype=torch.float32), x.new_empty(0, dtype=torch.int32)
    if quant_mode == 0:
        value = value * wide(scale)
        q, scales = as_int8(value if offset is None else value + wide(offset)), none
    else:
        if scale is not None:
            value = value * wide(scale)[experts[chosen] if scale.shape[0] > 1 else torch.zeros_like(chosen)]
        q, scales = by_token(value)
    counts = no_counts
    if expert_tokens_num_mode:
        counts = (experts.unsqueeze(0) == torch.arange(expert_num, device=x.device).unsqueeze(1)).sum(1)
        counts = (counts.cumsum(0) if expert_tokens_num_mode == 1 else counts).int()
    return q, places, counts, no_counts, scales


def npu_moe_update_expert(
    expert_ids: Tensor,
    eplb_table: Tensor,
    *,
    expert_scales: Optional[Tensor] = None,
    pruning_threshold: Optional[Tensor] = None,
    active_mask: Optional[Tensor] = None,
    local_rank_id: int = -1,
    world_size: int = -1,
    balance_mode: int = 0,
) -> Tuple[Tensor, Tensor]:
    """Logical experts [tokens, k] as physical ones, and which of them stay.

    ``eplb_table`` [experts, 1 + copies]: how many copies an expert has, then which. ``balance_mode`` 0: the copy that belongs
    to ``local_rank_id`` of ``world_size``; 1: the tokens take turns. Stays what is in ``active_mask`` [tokens] and, with
    ``expert_scales`` [tokens, k] and ``pruning_threshold`` [k], is above the token's sum of scales times the threshold.
    Returns (experts, bool mask [tokens, k], empty without scales).
    """
    ids = expert_ids.long()
    count = eplb_table[:, 0].long()[ids]
    if balance_mode == 0:
        each = -(-world_size // count)
        turn = torch.div(torch.full_like(ids, local_rank_id), each, rounding_mode="floor")
    else:
        turn = torch.arange(ids.shape[0], device=ids.device).unsqueeze(1) % count
    turn = torch.where(count == 1, 0, turn)
    found = eplb_table.long()[ids, 1 + turn].to(expert_ids.dtype)
    if expert_scales is None:
        return found, expert_ids.new_empty(0, dtype=torch.bool)
    mask = wide(expert_scales).sum(-1, keepdim=True) * wide(pruning_threshold).reshape(1, -1) < wide(expert_scales)
    return found, mask if active_mask is None else mask & active_mask.reshape(-1, 1).bool()


def npu_add_quant_matmul_(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    group_sizes: Optional[List[int]] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    x1_scale_dtype: Optional[int] = None,
    x2_scale_dtype: Optional[int] = None,
) -> Tensor:
    """Adds ``x1 @ x2`` times the scales: float8 [m, k] and [k, n] with MX scales along k ([m, k / 64, 2] and [k / 64, n, 2]),
    or with one scale each. Returns input, float32."""
    self += _scaled_product(x1, x2, x1_scale, x2_scale, x1_dtype, x2_dtype)
    return self


def _scaled_product(
    x1: Tensor, x2: Tensor, x1_scale: Optional[Tensor], x2_scale: Tensor, x1_dtype: Optional[int], x2_dtype: Optional[int]
) -> Tensor:
    from torch_npu._cpu_ops import microscaling

    if x2_scale.dim() >= 3:
        kinds = [
            microscaling.format_of("npu_add_quant_matmul", x.dtype if dtype is None else dtype)
            for x, dtype in ((x1, x1_dtype), (x2, x2_dtype))
        ]
        return torch.matmul(microscaling.unscaled(x1, x1_scale, -1, kinds[0]), microscaling.unscaled(x2, x2_scale, 0, kinds[1]))
    y = torch.matmul(wide(x1), wide(x2)) * wide(x2_scale).reshape(-1)
    return y if x1_scale is None else y * wide(x1_scale).reshape(-1, 1)


def npu_add_quant_matmul(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    group_sizes: Optional[List[int]] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    x1_scale_dtype: Optional[int] = None,
    x2_scale_dtype: Optional[int] = None,
) -> Tensor:
    """:func:`npu_add_quant_matmul_` that leaves the tensor alone and returns a new one."""
    return npu_add_quant_matmul_(
        self.clone(), x1, x2, x2_scale, x1_scale=x1_scale, group_sizes=group_sizes, x1_dtype=x1_dtype, x2_dtype=x2_dtype
    )


def npu_add_quant_gmm_(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    group_list: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    group_list_type: Optional[int] = 0,
    group_sizes: Optional[List[int]] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    x1_scale_dtype: Optional[int] = None,
    x2_scale_dtype: Optional[int] = None,
) -> Tensor:
    """Adds, for each group of columns of x1 [m, k] and of rows of x2 [k, n], their product times ``x2_scale`` [groups] and
    ``x1_scale`` [groups] to input [groups, m, n]. ``group_list``: where the groups end along k (0), or how long they are (1).
    Raises NotImplementedError for MX scales."""
    if x2_scale.dim() >= 3:
        raise NotImplementedError("npu_add_quant_gmm: MX scales are not supported; npu_add_quant_matmul takes them for one group")
    if self.device.type == "meta":
        return self
    start = 0
    for i, end in enumerate(_ends(group_list, group_list_type)):
        y = torch.matmul(wide(x1[:, start:end]), wide(x2[start:end])) * wide(x2_scale).reshape(len(self), -1)[i]
        self[i] += y if x1_scale is None else y * wide(x1_scale).reshape(len(self), -1)[i]
        start = end
    return self


def npu_add_quant_gmm(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    group_list: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    group_list_type: Optional[int] = 0,
    group_sizes: Optional[List[int]] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    x1_scale_dtype: Optional[int] = None,
    x2_scale_dtype: Optional[int] = None,
) -> Tensor:
    """:func:`npu_add_quant_gmm_` that leaves the tensor alone and returns a new one."""
    return npu_add_quant_gmm_(
        self.clone(),
        x1,
        x2,
        x2_scale,
        group_list,
        x1_scale=x1_scale,
        group_list_type=group_list_type,
        group_sizes=group_sizes,
        x1_dtype=x1_dtype,
        x2_dtype=x2_dtype,
    )


def npu_batch_gather_matmul_(
    self: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Optional[Tensor] = None,
    layer_idx: int = 0,
    scale: float = 0.001,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Tensor:
    """Adds low-rank adapters: to columns [y_offset, y_offset + y_slice_size) of row i of input [rows, columns] goes
    ``x[i] @ weight_a[g]^T @ weight_b[g]^T * scale`` with g = ``indices[i]``; rows with a negative index get nothing.

    ``weight_a`` [adapters, layers, rank, size] (without it x is [rows, rank]), ``weight_b`` [adapters, layers, y_slice_size,
    rank]; ``layer_idx`` chooses the layer. ``y_slice_size`` -1: all columns. Returns input.
    """
    chosen = indices.long().clamp(min=0)
    y = wide(x).unsqueeze(1)
    if weight_a is not None:
        y = torch.matmul(y, wide(weight_a)[chosen, layer_idx].transpose(1, 2))
    y = torch.matmul(y, wide(weight_b)[chosen, layer_idx].transpose(1, 2)).squeeze(1) * scale
    y = y * (indices >= 0).unsqueeze(-1)
    size = self.shape[1] if y_slice_size < 0 else y_slice_size
    part = self[:, y_offset : y_offset + size]
    part.copy_((wide(part) + y).to(self.dtype))
    return self


def npu_batch_gather_matmul(
    self: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Optional[Tensor] = None,
    layer_idx: int = 0,
    scale: float = 0.001,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Tensor:
    """:func:`npu_batch_gather_matmul_` that leaves the tensor alone and returns a new one."""
    return npu_batch_gather_matmul_(self.clone(), x, weight_b, indices, weight_a, layer_idx, scale, y_offset, y_slice_size)


def npu_quant_conv2d(
    self: Tensor,
    weight: Tensor,
    scale: Tensor,
    strides: Sequence[int] = [1, 1],
    pads: Sequence[int] = [0, 0],
    dilations: Sequence[int] = [1, 1],
    groups: int = 1,
    offset_x: int = 0,
    round_mode: str = "rint",
    output_dtype: Optional[int] = None,
    bias: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    input_dtype: Optional[int] = None,
    weight_dtype: Optional[int] = None,
) -> Tensor:
    """A convolution of int8 images [batch, channels, height, width] with int8 weights, times ``scale`` of each channel.

    ``scale``: float32 [1 or channels], or int64 as :func:`npu_trans_quant_param` makes it; an int32 ``bias`` is added before.
    ``offset_x`` is what the padding holds. Returns float16, or ``output_dtype``. Raises NotImplementedError for offset and for
    other dtypes than int8.
    """
    unsupported("npu_quant_conv2d", offset=offset, input_dtype=input_dtype, weight_dtype=weight_dtype)
    pair = [list(v) if isinstance(v, (list, tuple)) else [v, v] for v in (strides, pads, dilations)]
    image = F.pad(self.double(), (pair[1][1], pair[1][1], pair[1][0], pair[1][0]), value=float(offset_x))
    sums = F.conv2d(image, weight.double(), None, pair[0], 0, pair[2], groups)
    if bias is not None:
        sums = sums + bias.double().view(1, -1, 1, 1)
    if scale.dtype == torch.int64:  # a float32 in the lower half; the last 13 bits do not count
        scale = scale.bitwise_and(0xFFFFE000).to(torch.int32).view(torch.float32)
    return (sums.float() * wide(scale).view(1, -1, 1, 1)).to(torch.float16 if output_dtype is None else as_dtype(output_dtype))
