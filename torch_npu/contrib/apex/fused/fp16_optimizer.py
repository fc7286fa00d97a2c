"""FP16_Optimizer of ``apex.contrib.optimizers``, which ``apex.optimizers`` had first: a shorter one than that of fp16_utils."""

from typing import Any, List

import torch
from torch import Tensor

from torch_npu.contrib.apex._wrapped import WrappedOptimizer, load_copies
from torch_npu.contrib.apex.fp16_utils.loss_scaler import DynamicLossScaler, LossScaler
from torch_npu.npu.overflow import npu_check_overflow

__all__ = ["FP16_Optimizer"]


class FP16_Optimizer(WrappedOptimizer):
    """Wraps ``init_optimizer``: float32 copies take the place of all of its parameters.

    ``backward(loss)`` scales the loss; ``step()`` skips itself if a gradient overflowed, otherwise gives the copies the unscaled
    gradients, updates them and writes them to the model. It waits for the device once. A dynamic scale begins with 2**16 and
    follows :class:`torch_npu.contrib.apex.fp16_utils.DynamicLossScaler`. ``dynamic_loss_args`` is a NotImplementedError;
    ``verbose`` prints the steps that were skipped.
    """

    def __init__(self, init_optimizer: Any, static_loss_scale: float = 1.0, dynamic_loss_scale: bool = False,
                 dynamic_loss_args: Any = None, verbose: bool = True) -> None:
        if dynamic_loss_scale and dynamic_loss_args is not None:
            raise NotImplementedError("dynamic_loss_args: use torch_npu.contrib.apex.fp16_utils.FP16_Optimizer")
        self.optimizer, self.verbose = init_optimizer, verbose
        self.dynamic_loss_scale = bool(dynamic_loss_scale)
        self.scaler: LossScaler = DynamicLossScaler(2**16) if dynamic_loss_scale else LossScaler(static_loss_scale)
        self.fp16_groups: List[List[Any]] = [list(group["params"]) for group in init_optimizer.param_groups]
        self.fp32_groups: List[List[Tensor]] = []
        for group in init_optimizer.param_groups:
            group["params"] = [param.detach().clone().float().requires_grad_(param.requires_grad) for param in group["params"]]
            self.fp32_groups.append(group["params"])
        for model, master in self._pairs():
            if model in init_optimizer.state:
                init_optimizer.state[master] = init_optimizer.state.pop(model)
        init_optimizer.load_state_dict(init_optimizer.state_dict())   # casts that state

    def _pairs(self) -> Any:
        return [pair for models, masters in zip(self.fp16_groups, self.fp32_groups) for pair in zip(models, masters)]

    @property
    def cur_scale(self) -> float:
        return self.scaler.cur_scale

    @property
    def loss_scale(self) -> float:
        return self.scaler.cur_scale

    def zero_grad(self, set_grads_to_None: bool = True) -> None:
        """The model's gradients become None, or 0."""
        for model, _ in self._pairs():
            if model.grad is not None:
                model.grad = None if set_grads_to_None else model.grad.detach().zero_()

    def backward(self, loss: Any) -> None:
        """The backward pass of ``loss`` in float32, times the scale."""
        self.scaler.backward(loss.float())

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step, or none after an overflow. A ``closure`` is a NotImplementedError."""
        if closure is not None:
            raise NotImplementedError("FP16_Optimizer of apex.contrib takes no closure: that of fp16_utils does")
        pairs = [(model, master) for model, master in self._pairs() if model.grad is not None]
        overflow = npu_check_overflow([model.grad for model, _ in pairs])
        if overflow and self.verbose:
            print(f"Gradient overflow with the loss scale {self.cur_scale}: the step is skipped")
        if not overflow and pairs:
            grads = [torch.empty_like(master) for _, master in pairs]
            torch._foreach_copy_(grads, [model.grad for model, _ in pairs])
            torch._foreach_mul_(grads, 1.0 / self.cur_scale)
            for (_, master), grad in zip(pairs, grads):
                master.grad = grad
            self.optimizer.step()
            for _, master in pairs:
                master.grad = None
            torch._foreach_copy_([model for model, _ in pairs], [master for _, master in pairs])
        self.scaler.update_scale(overflow)

    def state_dict(self) -> Any:
        """State of the scale, of the wrapped optimizer, and the copies: tensors and numbers only."""
        scaler = {name: value for name, value in vars(self.scaler).items() if name != "cur_scale"}
        return {"dynamic_loss_scale": self.dynamic_loss_scale, "cur_scale": self.cur_scale, **scaler,
                "optimizer_state_dict": self.optimizer.state_dict(),
                "fp32_groups": [[master.detach() for master in masters] for masters in self.fp32_groups]}

    def load_state_dict(self, state_dict: Any) -> None:
        """Restores what :meth:`state_dict` gave. ValueError unless it has the same copies."""
        load_copies(self.fp32_groups, state_dict["fp32_groups"])
        self.dynamic_loss_scale = state_dict["dynamic_loss_scale"]
        self.scaler = DynamicLossScaler() if self.dynamic_loss_scale else LossScaler()
        for name in vars(self.scaler):
            setattr(self.scaler, name, state_dict[name])
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
