"""The custom operators in PyTorch: one function each, with the operator's name and arguments.

They are the operators' documentation, their kernels for CPU tensors, their shapes for meta tensors, and what the NPU's
kernels are tested against. Arithmetic of float16 and bfloat16 is done in float32.
"""

from typing import Callable, Optional

from torch_npu._cpu_ops import (
    activation,
    attention,
    boxes,
    detection,
    formats,
    gradients,
    loss,
    matrix,
    moe,
    norm,
    optimizer,
    quant,
    recurrent,
    rotary,
    rotated_boxes,
    shape,
)

_FAMILIES = (
    activation,
    attention,
    boxes,
    detection,
    formats,
    gradients,
    loss,
    matrix,
    moe,
    norm,
    optimizer,
    quant,
    recurrent,
    rotary,
    rotated_boxes,
    shape,
)


def find(name: str) -> Optional[Callable]:
    """The function of an operator, ``npu_x`` or ``npu_x.overload``; None if there is none."""
    symbol = name.replace(".", "_")
    return next((vars(family)[symbol] for family in _FAMILIES if symbol in family.__all__), None)
