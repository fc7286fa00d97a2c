"""How multiprocessing pickles NPU tensors, storages and events: by handle (Note [Lending memory] in the C++ part).

Works between processes that were spawned: an NPU cannot be used in a forked one.
"""

from multiprocessing.reduction import ForkingPickler
from typing import Any, Tuple

import torch
from torch import Tensor
from torch.multiprocessing import reductions as torch_reductions
from torch.types import Device

from torch_npu import _C


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


def _reduce_npu_tensor(tensor: Tensor) -> Tuple[Any, Any]:
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that is the result of a computation with gradients cannot be sent to another process, because "
            "autograd does not cross processes: send tensor.detach()"
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    cls = torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor
    return _rebuild_tensor, (
        cls,
        tensor.untyped_storage(),
        tensor.dtype,
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
        tensor.requires_grad,
    )


def _reduce_tensor(tensor: Tensor) -> Any:
    if tensor.device.type == "npu" and tensor.layout is torch.strided and not tensor.is_nested:
        return _reduce_npu_tensor(tensor)
    return torch_reductions.reduce_tensor(tensor)


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
    """Takes over the pickling of tensors and storages in multiprocessing; other devices' stay PyTorch's."""
    ForkingPickler.register(torch.Tensor, _reduce_tensor)
    ForkingPickler.register(torch.nn.Parameter, _reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    ForkingPickler.register(torch.npu.Event, _reduce_event)
