"""Calls a kernel by its name: an ATen overload, or one of softcann's own, which are here."""

import functools
import math

import torch

from .tokens import schema_of


def invoke(kernel, args):
    """Results of one kernel for arguments in its schema's order; trailing defaults may be left out."""
    if kernel.startswith("softcann::"):
        return FUNCTIONS[kernel](*args)
    function, names = _aten(kernel)
    positional = len(args) if names is None else min(len(args), names[0])
    return function(*args[:positional], **dict(zip(names[1] if names else (), args[positional:])))


@functools.lru_cache(maxsize=None)
def _aten(kernel):
    """The overload, and where it has keyword-only arguments the index of the first and the names from there on."""
    name, _, overload = kernel[len("aten::") :].partition(".")
    arguments = schema_of(kernel).arguments
    first = next((index for index, argument in enumerate(arguments) if argument.kwarg_only), None)
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    return function, None if first is None else (first, [argument.name for argument in arguments[first:]])


def seq_insert(items, item, position):
    position = len(items) if position is None else position
    if not -len(items) <= position <= len(items):
        raise IndexError(f"position {position} in a sequence of {len(items)}")
    position += len(items) if position < 0 else 0
    return [*items[:position], item, *items[position:]]


def seq_erase(items, position):
    items = list(items)
    del items[-1 if position is None else position]
    return items


def seq_split(tensor, chunk, axis, keepdims):
    size = tensor.shape[axis]
    sizes = chunk if isinstance(chunk, list) else [min(chunk, size - start) for start in range(0, size, chunk)]
    parts = torch.ops.aten.split_with_sizes(tensor, sizes, axis)
    return [part if keepdims else part.squeeze(axis) for part in parts]


def nms(boxes, scores, most, iou_threshold, score_threshold, centre):
    """Non-maximum suppression: int64 [K, 3] of batch, class and box; by class, then by falling score."""
    if centre:
        centre_xy, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = centre_xy - half, centre_xy + half
    else:
        low, high = torch.minimum(boxes[..., :2], boxes[..., 2:]), torch.maximum(boxes[..., :2], boxes[..., 2:])
    areas = (high - low).prod(-1)
    kept = []
    for batch in range(scores.shape[0]):
        for label in range(scores.shape[1]):
            kept += [
                [batch, label, box]
                for box in _nms_of_class(
                    low[batch], high[batch], areas[batch], scores[batch, label], most, iou_threshold, score_threshold
                )
            ]
    return torch.tensor(kept, dtype=torch.int64).reshape(-1, 3)


def _nms_of_class(low, high, areas, scores, most, iou_threshold, score_threshold):
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    kept = []
    for box in order:
        if len(kept) >= most or (score_threshold is not None and not scores[box] > score_threshold):
            break
        if kept:
            shared = (torch.minimum(high[kept], high[box]) - torch.maximum(low[kept], low[box])).clamp(min=0).prod(-1)
            union = areas[kept] + areas[box] - shared
            if (torch.where(union > 0, shared / union, torch.zeros_like(union)) > iou_threshold).any():
                continue
        kept.append(box)
    return kept


def roi_align(x, rois, batch, height, width, scale, ratio, aligned, largest):
    """[K, C, height, width]: bilinear samples of each bin of each box, averaged or their largest weighted corner."""
    bins = [
        _roi(x[int(image)], box, height, width, ratio, aligned, largest)
        for image, box in zip(batch, (rois.double() * scale - (0.5 if aligned else 0.0)).tolist())
    ]
    return torch.stack(bins).to(x.dtype) if bins else x.new_empty((0, x.shape[1], height, width))


def _roi(image, box, height, width, ratio, aligned, largest):
    x1, y1, x2, y2 = box
    tall, wide = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
    rows, columns = (ratio or max(math.ceil(size / count), 1) for size, count in ((tall, height), (wide, width)))
    y = _samples(y1, tall, height * rows, image.shape[1])
    x = _samples(x1, wide, width * columns, image.shape[2])
    corners = [
        image[:, index_y][:, :, index_x] * (weight_y[:, None] * weight_x).to(image.dtype)
        for index_y, weight_y in y
        for index_x, weight_x in x
    ]
    split = [corner.reshape(-1, height, rows, width, columns) for corner in corners]
    return torch.stack(split).amax((0, 3, 5)) if largest else sum(split).mean((2, 4))


def _samples(start, extent, count, size):
    """(index, weight) of the two neighbours of each sample along an axis; weights are 0 outside."""
    points = start + extent * (torch.arange(count, dtype=torch.float64) + 0.5) / count
    inside = ((points >= -1) & (points <= size)).double()
    points = points.clamp(0, size - 1)
    low = points.floor().long()
    part = points - low
    return (low, (1 - part) * inside), ((low + 1).clamp(max=size - 1), part * inside)


FUNCTIONS = {
    "softcann::roi_align": roi_align,
    "softcann::seq_make": lambda items: list(items),
    "softcann::seq_at": lambda items, position: items[position],
    "softcann::seq_insert": seq_insert,
    "softcann::seq_erase": seq_erase,
    "softcann::seq_length": lambda items: torch.tensor(len(items)),
    "softcann::seq_split": seq_split,
    "softcann::nms": nms,
}
LISTS = {"softcann::seq_make", "softcann::seq_insert", "softcann::seq_erase", "softcann::seq_split"}
CONTROL = {"softcann::if", "softcann::loop", "softcann::scan"}
