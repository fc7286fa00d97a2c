"""The monitors: each has a callback for records of its kind."""
import ctypes
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

from .constant import MsptiActivityFlag, MsptiActivityKind, MsptiResult
from .records import LAYOUTS, CommunicationData, HcclData, KernelData, MarkerData, RangeMarkerData

_REQUEST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                            ctypes.POINTER(ctypes.c_size_t))
_COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_MAX_BUFFER = 256   # MiB
_INVALID = MsptiResult.MSPTI_ERROR_INVALID_PARAMETER


class _Session:
    """The one subscriber of this process, shared by all monitors."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.receivers: Dict[int, Callable[[Any], None]] = {}
        self.subscriber: Optional[ctypes.c_void_p] = None
        self.buffer_bytes = 8 << 20
        self.buffers: Dict[int, Any] = {}
        self._library: Any = None
        self._functions = (_REQUEST(self._request), _COMPLETE(self._complete))  # as long as the library may call them

    def library(self) -> Any:
        """OSError where libmspti.so is not on the library path (`python -m softcann env`)."""
        if self._library is None:
            library = ctypes.CDLL("libmspti.so")
            library.msptiActivityGetNextRecord.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
            library.msptiUnsubscribe.argtypes = [ctypes.c_void_p]
            self._library = library
        return self._library

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        made = ctypes.create_string_buffer(self.buffer_bytes)
        address = ctypes.addressof(made)
        self.buffers[address] = made
        buffer[0], size[0], most[0] = address, self.buffer_bytes, 0

    def _complete(self, buffer: int, size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        while self.library().msptiActivityGetNextRecord(buffer, valid, ctypes.byref(record)) == 0:
            address = record.value or 0
            kind = ctypes.c_uint32.from_address(address).value
            receiver = self.receivers.get(kind)
            if receiver is None:
                continue
            try:
                receiver(LAYOUTS[kind].from_address(address))
            except Exception:  # the thread is the library's: nobody above would see it
                print("mspti: a callback failed:", file=sys.stderr)
                traceback.print_exc()
        self.buffers.pop(buffer, None)

    def begin(self, kind: int, receiver: Callable[[Any], None]) -> MsptiResult:
        library = self.library()
        with self.lock:
            if self.subscriber is None:
                subscriber = ctypes.c_void_p()
                code = library.msptiSubscribe(ctypes.byref(subscriber), None, None)
                code = code or library.msptiActivityRegisterCallbacks(*self._functions)
                if code:
                    return MsptiResult(code)
                self.subscriber = subscriber
            self.receivers[kind] = receiver
            return MsptiResult(library.msptiActivityEnable(kind))

    def end(self, kind: int) -> MsptiResult:
        library = self.library()
        with self.lock:
            if kind not in self.receivers:
                return MsptiResult.MSPTI_SUCCESS
            code = library.msptiActivityDisable(kind) or library.msptiActivityFlushAll(1)
            del self.receivers[kind]
            if not self.receivers and self.subscriber is not None:
                code = code or library.msptiUnsubscribe(self.subscriber)
                self.subscriber = None
            return MsptiResult(code)


_session = _Session()


class _Monitor:
    _kind: MsptiActivityKind
    _data: Any

    def start(self, cb: Callable[[Any], None]) -> MsptiResult:
        """Calls ``cb`` with each record from now on, on a thread of the library's or in :meth:`flush_all`."""
        if not callable(cb):
            return _INVALID
        make = self._data
        return _session.begin(self._kind.value, lambda record: cb(make(record)))

    def stop(self) -> MsptiResult:
        """Gives what waits, and calls no more."""
        return _session.end(self._kind.value)

    @staticmethod
    def flush_all() -> MsptiResult:
        """Gives what waits, now."""
        return MsptiResult(_session.library().msptiActivityFlushAll(1))

    @staticmethod
    def flush_period(time_ms: int) -> MsptiResult:
        """Gives what waits every so many milliseconds; 0: only when there is much, or at a flush."""
        if not isinstance(time_ms, int) or time_ms < 0:
            return _INVALID
        return MsptiResult(_session.library().msptiActivityFlushPeriod(time_ms))

    @staticmethod
    def set_buffer_size(size: int) -> MsptiResult:
        """The size of a buffer of records in MiB, 1 to 256."""
        if not isinstance(size, int) or not 0 < size <= _MAX_BUFFER:
            return _INVALID
        _session.buffer_bytes = size << 20
        return MsptiResult.MSPTI_SUCCESS


class KernelMonitor(_Monitor):
    """Kernels that ran: :class:`mspti.KernelData`."""

    _kind, _data = MsptiActivityKind.MSPTI_ACTIVITY_KIND_KERNEL, KernelData


class HcclMonitor(_Monitor):
    """Collectives that ran, with their bandwidth: :class:`mspti.HcclData`."""

    _kind, _data = MsptiActivityKind.MSPTI_ACTIVITY_KIND_HCCL, HcclData


class CommunicationMonitor(_Monitor):
    """Collectives that ran, with their elements: :class:`mspti.CommunicationData`."""

    _kind, _data = MsptiActivityKind.MSPTI_ACTIVITY_KIND_COMMUNICATION, CommunicationData


class MstxMonitor(_Monitor):
    """Marks and ranges of the program (mstx): :class:`mspti.MarkerData`, :class:`mspti.RangeMarkerData`."""

    _kind, _data = MsptiActivityKind.MSPTI_ACTIVITY_KIND_MARKER, MarkerData
    _INSTANTS = (MsptiActivityFlag.MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS,
                 MsptiActivityFlag.MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS_WITH_DEVICE)
    _BEGINS = (MsptiActivityFlag.MSPTI_ACTIVITY_FLAG_MARKER_START,
               MsptiActivityFlag.MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE)

    def start(self, mark_cb: Optional[Callable[[MarkerData], None]] = None,  # type: ignore[override]
              range_cb: Optional[Callable[[RangeMarkerData], None]] = None) -> MsptiResult:
        """Calls ``mark_cb`` with each mark and ``range_cb`` with each range that has ended, of host and device apart."""
        if not callable(mark_cb) and not callable(range_cb):
            return _INVALID
        begins: Dict[Tuple[int, Any], MarkerData] = {}

        def receive(record: Any) -> None:
            marker = MarkerData(record)
            key = (marker.id, marker.source_kind)
            if marker.flag in self._INSTANTS:
                if mark_cb is not None:
                    mark_cb(marker)
            elif marker.flag in self._BEGINS:
                begins[key] = marker
            elif key in begins:
                begin = begins.pop(key)
                if range_cb is not None:
                    range_cb(RangeMarkerData(begin, marker))

        return _session.begin(self._kind.value, receive)

    @staticmethod
    def enable_domain(domain_name: str) -> MsptiResult:
        """Tells the marks of a domain again."""
        return MstxMonitor._domain("Enable", domain_name)

    @staticmethod
    def disable_domain(domain_name: str) -> MsptiResult:
        """Tells the marks of a domain no more."""
        return MstxMonitor._domain("Disable", domain_name)

    @staticmethod
    def _domain(what: str, name: Any) -> MsptiResult:
        if not isinstance(name, str) or not name:
            return _INVALID
        return MsptiResult(getattr(_session.library(), f"msptiActivity{what}MarkerDomain")(name.encode()))
