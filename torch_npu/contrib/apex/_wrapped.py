"""What the wrappers of an optimizer share."""

from typing import Any, List

import torch

__all__ = ["WrappedOptimizer", "load_copies"]


@torch.no_grad()
def load_copies(groups: List[List[Any]], saved: Any) -> None:
    """Copies ``saved``, of a checkpoint, to the float32 copies in ``groups``. ValueError unless it has the same shapes."""
    shapes, found = ([[tuple(copy.shape) for copy in group] for group in some] for some in (groups, saved))
    if shapes != found:
        raise ValueError(f"the state has float32 copies of shapes {found}, but this optimizer has {shapes}")
    for group, values in zip(groups, saved):
        for copy, value in zip(group, values):
            copy.copy_(value)


class WrappedOptimizer:
    """Groups and state are those of ``optimizer``, the wrapped one."""

    optimizer: Any

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @state.setter
    def state(self, value: Any) -> None:
        self.optimizer.state = value

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, value: Any) -> None:
        self.optimizer.param_groups = value
