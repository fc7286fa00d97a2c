"""Which steps of a program are recorded."""

from typing import Callable

from torch.profiler import ProfilerAction

from torch_npu.profiler.experimental_config import reset

__all__ = ["ProfilerAction", "Schedule", "schedule"]


class StepError(ValueError, AssertionError):
    """A step before the first. (torch.profiler raises AssertionError, the published torch_npu ValueError.)"""


class Schedule:
    """``skip_first`` steps, then rounds of ``wait``, ``warmup`` and ``active`` steps, ``repeat`` of them (0: to the end). The
    first round waits ``skip_first_wait`` steps less, if that is given, and so begins at once with 1. A number that is none, or
    negative, becomes 0 (``active`` 1), with a warning in the log."""

    def __init__(self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0,
                 skip_first_wait: int = 0) -> None:
        from torch.profiler import schedule as rounds

        self.wait, self.warmup, self.repeat, self.skip_first = (
            value if isinstance(value, int) and value >= 0 else reset(name, value, 0)
            for name, value in (("wait", wait), ("warmup", warmup), ("repeat", repeat), ("skip_first", skip_first)))
        self.active = active if isinstance(active, int) and active > 0 else reset("active", active, 1)
        self.skip_first_wait = skip_first_wait
        self._action: Callable[[int], ProfilerAction] = rounds(
            wait=self.wait, warmup=self.warmup, active=self.active, repeat=self.repeat, skip_first=self.skip_first)
        self._early = self.wait if skip_first_wait else 0

    def __call__(self, step: int) -> ProfilerAction:
        if step < 0:
            raise StepError(f"steps count from 0, but this is step {step}")
        return self._action(step + self._early if step >= self.skip_first else step)


def schedule(wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0) -> Schedule:
    """A :class:`Schedule`; in the published order: active comes before warmup."""
    return Schedule(wait, active, warmup, repeat, skip_first, skip_first_wait)
