"""Settings of a profile that only Ascend's profiler has."""

import logging
from typing import List, Optional, Set, Union

_log = logging.getLogger("torch_npu.profiler")


class ProfilerLevel:
    """How much is recorded: from Level1 on also what each kernel reads and writes (shapes, dtypes, formats)."""

    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics:
    """Groups of the hardware's counters. They are in the files as N/A: CANN's runtime does not give them to a program."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """Kinds of files: text is CSV and JSON, db SQLite."""

    Text = "text"
    Db = "db"


class HostSystem:
    """Figures of the host's system."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def _values(kind: type) -> Set[str]:
    return {value for name, value in vars(kind).items() if not name.startswith("_")}


def supported_profiler_level() -> Set[str]:
    """The values of :class:`ProfilerLevel`."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> Set[str]:
    """The values of :class:`AiCMetrics`."""
    return _values(AiCMetrics)


def supported_export_type() -> Set[str]:
    """The values of :class:`ExportType`."""
    return _values(ExportType)


class _ExperimentalConfig:
    """Ascend's settings, checked. ``data_simplification`` False keeps the trace of PyTorch's profiler beside the others.

    What has no figures here (counters, ``l2_cache``, ``sys_io``, ``host_sys``, ...) is told once in the log.
    """

    def __init__(self, profiler_level: str = ProfilerLevel.Level0, aic_metrics: str = AiCMetrics.PipeUtilization,
                 l2_cache: bool = False, msprof_tx: bool = False, mstx: bool = False, data_simplification: bool = True,
                 record_op_args: bool = False, op_attr: bool = False, gc_detect_threshold: Optional[float] = None,
                 export_type: Union[str, List[str], None] = ExportType.Text, host_sys: Optional[List[str]] = None,
                 mstx_domain_include: Optional[List[str]] = None, mstx_domain_exclude: Optional[List[str]] = None,
                 sys_io: bool = False, sys_interconnection: bool = False) -> None:
        self._profiler_level = self._known("profiler_level", profiler_level, supported_profiler_level())
        self._aic_metrics = self._known("aic_metrics", aic_metrics, supported_ai_core_metrics())
        if self._profiler_level in (ProfilerLevel.Level_none, ProfilerLevel.Level0):
            self._aic_metrics = AiCMetrics.AiCoreNone
        exports = export_type if isinstance(export_type, list) else [export_type or ExportType.Text]
        self._export_type = [self._known("export_type", kind, supported_export_type()) for kind in exports]
        self._l2_cache = l2_cache
        self._msprof_tx = msprof_tx
        self._mstx = mstx
        self._data_simplification = data_simplification
        self.record_op_args = record_op_args
        self._op_attr = op_attr
        self._gc_detect_threshold = gc_detect_threshold
        self._host_sys = [self._known("host_sys", name, _values(HostSystem)) for name in host_sys or []]
        if mstx_domain_include and mstx_domain_exclude:
            raise ValueError("mstx_domain_include and mstx_domain_exclude: a profile takes one of them")
        self._mstx_domain_include = mstx_domain_include or []
        self._mstx_domain_exclude = mstx_domain_exclude or []
        self._sys_io = sys_io
        self._sys_interconnection = sys_interconnection
        unserved = [name for name in ("l2_cache", "op_attr", "gc_detect_threshold", "host_sys", "sys_io", "sys_interconnection")
                    if getattr(self, "_" + name)]
        if self._aic_metrics != AiCMetrics.AiCoreNone:
            unserved.append("aic_metrics")
        if unserved:
            _log.info("a profile has no figures for %s: N/A in their columns, or no files of theirs", ", ".join(unserved))

    @staticmethod
    def _known(name: str, value: str, known: Set[str]) -> str:
        if value not in known:
            raise ValueError(f"{name}={value!r}: expected one of {', '.join(sorted(known))}")
        return value
