"""The custom operators in PyTorch: one function each, with the operator's name.

They are the operators' documentation, their kernels for CPU tensors, their shapes for meta tensors, and what the NPU's
kernels are tested against. Those that CANN has no operator for (torch_npu/_ops/composed.py) run so
on the NPU, too. Arithmetic of float16 and bfloat16 is done in float32. The arguments are the schema's; a function names
those that it uses, and refuses or ignores the others through ``unsupported`` (_common.py).
"""

import importlib
import pkgutil
from typing import Callable, Optional

# Every module here that is not private is a family of operators.
_FAMILIES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
             if not module.name.startswith("_")]


def find(name: str) -> Optional[Callable]:
    """The function of an operator, ``npu_x`` or ``npu_x.overload``; None if there is none."""
    symbol = name.replace(".", "_")
    return next((vars(family)[symbol] for family in _FAMILIES if symbol in vars(family)), None)
