"""Normalization in parts: batch statistics of several ranks, sequences of several lengths."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def batch_norm_reduce(input: Tensor, eps: float) -> Tuple[Tensor, Tensor]:
    """(sums, sums of squares) of each channel of ``input`` [N, C, ...], float32 [C]. ``eps`` has no meaning."""
    dims = [d for d in range(input.dim()) if d != 1]
    return wide(input).sum(dims), wide(input).square().sum(dims)


def batch_norm_gather_stats_update(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    momentum: float,
    eps: float,
    counts: Tensor,
) -> Tuple[Tensor, Tensor]:
    """Statistics of the batch that all ranks have together, float32 [C]: (means, 1 / standard deviations).

    ``mean`` and ``invstd``: in spite of their names the results of :func:`batch_norm_reduce` of all ranks, [ranks, C] each;
    ``counts``: elements of a channel on each rank, [ranks]. ``running_mean`` and ``running_var`` [C] (each may be None) move by
    ``momentum``, in place.
    """
    count = wide(counts).sum()
    average = wide(mean).sum(0) / count
    variance = (wide(invstd).sum(0) / count - average.square()).clamp(min=0)
    for running, value in ((running_mean, average), (running_var, variance * count / (count - 1))):
        if running is not None:
            running.copy_(((1 - momentum) * running + momentum * value).to(running.dtype))
    return average, (variance + eps).rsqrt()


def npu_normalize_batch(input: Tensor, seq_len: Tensor, normalize_type: int = 0) -> Tensor:
    """``input`` [batch, features, steps] less the mean, over the standard deviation plus 1e-5, of the first ``seq_len`` [batch]
    steps.

    ``normalize_type``: 0 for each feature, 1 for all features of a sequence together. ``input`` is floating point, as the
    result; ``seq_len`` int32.
    """
    if normalize_type not in (0, 1):
        raise ValueError(f"npu_normalize_batch: normalize_type is 0 or 1, not {normalize_type}")
    value = wide(input)
    within = (torch.arange(input.shape[2], device=input.device) < seq_len.reshape(-1, 1, 1)).to(value.dtype)
    dims = (2,) if normalize_type == 0 else (1, 2)
    count = within.sum(dims, keepdim=True) * (1 if normalize_type == 0 else input.shape[1])
    mean = (value * within).sum(dims, keepdim=True) / count
    variance = ((value - mean).square() * within).sum(dims, keepdim=True) / (count - 1)
    return ((value - mean) / (variance.sqrt() + 1e-5)).to(input.dtype)
