"""Products of quantised matrices."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._blocks import format_of, unscaled
from torch_npu._cpu_ops._common import as_dtype, out_of_place, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, bias_parts, by_token, exact, numbers_of_scale, packed


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
    before, behind = bias_parts(bias)
    y = (wide(x) if before is None else wide(x) + wide(before)) * wide(weight_scale)
    y = y if activation_scale is None else y * wide(activation_scale).unsqueeze(-1)
    y = y if behind is None else y + wide(behind)
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
    before, behind = bias_parts(bias)
    y = exact(x1, x2) if before is None else exact(x1, x2) + before.double()
    y = y.float() * wide(x2_scale) * wide(x1_scale).unsqueeze(-1)
    y = y if behind is None else y + wide(behind)
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
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    perm_x1: Optional[List[int]] = None,
    perm_x2: Optional[List[int]] = None,
    perm_y: Optional[List[int]] = None,
    **given: Any,
) -> Tensor:
    """``(x1.permute(perm_x1) @ x2.permute(perm_x2) * x2_scale * x1_scale).permute(perm_y)`` for float8 or int8 [.., .., ..].

    ``x1_scale`` [m], ``x2_scale`` [n]. Raises NotImplementedError for bias, MX scales, group_sizes and x1_dtype, x2_dtype.
    """
    name = "npu_transpose_quant_batchmatmul"
    mx_scales = x1_scale if x1_scale is not None and x1_scale.dim() > 1 else None
    unsupported(name, "batch_split_factor", **given, mx_scales=mx_scales)
    a, b = wide(x1).permute(perm_x1 or [0, 1, 2]), wide(x2).permute(perm_x2 or [0, 1, 2])
    y = torch.matmul(a, b)
    y = y if x2_scale is None else y * wide(x2_scale)
    y = y if x1_scale is None else y * wide(x1_scale).view(-1, 1)
    return y.permute(perm_y or [0, 1, 2]).contiguous().to(as_dtype(dtype))


def npu_convert_weight_to_int4pack(weight: Tensor, inner_k_tiles: int = 0) -> Tensor:
    """int32 numbers from -8 to 7, [rows, columns], as int4, eight in an int32, the first lowest: [rows, columns / 8]."""
    if weight.dtype != torch.int32:
        raise TypeError(f"npu_convert_weight_to_int4pack: expected an int32 weight, but got {weight.dtype}")
    if weight.shape[-1] % 8:
        raise ValueError(f"npu_convert_weight_to_int4pack: the last dimension, {weight.shape[-1]}, is no multiple of 8")
    return packed(weight)


def npu_add_quant_matmul_(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Optional[Tensor] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    **_: Any,
) -> Tensor:
    """Adds ``x1 @ x2`` times the scales: float8 [m, k] and [k, n] with MX scales along k ([m, k / 64, 2] and [k / 64, n, 2]),
    or with one scale each. Returns input, float32."""
    self += _scaled_product(x1, x2, x1_scale, x2_scale, x1_dtype, x2_dtype)
    return self


def _scaled_product(
    x1: Tensor, x2: Tensor, x1_scale: Optional[Tensor], x2_scale: Tensor, x1_dtype: Optional[int], x2_dtype: Optional[int]
) -> Tensor:
    if x2_scale.dim() >= 3:
        if x1_scale is None:
            raise ValueError("npu_add_quant_matmul: MX scales of x2 need those of x1")
        kinds = [format_of("npu_add_quant_matmul", dtype or x.dtype) for x, dtype in ((x1, x1_dtype), (x2, x2_dtype))]
        return torch.matmul(unscaled(x1, x1_scale, -1, kinds[0]), unscaled(x2, x2_scale, 0, kinds[1]))
    y = torch.matmul(wide(x1), wide(x2)) * wide(x2_scale).reshape(-1)
    return y if x1_scale is None else y * wide(x1_scale).reshape(-1, 1)


npu_add_quant_matmul = out_of_place(npu_add_quant_matmul_)


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
    rank]; ``layer_idx`` chooses the layer. ``y_slice_size`` -1: all columns. Returns input. All are floating point but
    ``indices``, int32 [rows].
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


npu_batch_gather_matmul = out_of_place(npu_batch_gather_matmul_)


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
    image = F.pad(self.double(), (pads[1], pads[1], pads[0], pads[0]), value=float(offset_x))
    sums = F.conv2d(image, weight.double(), None, strides, 0, dilations, groups)
    if bias is not None:
        sums = sums + bias.double().view(1, -1, 1, 1)
    scaled = sums.float() * numbers_of_scale(scale).view(1, -1, 1, 1)
    return scaled.to(torch.float16 if output_dtype is None else as_dtype(output_dtype))
