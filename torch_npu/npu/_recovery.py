"""Going on after a failure, in the same process: docs/recovery.md has the recipe.

``torch.npu.stop_device``, ``restart_device``, ``reset_device`` and ``check_uce_in_memory`` are here, and the marks on tensors
whose contents nobody vouches for any more: a restart puts one on every tensor of the device, ``update_npu_tensor_to_safe`` takes
it off once the program has filled the tensor again. A mark belongs to the address, and outlives the tensor until it is taken
off. The marks inform; operators do not look at them.
"""

import threading
from typing import Dict, List, Sequence, Tuple, Union

import torch

from torch_npu import _C
from torch_npu.npu import _state

_STOP_PATIENCE_MS = 30000
_lock = threading.Lock()
_unsafe: Dict[int, int] = {}   # address of a storage -> its device

_Storage = Union[torch.TypedStorage, torch.UntypedStorage]


def stop_device(device_id: int) -> int:
    """Drops the work that is queued on a device, from any thread. Returns 0, or 1 when running work did not end within 30 s.

    A thread that waits for a stream which had work gets an error with the code 107022. Call :func:`restart_device` then.
    """
    _state.lazy_init()
    _C._check_device(device_id)
    try:
        _C._abort_device(device_id, _STOP_PATIENCE_MS)
    except torch.AcceleratorError:
        return 1
    return 0


def restart_device(device_id: int, rebuild_all_resources: bool = False, disable_tensor_unsafe_check: bool = False) -> None:
    """Makes a device usable again after a failure or :func:`stop_device`: errors that nobody was told are forgotten.

    Tensors of the device keep their memory, but what failed may not have written them: each is marked unsafe, unless
    ``disable_tensor_unsafe_check``. ``rebuild_all_resources`` also gives cached memory back. Raises torch.AcceleratorError when
    the device cannot go on: then the process has to be started again.
    """
    _state.lazy_init()
    _C._forget_failures(device_id)
    if rebuild_all_resources:
        torch.npu.empty_cache()
    if not disable_tensor_unsafe_check:
        mark_all_npu_tensor_unsafe(device_id)


def reset_device(device_id: int) -> None:
    """:func:`stop_device` and :func:`restart_device` in one, with cached memory given back.

    Raises RuntimeError when running work does not end, and torch.AcceleratorError as :func:`restart_device` does.
    """
    if stop_device(device_id) != 0:
        raise RuntimeError(f"npu:{device_id}: work that is running did not end within {_STOP_PATIENCE_MS // 1000} s; "
                           "the process has to be started again")
    restart_device(device_id, rebuild_all_resources=True)


def check_uce_in_memory(device_id: int) -> int:
    """Where memory errors of a device are that its ECC could not correct.

    0: there are none. 1: in memory that is not the allocator's: the process has to end. 2: in memory that was only cached; it has
    been given back, and work may go on. 3: in tensors, which are marked unsafe: fill them again.
    """
    _state.lazy_init()
    pieces = _C._damaged_memory(device_id)
    if not pieces:
        return 0
    if not _blocks_hit(device_id, pieces, False):
        return 1
    with torch.npu.device(device_id):
        torch.npu.empty_cache()
    hit = _blocks_hit(device_id, pieces, False)
    if not hit:
        return 2
    with _lock:
        _unsafe.update(dict.fromkeys(_blocks_hit(device_id, pieces, True), device_id))
    return 3


def _blocks_hit(device: int, pieces: Sequence[Tuple[int, int]], active: bool) -> List[int]:
    """Addresses of the blocks that overlap ``pieces``, (address, bytes); of those in use if ``active``."""
    hit = []
    for segment in torch.npu.memory_snapshot():
        if segment["device"] != device:
            continue
        for block in segment["blocks"]:
            begin, end = block["address"], block["address"] + block["size"]
            used = block["state"] != "inactive"
            if (used or not active) and any(at < end and begin < at + size for at, size in pieces):
                hit.append(begin)
    return hit


def mark_all_npu_tensor_unsafe(device: int) -> None:
    """Marks every tensor that has memory of the device now."""
    addresses = _blocks_hit(device, [(0, 2**64)], True)
    with _lock:
        _unsafe.update(dict.fromkeys(addresses, device))


def check_npu_storage_is_safe(storage_obj: _Storage) -> bool:
    """False if the storage is marked. Raises TypeError for what is no storage."""
    if not isinstance(storage_obj, (torch.TypedStorage, torch.UntypedStorage)):
        raise TypeError(f"expected a storage, got {type(storage_obj).__name__}")
    with _lock:
        return storage_obj.data_ptr() not in _unsafe


def check_npu_tensor_is_safe(tensor_obj: torch.Tensor) -> bool:
    """False if the tensor's storage is marked. Raises TypeError for what is no tensor."""
    return check_npu_storage_is_safe(_storage_of(tensor_obj))


def update_npu_storage_to_safe(storage_obj: _Storage) -> None:
    """Takes the mark off a storage whose contents the program vouches for. Raises TypeError for what is no storage."""
    check_npu_storage_is_safe(storage_obj)
    with _lock:
        _unsafe.pop(storage_obj.data_ptr(), None)


def update_npu_tensor_to_safe(tensor_obj: torch.Tensor) -> None:
    """The same for a tensor's storage. Raises TypeError for what is no tensor."""
    update_npu_storage_to_safe(_storage_of(tensor_obj))


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    return tensor.untyped_storage()


def set_npu_tensor_unsafe_check_flag(flag: bool) -> None:
    """Only False can be set: operators do not look at the marks. Raises NotImplementedError for True."""
    if flag:
        raise NotImplementedError("operators of this torch_npu do not refuse marked tensors; ask check_npu_tensor_is_safe()")


def get_npu_tensor_unsafe_check_flag() -> bool:
    """Always False, see :func:`set_npu_tensor_unsafe_check_flag`."""
    return False
