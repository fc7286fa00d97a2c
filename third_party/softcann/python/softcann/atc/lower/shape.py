"""What changes a tensor's shape, or asks for it."""

import torch

from ..program import All, Of, Value
from . import lowers
from .reduce import size_value


@lowers("Shape")
def shape(node):
    x = node.x(0)
    if not node.attributes:
        return node.shape(x)
    rank = node.rank(x)
    start, end = (
        min(max(value + rank if value < 0 else value, 0), rank) for value in (node.attr("start", 0), node.attr("end", rank))
    )
    return node.emit("aten::slice.Tensor", node.shape(x), 0, start, max(start, end), 1)


@lowers("Size")
def size(node):
    return node.emit("aten::prod", node.shape(node.x(0)))


@lowers("Reshape")
def reshape(node):
    x = node.x(0)
    if node.opset < 5:
        wanted = node.attr("shape")
    else:
        wanted = node.elements(node.x(1))
    if isinstance(wanted, All):
        return node.reshape(x, wanted)
    if not node.attr("allowzero", 0):
        wanted = [copied(node, x, index, size) for index, size in enumerate(wanted)]
    return node.reshape(x, wanted)


def copied(node, x, index, size):
    """A wanted size of 0 is the input's own; one that is known at run time only may be 0."""
    if isinstance(size, int):
        return node.size(x, index) if size == 0 else size
    if (
        not x.known
        or index >= x.rank
        or all(sample is not None and not sample.is_meta and sample.item() for sample in size.value.samples)
    ):
        return size
    have = size_value(node, x, index)
    return Of(node.emit("aten::where.self", node.emit("aten::eq.Scalar", size.value, 0), have, size.value))


@lowers("Flatten")
def flatten(node):
    x = node.x(0)
    rank, axis = node.rank(x), node.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    if axis == 0:
        return node.reshape(x, [1, -1])
    if axis == 1 and rank > 1:
        return node.emit("aten::flatten.using_ints", x, 1, -1)
    front = node.emit("aten::flatten.using_ints", x, 0, axis - 1)
    return node.emit("aten::flatten.using_ints", front, 1, -1) if axis < rank else node.emit("aten::unsqueeze", front, 1)


def axes_input(node):
    axes = node.attr("axes")
    return [int(axis) for axis in node.fixed(1, "axes")] if axes is None and node.x(1) is not None else axes


@lowers("Squeeze")
def squeeze(node):
    axes = axes_input(node)
    return node.emit("aten::squeeze", node.x(0)) if axes is None else node.emit("aten::squeeze.dims", node.x(0), axes)


@lowers("Unsqueeze")
def unsqueeze(node):
    x, axes = node.x(0), axes_input(node)
    rank = node.rank(x) + len(axes)
    for axis in sorted(axis + rank if axis < 0 else axis for axis in axes):
        x = node.emit("aten::unsqueeze", x, axis)
    return x


@lowers("Transpose")
def transpose(node):
    x = node.x(0)
    return node.emit("aten::permute", x, node.attr("perm") or list(range(node.rank(x)))[::-1])


@lowers("Concat")
def concat(node):
    inputs, axis = node.inputs, node.attr("axis", 1 if node.opset < 4 else None)
    if len(inputs) == 1:
        return inputs[0]
    # An empty part of the right rank is nothing; torch would take an empty vector for any.
    return node.emit("aten::cat", list(inputs), axis)


@lowers("Split")
def split(node):
    x, axis, count = node.x(0), node.attr("axis", 0), node.output_count()
    sizes = node.attr("split")
    if sizes is None and node.x(1) is not None:
        sizes = node.elements(node.x(1))
    if sizes is None:
        total = node.size(x, axis)
        if isinstance(total, int):
            chunk = -(-total // count)
            sizes = [chunk] * (count - 1) + [total - chunk * (count - 1)]
            if sizes[-1] < 0:
                raise node.refuse(f"{total} elements cannot be split in {count}")
        else:
            return dynamic_split(node, x, axis, count)
    return node.emit("aten::split_with_sizes", x, sizes, axis, returns=None if x.known else count)


def dynamic_split(node, x, axis, count):
    """Equal parts of a dimension that is known at run time only; the last one takes what is left."""
    total = size_value(node, x, axis)
    chunk = node.emit("aten::div.Scalar_mode", node.emit("aten::add.Scalar", total, count - 1), count, rounding_mode="floor")
    edges = [node.emit("aten::mul.Scalar", chunk, index) for index in range(count + 1)]
    return tuple(node.emit("aten::slice.Tensor", x, axis, Of(low), Of(high), 1) for low, high in zip(edges, edges[1:]))


@lowers("Slice")
def slice_(node):
    x = node.x(0)
    if node.opset < 10:
        starts, ends = node.attr("starts"), node.attr("ends")
        axes, steps = node.attr("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = node.elements(node.x(1)), node.elements(node.x(2))
        if isinstance(starts, All) or isinstance(ends, All):
            raise node.refuse("how many dimensions it slices must be known before the model runs")
        axes = node.fixed(3, "axes") if node.x(3) is not None else list(range(len(starts)))
        steps = node.fixed(4, "steps") if node.x(4) is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        whole, x = x, slice_axis(node, x, int(axis), start, end, int(step))
        if not x.known and whole.known and step > 0:
            x.samples = cut(node, x.op.args[0], node.axis(whole, int(axis)), window(start, end))
    return x


def window(start, end):
    """How many places lie between two numbers that are known at run time, where they are one value plus constants; else None."""
    if not isinstance(start, Of) or not isinstance(end, Of):
        return None
    (first, less), (last, more) = origin_of(start), origin_of(end)
    return more - less if first is last else None


def origin_of(number):
    """The 1-D value whose element a number is, and 0; or one less a constant, and the constant."""
    op = number.value.op
    value = op.args[0] if op is not None and op.kernel == "aten::select.int" else number.value
    if value.op is not None and value.op.kernel == "aten::add.Tensor" and isinstance(value.op.args[1], Value):
        whole, more = value.op.args[:2]
        if more.const is not None and more.const.numel() == 1:
            return whole, int(more.const)
    return value, 0


def cut(node, whole, axis, size):
    """Samples of a value that has as many places along an axis as is known at run time (or `size`), and else those of another."""
    samples = []
    for index, sample in enumerate(whole.samples):
        sizes = list(sample.shape)
        sizes[axis] = node.importer.tried(size, f"{node.name}/window", axis, index)
        samples.append(torch.empty(sizes, dtype=whole.dtype, device="meta"))
    return samples


def slice_axis(node, x, axis, start, end, step):
    if step < 0:
        # Backwards is forwards on the flipped tensor, where index i has become -1 - i. ONNX begins at the first element
        # where the start lies before it.
        size = x.dims[axis] if x.known else None
        if size is not None and isinstance(start, int) and start < -size:
            start = 0
        x, start, end, step = node.emit("aten::flip", x, [axis]), mirrored(node, start), mirrored(node, end), -step
    return node.emit("aten::slice.Tensor", x, axis, start, end, step)


def mirrored(node, index):
    return ~index if isinstance(index, int) else type(index)(node.emit("aten::bitwise_not", index.value))


@lowers("Expand")
def expand(node):
    x, sizes = node.x(0), node.elements(node.x(1))
    if isinstance(sizes, All):
        return node.emit("aten::expand", x, sizes)
    if x.known:
        # A size of 1 in the wanted shape keeps what the input has.
        lead = len(sizes) - x.rank
        if lead < 0:
            sizes, lead = [1] * -lead + sizes, 0
        sizes = [expanded(node, x, index - lead, size) for index, size in enumerate(sizes)]
    return node.emit("aten::expand", x, sizes)


def expanded(node, x, axis, size):
    if axis < 0:
        return size
    have = x.dims[axis]
    if isinstance(size, int):
        return -1 if size == 1 else size
    if have is not None and have != 1:
        return -1
    if have == 1:
        return size
    larger = node.emit("aten::maximum", size.value, node.size(x, axis).value)
    return type(size)(larger)


@lowers("Tile")
def tile(node):
    x, repeats = node.x(0), node.elements(node.x(1))
    return node.emit("aten::repeat", x, repeats)


@lowers("Pad")
def pad(node):
    x, mode = node.x(0), node.attr("mode", "constant")
    rank = node.rank(x)
    if node.opset < 11:
        pads, value = node.attr("pads"), node.attr("value", 0.0)
    else:
        pads, value = node.elements(node.x(1)), node.number(2, 0.0)
    axes = [node.axis(x, int(axis)) for axis in (node.fixed(3, "axes") if node.x(3) is not None else range(rank))]
    if isinstance(pads, All):
        raise node.refuse("how many dimensions it pads must be known before the model runs")
    before, after = dict(zip(axes, pads[: len(axes)])), dict(zip(axes, pads[len(axes) :]))
    if mode == "constant":
        order = [size for axis in reversed(range(rank)) for size in (before.get(axis, 0), after.get(axis, 0))]
        if isinstance(value, (int, float)) and x.dtype is not None:
            value = float(value) if x.dtype.is_floating_point else int(value)
        if x.dtype == torch.bool:
            return node.cast(node.emit("aten::constant_pad_nd", node.cast(x, torch.uint8), order, int(value)), torch.bool)
        return node.emit("aten::constant_pad_nd", x, order, value)
    for axis in axes:
        x = pad_axis(node, x, axis, before[axis], after[axis], mode)
    return x


def pad_axis(node, x, axis, before, after, mode):
    """Reflection, edge and wrapping, one axis at a time: the index of each element of the result."""
    if isinstance(before, int) and isinstance(after, int) and before == after == 0:
        return x
    size = size_value(node, x, axis)

    def value(number):
        return node.constant(number, torch.int64) if isinstance(number, int) else number.value

    start = node.emit("aten::neg", value(before))
    end = node.emit("aten::add.Tensor", size, value(after))
    index = node.emit("aten::arange.start", Of(start), Of(end), dtype=torch.int64)
    last = node.emit("aten::sub.Scalar", size, 1)
    if mode == "edge":
        index = node.emit("aten::minimum", node.emit("aten::clamp_min", index, 0), last)
    elif mode == "wrap":
        index = node.emit("aten::remainder.Tensor", index, size)
    elif mode == "reflect":
        period = node.emit("aten::clamp_min", node.emit("aten::mul.Scalar", last, 2), 1)
        index = node.emit("aten::remainder.Tensor", index, period)
        index = node.emit("aten::minimum", index, node.emit("aten::sub.Tensor", period, index))
    else:
        raise node.refuse(f"mode {mode} is not one of constant, reflect, edge, wrap")
    return node.emit("aten::index_select", x, axis, index)


@lowers("DepthToSpace")
def depth_to_space(node):
    x, block = node.x(0), node.attr("blocksize")
    if node.attr("mode", "DCR") == "CRD":
        return node.emit("aten::pixel_shuffle", x, block)
    batch, depth, height, width = node.sizes(x)
    if not isinstance(depth, int):
        raise node.refuse("the number of channels must be fixed")
    parts = node.reshape(x, [batch, block, block, depth // block**2, height, width])
    moved = node.emit("aten::permute", parts, [0, 3, 4, 1, 5, 2])
    return node.emit("aten::flatten.using_ints", node.emit("aten::flatten.using_ints", moved, 4, 5), 2, 3)


@lowers("SpaceToDepth")
def space_to_depth(node):
    x, block = node.x(0), node.attr("blocksize")
    if node.attr("mode", "DCR") == "CRD":
        return node.emit("aten::pixel_unshuffle", x, block)
    batch, depth, height, width = node.sizes(x)
    if not isinstance(height, int) or not isinstance(width, int):
        raise node.refuse("height and width must be fixed")
    parts = node.reshape(x, [batch, depth, height // block, block, width // block, block])
    moved = node.emit("aten::permute", parts, [0, 3, 5, 1, 2, 4])
    return node.emit("aten::flatten.using_ints", moved, 1, 3)
