"""Adadelta (Zeiler, 2012)."""

from typing import Any, Dict

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedAdadelta"]


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """``torch.optim.Adadelta`` on flat tensors."""

    def __init__(self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0) -> None:
        check(lr >= 0, "lr", lr)
        check(0 <= rho <= 1, "rho", rho)
        check(eps >= 0, "eps", eps)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _state_names(self, group: Any) -> Dict[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def _update(self, group: Any, run: Any) -> None:
        grad, rho, eps = run.grad, group["rho"], group["eps"]
        square_avg, acc_delta = run.state["square_avg"], run.state["acc_delta"]
        if group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = acc_delta.add(eps).sqrt_().div_(square_avg.add(eps).sqrt_()).mul_(grad)
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        run.param.add_(delta, alpha=-group["lr"])
