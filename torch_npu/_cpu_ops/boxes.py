"""Boxes and regions of images. A box is (x1, y1, x2, y2) unless said otherwise."""

import math
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported


def _sides(boxes: Tensor) -> Tuple[Tensor, Tensor]:
    return boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]


def _overlap(a: Tensor, b: Tensor, longer: float = 0.0) -> Tuple[Tensor, Any, Any]:
    """(area of the intersection, of a, of b), all sides longer by that much."""
    width = torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])
    height = torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])
    sides = [width, height, *_sides(a), *_sides(b)]
    width, height, aw, ah, bw, bh = [side + longer for side in sides] if longer else sides
    return width.clamp(min=0) * height.clamp(min=0), aw * ah, bw * bh


def _ratio(a: Tensor, b: Tensor, mode: int, longer: float = 0.0) -> Any:
    """mode 0: intersection over union; 1: over the area of b."""
    both, first, second = _overlap(a, b, longer)
    return both / ((first + second - both) if mode == 0 else second)


# What CANN adds to each side of a box here: no area is 0, so that two empty boxes have an overlap too.
_LONGER = 0.01


def npu_iou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """[gtboxes, bboxes]: intersection over union (``mode`` 0) or over the area of the ground truth box (1).

    ``bboxes`` and ``gtboxes``: [n, 4] and [m, 4], whose sides count as longer by 0.01. The result has the dtype of
    ``bboxes``, of integers torch's default; areas are computed in float32 or wider.
    """
    wide = torch.promote_types(bboxes.dtype, torch.float32)   # areas of float16 overflow from sides of 256 on
    found = _ratio(bboxes.to(wide).unsqueeze(0), gtboxes.to(wide).unsqueeze(1), mode, _LONGER)
    return found.to(torch.result_type(bboxes, 1.0))   # of whole numbers it is a fraction, too


def npu_ptiou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """As :func:`npu_iou`."""
    return npu_iou(bboxes, gtboxes, mode)


def _corners(boxes: Tensor, trans: Any) -> Tensor:
    """[4, n], or [n, 4] of another n, as [n, 4] in corners; with ``trans`` boxes are (centre x, centre y, width, height)."""
    boxes = boxes.t() if boxes.shape[0] == 4 else boxes
    if not trans:
        return boxes
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def _pairs(self: Tensor, gtboxes: Any, trans: Any, is_cross: Any) -> Tuple[Any, Any]:
    a, b = _corners(self, trans), _corners(gtboxes, trans)
    return (a.unsqueeze(1), b.unsqueeze(0)) if is_cross else (a, b)


def _shaped(value: Tensor, is_cross: Any) -> Tensor:
    return value if is_cross else value.unsqueeze(0)


def _hull(a: Tensor, b: Tensor) -> Tuple[Tensor, Tensor]:
    """Width and height of the smallest box around both."""
    return (torch.maximum(a[..., 2], b[..., 2]) - torch.minimum(a[..., 0], b[..., 0]),
            torch.maximum(a[..., 3], b[..., 3]) - torch.minimum(a[..., 1], b[..., 1]))


def npu_giou(self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Generalized IoU of boxes [4, n] and [4, m], or [n, 4] and [m, 4] of other sizes than 4: [n, m] with ``is_cross``, else of
    pairs, [n, 1].

    ``trans``: boxes are (centre x, centre y, width, height). ``mode``: 0 over the union, 1 over the ground truth's area.
    Boxes and result are floating point.
    """
    a, b = _pairs(self, gtboxes, trans, is_cross)
    both, first, second = _overlap(a, b)
    width, height = _hull(a, b)
    hull = width * height
    value = _ratio(a, b, mode) - (hull - (first + second - both)) / hull
    return value if is_cross else value.unsqueeze(1)


def _distance(a: Tensor, b: Tensor) -> Any:
    """Squared distance of the centres over the squared diagonal of the hull."""
    centre = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    width, height = _hull(a, b)
    return centre.square().sum(-1) / (width.square() + height.square())


def npu_diou(self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Distance IoU; arguments and shapes as in :func:`npu_giou`, but [1, n] for pairs.

    Boxes and result are floating point.
    """
    a, b = _pairs(self, gtboxes, trans, is_cross)
    return _shaped(_ratio(a, b, mode) - _distance(a, b), is_cross)


def npu_ciou(self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = True, mode: int = 0,
             atan_sub_flag: bool = False) -> Tensor:
    """Complete IoU; arguments and shapes as in :func:`npu_diou`, but [m, n] with ``is_cross``. ``atan_sub_flag`` tunes the
    hardware's gradient.

    Boxes and result are floating point.
    """
    a, b = _pairs(self, gtboxes, trans, is_cross)
    (aw, ah), (bw, bh) = _sides(a), _sides(b)
    aspect = 4 / math.pi**2 * (torch.atan(bw / bh) - torch.atan(aw / ah)).square()
    ratio = _ratio(a, b, mode)
    alpha = (aspect / (1 - ratio + aspect).clamp(min=1e-7)).detach()
    value = ratio - _distance(a, b) - alpha * aspect
    return value.t().contiguous() if is_cross else value.unsqueeze(0)


def _centres(boxes: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    width, height = boxes[..., 2] - boxes[..., 0] + 1, boxes[..., 3] - boxes[..., 1] + 1
    return (boxes[..., 0] + boxes[..., 2]) / 2, (boxes[..., 1] + boxes[..., 3]) / 2, width, height


def npu_bounding_box_encode(anchor_box: Tensor, ground_truth_box: Tensor, means0: float, means1: float, means2: float,
                            means3: float, stds0: float, stds1: float, stds2: float, stds3: float) -> Tensor:
    """[n, 4] (dx, dy, dw, dh) of ground truth boxes against anchors, normalized by means and deviations.

    All are floating point.
    """
    px, py, pw, ph = _centres(anchor_box)
    gx, gy, gw, gh = _centres(ground_truth_box)
    deltas = ((gx - px) / pw, (gy - py) / ph, torch.log(gw / pw), torch.log(gh / ph))
    norms = ((means0, stds0), (means1, stds1), (means2, stds2), (means3, stds3))
    return torch.stack([(d - mean) / std for d, (mean, std) in zip(deltas, norms)], -1)


def npu_bounding_box_decode(rois: Tensor, deltas: Tensor, means0: float, means1: float, means2: float, means3: float,
                            stds0: float, stds1: float, stds2: float, stds3: float, max_shape: Sequence[int],
                            wh_ratio_clip: float) -> Tensor:
    """Boxes [n, 4] out of rois and (dx, dy, dw, dh), the way back from :func:`npu_bounding_box_encode`.

    ``max_shape``: (height, width) the boxes are clipped to; ``wh_ratio_clip``: dw and dh are clipped to +-|log| of it. All
    are floating point.
    """
    norms = ((means0, stds0), (means1, stds1), (means2, stds2), (means3, stds3))
    dx, dy, dw, dh = (deltas[..., i] * std + mean for i, (mean, std) in enumerate(norms))
    limit = abs(math.log(wh_ratio_clip))
    px, py, pw, ph = _centres(rois)
    x, y = px + pw * dx, py + ph * dy
    half_width, half_height = (pw * dw.clamp(-limit, limit).exp() - 1) / 2, (ph * dh.clamp(-limit, limit).exp() - 1) / 2
    height, width = max_shape if len(max_shape) == 2 else (max_shape[0], max_shape[0])
    return torch.stack([(x - half_width).clamp(0, width - 1), (y - half_height).clamp(0, height - 1),
                        (x + half_width).clamp(0, width - 1), (y + half_height).clamp(0, height - 1)], -1)


def _suppress(boxes: Tensor, threshold: float, most: Optional[int] = None) -> List[bool]:
    """Which of the boxes on the host, best first, stay: a list of bools. The first ``most`` that stay are enough."""
    gone = torch.zeros(len(boxes), dtype=torch.bool)
    kept = [False] * len(boxes)
    left = len(boxes) if most is None else most
    for i in range(len(boxes)):
        if left <= 0:
            break
        if not gone[i]:
            kept[i], left = True, left - 1
            gone |= _ratio(boxes, boxes[i], 0).double() > threshold   # double: the threshold is not rounded
    return kept


def _best_first(values: Tensor, threshold: float) -> Tensor:
    """Indices of the scores on the host above the threshold, best first."""
    order = values.argsort(descending=True, stable=True)
    return order[values[order] > threshold]


def npu_nms_with_mask(self: Tensor, iou_threshold: float) -> Tuple[Tensor, Tensor, Tensor]:
    """Drops each box that overlaps a better one by more than ``iou_threshold``. ``self``: [n, 5], boxes and scores, best first;
    further columns count for nothing.

    Returns (the boxes and scores [n, 5], int32 indices 0 to n - 1, uint8 mask of the boxes that stay).
    """
    if self.is_meta:
        count = self.shape[0]
        return self[:, :5].clone(), self.new_empty(count, dtype=torch.int32), self.new_empty(count, dtype=torch.uint8)
    kept = torch.tensor(_suppress(self[:, :4].float().cpu(), float(iou_threshold)), dtype=torch.uint8, device=self.device)
    return self[:, :5].clone(), torch.arange(self.shape[0], dtype=torch.int32, device=self.device), kept


def npu_nms_v4(self: Tensor, scores: Tensor, max_output_size: float, iou_threshold: Tensor, scores_threshold: Tensor,
               pad_to_max_output_size: bool = False) -> Tuple[Tensor, Tensor]:
    """Greedy choice of at most ``max_output_size`` boxes [n, 4] by ``scores`` [n], none of which overlaps a chosen one by
    more than ``iou_threshold``, with scores above ``scores_threshold`` (tensors of one number).

    Returns (int32 indices [max_output_size], filled up with 0 whatever ``pad_to_max_output_size`` says, for CANN's operator has
    room for all of them; their number, int32).
    """
    if self.is_meta:
        return self.new_empty(int(max_output_size), dtype=torch.int32), self.new_empty((), dtype=torch.int32)
    values = scores.float().cpu()
    order = _best_first(values, float(scores_threshold))
    kept = _suppress(self.float().cpu()[order], float(iou_threshold), int(max_output_size))
    chosen = [i for i, stays in zip(order.tolist(), kept) if stays]
    count = len(chosen)
    chosen += [0] * (int(max_output_size) - count)
    return (torch.tensor(chosen, dtype=torch.int32, device=self.device),
            torch.tensor(count, dtype=torch.int32, device=self.device))


def _best_of_class(boxes: Tensor, values: Any, score_threshold: Any, iou_threshold: Any, count: int) -> List[Any]:
    """Indices of the boxes that one class keeps, best first."""
    order = _best_first(values, score_threshold)
    kept = _suppress(boxes[order], iou_threshold, count)
    return [i for i, stays in zip(order.tolist(), kept) if stays]


def npu_batch_nms(self: Tensor, scores: Tensor, score_threshold: float, iou_threshold: float, max_size_per_class: int,
                  max_total_size: int, change_coordinate_frame: bool = False,
                  transpose_box: bool = False) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Greedy choice among the boxes of each image, class by class: ``self`` [images, boxes, 1 or classes, 4], ``scores``
    [images, boxes, classes].

    Of each class at most ``max_size_per_class`` boxes stay, with scores above ``score_threshold``, none of which overlaps a
    better one by more than ``iou_threshold``; of all classes the ``max_total_size`` best. Returns (boxes [images,
    max_total_size, 4], scores and classes [images, max_total_size], all in self's dtype and zero behind the last; their
    numbers [images], int32). Raises NotImplementedError for ``change_coordinate_frame`` and ``transpose_box``.
    """
    unsupported("npu_batch_nms", change_coordinate_frame=change_coordinate_frame or None, transpose_box=transpose_box or None)
    if self.dim() != 4 or scores.dim() != 3 or self.shape[:2] != scores.shape[:2] or self.shape[2] not in (1, scores.shape[2]):
        raise ValueError(f"npu_batch_nms: boxes [images, boxes, 1 or classes, 4] and scores [images, boxes, classes], "
                         f"but got {tuple(self.shape)} and {tuple(scores.shape)}")
    images, classes = self.shape[0], scores.shape[2]
    shape = (images, max_total_size)
    if self.device.type == "meta":
        return (self.new_empty(*shape, 4), self.new_empty(shape), self.new_empty(shape),
                self.new_empty(images, dtype=torch.int32))
    boxes, values = self.float().cpu().expand(-1, -1, classes, -1), scores.float().cpu()
    found, labels, counts = torch.zeros(*shape, 6), torch.arange(classes), []
    for image in range(images):
        chosen = []
        for label in labels.tolist():
            own, value = boxes[image, :, label], values[image, :, label]
            kept = _best_of_class(own, value, score_threshold, iou_threshold, max_size_per_class)
            chosen += [(*own[i].tolist(), value[i].item(), label) for i in kept]
        chosen = sorted(chosen, key=lambda row: -row[4])[:max_total_size]
        counts.append(len(chosen))
        if chosen:
            found[image, :len(chosen)] = torch.tensor(chosen)
    found = found.to(device=self.device, dtype=self.dtype)
    return (found[..., :4].contiguous(), found[..., 4].contiguous(), found[..., 5].contiguous(),
            torch.tensor(counts, dtype=torch.int32, device=self.device))


def _bilinear(image: Any, y: Tensor, x: Tensor) -> Any:
    """Samples [C, H, W] at points; outside by more than one pixel it is 0."""
    height, width = image.shape[-2:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor().long(), x.floor().long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    dy, dx = y - top, x - left
    value = (image[:, top, left] * (1 - dy) * (1 - dx) + image[:, top, right] * (1 - dy) * dx +
             image[:, bottom, left] * dy * (1 - dx) + image[:, bottom, right] * dy * dx)
    return value * inside


def npu_roi_align(self: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sample_num: int,
                  roi_end_mode: int) -> Tensor:
    """Regions [n, 5] (image, x1, y1, x2, y2) of feature maps [N, C, H, W] as [n, C, pooled_height, pooled_width]: means of
    ``sample_num`` x ``sample_num`` bilinear samples (0: as many as a bin has pixels).

    ``roi_end_mode``: 0 the region ends at x2, y2; 1 one pixel later; 2 and 3 the same, half a pixel shifted.
    """
    if self.is_meta:
        return self.new_empty(rois.shape[0], self.shape[1], pooled_height, pooled_width)
    results = []
    shift = 0.5 if roi_end_mode >= 2 else 0.0
    for image, x1, y1, x2, y2 in rois.tolist():
        end = 1.0 if roi_end_mode in (1, 3) else 0.0
        x1, y1 = x1 * spatial_scale - shift, y1 * spatial_scale - shift
        width, height = (x2 + end) * spatial_scale - shift - x1, (y2 + end) * spatial_scale - shift - y1
        if not shift:
            width, height = max(width, 1.0), max(height, 1.0)
        bin_width, bin_height = width / pooled_width, height / pooled_height
        rows, columns = (sample_num or max(math.ceil(size), 1) for size in (bin_height, bin_width))
        y = y1 + (torch.arange(pooled_height * rows, device=self.device) + 0.5) * bin_height / rows
        x = x1 + (torch.arange(pooled_width * columns, device=self.device) + 0.5) * bin_width / columns
        samples = _bilinear(self[int(image)], y.unsqueeze(1), x.unsqueeze(0))
        results.append(samples.view(-1, pooled_height, rows, pooled_width, columns).mean((2, 4)))
    return torch.stack(results).to(self.dtype)
