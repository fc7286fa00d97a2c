"""Names that programs import from ``torch_npu.npu.utils``."""

import warnings
from typing import Any

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index
from torch_npu.npu.device import (
    current_blas_handle,
    current_device,
    device,
    device_of,
    get_soc_version,
    ipc_collect,
    is_bf16_supported,
    set_device,
    synchronize,
)
from torch_npu.npu.limits import set_op_timeout_ms
from torch_npu.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
    npu_check_overflow,
)
from torch_npu.npu.settings import get_sync_debug_mode, get_task_queue_enable, set_sync_debug_mode, set_task_queue_enable
from torch_npu.npu.streams import (
    StreamContext,
    current_stream,
    default_stream,
    erase_stream as _erase_stream,  # noqa: F401
    set_stream,
    stream,
)

__all__ = [
    "StreamContext", "_get_device_index", "_is_gte_cann_version", "clear_npu_overflow_flag", "current_blas_handle",
    "current_device", "current_stream", "default_stream", "device", "device_of", "get_cann_version", "get_npu_overflow_flag",
    "get_soc_version", "get_sync_debug_mode", "get_task_queue_enable", "ipc_collect", "is_bf16_supported",
    "is_force_overflow_check", "is_support_inf_nan", "npu_check_overflow", "set_device", "set_op_timeout_ms", "set_stream",
    "set_sync_debug_mode", "set_task_queue_enable", "stream", "stress_detect", "synchronize",
]

# What one installation of CANN brings together, with one version.
_PARTS = ("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL")


def get_cann_version(module: str = "CANN") -> str:
    """Version of CANN, such as 8.5.0; "" for a module that is no part of it. RuntimeError for what is no name of a module."""
    if not isinstance(module, str):
        raise RuntimeError(f"get_cann_version: module is a string, got {type(module).__name__}")
    if module not in _PARTS:
        return ""
    from torch_npu import _runtime

    _runtime.use_chosen()
    return _C._cann_version()


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Whether :func:`get_cann_version` is ``version`` or later. ValueError for a module that has none."""
    from torch_npu._cann import version_key

    found = get_cann_version(module)
    if not found:
        raise ValueError(f"the version of {module} is not known: ask for one of {', '.join(_PARTS)}")
    return version_key(found) >= version_key(version)


def is_force_overflow_check() -> bool:
    """False: gradients are looked at where the chip computes with inf and nan, and flags where it saturates."""
    return False


def stress_detect(detect_type: str = "aic") -> int:
    """A stress test of the hardware: 0 passed, 1 the test could not be run, 2 a fault of the hardware.

    Always 1, with a warning: CANN's documented interface has no such test. On a machine with NPUs ``ascend-dmi`` is one.
    """
    del detect_type  # whatever it is, nothing can be run
    warnings.warn("stress_detect: nothing was tested, for CANN's interface has no stress test; ascend-dmi is one", stacklevel=2)
    return 1


def __getattr__(name: str) -> Any:
    if name in ("check_uce_in_memory", "finalize_dump", "init_dump", "obfuscation_calculate", "obfuscation_finalize",
                "obfuscation_initialize", "set_dump"):
        return getattr(torch.npu, name)
    raise AttributeError(f"module 'torch_npu.npu.utils' has no attribute {name!r}")
