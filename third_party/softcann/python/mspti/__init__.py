"""MSPTI's monitors: callbacks with the kernels, collectives and marks of this process, while it runs.

    monitor = mspti.KernelMonitor()
    monitor.start(lambda kernel: print(kernel.name, kernel.end - kernel.start))
    ...
    monitor.stop()

CANN's names, in Python alone over ``libmspti.so``.
"""
from .constant import (
    MsptiActivityFlag,
    MsptiActivityKind,
    MsptiActivitySourceKind,
    MsptiCommunicationDataType,
    MsptiResult,
)
from .monitors import CommunicationMonitor, HcclMonitor, KernelMonitor, MstxMonitor
from .records import CommunicationData, HcclData, KernelData, MarkerData, MsptiObjectId, RangeMarkerData

__all__ = [
    "CommunicationData", "CommunicationMonitor", "HcclData", "HcclMonitor", "KernelData", "KernelMonitor", "MarkerData",
    "MsptiActivityFlag", "MsptiActivityKind", "MsptiActivitySourceKind", "MsptiCommunicationDataType", "MsptiObjectId",
    "MsptiResult", "MstxMonitor", "RangeMarkerData",
]
