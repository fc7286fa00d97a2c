"""Marks and ranges of the program's own in a profile, with the names of the published torch_npu."""

import contextlib
import ctypes
import functools
import itertools
import os
import sys
import threading
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import torch

from torch_npu import _C, _runtime
from torch_npu.npu import _state

_DEFAULT = "default"
_ids = itertools.count(1)
_open: Dict[Any, Any] = {}
_stacks = threading.local()


class _Range(NamedTuple):
    """What a range that is open has begun: a record function, a mark on the device in PyTorch's profile, a range of CANN's."""

    record: Optional[Any]
    device_mark: int
    tools_range: int


@functools.lru_cache(maxsize=None)
def _tools() -> Optional[Any]:
    """CANN's mstx, which msprof and MSPTI listen to; None where this CANN has none."""
    for folder in _runtime.use_chosen().folders:
        path = os.path.join(folder, "libms_tools_ext.so")
        if os.path.exists(path):
            tools = ctypes.CDLL(path)
            tools.mstxDomainCreateA.restype = ctypes.c_void_p
            tools.mstxRangeStartA.restype = tools.mstxDomainRangeStartA.restype = ctypes.c_uint64
            tools.mstxMarkA.argtypes = tools.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
            tools.mstxDomainMarkA.argtypes = tools.mstxDomainRangeStartA.argtypes = [
                ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            tools.mstxRangeEnd.argtypes = [ctypes.c_uint64]
            return tools
    return None


@functools.lru_cache(maxsize=None)
def _tools_domain(name: str) -> Any:
    return _tools().mstxDomainCreateA(name.encode())  # type: ignore[union-attr]


def _call_tools(function: str, message: str, stream: Any, domain: str) -> int:
    """mstx<function>A of the domain; 0 before the device is open, which nobody records."""
    if not _state.is_initialized() or _tools() is None:
        return 0
    handle = None if stream is None else stream.npu_stream
    if domain == _DEFAULT:
        return getattr(_tools(), f"mstx{function}A")(message.encode(), handle) or 0
    return getattr(_tools(), f"mstxDomain{function}A")(_tools_domain(domain), message.encode(), handle) or 0


def _is_recorded(domain: str) -> bool:
    """Whether PyTorch's profile runs on this thread and wants the domain."""
    if not torch.autograd._profiler_enabled():
        return False
    profiler = sys.modules.get("torch_npu.profiler.profiler")
    return profiler is None or profiler.wants_domain(domain)


def _pushed(domain: str) -> List[int]:
    """The ranges that this thread pushed."""
    return vars(_stacks).setdefault(domain, [])


def _is_wrong(message: Any, stream: Any) -> bool:
    """Whether a mark cannot be made, which warns: marks must not stop a program."""
    if isinstance(message, str) and (stream is None or isinstance(stream, torch.Stream)):
        return False
    warnings.warn(f"mstx: nothing is marked, for {message!r} is no message or {stream!r} no stream", stacklevel=3)
    return True


class mstx:
    """Marks and ranges that torch.profiler, msprof and MSPTI show; they cost about a microsecond while nothing profiles.

    With a ``stream`` the device's times are shown, too: when the stream came to the begin, and to the end. ``domain`` names a
    group of marks, which profiles can leave out. ``torch.npu.mstx()`` is the same thing.
    """

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """Puts a mark into the profile. What is no string or no stream makes none, with a warning."""
        if _is_wrong(message, stream):
            return
        _call_tools("Mark", message, stream, domain)
        if _is_recorded(domain):
            with torch.profiler.record_function(message, f"domain={domain}"):
                if stream is not None:
                    _C._profile_end_mark(_C._profile_begin_mark(message, stream.stream_id, stream.device_index))

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begins a range and returns its number, for :meth:`range_end`; 0 when nothing profiles this thread, and, with a
        warning, for what is no string or no stream."""
        if _is_wrong(message, stream):
            return 0
        tools_range = _call_tools("RangeStart", message, stream, domain)
        record, device_mark = None, 0
        if _is_recorded(domain):
            record = torch.profiler.record_function(message, f"domain={domain}")
            record.__enter__()
            if stream is not None:
                device_mark = _C._profile_begin_mark(message, stream.stream_id, stream.device_index)
        elif tools_range == 0:
            return 0
        number = next(_ids)
        _open[number] = _Range(record, device_mark, tools_range)
        return number

    @staticmethod
    def range_end(range_id: Any, domain: str = "default") -> None:
        """Ends a range. A number that is not open, such as 0, changes nothing: marks must not stop a program."""
        begun = _open.pop(range_id, None)
        if begun is None:
            return
        if begun.tools_range:
            _tools().mstxRangeEnd(begun.tools_range)  # type: ignore[union-attr]
        if begun.device_mark:
            _C._profile_end_mark(begun.device_mark)
        if begun.record is not None:
            begun.record.__exit__(None, None, None)

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


def __getattr__(name: str) -> Any:
    """Of the module ``torch_npu.npu.mstx``, where the published class lives: what the class has."""
    if name.startswith("_"):
        raise AttributeError(f"module 'torch_npu.npu._mstx' has no attribute {name!r}")
    return getattr(mstx, name)
