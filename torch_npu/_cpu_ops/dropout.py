"""Dropout with a byte for each element as its mask, 1 where the element stays."""

from typing import Tuple

import torch
from torch import Tensor


def _dropout_with_byte_mask(input: Tensor, p: float) -> Tuple[Tensor, Tensor]:
    """(``input`` with elements set to 0 with probability ``p`` and the others divided by 1 - p, uint8 mask like ``input``)."""
    mask = (torch.rand(input.shape, dtype=torch.float32, device=input.device) >= p).to(torch.uint8)
    return _dropout_with_byte_mask_backward(input, mask, p), mask


def _dropout_with_byte_mask_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """``grad_output`` where ``mask`` is 1, divided by 1 - p, else 0."""
    return torch.where(mask.bool(), grad_output / (1 - p) if p < 1 else grad_output, torch.zeros_like(grad_output))


def dropout_with_byte_mask(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout with probability ``p`` if ``train``. Has a gradient. ValueError unless 0 <= p <= 1."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout_with_byte_mask: the probability is {p}, but must be between 0 and 1")
    return _dropout_with_byte_mask(input, p)[0] if train and p else input
