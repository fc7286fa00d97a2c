"""Layer-wise adaptive rates."""

from typing import Any

import torch

from torch_npu.contrib.apex._lists import by_kind, norms

__all__ = ["LARC"]


class LARC:
    """Wraps an optimizer: each parameter's gradient is scaled so that it moves at a rate of its own (You et al., 2017).

    With p and g a parameter and its gradient, neither of them 0, d the group's weight decay and t ``trust_coefficient``:

        rate = t * |p| / (|g| + d * |p| + eps)
        g = (g + d * p) * min(rate / lr, 1)       ``clip=True``: the parameter moves at min(rate, lr)
        g = (g + d * p) * rate                    ``clip=False``: it moves at rate * lr

    The wrapped optimizer then sees no weight decay. Gradients are changed in place; a step does not wait for the device.
    ``optim`` is the wrapped optimizer: learning rate schedulers want that.
    """

    def __init__(self, optimizer: Any, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8) -> None:
        self.optim = optimizer
        self.trust_coefficient, self.clip, self.eps = trust_coefficient, clip, eps

    def __repr__(self) -> str:
        return repr(self.optim)

    @property
    def state(self) -> Any:
        return self.optim.state

    @property
    def param_groups(self) -> Any:
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: Any) -> None:
        self.optim.param_groups = value

    def state_dict(self) -> Any:
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        self.optim.zero_grad(*args, **kwargs)

    def add_param_group(self, param_group: Any) -> None:
        self.optim.add_param_group(param_group)

    @torch.no_grad()
    def _adapt(self, group: Any, decay: float) -> None:
        for some in by_kind(param for param in group["params"] if param.grad is not None):
            grads: Any = [param.grad for param in some]
            lengths, slopes = norms(some), norms(grads)
            rates = self.trust_coefficient * lengths / (slopes + lengths * decay + self.eps)
            if self.clip:
                rates = (rates / group["lr"]).clamp_(max=1.0)
            adapts = (lengths != 0) & (slopes != 0)
            rates = torch.where(adapts, rates, torch.ones_like(rates))
            if decay:
                torch._foreach_add_(grads, torch._foreach_mul(some, list((adapts.to(lengths.dtype) * decay).unbind())))
            torch._foreach_mul_(grads, list(rates.unbind()))

    def step(self, closure: Any = None) -> Any:
        """One step of the wrapped optimizer on the scaled gradients. A ``closure``, which would renew them, is a
        NotImplementedError."""
        if closure is not None:
            raise NotImplementedError("LARC takes no closure: it scales the gradients before the step")
        decays = [group.get("weight_decay", 0) for group in self.param_groups]
        try:
            for group, decay in zip(self.param_groups, decays):
                if "weight_decay" in group:
                    group["weight_decay"] = 0
                self._adapt(group, decay)
            return self.optim.step()
        finally:
            for group, decay in zip(self.param_groups, decays):
                if "weight_decay" in group:
                    group["weight_decay"] = decay
