"""Stochastic gradient descent."""

from typing import Any, Dict, Optional

import torch

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase):
    """``torch.optim.SGD`` on flat tensors: momentum, dampening, weight decay, Nesterov's momentum. ``lr`` has no default."""

    def __init__(self, params: Any, lr: Optional[float] = None, momentum: float = 0, dampening: int = 0, weight_decay: float = 0,
                 nesterov: bool = False) -> None:
        if lr is None:
            raise ValueError("NpuFusedSGD has no learning rate by default: give lr")
        check(lr >= 0, "lr", lr)
        check(momentum >= 0, "momentum", momentum)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening,
                                  "weight_decay": weight_decay, "nesterov": nesterov})

    def _state_names(self, group: Any) -> Dict[str, float]:
        return {"momentum_buffer": 0.0} if group["momentum"] else {}

    def _update(self, group: Any, run: Any) -> None:
        buffers = [run.state["momentum_buffer"]] if run.state else []
        torch._fused_sgd_([run.param], [run.grad], buffers, weight_decay=group["weight_decay"],
                          momentum=group["momentum"], lr=group["lr"], dampening=group["dampening"],
                          nesterov=group["nesterov"], maximize=False, is_first_step=run.step == 1)
