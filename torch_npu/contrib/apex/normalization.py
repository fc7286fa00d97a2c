"""Normalizations under Apex's names: torch's own are single operators on the NPU."""

import torch

__all__ = ["FusedLayerNorm", "FusedRMSNorm"]


class FusedLayerNorm(torch.nn.LayerNorm):
    """``torch.nn.LayerNorm``."""


class FusedRMSNorm(torch.nn.RMSNorm):
    """``torch.nn.RMSNorm``, with Apex's default of ``eps``."""

    def __init__(self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True) -> None:  # type: ignore[no-untyped-def]
        super().__init__(normalized_shape, eps, elementwise_affine)
