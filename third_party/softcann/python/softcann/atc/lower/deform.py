"""Convolutions that read their picture at places that the model computes."""

import torch

from . import lowers


@lowers("DeformConv")
def deform_conv(node):
    """Samples the picture at each place of the kernel, as GridSample does, then a convolution of one place over those."""
    x, weight, offset, bias, mask = (node.x(index) for index in range(5))
    if not all(value is not None and value.static and value.rank == 4 for value in (x, weight, offset)):
        raise node.refuse("only pictures of two dimensions and of fixed sizes are served: give them by --input_shape")
    batch, channels, height, width = x.dims
    outputs, inside, rows, columns = weight.dims
    groups, count = node.attr("offset_group", 1), rows * columns
    high, wide = offset.dims[2:]
    size = node.constant([height, width], offset.dtype)
    place = node.emit("aten::add.Tensor", node.reshape(offset, [batch * groups, count, 2, high, wide]), base(node, offset.dtype))
    place = node.emit("aten::permute", place, [0, 1, 3, 4, 2])
    # Places 0 to size - 1 as GridSample has them: from -1 to 1 over the outer borders of the first and the last pixel.
    scaled = node.emit("aten::div.Tensor", node.emit("aten::add.Tensor", place, node.constant(0.5, offset.dtype)), size)
    place = node.emit("aten::sub.Tensor", node.emit("aten::add.Tensor", scaled, scaled), node.constant(1.0, offset.dtype))
    grid = node.emit("aten::flip", node.reshape(place, [batch * groups, count * high, wide, 2]), [3])
    pictures = node.reshape(x, [batch * groups, channels // groups, height, width])
    found = node.emit("aten::grid_sampler", pictures, grid, 0, 0, False)
    if mask is not None:
        found = node.emit("aten::mul.Tensor", found, node.reshape(mask, [batch * groups, 1, count * high, wide]))
    found = node.reshape(found, [batch, channels * count, high, wide])
    weight = node.reshape(weight, [outputs, inside * count, 1, 1])
    group = node.attr("group", 1)
    return node.emit("aten::convolution", found, weight, bias, [1, 1], [0, 0], [1, 1], False, [0, 0], group)


def base(node, dtype):
    """Where the kernel's places lie without an offset, [rows * columns, 2, high, wide]: row, column."""
    rows, columns = node.x(1).dims[2:]
    strides, dilations, pads = node.attr("strides", [1, 1]), node.attr("dilations", [1, 1]), node.attr("pads", [0, 0, 0, 0])
    high, wide = node.x(2).dims[2:]
    lines = []
    for axis, (inner, outer) in enumerate(((rows, high), (columns, wide))):
        within, across = torch.arange(inner) * dilations[axis] - pads[axis], torch.arange(outer) * strides[axis]
        lines.append(within[:, None] + across)
    row = lines[0][:, None, :, None].expand(rows, columns, high, wide)
    column = lines[1][None, :, None, :].expand(rows, columns, high, wide)
    return node.constant(torch.stack([row, column], 2).reshape(rows * columns, 2, high, wide), dtype)
