"""Tools for finding faults that an environment variable switches on; each is imported only then."""

from torch_npu import _options
from torch_npu._debug import logs


def _is_on(name: str) -> bool:
    """ValueError where the variable is neither 0 nor 1."""
    value = _options.variable(name)
    if value not in ("0", "1"):
        raise ValueError(f"{name}={value}: expected 0 or 1")
    return value == "1"


def from_environment() -> None:
    """Called once, at the end of ``import torch_npu``."""
    logs.watch()
    if _is_on("ACL_DUMP_DATA"):
        from torch_npu.npu import dump

        dump.start_from_environment()
    if _options.get("check_nan_inf"):
        from torch_npu._debug import numbers

        numbers.follow(True)
    if _is_on("TORCH_NPU_SANITIZER"):
        from torch_npu.npu import _sanitizer

        _sanitizer.enable_npu_sanitizer()
    if _options.variable("TORCH_NPU_SHADOW"):
        from torch_npu.npu import shadow

        shadow.start_from_environment(_options.variable("TORCH_NPU_SHADOW"))
