"""Settings of a profile that only Ascend's profiler has."""

import logging
from typing import Any, List, Optional, Set, Union

__all__ = [
    "AiCMetrics", "ExportType", "HostSystem", "ProfilerLevel", "reset", "supported_ai_core_metrics", "supported_export_type",
    "supported_profiler_level",
]

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


def reset(name: str, value: Any, default: Any) -> Any:
    """The default of a setting, in place of a value that it does not take."""
    _log.warning("%s=%r is not possible, %r is taken", name, value, default)
    return default


def _one_of(name: str, value: Any, known: Set[str], default: str) -> str:
    return value if value in known else reset(name, value, default)


def _flag(name: str, value: Any, default: bool = False) -> bool:
    return value if isinstance(value, bool) else reset(name, value, default)


def _names(name: str, value: Any) -> List[str]:
    value = value or []
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else reset(name, value, [])


class _ExperimentalConfig:
    """Ascend's settings. ``data_simplification`` False keeps the trace of PyTorch's profiler beside the others.

    A value that a setting does not take becomes its default, with a warning in the log: a profile must not stop a program.
    What has no figures here (counters, ``l2_cache``, ``sys_io``, ``host_sys``, ...) is told once in the log.
    """

    @property
    def export_type(self) -> List[str]:
        """The kinds of files, as a list."""
        return self._export_type

    @property
    def gc_detect_threshold(self) -> Optional[float]:
        """Milliseconds from which on a garbage collection is recorded; None: none is."""
        return self._gc_detect_threshold

    @property
    def with_gc(self) -> bool:
        """Whether garbage collections are recorded."""
        return self._gc_detect_threshold is not None

    @property
    def tx_enabled(self) -> bool:
        """Whether marks of the program are recorded."""
        return self._msprof_tx or self._mstx

    def __init__(self, profiler_level: str = ProfilerLevel.Level0, aic_metrics: str = AiCMetrics.PipeUtilization,
                 l2_cache: bool = False, msprof_tx: bool = False, mstx: bool = False, data_simplification: bool = True,
                 record_op_args: bool = False, op_attr: bool = False, gc_detect_threshold: Optional[float] = None,
                 export_type: Union[str, List[str], None] = ExportType.Text, host_sys: Optional[List[str]] = None,
                 mstx_domain_include: Optional[List[str]] = None, mstx_domain_exclude: Optional[List[str]] = None,
                 sys_io: bool = False, sys_interconnection: bool = False) -> None:
        self._profiler_level = _one_of("profiler_level", profiler_level, supported_profiler_level(), ProfilerLevel.Level0)
        self._aic_metrics = _one_of("aic_metrics", aic_metrics, supported_ai_core_metrics(), AiCMetrics.PipeUtilization)
        if self._profiler_level in (ProfilerLevel.Level_none, ProfilerLevel.Level0):
            self._aic_metrics = AiCMetrics.AiCoreNone
        kinds = export_type if isinstance(export_type, list) else [export_type]
        known = bool(kinds) and all(kind in supported_export_type() for kind in kinds)
        self._export_type: List[Any] = list(kinds) if known else [reset("export_type", export_type, ExportType.Text)]
        self._l2_cache = _flag("l2_cache", l2_cache)
        self._msprof_tx = _flag("msprof_tx", msprof_tx)
        self._mstx = _flag("mstx", mstx)
        self._data_simplification = _flag("data_simplification", data_simplification, True)
        self.record_op_args = _flag("record_op_args", record_op_args)
        self._op_attr = _flag("op_attr", op_attr)
        number = isinstance(gc_detect_threshold, (int, float)) and gc_detect_threshold >= 0
        if gc_detect_threshold is not None and not number:
            gc_detect_threshold = reset("gc_detect_threshold", gc_detect_threshold, None)
        self._gc_detect_threshold = gc_detect_threshold
        names = host_sys or []
        known = isinstance(names, list) and all(name in _values(HostSystem) for name in names)
        self._host_sys = names if known else reset("host_sys", host_sys, [])
        if mstx_domain_include and mstx_domain_exclude:
            mstx_domain_exclude = reset("mstx_domain_exclude (mstx_domain_include is given, too)", mstx_domain_exclude, [])
        self._mstx_domain_include = _names("mstx_domain_include", mstx_domain_include)
        self._mstx_domain_exclude = _names("mstx_domain_exclude", mstx_domain_exclude)
        self._sys_io = _flag("sys_io", sys_io)
        self._sys_interconnection = _flag("sys_interconnection", sys_interconnection)
        unserved = [name for name in ("l2_cache", "op_attr", "host_sys", "sys_io", "sys_interconnection")
                    if getattr(self, "_" + name)]
        if self._aic_metrics != AiCMetrics.AiCoreNone:
            unserved.append("aic_metrics")
        if unserved:
            _log.info("a profile has no figures for %s: N/A in their columns, or no files of theirs", ", ".join(unserved))
