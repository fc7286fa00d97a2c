"""Gathering, scattering and selecting by index."""

import math

import torch

from . import lowers
from .reduce import size_value

REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def whole(node, index):
    """Indices in int64."""
    return index if index.dtype == torch.int64 else node.cast(index, torch.int64)


def positive(node, index, x, axis):
    """Indices from the end counted from the beginning, for operators that take no negative ones."""
    index = whole(node, index)
    if index.const is not None and bool((index.const >= 0).all()):
        return index
    return node.emit(
        "aten::where.self",
        node.emit("aten::lt.Scalar", index, 0),
        node.emit("aten::add.Tensor", index, size_value(node, x, axis)),
        index,
    )


@lowers("Gather")
def gather(node):
    x, index, axis = node.x(0), node.x(1), node.attr("axis", 0)
    axis = node.axis(x, axis)
    if index.const is not None and index.rank == 0:
        return node.emit("aten::select.int", x, axis, int(index.const))
    index = whole(node, index)
    if index.const is not None and index.rank == 1 and x.dims[axis] is not None:
        return node.emit("aten::index_select", x, axis, positive(node, index, x, axis))
    return node.emit("aten::index.Tensor", x, [None] * axis + [index])


@lowers("GatherElements")
def gather_elements(node):
    x, axis = node.x(0), node.axis(node.x(0), node.attr("axis", 0))
    return node.emit("aten::gather", x, axis, positive(node, node.x(1), x, axis))


def columns(node, index, batch_dims=0):
    """The last axis of the indices as a list of index tensors, for torch's index operators."""
    depth = index.dims[-1] if index.known else None
    if depth is None:
        raise node.refuse("the last size of its indices must be known before the model runs")
    index = whole(node, index)
    return [node.emit("aten::select.int", index, -1, item) for item in range(depth)]


@lowers("GatherND")
def gather_nd(node):
    x, index, batch = node.x(0), node.x(1), node.attr("batch_dims", 0)
    found = columns(node, index)
    lead = []
    for axis in range(batch):
        steps = node.emit("aten::arange", node.size(index, axis))
        behind = [1] * (index.rank - 2 - axis)
        lead.append(node.reshape(steps, [-1, *behind]))
    return node.emit("aten::index.Tensor", x, lead + found)


@lowers("ScatterElements", "Scatter")
def scatter_elements(node):
    x, axis, mode = node.x(0), node.axis(node.x(0), node.attr("axis", 0)), node.attr("reduction", "none")
    index, updates = positive(node, node.x(1), x, axis), node.x(2)
    if mode == "none":
        return node.emit("aten::scatter.src", x, axis, index, updates)
    return node.emit("aten::scatter_reduce.two", x, axis, index, updates, REDUCE[mode], include_self=True)


@lowers("ScatterND")
def scatter_nd(node):
    x, index, updates, mode = node.x(0), node.x(1), node.x(2), node.attr("reduction", "none")
    if mode in ("none", "add"):
        return node.emit("aten::index_put", x, columns(node, index), updates, mode == "add")
    return scatter_nd_reduce(node, x, index, updates, mode)


def scatter_nd_reduce(node, x, index, updates, mode):
    """Rows of the flattened tensor, reduced where indices meet."""
    sizes = node.sizes(x)
    parts = columns(node, index)
    if not all(isinstance(size, int) for size in sizes):
        raise node.refuse(f"with reduction {mode} its sizes must be fixed")
    row = None
    for axis, part in enumerate(parts):
        part = positive(node, part, x, axis)
        row = part if row is None else node.emit("aten::add.Tensor", node.emit("aten::mul.Scalar", row, sizes[axis]), part)
    width = math.prod(sizes[len(parts) :])
    table = node.reshape(x, [-1, width])
    rows = node.reshape(updates, [-1, width])
    where = node.emit("aten::expand_as", node.reshape(row, [-1, 1]), rows)
    done = node.emit("aten::scatter_reduce.two", table, 0, where, rows, REDUCE[mode], include_self=True)
    return node.reshape(done, sizes)


@lowers("Compress")
def compress(node):
    x, axis, condition = node.x(0), node.attr("axis"), node.x(1)
    if axis is None:
        x, axis = node.reshape(x, [-1]), 0
    index = node.reshape(node.emit("aten::nonzero", condition), [-1])
    return node.emit("aten::index_select", x, axis, index)


@lowers("NonZero")
def non_zero(node):
    return node.emit("aten::t", node.emit("aten::nonzero", node.x(0)))


@lowers("OneHot")
def one_hot(node):
    index, depth, values = node.x(0), node.number(1), node.x(2)
    axis = node.attr("axis", -1)
    axis = axis + node.rank(index) + 1 if axis < 0 else axis
    depth_value = node.constant(int(depth)) if isinstance(depth, (int, float)) else whole(node, node.reshape(depth.value, []))
    index = whole(node, index)
    index = node.emit(
        "aten::where.self", node.emit("aten::lt.Scalar", index, 0), node.emit("aten::add.Tensor", index, depth_value), index
    )
    steps = node.emit("aten::arange", int(depth) if isinstance(depth, (int, float)) else type(depth)(depth_value))
    steps = node.reshape(steps, [-1] + [1] * (index.rank - axis))
    hit = node.emit("aten::eq.Tensor", node.emit("aten::unsqueeze", index, axis), steps)
    off, on = (node.emit("aten::select.int", values, 0, place) for place in (0, 1))
    return node.emit("aten::where.self", hit, on, off)


@lowers("ReverseSequence")
def reverse_sequence(node):
    x, lengths = node.x(0), whole(node, node.x(1))
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    rank = node.rank(x)
    steps = node.reshape(node.emit("aten::arange", node.size(x, time)), [-1 if axis == time else 1 for axis in range(rank)])
    ends = node.reshape(lengths, [-1 if axis == batch else 1 for axis in range(rank)])
    back = node.emit("aten::sub.Scalar", node.emit("aten::sub.Tensor", ends, steps), 1)
    index = node.emit("aten::where.self", node.emit("aten::ge.Scalar", back, 0), back, steps)
    return node.emit("aten::gather", x, time, node.emit("aten::expand_as", index, x))


@lowers("Trilu")
def trilu(node):
    return node.emit("aten::triu" if node.attr("upper", 1) else "aten::tril", node.x(0), node.number(1, 0))


@lowers("TensorScatter")
def tensor_scatter(node):
    past, update, start = node.x(0), node.x(1), node.x(2)
    axis, mode = node.axis(past, node.attr("axis", -2)), node.attr("mode", "linear")
    shape = [1] * node.rank(past)
    shape[axis] = -1
    steps = node.reshape(node.emit("aten::arange", node.size(update, axis)), shape)
    if start is not None:
        steps = node.emit("aten::add.Tensor", steps, node.reshape(whole(node, start), [-1] + [1] * (past.rank - 1)))
    if mode == "circular":
        steps = node.emit("aten::remainder.Tensor", steps, size_value(node, past, axis))
    return node.emit("aten::scatter.src", past, axis, node.emit("aten::expand_as", steps, update), update)
