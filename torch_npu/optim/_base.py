"""What all fused optimizers share: buckets of flat tensors, and clipping on them."""

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from torch_npu.optim._flat import Bucket
from torch_npu.optim._stash import Stash


def check(condition: Any, name: str, value: Any) -> None:
    """ValueError unless the hyperparameter is in its range (nan is not)."""
    if not condition:
        raise ValueError(f"invalid {name}: {value}")


def evaluate(closure: Optional[Callable[[], Any]]) -> Any:
    """The loss that ``step(closure)`` returns: the closure runs with gradients. None without a closure."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _can_be_trained(param: Tensor) -> bool:
    return param.requires_grad or param.grad is not None


class NpuFusedOptimizerBase(Optimizer):
    """An optimizer whose parameters lie in flat tensors, one for each group, dtype and device.

    The first ``step()`` moves the parameters there; their addresses change once. Subclasses give ``_state_names`` and
    ``_update``, or as programs for Ascend's Apex do ``_group_step(index of a group)``, which finds the flat tensors in
    ``self._amp_stash`` (:class:`torch_npu.optim._stash.Stash`). Works on every device; complex and non-strided parameters are a
    TypeError.
    """

    is_npu_fused_optimizer = True
    # (group, Bucket) of all that can be trained, and the parameters that cannot. Not part of what is pickled or copied.
    _buckets: Optional[List[Any]] = None
    _frozen: Sequence[Any] = ()

    def _state_names(self, group: Any) -> Any:
        """State tensors of a parameter and the number each begins with."""
        raise NotImplementedError

    def _update(self, group: Any, run: Any) -> Any:
        """One step of a :class:`torch_npu.optim._flat.Run`."""
        raise NotImplementedError

    def _prepare(self, runs: Any) -> None:
        """Called with all (group, run) of a step before the first update; for rules that need all gradients."""

    def _is_current(self) -> bool:
        """False after parameters were replaced or unfrozen, or a hyperparameter asks for other state."""
        return (
            self._buckets is not None
            and not any(map(_can_be_trained, self._frozen))
            and all(bucket.is_current() and bucket.names == self._state_names(group) for group, bucket in self._buckets)
        )

    def _ensure_buckets(self) -> List[Any]:
        if self._buckets is not None and self._is_current():
            return self._buckets
        buckets: List[Any] = []
        frozen: List[Any] = []
        for group in self.param_groups:
            kinds: Dict[Any, Any] = {}
            for param in group["params"]:
                if type(param) not in (torch.Tensor, torch.nn.Parameter):
                    raise TypeError(f"fused optimizers take plain tensors, got {type(param).__name__}")
                if not param.is_floating_point() or param.layout != torch.strided:
                    raise TypeError(f"fused optimizers take strided real parameters, got {param.dtype}, {param.layout}")
                if not _can_be_trained(param):
                    frozen.append(param)
                elif param.numel():
                    kinds.setdefault((param.dtype, param.device), []).append(param)
            names = self._state_names(group)
            buckets += [(group, Bucket(params, names, self.state)) for params in kinds.values()]
        self._buckets, self._frozen = buckets, frozen
        return buckets

    @torch._disable_dynamo
    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; the loss of ``closure`` if it is given."""
        loss = evaluate(closure)
        runs = []
        for group, bucket in self._ensure_buckets():
            runs += [(group, run) for run in bucket.runs(bucket.gather())]
        if hasattr(self, "_group_step"):
            self._step_by_groups(runs)
            return loss
        self._prepare(runs)
        for group, run in runs:
            self._update(group, run)
        return loss

    def _step_by_groups(self, runs: Any) -> None:
        """The step of a subclass that has a rule for a whole group, and counts the steps itself, in what it is given and, if it
        likes, in ``self.state``."""
        if not hasattr(self, "_amp_stash"):
            self._amp_stash = Stash()
        stash = self._amp_stash
        by_group = [[run for group, run in runs if group is one] for one in self.param_groups]
        stash.params_lists_indexed_by_group = [[run.params() for run in some] for some in by_group]
        stash.combined_params_indexed_by_group = [[run.param for run in some] for some in by_group]
        stash.combined_grads_indexed_by_group = [[run.grad for run in some] for some in by_group]
        stash.combined_param_states_indexed_by_group = [
            [{"step": run.step - 1, **run.state} for run in some] for some in by_group]
        stash.param_states_are_combined_by_group = True
        steps = [(self.state[param], run.step) for _, run in runs for param in run.params()]
        for state, step in steps:
            state["step"] = step - 1
        for index in range(len(self.param_groups)):
            self._group_step(index)
        for state, step in steps:
            state["step"] = step

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: Any, norm_type: float = 2.0) -> Any:
        """Scales all gradients so that the norm of all of them together is at most ``max_norm``.

        As ``torch.nn.utils.clip_grad_norm_`` over the optimizer's parameters, in a few operators and without waiting.
        Returns the norm before, a tensor of no dimensions.
        """
        buckets = [bucket for _, bucket in self._ensure_buckets() if any(bucket.gather())]
        if not buckets:
            return torch.zeros(())
        norms = [torch.linalg.vector_norm(bucket.grad, norm_type, dtype=torch.float32) for bucket in buckets]
        device = norms[0].device
        total = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(
            torch.stack([norm.to(device) for norm in norms]), norm_type)
        factor = (max_norm / (total + 1e-6)).clamp_(max=1.0)
        for bucket in buckets:
            bucket.grad.mul_(factor.to(bucket.grad.device))
            bucket.scatter()
        return total

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients become 0, or None with ``set_to_none``, which is torch.optim's default."""
        super().zero_grad(set_to_none)

    def _combined(self, name: str) -> List[Optional[torch.Tensor]]:
        found: List[Optional[torch.Tensor]] = []
        for dtype in (torch.float32, torch.float16):
            flats = [getattr(bucket, name) for _, bucket in self._buckets or () if bucket.param.dtype == dtype]
            found.append((flats[0] if len(flats) == 1 else torch.cat(flats)) if flats else None)
        return found

    def get_combined_params(self) -> List[Optional[torch.Tensor]]:
        """[flat parameters of float32, of float16], each None where there are none and before the first step: the memory that the
        parameters lie in, or a copy where several groups have that dtype."""
        return self._combined("param")

    def get_combined_grads(self) -> List[Optional[torch.Tensor]]:
        """The same of the gradients, as the last step or clipping saw them."""
        return self._combined("grad")

    def add_param_group(self, param_group: Any) -> None:
        super().add_param_group(param_group)
        self._buckets = None

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._buckets = None
