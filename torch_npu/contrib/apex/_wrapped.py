"""What the wrappers of an optimizer share."""

from typing import Any

__all__ = ["WrappedOptimizer"]


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
