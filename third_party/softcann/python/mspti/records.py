"""What monitors give to callbacks. Times are nanoseconds since the epoch."""
import ctypes
from typing import Any, Dict

from .constant import (
    MsptiActivityFlag,
    MsptiActivityKind,
    MsptiActivitySourceKind,
    MsptiCommunicationDataType,
)

_U32, _U64, _TEXT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p


def _layout(*fields: Any) -> type:
    """A packed record; the first field of each is its kind."""
    return type("Record", (ctypes.Structure,), {"_pack_": 1, "_fields_": [("kind", _U32), *fields]})


# By kind, the records of mspti.h.
LAYOUTS: Dict[int, Any] = {
    MsptiActivityKind.MSPTI_ACTIVITY_KIND_MARKER.value: _layout(
        ("flag", _U32), ("sourceKind", _U32), ("timestamp", _U64), ("id", _U64), ("first", _U32), ("second", _U32),
        ("name", _TEXT), ("domain", _TEXT)),
    MsptiActivityKind.MSPTI_ACTIVITY_KIND_KERNEL.value: _layout(
        ("start", _U64), ("end", _U64), ("deviceId", _U32), ("streamId", _U32), ("correlationId", _U64), ("type", _TEXT),
        ("name", _TEXT)),
    MsptiActivityKind.MSPTI_ACTIVITY_KIND_HCCL.value: _layout(
        ("start", _U64), ("end", _U64), ("deviceId", _U32), ("streamId", _U32), ("bandWidth", ctypes.c_double), ("name", _TEXT),
        ("commName", _TEXT)),
    MsptiActivityKind.MSPTI_ACTIVITY_KIND_COMMUNICATION.value: _layout(
        ("dataType", _U32), ("count", _U64), ("deviceId", _U32), ("streamId", _U32), ("start", _U64), ("end", _U64),
        ("algType", _TEXT), ("name", _TEXT), ("commName", _TEXT), ("correlationId", _U64)),
}


def _text(value: Any) -> str:
    return value.decode(errors="replace") if value else ""


class _Task:
    """What ran on a device, and when."""

    def __init__(self, record: Any) -> None:
        self.kind = MsptiActivityKind(record.kind)
        self.start: int = record.start
        self.end: int = record.end
        self.device_id: int = record.deviceId
        self.stream_id: int = record.streamId
        self.name = _text(record.name)


class KernelData(_Task):
    """A kernel that ran."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.correlation_id: int = record.correlationId
        self.type = _text(record.type)


class HcclData(_Task):
    """A collective that ran; ``bandwidth`` is GB/s of its own message."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.bandwidth: float = record.bandWidth
        self.comm_name = _text(record.commName)


class CommunicationData(_Task):
    """A collective that ran, with its elements."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.data_type = MsptiCommunicationDataType(record.dataType)
        self.count: int = record.count
        self.alg_type = _text(record.algType)
        self.comm_name = _text(record.commName)
        self.correlation_id: int = record.correlationId


class MsptiObjectId:
    """Process and thread of a mark on the host, device and stream of one on the device; the others are -1."""

    def __init__(self, process_id: int = -1, thread_id: int = -1, device_id: int = -1, stream_id: int = -1) -> None:
        self.process_id = process_id
        self.thread_id = thread_id
        self.device_id = device_id
        self.stream_id = stream_id


class MarkerData:
    """A mark, or one end of a range."""

    def __init__(self, record: Any) -> None:
        self.kind = MsptiActivityKind(record.kind)
        self.flag = MsptiActivityFlag(record.flag)
        self.source_kind = MsptiActivitySourceKind(record.sourceKind)
        self.timestamp: int = record.timestamp
        self.id: int = record.id
        on_host = self.source_kind is MsptiActivitySourceKind.MSPTI_ACTIVITY_SOURCE_KIND_HOST
        places = (record.first, record.second)
        self.object_id = MsptiObjectId(*places) if on_host else MsptiObjectId(-1, -1, *places)
        self.name = _text(record.name)
        self.domain = _text(record.domain)


class RangeMarkerData:
    """A range that has ended."""

    def __init__(self, begin: MarkerData, end: MarkerData) -> None:
        self.kind = begin.kind
        self.source_kind = begin.source_kind
        self.id = begin.id
        self.object_id = begin.object_id
        self.name = begin.name
        self.domain = begin.domain
        self.start = begin.timestamp
        self.end = end.timestamp
