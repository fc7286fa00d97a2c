"""torchvision's own operators on the NPU: ``nms``, ``roi_align`` and ``deform_conv2d``, with their gradients and autocast.

torchvision compiles kernels for the CPU and its own choice of devices, so torch_npu registers these once torchvision is imported
(``torch_npu._hooks.libraries``). They are called as on every device: ``torchvision.ops.nms(boxes, scores, iou_threshold)``. What
CANN's operators do not take, which is float64, runs on the CPU: :func:`torch_npu.fallbacks` names it ``torchvision_float64``.
"""

from typing import Any, List, Tuple

import torch
from torch import Tensor

__all__ = ["deform_conv2d", "nms", "register", "roi_align"]

# Boxes that are compared with all that come after them at once: memory is this by the number of boxes.
_ROWS = 1024


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression: int64 indices [kept] of the boxes that overlap no better one that stays, best first.

    ``dets``: [n, 4], (x1, y1, x2, y2); ``scores``: [n], of the same dtype; of equal scores the first is the better. A box goes
    where intersection over union is above ``iou_threshold``. Computes in float32 (float64 where that is given).
    RuntimeError for other shapes or two dtypes.
    """
    torch._check(dets.dim() == 2 and dets.size(1) == 4, lambda: f"boxes should be [n, 4], got {list(dets.shape)}")
    torch._check(list(scores.shape) == [dets.size(0)], lambda: f"scores should be [{dets.size(0)}], got {list(scores.shape)}")
    torch._check(dets.dtype == scores.dtype,
                 lambda: f"dets should have the same type as scores, got {dets.dtype} and {scores.dtype}")
    order = scores.argsort(descending=True, stable=True)
    wide = dets.dtype == torch.float64
    boxes = dets[order] if wide else dets[order].float()
    least = iou_threshold if wide else _float32_below(iou_threshold)
    alive = torch.ones_like(order, dtype=torch.bool)
    for start in range(0, order.numel(), _ROWS):
        over = _overlap(boxes[start:start + _ROWS], boxes[start:]) > least
        count = over.size(0)
        kept = _resolve(over[:, :count].triu(1), alive[start:start + count])
        alive[start:start + count] = kept
        alive[start + count:] &= ~(over[:, count:] & kept.unsqueeze(1)).any(0)
    return order[alive]


def _resolve(over: Tensor, candidates: Tensor) -> Tensor:
    """Of candidates [b], best first, those that none of the kept ones overlaps; ``over`` [b, b]: row before column.

    Whether the first i stay is right after i rounds, for it depends on those before them alone; chains are short, so that few
    rounds, each of one launch for all candidates, come to rest.
    """
    kept = candidates
    while True:
        now = candidates & ~(over & kept.unsqueeze(1)).any(0)
        if torch.equal(now, kept):
            return now
        kept = now


def _overlap(better: Tensor, others: Tensor) -> Tensor:
    """Intersection over union [b, n] of boxes [b, 4] and [n, 4], rounded as torchvision's CPU kernel rounds it."""
    a, b = better.unsqueeze(1), others.unsqueeze(0)
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp_min(0)
    both = sides[..., 0] * sides[..., 1]
    return both / (_area(a) + _area(b) - both)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _float32_below(value: float) -> float:
    """The largest float32 that is not above ``value``: a float32 is above the one exactly when it is above the other."""
    nearest = torch.tensor(value, dtype=torch.float32, device="cpu")
    if nearest.item() > value:
        nearest = nearest.nextafter(torch.tensor(float("-inf"), device="cpu"))
    return float(nearest.item())


def roi_align(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
              aligned: bool) -> Tensor:
    """Means [k, C, pooled_height, pooled_width] of bilinear samples of ``input`` [N, C, H, W] in ``rois`` [k, 5]: (image, x1, y1,
    x2, y2), by ``spatial_scale``. ``sampling_ratio``: samples along each side of a bin, 0 or less: as many as it has pixels;
    ``aligned``: half a pixel shifted. float16, bfloat16, float32. RuntimeError for other shapes or two dtypes.
    """
    _check_rois(input, rois)
    if input.dtype == torch.float64:
        return torch.ops.torchvision_float64.roi_align(
            input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    if rois.size(0) == 0:
        return input.new_empty((0, input.size(1), pooled_height, pooled_width))
    return torch.ops.npu.npu_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, max(sampling_ratio, 0),
                                       2 if aligned else 0)


def _roi_align_backward(grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
                        channels: int, height: int, width: int, sampling_ratio: int, aligned: bool) -> Tensor:
    _check_rois(grad, rois)
    sizes = [batch_size, channels, height, width]
    if grad.dtype == torch.float64:
        return torch.ops.torchvision_float64._roi_align_backward(
            grad, rois, spatial_scale, pooled_height, pooled_width, *sizes, sampling_ratio, aligned)
    if rois.size(0) == 0:
        return grad.new_zeros(sizes)
    return torch.ops.npu.npu_roi_alignbk(grad, rois, sizes, pooled_width, pooled_height, spatial_scale, max(sampling_ratio, 0),
                                         2 if aligned else 0)


def _check_rois(maps: Tensor, rois: Tensor) -> None:
    torch._check(rois.dim() == 2 and rois.size(1) == 5, lambda: f"rois must have shape as Tensor[K, 5], got {list(rois.shape)}")
    torch._check(maps.dtype == rois.dtype, lambda: "Expected tensor for input to have the same type as tensor for rois; but type "
                 f"{maps.dtype} does not equal {rois.dtype}")


def deform_conv2d(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *settings: Any) -> Tensor:
    """Convolution [N, O, rows, columns] of ``input`` [N, C, H, W] with ``weight`` [O, C / groups, kh, kw] at moved places.

    ``offset``: [N, offset_groups * taps * 2, rows, columns], (down, right) of each tap, in pixels; ``mask``: [N, offset_groups *
    taps, rows, columns], factors; ``bias``: [O]. ``settings``: strides, padding and dilations, each down and across, groups,
    offset_groups, use_mask. float16, bfloat16, float32.
    """
    if input.dtype == torch.float64:
        return torch.ops.torchvision_float64.deform_conv2d(input, weight, offset, mask, bias, *settings)
    moves, numbers = _moves_and_factors(weight, offset, mask, settings)
    return torch.ops.npu.npu_deformable_conv2d(input, weight, moves, bias, *numbers)[0]


def _moves_and_factors(weight: Tensor, offset: Tensor, mask: Tensor, settings: Tuple[Any, ...]) -> Tuple[Tensor, List[Any]]:
    """CANN's one operand, all that go across, all that go down, then all factors, and its other arguments."""
    down, across, pad_down, pad_across, step_down, step_across, groups, offset_groups, use_mask = settings
    batch, _, rows, columns = offset.shape
    pairs = offset.reshape(batch, -1, 2, rows, columns)
    factors = mask if use_mask else torch.ones_like(pairs[:, :, 0])
    moves = torch.cat([pairs[:, :, 1], pairs[:, :, 0], factors], 1)
    return moves, [list(weight.shape[2:]), [1, 1, down, across], [pad_down, pad_down, pad_across, pad_across],
                   [1, 1, step_down, step_across], groups, offset_groups, True]


def _deform_conv2d_backward(grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
                            *settings: Any) -> Tuple[Tensor, ...]:
    if input.dtype == torch.float64:
        return torch.ops.torchvision_float64._deform_conv2d_backward(grad, input, weight, offset, mask, bias, *settings)
    moves, numbers = _moves_and_factors(weight, offset, mask, settings)
    samples = torch.ops.npu.npu_deformable_conv2d(input, weight, moves, None, *numbers)[1]
    dx, dweight, dmoves, dbias = torch.ops.npu.npu_deformable_conv2dbk(input, grad, samples, weight, moves, *numbers)
    across, down, factors = dmoves.chunk(3, 1)
    doffset = torch.stack([down, across], 2).reshape(offset.shape)
    return dx, dweight, doffset, factors if settings[-1] else torch.zeros_like(mask), dbias


def _in_float32(operator: Any) -> Any:
    """An operator's kernel for autocast: in float32, as torchvision has it for its devices; the result of the first's dtype."""

    def kernel(*arguments: Any) -> Tensor:
        key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
        with torch._C._ExcludeDispatchKeyGuard(key):
            widened = [one.float() if isinstance(one, Tensor) and one.dtype != torch.float64 else one for one in arguments]
            return operator(*widened).to(arguments[0].dtype)

    return kernel


_libraries: List[torch.library.Library] = []


def register(extension: Any) -> None:
    """Registers the kernels, once the module ``torchvision.extension`` has loaded torchvision's operators, if it could."""
    if not extension._has_ops() or _libraries:
        return
    library, wide = torch.library.Library("torchvision", "IMPL"), torch.library.Library("torchvision_float64", "DEF")
    for kernel in (nms, roi_align, _roi_align_backward, deform_conv2d, _deform_conv2d_backward):
        library.impl(kernel.__name__, kernel, "PrivateUse1")
    for kernel in (roi_align, _roi_align_backward, deform_conv2d, _deform_conv2d_backward):
        theirs = getattr(torch.ops.torchvision, kernel.__name__)
        # Without a kernel for the NPU: torch_npu takes it to the CPU, warned of, counted or forbidden as every one that it lacks.
        wide.define(str(theirs.default._schema).partition("::")[2])
        wide.impl(kernel.__name__, theirs, "CPU")
    for name in ("roi_align", "deform_conv2d"):
        library.impl(name, _in_float32(getattr(torch.ops.torchvision, name)), "AutocastPrivateUse1")
    _libraries.extend((library, wide))
