"""Ascend's own operators on boxes: nodes of the domain npu. A box is x1, y1, x2, y2."""

import math

import torch

from . import lowers
from .image import pooled_regions, suppressed


class Arithmetic:
    """Values with operators: `value` of each is the graph's."""

    def __init__(self, node, value):
        self.node, self.value = node, value

    def _with(self, kernel, other):
        if isinstance(other, Arithmetic):
            return Arithmetic(self.node, self.node.emit(f"aten::{kernel}.Tensor", self.value, other.value))
        return Arithmetic(self.node, self.node.emit(f"aten::{kernel}.Scalar", self.value, other))

    def __add__(self, other):
        return self._with("add", other)

    def __sub__(self, other):
        return self._with("sub", other)

    def __mul__(self, other):
        return self._with("mul", other)

    def __truediv__(self, other):
        return self._with("div", other)

    def call(self, kernel, *args):
        """The result of an operator of ATen whose first argument this is."""
        args = [arg.value if isinstance(arg, Arithmetic) else arg for arg in args]
        return Arithmetic(self.node, self.node.emit(f"aten::{kernel}", self.value, *args))

    def part(self, index):
        """Of the last dimension."""
        return self.call("select.int", -1, index)


class Boxes:
    def __init__(self, value):
        self.x1, self.y1, self.x2, self.y2 = (value.part(index) for index in range(4))

    def sides(self):
        return self.x2 - self.x1, self.y2 - self.y1

    def centres(self):
        """And sides, in whole pixels, the last one included."""
        width, height = self.sides()
        return (self.x1 + self.x2) / 2, (self.y1 + self.y2) / 2, width + 1, height + 1


def areas(a, b, longer=0):
    """Of the intersection, of the union, of b, all sides longer by that much."""
    width = a.x2.call("minimum", b.x2) - a.x1.call("maximum", b.x1)
    height = a.y2.call("minimum", b.y2) - a.y1.call("maximum", b.y1)
    sides = [width, height, *a.sides(), *b.sides()]
    width, height, aw, ah, bw, bh = [side + longer for side in sides] if longer else sides
    both = width.call("clamp", 0) * height.call("clamp", 0)
    return both, aw * ah + bw * bh - both, bw * bh


def hull(a, b):
    """Sides of the smallest box around both."""
    return (a.x2.call("maximum", b.x2) - a.x1.call("minimum", b.x1), a.y2.call("maximum", b.y2) - a.y1.call("minimum", b.y1))


def ratio(node, a, b, longer=0):
    """mode 0: intersection over union; 1: over the area of b."""
    both, union, second = areas(a, b, longer)
    return both / (second if node.attr("mode", 0) else union)


@lowers("npu::NPUIou")
def iou(node):
    """[boxes of the second, boxes of the first]; CANN's converter asks for sides longer by 0.01."""
    first, second = (Arithmetic(node, value) for value in node.inputs[:2])
    return ratio(node, Boxes(first.call("unsqueeze", 0)), Boxes(second.call("unsqueeze", 1)), longer=0.01).value


def corners(node, value):
    """[4, n], or [n, 4] of another n, as [n, 4] in corners."""
    if not value.known or value.rank != 2 or value.dims[0] is None:
        raise node.refuse("the number of boxes must be fixed: give it by --input_shape")
    boxes = Arithmetic(node, value)
    if value.dims[0] == 4:
        boxes = boxes.call("t")
    if not node.attr("trans", 0):
        return boxes
    centre, half = boxes.call("slice.Tensor", -1, 0, 2, 1), boxes.call("slice.Tensor", -1, 2, 4, 1) / 2
    return Arithmetic(node, node.emit("aten::cat", [(centre - half).value, (centre + half).value], -1))


def pairs(node, is_cross):
    a, b = (corners(node, value) for value in node.inputs[:2])
    return (Boxes(a.call("unsqueeze", 1)), Boxes(b.call("unsqueeze", 0))) if is_cross else (Boxes(a), Boxes(b))


def distance(a, b):
    """Squared, of the centres, over the squared diagonal of the hull."""
    across, down = (a.x1 + a.x2 - b.x1 - b.x2) / 2, (a.y1 + a.y2 - b.y1 - b.y2) / 2
    width, height = hull(a, b)
    return (across * across + down * down) / (width * width + height * height)


@lowers("npu::NPUGiou")
def giou(node):
    """[n, m], or of pairs [n, 1]."""
    is_cross = node.attr("is_cross", 0)
    a, b = pairs(node, is_cross)
    width, height = hull(a, b)
    whole = width * height
    value = ratio(node, a, b) - (whole - areas(a, b)[1]) / whole
    return (value if is_cross else value.call("unsqueeze", 1)).value


@lowers("npu::NPUDiou")
def diou(node):
    """[n, m], or of pairs [1, n]."""
    is_cross = node.attr("is_cross", 0)
    a, b = pairs(node, is_cross)
    value = ratio(node, a, b) - distance(a, b)
    return (value if is_cross else value.call("unsqueeze", 0)).value


@lowers("npu::NPUCiou")
def ciou(node):
    """[m, n], or of pairs [1, n]."""
    is_cross = node.attr("is_cross", 1)
    a, b = pairs(node, is_cross)
    (aw, ah), (bw, bh) = a.sides(), b.sides()
    angle = (bw / bh).call("atan") - (aw / ah).call("atan")
    aspect, value = angle * angle * (4 / math.pi**2), ratio(node, a, b)
    alpha = aspect / (aspect - value + 1).call("clamp", 1e-7)
    value = value - distance(a, b) - alpha * aspect
    return (value.call("t") if is_cross else value.call("unsqueeze", 0)).value


def norms(node):
    return [(node.attr(f"means{index}", 0.0), node.attr(f"stds{index}", 1.0)) for index in range(4)]


def stacked(node, parts):
    return node.emit("aten::stack", [part.value for part in parts], -1)


@lowers("npu::NPUBoundingBoxEncode")
def encode(node):
    """[n, 4]: where the second boxes lie as the first see it."""
    px, py, pw, ph = Boxes(Arithmetic(node, node.x(0))).centres()
    gx, gy, gw, gh = Boxes(Arithmetic(node, node.x(1))).centres()
    deltas = ((gx - px) / pw, (gy - py) / ph, (gw / pw).call("log"), (gh / ph).call("log"))
    return stacked(node, [(delta - mean) / std for delta, (mean, std) in zip(deltas, norms(node))])


@lowers("npu::NPUBoundingBoxDecode")
def decode(node):
    """[n, 4]: boxes within max_shapes, height and width."""
    px, py, pw, ph = Boxes(Arithmetic(node, node.x(0))).centres()
    deltas = Arithmetic(node, node.x(1))
    dx, dy, dw, dh = (deltas.part(index) * std + mean for index, (mean, std) in enumerate(norms(node)))
    limit, shape = abs(math.log(node.attr("wh_ratio_clip", 0.016))), node.attr("max_shapes")
    x, y = px + pw * dx, py + ph * dy
    half_w, half_h = ((side * delta.call("clamp", -limit, limit).call("exp") - 1) / 2 for side, delta in ((pw, dw), (ph, dh)))
    right, bottom = shape[-1] - 1, shape[0] - 1
    parts = ((x - half_w, right), (y - half_h, bottom), (x + half_w, right), (y + half_h, bottom))
    return stacked(node, [part.call("clamp", 0, most) for part, most in parts])


@lowers("npu::NPURoiAlign")
def roi_align(node):
    """Regions are image, x1, y1, x2, y2, and end there (roi_end_mode 0, 2) or a pixel later; 2 and 3 shift by half a pixel."""
    x, rois, end = node.x(0), node.x(1), node.attr("roi_end_mode", 1)
    boxes = node.emit("aten::slice.Tensor", rois, 1, 1, 5, 1)
    if end in (1, 3):
        boxes = node.emit("aten::add.Tensor", boxes, node.constant([0.0, 0.0, 1.0, 1.0], rois.dtype))
    images = node.cast(node.emit("aten::select.int", rois, 1, 0), torch.int64)
    sizes = (node.attr("pooled_height"), node.attr("pooled_width"))
    return pooled_regions(node, x, (boxes, images), sizes, node.attr("spatial_scale"), node.attr("sample_num", 0), end >= 2)


@lowers("npu::NPUNmsWithMask")
def nms_with_mask(node):
    """Of boxes with scores [n, 5], best first: they, their numbers, and 1 for each that overlaps no better one that stays."""
    x = node.x(0)
    if not x.known or x.dims[0] is None:
        raise node.refuse("the number of boxes must be fixed: give it by --input_shape")
    count = x.dims[0]
    wide = node.cast(x, torch.float32)
    places = node.emit("aten::unsqueeze", node.emit("aten::slice.Tensor", wide, 1, 0, 4, 1), 0)
    ranks = node.constant(torch.arange(count, 0, -1, dtype=torch.float32).reshape(1, 1, count))
    kept = suppressed(node, places, ranks, count, node.attr("iou_threshold", 0.5))
    numbers = node.emit("aten::select.int", kept, 1, 2)
    mask = node.emit("aten::index_fill.int_Scalar", node.constant(torch.zeros(count, dtype=torch.uint8)), 0, numbers, 1)
    boxes = node.emit("aten::slice.Tensor", x, 1, 0, 5, 1)
    return boxes, node.constant(torch.arange(count, dtype=torch.int32)), mask


@lowers("npu::NPUMoeComputeExpertTokens")
def expert_tokens(node):
    """How many copies go to experts 0 to e, for each e, out of the sorted experts of the copies."""
    experts, count = node.x(0), node.attr("num_experts", 1)
    found = node.emit("aten::searchsorted.Tensor", experts, node.constant(torch.arange(count), experts.dtype), right=True)
    return node.cast(found, experts.dtype)
