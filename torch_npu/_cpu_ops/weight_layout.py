"""Quantised weights as products want them."""

from typing import Optional, Tuple

import torch
from torch import Tensor

# The numbers of dtypes: c10::ScalarType, or 256 and CANN's number.
_E4M3, _E2M1, _E8M0 = (24, 292), (45, 296), (44, 293)


def _copy(tensor: Optional[Tensor], like: Tensor) -> Tensor:
    """A copy with the same strides, an empty tensor of None."""
    if tensor is None:
        return like.new_empty(0)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def npu_weight_quant_preprocess(
    weight: Tensor,
    weight_scale: Tensor,
    x_dtype: int,
    weight_dtype: int,
    weight_scale_dtype: int,
    weight_offset: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    x_scale_dtype: Optional[int] = None,
    k_group_size: Optional[int] = 0,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights in MX float4 for products with MX float8: (weight, weight_scale, weight_offset, bias) as those products take them.

    ``weight``: two float4 in a uint8, [n, k / 2] seen transposed, or [experts, n, k / 2] with the last two dimensions swapped;
    ``weight_scale``: [n, k / 64, 2] seen transposed, or [experts, ...] likewise; dtypes by number: float8_e4m3fn for x,
    float4_e2m1fn_x2 for the weight, float8_e8m0fnu for both scales. Products here read base formats: the results are copies
    with the same values and strides, empty for what is not given. Raises NotImplementedError for other dtypes, ValueError for
    tensors that are not transposed.
    """
    name = "npu_weight_quant_preprocess"
    if x_dtype not in _E4M3 or weight_dtype not in _E2M1 or weight_scale_dtype not in _E8M0 or x_scale_dtype not in _E8M0:
        raise NotImplementedError(
            f"{name}: x_dtype {x_dtype} (24, 292), weight_dtype {weight_dtype} (45, 296), "
            f"weight_scale_dtype {weight_scale_dtype} and x_scale_dtype {x_scale_dtype} (44, 293): those in brackets are served"
        )
    dims = weight.dim()
    if dims not in (2, 3) or weight_scale.dim() != dims + 1:
        raise ValueError(f"{name}: weight has {dims} dimensions and weight_scale {weight_scale.dim()}, not 2 and 3 or 3 and 4")
    if not weight.transpose(-2, -1).is_contiguous() or not weight_scale.transpose(dims - 2, dims - 1).is_contiguous():
        raise ValueError(f"{name}: weight and weight_scale must be transposed views of contiguous tensors")
    return _copy(weight, weight), _copy(weight_scale, weight), _copy(weight_offset, weight), _copy(bias, weight)
