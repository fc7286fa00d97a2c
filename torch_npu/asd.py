"""Checks for faults of the hardware that no error tells of."""

import logging
import math
from typing import Any, Optional

import torch

__all__ = ["SilentFaultDetector", "matmul_checksum", "register_asd_hook", "set_asd_loss_scale"]

_log = logging.getLogger("torch_npu.asd")
_scale = 1.0


def matmul_checksum(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """A bool of no dimensions, on the tensors' device: True if ``c`` cannot be ``a @ b``.

    The sums of c's rows are compared with ``a @ (sums of b's rows)``, both in float32, within what rounding to c's dtype may
    cause.
    """
    wide = [tensor.detach().float() for tensor in (a, b, c)]
    sums = wide[2].sum(-1)
    expected = torch.matmul(wide[0], wide[1].sum(-1, keepdim=True)).squeeze(-1)
    size = torch.matmul(wide[0].abs(), wide[1].abs().sum(-1, keepdim=True)).squeeze(-1)
    allowed = 8 * torch.finfo(c.dtype).eps * size + torch.finfo(torch.float32).tiny
    return ((sums - expected).abs() > allowed).any() | ~torch.isfinite(sums).all()


class SilentFaultDetector:
    """Tells a value that is far above those before it: the mean and deviation of the last steps, exponentially weighted."""

    def __init__(self, sigmas: float = 100.0, warm_up: int = 100, memory: float = 0.99) -> None:
        self.sigmas, self.warm_up, self.memory = sigmas, warm_up, memory
        self.steps, self.mean, self.square = 0, 0.0, 0.0

    def step(self, value: float) -> bool:
        """Takes the next value; True if it is suspicious (then it is not remembered)."""
        if not math.isfinite(value):
            return True
        deviation = math.sqrt(max(self.square - self.mean * self.mean, 0.0))
        if self.steps >= self.warm_up and value > self.mean + self.sigmas * deviation and value > 2 * self.mean:
            return True
        share = 1 / (self.steps + 1) if self.steps < self.warm_up else 1 - self.memory
        self.mean += share * (value - self.mean)
        self.square += share * (value * value - self.square)
        self.steps += 1
        return False


def set_asd_loss_scale(loss_scale: float = 1.0) -> None:
    """The factor by which the program scales its loss: gradients are divided by it before they are looked at."""
    global _scale
    if loss_scale == 0:
        raise ValueError("a loss scale of 0")
    _scale = float(loss_scale)


def register_asd_hook(x: torch.Tensor, weight: torch.Tensor) -> Optional[Any]:
    """Looks at the norm of x's gradient at each backward pass and logs an error where it leaps or is not finite.

    The detector belongs to ``weight``, so that it knows the layer's earlier steps. Waits for the device. Returns the hook's
    handle; None where x needs no gradient.
    """
    if not x.requires_grad:
        return None
    detector = getattr(weight, "_asd_detector", None)
    if detector is None:
        detector = weight._asd_detector = SilentFaultDetector()

    def look(grad: torch.Tensor) -> None:
        norm = float(torch.linalg.vector_norm(grad.detach().float())) / _scale
        if detector.step(norm):
            _log.error("a gradient's norm is %g after %g on average: the hardware may have failed silently", norm, detector.mean)

    return x.register_hook(look)
