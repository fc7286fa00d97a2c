"""The range of a feature map that int8 represents best."""

from typing import Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def _percentile(cumsum: Tensor, share: float) -> Tensor:
    """The first bin at which ``share`` of the elements has been counted."""
    return (cumsum < share * cumsum[-1]).sum()


def npu_ifmr(
    data: Tensor,
    data_min: Tensor,
    data_max: Tensor,
    cumsum: Tensor,
    min_percentile: float,
    max_percentile: float,
    search_start: float,
    search_end: float,
    search_step: float,
    with_offset: bool,
) -> Tuple[Tensor, Tensor]:
    """The scale and offset with which int8 represents ``data`` best, ``x = (round(x / scale) + offset - offset) * scale``.

    ``data_min``, ``data_max``: its least and greatest value, [] or [1]; ``cumsum``: int32 [bins], running sums of its
    histogram between them. The search begins with the range that holds ``min_percentile`` of the elements above its lower end
    and ``max_percentile`` below its upper end, and tries that times ``search_start``, ``search_start + search_step``, ... up to
    ``search_end``; the range with the least sum of squared errors counts. ``with_offset``: the range may lie anywhere, with an
    offset from -128 on; else it lies symmetrically around 0. Returns float32 (scale, offset, 0 without one)
    of ``data_min``'s shape.
    """
    shape = data_min.shape
    data, low, high = wide(data).reshape(-1), wide(data_min).reshape(()), wide(data_max).reshape(())
    counts, bins = wide(cumsum).reshape(-1), cumsum.numel()
    width = (high - low) / bins
    upper = low + (_percentile(counts, max_percentile) + 1) * width
    lower = low + _percentile(counts, 1 - min_percentile) * width
    steps = int((search_end - search_start) / search_step + 1e-6) + 1
    factors = search_start + search_step * torch.arange(steps, dtype=torch.float32, device=data.device)
    if with_offset:
        tops, bottoms = torch.clamp(upper * factors, min=0.0), torch.clamp(lower * factors, max=0.0)
        scales = ((tops - bottoms) / 255).clamp(min=1e-12)
        offsets = -torch.round(bottoms / scales) - 128
    else:
        scales = (torch.maximum(upper.abs(), lower.abs()) * factors / 127).clamp(min=1e-12)
        offsets = torch.zeros_like(scales)
    errors = []
    for scale, offset in zip(scales.unbind(), offsets.unbind()):
        stored = (torch.round(data / scale) + offset).clamp(-128, 127)
        errors.append(((stored - offset) * scale - data).square().sum())
    best = torch.stack(errors).argmin().reshape(1)
    return scales.gather(0, best).reshape(shape), offsets.gather(0, best).reshape(shape)
