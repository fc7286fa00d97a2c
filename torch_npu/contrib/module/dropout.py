"""Dropout, and paths that are dropped whole.

On the NPU a mask comes from the device's generator when the layer runs, so nothing is left to be drawn ahead: the ``enable_*``
class methods of the published modules only check their argument.
"""

from typing import Any, Dict, Optional

import torch
from torch import nn

__all__ = ["DropoutWithByteMask", "NpuCachedDropout", "NpuDropPath", "NpuFairseqDropout", "NpuPreGenDropout"]


def _check_model(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a module, got {type(model).__name__}")


class NpuCachedDropout(nn.Dropout):
    """``nn.Dropout``; ``module_name`` is kept for the program's own use."""

    task_dict: Dict[str, Any] = {}
    dropout_stream = None

    def __init__(self, p: float, module_name: Optional[str] = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)

    @classmethod
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """For programs that want all masks of a step at once: they come layer by layer, at no loss."""
        _check_model(model)


class NpuPreGenDropout(NpuCachedDropout):
    """As :class:`NpuCachedDropout`."""


NpuFairseqDropout = NpuCachedDropout


class DropoutWithByteMask(nn.Module):
    """``nn.Dropout``, by another route on the NPU once; ``max_seed`` is accepted. ValueError for ``p`` beyond 0 to 1."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 1023) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"DropoutWithByteMask: the probability {p} is not from 0 to 1")
        self.p = p
        self.inplace = inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(input1, self.p, self.training, self.inplace)


class NpuDropPath(nn.Module):
    """In training, each sample of the batch becomes zeros with probability ``drop_prob``; the others are scaled by
    ``1 / (1 - drop_prob)``."""

    task_dict: Dict[str, Any] = {}
    droppath_stream = None

    def __init__(self, drop_prob: Optional[float] = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob or 0.0
        self.keep_prob = 1 - self.drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.drop_prob == 0.0 or not self.training:
            return x
        kept = torch.empty([x.shape[0], *[1] * (x.dim() - 1)], dtype=x.dtype, device=x.device).bernoulli_(self.keep_prob)
        return x * kept / self.keep_prob if self.keep_prob > 0 else x * kept

    @classmethod
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """As :meth:`NpuCachedDropout.enable_dropout_ensemble`."""
        _check_model(model)
