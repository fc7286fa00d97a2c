"""Adagrad as Apex defines it."""

from typing import Any

import torch

from torch_npu.contrib.apex.fused._foreach import Batch, ForeachOptimizer
from torch_npu.optim._base import check

__all__ = ["FusedAdagrad"]


class FusedAdagrad(ForeachOptimizer):
    """``torch.optim.Adagrad`` without a decay of the learning rate.

        g = gradient + weight_decay * p           (the gradient alone with ``adagrad_w_mode``)
        h = h + g^2
        p = p - lr * g / (sqrt(h) + eps)          (- lr * weight_decay * p with ``adagrad_w_mode``)
    """

    _kept = ("adagrad_w_mode",)

    def __init__(self, params: Any, lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0, set_grad_none: bool = True,
                 adagrad_w_mode: bool = False) -> None:
        check(eps >= 0, "eps", eps)
        self.adagrad_w_mode = bool(adagrad_w_mode)
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay}, set_grad_none)

    def _update(self, group: Any, batch: Batch, shared: Any) -> None:
        grads, sums, decay = batch.fresh_grads(), batch.state("sum"), group["weight_decay"]
        if decay and not self.adagrad_w_mode:
            torch._foreach_add_(grads, batch.weights, alpha=decay)
        torch._foreach_addcmul_(sums, grads, grads, 1)
        denominators = torch._foreach_sqrt(sums)
        torch._foreach_add_(denominators, group["eps"])
        torch._foreach_div_(grads, denominators)
        if decay and self.adagrad_w_mode:
            torch._foreach_add_(grads, batch.weights, alpha=decay)
        torch._foreach_mul_(grads, group["lr"])
        torch._foreach_sub_(batch.weights, grads)
