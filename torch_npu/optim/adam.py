"""Adam and AdamW, each step one operator of CANN."""

from typing import Any, Dict, Tuple

import torch

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedAdam", "NpuFusedAdamW"]


class _Adam(NpuFusedOptimizerBase):
    _operator: Any = None

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False) -> None:
        check(lr >= 0, "lr", lr)
        check(eps >= 0, "eps", eps)
        check(0 <= betas[0] < 1 and 0 <= betas[1] < 1, "betas", betas)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "amsgrad": amsgrad})

    def _state_names(self, group: Any) -> Dict[str, float]:
        names = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        if group["amsgrad"]:
            names["max_exp_avg_sq"] = 0.0
        return names

    def _kernel(self) -> Any:
        return type(self)._operator

    def _step_of(self, group: Any, run: Any) -> float:
        """The number of this step that the bias is corrected by."""
        return run.step

    def _update(self, group: Any, run: Any) -> None:
        step = torch.full((), self._step_of(group, run), dtype=torch.float32, device=run.param.device)
        maxima = [run.state["max_exp_avg_sq"]] if group["amsgrad"] else []
        self._kernel()(
            [run.param], [run.grad], [run.state["exp_avg"]], [run.state["exp_avg_sq"]], maxima, [step], lr=group["lr"],
            beta1=group["betas"][0], beta2=group["betas"][1], weight_decay=group["weight_decay"], eps=group["eps"],
            amsgrad=group["amsgrad"], maximize=False)


class NpuFusedAdam(_Adam):
    """``torch.optim.Adam`` on flat tensors; weight decay is added to the gradient."""

    _operator: Any = torch._fused_adam_


class NpuFusedAdamW(_Adam):
    """``torch.optim.AdamW`` on flat tensors; weight decay shrinks the parameters."""

    _operator: Any = torch._fused_adamw_

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
