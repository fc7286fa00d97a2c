"""Boxes with an angle: (centre x, centre y, width, height, angle in degrees, counter-clockwise)."""

from typing import Any, List, Tuple

import torch
from torch import Tensor


def _from_corners(boxes: Tensor) -> Tensor:
    """(x1, y1, x2, y2, angle) as (centre x, centre y, width, height, angle)."""
    x1, y1, x2, y2, angle = boxes.unbind(-1)
    return torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, angle], -1)


def _vertices(boxes: Tensor) -> Tensor:
    """[..., 4, 2], counter-clockwise."""
    x, y, width, height, angle = boxes.unsqueeze(-1).unbind(-2)
    side = torch.tensor([[-0.5, 0.5, 0.5, -0.5], [-0.5, -0.5, 0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    across, up = width * side[0], height * side[1]
    cos, sin = torch.deg2rad(angle).cos(), torch.deg2rad(angle).sin()
    return torch.stack([x + across * cos - up * sin, y + across * sin + up * cos], -1)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _inside(points: Any, corners: Any) -> Any:
    """Which of [..., p, 2] lie in the convex [..., 4, 2], whose edge counts as inside."""
    edges = corners.roll(-1, -2) - corners
    turn = _cross(edges.unsqueeze(-3), points.unsqueeze(-2) - corners.unsqueeze(-3))
    # Rounding must not put the corners of equal boxes outside.
    slack = 1e-5 * edges.square().sum(-1).amax(-1)
    return (turn >= -slack[..., None, None]).all(-1)


def _crossings(a: Tensor, b: Tensor) -> Tuple[Any, Any]:
    """Where each edge of a meets each of b: points [..., 16, 2], and which of them there are."""
    along_a, along_b = a.roll(-1, -2) - a, b.roll(-1, -2) - b
    along_a, along_b = along_a.unsqueeze(-2), along_b.unsqueeze(-3)
    apart = b.unsqueeze(-3) - a.unsqueeze(-2)
    turn = _cross(along_a, along_b)
    parallel = turn == 0
    turn = torch.where(parallel, torch.ones_like(turn), turn)
    s, t = _cross(apart, along_b) / turn, _cross(apart, along_a) / turn
    there = ~parallel & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    return (a.unsqueeze(-2) + s.unsqueeze(-1) * along_a).flatten(-3, -2), there.flatten(-2)


def _intersection(a: Tensor, b: Tensor) -> Any:
    """Area of what two boxes share: its corners are corners of one box inside the other, and crossings of edges."""
    origin = a[..., :2]   # near the boxes, for the sake of rounding
    a, b = (_vertices(torch.cat([each[..., :2] - origin, each[..., 2:]], -1)) for each in (a, b))
    crossings, there = _crossings(a, b)
    points = torch.cat([a, b, crossings], -2)
    there = torch.cat([_inside(a, b), _inside(b, a), there], -1)
    some = there.unsqueeze(-1)
    centre = (points * some).sum(-2, keepdim=True) / some.sum(-2, keepdim=True).clamp(min=1)
    # What is no corner comes last in the order, and adds no area.
    spokes = torch.where(some, points - centre, torch.zeros_like(points))
    angle = torch.where(there, torch.atan2(spokes[..., 1], spokes[..., 0]), torch.full_like(spokes[..., 0], 4.0))
    order = angle.argsort(-1)
    spokes = spokes.gather(-2, order.unsqueeze(-1).expand_as(spokes))
    count = there.sum(-1, keepdim=True)
    position = torch.arange(spokes.shape[-2], device=spokes.device)
    following = torch.where(position + 1 < count, position + 1, torch.zeros_like(count))
    follower = spokes.gather(-2, following.unsqueeze(-1).expand_as(spokes))
    return _cross(spokes, follower).sum(-1).clamp(min=0) / 2


def _float_boxes(name: str, *boxes: Any) -> Any:
    for each in boxes:
        if each.dim() != 3 or each.shape[-1] != 5:
            raise ValueError(f"{name}: boxes are [B, N, 5], but got {' and '.join(str(list(t.shape)) for t in boxes)}")
    return (each.float() if each.dtype in (torch.float16, torch.bfloat16) else each for each in boxes)


def npu_rotated_overlaps(self: Tensor, query_boxes: Tensor, trans: bool = False) -> Tensor:
    """Areas that boxes with an angle have in common, [B, N, K]; arguments as in :func:`npu_rotated_iou`."""
    a, b = _float_boxes("npu_rotated_overlaps", self, query_boxes)
    if trans:
        a, b = _from_corners(a), _from_corners(b)
    return _intersection(*torch.broadcast_tensors(a.unsqueeze(-2), b.unsqueeze(-3))).to(self.dtype)


def npu_rotated_iou(self: Tensor, query_boxes: Tensor, trans: bool = False, mode: int = 0, is_cross: bool = True,
                    v_threshold: float = 0.0, e_threshold: float = 0.0) -> Tensor:
    """Intersection over union of boxes with an angle.

    ``self`` [B, N, 5] and ``query_boxes`` [B, K, 5]: centre x, centre y, width, height, angle in degrees; with ``trans`` x1,
    y1, x2, y2, angle. ``mode`` 1 divides by the area of ``self`` instead of the union. Returns [B, N, K]; with
    ``is_cross`` False (N = K) each row has the values of the pairs. ``v_threshold`` and ``e_threshold``
    say what CANN takes for equal vertices and edges;
    here rounding is allowed for in any case. float16 and bfloat16 are computed in float32.
    """
    if mode not in (0, 1):
        raise ValueError(f"npu_rotated_iou: mode is 0 (over the union) or 1 (over the first area), but got {mode}")
    a, b = _float_boxes("npu_rotated_iou", self, query_boxes)
    if trans:
        a, b = _from_corners(a), _from_corners(b)
    if is_cross:
        a, b = torch.broadcast_tensors(a.unsqueeze(-2), b.unsqueeze(-3))
    first, second, both = a[..., 2] * a[..., 3], b[..., 2] * b[..., 3], _intersection(a, b)
    whole = first + second - both if mode == 0 else first
    some = whole > 0
    ratio = torch.where(some, both / torch.where(some, whole, torch.ones_like(whole)), torch.zeros_like(both)).to(self.dtype)
    return ratio if is_cross else ratio.unsqueeze(-2).repeat(1, a.shape[-2], 1)


def npu_nms_rotated(self: Tensor, scores: Tensor, iou_threshold: float, scores_threshold: float = 0, max_output_size: int = -1,
                    mode: int = 0) -> Tuple[Tensor, Tensor]:
    """Greedy choice, by falling score, of boxes with an angle none of which overlaps a chosen one by more than ``iou_threshold``.

    ``self`` [n, 5]: centre x, centre y, width, height, angle in degrees (``mode`` 0) or x1, y1, x2, y2, angle (1); ``scores``
    [n], of which those above ``scores_threshold`` count. At most ``max_output_size`` boxes; -1: without limit.
    Returns (int32 indices of the boxes; their number, int32 [1]). How many there are depends on the values, so that meta tensors
    raise NotImplementedError, at which torch.compile leaves the call out of its graph.
    """
    if self.is_meta:
        raise NotImplementedError("npu_nms_rotated: how many boxes it returns depends on their values")
    values = scores.float().cpu()
    order = [i for i in values.argsort(descending=True, stable=True).tolist() if values[i] > scores_threshold]
    boxes = self.detach().float().cpu()[order].unsqueeze(0)
    ratio = npu_rotated_iou(boxes, boxes, trans=mode == 1)[0].tolist()
    kept: List[int] = []   # positions in `order`
    for i, row in enumerate(ratio):
        if len(kept) == max_output_size:
            break
        if not any(row[j] > iou_threshold for j in kept):
            kept.append(i)
    chosen = [order[i] for i in kept]
    return (torch.tensor(chosen, dtype=torch.int32, device=self.device),
            torch.tensor([len(chosen)], dtype=torch.int32, device=self.device))
