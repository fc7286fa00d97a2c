"""Lists of tensors: by kind, in one tensor, their norms."""

from typing import Any, Dict, Iterable, List, Sequence

import torch
from torch import Tensor

__all__ = ["HALF", "by_kind", "flatten", "norm_of_all", "norms", "unflatten"]

HALF = (torch.float16, torch.bfloat16)


def by_kind(tensors: Iterable[Tensor]) -> List[List[Tensor]]:
    """Those of one dtype and device in a list each."""
    kinds: Dict[Any, List[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(kinds.values())


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of ``tensors``, of one type and device, in one tensor of one dimension."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unflatten(flat: Tensor, tensors: Sequence[Tensor]) -> List[Tensor]:
    """``flat`` cut into views of the shapes of ``tensors``."""
    return [part.view(tensor.shape) for part, tensor in zip(flat.split([tensor.numel() for tensor in tensors]), tensors)]


def norms(tensors: List[Tensor], order: float = 2.0) -> Tensor:
    """The norm of each of ``tensors``, in one tensor of one dimension; of half-precision ones in float32."""
    dtype = torch.float32 if tensors[0].dtype in HALF else tensors[0].dtype
    return torch.stack(list(torch._foreach_norm(tensors, order, dtype=dtype)))


def norm_of_all(lists: Sequence[List[Tensor]]) -> Tensor:
    """The 2-norm of all tensors in the lists together, each list of one kind; a tensor of no dimensions."""
    each = [torch.linalg.vector_norm(norms(tensors)) for tensors in lists]
    return torch.linalg.vector_norm(torch.stack([norm.to(each[0]) for norm in each]))
