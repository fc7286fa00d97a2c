"""The custom operators in PyTorch: one function each, with the operator's name and arguments.

They are the operators' documentation, their kernels for CPU tensors, their shapes for meta tensors, and what the NPU's
kernels are tested against. Arithmetic of float16 and bfloat16 is done in float32.
"""

from torch_npu._cpu_ops import activation, attention, boxes, formats, loss, matrix, moe, norm, optimizer, quant, \
    recurrent, rotary, rotated_boxes, shape

_FAMILIES = (norm, activation, rotary, attention, shape, matrix, formats, loss, moe, quant, boxes, rotated_boxes, optimizer,
             recurrent)


def find(name):
    """The function of an operator, ``npu_x`` or ``npu_x.overload``; None if there is none."""
    symbol = name.replace(".", "_")
    return next((vars(family)[symbol] for family in _FAMILIES if symbol in family.__all__), None)
