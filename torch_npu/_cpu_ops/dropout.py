"""Dropout, with a bit or a byte for each element as its mask: 1 where the element stays."""

import math
from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def _dropout_with_byte_mask(input: Tensor, p: float) -> Tuple[Tensor, Tensor]:
    """(``input`` with elements set to 0 with probability ``p`` and the others divided by 1 - p, uint8 mask like ``input``)."""
    mask = (torch.rand(input.shape, dtype=torch.float32, device=input.device) >= p).to(torch.uint8)
    return _dropout_with_byte_mask_backward(input, mask, p), mask


def _dropout_with_byte_mask_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """``grad_output`` where ``mask`` is 1, divided by 1 - p, else 0.

    ``grad_output`` has any shape and a floating point dtype, and so has the result; ``mask`` is uint8 of its shape.
    """
    return torch.where(mask.bool(), grad_output / (1 - p) if p < 1 else grad_output, torch.zeros_like(grad_output))


def dropout_with_byte_mask(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout with probability ``p`` if ``train``. Has a gradient. ValueError unless 0 <= p <= 1.

    ``input`` has any shape and a floating point dtype, and so has the result.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout_with_byte_mask: the probability is {p}, but must be between 0 and 1")
    return _dropout_with_byte_mask(input, p)[0] if train and p else input


def _bits(mask: Tensor, numel: Any) -> Tensor:
    return (mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8, device=mask.device) & 1).view(-1)[:numel].bool()


def npu_dropout_gen_mask(size: Sequence[int], p: float, *, dtype: Optional[torch.dtype] = None,
                         layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                         pin_memory: Optional[bool] = None) -> Tensor:
    """A mask for a dropout with probability ``p`` of a tensor of ``size``, as of :func:`_npu_dropout`: uint8, a bit for each
    element, the lowest first, 1 kept, rounded up to 128 bits.

    ``dtype``: the tensor's, which the mask does not depend on; ``device``: where the mask is, the NPU by default.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    count = (math.prod(size) + 127) // 128 * 16
    bits = (torch.rand(count, 8, device=device) >= p).to(torch.uint8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=device)).sum(-1).to(torch.uint8)


def _npu_dropout_gen_mask_Tensor(input: Tensor, size: Sequence[int], p: float, seed: int, offset: int, *,
                                 parallel: Optional[bool] = True, sync: Optional[bool] = None) -> Tensor:
    """:func:`npu_dropout_gen_mask` on ``input``'s device, the same for the same ``seed + offset``. The options change nothing."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    count = (math.prod(size) + 127) // 128 * 16
    if input.device.type == "meta":
        return input.new_empty(count, dtype=torch.uint8)
    generator = torch.Generator(device=input.device).manual_seed(seed + offset)
    bits = (torch.rand(count, 8, generator=generator, device=input.device) >= p).to(torch.uint8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=input.device)).sum(-1).to(torch.uint8)


def _npu_dropout(self: Tensor, p: Any) -> Tuple[Tensor, Tensor]:
    """Dropout with probability ``p``. Returns (result, mask): uint8 with a bit for each element, the lowest first, 1 kept,
    rounded up to 128 bits. Has a gradient."""
    mask = npu_dropout_gen_mask(self.shape, p, device=self.device)
    return npu_dropout_backward(self, mask, p), mask


def npu_dropout_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """``grad_output / (1 - p)`` where the mask of :func:`_npu_dropout` has a 1, else 0."""
    kept = _bits(mask, grad_output.numel()).view(grad_output.shape)
    factor = 0.0 if p == 1 else 1 / (1 - p)
    return torch.where(kept, wide(grad_output) * factor, 0.0).to(grad_output.dtype).contiguous()


def npu_dropout_do_mask(self: Tensor, mask: Tensor, p: float) -> Tuple[Tensor, Tensor]:
    """(self with the mask of :func:`_npu_dropout` applied, the mask). Has a gradient."""
    return npu_dropout_backward(self, mask, p), mask.clone()


def npu_dropout_with_add_softmax(self: Tensor, x1: Tensor, alpha: float, prob: float, dim: int) -> Tuple[Tensor, Tensor, Tensor]:
    """``softmax(x1 + alpha * self)`` over ``dim``, and a dropout of it with probability ``prob``. Has a gradient.

    Returns (the mask as of :func:`_npu_dropout`, the softmax, the result of the dropout).
    """
    softmax = torch.softmax(x1 + alpha * self, dim)
    out, mask = torch.ops.npu._npu_dropout(softmax, prob)
    return mask, softmax, out
