"""Layer and RMS normalisation written out as arithmetic."""

from ..program import Value
from .patterns import Patterns


def mean_over_last(patterns, value):
    """What a mean over the last axis, which stays, is taken of."""
    op = patterns.made_by(value, "aten::mean.dim")
    if op is None or not op.args[0].known or len(op.args) < 3 or not op.args[2]:
        return None
    return op.args[0] if list(op.args[1]) in ([-1], [op.args[0].rank - 1]) else None


def squared(patterns, value):
    """x of x * x."""
    op = patterns.made_by(value, "aten::pow.Tensor_Scalar", "aten::square", "aten::mul.Tensor")
    if op is None or (op.kernel == "aten::pow.Tensor_Scalar" and op.args[1] != 2):
        return None
    return op.args[0] if op.kernel != "aten::mul.Tensor" or op.args[0] is op.args[1] else None


def mean_of_squares(patterns, value):
    """(x, epsilon) of sqrt(mean(x * x) + epsilon)."""
    root = patterns.made_by(value, "aten::sqrt")
    if root is None:
        return None, None
    mean, epsilon = patterns.sum_parts(root.args[0])
    inner = None if mean is None else mean_over_last(patterns, mean)
    return (None, None) if inner is None else (squared(patterns, inner), epsilon)


def behind(patterns, graph, op, kernel, size):
    """The operator that alone uses another's output, and the constant vector of that size which it takes; or (None, None)."""
    value = op.outputs[0]
    if not patterns.once(value):
        return None, None
    for user in graph.ops:
        if user.kernel == kernel and any(arg is value for arg in user.args[:2]) and (len(user.args) < 3 or user.args[2] == 1):
            other = user.args[1] if user.args[0] is value else user.args[0]
            vector = isinstance(other, Value) and other.const is not None and list(other.const.shape) == [size]
            return (user, other) if vector and other.dtype == value.dtype else (None, None)
    return None, None


def layer_norm(patterns: Patterns):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), and weight and bias if they follow."""
    count = 0
    for graph, op in patterns.each("aten::div.Tensor"):
        centred, epsilon = mean_of_squares(patterns, op.args[1])
        minus = None if centred is None or centred is not op.args[0] else patterns.made_by(centred, "aten::sub.Tensor")
        if minus is None or mean_over_last(patterns, minus.args[1]) is not minus.args[0] or minus.args[0].dims[-1] is None:
            continue
        x = minus.args[0]
        size = x.dims[-1]
        product, weight = behind(patterns, graph, op, "aten::mul.Tensor", size)
        total, bias = (None, None) if product is None else behind(patterns, graph, product, "aten::add.Tensor", size)
        last = total or product or op
        parts = [part for part in (op, product) if part is not None and part is not last]
        patterns.become(last, "aten::layer_norm", [x, [size], weight, bias, epsilon], *parts)
        count += 1
    return count


def rms_norm(patterns: Patterns):
    """x / sqrt(mean(x^2) + epsilon), or times the reciprocal, and the weight if it follows."""
    count = 0
    for graph, op in [*patterns.each("aten::mul.Tensor"), *patterns.each("aten::div.Tensor")]:
        x, divisor = op.args[:2]
        if op.kernel == "aten::mul.Tensor":
            pair = [
                (x, patterns.made_by(divisor, "aten::reciprocal", "aten::div.Tensor")),
                (divisor, patterns.made_by(x, "aten::reciprocal", "aten::div.Tensor")),
            ]
            x, inverse = next((one for one in pair if one[1] is not None), (None, None))
            if inverse is None or (inverse.kernel == "aten::div.Tensor" and patterns.number(inverse.args[0]) != 1):
                continue
            divisor = inverse.args[-1] if inverse.kernel == "aten::reciprocal" else inverse.args[1]
        found, epsilon = mean_of_squares(patterns, divisor)
        if found is None or found is not x or x.dims[-1] is None:
            continue
        size = x.dims[-1]
        product, weight = behind(patterns, graph, op, "aten::mul.Tensor", size)
        patterns.become(product or op, "aten::rms_norm", [x, [size], weight, epsilon], *([op] if product else []))
        count += 1
    return count
