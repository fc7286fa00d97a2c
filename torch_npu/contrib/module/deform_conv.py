"""Deformable convolution, second version: each tap of the kernel looks at a place of its own, with a weight of its own."""

import math
from typing import Any, Dict, Optional, Tuple, Union

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.utils import _pair

__all__ = ["DCNv2", "ModulatedDeformConv", "modulated_deform_conv"]

_Pair = Union[int, Tuple[int, int]]


def modulated_deform_conv(x: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, weight: torch.Tensor,
                          bias: Optional[torch.Tensor], stride: _Pair, padding: _Pair, dilation: _Pair, groups: int,
                          deformable_groups: int) -> torch.Tensor:
    """Convolution of ``x`` [N, C, H, W] with ``weight`` [O, C / groups, kh, kw] at places moved by ``offset``.

    ``offset`` [N, deformable_groups * taps * 2, OH, OW]: (down, right) of each tap, in pixels; ``mask`` [N, deformable_groups *
    taps, OH, OW]: its factor. Between pixels the four around are interpolated; outside of the image they are zero.
    """
    batch, channels, height, width = x.shape
    kernel = weight.shape[2:]
    (stride_y, stride_x), (pad_y, pad_x), (step_y, step_x) = _pair(stride), _pair(padding), _pair(dilation)
    out_height, out_width = offset.shape[2:]
    taps = kernel[0] * kernel[1]
    float_options: Dict[str, Any] = {"device": x.device, "dtype": offset.dtype}

    rows = torch.arange(out_height, **float_options).view(1, -1, 1) * stride_y - pad_y
    columns = torch.arange(out_width, **float_options).view(1, 1, -1) * stride_x - pad_x
    tap_rows = (torch.arange(kernel[0], **float_options) * step_y).repeat_interleave(kernel[1]).view(-1, 1, 1)
    tap_columns = (torch.arange(kernel[1], **float_options) * step_x).repeat(kernel[0]).view(-1, 1, 1)

    moved = offset.view(batch * deformable_groups, taps, 2, out_height, out_width)
    y = moved[:, :, 0] + rows + tap_rows
    x_place = moved[:, :, 1] + columns + tap_columns
    places = torch.stack([(2 * x_place + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    images = x.reshape(batch * deformable_groups, channels // deformable_groups, height, width)
    sampled = functional.grid_sample(images, places.view(batch * deformable_groups, taps * out_height, out_width, 2).to(x.dtype),
                                     mode="bilinear", padding_mode="zeros", align_corners=False)
    sampled = sampled.view(batch * deformable_groups, -1, taps, out_height, out_width)
    sampled = sampled * mask.view(batch * deformable_groups, 1, taps, out_height, out_width)

    patches = sampled.reshape(batch, groups, channels // groups * taps, out_height * out_width)
    kernels = weight.reshape(1, groups, weight.shape[0] // groups, -1)
    out = torch.matmul(kernels, patches).view(batch, weight.shape[0], out_height, out_width)
    return out if bias is None else out + bias.view(1, -1, 1, 1)


class ModulatedDeformConv(nn.Module):
    """A deformable convolution (DCNv2). With ``pack`` it has a convolution that gives offsets and masks, which begins with
    zeros: offsets of 0 and factors of 0.5. Without, ``forward`` takes ``(x, offset, mask)``.

    Shapes as of :func:`modulated_deform_conv`.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _Pair, stride: int = 1, padding: int = 0,
                 dilation: int = 1, groups: int = 1, deformable_groups: int = 1, bias: bool = True, pack: bool = True) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.deformable_groups = deformable_groups
        self.with_bias = bias
        self.pack = pack
        taps = self.kernel_size[0] * self.kernel_size[1]
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        if pack:
            self.conv_offset = nn.Conv2d(in_channels, deformable_groups * 3 * taps, self.kernel_size, stride, padding)
        self.init_param()

    def init_param(self) -> None:
        """Gives the parameters their first values."""
        bound = 1.0 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.pack:
            for parameter in self.conv_offset.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: torch.Tensor, offset: Optional[torch.Tensor] = None,
                mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        if self.pack:
            rows, columns, mask = self.conv_offset(x).chunk(3, 1)
            offset, mask = torch.cat([rows, columns], 1), mask.sigmoid()
        elif offset is None or mask is None:
            raise ValueError("a deformable convolution with pack=False needs offset and mask: forward(x, offset, mask)")
        return modulated_deform_conv(x, offset, mask, self.weight, self.bias, self.stride, self.padding, self.dilation,
                                     self.groups, self.deformable_groups)


DCNv2 = ModulatedDeformConv
