"""Images: resizing, sampling on grids, boxes."""

import math

import torch

from ..program import Of
from . import lowers
from .resample import coordinates, matrix, nearest


class Resize:
    """The node's parameters: which axes, their scales and output sizes (numbers, or `Of` one)."""

    def __init__(self, node):
        self.node, self.x = node, node.x(0)
        rank = node.rank(self.x)
        self.mode = node.attr("mode", "nearest")
        self.transform = node.attr("coordinate_transformation_mode", "half_pixel" if node.opset >= 11 else "asymmetric")
        self.rule = node.attr("nearest_mode", "round_prefer_floor" if node.opset >= 11 else "floor")
        self.axes = [node.axis(self.x, axis) for axis in node.attr("axes", range(rank))]
        self.roi = node.numbers(1) if node.opset >= 11 else None
        if node.type == "Upsample" and node.opset < 9:
            self.scales, self.sizes = node.attr("scales"), None
        else:
            place = 2 if node.opset >= 11 else 1
            self.scales = self.optional(place)
            self.sizes = self.optional(3) if node.opset >= 11 else None
        if self.sizes is not None:
            self.scales = None
            self.keep_ratio(node.attr("keep_aspect_ratio_policy", "stretch"))

    def optional(self, index):
        value = self.node.x(index)
        if value is None or (value.known and 0 in value.dims):
            return None
        return self.node.elements(value)

    def keep_ratio(self, policy):
        if policy == "stretch":
            return
        lengths = [self.x.dims[axis] for axis in self.axes]
        if None in lengths or any(isinstance(size, Of) for size in self.sizes):
            raise self.node.refuse("keep_aspect_ratio_policy needs sizes that are known before the model runs")
        choose = min if policy == "not_larger" else max
        scale = choose(size / length for size, length in zip(self.sizes, lengths))
        self.sizes = [int(math.floor(scale * length + 0.5)) for length in lengths]
        self.scales = [scale] * len(lengths)

    def plan(self):
        """(axis, size, output size, scale) of the axes that change; None in a place that is known at run time only."""
        result = []
        for index, axis in enumerate(self.axes):
            size = self.x.dims[axis]
            scale = self.scales[index] if self.scales is not None else None
            scale = None if isinstance(scale, Of) else scale
            out = self.sizes[index] if self.sizes is not None else None
            if out is None and size is not None and scale is not None:
                out = int(math.floor(size * scale + 1e-6))
            if scale is None and isinstance(out, (int, float)) and size is not None:
                scale = out / size
            if out == size and out is not None and scale in (1, 1.0) and self.transform != "tf_crop_and_resize":
                continue
            if scale == 1.0 and out is None:
                continue
            result.append((axis, size, out, scale))
        return result


@lowers("Resize", "Upsample")
def resize(node):
    parts = Resize(node)
    plan = parts.plan()
    if not plan:
        return node.x(0)
    fast = aten_resize(parts, plan)
    if fast is not None:
        return fast
    if any(size is None or not isinstance(out, (int, float)) or scale is None for _, size, out, scale in plan):
        raise node.refuse(f"mode {parts.mode} with {parts.transform} needs sizes that are known before the model runs")
    return by_axis(parts, plan)


def aten_resize(parts, plan):
    """torch's own operator where it computes the same."""
    node, x = parts.node, parts.x
    axes = [axis for axis, *_ in plan]
    spatial = list(range(2, x.rank))
    if (
        any(axis < 2 for axis in axes)
        or len(spatial) not in (1, 2, 3)
        or node.attr("antialias", 0)
        or node.attr("exclude_outside", 0)
    ):
        return None
    if not x.dtype.is_floating_point:
        return None
    align = parts.transform == "align_corners"
    pixel = parts.transform in ("half_pixel", "pytorch_half_pixel")
    if align and any(
        size is not None and scale is not None and out is not None and abs(size * scale - out) > 1e-6
        for _, size, out, scale in plan
    ):
        return None
    if parts.transform == "pytorch_half_pixel" and any(out == 1 for _, _, out, _ in plan):
        return None
    count = len(spatial)
    if parts.mode == "linear" and (align or pixel):
        name, extra = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}[count], [align]
    elif parts.mode == "cubic" and (align or pixel) and count == 2 and node.attr("cubic_coeff_a", -0.75) == -0.75:
        name, extra = "upsample_bicubic2d", [align]
    elif parts.mode == "nearest" and parts.transform == "asymmetric" and parts.rule == "floor":
        name, extra = f"upsample_nearest{count}d", []
    elif parts.mode == "nearest" and parts.transform == "half_pixel" and parts.rule == "round_prefer_ceil":
        name, extra = f"_upsample_nearest_exact{count}d", []
    else:
        return None
    return node.emit(f"aten::{name}", x, *targets(parts, plan, spatial, extra))


def targets(parts, plan, spatial, extra):
    """Sizes, whether to align, scales, as torch's operators take them."""
    node, found = parts.node, {axis: (size, out, scale) for axis, size, out, scale in plan}
    sizes, scales = [], []
    for axis in spatial:
        size, out, scale = found.get(axis, (None, None, 1.0))
        if axis not in found:
            out = node.size(parts.x, axis)
        elif out is None:
            have = node.size(parts.x, axis)
            have = have.value if isinstance(have, Of) else node.constant(have)
            factor = parts.scales[parts.axes.index(axis)]
            product = (
                node.emit("aten::mul.Tensor", have, node.cast(factor.value, torch.float64))
                if isinstance(factor, Of)
                else node.emit("aten::mul.Scalar", node.cast(have, torch.float64), factor)
            )
            out = Of(node.cast(node.emit("aten::floor", product), torch.int64))
        sizes.append(int(out) if isinstance(out, float) else out)
        given = parts.scales is not None and scale is not None
        scales.append(float(scale) if given else None)
    return [sizes, *extra, *scales]


def by_axis(parts, plan):
    """Each axis by itself: an index where the nearest is taken, otherwise a matrix of weights."""
    node, x = parts.node, parts.x
    dtype, outside = x.dtype, None
    if parts.mode != "nearest" and not dtype.is_floating_point:
        x = node.cast(x, torch.float32)
    for axis, size, out, scale in plan:
        out = int(out)
        roi = None
        if parts.transform == "tf_crop_and_resize":
            index = parts.axes.index(axis)
            roi = (parts.roi[index], parts.roi[index + len(parts.axes)])
        points = coordinates(out, size, scale, parts.transform, roi)
        if parts.transform == "tf_crop_and_resize":
            beyond = torch.from_numpy((points < 0) | (points > size - 1)).reshape([-1] + [1] * (x.rank - 1 - axis))
            outside = beyond if outside is None else outside | beyond
        x = along_axis(parts, x, axis, points, size, scale)
    if outside is not None and bool(outside.any()):
        fill = node.cast(node.constant(node.attr("extrapolation_value", 0.0)), x.dtype)
        x = node.emit("aten::where.self", node.constant(outside), fill, x)
    return x if x.dtype.is_floating_point == dtype.is_floating_point else node.cast(node.emit("aten::round", x), dtype)


def along_axis(parts, x, axis, points, size, scale):
    node = parts.node
    if parts.mode == "nearest":
        return node.emit("aten::index_select", x, axis, node.constant(torch.from_numpy(nearest(points, size, parts.rule))))
    weights = matrix(
        points,
        size,
        scale,
        parts.mode,
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
    )
    weights = node.cast(node.constant(torch.from_numpy(weights)), x.dtype)
    last = node.emit("aten::transpose.int", x, axis, -1)
    return node.emit("aten::transpose.int", node.emit("aten::linear", last, weights), axis, -1)


@lowers("GridSample")
def grid_sample(node):
    modes = {"linear": 0, "bilinear": 0, "nearest": 1, "cubic": 2, "bicubic": 2}
    padding = {"zeros": 0, "border": 1, "reflection": 2}[node.attr("padding_mode", "zeros")]
    mode = modes[node.attr("mode", "linear")]
    if mode == 2 and node.rank(node.x(0)) != 4:
        raise node.refuse("cubic interpolation of volumes is not served")
    return node.emit("aten::grid_sampler", node.x(0), node.x(1), mode, padding, bool(node.attr("align_corners", 0)))


@lowers("NonMaxSuppression")
def nms(node):
    most, threshold, score = node.number(2, 0), node.number(3, 0.0), node.number(4)
    return suppressed(node, node.x(0), node.x(1), most, threshold, score, bool(node.attr("center_point_box", 0)))


def suppressed(node, boxes, scores, most, threshold, score=None, centre=False):
    """[kept, 3]: batch, class and number of each box that stays."""
    value = node.emit("softcann::nms", boxes, scores, most, threshold, score, centre)
    if value.const is None:
        tried = [node.importer.tried(None, f"{node.name}/kept", 0, index) for index in range(node.builder.samples)]
        value.samples = [torch.empty((size, 3), dtype=torch.int64, device="meta") for size in tried]
    return value


def pooled_regions(node, x, regions, sizes, scale, ratio, aligned, largest=False):
    """[regions, channels, *sizes]: means, or the largest, of samples. `regions` are their corners and their images."""
    rois, images = regions
    value = node.emit("softcann::roi_align", x, rois, images, *sizes, scale, ratio, aligned, largest)
    if value.const is None and x.known and rois.known:
        shapes = [(boxes.shape[0], sample.shape[1], *sizes) for sample, boxes in zip(x.samples, rois.samples)]
        value.samples = [torch.empty(shape, dtype=x.dtype, device="meta") for shape in shapes]
    return value


@lowers("RoiAlign")
def roi_align(node):
    x, rois, batch = node.x(0), node.x(1), node.cast(node.x(2), torch.int64)
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    half = node.attr("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel") == "half_pixel"
    scale, ratio, largest = node.attr("spatial_scale", 1.0), node.attr("sampling_ratio", 0), node.attr("mode", "avg") == "max"
    return pooled_regions(node, x, (rois, batch), (height, width), scale, ratio, half, largest)
