"""Pooling of regions of interest."""

from typing import Tuple, Union

import torch
from torch import nn

__all__ = ["PSROIPool", "ROIAlign"]


class ROIAlign(nn.Module):
    """Regions [K, 5] (image, x1, y1, x2, y2) of [N, C, H, W] as [K, C, *output_size], by ``torch_npu.npu_roi_align``.

    ``sampling_ratio``: samples of a bin in each direction, 0 as many as it has pixels. ``aligned``: pixels' centres, not corners,
    are at whole numbers. Computed in float32. ValueError for regions of another shape.
    """

    def __init__(self, output_size: Union[int, Tuple[int, int]], spatial_scale: float, sampling_ratio: int,
                 aligned: bool = True) -> None:
        super().__init__()
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input_tensor: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        import torch_npu

        if rois.dim() != 2 or rois.shape[1] != 5:
            raise ValueError(f"expected regions [K, 5], but got {tuple(rois.shape)}")
        height, width = self.output_size
        return torch_npu.npu_roi_align(input_tensor.float(), rois, self.spatial_scale, height, width, self.sampling_ratio,
                                       3 if self.aligned else 0)

    def extra_repr(self) -> str:
        return (f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
                f"aligned={self.aligned}")


class PSROIPool(nn.Module):
    """Position-sensitive pooling by ``torch_npu.npu_ps_roi_pooling``: features [N, group_size**2 * output_dim, H, W] and regions
    [N, 5, K] give [N * K, output_dim, group_size, group_size]."""

    def __init__(self, pooled_height: int = 7, pooled_width: int = 7, spatial_scale: float = 0.0625, group_size: int = 7,
                 output_dim: int = 22) -> None:
        super().__init__()
        if pooled_height != group_size or pooled_width != group_size:
            raise ValueError(f"pooled_height {pooled_height} and pooled_width {pooled_width}: both are group_size, {group_size}")
        self.group_size = group_size
        self.spatial_scale = spatial_scale
        self.output_dim = output_dim

    def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        import torch_npu

        return torch_npu.npu_ps_roi_pooling(features, rois, self.spatial_scale, self.group_size, self.output_dim)

    def extra_repr(self) -> str:
        return f"group_size={self.group_size}, spatial_scale={self.spatial_scale}, output_dim={self.output_dim}"
