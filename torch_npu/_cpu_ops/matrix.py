"""Matrix products and convolutions."""

import torch
import torch.nn.functional as F

from torch_npu._cpu_ops._common import unsupported

__all__ = ["npu_linear", "npu_bmmV2", "npu_conv2d", "npu_conv3d", "npu_convolution", "npu_conv_transpose2d",
           "npu_convolution_transpose", "npu_fused_matmul", "npu_transpose_batchmatmul"]


def npu_linear(self, weight, bias=None):
    """``self @ weight.T + bias``."""
    return F.linear(self, weight, bias)


def npu_bmmV2(self, mat2, output_sizes):
    """``self @ mat2``, in the shape ``output_sizes`` unless that is empty."""
    out = torch.matmul(self, mat2)
    return out.reshape(output_sizes) if output_sizes else out


def _convolution(self, weight, bias, stride, padding, dilation, groups, dims):
    if self.dim() != dims + 2:
        raise ValueError(f"expected an input of {dims + 2} dimensions, got {self.dim()}")
    return torch.convolution(self, weight, bias, stride, padding, dilation, False, [0] * dims, groups)


def npu_conv2d(self, weight, bias, stride, padding, dilation, groups):
    """2-D convolution of [N, C, H, W]."""
    return _convolution(self, weight, bias, stride, padding, dilation, groups, 2)


def npu_conv3d(self, weight, bias, stride, padding, dilation, groups):
    """3-D convolution of [N, C, D, H, W]."""
    return _convolution(self, weight, bias, stride, padding, dilation, groups, 3)


def npu_convolution(self, weight, bias, stride, padding, dilation, groups):
    """2-D or 3-D convolution, by the input's dimensions."""
    return _convolution(self, weight, bias, stride, padding, dilation, groups, 3 if self.dim() == 5 else 2)


def _transposed(self, weight, bias, padding, output_padding, stride, dilation, groups):
    return torch.convolution(self, weight, bias, stride, padding, dilation, True, output_padding, groups)


def npu_conv_transpose2d(self, weight, bias, padding, output_padding, stride, dilation, groups):
    """2-D transposed convolution of [N, C, H, W]."""
    return _transposed(self, weight, bias, padding, output_padding, stride, dilation, groups)


def npu_convolution_transpose(self, weight, bias, padding, output_padding, stride, dilation, groups):
    """2-D or 3-D transposed convolution."""
    return _transposed(self, weight, bias, padding, output_padding, stride, dilation, groups)


def npu_fused_matmul(x1, x2, *, bias=None, x3=None, fused_op_type=""):
    """``x1 @ x2 + bias``, then by ``fused_op_type``: "" nothing, "relu", "gelu_erf", "gelu_tanh", "add" or "mul" with x3."""
    out = torch.matmul(x1, x2)
    out = out if bias is None else out + bias
    fused = {"": lambda: out, "relu": lambda: F.relu(out), "gelu_erf": lambda: F.gelu(out), "add": lambda: out + x3,
             "gelu_tanh": lambda: F.gelu(out, approximate="tanh"), "mul": lambda: out * x3}
    if fused_op_type not in fused:
        raise ValueError(f"npu_fused_matmul: fused_op_type {fused_op_type!r} is not one of {', '.join(map(repr, fused))}")
    return fused[fused_op_type]()


def npu_transpose_batchmatmul(input, weight, *, bias=None, scale=None, perm_x1=None, perm_x2=None, perm_y=None,
                              batch_split_factor=1):
    """``input.permute(perm_x1) @ weight.permute(perm_x2)`` [batch, rows, columns], permuted by ``perm_y``, by default (1, 0, 2).

    Raises NotImplementedError for bias, scale and ``batch_split_factor``.
    """
    split = None if batch_split_factor in (None, 1) else batch_split_factor
    unsupported("npu_transpose_batchmatmul", bias=bias, scale=scale, batch_split_factor=split)
    a, b = (t if not perm else t.permute(perm) for t, perm in ((input, perm_x1), (weight, perm_x2)))
    return torch.matmul(a, b).permute(perm_y or (1, 0, 2)).contiguous()
