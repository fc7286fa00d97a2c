"""Convolutions that read their picture at places that the model computes."""

import torch

from . import lowers
from .ascend import given


@lowers("DeformConv")
def deform_conv(node):
    """A convolution of one place over samples of the picture at each place of the kernel."""
    x, weight, offset, bias, mask = (node.x(index) for index in range(5))
    steps = node.attr("strides", [1, 1]), node.attr("dilations", [1, 1]), node.attr("pads", [0, 0, 0, 0])
    layout = Layout(node, x, weight, offset, node.attr("offset_group", 1), steps)
    found = layout.sample(node.reshape(offset, layout.places), mask)
    return layout.convolve(found, bias, node.attr("group", 1))


@lowers("npu::NPUDeformableConv2d")
def deformable_conv2d(node):
    """And its samples. Distances are all those across, then all those down, then, if it is modulated, the factors."""
    x, weight, offset, bias = (given(node, index) for index in range(4))
    top, bottom, left, right = node.attr("paddings")
    parts, groups = (3 if node.attr("modulated", 1) else 2), node.attr("deformable_groups", 1)
    steps = node.attr("strides")[2:], node.attr("dilations", [1] * 4)[2:], [top, left, bottom, right]
    layout = Layout(node, x, weight, offset, groups, steps)
    batch, _, high, wide = offset.dims
    split = node.reshape(offset, [batch, parts, groups, layout.count, high, wide])
    across, down, *mask = (node.emit("aten::select.int", split, 1, part) for part in range(parts))
    place = node.emit("aten::stack", [down, across], 3)
    found = layout.sample(node.reshape(place, layout.places), mask[0] if mask else None)
    rows, columns = weight.dims[2:]
    samples = node.emit("aten::permute", node.reshape(found, [batch, -1, rows, columns, high, wide]), [0, 1, 4, 2, 5, 3])
    samples = node.reshape(samples, [batch, -1, high * rows, wide * columns])
    return layout.convolve(found, bias, node.attr("groups", 1)), samples


class Layout:
    """Where the kernel's places lie: `steps` are strides, dilations and pads. `groups` of channels have places of their own."""

    def __init__(self, node, x, weight, offset, groups, steps):
        if not all(value is not None and value.static and value.rank == 4 for value in (x, weight, offset)):
            raise node.refuse("only pictures of two dimensions and of fixed sizes are served: give them by --input_shape")
        self.node, self.x, self.weight, self.groups = node, x, weight, groups
        self.steps = steps
        self.kernel, self.count = weight.dims[2:], weight.dims[2] * weight.dims[3]
        self.high, self.wide = offset.dims[2:]
        self.places = [x.dims[0] * groups, self.count, 2, self.high, self.wide]   # down, across

    def sample(self, place, mask):
        """[batch, channels * places, high, wide] by GridSample, times the mask."""
        node, (batch, channels, height, width) = self.node, self.x.dims
        high, wide, count, groups = self.high, self.wide, self.count, self.groups
        size = node.constant([height, width], place.dtype)
        place = node.emit("aten::add.Tensor", place, self.base(place.dtype))
        place = node.emit("aten::permute", place, [0, 1, 3, 4, 2])
        # Places 0 to size - 1 as GridSample has them: from -1 to 1 over the outer borders of the first and the last pixel.
        scaled = node.emit("aten::div.Tensor", node.emit("aten::add.Tensor", place, node.constant(0.5, place.dtype)), size)
        place = node.emit("aten::sub.Tensor", node.emit("aten::add.Tensor", scaled, scaled), node.constant(1.0, place.dtype))
        grid = node.emit("aten::flip", node.reshape(place, [batch * groups, count * high, wide, 2]), [3])
        pictures = node.reshape(self.x, [batch * groups, channels // groups, height, width])
        found = node.emit("aten::grid_sampler", pictures, grid, 0, 0, False)
        if mask is not None:
            found = node.emit("aten::mul.Tensor", found, node.reshape(mask, [batch * groups, 1, count * high, wide]))
        return node.reshape(found, [batch, channels * count, high, wide])

    def convolve(self, found, bias, group):
        outputs, inside = self.weight.dims[:2]
        weight = self.node.reshape(self.weight, [outputs, inside * self.count, 1, 1])
        return self.node.emit("aten::convolution", found, weight, bias, [1, 1], [0, 0], [1, 1], False, [0, 0], group)

    def base(self, dtype):
        """Where the kernel's places lie without an offset, [rows * columns, 2, high, wide]: row, column."""
        (rows, columns), (strides, dilations, pads) = self.kernel, self.steps
        lines = []
        for axis, (inner, outer) in enumerate(((rows, self.high), (columns, self.wide))):
            within, across = torch.arange(inner) * dilations[axis] - pads[axis], torch.arange(outer) * strides[axis]
            lines.append(within[:, None] + across)
        row = lines[0][:, None, :, None].expand(rows, columns, self.high, self.wide)
        column = lines[1][None, :, None, :].expand(rows, columns, self.high, self.wide)
        return self.node.constant(torch.stack([row, column], 2).reshape(rows * columns, 2, self.high, self.wide), dtype)
