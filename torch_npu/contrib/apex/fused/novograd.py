"""NovoGrad as Apex defines it."""

from typing import Any, List, Tuple

import torch
from torch import Tensor

from torch_npu.contrib.apex._lists import norms
from torch_npu.contrib.apex.fused._foreach import Batch, ForeachOptimizer
from torch_npu.optim._base import check

__all__ = ["FusedNovoGrad"]

_ORDERS = {2: 2.0, 0: float("inf")}


class FusedNovoGrad(ForeachOptimizer):
    """Adam's kin with one second moment for each parameter, the norm of its gradient (Ginsburg et al., 2019).

        n = sqrt(beta2 * n^2 + (1 - beta2) * |g|_2^2)       ``norm_type=2``
        n = beta2 * n + (1 - beta2) * |g|_inf               ``norm_type=0``
        d = n / sqrt(1 - beta2^step) + eps
        m = beta1 * m + (1 - beta1) * g                     (+ g alone with ``grad_averaging=False``)
        p = p - lr * (m / (1 - beta1^step) / d + weight_decay * p)

    n begins with the norm of the first gradient, or with 0 if ``init_zero``. ``reg_inside_moment``: g / d + weight_decay * p
    takes the place of g in m, and p loses lr * m / (1 - beta1^step). ``bias_correction=False``: both divisors with a step are 1.
    Raises ValueError for another norm; ``amsgrad`` is a NotImplementedError.

    State of a parameter: ``exp_avg`` and ``exp_avg_sq``, which is n, in float32 also for half-precision parameters.
    """

    _kept = ("reg_inside_moment",)

    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, reg_inside_moment: bool = False,
                 grad_averaging: bool = True, norm_type: int = 2, init_zero: bool = False, set_grad_none: bool = True) -> None:
        if amsgrad:
            raise NotImplementedError("FusedNovoGrad has no amsgrad")
        check(norm_type in _ORDERS, "norm_type, which is 2, or 0 for the largest number", norm_type)
        check(eps >= 0, "eps", eps)
        check(0 <= betas[0] < 1 and 0 <= betas[1] < 1, "betas", betas)
        self.reg_inside_moment = reg_inside_moment
        super().__init__(params, {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "grad_averaging": grad_averaging, "norm_type": norm_type,
                                  "init_zero": init_zero}, set_grad_none)

    def _second_moments(self, group: Any, batch: Batch) -> Tensor:
        """n of each parameter, in one tensor; they become part of its state."""
        beta2, new = group["betas"][1], norms(batch.grads, _ORDERS[group["norm_type"]]).to(batch.dtype)
        first = torch.zeros_like(new) if group["init_zero"] else new
        old = torch.stack([state.get("exp_avg_sq", start) for state, start in zip(batch.states, first.unbind())])
        if group["norm_type"] == 2:
            blend = (beta2 * old.square() + (1 - beta2) * new.square()).sqrt()
        else:
            blend = beta2 * old + (1 - beta2) * new
        for state, value in zip(batch.states, blend.unbind()):
            state["exp_avg_sq"] = value
        return blend

    def _update(self, group: Any, batch: Batch, shared: Any) -> None:
        (beta1, beta2), step, decay = group["betas"], group["step"], group["weight_decay"]
        corrections = (1 - beta1**step, (1 - beta2**step) ** 0.5) if group["bias_correction"] else (1.0, 1.0)
        divisors = list((self._second_moments(group, batch) / corrections[1] + group["eps"]).unbind())
        exp_avg, grads = batch.state("exp_avg"), batch.fresh_grads()
        if self.reg_inside_moment:
            torch._foreach_div_(grads, divisors)
            torch._foreach_add_(grads, batch.weights, alpha=decay)
        torch._foreach_mul_(exp_avg, beta1)
        torch._foreach_add_(exp_avg, grads, alpha=1 - beta1 if group["grad_averaging"] else 1)
        updates: List[Tensor] = list(torch._foreach_div(exp_avg, corrections[0]))
        if not self.reg_inside_moment:
            torch._foreach_div_(updates, divisors)
            torch._foreach_add_(updates, batch.weights, alpha=decay)
        torch._foreach_mul_(updates, group["lr"])
        torch._foreach_sub_(batch.weights, updates)
