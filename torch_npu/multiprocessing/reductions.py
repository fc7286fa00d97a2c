"""How multiprocessing pickles NPU tensors, storages and events: by handle (Note [Lending memory] in the C++ part).

Works between processes that were spawned: an NPU cannot be used in a forked one.
"""

import struct
from multiprocessing.reduction import ForkingPickler
from typing import Any, Tuple

import torch
from torch import Tensor
from torch.multiprocessing import reductions as torch_reductions
from torch.types import Device

from torch_npu import _C

__all__ = ["collect", "rebuild_npu_tensor", "reduce_tensor", "register"]

_torch_reduce_tensor = torch_reductions.reduce_tensor
_COUNTER = struct.Struct("=qqQ")  # the process that lends, its file of counters, that file's token


def collect() -> int:
    """Frees what was sent and has been given back; returns the bytes still lent to other processes."""
    return _C._ipc_collect()


def _rebuild_storage(handle: Any, device: Device) -> Any:
    torch.npu._lazy_init()
    if handle is None:
        return torch.UntypedStorage(0, device=device)
    return _C._ipc_borrow(handle)


def _reduce_npu_storage(storage: Any) -> Tuple[Any, Any]:
    handle = _C._ipc_lend(storage) if storage.nbytes() else None
    return _rebuild_storage, (handle, str(storage.device))


def _rebuild_tensor(cls: Any, storage: Any, dtype: torch.dtype, offset: Any, size: int, stride: Any, requires_grad: Any) -> Any:
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, offset, size, stride)
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _to_be_sent(tensor: Tensor) -> Tuple[type, Tensor]:
    """The class that the receiver makes, and the tensor without lazy conjugation or negation; refuses to lose gradients."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that is the result of a computation with gradients cannot be sent to another process, because "
            "autograd does not cross processes: send tensor.detach()"
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)
    cls = torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return cls, tensor


def _reduce_npu_tensor(tensor: Tensor) -> Tuple[Any, Any]:
    cls, tensor = _to_be_sent(tensor)
    return _rebuild_tensor, (
        cls,
        tensor.untyped_storage(),
        tensor.dtype,
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
        tensor.requires_grad,
    )


def rebuild_npu_tensor(
    tensor_cls: Any,
    tensor_size: Any,
    tensor_stride: Any,
    tensor_offset: int,
    storage_cls: Any,
    dtype: torch.dtype,
    storage_device: int,
    storage_handle: bytes,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: bytes,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> Tensor:
    """The tensor that reduce_tensor() described, in the memory of the process that lends it; once for each description.

    The places are those of torch's rebuild_cuda_tensor: a receiver that numbers its devices otherwise changes the seventh,
    storage_device. reduce_tensor() waits for the lender's stream, so there is no event to wait for.
    """
    if event_sync_required or event_handle:
        raise ValueError("reduce_tensor() makes no events for NPUs; give what it returned, at most with another storage_device")
    handle = None
    if storage_handle:
        counter = (*_COUNTER.unpack(ref_counter_handle), ref_counter_offset)
        handle = (*counter, storage_device, storage_handle, storage_offset_bytes, storage_size_bytes)
    storage = _rebuild_storage(handle, torch.device("npu", storage_device))
    return _rebuild_tensor(tensor_cls, storage, dtype, tensor_offset, tensor_size, tensor_stride, requires_grad)


def reduce_tensor(tensor: Tensor) -> Tuple[Any, Any]:
    """torch.multiprocessing.reductions.reduce_tensor(): for a dense tensor of an NPU rebuild_npu_tensor and its arguments,
    plain values that any pickle carries. The memory is kept until the receiver frees its tensor."""
    if tensor.device.type != "npu" or tensor.layout is not torch.strided or tensor.is_nested:
        return _torch_reduce_tensor(tensor)
    cls, tensor = _to_be_sent(tensor)
    storage = tensor.untyped_storage()
    lent = _C._ipc_lend(storage) if storage.nbytes() else (0, 0, 0, 0, storage.device.index, b"", 0, 0)
    *counter, slot, device, key, offset, size = lent
    return rebuild_npu_tensor, (
        cls, tensor.size(), tensor.stride(), tensor.storage_offset(), type(storage), tensor.dtype, device, key, size, offset,
        tensor.requires_grad, _COUNTER.pack(*counter), slot, b"", False,
    )


def _reduce_tensor(tensor: Tensor) -> Any:
    if tensor.device.type == "npu" and tensor.layout is torch.strided and not tensor.is_nested:
        return _reduce_npu_tensor(tensor)
    return _torch_reduce_tensor(tensor)


def _reduce_storage(storage: Any) -> Any:
    if storage.device.type == "npu":
        return _reduce_npu_storage(storage)
    return torch_reductions.reduce_storage(storage)


def _rebuild_event(device: Device, handle: Any) -> Any:
    return torch.npu.Event.from_ipc_handle(device, handle)


def _reduce_event(event: Any) -> Tuple[Any, Any]:
    handle = event.ipc_handle()  # first: an event that was never recorded has no device yet
    return _rebuild_event, (event.device.index, handle)


def register() -> None:
    """Takes over the pickling of tensors and storages in multiprocessing; other devices' stay PyTorch's.

    Those that send weights between processes call reduce_tensor() by name, so that is ours, too.
    """
    torch_reductions.reduce_tensor = reduce_tensor
    ForkingPickler.register(torch.Tensor, _reduce_tensor)
    ForkingPickler.register(torch.nn.Parameter, _reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    ForkingPickler.register(torch.npu.Event, _reduce_event)
