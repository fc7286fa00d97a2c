"""What optimizers that wrap another one have in common."""

from typing import Any

__all__ = ["Wrapped"]


class Wrapped:
    """The state and the groups are those of ``optimizer``, the wrapped one."""

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
