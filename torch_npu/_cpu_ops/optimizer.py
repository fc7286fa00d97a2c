"""Steps of optimizers that take the moments of their tensors and the powers of beta from the caller; signs of gradients,
packed."""

from typing import Any, Callable, NoReturn, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor


def _advance(moment: Any, decay: Any, value: Tensor) -> None:
    moment.mul_(decay).add_(value.to(moment.dtype), alpha=1 - decay)


def _written(name: str, out: Any) -> Any:
    if len(out) != 3:
        raise TypeError(f"{name}: out is (var, m, v), but got {len(out)} tensors")
    return out


def _without_out(name: str) -> Callable[..., NoReturn]:
    def overload(*_: Any) -> NoReturn:
        """Raises TypeError: a step changes tensors, so ``out=(var, m, v)`` must be given.

        They have the shape and the floating point dtype of ``grad``.
        """
        raise TypeError(f"{name}: give out=(var, m, v), the parameter and its moments, which the step changes")

    return overload


npu_apply_adam = _without_out("npu_apply_adam")
npu_apply_adam_w = _without_out("npu_apply_adam_w")
npu_bert_apply_adam = _without_out("npu_bert_apply_adam")


def npu_apply_adam_out(beta1_power: float, beta2_power: float, lr: float, beta1: float, beta2: float, epsilon: float,
                       grad: Tensor, use_locking: Optional[bool], use_nesterov: Optional[bool], *,
                       out: Sequence[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """A step of Adam, in place, called with ``out=(var, m, v)``: the parameter and its two moments, of ``grad``'s shape.

    ``beta1_power`` and ``beta2_power``: beta1 and beta2 to the power of the number of the step, from 1. With
    ``use_nesterov`` the first moment is looked ahead by one step. ``use_locking`` changes nothing. Returns (var, m, v).
    Source: D. Kingma and J. Ba, Adam: A Method for Stochastic Optimization, 2014, in the form at the end of section 2.
    """
    var, m, v = _written("npu_apply_adam", out)
    _advance(m, beta1, grad)
    _advance(v, beta2, grad * grad)
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    first = m * beta1 + grad * (1 - beta1) if use_nesterov else m
    var.sub_(rate * first / (v.sqrt() + epsilon))
    return var, m, v


def npu_apply_adam_w_out(beta1_power: float, beta2_power: float, lr: float, weight_decay: float, beta1: float, beta2: float,
                         epsilon: float, grad: Tensor, max_grad_norm: Optional[Tensor], amsgrad: Optional[bool],
                         maximize: Optional[bool], *, out: Sequence[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """A step of AdamW, in place, called with ``out=(var, m, v)``: the parameter and its two moments, of ``grad``'s shape.

    ``beta1_power`` and ``beta2_power``: beta1 and beta2 to the power of the number of steps made before, so that the first step
    takes 1 (npu_apply_adam counts this step too). With ``amsgrad``, ``max_grad_norm`` holds the greatest second
    moment so far and is brought up to date; with ``maximize`` the step goes up the gradient. Returns (var, m, v).
    Errors: ``amsgrad`` without ``max_grad_norm``.
    Source: I. Loshchilov and F. Hutter, Decoupled Weight Decay Regularization, 2017; as torch.optim.AdamW.
    """
    var, m, v = _written("npu_apply_adam_w", out)
    if amsgrad and max_grad_norm is None:
        raise RuntimeError("npu_apply_adam_w: amsgrad needs max_grad_norm, the greatest second moment so far")
    gradient = -grad if maximize else grad
    var.mul_(1 - lr * weight_decay)
    _advance(m, beta1, gradient)
    _advance(v, beta2, gradient * gradient)
    second = v
    if amsgrad and max_grad_norm is not None:
        second = max_grad_norm.copy_(torch.maximum(max_grad_norm, v))
    var.sub_(lr / (1 - beta1_power * beta1) * m / ((second / (1 - beta2_power * beta2)).sqrt() + epsilon))
    return var, m, v


def npu_bert_apply_adam_out(lr: float, beta1: float, beta2: float, epsilon: float, grad: Tensor, max_grad_norm: float,
                            global_grad_norm: float, weight_decay: float, step_size: Optional[float] = None, adam_mode: int = 0,
                            *, out: Sequence[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """A step of the Adam that BERT was trained with, in place, called with ``out=(var, m, v)``, of ``grad``'s shape.

    ``adam_mode`` 0: the gradient is divided by ``global_grad_norm / max_grad_norm`` where that is above 1 (a ``max_grad_norm``
    of 0 or less does not clip), then ``var -= lr * (m / (sqrt(v) + epsilon) + weight_decay * var)``, without bias correction.
    1: ``var -= step_size * m / (sqrt(v) + epsilon)``, then ``var -= lr * weight_decay * var``; the gradient is not clipped.
    Returns (var, m, v). Raises ValueError for another mode, and for mode 1 without ``step_size``.
    """
    var, m, v = _written("npu_bert_apply_adam", out)
    if adam_mode not in (0, 1) or (adam_mode == 1 and step_size is None):
        raise ValueError(f"npu_bert_apply_adam: adam_mode {adam_mode} is not 0, or 1 with step_size")
    if adam_mode == 0 and max_grad_norm > 0 and global_grad_norm > max_grad_norm:
        grad = grad * (max_grad_norm / global_grad_norm)
    _advance(m, beta1, grad)
    _advance(v, beta2, grad * grad)
    direction = m / (v.sqrt() + epsilon)
    if adam_mode == 0:
        var.sub_(lr * (direction + weight_decay * var))
    else:
        var.sub_(step_size * direction)
        var.mul_(1 - lr * weight_decay)
    return var, m, v


def npu_sign_bits_pack(self: Tensor, size: int) -> Tensor:
    """The signs of self, [n], as uint8 [size, bytes]: a bit for each element, the lowest first, 1 where it is not negative. The
    last byte is filled with zeros. Raises ValueError unless the bytes make ``size`` rows."""
    if self.dim() != 1:
        raise ValueError(f"npu_sign_bits_pack: the input has one dimension, not {self.dim()}")
    count = (self.numel() + 7) // 8
    if size <= 0 or count % size:
        raise ValueError(f"npu_sign_bits_pack: {count} bytes do not make {size} rows")
    bits = F.pad((self >= 0).to(torch.uint8), (0, 8 * count - self.numel())).view(size, -1, 8)
    return (bits.int() << torch.arange(8, dtype=torch.int32, device=self.device)).sum(-1).to(torch.uint8)


def npu_sign_bits_unpack(input: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """The way back from :func:`npu_sign_bits_pack`: uint8 [n] as [size, 8 n / size] of 1 and -1 in ``dtype``."""
    if input.dim() != 1 or size <= 0 or 8 * input.numel() % size:
        raise ValueError(f"npu_sign_bits_unpack: {list(input.shape)} do not make {size} rows")
    bits = input.int().unsqueeze(-1) >> torch.arange(8, dtype=torch.int32, device=input.device) & 1
    return (2 * bits - 1).to(dtype).reshape(size, -1)
