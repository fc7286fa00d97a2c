"""The optimizer BERT was trained with: Adam without bias correction, with its own schedule."""

import math
from typing import Any, Dict, List, Optional

import torch

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedBertAdam"]


def _cosine(done: Any, warmup: Any) -> Any:
    return done / warmup if done < warmup else 0.5 * (1 + math.cos(math.pi * done))


def _constant(done: Any, warmup: Any) -> Any:
    return done / warmup if done < warmup else 1.0


def _linear(done: Any, warmup: Any) -> Any:
    return done / warmup if done < warmup else max((done - 1) / (warmup - 1), 0.0)


def _poly(done: Any, warmup: Any) -> Any:
    return done / warmup if done < warmup else max(1.0 - done, 0.0) ** 0.5


# By name, functions of the share of steps done and that of the warmup: of the published torch_npu too.
SCHEDULES = {"warmup_cosine": _cosine, "warmup_constant": _constant, "warmup_linear": _linear, "warmup_poly": _poly,
             "none": lambda done, warmup: 1.0, None: lambda done, warmup: 1.0}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam with decoupled weight decay, without bias correction, with a learning rate that follows ``schedule``.

    ``warmup``: share of ``t_total`` steps in which lr rises to its value; -1 for either means none of that.
    ``schedule``: warmup_linear, warmup_cosine, warmup_constant, warmup_poly (the square root of the share that is left) or none.
    ``max_grad_norm``: the gradients of a group that share dtype and device are clipped to it together; -1 does not clip. ``lr``
    has no default.
    """

    def __init__(self, params: Any, lr: Optional[float] = None, warmup: float = -1, t_total: int = -1,
                 schedule: str = "warmup_linear", b1: float = 0.9, b2: float = 0.999, e: float = 1e-6, weight_decay: float = 0.01,
                 max_grad_norm: float = 1.0) -> None:
        if lr is None:
            raise ValueError("NpuFusedBertAdam has no learning rate by default: give lr")
        check(lr >= 0, "lr", lr)
        check(0 <= b1 < 1, "b1", b1)
        check(0 <= b2 < 1, "b2", b2)
        check(e >= 0, "e", e)
        check(0 <= warmup < 1 or warmup == -1, "warmup", warmup)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        check(schedule in SCHEDULES, "schedule", schedule)
        super().__init__(params, {"lr": lr, "warmup": warmup, "t_total": t_total, "schedule": schedule, "b1": b1,
                                  "b2": b2, "e": e, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm})

    def get_lr(self) -> List[Any]:
        """The learning rate of the next step, for each parameter that has made one; [0] before the first."""
        rates = []
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state.get(param)
                if state:
                    rates.append(self._rate(group, state["step"]))
        return rates or [0]

    @staticmethod
    def _rate(group: Any, steps: Any) -> Any:
        if group["t_total"] == -1:
            return group["lr"]
        return group["lr"] * SCHEDULES[group["schedule"]](steps / group["t_total"], group["warmup"])

    def _state_names(self, group: Any) -> Dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _prepare(self, runs: Any) -> None:
        together: Dict[Any, Any] = {}
        for group, run in runs:
            if group["max_grad_norm"] > 0:
                key = id(group), run.grad.dtype, run.grad.device
                together.setdefault(key, (group["max_grad_norm"], []))[1].append(run.grad)
        for most, grads in together.values():
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
            torch._foreach_mul_(grads, (most / (norm + 1e-6)).clamp_(max=1.0))

    def _update(self, group: Any, run: Any) -> None:
        grad = run.grad
        exp_avg = run.state["exp_avg"].mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        exp_avg_sq = run.state["exp_avg_sq"].mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        update = exp_avg / exp_avg_sq.sqrt().add_(group["e"])
        if group["weight_decay"] > 0:
            update.add_(run.param, alpha=group["weight_decay"])
        run.param.add_(update, alpha=-self._rate(group, run.step - 1))
