"""Reductions, and what orders or accumulates along an axis."""

import torch

from ..program import Of
from . import lowers
from .node import is_float

REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)


def axes_of(node, x):
    """Axes to reduce, none of them negative; None for "leave the input as it is"."""
    rank = node.rank(x)
    axes = node.attr("axes")
    if axes is None and node.x(1) is not None:
        axes = node.fixed(1, "axes")
    if not axes:
        return None if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(node.axis(x, int(axis)) for axis in axes)


@lowers(*REDUCTIONS)
def reduction(node):
    x, kind = node.x(0), node.type[len("Reduce") :]
    axes, keep = axes_of(node, x), bool(node.attr("keepdims", 1))
    if axes is None:
        axes, keep = [], True
    if kind in ("L1", "L2", "SumSquare", "LogSum", "LogSumExp"):
        return composed(node, x, kind, axes, keep)
    return simple(node, x, kind, axes, keep)


def simple(node, x, kind, axes, keep):
    if not axes:
        return x
    if kind == "Sum":
        return node.emit("aten::sum.dim_IntList", x, axes, keep, dtype=x.dtype)
    if kind == "Mean":
        if not is_float(x):
            return node.cast(node.emit("aten::mean.dim", node.cast(x, torch.float64), axes, keep), x.dtype)
        return node.emit("aten::mean.dim", x, axes, keep)
    if kind == "Prod":
        for axis in reversed(axes):
            x = node.emit("aten::prod.dim_int", x, axis, keep, dtype=x.dtype)
        return x
    return extreme(node, x, kind, axes, keep)


def extreme(node, x, kind, axes, keep):
    if x.static and 0 in x.dims:
        low, high = bounds(x.dtype)
        sizes = [1 if index in axes else size for index, size in enumerate(x.dims) if keep or index not in axes]
        return node.emit("aten::full", sizes, low if kind == "Max" else high, dtype=x.dtype)
    return node.emit("aten::amax" if kind == "Max" else "aten::amin", x, axes, keep)


def bounds(dtype):
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return float("-inf"), float("inf")
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def composed(node, x, kind, axes, keep):
    if kind == "LogSumExp" and axes:
        return node.emit("aten::logsumexp", x if is_float(x) else node.cast(x, torch.float64), axes, keep)
    dtype = x.dtype
    if kind in ("L2", "LogSum", "LogSumExp") and not is_float(x):
        x = node.cast(x, torch.float64)
    before = {"L1": "aten::abs", "L2": "aten::square", "SumSquare": "aten::square", "LogSumExp": "aten::exp"}.get(kind)
    total = simple(node, node.emit(before, x) if before else x, "Sum", axes, keep)
    after = {"L2": "aten::sqrt", "LogSum": "aten::log", "LogSumExp": "aten::log"}.get(kind)
    result = node.emit(after, total) if after else total
    return result if is_float(result) == dtype.is_floating_point else node.cast(result, dtype)


@lowers("ArgMax", "ArgMin")
def arg_extreme(node):
    x, kernel = node.x(0), "aten::argmax" if node.type == "ArgMax" else "aten::argmin"
    axis, keep = node.axis(x, node.attr("axis", 0)), bool(node.attr("keepdims", 1))
    if not node.attr("select_last_index", 0):
        return node.emit(kernel, x, axis, keep)
    found = node.emit(kernel, node.emit("aten::flip", x, [axis]), axis, keep)
    last = node.emit("aten::sub.Scalar", size_value(node, x, axis), 1)
    return node.emit("aten::sub.Tensor", last, found)


def size_value(node, x, axis):
    size = node.size(x, axis)
    return size.value if isinstance(size, Of) else node.constant(size)


@lowers("CumSum", "CumProd")
def cumulative(node):
    x, axis = node.x(0), node.axis(node.x(0), int(node.fixed(1, "axis")[0]))
    sum_ = node.type == "CumSum"
    if node.attr("reverse", 0):
        x = node.emit("aten::flip", x, [axis])
    if node.attr("exclusive", 0):
        kept = node.emit("aten::slice.Tensor", x, axis, 0, -1, 1)
        pad = [0] * (2 * node.rank(x))
        pad[2 * (node.rank(x) - 1 - axis)] = 1
        x = node.emit("aten::constant_pad_nd", kept, pad, 0 if sum_ else 1)
    result = node.emit("aten::cumsum" if sum_ else "aten::cumprod", x, axis, dtype=x.dtype)
    return node.emit("aten::flip", result, [axis]) if node.attr("reverse", 0) else result


@lowers("TopK")
def topk(node):
    x = node.x(0)
    count = node.attr("k") if node.opset < 10 else node.number(1)
    axis, largest = node.attr("axis", -1), bool(node.attr("largest", 1))
    # Equal elements come in the order of their indices, which aten::topk does not promise.
    values, indices = node.emit("aten::sort.stable", x, stable=True, dim=axis, descending=largest)
    return tuple(node.emit("aten::slice.Tensor", each, axis, 0, count, 1) for each in (values, indices))


@lowers("Unique")
def unique(node):
    x, axis, ordered = node.x(0), node.attr("axis"), bool(node.attr("sorted", 1))
    if axis is None:
        x, axis = node.reshape(x, [-1]), 0
    values, inverse, counts = node.emit("aten::unique_dim", x, axis, True, True, True)
    # The first place of each: the smallest index among those that fell together.
    places = node.emit("aten::arange", Of(size_value(node, x, axis)))
    start = node.emit("aten::full_like", counts, 2**62)
    first = node.emit("aten::scatter_reduce.two", start, 0, inverse, places, "amin", include_self=True)
    if not ordered:
        _, order = node.emit("aten::sort", first)
        values = node.emit("aten::index_select", values, axis, order)
        counts, first = (node.emit("aten::index_select", each, 0, order) for each in (counts, first))
        rank_of = node.emit("aten::argsort", order)
        inverse = node.emit("aten::index_select", rank_of, 0, inverse)
    return values, first, inverse, counts
