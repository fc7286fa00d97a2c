"""Marks and ranges of the program's own in a profile, with the names of the published torch_npu."""

import contextlib
import itertools
import threading
from typing import Any, Dict, Iterator, List

import torch

_ids = itertools.count(1)
_open: Dict[int, Any] = {}
_stacks = threading.local()


def _pushed(domain: str) -> List[int]:
    """The ranges that this thread pushed."""
    return vars(_stacks).setdefault(domain, [])


class mstx:
    """Marks and ranges that torch.profiler shows, with times of the host; they cost next to nothing while nothing profiles.

    ``stream`` is accepted everywhere, but the profiler records no times of the device. ``torch.npu.mstx()`` is the same thing.
    """

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """Puts a mark into the profile."""
        mstx.range_end(mstx.range_start(message, stream, domain))

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begins a range and returns its number, for :meth:`range_end`; 0 when nothing profiles this thread."""
        if not torch.autograd._profiler_enabled():
            return 0
        number = next(_ids)
        _open[number] = torch.profiler.record_function(message, f"domain={domain}")
        _open[number].__enter__()
        return number

    @staticmethod
    def range_end(range_id: Any, domain: str = "default") -> None:
        """Ends a range. A number that is not open, such as 0, changes nothing: marks must not stop a program."""
        record = _open.pop(range_id, None)
        if record is not None:
            record.__exit__(None, None, None)

    @staticmethod
    @contextlib.contextmanager
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Iterator[None]:
        """A range around a ``with`` block, or, as a decorator, around each call of a function."""
        number = mstx.range_start(message, stream, domain)
        try:
            yield
        finally:
            mstx.range_end(number, domain)

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begins a range within the one that was pushed last on this thread, and returns its depth, from 0 on."""
        stack = _pushed(domain)
        stack.append(mstx.range_start(message, stream, domain))
        return len(stack) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """Ends the range that was pushed last on this thread, and returns its depth; -1 where there is none."""
        stack = _pushed(domain)
        if not stack:
            return -1
        mstx.range_end(stack.pop(), domain)
        return len(stack)

    @staticmethod
    def annotate(message: str = "", stream: Any = None, domain: str = "default") -> Any:
        """As :meth:`mstx_range`."""
        return mstx.mstx_range(message, stream, domain)
