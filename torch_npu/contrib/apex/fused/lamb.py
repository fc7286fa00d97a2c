"""LAMB as Apex defines it."""

from typing import Any, List, Tuple

import torch

from torch_npu.contrib.apex._lists import norm_of_all, norms
from torch_npu.contrib.apex.fused._foreach import Batch, ForeachOptimizer
from torch_npu.optim._base import check

__all__ = ["FusedLAMB"]


class FusedLAMB(ForeachOptimizer):
    """Adam's step, scaled for each parameter by |parameter| / |step| (You et al., 2019), on clipped gradients.

    With n the norm of all gradients of all groups together and c = max(1, n / max_grad_norm):

        g = gradient / c                      (+ weight_decay * p with ``adam_w_mode=False``)
        m = beta1 * m + (1 - beta1) * g       (+ g alone with ``grad_averaging=False``)
        v = beta2 * v + (1 - beta2) * g^2
        u = m' / (sqrt(v') + eps)             (+ weight_decay * p with ``adam_w_mode=True``)
        p = p - lr * |p| / |u| * u            (without |p| / |u| where one of them is 0)

    where m' = m / (1 - beta1^step) and v' = v / (1 - beta2^step), or m and v with ``bias_correction=False``. Groups without
    weight decay are not scaled by |p| / |u|, unless ``use_nvlamb``. ``max_grad_norm`` of None or up to 0 does not clip.
    ``amsgrad`` is a NotImplementedError. torch_npu.optim.NpuFusedLamb has another rule: see there.
    """

    _kept = ("adam_w_mode", "use_nvlamb")

    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.01, amsgrad: bool = False, adam_w_mode: bool = True,
                 grad_averaging: bool = True, set_grad_none: bool = True, max_grad_norm: Any = 1.0,
                 use_nvlamb: bool = False) -> None:
        if amsgrad:
            raise NotImplementedError("FusedLAMB has no amsgrad")
        check(eps >= 0, "eps", eps)
        check(0 <= betas[0] < 1 and 0 <= betas[1] < 1, "betas", betas)
        self.adam_w_mode, self.use_nvlamb = bool(adam_w_mode), use_nvlamb
        super().__init__(params, {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "grad_averaging": grad_averaging,
                                  "max_grad_norm": max_grad_norm}, set_grad_none)

    def _prepare(self, batches: List[Tuple[Any, Batch]]) -> Any:
        """What gradients are divided by, a tensor of no dimensions, or None."""
        limit = self.defaults["max_grad_norm"]
        if not batches or limit is None or limit <= 0:
            return None
        total = norm_of_all([batch.grads for _, batch in batches])
        return torch.where(total > limit, total / limit, torch.ones_like(total))

    def _update(self, group: Any, batch: Batch, shared: Any) -> None:
        (beta1, beta2), step, decay = group["betas"], group["step"], group["weight_decay"]
        grads = batch.fresh_grads()
        if shared is not None:
            torch._foreach_div_(grads, shared.to(grads[0]))
        if decay and not self.adam_w_mode:
            torch._foreach_add_(grads, batch.weights, alpha=decay)
        exp_avg, exp_avg_sq = batch.state("exp_avg"), batch.state("exp_avg_sq")
        torch._foreach_mul_(exp_avg, beta1)
        torch._foreach_add_(exp_avg, grads, alpha=1 - beta1 if group["grad_averaging"] else 1)
        torch._foreach_mul_(exp_avg_sq, beta2)
        torch._foreach_addcmul_(exp_avg_sq, grads, grads, 1 - beta2)
        corrections = (1 - beta1**step, 1 - beta2**step) if group["bias_correction"] else (1.0, 1.0)
        denominators = torch._foreach_sqrt(torch._foreach_div(exp_avg_sq, corrections[1]))
        torch._foreach_add_(denominators, group["eps"])
        updates = torch._foreach_div(torch._foreach_div(exp_avg, corrections[0]), denominators)
        if decay and self.adam_w_mode:
            torch._foreach_add_(updates, batch.weights, alpha=decay)
        if decay or self.use_nvlamb:
            lengths, steps = norms(batch.weights), norms(list(updates))
            ratios = torch.where((lengths != 0) & (steps != 0), lengths / steps, torch.ones_like(lengths))
            torch._foreach_mul_(updates, list(ratios.unbind()))
        torch._foreach_mul_(updates, group["lr"])
        torch._foreach_sub_(batch.weights, updates)
