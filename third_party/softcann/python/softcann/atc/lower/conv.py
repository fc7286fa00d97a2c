"""Convolution and pooling."""

import torch

from ..program import Of
from . import lowers


def fixed_sizes(node, x, what):
    sizes = x.dims[2:]
    if None in sizes:
        raise node.refuse(f"{what} needs sizes that are known before the model runs; export with explicit pads")
    return sizes


def padding_of(node, x, kernel, strides, dilations):
    """Begin and end padding by axis."""
    count, auto = len(kernel), node.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = node.attr("pads") or [0] * (2 * count)
        return pads[:count], pads[count:]
    if auto == "VALID":
        return [0] * count, [0] * count
    begin, end = [], []
    if all(stride == 1 for stride in strides):
        totals = [dilation * (size - 1) for size, dilation in zip(kernel, dilations)]
    else:
        totals = [
            max((-(-length // stride) - 1) * stride + dilation * (size - 1) + 1 - length, 0)
            for length, size, stride, dilation in zip(fixed_sizes(node, x, f"auto_pad {auto}"), kernel, strides, dilations)
        ]
    for total in totals:
        less, more = total // 2, total - total // 2
        begin.append(less if auto == "SAME_UPPER" else more)
        end.append(more if auto == "SAME_UPPER" else less)
    return begin, end


def pad_spatial(node, x, begin, end, value):
    order = [size for pair in reversed(list(zip(begin, end))) for size in pair]
    return node.emit("aten::constant_pad_nd", x, order, value) if any(order) else x


def windows(node, x, kernel):
    count = len(kernel)
    strides, dilations = node.attr("strides") or [1] * count, node.attr("dilations") or [1] * count
    return strides, dilations, *padding_of(node, x, kernel, strides, dilations)


@lowers("Conv")
def conv(node):
    return convolve(node, node.x(0), node.x(1), node.x(2), lambda x: 0.0)


def convolve(node, x, weight, bias, fill):
    kernel = node.attr("kernel_shape") or weight.dims[2:]
    strides, dilations, begin, end = windows(node, x, kernel)
    if begin != end:
        x, begin = pad_spatial(node, x, begin, end, fill(x)), [0] * len(kernel)
    return node.emit(
        "aten::convolution", x, weight, bias, strides, begin, dilations, False, [0] * len(kernel), node.attr("group", 1)
    )


@lowers("ConvTranspose")
def conv_transpose(node):
    x, weight, bias = node.x(0), node.x(1), node.x(2)
    kernel = node.attr("kernel_shape") or weight.dims[2:]
    count = len(kernel)
    strides, dilations = node.attr("strides") or [1] * count, node.attr("dilations") or [1] * count
    extra = node.attr("output_padding") or [0] * count
    begin, end = transposed_padding(node, x, kernel, strides, dilations, extra)
    # torch takes away the same on both sides: what is more on one side is cut off, or added as output padding.
    common = [max(min(left, right), 0) for left, right in zip(begin, end)]
    grow = [more - min(right - both, 0) for more, both, right in zip(extra, common, end)]
    result = None
    if all(0 <= more < max(stride, dilation) for more, stride, dilation in zip(grow, strides, dilations)):
        result = node.emit("aten::convolution", x, weight, bias, strides, common, dilations, True, grow, node.attr("group", 1))
    else:
        result = node.emit(
            "aten::convolution", x, weight, bias, strides, common, dilations, True, [0] * count, node.attr("group", 1)
        )
        result = pad_spatial(node, result, [0] * count, grow, 0.0)
    for axis, (left, right, both) in enumerate(zip(begin, end, common), 2):
        low, high = left - both, max(right - both, 0)
        if low < 0:
            raise node.refuse("an output_shape that needs padding at the beginning is not served")
        if low or high:
            result = node.emit("aten::slice.Tensor", result, axis, low, -high if high else 2**62, 1)
    return result


def transposed_padding(node, x, kernel, strides, dilations, extra):
    count, auto, wanted = len(kernel), node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if wanted is None and auto in ("NOTSET", "VALID", ""):
        pads = (node.attr("pads") if auto != "VALID" else None) or [0] * (2 * count)
        return pads[:count], pads[count:]
    lengths = fixed_sizes(node, x, "output_shape or auto_pad")
    wanted = wanted[-count:] if wanted is not None else [length * stride for length, stride in zip(lengths, strides)]
    begin, end = [], []
    for length, stride, dilation, size, more, goal in zip(lengths, strides, dilations, kernel, extra, wanted):
        total = stride * (length - 1) + more + (size - 1) * dilation + 1 - goal
        less, rest = total // 2, total - total // 2
        upper = auto == "SAME_UPPER"
        begin.append(less if upper else rest)
        end.append(rest if upper else less)
    return begin, end


def ceil_end(node, x, kernel, strides, dilations, begin, end):
    """End padding with which rounding down gives what ceil_mode asks for; a window that would begin in it does not count."""
    result = []
    for length, size, stride, dilation, low, high in zip(
        fixed_sizes(node, x, "ceil_mode"), kernel, strides, dilations, begin, end
    ):
        reach = dilation * (size - 1) + 1
        count = -(-(length + low + high - reach) // stride) + 1
        if (count - 1) * stride >= length + low:
            count -= 1
        result.append(
            max((count - 1) * stride + reach - length - low, high) if (count - 1) * stride + reach > length + low + high else high
        )
    return result


@lowers("MaxPool")
def max_pool(node):
    x, kernel = node.x(0), node.attr("kernel_shape")
    strides, dilations, begin, end = windows(node, x, kernel)
    dtype = x.dtype
    if not dtype.is_floating_point:
        x = node.cast(x, torch.float32)
    simple = begin == end and all(low * 2 <= size for low, size in zip(begin, kernel)) and not node.wants(1)
    count = len(kernel)
    if simple:
        result = pool_max(node, x, kernel, strides, begin, dilations, bool(node.attr("ceil_mode", 0)))
        return result if result.dtype == dtype or dtype.is_floating_point else node.cast(result, dtype)
    if node.attr("ceil_mode", 0):
        end = ceil_end(node, x, kernel, strides, dilations, begin, end)
    padded = pad_spatial(node, x, begin, end, float("-inf"))
    if not node.wants(1):
        result = pool_max(node, padded, kernel, strides, [0] * count, dilations, False)
        return result if dtype.is_floating_point else node.cast(result, dtype)
    return max_pool_indices(node, x, padded, (kernel, strides, dilations, begin), dtype)


def pool_max(node, x, kernel, strides, pads, dilations, ceil):
    count = len(kernel)
    return node.emit(f"aten::max_pool{count}d", x, kernel, strides, pads, dilations, ceil)


def max_pool_indices(node, x, padded, window, dtype):
    kernel, strides, dilations, begin = window
    count = len(kernel)
    if not x.static:
        raise node.refuse("indices need sizes that are known before the model runs")
    lead = padded if count > 1 else node.emit("aten::unsqueeze", padded, 2)
    args = [kernel, strides, [0] * count, dilations] if count > 1 else [[1, *kernel], [1, *strides], [0, 0], [1, *dilations]]
    result, index = node.emit(f"aten::max_pool{max(count, 2)}d_with_indices", lead, *args)
    if count == 1:
        result, index = (node.emit("aten::squeeze.dim", each, 2) for each in (result, index))
    # From the padded tensor's numbering to that of the input, over all batches and channels.
    sizes, outer = x.dims[2:], padded.dims[2:]
    position, rest = None, index
    factors = [1] * count
    order = range(count) if not node.attr("storage_order", 0) else reversed(range(count))
    step = 1
    for axis in reversed(list(order)):
        factors[axis], step = step, step * sizes[axis]
    for axis in reversed(range(count)):
        place = node.emit("aten::sub.Scalar", node.emit("aten::remainder.Scalar", rest, outer[axis]), begin[axis])
        rest = node.emit("aten::div.Scalar_mode", rest, outer[axis], rounding_mode="floor")
        part = node.emit("aten::mul.Scalar", place, factors[axis])
        position = part if position is None else node.emit("aten::add.Tensor", position, part)
    images = torch.arange(x.dims[0] * x.dims[1]).reshape(x.dims[0], x.dims[1], *[1] * count) * step
    return (result if dtype.is_floating_point else node.cast(result, dtype)), node.emit(
        "aten::add.Tensor", position, node.constant(images)
    )


@lowers("AveragePool")
def average_pool(node):
    x, kernel = node.x(0), node.attr("kernel_shape")
    strides, dilations, begin, end = windows(node, x, kernel)
    count, include, ceil = len(kernel), bool(node.attr("count_include_pad", 0)), bool(node.attr("ceil_mode", 0))
    plain = all(one == 1 for one in dilations)
    if plain and begin == end and all(low * 2 <= size for low, size in zip(begin, kernel)):
        return node.emit(f"aten::avg_pool{count}d", x, kernel, strides, begin, ceil, include)
    last = ceil_end(node, x, kernel, strides, dilations, begin, end) if ceil else end
    ones = node.emit(
        "aten::ones_like", node.emit("aten::slice.Tensor", node.emit("aten::slice.Tensor", x, 0, 0, 1, 1), 1, 0, 1, 1)
    )
    if include:
        ones = pad_spatial(node, ones, begin, end, 1.0)
        ones = pad_spatial(node, ones, [0] * count, [more - less for more, less in zip(last, end)], 0.0)
    else:
        ones = pad_spatial(node, ones, begin, last, 0.0)
    total, number = (
        window_sum(node, each, kernel, strides, dilations) for each in (pad_spatial(node, x, begin, last, 0.0), ones)
    )
    return node.emit("aten::div.Tensor", total, number)


def window_sum(node, x, kernel, strides, dilations):
    """Sums over windows: a convolution of each channel with ones."""
    channels = x.dims[1]
    if channels is None:
        raise node.refuse("the number of channels must be fixed")
    weight = node.cast(node.constant(torch.ones([channels, 1, *kernel])), x.dtype)
    return node.emit(
        "aten::convolution", x, weight, None, strides, [0] * len(kernel), dilations, False, [0] * len(kernel), channels
    )


@lowers("LpPool")
def lp_pool(node):
    x, kernel, p = node.x(0), node.attr("kernel_shape"), node.attr("p", 2)
    strides, dilations, begin, end = windows(node, x, kernel)
    if node.attr("ceil_mode", 0):
        end = ceil_end(node, x, kernel, strides, dilations, begin, end)
    powers = node.emit("aten::pow.Tensor_Scalar", node.emit("aten::abs", x), p)
    total = window_sum(node, pad_spatial(node, powers, begin, end, 0.0), kernel, strides, dilations)
    return node.emit("aten::pow.Tensor_Scalar", total, 1.0 / p)


def all_spatial(node, x):
    return list(range(2, node.rank(x)))


@lowers("GlobalAveragePool")
def global_average(node):
    return node.emit("aten::mean.dim", node.x(0), all_spatial(node, node.x(0)), True)


@lowers("GlobalMaxPool")
def global_max(node):
    return node.emit("aten::amax", node.x(0), all_spatial(node, node.x(0)), True)


@lowers("GlobalLpPool")
def global_lp(node):
    x = node.x(0)
    return node.emit("aten::linalg_vector_norm", x, node.attr("p", 2), all_spatial(node, x), True)


@lowers("MaxUnpool")
def max_unpool(node):
    x, index = node.x(0), node.x(1)
    kernel = node.attr("kernel_shape")
    count = len(kernel)
    strides, pads = node.attr("strides") or [1] * count, node.attr("pads") or [0] * (2 * count)

    def unpooled(lengths):
        return [
            (length - 1) * stride + size - pads[axis] - pads[axis + count]
            for axis, (length, stride, size) in enumerate(zip(lengths, strides, kernel))
        ]

    if node.x(2) is not None:
        sizes = node.elements(node.x(2))
    else:
        sizes = [*x.dims[:2], *unpooled(fixed_sizes(node, x, "unpooling"))]
    total = 1
    for size in sizes:
        if isinstance(size, Of):
            raise node.refuse("its output_shape must be a constant")
        total *= size
    inner = unpooled(x.dims[2:])
    if list(sizes[2:]) != inner:  # the indices count in the pooled tensor's own size
        index = renumbered(node, index, x.dims[:2], inner, list(sizes))
    flat = node.emit("aten::full", [total], 0.0, dtype=x.dtype)
    done = node.emit("aten::scatter.src", flat, 0, node.reshape(index, [-1]), node.reshape(x, [-1]))
    return node.reshape(done, list(sizes))


def renumbered(node, index, lead, inner, sizes):
    rest, position, step = index, None, 1
    for have, size in zip([*lead, *inner][::-1], sizes[::-1]):
        part = node.emit("aten::mul.Scalar", node.emit("aten::remainder.Scalar", rest, have), step)
        position = part if position is None else node.emit("aten::add.Tensor", position, part)
        rest, step = node.emit("aten::div.Scalar_mode", rest, have, rounding_mode="floor"), step * size
    return position


@lowers("ConvInteger")
def conv_integer(node):
    x, weight = integers(node, 0), integers(node, 1)
    return node.cast(convolve(node, x, weight, None, lambda value: 0.0), torch.int32)


def integers(node, index):
    """A quantised operand as exact numbers, its zero point subtracted."""
    x, zero = node.cast(node.x(index), torch.float64), node.x(index + 2)
    if zero is None:
        return x
    zero = node.cast(zero, torch.float64)
    if zero.rank == 1 and zero.dims != [1]:
        zero = node.reshape(zero, [-1] + [1] * (node.rank(x) - 1))
    return node.emit("aten::sub.Tensor", x, zero)


@lowers("Col2Im")
def col2im(node):
    image, block = (node.fixed(index, name) for index, name in ((1, "image_shape"), (2, "block_shape")))
    count = len(image)
    strides, dilations = node.attr("strides") or [1] * count, node.attr("dilations") or [1] * count
    pads = node.attr("pads") or [0] * (2 * count)
    if count != 2:
        raise node.refuse("only images of two dimensions are served")
    outer = [size + pads[axis] + pads[axis + count] for axis, size in enumerate(image)]
    result = node.emit("aten::col2im", node.x(0), outer, block, dilations, [0, 0], strides)
    for axis, size in enumerate(image):
        if pads[axis] or pads[axis + count]:
            result = node.emit("aten::slice.Tensor", result, axis + 2, pads[axis], pads[axis] + size, 1)
    return result
