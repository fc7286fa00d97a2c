"""``torch_npu.atb.<operator>``: the operators of Ascend's transformer library that serving calls."""

from typing import Callable, List

from torch_npu._ops import atb


def __getattr__(name: str) -> Callable:
    if name not in atb.NAMES:
        raise AttributeError(f"module 'torch_npu.atb' has no attribute {name!r}; it has {', '.join(sorted(atb.NAMES))}")
    return atb.function(name)


def __dir__() -> List[str]:
    return sorted(atb.NAMES)
