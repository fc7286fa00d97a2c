"""Arithmetic, comparison, logic and conversion, element by element."""

import functools

import torch

from ..tensors import torch_dtype
from . import lowers
from .node import is_float

# torch computes little with these; numbers of int64 hold all of theirs (uint64: modulo 2^64).
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
PAST_E4M3FN = 464.0   # halfway from its largest number, 448, to the next that its exponent would allow; rounded to even
NARROW = (torch.uint16, torch.uint32, torch.uint64)

# ONNX type: ATen's operator, which mostly has the same name.
UNARY = {"BitwiseNot": "bitwise_not", "HardSwish": "hardswish", "IsNaN": "isnan", "Not": "logical_not"}
UNARY.update((name.capitalize(), name) for name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "log", "neg",
    "reciprocal", "relu", "round", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "tan", "tanh"))
COMPARISONS = {"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le"}
LOGIC = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
BITWISE = {"BitwiseAnd": "bitwise_and.Tensor", "BitwiseOr": "bitwise_or.Tensor", "BitwiseXor": "bitwise_xor.Tensor"}
ARITHMETIC = {"Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor"}
VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add.Tensor"}


def wide(node, kernel, *values, **kwargs):
    """The operator, on int64 in the place of unsigned types that torch does not compute with."""
    dtype = values[0].dtype
    if dtype not in NARROW:
        return node.emit(kernel, *values, **kwargs)
    result = node.emit(kernel, *[node.cast(value, torch.int64) for value in values], **kwargs)
    return result if result.dtype == torch.bool else node.cast(result, dtype)


@lowers(*UNARY)
def unary(node):
    return wide(node, f"aten::{UNARY[node.type]}", node.x(0))


def old_broadcast(node):
    """The second input as opsets before 7 aligned it, with `axis`."""
    left, right = node.x(0), node.x(1)
    if node.opset < 7 and node.attr("broadcast", 0) and "axis" in node.attributes:
        behind = node.rank(left) - node.rank(right) - node.axis(left, node.attr("axis"))
        right = node.reshape(right, node.sizes(right) + [1] * behind)
    return left, right


@lowers(*ARITHMETIC)
def arithmetic(node):
    left, right = old_broadcast(node)
    return wide(node, f"aten::{ARITHMETIC[node.type]}", left, right)


@lowers("Div")
def div(node):
    left, right = old_broadcast(node)
    if is_float(left):
        return node.emit("aten::div.Tensor", left, right)
    return wide(node, "aten::div.Tensor_mode", left, right, rounding_mode="trunc")


@lowers("Pow")
def power(node):
    base, exponent = old_broadcast(node)
    if is_float(base) and exponent.const is not None and exponent.const.numel() == 1 and exponent.rank <= node.rank(base):
        number = exponent.const.item()
        if number == 0.5:
            return node.emit("aten::sqrt", base)
        return node.emit("aten::pow.Tensor_Scalar", base, float(number))
    if is_float(exponent) and not is_float(base):
        return node.cast(
            node.emit("aten::pow.Tensor_Tensor", node.cast(base, torch.float64), node.cast(exponent, torch.float64)), base.dtype
        )
    if exponent.dtype != base.dtype:
        exponent = node.cast(exponent, base.dtype)
    return wide(node, "aten::pow.Tensor_Tensor", base, exponent)


@lowers("Mod")
def mod(node):
    return wide(node, "aten::fmod.Tensor" if node.attr("fmod", 0) else "aten::remainder.Tensor", node.x(0), node.x(1))


@lowers(*COMPARISONS)
def compare(node):
    left, right = old_broadcast(node)
    return wide(node, f"aten::{COMPARISONS[node.type]}.Tensor", left, right)


@lowers(*LOGIC)
def logic(node):
    return node.emit(f"aten::{LOGIC[node.type]}", *old_broadcast(node))


@lowers(*BITWISE)
def bitwise(node):
    return wide(node, f"aten::{BITWISE[node.type]}", node.x(0), node.x(1))


@lowers("BitShift")
def bit_shift(node):
    direction = {"LEFT": "aten::bitwise_left_shift.Tensor", "RIGHT": "aten::bitwise_right_shift.Tensor"}[node.attr("direction")]
    return wide(node, direction, node.x(0), node.x(1))


@lowers(*VARIADIC)
def variadic(node):
    return functools.reduce(lambda left, right: wide(node, f"aten::{VARIADIC[node.type]}", left, right), node.inputs)


@lowers("Mean")
def mean(node):
    total = functools.reduce(lambda left, right: node.emit("aten::add.Tensor", left, right), node.inputs)
    return node.emit("aten::div.Scalar", total, len(node.inputs))


@lowers("Where")
def where(node):
    return node.emit("aten::where.self", *node.inputs)


@lowers("Clip")
def clip(node):
    x = node.x(0)
    if node.opset < 11:
        low, high = node.attr("min"), node.attr("max")
        return x if low is None and high is None else node.emit("aten::clamp", x, low, high)
    bounds = [None if node.x(index) is None else node.number(index) for index in (1, 2)]
    if bounds == [None, None]:
        return x
    if any(bound is not None and not isinstance(bound, (int, float)) for bound in bounds):
        return node.emit("aten::clamp.Tensor", x, node.x(1), node.x(2))
    return wide(node, "aten::clamp", x, *[within(bound, x.dtype) for bound in bounds])


def within(bound, dtype):
    """A bound that the type can hold; infinite ones bound nothing."""
    if bound is None or not dtype.is_floating_point:
        return bound
    return None if abs(bound) >= torch.finfo(dtype).max else float(bound)


@lowers("IsInf")
def is_inf(node):
    x = node.x(0)
    if node.attr("detect_positive", 1) and node.attr("detect_negative", 1):
        return node.emit("aten::isinf", x)
    if not node.attr("detect_positive", 1) and not node.attr("detect_negative", 1):
        return node.emit("aten::zeros_like", x, dtype=torch.bool)
    return node.emit("aten::isposinf" if node.attr("detect_positive", 1) else "aten::isneginf", x)


@lowers("Cast")
def cast(node):
    return convert(node, node.x(0), torch_dtype(node.attr("to")), bool(node.attr("saturate", 1)))


@lowers("CastLike")
def cast_like(node):
    return convert(node, node.x(0), node.x(1).dtype, bool(node.attr("saturate", 1)))


def convert(node, x, dtype, saturate=True):
    """A conversion as ONNX defines it: to bool everything but zero is true; from floats towards zero; to float8 saturated."""
    if x.dtype == dtype:
        return x
    if dtype in FLOAT8 and saturate:
        largest = torch.finfo(dtype).max
        x = node.emit("aten::clamp", x, -largest, largest)
    elif dtype == torch.float8_e4m3fn:   # which has no infinity, and which torch saturates
        beyond = node.emit("aten::gt.Scalar", node.emit("aten::abs", x), PAST_E4M3FN)
        x = node.emit("aten::masked_fill.Scalar", x, beyond, float("nan"))
    if x.dtype is not None and x.dtype.is_floating_point and dtype in NARROW:
        x = node.cast(x, torch.int64)
    return node.cast(x, dtype)


@lowers("Identity", "Dropout")
def identity(node):
    if node.type == "Dropout":
        training = node.x(2)
        if training is not None and (training.const is None or bool(training.const)):
            raise node.refuse("training mode belongs to training; export the model in evaluation mode")
        mask = node.emit("aten::ones_like", node.x(0), dtype=torch.bool) if node.wants(1) else None
        return node.x(0), mask
    return node.x(0)


@lowers("BitCast")
def bit_cast(node):
    return node.emit("aten::view.dtype", node.x(0), torch_dtype(node.attr("to")))
