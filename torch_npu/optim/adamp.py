"""AdamP (Heo et al., 2020): Adam that does not let scale-invariant weights grow."""

import math
from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedAdamP"]


def _tangent(param: Tensor, step: int, eps: float) -> Any:
    """``step`` without its part along ``param``; over the last dimension."""
    unit = param / (torch.linalg.vector_norm(param, dim=-1, keepdim=True) + eps)
    return step - unit * (unit * step).sum(-1, keepdim=True)


def _largest_cosine(grad: Tensor, param: Tensor, eps: float) -> Any:
    """|cosine| of the angle between gradient and parameter, the largest of each parameter's rows."""
    norms = torch.linalg.vector_norm(grad, dim=-1).clamp_(min=eps) * torch.linalg.vector_norm(param, dim=-1).clamp_(min=eps)
    return ((grad * param).sum(-1).abs_() / norms).amax(1)


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """Adam whose step loses its part along the weights where those look scale-invariant.

    That is where gradient and weights are nearly orthogonal (by ``delta``), for all rows of the first dimension, or else
    for the parameter as a whole; weight decay is multiplied by ``wd_ratio`` there. Parameters of one dimension take
    Adam's step.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, delta: float = 0.1, wd_ratio: float = 0.1, nesterov: bool = False) -> None:
        check(lr >= 0, "lr", lr)
        check(eps >= 0, "eps", eps)
        check(0 <= betas[0] < 1 and 0 <= betas[1] < 1, "betas", betas)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "delta": delta,
                                  "wd_ratio": wd_ratio, "nesterov": nesterov})

    def _state_names(self, group: Any) -> Dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _update(self, group: Any, run: Any) -> None:
        beta1, beta2 = group["betas"]
        exp_avg = run.state["exp_avg"].mul_(beta1).add_(run.grad, alpha=1 - beta1)
        exp_avg_sq = run.state["exp_avg_sq"].mul_(beta2).addcmul_(run.grad, run.grad, value=1 - beta2)
        root = exp_avg_sq.sqrt().div_(math.sqrt(1 - beta2**run.step)).add_(group["eps"])
        if group["nesterov"]:
            step = (beta1 * exp_avg).add_(run.grad, alpha=1 - beta1).div_(root)
        else:
            step = exp_avg / root
        for block in run.blocks():
            self._update_block(group, run, block, step)
        run.param.add_(step, alpha=-group["lr"] / (1 - beta1**run.step))

    def _update_block(self, group: Any, run: Any, block: Any, step: int) -> None:
        """Projects the block's part of ``step`` and decays its weights."""
        decay = group["lr"] * group["weight_decay"]
        if len(block.shape) < 2:
            if decay:
                block.rows(run.param).mul_(1 - decay)
            return
        eps, delta = group["eps"], group["delta"]
        of_channels = tuple(block.channels(flat) for flat in (run.grad, run.param, step))
        of_layer = tuple(block.rows(flat).unsqueeze(1) for flat in (run.grad, run.param, step))
        by_channel, by_layer = (
            (_largest_cosine(grad, param, eps) < delta / math.sqrt(param.size(-1))).view(-1, 1, 1)
            for grad, param, _ in (of_channels, of_layer))
        channels, rows = of_channels[2], of_layer[2]
        whole = _tangent(of_layer[1], rows, eps).view_as(channels)
        projected = torch.where(by_channel, _tangent(of_channels[1], channels, eps), torch.where(by_layer, whole, channels))
        channels.copy_(projected)
        if decay:
            ratio = torch.where(by_channel | by_layer, group["wd_ratio"], 1.0)
            of_channels[1].mul_(1 - decay * ratio)
