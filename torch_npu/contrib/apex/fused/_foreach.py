"""What the optimizers on lists of tensors share: one operator of ``torch._foreach_*`` serves all parameters of a kind."""

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu.contrib.apex._lists import HALF, by_kind
from torch_npu.optim._base import evaluate

__all__ = ["Batch", "ForeachOptimizer", "NoneForGrads", "batches", "keep_float32"]


class Batch:
    """Parameters of one group, device and type that have a gradient: ``params``, ``grads``, ``states`` of each.

    ``weights`` is what a rule works on: the parameters, or float32 copies of those of half precision, which :meth:`write` writes
    back.
    """

    def __init__(self, params: List[Tensor], states: List[Dict[str, Tensor]]) -> None:
        self.params, self.states = params, states
        self.dtype = torch.float32 if params[0].dtype in HALF else params[0].dtype
        self.grads = [param.grad for param in params if param.grad is not None]
        self.weights = [param.to(self.dtype) for param in params]   # the parameter itself where the type is the same

    def fresh_grads(self) -> List[Tensor]:
        """Copies of the gradients in the rule's type, to work on."""
        copies = [torch.empty_like(weight) for weight in self.weights]
        torch._foreach_copy_(copies, self.grads)
        return copies

    def state(self, name: str) -> List[Tensor]:
        """The tensors ``name`` of the parameters' states, which begin with 0."""
        for state, weight in zip(self.states, self.weights):
            if name not in state:
                state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        return [state[name] for state in self.states]

    def write(self) -> None:
        if self.params[0].dtype != self.dtype:
            torch._foreach_copy_(self.params, self.weights)


def batches(optimizer: Any, group: Any) -> Iterator[Batch]:
    """The parameters of ``group`` that have a gradient and elements, by device and type."""
    found = [param for param in group["params"] if param.grad is not None and param.numel()]
    for param in found:
        if param.grad.is_sparse:
            raise RuntimeError(f"{type(optimizer).__name__} takes dense gradients only: use torch.optim.SparseAdam")
        if not param.is_floating_point():
            raise TypeError(f"{type(optimizer).__name__} takes floating-point parameters, got {param.dtype}")
    for params in by_kind(found):
        yield Batch(params, [optimizer.state[param] for param in params])


def keep_float32(optimizer: Any, state_dict: Dict[str, Any]) -> None:
    """After ``Optimizer.load_state_dict``, which casts state to the parameters' types: float32 for those of half precision."""
    saved = [key for group in state_dict["param_groups"] for key in group["params"]]
    for key, param in zip(saved, [param for group in optimizer.param_groups for param in group["params"]]):
        values = state_dict["state"].get(key)
        if param.dtype in HALF and values:
            optimizer.state[param].update({name: value.to(param.device, torch.float32, copy=True)
                                           for name, value in values.items() if torch.is_tensor(value)})


class NoneForGrads:
    """Mixed into optimizers that have Apex's ``set_grad_none``."""

    set_grad_none: bool

    def zero_grad(self, set_to_none: Optional[bool] = None) -> None:
        """Gradients become None, or 0 if the optimizer was made with ``set_grad_none=False``."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)   # type: ignore[misc]


class ForeachOptimizer(NoneForGrads, torch.optim.Optimizer):
    """An optimizer whose state is float32 also where a parameter is of half precision, and whose step does not wait.

    Subclasses give :meth:`_update`; ``_kept`` names their attributes beside the groups, which copies and pickles keep.
    A group counts its steps in ``step``. Parameters are dense and floating-point (TypeError, RuntimeError).
    """

    _kept: Tuple[str, ...] = ()

    def __init__(self, params: Any, defaults: Dict[str, Any], set_grad_none: bool) -> None:
        self.set_grad_none = set_grad_none
        super().__init__(params, defaults)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in ("set_grad_none", *self._kept)}}

    def _update(self, group: Any, batch: Batch, shared: Any) -> None:
        """One step of the parameters in ``batch``; ``shared`` is what :meth:`_prepare` gave."""
        raise NotImplementedError

    def _prepare(self, batches: List[Tuple[Any, Batch]]) -> Any:
        """Called before the first update of a step with all of its batches."""

    @torch._disable_dynamo
    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; the loss of ``closure`` if it is given."""
        loss = evaluate(closure)
        found = [(group, batch) for group in self.param_groups for batch in batches(self, group)]
        shared = self._prepare(found)
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
        for group, batch in found:
            self._update(group, batch, shared)
            batch.write()
        return loss

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        keep_float32(self, state_dict)
