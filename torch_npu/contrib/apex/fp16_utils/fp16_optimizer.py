"""An optimizer of float32 copies for a model in float16."""

from typing import Any, Callable, List, Optional

import torch

from torch_npu.contrib.apex._lists import HALF
from torch_npu.contrib.apex._wrapped import WrappedOptimizer, load_copies
from torch_npu.contrib.apex.amp._scaler import LossScaler
from torch_npu.contrib.apex.fp16_utils.params import clip_grad_norm, master_params_to_model_params

__all__ = ["FP16_Optimizer"]


class FP16_Optimizer(WrappedOptimizer):
    """Wraps ``init_optimizer``: float32 copies take the place of its half-precision parameters, in the same groups.

    ``backward(loss)`` scales the loss in float32 and leaves the copies' gradients unscaled; ``step()`` updates the copies and
    writes them to the model. ``dynamic_loss_scale``: a step that overflowed is skipped and the scale halved; it begins with 2**16
    and doubles after 2000 steps without an overflow, up to 2**24. ``dynamic_loss_args`` changes these: ``init_scale``,
    ``scale_factor``, ``scale_window``, ``min_loss_scale``, ``max_loss_scale``. With ``static_loss_scale`` nothing looks for
    overflows, and nothing waits. ``verbose`` changes nothing. Parameters are float16, bfloat16 or float32 (TypeError).

    ``optimizer`` is the wrapped one: learning rate schedulers want that.
    """

    def __init__(self, init_optimizer: Any, static_loss_scale: float = 1.0, dynamic_loss_scale: bool = False,
                 dynamic_loss_args: Any = None, verbose: bool = True) -> None:
        self.optimizer, self.verbose = init_optimizer, verbose
        self.dynamic_loss_scale = bool(dynamic_loss_scale)
        self.loss_scaler = (LossScaler("dynamic", **(dynamic_loss_args or {})) if dynamic_loss_scale
                            else LossScaler(static_loss_scale))
        self.overflow = False
        self.first_closure_call_this_step = True
        self._grads_are_unscaled = False
        self.fp16_groups: List[List[Any]] = []
        self.fp32_from_fp16_groups: List[List[Any]] = []
        self.fp32_from_fp32_groups: List[List[Any]] = []
        for group in init_optimizer.param_groups:
            self._adopt(group)
        # Casts what state the parameters have already to the copies' type.
        init_optimizer.load_state_dict(init_optimizer.state_dict())

    def _adopt(self, group: Any) -> None:
        halves, masters, floats = [], [], []
        for i, param in enumerate(group["params"]):
            if not param.requires_grad:
                continue
            if param.dtype in HALF:
                master = param.detach().clone().float().requires_grad_()
                group["params"][i] = master
                halves.append(param)
                masters.append(master)
                if param in self.optimizer.state:
                    self.optimizer.state[master] = self.optimizer.state.pop(param)
            elif param.dtype == torch.float32:
                floats.append(param)
            else:
                raise TypeError(f"FP16_Optimizer takes float16, bfloat16 and float32 parameters, got {param.dtype}")
        self.fp16_groups.append(halves)
        self.fp32_from_fp16_groups.append(masters)
        self.fp32_from_fp32_groups.append(floats)

    def __getstate__(self) -> Any:
        raise RuntimeError("FP16_Optimizer cannot be pickled or copied: use its state_dict() and load_state_dict()")

    @property
    def loss_scale(self) -> Any:
        return self.loss_scaler.loss_scale

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self.loss_scaler.loss_scale = value

    def _pairs(self) -> Any:
        """(the model's parameter in half precision, its copy) of all groups."""
        return [pair for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups) for pair in zip(halves, masters)]

    def zero_grad(self, set_grads_to_None: bool = False) -> None:
        """Gradients of the model and of the copies become 0, or None."""
        masters = [param for group in self.param_groups for param in group["params"]]
        for param in (*masters, *(param for group in self.fp16_groups for param in group)):
            if param.grad is not None:
                param.grad = None if set_grads_to_None else param.grad.detach().zero_()
        self._grads_are_unscaled = False

    @torch.no_grad()
    def _scale_again(self) -> None:
        """An earlier loss of the same step left the float32 parameters' own gradients unscaled; what comes now is scaled."""
        grads = [param.grad for group in self.fp32_from_fp32_groups for param in group if param.grad is not None]
        if self._grads_are_unscaled and grads:
            torch._foreach_mul_(grads, self.loss_scale)
        self._grads_are_unscaled = False

    def backward(self, loss: Any, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """The backward pass of ``loss`` in float32, times the scale.

        ``update_master_grads=False``: more losses of this step will follow; call :meth:`update_master_grads` before ``step()``.
        """
        self._scale_again()
        (loss.float() * self.loss_scale).backward(retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    @torch.no_grad()
    def update_master_grads(self) -> None:
        """Gives the copies the model's gradients, unscaled, and unscales those of float32 parameters in place.

        With a dynamic scale it waits for the device to learn whether there was an overflow, and adjusts the scale.
        """
        pairs = [(model, master) for model, master in self._pairs() if model.grad is not None]
        for _, master in pairs:
            if master.grad is None:
                master.grad = torch.empty_like(master)
        grads = [master.grad for _, master in pairs]
        if grads:
            torch._foreach_copy_(grads, [model.grad for model, _ in pairs])
        grads += [param.grad for group in self.fp32_from_fp32_groups for param in group if param.grad is not None]
        if self.dynamic_loss_scale:
            self.loss_scaler.unscale_(grads)
            self.overflow = self.loss_scaler.update()
        elif grads and self.loss_scale != 1.0:
            torch._foreach_mul_(grads, 1.0 / self.loss_scale)
        self._grads_are_unscaled = True

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Any:
        """``torch.nn.utils.clip_grad_norm_`` of what ``step()`` updates: their norm before, or -1 after an overflow."""
        if self.overflow:
            return -1
        return clip_grad_norm([param for group in self.param_groups for param in group["params"]], max_norm, norm_type)

    def inspect_master_grad_data(self) -> Any:
        """The gradients that ``step()`` will use, a list for each group; None after an overflow."""
        if self.overflow:
            return None
        return [[None if param.grad is None else param.grad.detach() for param in group["params"]] for group in self.param_groups]

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step of the wrapped optimizer and a copy to the model, or nothing after an overflow.

        ``closure`` clears gradients, computes the loss, calls :meth:`backward` and returns the loss; it is called again as long
        as it overflows.
        """
        if self.overflow:
            print(f"Gradient overflow: the step is skipped, the loss scale is {self.loss_scale}")
            return None
        result = self.optimizer.step() if closure is None else self.optimizer.step(lambda: self._evaluate(closure))
        self.first_closure_call_this_step = True
        self._master_params_to_model_params()
        return result

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        if not self.first_closure_call_this_step:
            self._master_params_to_model_params()   # the optimizer calls again: the copies have moved since
        self.first_closure_call_this_step = False
        loss = closure()
        while self.overflow:
            loss = closure()
        return loss

    def _master_params_to_model_params(self) -> None:
        for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups):
            master_params_to_model_params(halves, masters)

    def state_dict(self) -> Any:
        """State of the scale, of the wrapped optimizer, and the copies: ``loss_scaler``, ``dynamic_loss_scale``, ``overflow``,
        ``first_closure_call_this_step``, ``optimizer_state_dict``, ``fp32_from_fp16``. Tensors and numbers only."""
        return {"loss_scaler": {"loss_scale": self.loss_scale, "unskipped": self.loss_scaler.unskipped},
                "dynamic_loss_scale": self.dynamic_loss_scale, "overflow": self.overflow,
                "first_closure_call_this_step": self.first_closure_call_this_step,
                "optimizer_state_dict": self.optimizer.state_dict(),
                "fp32_from_fp16": [[master.detach() for master in masters] for masters in self.fp32_from_fp16_groups]}

    def load_state_dict(self, state_dict: Any) -> None:
        """Restores what :meth:`state_dict` gave; load the model's before. ValueError unless it has the same copies."""
        load_copies(self.fp32_from_fp16_groups, state_dict["fp32_from_fp16"])
        self.dynamic_loss_scale = state_dict["dynamic_loss_scale"]
        self.overflow = state_dict["overflow"]
        self.first_closure_call_this_step = state_dict["first_closure_call_this_step"]
        self.loss_scaler.dynamic = self.dynamic_loss_scale
        self.loss_scaler.loss_scale = state_dict["loss_scaler"]["loss_scale"]
        self.loss_scaler.unskipped = state_dict["loss_scaler"]["unskipped"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
