"""Tensors of files that the published torch_npu wrote for torch before 2.1; the other names are those of torch.storage."""

import sys
from types import FrameType
from typing import Any, Dict, Optional, Union

import torch
from torch.storage import *  # noqa: F403


def _rebuild_npu_tensor(storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
                        backward_hooks: Dict[int, Any], npu_storage_info: Union[bool, int]) -> torch.Tensor:
    """What such a file names as the function that makes its tensors. The bytes lie there as a tensor of the CPU; the tensor comes
    to the current NPU, in the storage format that ``npu_storage_info`` tells, unless ``map_location`` says where.
    """
    tensor = torch._utils._rebuild_tensor(storage, storage_offset, size, stride)
    chosen = torch.serialization._serialization_tls.map_location
    if chosen is None or isinstance(chosen, dict):
        if not _read_later():
            tensor = tensor.npu()
    if tensor.is_npu and not isinstance(npu_storage_info, bool):
        import torch_npu

        tensor = torch_npu.npu_format_cast(tensor, npu_storage_info)
    tensor.requires_grad = requires_grad
    tensor._backward_hooks = backward_hooks
    return tensor


def _read_later() -> bool:
    """Whether torch reads the bytes after it made the tensors, as it does from files that are no zip archives: a copy would
    have none of them, so that such tensors stay where torch.load put them."""
    frame: Optional[FrameType] = sys._getframe()
    while frame and frame.f_code is not torch.serialization._legacy_load.__code__:
        frame = frame.f_back
    return frame is not None


def _register() -> None:
    """torch.load reads them without weights_only=False."""
    torch.serialization.add_safe_globals([_rebuild_npu_tensor])
