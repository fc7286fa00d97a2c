"""Batch norms whose counter of batches is int32."""

from typing import Any, Optional

import torch
from torch import nn

__all__ = ["FastBatchNorm1d", "FastBatchNorm2d", "FastBatchNorm3d", "FastSyncBatchNorm"]


def _count_in_int32(module: nn.modules.batchnorm._BatchNorm) -> None:
    if module.num_batches_tracked is not None:
        module.num_batches_tracked = module.num_batches_tracked.to(torch.int32)


class _Fast(nn.modules.batchnorm._BatchNorm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 track_running_stats: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        _count_in_int32(self)

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return super().forward(input1)


class FastBatchNorm1d(_Fast, nn.BatchNorm1d):
    """``nn.BatchNorm1d`` with an int32 ``num_batches_tracked``."""


class FastBatchNorm2d(_Fast, nn.BatchNorm2d):
    """``nn.BatchNorm2d`` with an int32 ``num_batches_tracked``."""


class FastBatchNorm3d(_Fast, nn.BatchNorm3d):
    """``nn.BatchNorm3d`` with an int32 ``num_batches_tracked``."""


class FastSyncBatchNorm(nn.SyncBatchNorm):
    """``nn.SyncBatchNorm`` with an int32 ``num_batches_tracked``."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: Optional[Any] = None, device: Any = None,
                 dtype: Optional[torch.dtype] = None) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, process_group, device, dtype)
        _count_in_int32(self)

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return super().forward(input1)

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module, process_group: Optional[Any] = None) -> nn.Module:
        """The module with each batch norm in it replaced by a FastSyncBatchNorm of the same parameters and buffers."""
        converted = module
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                            process_group)
            if module.affine:
                converted.weight, converted.bias = module.weight, module.bias
            converted.running_mean, converted.running_var = module.running_mean, module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            _count_in_int32(converted)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
