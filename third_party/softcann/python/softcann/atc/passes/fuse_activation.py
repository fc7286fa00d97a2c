"""GELU and SiLU written out as arithmetic."""

import math

from .patterns import Patterns, close


def one_more(patterns, value, kernel):
    """The argument of a function f where the value is f(argument) + 1."""
    inner, number = patterns.sum_parts(value)
    op = patterns.made_by(inner, kernel) if inner is not None and close(number, 1.0) else None
    return None if op is None else op.args[0]


def argument_fits(patterns, kind, argument, x):
    """x / sqrt(2) for erf; sqrt(2 / pi) * (x + 0.044715 * x^3) for tanh."""
    values, number = patterns.factors(argument)
    if kind == "erf":
        return len(values) == 1 and values[0] is x and close(number, math.sqrt(0.5))
    if len(values) != 1 or not close(number, math.sqrt(2 / math.pi)):
        return False
    total = patterns.made_by(values[0], "aten::add.Tensor")
    if total is None:
        return False
    cubes = [one for one in total.args[:2] if one is not x]
    if len(cubes) != 1:
        return False
    inner, factor = patterns.factors(cubes[0])
    return close(factor, 0.044715, 1e-2) and is_cube(patterns, inner, x)


def is_cube(patterns, values, x):
    power = patterns.made_by(values[0], "aten::pow.Tensor_Scalar") if len(values) == 1 else None
    return (power is not None and power.args[0] is x and power.args[1] == 3) or (
        len(values) == 3 and all(one is x for one in values)
    )


def gelu(patterns: Patterns):
    """0.5 * x * (1 + f(...)), in whatever order it is multiplied."""
    count = 0
    for _, op in [*patterns.each("aten::mul.Tensor")[::-1], *patterns.each("aten::mul.Scalar")[::-1]]:
        if op.kernel not in ("aten::mul.Tensor", "aten::mul.Scalar"):
            continue
        values, number = patterns.factors(op.outputs[0])
        if len(values) != 2 or not close(number, 0.5):
            continue
        for x, sum_ in (values, values[::-1]):
            for kind, approximate in (("erf", "none"), ("tanh", "tanh")):
                argument = one_more(patterns, sum_, f"aten::{kind}")
                if argument is not None and argument_fits(patterns, kind, argument, x):
                    patterns.become(op, "aten::gelu", [x, approximate], sum_.op)
                    count += 1
                    break
    return count


def silu(patterns: Patterns):
    """x * sigmoid(x)."""
    count = 0
    for _, op in patterns.each("aten::mul.Tensor"):
        for x, gate in (op.args[:2], op.args[1::-1]):
            sigmoid = patterns.made_by(gate, "aten::sigmoid")
            if sigmoid is not None and sigmoid.args[0] is x:
                patterns.become(op, "aten::silu", [x], sigmoid)
                count += 1
                break
    return count
