"""Optimizers under amp: float32 copies of what they optimize, and steps that may be skipped."""

import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from torch_npu.contrib.apex._lists import HALF, unflatten
from torch_npu.contrib.apex.amp._combined import CombinedSteps
from torch_npu.optim import NpuFusedOptimizerBase
from torch_npu.optim._stash import Stash

if TYPE_CHECKING:
    from torch.optim import Optimizer as _Optimizer
else:
    _Optimizer = object  # of the class that _AmpOptimizer is mixed into


def master_params(optimizer: Any) -> Iterator[Any]:
    """The parameters that ``optimizer`` updates: the float32 copies in O2, the model's own otherwise."""
    for group in optimizer.param_groups:
        yield from group["params"]


class OptimizerAmp:
    """What amp knows of one optimizer.

    ``masters``: pairs of a model's parameter and its float32 copy, which stands for it in the optimizer's groups.
    """

    def __init__(self, optimizer: Any, session: Any) -> None:
        self.optimizer, self.session = optimizer, session
        self.skip = False
        self.grads_are_scaled = False
        self.masters: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._earlier: Dict[torch.Tensor, torch.Tensor] = {}
        for group in optimizer.param_groups:
            self.adopt(group)

    @torch.no_grad()
    def adopt(self, group: Any) -> None:
        """Puts float32 copies in the place of a group's half-precision parameters, along with their state."""
        if not self.session.properties.master_weights:
            return
        state = self.optimizer.state
        for i, param in enumerate(group["params"]):
            if param.dtype not in HALF:
                continue
            master = torch.nn.Parameter(param.detach().float(), requires_grad=param.requires_grad)
            group["params"][i] = master
            self.masters.append((param, master))
            if param in state:
                state[master] = {key: value.float() if torch.is_tensor(value) and value.is_floating_point() else value
                                 for key, value in state.pop(param).items()}

    @torch.no_grad()
    def copy_to_model(self) -> None:
        if self.masters:
            torch._foreach_copy_([param for param, _ in self.masters], [master for _, master in self.masters])

    @torch.no_grad()
    def copy_from_model(self) -> None:
        if self.masters:
            torch._foreach_copy_([master for _, master in self.masters], [param for param, _ in self.masters])

    def zero_model_grads(self, set_to_none: Any) -> None:
        for param, _ in self.masters:
            if param.grad is not None and set_to_none:
                param.grad = None
            elif param.grad is not None:
                param.grad.detach_().zero_()

    def _own_params(self) -> List[Any]:
        """Parameters whose gradients autograd gives to the optimizer itself."""
        copies = {id(master) for _, master in self.masters}
        return [param for param in master_params(self.optimizer) if id(param) not in copies]

    def before_backward(self) -> None:
        """Puts gradients of earlier losses aside: they are unscaled already, what comes now is not."""
        if self.grads_are_scaled:
            return
        self._earlier = {param: param.grad for param in self._own_params() if param.grad is not None}
        for param in self._earlier:
            param.grad = None

    @torch.no_grad()
    def after_backward(self, scaler: Any) -> None:
        """Unscales the new gradients, for the float32 copies too, and adds the earlier ones."""
        self.grads_are_scaled = False
        own = [param for param in self._own_params() if param.grad is not None]
        fresh = [param.grad for param in own]
        if self.session.combine_grad and fresh:
            fresh = _combined(fresh, lambda grad: grad.dtype)
            for param, grad in zip(own, fresh):
                param.grad = grad
        pairs = [(param, master) for param, master in self.masters if param.grad is not None]
        copies = _combined([param.grad for param, _ in pairs], lambda grad: torch.float32)
        for param, _ in pairs:
            param.grad = None
        if scaler.scales:
            scaler.unscale_(_flats(copies) + (_flats(fresh) if self.session.combine_grad else fresh))
        for (_, master), grad in zip(pairs, copies):
            master.grad = grad if master.grad is None else master.grad.add_(grad)
        for param, grad in self._earlier.items():
            param.grad = grad if param.grad is None else param.grad.add_(grad)
        self._earlier = {}

    def drop_grads(self) -> None:
        for _, master in self.masters:
            master.grad = None


def _combined(grads: Any, dtype_of: Any) -> Any:
    """Copies of the gradients, those of one device and type in one flat tensor each."""
    result: List[Any] = [None] * len(grads)
    kinds: Dict[Tuple[torch.device, torch.dtype], List[int]] = {}
    for i, grad in enumerate(grads):
        if grad.is_sparse:
            raise RuntimeError("amp with float32 copies or combine_grad takes dense gradients only")
        kinds.setdefault((grad.device, dtype_of(grad)), []).append(i)
    for (device, dtype), indices in kinds.items():
        some = [grads[i] for i in indices]
        flat = torch.empty(sum(grad.numel() for grad in some), dtype=dtype, device=device)
        views = unflatten(flat, some)
        torch._foreach_copy_(views, some)
        for i, view in zip(indices, views):
            result[i] = view
    return result


def _flats(views: Any) -> List[Any]:
    """The flat tensors that views made by _combined lie in."""
    return list({view.data_ptr() if view._base is None else view._base.data_ptr(): view if view._base is None
                 else view._base for view in views}.values())


class _AmpOptimizer(_Optimizer):
    """Mixed into the class of an optimizer that amp.initialize was given."""

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        if closure is not None:
            raise RuntimeError("amp does not take closures: it decides between backward and step whether to skip the step")
        if self._apex_amp.grads_are_scaled:
            raise RuntimeError("the gradients are still scaled: the last amp.scale_loss before step() must not delay_unscale")
        if self._apex_amp.skip:
            self._apex_amp.skip = False
            self._apex_amp.drop_grads()
            return None
        result = super().step()
        self._apex_amp.copy_to_model()
        # A loop may clear gradients by model.zero_grad(), which knows nothing of the copies'.
        self._apex_amp.drop_grads()
        return result

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the optimizer's own, which may take no argument; the model's gradients become None unless it is told otherwise."""
        super().zero_grad(*args, **kwargs)
        self._apex_amp.zero_model_grads(args[0] if args else kwargs.get("set_to_none", True))

    def add_param_group(self, param_group: Any) -> None:
        super().add_param_group(param_group)
        self._apex_amp.adopt(self.param_groups[-1])


_classes: Dict[type, type] = {}


def attach(optimizer: Any, session: Any) -> None:
    """Makes ``optimizer`` an optimizer under amp: it keeps its identity, its class becomes a subclass."""
    kind = type(optimizer)
    combines = getattr(optimizer, "is_npu_fused_optimizer", False) and not isinstance(optimizer, NpuFusedOptimizerBase)
    if kind not in _classes:
        mixed = (_AmpOptimizer, CombinedSteps, kind) if combines else (_AmpOptimizer, kind)
        _classes[kind] = type(kind.__name__, mixed, {"__doc__": kind.__doc__})
    optimizer._apex_amp = OptimizerAmp(optimizer, session)
    optimizer._amp_stash = Stash()   # programs know it by this name
    optimizer.__class__ = _classes[kind]
    if "step" in vars(optimizer):
        _renew_scheduled_step(optimizer)


def _renew_scheduled_step(optimizer: Any) -> None:
    """A learning rate scheduler made before amp.initialize has put a wrapper of the class's step into the instance, which
    would go past amp's. This one does what the scheduler's does: it notes that a step was made."""
    del optimizer.step
    bound = optimizer.step

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        return bound(*args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = types.MethodType(step, optimizer)
