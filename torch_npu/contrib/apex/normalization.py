"""Normalizations under Apex's names: torch's own are single operators on the NPU."""

from typing import Any

import torch

__all__ = ["FusedLayerNorm", "FusedRMSNorm"]


class FusedLayerNorm(torch.nn.LayerNorm):
    """``torch.nn.LayerNorm`` with Apex's arguments; ``memory_efficient`` changes nothing."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
                 memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)


class FusedRMSNorm(torch.nn.RMSNorm):
    """``torch.nn.RMSNorm`` with Apex's arguments and default of ``eps``; ``memory_efficient`` changes nothing."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
                 memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
