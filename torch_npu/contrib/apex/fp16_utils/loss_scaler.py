"""Scales of a loss for loops that apply them by hand."""

from typing import Any, Tuple

from torch_npu.npu.overflow import npu_check_overflow

__all__ = ["DynamicLossScaler", "LossScaler", "to_python_float"]


def to_python_float(t: Any) -> float:
    """The number in a tensor of one element, or the first item of a sequence. Waits for the device."""
    return t.item() if hasattr(t, "item") else t[0]


class LossScaler:
    """A fixed scale; it never sees an overflow."""

    def __init__(self, scale: float = 1) -> None:
        self.cur_scale = scale

    @property
    def loss_scale(self) -> float:
        return self.cur_scale

    def has_overflow(self, params: Any) -> bool:
        """Whether a gradient of ``params`` holds inf or nan."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """Takes note of one step and whether it overflowed."""

    def scale_gradient(self, module: Any, grad_in: Any, grad_out: Any) -> Tuple[Any, ...]:
        """A backward hook of a module: its gradients times the scale."""
        return tuple(grad if grad is None else grad * self.loss_scale for grad in grad_in)

    def backward(self, loss: Any, retain_graph: bool = False) -> None:
        """The backward pass of ``loss`` times the scale."""
        (loss * self.loss_scale).backward(retain_graph=retain_graph)


class DynamicLossScaler(LossScaler):
    """A scale that follows what the gradients do.

    After an overflow it is divided by ``scale_factor``, down to 1; after each ``scale_window`` steps in a row without one it is
    multiplied by it. Step 0 is as if an overflow had been just before it.
    """

    def __init__(self, init_scale: float = 2**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        super().__init__(init_scale)
        self.cur_iter, self.last_overflow_iter = 0, -1
        self.scale_factor, self.scale_window = scale_factor, scale_window

    def has_overflow(self, params: Any) -> bool:
        """Whether a gradient of ``params`` holds inf or nan; on an NPU that saturates, whether something overflowed. Waits."""
        return npu_check_overflow([param.grad for param in params if param.grad is not None])

    def update_scale(self, overflow: bool) -> None:
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1)
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1
