"""RMSprop as PyTorch has it, and as TensorFlow has it."""

from typing import Any, Dict

from torch_npu.optim._base import NpuFusedOptimizerBase, check

__all__ = ["NpuFusedRMSprop", "NpuFusedRMSpropTF"]


class _RMSprop(NpuFusedOptimizerBase):
    _square_avg_begins = 0.0

    def __init__(self, params: Any, lr: float, alpha: Any, eps: float, weight_decay: float, momentum: float, centered: Any,
                 **more: Any) -> None:
        check(lr >= 0, "lr", lr)
        check(alpha >= 0, "alpha", alpha)
        check(eps >= 0, "eps", eps)
        check(momentum >= 0, "momentum", momentum)
        check(weight_decay >= 0, "weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                  "momentum": momentum, "centered": centered, **more})

    def _state_names(self, group: Any) -> Dict[str, float]:
        names = {"square_avg": self._square_avg_begins}
        if group["momentum"]:
            names["momentum_buffer"] = 0.0
        if group["centered"]:
            names["grad_avg"] = 0.0
        return names


class NpuFusedRMSprop(_RMSprop):
    """``torch.optim.RMSprop`` on flat tensors: eps is added to the root."""

    def __init__(self, params: Any, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered)

    def _update(self, group: Any, run: Any) -> None:
        grad, alpha, square_avg = run.grad, group["alpha"], run.state["square_avg"]
        if group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            grad_avg = run.state["grad_avg"].lerp_(grad, 1 - alpha)
            root = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt_()
        else:
            root = square_avg.sqrt()
        root.add_(group["eps"])
        if group["momentum"]:
            buffer = run.state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            run.param.add_(buffer, alpha=-group["lr"])
        else:
            run.param.addcdiv_(grad, root, value=-group["lr"])


class NpuFusedRMSpropTF(_RMSprop):
    """RMSprop with TensorFlow's details: eps stands under the root, the mean square begins with 1.

    ``lr_in_momentum``: the momentum buffer holds steps that were multiplied by lr already. ``decoupled_decay``: weight
    decay shrinks the parameters, whatever lr is, instead of being added to the gradient.
    """

    _square_avg_begins = 1.0

    def __init__(self, params: Any, lr: float = 1e-2, alpha: float = 0.9, eps: float = 1e-10, weight_decay: float = 0,
                 momentum: float = 0.0, centered: bool = False, decoupled_decay: bool = False,
                 lr_in_momentum: bool = True) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered,
                         decoupled_decay=decoupled_decay, lr_in_momentum=lr_in_momentum)

    def _update(self, group: Any, run: Any) -> None:
        grad, rest, lr, square_avg = run.grad, 1 - group["alpha"], group["lr"], run.state["square_avg"]
        if group["weight_decay"] and group["decoupled_decay"]:
            run.param.mul_(1 - group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square_avg.add_(grad.square().sub_(square_avg), alpha=rest)
        mean_square = square_avg
        if group["centered"]:
            grad_avg = run.state["grad_avg"]
            grad_avg.add_(grad - grad_avg, alpha=rest)
            mean_square = square_avg.addcmul(grad_avg, grad_avg, value=-1)
        root = mean_square.add(group["eps"]).sqrt_()
        if not group["momentum"]:
            run.param.addcdiv_(grad, root, value=-lr)
        elif group["lr_in_momentum"]:
            run.param.sub_(run.state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root, value=lr))
        else:
            run.param.add_(run.state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root), alpha=-lr)
