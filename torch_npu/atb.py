"""``torch_npu.atb.<operator>``: the operators of Ascend's transformer library that serving calls."""

from typing import Callable, List

from torch_npu import _atb


def __getattr__(name: str) -> Callable:
    if name not in _atb.NAMES:
        raise AttributeError(f"module 'torch_npu.atb' has no attribute {name!r}; it has {', '.join(sorted(_atb.NAMES))}")
    return _atb.function(name)


def __dir__() -> List[str]:
    return sorted(_atb.NAMES)
