"""The optimizers that Apex itself has, with Apex's arguments and defaults, on those of torch_npu.optim."""

from typing import Any, Optional, Tuple

import torch

from torch_npu.optim import NpuFusedAdam, NpuFusedSGD

__all__ = ["FusedAdam", "FusedLAMB", "FusedNovoGrad", "FusedSGD"]


class FusedAdam(NpuFusedAdam):
    """AdamW, or with ``adam_w_mode=False`` Adam; Apex's defaults: decoupled weight decay, of 0, and gradients set to None."""

    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, adam_w_mode: bool = True, weight_decay: float = 0.0, amsgrad: bool = False,
                 set_grad_none: bool = True, capturable: bool = False, master_weights: bool = False) -> None:
        if not bias_correction or amsgrad:
            raise NotImplementedError("FusedAdam: bias_correction=False is not there; amsgrad is torch_npu.optim.NpuFusedAdam's")
        if capturable or master_weights:
            raise NotImplementedError("FusedAdam: capturable=True and master_weights=True are not there")
        self.set_grad_none, self.adam_w_mode = set_grad_none, bool(adam_w_mode)
        super().__init__(params, lr, betas, eps, weight_decay)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "set_grad_none": self.set_grad_none, "adam_w_mode": self.adam_w_mode}

    def _kernel(self) -> Any:
        return torch._fused_adamw_ if self.adam_w_mode else torch._fused_adam_

    def zero_grad(self, set_to_none: Optional[bool] = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


class FusedSGD(NpuFusedSGD):
    """SGD. ``wd_after_momentum=True`` is a NotImplementedError; ``materialize_master_grads`` changes nothing."""

    def __init__(self, params: Any, lr: Optional[float] = None, momentum: float = 0, dampening: int = 0, weight_decay: float = 0,
                 nesterov: bool = False, wd_after_momentum: bool = False, materialize_master_grads: bool = True,
                 set_grad_none: bool = False) -> None:
        if wd_after_momentum:
            raise NotImplementedError("FusedSGD: wd_after_momentum=True is not there")
        self.set_grad_none = set_grad_none
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "set_grad_none": self.set_grad_none}

    def zero_grad(self, set_to_none: Optional[bool] = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


class _OnCudaOnly:
    """Programs import these names along with the others; only those that make one need it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} is a kernel of CUDA: use {self._instead}")

    _instead = ""


class FusedLAMB(_OnCudaOnly):
    _instead = "torch_npu.optim.NpuFusedLamb, whose rule differs: see its docstring"


class FusedNovoGrad(_OnCudaOnly):
    _instead = "an optimizer of torch_npu.optim"
