"""The codes ``ERRxxyyy`` that programs for the published torch_npu look for in messages: xx the module, yyy the cause."""

import enum
import os
import time


class ErrCode(enum.Enum):
    """Causes; the value is (number, text)."""

    SUCCESS = (0, "success")
    PARAM = (1, "invalid parameter")
    TYPE = (2, "invalid type")
    VALUE = (3, "invalid value")
    PTR = (4, "invalid pointer")
    INTERNAL = (5, "internal error")
    MEMORY = (6, "memory error")
    NOT_SUPPORT = (7, "feature not supported")
    NOT_FOUND = (8, "resource not found")
    UNAVAIL = (9, "resource unavailable")
    SYSCALL = (10, "system call failed")
    TIMEOUT = (11, "timeout error")
    PERMISSION = (12, "permission error")
    ACL = (100, "call acl api failed")
    HCCL = (200, "call hccl api failed")
    GE = (300, "call ge api failed")
    EXCEPT = (999, "application exception")

    @property
    def code(self) -> int:
        """The number alone."""
        return self.value[0]

    @property
    def msg(self) -> str:
        """The text alone."""
        return self.value[1]


_MODULES = {"PTA": 0, "OPS": 1, "DIST": 2, "GRAPH": 3, "PROF": 4}


def _line(module: str, error: ErrCode) -> str:
    import torch

    device = torch.npu.current_device() if torch.npu.is_initialized() else -1
    dist = torch.distributed
    rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else -1
    when = time.strftime("%Y-%m-%d-%H:%M:%S")
    number = f"ERR{_MODULES[module]:02d}{error.code:03d}"
    return f"\n[ERROR] {when} (PID:{os.getpid()}, Device:{device}, RankID:{rank}) {number} {module} {error.msg}"


def pta_error(error: ErrCode) -> str:
    """The line to append to a message about the adapter itself."""
    return _line("PTA", error)


def ops_error(error: ErrCode) -> str:
    """As :func:`pta_error`, for operators."""
    return _line("OPS", error)


def dist_error(error: ErrCode) -> str:
    """As :func:`pta_error`, for torch.distributed."""
    return _line("DIST", error)


def graph_error(error: ErrCode) -> str:
    """As :func:`pta_error`, for graphs."""
    return _line("GRAPH", error)


def prof_error(error: ErrCode) -> str:
    """As :func:`pta_error`, for the profiler."""
    return _line("PROF", error)
