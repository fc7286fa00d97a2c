"""Matrix products and convolutions."""

from typing import Any, Callable, Dict, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported


def npu_linear(self: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``self @ weight.T + bias``.

    ``self``: [..., K], ``weight``: [M, K], ``bias``: [M]; floating point. The result [..., M] has ``self``'s dtype, whatever the
    others have.
    """
    dtype = torch.promote_types(self.dtype, weight.dtype)
    return F.linear(self.to(dtype), weight.to(dtype), bias if bias is None else bias.to(dtype)).to(self.dtype)


def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: Sequence[int]) -> Tensor:
    """``self @ mat2``, in the shape ``output_sizes`` unless that is empty. Floating point, as the result."""
    out = torch.matmul(self, mat2)
    return out.reshape(output_sizes) if output_sizes else out


def _convolution(self: Tensor, weight: Tensor, bias: Optional[Tensor], stride: Sequence[int], padding: Sequence[int],
                 dilation: Sequence[int], groups: int, *, dims: int) -> Tensor:
    if self.dim() != dims + 2:
        raise ValueError(f"expected an input of {dims + 2} dimensions, got {self.dim()}")
    return torch.convolution(self, weight, bias, stride, padding, dilation, False, [0] * dims, groups)


def npu_conv2d(self: Tensor, *how: Any) -> Tensor:
    """2-D convolution of [N, C, H, W].

    Weight: [M, C / groups, height, width], bias: [M]; floating point, as the result [N, M, H', W'].
    """
    return _convolution(self, *how, dims=2)


def npu_conv3d(self: Tensor, *how: Any) -> Tensor:
    """3-D convolution of [N, C, D, H, W].

    Weight: [M, C / groups, depth, height, width], bias: [M]; floating point, as the result [N, M, D', H', W'].
    """
    return _convolution(self, *how, dims=3)


def npu_convolution(self: Tensor, *how: Any) -> Tensor:
    """2-D or 3-D convolution, by the input's dimensions.

    Input: [N, C, ...], weight: [M, C / groups, ...], bias: [M]; floating point, as the result [N, M, ...].
    """
    return _convolution(self, *how, dims=3 if self.dim() == 5 else 2)


def npu_convolution_transpose(self: Tensor, weight: Tensor, bias: Optional[Tensor], padding: Sequence[int],
                              output_padding: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
                              groups: int) -> Tensor:
    """2-D or 3-D transposed convolution.

    Input: [N, C, ...], weight: [C, M / groups, ...], bias: [M]; floating point, as the result [N, M, ...].
    """
    return torch.convolution(self, weight, bias, stride, padding, dilation, True, output_padding, groups)


def npu_conv_transpose2d(*args: Any) -> Tensor:
    """2-D transposed convolution of [N, C, H, W].

    Weight: [C, M / groups, height, width], bias: [M]; floating point, as the result [N, M, H', W'].
    """
    return npu_convolution_transpose(*args)


def npu_fused_matmul(x1: Tensor, x2: Tensor, *, bias: Optional[Tensor] = None, x3: Optional[Tensor] = None,
                     fused_op_type: str = "") -> Tensor:
    """``x1 @ x2 + bias``, then by ``fused_op_type``: "" nothing, "relu", "gelu_erf", "gelu_tanh", "add" or "mul" with x3.

    x1: [..., M, K], x2: [..., K, N], bias: [N], x3 and the result: [..., M, N]; floating point.
    """
    out = torch.matmul(x1, x2)
    out = out if bias is None else out + bias
    if x3 is None and fused_op_type in ("add", "mul"):
        raise ValueError(f"npu_fused_matmul: fused_op_type {fused_op_type!r} needs x3")
    third = out if x3 is None else x3
    fused: Dict[str, Callable[[], Any]] = {
        "": lambda: out, "relu": lambda: F.relu(out), "gelu_erf": lambda: F.gelu(out), "add": lambda: out + third,
        "gelu_tanh": lambda: F.gelu(out, approximate="tanh"), "mul": lambda: out * third}
    if fused_op_type not in fused:
        raise ValueError(f"npu_fused_matmul: fused_op_type {fused_op_type!r} is not one of {', '.join(map(repr, fused))}")
    return fused[fused_op_type]()


def npu_transpose_batchmatmul(input: Tensor, weight: Tensor, *, bias: Optional[Tensor] = None, scale: Optional[Tensor] = None,
                              perm_x1: Optional[Sequence[int]] = None, perm_x2: Optional[Sequence[int]] = None,
                              perm_y: Optional[Sequence[int]] = None, batch_split_factor: Optional[int] = 1) -> Tensor:
    """``input.permute(perm_x1) @ weight.permute(perm_x2)`` [batch, rows, columns], permuted by ``perm_y``, by default (1, 0, 2).

    Raises NotImplementedError for bias, scale and ``batch_split_factor``. Floating point, as the result.
    """
    split = None if batch_split_factor in (None, 1) else batch_split_factor
    unsupported("npu_transpose_batchmatmul", bias=bias, scale=scale, batch_split_factor=split)
    a, b = (t if not perm else t.permute(tuple(perm)) for t, perm in ((input, perm_x1), (weight, perm_x2)))
    return torch.matmul(a, b).permute(tuple(perm_y or (1, 0, 2))).contiguous()
