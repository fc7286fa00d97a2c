"""Normalizations under Apex's names: torch's own are single operators on the NPU.

``memory_efficient`` changes nothing, anywhere.
"""

from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "FusedLayerNorm",
    "FusedLayerNormAffineFunction",
    "FusedLayerNormFunction",
    "FusedRMSNorm",
    "FusedRMSNormAffineFunction",
    "FusedRMSNormFunction",
    "MixedFusedLayerNorm",
    "MixedFusedRMSNorm",
    "fused_layer_norm",
    "fused_layer_norm_affine",
    "fused_rms_norm",
    "fused_rms_norm_affine",
    "mixed_dtype_fused_layer_norm_affine",
    "mixed_dtype_fused_rms_norm_affine",
]


def _shape(normalized_shape: Any) -> Any:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


def fused_layer_norm(input: Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over the last dimensions, ``normalized_shape``; shape and type of ``input``."""
    return functional.layer_norm(input, _shape(normalized_shape), None, None, eps)


def fused_layer_norm_affine(input: Tensor, weight: Tensor, bias: Tensor, normalized_shape: Any, eps: float = 1e-6,
                            memory_efficient: bool = False) -> Tensor:
    """:func:`fused_layer_norm` times ``weight`` plus ``bias``, both [*normalized_shape]; type of ``input``."""
    return functional.layer_norm(input, _shape(normalized_shape), weight, bias, eps)


def fused_rms_norm(input: Tensor, normalized_shape: Any, eps: Optional[float] = 1e-6, memory_efficient: bool = False) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimensions, ``normalized_shape``; shape and type of ``input``."""
    return functional.rms_norm(input, _shape(normalized_shape), None, eps)


def fused_rms_norm_affine(input: Tensor, weight: Tensor, normalized_shape: Any, eps: Optional[float] = 1e-6,
                          memory_efficient: bool = False) -> Tensor:
    """:func:`fused_rms_norm` times ``weight`` [*normalized_shape]; type of ``input``."""
    return functional.rms_norm(input, _shape(normalized_shape), weight, eps)


def _wide(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Any:
    dtype = torch.promote_types(input.dtype, weight.dtype)
    return input.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


def mixed_dtype_fused_layer_norm_affine(input: Tensor, weight: Tensor, bias: Tensor, normalized_shape: Any, eps: float = 1e-6,
                                        memory_efficient: bool = False) -> Tensor:
    """:func:`fused_layer_norm_affine` computed in the wider of the types of ``input`` and ``weight``; the result has that of
    ``weight``."""
    wide, scale, shift = _wide(input, weight, bias)
    return functional.layer_norm(wide, _shape(normalized_shape), scale, shift, eps).to(weight.dtype)


def mixed_dtype_fused_rms_norm_affine(input: Tensor, weight: Tensor, normalized_shape: Any, eps: Optional[float] = 1e-6,
                                      memory_efficient: bool = False) -> Tensor:
    """:func:`fused_rms_norm_affine`, with the types of :func:`mixed_dtype_fused_layer_norm_affine`."""
    wide, scale, _ = _wide(input, weight)
    return functional.rms_norm(wide, _shape(normalized_shape), scale, eps).to(weight.dtype)


class FusedLayerNormFunction:
    """``apply`` is :func:`fused_layer_norm`."""

    apply = staticmethod(fused_layer_norm)


class FusedLayerNormAffineFunction:
    """``apply`` is :func:`fused_layer_norm_affine`."""

    apply = staticmethod(fused_layer_norm_affine)


class FusedRMSNormFunction:
    """``apply`` is :func:`fused_rms_norm`."""

    apply = staticmethod(fused_rms_norm)


class FusedRMSNormAffineFunction:
    """``apply`` is :func:`fused_rms_norm_affine`."""

    apply = staticmethod(fused_rms_norm_affine)


class FusedLayerNorm(torch.nn.LayerNorm):
    """``torch.nn.LayerNorm`` with Apex's arguments."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
                 memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)


class FusedRMSNorm(torch.nn.RMSNorm):
    """``torch.nn.RMSNorm`` with Apex's arguments and default of ``eps``."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
                 memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)


def _affine_only(name: str, elementwise_affine: bool) -> None:
    if not elementwise_affine:
        raise ValueError(f"{name} has a weight, whose type its results have: elementwise_affine=False is not there")


class MixedFusedLayerNorm(FusedLayerNorm):
    """A layer norm whose results have the type of its parameters: :func:`mixed_dtype_fused_layer_norm_affine`."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, *, memory_efficient: bool = False,
                 elementwise_affine: bool = True) -> None:
        _affine_only("MixedFusedLayerNorm", elementwise_affine)
        super().__init__(normalized_shape, eps)

    def forward(self, input: Tensor) -> Tensor:
        return mixed_dtype_fused_layer_norm_affine(input, self.weight, self.bias, self.normalized_shape, self.eps)


class MixedFusedRMSNorm(FusedRMSNorm):
    """An RMS norm whose results have the type of its weight: :func:`mixed_dtype_fused_rms_norm_affine`."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, *, memory_efficient: bool = False,
                 elementwise_affine: bool = True) -> None:
        _affine_only("MixedFusedRMSNorm", elementwise_affine)
        super().__init__(normalized_shape, eps)

    def forward(self, input: Tensor) -> Tensor:
        return mixed_dtype_fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps)
