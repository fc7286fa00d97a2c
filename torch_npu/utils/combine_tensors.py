"""Several tensors in one stretch of memory."""

from typing import List, Optional

import torch

from torch_npu.npu._utils import InvalidValueError

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


def npu_combine_tensors(list_of_tensor: List[torch.Tensor], require_copy_value: bool = True) -> Optional[torch.Tensor]:
    """A flat tensor that holds all elements, and of which the tensors of the list become parts, in order.

    They have one dtype and one device and are dense. ``require_copy_value`` False: their values are lost. None for
    an empty list.
    """
    if not list_of_tensor:
        return None
    if any(tensor is None for tensor in list_of_tensor):
        raise InvalidValueError("npu_combine_tensors: one of the tensors is None")
    first = list_of_tensor[0]
    for tensor in list_of_tensor:
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise InvalidValueError(f"npu_combine_tensors: all tensors are {first.dtype} on {first.device}, "
                                    f"but one is {tensor.dtype} on {tensor.device}")
        if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
            raise InvalidValueError("npu_combine_tensors: a tensor has gaps or overlaps: make it contiguous")
    combined = torch.zeros(sum(tensor.numel() for tensor in list_of_tensor), dtype=first.dtype, device=first.device)
    begin = 0
    with torch.no_grad():
        for tensor in list_of_tensor:
            part = combined.as_strided(tensor.size(), tensor.stride(), begin)
            if require_copy_value:
                part.copy_(tensor)
            tensor.data = part
            begin += tensor.numel()
    return combined


def is_combined_tensor_valid(combined_tensor: torch.Tensor, list_of_tensor: List[torch.Tensor]) -> bool:
    """Whether the tensors still lie in the combined one, one behind the other."""
    begin = combined_tensor.data_ptr() if combined_tensor is not None else None
    for tensor in list_of_tensor:
        if tensor.data_ptr() != begin:
            return False
        begin += tensor.numel() * tensor.element_size()
    return bool(list_of_tensor)


def get_part_combined_tensor(combined_tensor: Optional[torch.Tensor], index: int, size: int) -> Optional[torch.Tensor]:
    """``size`` elements of the combined tensor from ``index`` on, a flat view; None of None, which stands for no tensors,
    and where no elements are asked for."""
    if combined_tensor is None or size == 0:
        return None
    if not 0 <= index <= index + size <= combined_tensor.numel():
        raise InvalidValueError(f"elements {index} to {index + size} of a combined tensor of {combined_tensor.numel()}")
    return combined_tensor[index:index + size]
