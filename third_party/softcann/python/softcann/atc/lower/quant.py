"""Quantised arithmetic."""

import torch

from ..tensors import torch_dtype
from . import lowers
from .conv import convolve, integers
from .elementwise import FLOAT8, convert
from .matrix import shifted

RANGES = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
    torch.uint16: (0, 65535),
    torch.int32: (-(2**31), 2**31 - 1),
}


def along(node, value, x, axis):
    """A scale or zero point in a form that broadcasts over the tensor: for all, by index of an axis, or for blocks of it."""
    if value is None or node.rank(value) == 0:
        return value
    rank = node.rank(x)
    if value.rank == 1 and value.dims == [1]:
        return node.reshape(value, [])
    if value.rank == 1 and rank != 1:
        return node.reshape(value, [-1 if index == node.axis(x, axis) else 1 for index in range(rank)])
    block = node.attr("block_size", 0)
    if value.rank == rank and block:
        wide = node.emit("aten::repeat_interleave.self_int", value, block, node.axis(x, axis))
        return node.emit("aten::slice.Tensor", wide, node.axis(x, axis), 0, node.size(x, axis), 1)
    return value


def quantize(node, x, scale, zero, dtype, limits=None):
    """round(x / scale) + zero, halves to even, saturated: to the type's range, or to `limits`. Both broadcast already. Of float8
    the zero is 0."""
    scaled = node.emit("aten::div.Tensor", x, scale)
    if dtype in FLOAT8:
        return convert(node, scaled, dtype, bool(node.attr("saturate", 1)))
    scaled = node.emit("aten::round", scaled)
    if zero is not None:
        scaled = node.emit("aten::add.Tensor", scaled, node.cast(zero, x.dtype))
    low, high = limits or RANGES[dtype]
    limited = node.emit("aten::clamp", scaled, low, high)
    return node.cast(node.cast(limited, torch.int32) if dtype == torch.uint16 else limited, dtype)


def dequantize(node, x, scale, zero):
    """(x - zero) * scale in the scale's type."""
    if zero is not None and x.dtype not in FLOAT8:
        x = node.emit("aten::sub.Tensor", node.cast(x, torch.int32), node.cast(zero, torch.int32))
    return node.emit("aten::mul.Tensor", node.cast(x, scale.dtype), scale)


@lowers("QuantizeLinear")
def quantize_linear(node):
    x, axis = node.x(0), node.attr("axis", 1)
    dtype = node.x(2).dtype if node.x(2) is not None else torch_dtype(node.attr("output_dtype") or 2)
    limits = node.x(2).limits if node.x(2) is not None else None
    scale, zero = (along(node, node.x(index), x, axis) for index in (1, 2))
    if dtype not in (*RANGES, *FLOAT8):
        raise node.refuse(f"it quantises to {dtype}; int8, uint8, int16, uint16 and float8 (E4M3FN, E5M2) are served")
    if not x.dtype.is_floating_point or x.dtype != scale.dtype:
        x = node.cast(x, scale.dtype)
    y = quantize(node, x, scale, zero, dtype, limits)
    y.limits = limits
    return y


@lowers("DequantizeLinear")
def dequantize_linear(node):
    x, axis = node.x(0), node.attr("axis", 1)
    return dequantize(node, x, *(along(node, node.x(index), x, axis) for index in (1, 2)))


@lowers("QLinearMatMul")
def qlinear_matmul(node):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    node.inputs = [a, b, a_zero, b_zero]
    left, right = shifted(node, 0), shifted(node, 1)
    product = node.cast(node.emit("aten::matmul", left, right), torch.float32)
    if a_scale.rank == 1 and a_scale.dims != [1]:
        a_scale = node.emit("aten::unsqueeze", a_scale, -1)
    factor = node.emit("aten::mul.Tensor", a_scale, b_scale)
    real = node.emit("aten::mul.Tensor", product, node.cast(factor, torch.float32))
    return quantize(node, real, node.cast(y_scale, torch.float32), y_zero, y_zero.dtype)


@lowers("QLinearConv")
def qlinear_conv(node):
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    bias = node.x(8)
    node.inputs = [x, w, x_zero, w_zero]
    bias = None if bias is None else node.cast(bias, torch.float64)
    total = convolve(node, integers(node, 0), integers(node, 1), bias, lambda value: 0.0)
    if w_scale.rank == 1 and w_scale.dims != [1]:
        w_scale = node.reshape(w_scale, [-1] + [1] * (node.rank(x) - 2))
    factor = node.emit("aten::mul.Tensor", x_scale, w_scale)
    real = node.emit("aten::mul.Tensor", node.cast(total, torch.float32), factor)
    return quantize(node, real, y_scale, y_zero, y_zero.dtype)
