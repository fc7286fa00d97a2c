"""Activations as modules, under the names of the published torch_npu."""

import torch
from torch import nn

__all__ = ["Mish", "SiLU", "Swish"]


class Mish(nn.Module):
    """``x * tanh(softplus(x))``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.mish(x)


class SiLU(nn.Module):
    """``x * sigmoid(x)``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(x)


Swish = SiLU
