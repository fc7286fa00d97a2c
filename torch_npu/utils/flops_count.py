"""Floating point operations that a program makes."""

from typing import Any, List, Optional

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopsCounter"]


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.recorded = self.traversed = 0
        self.paused = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Optional[Any] = None) -> Any:
        from torch.utils.flop_counter import flop_registry

        out = function(*args, **(kwargs or {}))
        count = flop_registry.get(function._overloadpacket)
        if count is not None:
            flops = count(*args, **(kwargs or {}), out_val=out)
            self.traversed += flops
            if not self.paused:
                self.recorded += flops
        return out


class FlopsCounter:
    """Counts the multiplications and additions of matrix products, convolutions and attention from :meth:`start` on, in the
    forward and the backward pass of this thread, with PyTorch's formulas; as a context manager, of a ``with`` block."""

    def __init__(self) -> None:
        self._mode: Optional[_Counter] = None
        self._last = [0, 0]

    def __enter__(self) -> "FlopsCounter":
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins at zero."""
        self.stop()
        self._mode = _Counter()
        self._mode.__enter__()

    def stop(self) -> None:
        """Ends the count; :meth:`get_flops` keeps its result."""
        if self._mode is not None:
            self._last = self.get_flops()
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)

    def pause(self) -> None:
        """What follows counts as traversed only, such as recomputation."""
        if self._mode is not None:
            self._mode.paused = True

    def resume(self) -> None:
        """Ends :meth:`pause`."""
        if self._mode is not None:
            self._mode.paused = False

    def get_flops(self) -> List[int]:
        """[operations outside of pauses, all operations]."""
        return [self._mode.recorded, self._mode.traversed] if self._mode is not None else list(self._last)
