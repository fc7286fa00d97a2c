"""Which steps of a program are recorded."""

from typing import Callable

from torch.profiler import ProfilerAction

__all__ = ["ProfilerAction", "Schedule", "schedule"]


class Schedule:
    """``skip_first`` steps, then rounds of ``wait``, ``warmup`` and ``active`` steps, ``repeat`` of them (0: to the end). The
    first round waits ``skip_first_wait`` steps less, if that is given, and so begins at once with 1."""

    def __init__(self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0,
                 skip_first_wait: int = 0) -> None:
        from torch.profiler import schedule as rounds

        if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
            raise ValueError(f"a schedule of wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
                             f"skip_first={skip_first}: active must be positive and none negative")
        self._action: Callable[[int], ProfilerAction] = rounds(
            wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)
        self._early = wait if skip_first_wait else 0
        self._skip_first = skip_first

    def __call__(self, step: int) -> ProfilerAction:
        return self._action(step + self._early if step >= self._skip_first else step)


def schedule(wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0) -> Schedule:
    """A :class:`Schedule`; in the published order: active comes before warmup."""
    return Schedule(wait, active, warmup, repeat, skip_first, skip_first_wait)
