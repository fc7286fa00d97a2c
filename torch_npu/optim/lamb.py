"""LAMB (You et al., 2019)."""

from typing import Any, Dict, Tuple

import torch

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedLamb"]

_LARGEST_WEIGHT_NORM = 10.0


class NpuFusedLamb(NpuFusedOptimizerBase):
    """Adam's step without bias correction, scaled for each parameter by |parameter| / |step|.

    The parameter's norm counts as at most 10; where either norm is 0 the step is not scaled. ``adam=True`` never scales.
    ``use_global_grad_norm``: gradients are first divided by the norm of all of them if that is greater than 1.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0, adam: bool = False, use_global_grad_norm: bool = False) -> None:
        check(lr >= 0, "lr", lr)
        check(eps >= 0, "eps", eps)
        check(0 <= betas[0] < 1 and 0 <= betas[1] < 1, "betas", betas)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam = adam
        self.use_global_grad_norm = use_global_grad_norm

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "adam": self.adam, "use_global_grad_norm": self.use_global_grad_norm}

    def _state_names(self, group: Any) -> Dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _prepare(self, runs: Any) -> None:
        if not self.use_global_grad_norm or not runs:
            return
        device = runs[0][1].grad.device
        norms = [torch.linalg.vector_norm(run.grad, dtype=torch.float32).to(device) for _, run in runs]
        divisor = torch.linalg.vector_norm(torch.stack(norms)).clamp_(min=1.0)
        for _, run in runs:
            run.grad.div_(divisor.to(run.grad.device))

    def _update(self, group: Any, run: Any) -> None:
        beta1, beta2 = group["betas"]
        exp_avg = run.state["exp_avg"].mul_(beta1).add_(run.grad, alpha=1 - beta1)
        exp_avg_sq = run.state["exp_avg_sq"].mul_(beta2).addcmul_(run.grad, run.grad, value=1 - beta2)
        step = exp_avg / exp_avg_sq.sqrt().add_(group["eps"])
        if group["weight_decay"]:
            step.add_(run.param, alpha=group["weight_decay"])
        if not self.adam:
            for block in run.blocks():
                rows = block.rows(step)
                weight = torch.linalg.vector_norm(block.rows(run.param), dim=1).clamp_(0, _LARGEST_WEIGHT_NORM)
                length = torch.linalg.vector_norm(rows, dim=1)
                ratio = torch.where((weight == 0) | (length == 0), torch.ones_like(weight), weight / length)
                rows.mul_(ratio.unsqueeze(1))
        run.param.add_(step, alpha=-group["lr"])
