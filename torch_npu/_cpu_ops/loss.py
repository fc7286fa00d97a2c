"""Losses."""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import wide_gradients


def _z_loss(scores: Tensor, target: Any, reduction: Any, ignore_index: Any, factor: Any) -> Any:
    counted = (target != ignore_index).to(scores.dtype)
    z = factor * torch.logsumexp(scores, 1).square() * counted
    return z.sum() / counted.sum() if reduction == "mean" else z.sum() if reduction == "sum" else z


def npu_cross_entropy_loss(self: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: str = "mean",
                           ignore_index: int = -100, label_smoothing: float = 0.0, lse_square_scale_for_zloss: float = 0.0,
                           return_zloss: bool = False) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropy of scores [N, C] and classes [N], with label smoothing, plus a z-loss where its factor is not 0:
    ``lse_square_scale_for_zloss * logsumexp(scores)**2``.

    Returns (loss, [1] unless ``reduction`` is "none"; log-probabilities [N, C]; z-loss like the loss with ``return_zloss``,
    else empty; logsumexp [N] where the factor is not 0, else empty). Scores are floating point, classes int64.
    """
    shape = target.shape if reduction == "none" else (1,)
    if self.is_meta:
        z, lse = self.new_empty(shape), self.new_empty(target.shape)
        return (self.new_empty(shape), torch.empty_like(self, memory_format=torch.contiguous_format),
                z if return_zloss else self.new_empty(0), lse if lse_square_scale_for_zloss else self.new_empty(0))
    scores = wide(self)
    loss = F.cross_entropy(scores, target.long(), wide(weight), ignore_index=ignore_index, reduction=reduction,
                           label_smoothing=label_smoothing)
    z = _z_loss(scores, target, reduction, ignore_index, lse_square_scale_for_zloss)
    loss = loss + z if lse_square_scale_for_zloss else loss
    return (loss.reshape(shape).to(self.dtype), torch.log_softmax(scores, 1).to(self.dtype),
            z.reshape(shape).to(self.dtype) if return_zloss else self.new_empty(0),
            torch.logsumexp(scores, 1).to(self.dtype) if lse_square_scale_for_zloss else self.new_empty(0))


def npu_cross_entropy_loss_backward(grad_loss: Tensor, log_prob: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                                    grad_zloss: Optional[Tensor] = None, lse_for_zloss: Optional[Tensor] = None,
                                    reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0,
                                    lse_square_scale_for_zloss: float = 0.0) -> Tensor:
    """Gradient of the loss of :func:`npu_cross_entropy_loss` for the scores; a z-loss needs ``lse_for_zloss``.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    constant = None if weight is None else wide(weight.detach())
    scale, scores = lse_square_scale_for_zloss, log_prob    # log-probabilities are scores of the same softmax
    if scale:
        if lse_for_zloss is None or not lse_for_zloss.numel():
            raise ValueError("npu_cross_entropy_loss_backward: the z-loss needs lse_for_zloss")
        scores = wide(log_prob) + wide(lse_for_zloss).unsqueeze(1)

    def forward(scores: Tensor) -> Tensor:
        loss = F.cross_entropy(scores, target.long(), constant, ignore_index=ignore_index, reduction=reduction,
                               label_smoothing=label_smoothing).reshape(grad_loss.shape)
        if not scale:
            return torch.stack([loss])
        z = _z_loss(scores, target, reduction, ignore_index, scale).reshape(grad_loss.shape)
        return torch.stack([loss + z, z])

    of_z = grad_zloss if grad_zloss is not None and grad_zloss.numel() else torch.zeros_like(grad_loss)
    grads = torch.stack([grad_loss, of_z] if scale else [grad_loss])
    return wide_gradients(forward, (scores,), grads)[0].to(log_prob.dtype)
