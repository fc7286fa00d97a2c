"""What the published torch_npu offers beside its operators; each part is imported when it is asked for."""

import importlib
from typing import Any, List

_FUNCTIONS = ("dropout_with_byte_mask",)  # in contrib.function only
_MODULES = ("apex", "function", "lightning", "module", "transfer_to_npu")


def __dir__() -> List[str]:
    from torch_npu import _lazy
    from torch_npu.contrib import function, module

    names = {name for part in (module, function) for name in part.NAMES if name not in _FUNCTIONS}
    return _lazy.listing("torch_npu.contrib", _MODULES, names)()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"torch_npu.contrib.{name}")
    from torch_npu.contrib import function, module

    for part in (module, function):
        if name in part.NAMES and name not in _FUNCTIONS:
            value = globals()[name] = getattr(part, name)
            return value
    raise AttributeError(f"module 'torch_npu.contrib' has no attribute {name!r}")
