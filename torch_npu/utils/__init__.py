"""Names that users of torch_npu import from torch_npu.utils."""

from typing import Any, List

from torch_npu.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
    npu_check_overflow,
)

__all__ = ["clear_npu_overflow_flag", "get_npu_overflow_flag", "is_support_inf_nan", "npu_check_overflow"]


def __dir__() -> List[str]:
    from torch_npu import _lazy
    from torch_npu._published import names

    return _lazy.listing("torch_npu.utils", names.UTILS, names.UTILS_MODULES)()


def __getattr__(name: str) -> Any:
    from torch_npu._published import names

    if name not in names.UTILS_MODULES and name not in names.UTILS:
        raise AttributeError(f"module 'torch_npu.utils' has no attribute {name!r}")
    value = globals()[name] = names.find("torch_npu.utils", name, names.UTILS, names.UTILS_MODULES)
    return value
