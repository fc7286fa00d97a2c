"""Calls a kernel by its name: an ATen overload, or one of softcann's own, which are here."""

import functools

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


FUNCTIONS = {
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
