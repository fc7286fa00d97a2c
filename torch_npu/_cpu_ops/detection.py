"""Detection: anchors and their targets, sampling of labels, regions pooled by position, deformable convolution."""

from typing import Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradients

# Anchors --------------------------------------------------------------------------------------------------------------------


def npu_anchor_response_flags(input: Tensor, featmap_size: Sequence[int], stride: Sequence[int], num_base_anchors: int) -> Tensor:
    """uint8 [rows * columns * num_base_anchors]: 1 for the anchors of the cells that hold the centre of a box.

    ``input``: boxes [n, 4]; ``featmap_size``: (rows, columns) of the feature map; ``stride``: the image's pixels of a cell,
    across and down.
    """
    rows, columns = featmap_size
    x1, y1, x2, y2 = input.unbind(1)
    column = ((x1 + x2) * 0.5 / stride[0]).floor().long().clamp(0, columns - 1)
    row = ((y1 + y2) * 0.5 / stride[1]).floor().long().clamp(0, rows - 1)
    cells = torch.zeros(rows * columns, dtype=torch.uint8, device=input.device)
    cells = cells.index_fill(0, row * columns + column, 1)
    return cells.repeat_interleave(num_base_anchors)


def _centres(boxes: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """(centre x, centre y, width, height) of boxes given by corners in the last dimension."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return (x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1, y2 - y1


def npu_yolo_boxes_encode(input: Tensor, gt_bboxes: Tensor, stride: Tensor, performance_mode: bool = False) -> Tensor:
    """[n, 4]: what YOLO learns for anchors ``input`` and boxes ``gt_bboxes``, [n, 4] each, with strides int32 [n].

    The centre's place in its cell, within [1e-6, 1 - 1e-6], and the logarithms of the ratios of widths and heights.
    ``performance_mode`` chooses a faster kernel of the NPU; it has no meaning here.
    """
    tiny = 1e-6
    x, y, width, height = _centres(wide(input))
    gt_x, gt_y, gt_width, gt_height = _centres(wide(gt_bboxes))
    across = ((gt_x - x) / stride + 0.5).clamp(tiny, 1 - tiny)
    down = ((gt_y - y) / stride + 0.5).clamp(tiny, 1 - tiny)
    sizes = ((gt_width / width).clamp(min=tiny).log(), (gt_height / height).clamp(min=tiny).log())
    return torch.stack([across, down, *sizes], -1).to(input.dtype)


def npu_grid_assign_positive(input: Tensor, overlaps: Tensor, box_responsible_flags: Tensor, max_overlaps: Tensor,
                             argmax_overlaps: Tensor, gt_max_overlaps: Tensor, gt_argmax_overlaps: Tensor, num_gts: int,
                             pos_iou_thr: float, min_pos_iou: float, gt_max_assign_all: bool) -> Tensor:
    """Assigns boxes of ground truth to anchors: ``input`` [n] with 1 + the number of the box where an anchor is positive.

    ``overlaps`` [k, n] of k boxes and n anchors; ``max_overlaps``, ``argmax_overlaps`` [n] over the boxes, ``gt_max_overlaps``,
    ``gt_argmax_overlaps`` [k] over the anchors. An anchor that is responsible (``box_responsible_flags`` [n]) is positive if its
    largest overlap exceeds ``pos_iou_thr``, or if it has the largest overlap of a box, above ``min_pos_iou``: all such anchors
    with ``gt_max_assign_all``, else the one of ``gt_argmax_overlaps``. Later boxes win. All are floating point but flags
    (uint8) and numbers of boxes.
    """
    responsible = box_responsible_flags.bool()
    assigned = torch.where(responsible & (max_overlaps > pos_iou_thr), (argmax_overlaps + 1).to(input.dtype), input)
    places = torch.arange(input.shape[0], device=input.device)
    for box in range(min(num_gts, overlaps.shape[0])):
        chosen = overlaps[box] == gt_max_overlaps[box] if gt_max_assign_all else places == gt_argmax_overlaps[box]
        chosen = chosen & responsible & (gt_max_overlaps[box] > min_pos_iou)
        assigned = torch.where(chosen, torch.tensor(box + 1, dtype=input.dtype, device=input.device), assigned)
    return assigned


def _rotated(boxes: Tensor) -> Tuple[Tensor, ...]:
    """(centre x, centre y, width, height, tangent of the angle) of [batch, 5, n] with corners and an angle in degrees."""
    boxes = wide(boxes)
    return (*_centres(boxes[:, :4].transpose(1, 2)), torch.deg2rad(boxes[:, 4]).tan())


def npu_rotated_box_encode(input: Tensor, gt_bboxes: Tensor, weight: Tensor) -> Tensor:
    """[batch, 5, n]: what a network learns for anchors ``input`` and boxes ``gt_bboxes``, both [batch, 5, n].

    A box is (x1, y1, x2, y2, angle in degrees). Results, times ``weight`` [5]: the distances of the centres over the anchor's
    width and height, the logarithms of the ratios of widths and heights, and the difference of the tangents of the angles.
    All are floating point.
    """
    x, y, width, height, tangent = _rotated(input)
    gt_x, gt_y, gt_width, gt_height, gt_tangent = _rotated(gt_bboxes)
    parts = [
        (gt_x - x) / width,
        (gt_y - y) / height,
        (gt_width / width).log(),
        (gt_height / height).log(),
        gt_tangent - tangent,
    ]
    return (torch.stack(parts, 1) * wide(weight).reshape(1, 5, 1)).to(input.dtype)


def npu_rotated_box_decode(input: Tensor, deltas: Tensor, weight: Tensor) -> Tensor:
    """The boxes [batch, 5, n] that :func:`npu_rotated_box_encode` made ``deltas`` of, for anchors ``input``.

    All are floating point.
    """
    x, y, width, height, tangent = _rotated(input)
    across, down, wider, higher, turn = (wide(deltas) / wide(weight).reshape(1, 5, 1)).unbind(1)
    x, y, half_width, half_height = x + across * width, y + down * height, width * wider.exp() / 2, height * higher.exp() / 2
    angle = torch.rad2deg((turn + tangent).atan())
    corners = [x - half_width, y - half_height, x + half_width, y + half_height, angle]
    return torch.stack(corners, 1).to(input.dtype)


# Samples --------------------------------------------------------------------------------------------------------------------


def npu_random_choice_with_mask(x: Tensor, count: int = 256, seed: int = 0, seed2: int = 0) -> Tuple[Tensor, Tensor]:
    """The indices of ``count`` true elements of ``x``, drawn without repetition (0: of all, in random order).

    Returns (int32 [count, dimensions of x], bool [count]: which rows there are, the others being 0). The draw repeats for the
    same ``seed`` and ``seed2``, and follows torch's generator of the CPU if both are 0.
    """
    generator = torch.Generator().manual_seed(seed * 2654435761 + seed2) if seed or seed2 else None
    found = x.nonzero()
    order = torch.randperm(found.shape[0], generator=generator)[: count or None].to(x.device)
    rows = count or found.shape[0]
    indices = torch.zeros(rows, x.dim(), dtype=torch.int32, device=x.device)
    indices[: order.numel()] = found[order].int()
    return indices, torch.arange(rows, device=x.device) < order.numel()


def npu_sub_sample(input: Tensor, per_images: int, positive_fraction: float) -> Tensor:
    """Labels (1 positive, 0 negative, -1 ignored) [n] of which at most ``per_images`` stay, the others become -1.

    At most ``per_images * positive_fraction`` positive ones stay, drawn at random, and negative ones up to the number.
    Labels and result are int32.
    """
    positive = (input == 1).nonzero().squeeze(1)
    negative = (input == 0).nonzero().squeeze(1)
    count = min(positive.numel(), int(per_images * positive_fraction))
    rest = min(negative.numel(), per_images - count)
    kept = [part[torch.randperm(part.numel())[:n].to(input.device)] for part, n in ((positive, count), (negative, rest))]
    result = torch.full_like(input, -1)
    return result.index_fill(0, kept[0], 1).index_fill(0, kept[1], 0)


# Regions --------------------------------------------------------------------------------------------------------------------


def _bin_masks(start: Tensor, size: Tensor, bins: int, length: int) -> Tensor:
    """[regions, bins, length]: which pixels belong to which bin of regions from ``start`` on, ``size`` long each bin."""
    number = torch.arange(bins, device=start.device)
    first = (start[:, None] + number * size[:, None]).floor().clamp(0, length)
    last = (start[:, None] + (number + 1) * size[:, None]).ceil().clamp(0, length)
    pixel = torch.arange(length, device=start.device)
    return ((pixel >= first[..., None]) & (pixel < last[..., None])).float()


def npu_ps_roi_pooling(input: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int) -> Tensor:
    """Regions pooled by position: [regions, output_dim, group_size, group_size], bin (i, j) being the mean over its pixels of
    channel ``(c * group_size + i) * group_size + j``.

    ``input``: [N, output_dim * group_size**2, H, W]; ``rois``: [batch, 5, n] of (image, x1, y1, x2, y2), regions = batch * n;
    ``spatial_scale``: cells of the feature map over pixels of the image. A region of no image, and an empty bin, are 0. All
    are floating point.
    """
    images, _, height, width = input.shape
    image, x1, y1, x2, y2 = wide(rois).transpose(1, 2).reshape(-1, 5).unbind(1)
    left, top = x1.round() * spatial_scale, y1.round() * spatial_scale
    across = ((x2.round() + 1) * spatial_scale - left).clamp(min=0.1) / group_size
    down = ((y2.round() + 1) * spatial_scale - top).clamp(min=0.1) / group_size
    rows, columns = _bin_masks(top, down, group_size, height), _bin_masks(left, across, group_size, width)
    valid = (image >= 0) & (image < images)
    maps = wide(input).reshape(images, output_dim, group_size, group_size, height, width)
    maps = maps[image.long().clamp(0, images - 1)]
    total = torch.einsum("rcijhw,rih,rjw->rcij", maps, rows.to(maps.dtype), columns.to(maps.dtype))
    area = rows.sum(2)[:, None, :, None] * columns.sum(2)[:, None, None, :]
    return (total / area.clamp(min=1) * valid[:, None, None, None]).to(input.dtype).contiguous()


def npu_ps_roi_pooling_backward(output_grad: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int,
                                input_size: Sequence[int]) -> Tensor:
    """Gradient of :func:`npu_ps_roi_pooling` for its input, whose height and width are the last two of ``input_size``.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    shape = (rois.shape[0], output_dim * group_size**2, *input_size[-2:])
    zeros = torch.zeros(shape, dtype=torch.float32, device=output_grad.device)

    def forward(maps: Tensor) -> Tensor:
        return npu_ps_roi_pooling(maps, rois, spatial_scale, group_size, output_dim)

    return gradients(forward, (zeros,), output_grad)[0].to(output_grad.dtype)


def npu_roi_alignbk(input: Tensor, rois: Tensor, xdiff_shape: Sequence[int], pooled_width: int, pooled_height: int,
                    spatial_scale: float, sample_num: int, roi_end_mode: Optional[int] = None) -> Tensor:
    """Gradient of ``npu_roi_align`` for its feature maps of shape ``xdiff_shape``; ``input`` is the gradient of its result.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    from torch_npu._cpu_ops.boxes import npu_roi_align

    mode = 1 if roi_end_mode is None else roi_end_mode
    zeros = torch.zeros(xdiff_shape, dtype=torch.float32, device=input.device)

    def forward(maps: Tensor) -> Tensor:
        return npu_roi_align(maps, rois, spatial_scale, pooled_height, pooled_width, sample_num, mode)

    return gradients(forward, (zeros,), input)[0].to(input.dtype)


# Deformable convolution -----------------------------------------------------------------------------------------------------


def _sampled(maps: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Bilinear samples of [N, G, C, H, W] at places [N, G, P]: [N, G, C, P]. Pixels outside are 0."""
    height, width = maps.shape[-2:]
    flat = maps.flatten(3)
    left, top = x.floor(), y.floor()
    total = torch.zeros(1, dtype=maps.dtype, device=maps.device)
    for column, across in ((left, left + 1 - x), (left + 1, x - left)):
        for row, down in ((top, top + 1 - y), (top + 1, y - top)):
            within = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            place = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
            values = flat.gather(3, place.unsqueeze(2).expand(-1, -1, maps.shape[2], -1))
            total = total + values * (across * down * within).unsqueeze(2)
    return total


def _deformed(
    input: Tensor,
    offset: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    modulated: bool,
) -> Tensor:
    """What a convolution with kernel and stride ``kernel`` sums up: [N, C, rows * kernel[0], columns * kernel[1]]."""
    batch, channels, _, _ = input.shape
    rows, columns = offset.shape[-2:]
    taps = kernel[0] * kernel[1]
    parts = offset.reshape(batch, 3 if modulated else 2, groups, taps, rows, columns)
    device = input.device
    tap_y = (torch.arange(kernel[0], device=device) * dilation[2]).repeat_interleave(kernel[1])
    tap_x = (torch.arange(kernel[1], device=device) * dilation[3]).repeat(kernel[0])
    y = (torch.arange(rows, device=device) * stride[2] - padding[0])[None, :, None] + tap_y[:, None, None] + parts[:, 1]
    x = (torch.arange(columns, device=device) * stride[3] - padding[2])[None, None, :] + tap_x[:, None, None] + parts[:, 0]
    samples = _sampled(input.reshape(batch, groups, channels // groups, *input.shape[2:]), x.flatten(2), y.flatten(2))
    if modulated:
        samples = samples * parts[:, 2].flatten(2).unsqueeze(2)
    samples = samples.reshape(batch, channels, kernel[0], kernel[1], rows, columns)
    return samples.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, rows * kernel[0], columns * kernel[1])


def npu_deformable_conv2d(input: Tensor, weight: Tensor, offset: Tensor, bias: Optional[Tensor], kernel_size: Sequence[int],
                          stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int] = [1, 1, 1, 1], groups: int = 1,
                          deformable_groups: int = 1, modulated: bool = True) -> Tuple[Tensor, Tensor]:
    """2-D convolution of samples beside the kernel's own places. Computes in float32. Has a gradient.

    ``input``: [N, C, H, W]; ``weight``: [O, C / groups, kernel_size[0], kernel_size[1]]; ``bias``: [O] or None; ``offset``: [N,
    parts * deformable_groups * taps, rows, columns], first all distances across, then all down, then, if ``modulated``, the
    factors. ``stride`` and ``dilation``: for N, C, H and W; ``padding``: top, bottom, left, right.

    Returns (the convolution [N, O, rows, columns], the samples [N, C, rows * kernel_size[0], columns * kernel_size[1]]).
    """
    samples = _deformed(
        input.float(), offset.float(), kernel_size, stride, padding, list(dilation), deformable_groups, modulated
    )
    bias = None if bias is None else bias.float()
    return F.conv2d(samples, weight.float(), bias, stride=tuple(kernel_size), groups=groups), samples


def npu_deformable_conv2dbk(input: Tensor, grad_output: Tensor, offset_out: Tensor, weight: Tensor, offset: Tensor,
                            kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
                            dilation: Sequence[int] = [1, 1, 1, 1], groups: int = 1, deformable_groups: int = 1,
                            modulated: bool = True) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_deformable_conv2d` for input, weight, offset and bias. ``offset_out``: its second result, of which
    the gradient of the weight is made."""

    def forward(x: Tensor, w: Tensor, o: Tensor) -> Tensor:
        return npu_deformable_conv2d(
            x, w, o, None, kernel_size, stride, padding, dilation, groups, deformable_groups, modulated
        )[0]

    by_input, _, by_offset = gradients(forward, (input.float(), weight.float(), offset.float()), grad_output.float())
    samples, by_out = offset_out.float(), grad_output.float()
    by_weight = torch.nn.grad.conv2d_weight(samples, list(weight.shape), by_out, (kernel_size[0], kernel_size[1]), groups=groups)
    return by_input, by_weight, by_offset, by_out.sum((0, 2, 3))
