"""Adam and AdamW with Apex's arguments."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu.contrib.apex._lists import HALF, norm_of_all, norms
from torch_npu.contrib.apex.fused._foreach import Batch, NoneForGrads, batches, keep_float32
from torch_npu.optim import NpuFusedAdam
from torch_npu.optim._base import evaluate

__all__ = ["FusedAdam"]

# 1 - beta^step is 1 for this many steps: the operator then corrects nothing.
_NO_CORRECTION = 1e30


def _clip(grads: Any, total: Tensor, limit: float) -> None:
    torch._foreach_mul_(grads, (limit / (total + 1e-6)).clamp_(max=1.0).to(grads[0]))


class FusedAdam(NoneForGrads, NpuFusedAdam):
    """AdamW, or with ``adam_w_mode=False`` Adam; Apex's defaults: decoupled weight decay, of 0, and gradients set to None.

    The state of half-precision parameters is float32. ``max_grad_norm``, which Apex's first version had: each group's gradients
    are clipped to that norm if it is greater than 0; the gradients themselves stay as they are. ``amsgrad`` is a
    NotImplementedError.

    ``capturable``: learning rate and number of steps are tensors on the device, so a step can be part of a graph, and a
    GradScaler leaves unscaling and the decision to skip to the step, which does not wait. ``master_weights``, which needs it
    (ValueError): the step updates float32 copies of half-precision parameters, ``master_param`` of the state.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, bias_correction: bool = True, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, adam_w_mode: bool = True, weight_decay: float = 0.0, amsgrad: bool = False,
                 set_grad_none: bool = True, capturable: bool = False, master_weights: bool = False, *,
                 max_grad_norm: float = 0.0) -> None:
        if amsgrad:
            raise NotImplementedError("FusedAdam has no amsgrad: torch_npu.optim.NpuFusedAdam has")
        if master_weights and not capturable:
            raise ValueError("FusedAdam: master_weights=True needs capturable=True")
        self.set_grad_none, self.adam_w_mode = set_grad_none, bool(adam_w_mode)
        self.capturable, self.master_weights = capturable, master_weights
        self._own_defaults = {"bias_correction": bool(bias_correction), "max_grad_norm": max_grad_norm}
        super().__init__(params, lr, betas, eps, weight_decay)
        self.defaults.update(self._own_defaults)
        if capturable:
            self._step_supports_amp_scaling = True

    def __getstate__(self) -> Any:
        names = ("set_grad_none", "adam_w_mode", "capturable", "master_weights", "_own_defaults")
        own = {name: getattr(self, name) for name in names}
        return {**super().__getstate__(), **own, **({"_step_supports_amp_scaling": True} if self.capturable else {})}

    def add_param_group(self, param_group: Any) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for name, value in self._own_defaults.items():
            group.setdefault(name, value)
        if self.capturable and group["params"]:
            device = group["params"][0].device
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32).to(device)
            group["step"] = torch.zeros((), device=device)

    def _kernel(self) -> Any:
        return torch._fused_adamw_ if self.adam_w_mode else torch._fused_adam_

    def _step_of(self, group: Any, run: Any) -> float:
        return run.step if group["bias_correction"] else _NO_CORRECTION

    def _prepare(self, runs: Any) -> None:
        for group in self.param_groups:
            grads = [run.grad for owner, run in runs if owner is group]
            if group["max_grad_norm"] > 0 and grads:
                _clip(grads, torch.linalg.vector_norm(norms(grads)), group["max_grad_norm"])

    def _by_lists(self) -> bool:
        """The flat tensors hold state of the parameters' type and count steps on the host: not what these are to have."""
        return self.capturable or any(param.dtype in HALF for group in self.param_groups for param in group["params"])

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; the loss of ``closure`` if it is given."""
        return self._step_of_lists(closure) if self._by_lists() else super().step(closure)

    @torch._disable_dynamo
    @torch.no_grad()
    def _step_of_lists(self, closure: Any) -> Any:
        loss = evaluate(closure)
        found_inf = getattr(self, "found_inf", None) if self.capturable else None   # put there by GradScaler
        for group in self.param_groups:
            some = list(batches(self, group))
            if not some:
                continue
            grads = [batch.fresh_grads() for batch in some]
            for of_batch in grads if self.capturable else []:
                scale = getattr(self, "grad_scale", None)
                if scale is not None:
                    torch._foreach_div_(of_batch, scale.to(of_batch[0]))
            if group["max_grad_norm"] > 0:
                total = norm_of_all(grads)
                for of_batch in grads:
                    _clip(of_batch, total, group["max_grad_norm"])
            step = self._count(group, some[0].weights[0].device, found_inf)
            for batch, of_batch in zip(some, grads):
                self._update_list(group, batch, of_batch, step, found_inf)
        return loss

    def _count(self, group: Any, device: torch.device, found_inf: Optional[Tensor]) -> Tensor:
        """Counts a step of the group, on the device where it is capturable; the number as the operator takes it."""
        if self.capturable:
            # A checkpoint may have brought it back on the host or as a number, or not at all.
            group["step"] = torch.as_tensor(group.get("step", 0.0), dtype=torch.float32).to(device)
            group["step"].add_(1 if found_inf is None else 1 - found_inf.reshape(()).to(device))
        else:
            group["step"] = group.get("step", 0) + 1
        if not group["bias_correction"]:
            return torch.full((), _NO_CORRECTION, device=device)
        return group["step"] if self.capturable else torch.full((), float(group["step"]), device=device)

    def _update_list(self, group: Any, batch: Batch, grads: List[Tensor], step: Tensor, found_inf: Any) -> None:
        if self.master_weights and batch.params[0].dtype in HALF:
            for state, weight in zip(batch.states, batch.weights):
                state.setdefault("master_param", weight)
            batch.weights = [state["master_param"] for state in batch.states]
        weights, decay, lr = batch.weights, group["weight_decay"], group["lr"]
        updates = weights
        if self.capturable:
            # The operator takes the learning rate as a number. So it makes the step from 0 with a rate of 1, which is 0 after an
            # overflow, and the rate and the decay follow.
            lr = torch.as_tensor(lr, dtype=torch.float32).to(weights[0].device)   # a loop may have set a number
            if decay and self.adam_w_mode:
                shrinks = decay if found_inf is None else decay * (1 - found_inf.reshape(()).to(lr.device))
                torch._foreach_mul_(weights, (1 - lr * shrinks).to(weights[0].dtype))
            elif decay:
                torch._foreach_add_(grads, weights, alpha=decay)
            updates, decay = [torch.zeros_like(weight) for weight in weights], 0.0
        self._kernel()(
            updates, grads, batch.state("exp_avg"), batch.state("exp_avg_sq"), [], [step.to(weights[0].device)] * len(grads),
            lr=1.0 if self.capturable else lr, beta1=group["betas"][0], beta2=group["betas"][1], weight_decay=decay,
            eps=group["eps"], amsgrad=False, maximize=False, found_inf=found_inf)
        if self.capturable:
            torch._foreach_mul_(updates, lr.to(weights[0].dtype))
            torch._foreach_add_(weights, updates)
        batch.write()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        keep_float32(self, state_dict)
        for group in self.param_groups:
            for name, value in self._own_defaults.items():
                group.setdefault(name, value)   # of a checkpoint of another Adam
