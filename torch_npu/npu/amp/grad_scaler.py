"""torch.npu.amp.GradScaler: PyTorch's, with a fixed scale if wanted and errors for what PyTorch lets pass.

torch.amp.GradScaler("npu"), its base, is patched by ``_scaler_all_reduces_found_inf`` of torch_npu/_hooks/patches.py.
"""

import weakref
from collections import abc
from typing import Any, Dict, Optional, Set

import torch
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state  # noqa: F401 - the published module has it too

from torch_npu.npu import overflow

__all__ = [
    "FactorError", "GradScaler", "HalfGradientError", "OutputsError", "all_reduce_found_inf", "devices_of_step", "refuse_apex",
]

# The scaler that unscaled an optimizer's gradients last.
_owners: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def all_reduce_found_inf(found_inf_per_device: Any) -> None:
    """Lets all ranks skip the step in which one of them overflowed.

    Where inf exists, the all-reduce of the gradients spreads it. Where arithmetic saturates, only the flag of the
    rank's own device knows, so the ranks take the largest found_inf of all. The host does not wait.
    """
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return
    for found_inf in found_inf_per_device.values():
        if found_inf.device.type == "npu" and not overflow.is_support_inf_nan():
            dist.all_reduce(found_inf, op=dist.ReduceOp.MAX)


def devices_of_step(scaler: Any) -> Set[Any]:
    """The devices that hold gradients of the optimizers in a scaler's step."""
    return {device for state in scaler._per_optimizer_states.values() for device in state["found_inf_per_device"]}


def refuse_apex(optimizer: Any) -> None:
    """Raises RuntimeError for an optimizer whose losses torch_npu.contrib.apex.amp scales."""
    if getattr(optimizer, "_apex_amp", None) is not None:
        raise RuntimeError(
            "this optimizer came out of torch_npu.contrib.apex.amp.initialize, which scales its losses: use "
            "amp.scale_loss and optimizer.step(), without a GradScaler"
        )


class HalfGradientError(ValueError, TypeError):
    """Gradients of float16 cannot be unscaled. (torch.amp raises ValueError, the published torch_npu TypeError.)"""


class FactorError(ValueError, AssertionError):
    """A factor that does not let the scale grow, or shrink. (torch.amp asserts, the published torch_npu raises ValueError.)"""


class OutputsError(TypeError, ValueError):
    """Something to scale that holds no tensors. (torch.amp raises ValueError, the published torch_npu TypeError.)"""


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("npu", ...)``, with ``dynamic``.

    Where several optimizers share it, an overflow in the gradients of one skips the later steps of all until ``update``.
    ``dynamic=False``: the scale stays ``init_scale``; steps whose gradients overflowed are skipped all the same.

    Raises ValueError for a loss that is not on the NPU, and RuntimeError when two scalers, or this one and
    torch_npu.contrib.apex.amp, meet in one optimizer's step.
    """

    def __init__(self, init_scale: Any = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, dynamic: bool = True, enabled: bool = True) -> None:
        if isinstance(init_scale, (str, torch.device)):
            raise TypeError(f"init_scale is a number, not {init_scale!r}: this GradScaler is for the NPU and takes no device")
        if enabled and not growth_factor > 1:
            raise FactorError(f"the growth factor is more than 1, not {growth_factor}")
        if enabled and not backoff_factor < 1:
            raise FactorError(f"the backoff factor is less than 1, not {backoff_factor}")
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        """:func:`torch.npu.get_npu_overflow_flag`."""
        return overflow.get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        """:func:`torch.npu.clear_npu_overflow_flag`."""
        overflow.clear_npu_overflow_flag()

    def scale(self, outputs: Any) -> Any:
        if self._enabled:
            for output in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
                if isinstance(output, torch.Tensor) and output.device.type != "npu":
                    raise ValueError(f"this GradScaler scales losses on the NPU, but the loss is on {output.device}")
            if not isinstance(outputs, (torch.Tensor, abc.Iterable)):
                raise OutputsError(f"scale takes a tensor or an iterable of tensors, not {type(outputs).__name__}")
        return super().scale(outputs)

    def unscale_(self, optimizer: Any) -> None:
        if self._enabled:
            self._check_owner(optimizer)
        super().unscale_(optimizer)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Optional[float]:
        if self._enabled:
            self._check_owner(optimizer)
            state = self._per_optimizer_states[id(optimizer)]
            if state["stage"] is OptState.UNSCALED and state["found_inf_per_device"]:
                self._merge_found_inf_of_optimizers(state)
        return super().step(optimizer, *args, **kwargs)

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> Any:
        grads = (param.grad for group in optimizer.param_groups for param in group["params"])
        if not allow_fp16 and any(grad is not None and grad.dtype == torch.float16 for grad in grads):
            raise HalfGradientError("Attempting to unscale FP16 gradients.")
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
        self._merge_found_inf_of_optimizers(optimizer_state)
        return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)

    def _check_inf_per_device(self, optimizer: Any) -> Dict[str, Any]:
        """Before the step of an optimizer that takes the scale itself (``fused=True``) and skips where it finds an overflow."""
        super()._check_inf_per_device(optimizer)
        state = self._per_optimizer_states[id(optimizer)]
        self._merge_found_inf_of_optimizers(state)
        return state["found_inf_per_device"]

    def _merge_found_inf_of_optimizers(self, state: Any) -> None:
        """An overflow in the gradients of one optimizer lets the others skip their steps, too, as far as they were not made."""
        found = state["found_inf_per_device"]
        for other in self._per_optimizer_states.values():
            for device, value in other["found_inf_per_device"].items() if other is not state else ():
                found[device] = torch.maximum(found[device], value) if device in found else value

    def _check_owner(self, optimizer: Any) -> None:
        self._check_scale_growth_tracker("step")
        refuse_apex(optimizer)
        owner = _owners.get(optimizer)
        owner = owner() if owner is not None else None
        if owner is not None and owner is not self:
            state = owner._per_optimizer_states.get(id(optimizer))
            if state is not None and state["stage"] is not OptState.READY:
                raise RuntimeError(
                    "another GradScaler has already unscaled the gradients of this optimizer and was not updated since: "
                    "one step of an optimizer belongs to one scaler"
                )
        _owners[optimizer] = weakref.ref(self)

    def update(self, new_scale: Any = None) -> None:
        if not self._enabled:
            return
        if isinstance(new_scale, torch.Tensor) and new_scale.numel() == 1:
            new_scale = new_scale.reshape(())   # the scale's own shape
        elif isinstance(new_scale, int):
            new_scale = float(new_scale)
        if self._dynamic or new_scale is not None:
            super().update(new_scale)
        else:
            devices = devices_of_step(self)
            self._end_step()
            overflow.clear_overflow_flags(devices)

    def _end_step(self) -> None:
        self._check_scale_growth_tracker("update")
        if not any(state["found_inf_per_device"] for state in self._per_optimizer_states.values()):
            raise AssertionError("No inf checks were recorded prior to update.")
        self._per_optimizer_states.clear()

    def state_dict(self) -> Dict[str, Any]:
        state = super().state_dict()
        if state:
            state["dynamic"] = self._dynamic
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """As PyTorch's; PyTorch's own state dicts fit too, and leave ``dynamic`` as it is."""
        super().load_state_dict(state_dict)
        if self._enabled:
            self._dynamic = state_dict.get("dynamic", self._dynamic)
