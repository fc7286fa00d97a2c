"""Overlaps of boxes, their coding against anchors, and the choice among them."""

from typing import List, Optional, Sequence, Tuple

import torch


def npu_iou(boxes1: torch.Tensor, boxes2: torch.Tensor, mode: str = "ptiou", is_normalized: bool = False,
            normalized_scale: float = 100.0) -> torch.Tensor:
    """[n, m], float32: intersection over union of boxes [n, 4] and [m, 4] (x1, y1, x2, y2).

    ``mode``: "iou" or "ptiou". ``is_normalized``: coordinates are parts of the picture, which ``normalized_scale`` makes pixels.
    """
    import torch_npu

    if mode not in ("iou", "ptiou"):
        raise ValueError(f"mode {mode!r}: expected iou or ptiou")
    boxes1, boxes2 = boxes1.float(), boxes2.float()
    if is_normalized:
        boxes1, boxes2 = boxes1 * normalized_scale, boxes2 * normalized_scale
    function = torch_npu.npu_iou if mode == "iou" else torch_npu.npu_ptiou
    return function(boxes2, boxes1)


def npu_ptiou(boxes1: torch.Tensor, boxes2: torch.Tensor, mode: str = "ptiou", is_normalized: bool = False,
              normalized_scale: float = 100.0) -> torch.Tensor:
    """As :func:`npu_iou`."""
    return npu_iou(boxes1, boxes2, mode, is_normalized, normalized_scale)


def npu_giou(boxes1: torch.Tensor, boxes2: torch.Tensor, is_permuted: bool = True) -> torch.Tensor:
    """[n, 1]: generalized IoU of pairs of boxes (centre x, centre y, width, height), each [n, 4], or [4, n] with ``is_permuted``
    False. Has a gradient."""
    import torch_npu

    if boxes1.shape != boxes2.shape:
        raise ValueError(f"expected pairs of boxes, got {tuple(boxes1.shape)} and {tuple(boxes2.shape)}")
    if is_permuted:
        boxes1, boxes2 = boxes1.t(), boxes2.t()
    return torch_npu.npu_giou(boxes1, boxes2, True, False, 0)


def npu_diou(boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False,
             mode: int = 0) -> torch.Tensor:
    """[1, n]: distance IoU of pairs of boxes [4, n]; ``trans``: they are (centre x, centre y, width, height). Has a gradient."""
    import torch_npu

    return torch_npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False,
             mode: int = 0) -> torch.Tensor:
    """[1, n]: complete IoU; as :func:`npu_diou`."""
    import torch_npu

    return torch_npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)


def _check_coder(boxes: torch.Tensor, others: torch.Tensor) -> None:
    if boxes.shape != others.shape or boxes.shape[-1] != 4:
        raise ValueError(f"expected boxes [n, 4] twice, got {tuple(boxes.shape)} and {tuple(others.shape)}")


def npu_bbox_coder_encode_xyxy2xywh(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, means: Optional[Sequence[float]] = None,
                                    stds: Optional[Sequence[float]] = None, is_normalized: bool = False,
                                    normalized_scale: float = 10000.0) -> torch.Tensor:
    """[n, 4]: (dx, dy, dw, dh) of ground truth boxes against anchors, both [n, 4] corners; ``torch_npu.npu_bounding_box_encode``.

    ``is_normalized``: coordinates are parts of the picture, which ``normalized_scale`` makes pixels.
    """
    import torch_npu

    _check_coder(bboxes, gt_bboxes)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch_npu.npu_bounding_box_encode(bboxes, gt_bboxes, *(means or (0.0,) * 4), *(stds or (1.0,) * 4))


def npu_bbox_coder_decode_xywh2xyxy(bboxes: torch.Tensor, pred_bboxes: torch.Tensor, means: Optional[Sequence[float]] = None,
                                    stds: Optional[Sequence[float]] = None, max_shape: Optional[Sequence[int]] = None,
                                    wh_ratio_clip: float = 16 / 1000) -> torch.Tensor:
    """[n, 4]: boxes out of anchors and (dx, dy, dw, dh), clipped to ``max_shape`` (height, width) where it is given."""
    import torch_npu

    _check_coder(bboxes, pred_bboxes)
    mean, std, shape = list(means or (0.0,) * 4), list(stds or (1.0,) * 4), list(max_shape or (9999, 9999))[:2]
    return torch_npu.npu_bounding_box_decode(bboxes, pred_bboxes, mean[0], mean[1], mean[2], mean[3], std[0], std[1], std[2],
                                             std[3], shape, wh_ratio_clip)


def npu_bbox_coder_encode_yolo(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor) -> torch.Tensor:
    """[n, 4]: YOLO's code of ground truth boxes against anchors; ``torch_npu.npu_yolo_boxes_encode``."""
    import torch_npu

    _check_coder(bboxes, gt_bboxes)
    return torch_npu.npu_yolo_boxes_encode(bboxes, gt_bboxes, stride.to(torch.int32))


def npu_single_level_responsible_flags(featmap_size: Tuple[int, int], gt_bboxes: torch.Tensor, stride: Tuple[int, int],
                                       num_base_anchors: int) -> torch.Tensor:
    """uint8 [height * width * num_base_anchors]: 1 for the anchors of cells that hold the centre of a ground truth box [n, 4];
    centres beyond the map count for nothing.

    ``featmap_size``: (height, width) of the feature map; ``stride``: (x, y) pixels of a cell.
    """
    height, width = featmap_size
    centres = (gt_bboxes[:, :2] + gt_bboxes[:, 2:4]) / 2
    column = torch.floor(centres[:, 0] / stride[0]).long()
    row = torch.floor(centres[:, 1] / stride[1]).long()
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    flags = torch.zeros(height * width + 1, dtype=torch.uint8, device=gt_bboxes.device)
    flags[torch.where(inside, row * width + column, height * width)] = 1
    return flags[:-1].unsqueeze(1).expand(-1, num_base_anchors).reshape(-1)


def npu_batched_multiclass_nms(multi_bboxes: torch.Tensor, multi_scores: torch.Tensor, score_thr: float = 0.05,
                               nms_thr: float = 0.45, max_num: int = 50,
                               score_factors: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """The best boxes of each image, class by class: (boxes with their score [images, max_num, 5], classes [images, max_num]),
    zero behind the last, all float16, in which it is computed.

    multi_bboxes: [images, n, 4] or [images, n, classes * 4]; multi_scores: [images, n, classes + 1], the last is background;
    score_factors: [images, n], multiplied into the scores.
    """
    import torch_npu

    classes = multi_scores.shape[-1] - 1
    images, count = multi_scores.shape[:2]
    boxes = multi_bboxes.reshape(images, count, -1, 4)
    scores = multi_scores[..., :classes]
    if score_factors is not None:
        scores = scores * score_factors.unsqueeze(-1)
    boxes, scores = boxes.contiguous().half(), scores.contiguous().half()
    boxes, scores, labels, _ = torch_npu.npu_batch_nms(boxes, scores, score_thr, nms_thr, max_num, max_num)
    return torch.cat([boxes, scores.unsqueeze(-1)], -1), labels


def npu_multiclass_nms(multi_bboxes: torch.Tensor, multi_scores: torch.Tensor, score_thr: float = 0.05, nms_thr: float = 0.45,
                       max_num: int = 50, score_factors: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """:func:`npu_batched_multiclass_nms` of one image: ([max_num, 5], [max_num])."""
    factors = None if score_factors is None else score_factors.unsqueeze(0)
    boxes, labels = npu_batched_multiclass_nms(multi_bboxes.unsqueeze(0), multi_scores.unsqueeze(0), score_thr, nms_thr, max_num,
                                               factors)
    return boxes[0], labels[0]


__all__: List[str] = [name for name in dir() if name.startswith("npu_")]
