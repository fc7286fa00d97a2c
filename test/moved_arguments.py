"""Arguments of operators on the NPU and in wider types, for comparisons."""
import torch
from torch.utils._pytree import tree_map


def on_npu(value):
    """Tensors, and the device where it is an argument, in whatever holds them."""
    def moved(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.npu()
        return torch.device("npu") if leaf in ("cpu", torch.device("cpu")) else leaf
    return tree_map(moved, value)


def in_double(value):
    """A tensor of floating point or complex numbers as float64 or complex128, and whether it requires a gradient; others as they are."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return value.detach().to(torch.complex128 if value.is_complex() else torch.float64).requires_grad_(value.requires_grad)
