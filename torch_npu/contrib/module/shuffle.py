"""Channels of images, mixed or gathered."""

from typing import Optional, Tuple, Union

import torch
from torch import nn

from torch_npu.npu._utils import InvalidValueError

__all__ = ["ChannelShuffle", "Focus"]


class ChannelShuffle(nn.Module):
    """``forward(x1, x2)``: two halves of ``in_channels`` channels, joined and interleaved by ``groups``.

    ``split_shuffle``: the result is two tensors, of ``in_channels // groups`` channels and the rest; else one.
    """

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        if in_channels % groups:
            raise InvalidValueError(f"{in_channels} channels do not make {groups} groups")
        self.split_shuffle = split_shuffle
        self.groups = groups
        self.group_len = in_channels // groups
        self.out_channels = torch.arange(in_channels).view(groups, self.group_len).t().reshape(-1)

    def check_self(self, x: torch.Tensor) -> None:
        """Raises ValueError where a tensor does not have half of the channels."""
        if 2 * x.shape[1] != self.out_channels.numel():
            raise ValueError(f"two tensors of {self.out_channels.numel() // 2} channels, but one has {x.shape[1]}")

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
        joined, order = torch.cat([x1, x2], 1), self.out_channels.to(x1.device)
        if not self.split_shuffle:
            return joined.index_select(1, order)
        return joined.index_select(1, order[:self.group_len]), joined.index_select(1, order[self.group_len:])


class _Conv(nn.Module):
    def __init__(self, c1: int, c2: int, k: int, s: int, p: Optional[int], g: int, act: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.LeakyReLU(0.1, inplace=True) if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class Focus(nn.Module):
    """Every second row and column becomes channels ([N, c1, H, W] as [N, 4 * c1, H / 2, W / 2]); then a convolution, batch norm
    and, with ``act``, LeakyReLU(0.1)."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, p: Optional[int] = None, g: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = _Conv(4 * c1, c2, k, s, p, g, act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        corners = [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.conv(torch.cat(corners, 1))
