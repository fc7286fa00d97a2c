"""Streams and events, with torch.cuda's meaning, on PyTorch's device-independent classes."""

import ctypes
import functools
import time
from typing import Any, Tuple

import torch
from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state, _sync_listener, _utils
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "Event", "ExternalEvent", "ExternalStream", "Stream", "StreamContext", "SyncLaunchStream", "current_stream",
    "default_stream", "erase_stream", "get_stream_from_external", "set_stream", "stream",
]


class Stream(torch.Stream):
    """A queue of work on one device; independent streams run side by side.

    Args:
        device: device of the stream; default the current one.
        priority (int): negative for a stream of high priority.
    """

    _name = "Stream"

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Any:
        unknown = kwargs.keys() - {"stream_id", "device_index", "device_type", "stream_ptr"}
        if unknown:
            raise TypeError(f"{min(unknown)!r} is an invalid keyword argument for a stream")
        _state.lazy_init()
        if kwargs.get("stream_ptr"):   # a stream that other code made, as torch.cuda's argument of this name
            index = _utils.index_or_current(device)
            kwargs = {"stream_id": _C._external_stream(kwargs["stream_ptr"], index), "device_index": index}
        if "stream_id" in kwargs:
            return super().__new__(
                cls,
                stream_id=kwargs["stream_id"],
                device_index=kwargs["device_index"],
                device_type=kwargs.get("device_type", _C._device_type),
            )
        return super().__new__(cls, device=torch.device("npu", _utils.index_or_current(device)), priority=priority)

    @property
    def npu_stream(self) -> int:
        """Address of CANN's stream (aclrtStream), an int."""
        return _C._stream_handle(self.stream_id, self.device_index)

    @property
    def priority(self) -> int:
        """-1 for high priority, else 0."""
        return _C._stream_priority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range() -> Tuple[int, int]:
        """(lowest, highest) priority; a lower number is served first."""
        return 0, -1

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.npu_stream)

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """For programs that mark the stream of their data's preparation: it is remembered, and all streams are served alike."""
        self.is_data_preprocess_stream = bool(is_data_preprocess_stream)

    def record_event(self, event: Any = None) -> Any:
        """Records ``event``, or a new one, on this stream and returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Makes work submitted later wait for ``event``; the host does not wait."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Makes work submitted later wait for what ``stream`` has now; the host does not wait."""
        self.wait_event(_wrap(stream.stream_id, stream.device_index).record_event())

    def synchronize(self) -> None:
        """Waits until the stream has done what it has; raises the error of a task that failed."""
        super().synchronize()
        if _sync_listener.listener is not None:
            _sync_listener.listener.host_waits_stream(self)

    def query(self) -> bool:
        """True if the stream has done what it was given."""
        done = super().query()
        if done and _sync_listener.listener is not None:
            _sync_listener.listener.host_waits_stream(self)
        return done

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, torch.Stream) and super().__eq__(other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device_index))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.{self._name} device={self.device} npu_stream={self.npu_stream:#x}>"


class ExternalStream(Stream):
    """A stream that other code created with aclrtCreateStream*; that code keeps it alive and destroys it.

    Args:
        stream_ptr (int): address of the aclrtStream.
        device: device it belongs to; default the current one.
    """

    def __new__(cls, stream_ptr: Any, device: Device = None, **kwargs: Any) -> Any:
        _state.lazy_init()
        index = _get_device_index(device, optional=True)
        stream_id = _C._external_stream(stream_ptr, index)
        return super().__new__(cls, stream_id=stream_id, device_index=index)


class SyncLaunchStream(Stream):
    """A stream whose operators go to CANN without a queue of the adapter's in between: here every stream is one.

    Args:
        device: device of the stream; default the current one.
        priority (int): negative for a stream of high priority.
    """

    _name = "SyncLaunchStream"


class Event(torch.Event):
    """A mark in a stream that other streams and the host can wait for; made at the first record.

    Args:
        enable_timing (bool): the event keeps its time, for :meth:`elapsed_time`.
        blocking (bool): accepted for torch.cuda's sake; the host always sleeps while it waits.
        interprocess (bool): the event can be sent to another process; excludes ``enable_timing``.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                external: bool = False) -> Any:
        if external:
            raise NotImplementedError("where a graph meets work outside it stands a torch.npu.ExternalEvent")
        if interprocess and enable_timing:
            raise _utils.InvalidValueError("an interprocess event cannot measure time: CANN has no such event")
        enable_timing, blocking = (bool(flag) if isinstance(flag, int) else flag for flag in (enable_timing, blocking))
        self = super().__new__(cls, device="npu", enable_timing=enable_timing, blocking=blocking)
        self._interprocess = interprocess
        if interprocess:
            _state.lazy_init()
        return self

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: Any) -> Any:
        """The event another process exported with :meth:`ipc_handle`. InvalidValueError for a device or a handle that is none."""
        _state.lazy_init()
        self = torch.Event.__new__(cls, device="npu")
        self._interprocess = True
        try:
            _C._event_open_ipc(self, _get_device_index(device, optional=True), handle)
        except ValueError as error:
            raise _utils.InvalidValueError(str(error)) from error
        return self

    def ipc_handle(self) -> bytes:
        """Handle (bytes) for :meth:`from_ipc_handle` of another process; records the event if it was not."""
        if not self._interprocess:
            raise RuntimeError("only an event made with interprocess=True has a handle for other processes")
        if not self.npu_event:
            self.record()
        return _C._event_ipc_handle(self)

    @property
    def device(self) -> Any:  # type: ignore[override]  # it can only be read: the stub does not say so
        """The device (torch.device) that the event was recorded on; None before the first record."""
        return super().device if self.npu_event else None

    @property
    def npu_event(self) -> int:
        """Address of CANN's event (aclrtEvent), an int; 0 before the first record."""
        return _C._event_handle(self)

    def record(self, stream: Any = None) -> None:
        """Records the event on ``stream``, by default the current one."""
        stream = current_stream() if stream is None else stream
        if self._interprocess and not self.npu_event:
            _C._event_record_ipc(self, stream.stream_id, stream.device_index)
        else:
            super().record(stream)
        if _sync_listener.listener is not None:
            _sync_listener.listener.event_recorded(self, stream)

    def wait(self, stream: Any = None) -> None:
        """Makes later work of ``stream``, by default the current one, wait for the event."""
        stream = current_stream() if stream is None else stream
        super().wait(stream)
        if _sync_listener.listener is not None:
            _sync_listener.listener.stream_waits(stream, self)

    def synchronize(self) -> None:
        """The host waits until the event has been reached."""
        super().synchronize()
        if _sync_listener.listener is not None:
            _sync_listener.listener.host_waits_event(self)

    def query(self) -> bool:
        """True if the event has been reached, or was never recorded."""
        done = super().query()
        if done and _sync_listener.listener is not None:
            _sync_listener.listener.host_waits_event(self)
        return done

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to ``end_event``; both need ``enable_timing`` and must have been reached.

        InvalidValueError, a ValueError as torch.cuda's and a RuntimeError as the published one, where that is not so.
        """
        try:
            return _C._event_elapsed_time(self, end_event)
        except ValueError as error:
            raise _utils.InvalidValueError(str(error)) from error

    def recorded_time(self) -> int:
        """Microseconds of the device's clock at which the event was reached, for which this waits; needs ``enable_timing``."""
        return _C._event_recorded_time(self)

    def reset(self, stream: Any = None) -> None:
        """Takes the last record back when ``stream``, by default the current one, comes to this point."""
        stream = current_stream() if stream is None else stream
        _C._event_reset(self, stream.stream_id, stream.device_index)

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.npu_event)

    def __repr__(self) -> str:
        handle = self.npu_event
        return f"<torch_npu.npu.Event {handle:#x}>" if handle else "<torch_npu.npu.Event uninitialized>"


class ExternalEvent(torch.Event):
    """A signal by which work of a graph waits for work outside it, or the other way round.

    A record raises it, a reset lowers it, and a stream that waits goes on once it is raised, also where nobody has recorded it
    yet. In a capture each of the three becomes part of the graph and happens at each replay. It is for streams alone: the host
    cannot wait for it, nor ask, it keeps no time and has no handle for other processes, and each of these is a RuntimeError.
    """

    def __new__(cls) -> Any:
        return super().__new__(cls, device="npu")

    def __init__(self) -> None:
        self._signal = _C._ExternalEvent()

    @property
    def device(self) -> Any:  # type: ignore[override]
        """The device (torch.device) that it belongs to: that of its first use, and before it the current one."""
        index = self._signal.device_index()
        return torch.device("npu", _C._current_device() if index < 0 else index)

    @property
    def npu_event(self) -> int:
        """Address of CANN's event (aclrtEvent), an int; 0 before the first use."""
        return self._signal.handle()

    @property
    def event_id(self) -> int:  # type: ignore[override]
        """0: there is nothing to tell events of this kind apart by but :attr:`npu_event`."""
        return 0

    def record(self, stream: Any = None) -> None:
        """Raises the signal when ``stream``, by default the current one, comes to this point."""
        stream = current_stream() if stream is None else stream
        self._signal.record(stream.stream_id, stream.device_index)

    def wait(self, stream: Any = None) -> None:
        """Makes later work of ``stream``, by default the current one, wait until the signal is raised."""
        stream = current_stream() if stream is None else stream
        self._signal.wait(stream.stream_id, stream.device_index)

    def reset(self, stream: Any = None) -> None:
        """Lowers the signal when ``stream``, by default the current one, comes to this point."""
        stream = current_stream() if stream is None else stream
        self._signal.reset(stream.stream_id, stream.device_index)

    def query(self) -> bool:
        """RuntimeError."""
        raise _for_streams("query")

    def synchronize(self) -> None:
        """RuntimeError."""
        raise _for_streams("synchronize")

    def elapsed_time(self, end_event: Any) -> float:
        """RuntimeError."""
        raise _for_streams("elapsed_time")

    def recorded_time(self) -> int:
        """RuntimeError."""
        raise _for_streams("recorded_time")

    def ipc_handle(self) -> bytes:
        """RuntimeError."""
        raise _for_streams("ipc_handle")

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: Any) -> Any:
        """RuntimeError."""
        raise _for_streams("from_ipc_handle")

    def __repr__(self) -> str:
        return f"<torch_npu.npu.ExternalEvent {self.npu_event:#x}>"


def _for_streams(what: str) -> RuntimeError:
    return RuntimeError(f"ExternalEvent.{what}: a signal is for streams alone; use torch.npu.Event")


def _subscribe_report(op_stream: Any) -> None:
    """For programs that name the stream of :func:`_launch_host_func` first: CANN needs no thread of the program."""


def _unsubscribe_report(op_stream: Any) -> None:
    """See :func:`_subscribe_report`."""


def _launch_host_func(op_stream: Any, fn: Any, user_data: Any = None) -> None:
    """Calls ``fn(user_data)`` on the host when ``op_stream`` comes to this point; in a capture, at each replay.

    What it raises is printed as an exception that nobody could take. It must not wait for the device.
    """
    _C._launch_host_func(op_stream.stream_id, op_stream.device_index, functools.partial(fn, user_data))


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for ``cycles`` cycles of a nominal clock of 1 GHz; the host does not wait."""
    if not 0 <= cycles < 2**63:
        raise ValueError(f"cannot sleep for {cycles} cycles")
    stream = current_stream()
    _C._launch_host_func(stream.stream_id, stream.device_index, functools.partial(time.sleep, cycles / 1e9))


def _wrap(stream_id: int, device_index: int) -> Any:
    return Stream(stream_id=stream_id, device_index=device_index)


def current_stream(device: Device = None) -> Any:
    """The stream this thread submits to on a device; a negative index is the current device."""
    _state.lazy_init()
    index = _utils.index_or_current(device)
    return _wrap(_C._current_stream_id(index), index)


def default_stream(device: Device = None) -> Any:
    """The stream that is current on a device until another is set; a negative index is the current device."""
    _state.lazy_init()
    index = _utils.index_or_current(device)
    return _wrap(_C._default_stream_id(index), index)


def get_stream_from_external(data_ptr: int, device: Device = None) -> Any:
    """The stream at the address ``data_ptr`` that other code created; see :class:`ExternalStream`."""
    return ExternalStream(data_ptr, device)


def set_stream(stream: Any) -> None:
    """Makes ``stream`` and its device current on this thread; None changes nothing. Prefer :func:`stream`."""
    if stream is not None:
        _state.lazy_init()
        _C._set_stream(stream.stream_id, stream.device_index)


class StreamContext:
    """Context manager that makes a stream current, and its device; None changes nothing."""

    def __init__(self, stream_ctx: Any) -> None:
        self.stream = stream_ctx
        self._previous: Any = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        before = current_stream()
        # On another device than the current one, that device's stream has to come back too.
        there = before
        if self.stream.device_index != before.device_index:
            there = current_stream(self.stream.device_index)
        self._previous = (there, before)
        set_stream(self.stream)

    def __exit__(self, *exception: Any) -> None:
        if self._previous is not None:
            for previous in self._previous:
                set_stream(previous)
            self._previous = None


def stream(stream: Any) -> Any:
    """``with torch.npu.stream(s):`` submits to ``s``; None changes nothing."""
    return StreamContext(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: str) -> None:
    _C._set_stream(stream_id, device_index)


def _get_current_raw_stream(device_index: int) -> int:
    return _C._stream_handle(_C._current_stream_id(device_index), device_index)


def erase_stream(tensor: torch.Tensor, stream: Stream) -> None:
    """Ends the claim of ``tensor.record_stream(stream)``: waits until the stream has done what it has, after which the tensor's
    memory is free to be used again with the tensor."""
    stream.synchronize()
