"""Determinism of a part of the backward pass."""

from typing import Any, Tuple

import torch

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """The identity, which sets determinism in the forward pass and, the other way, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, on: bool) -> torch.Tensor:
        ctx.on = on
        torch.use_deterministic_algorithms(on)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[torch.Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.on)
        return grad, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; what follows is deterministic until :func:`disable_deterministic_with_backward`, in the backward pass too."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; what follows may vary again, and in the backward pass what came before is deterministic from here on."""
    return _Switch.apply(tensor, False)
