"""Devices: how many, which is current, what they are."""

import functools
import warnings
from typing import Any, List, Optional, Tuple

from torch.types import Device

from torch_npu import _C, _options, _runtime
from torch_npu.npu import _state, _sync_listener, _utils
from torch_npu.npu._utils import _get_device_index, current_device, fixed  # noqa: F401 - torch.npu.device.current_device

__all__ = [
    "can_device_access_peer", "current_blas_handle", "device", "device_count", "device_of", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_soc_version", "ipc_collect", "is_available",
    "is_bf16_supported", "set_device", "synchronize",
]


@fixed
def device_count() -> int:
    """Number of NPUs this process sees; 0 when there is no usable CANN (a warning then says why)."""
    try:
        _runtime.use_chosen()
        return _C._device_count()
    except (RuntimeError, ValueError) as error:
        warnings.warn(f"no NPU can be used: {error}", RuntimeWarning, stacklevel=2)
        return 0


@fixed
def is_available() -> bool:
    """True if at least one NPU can be used. Never raises."""
    try:
        _runtime.use_chosen()
        return _C._device_count() > 0
    except (RuntimeError, ValueError):
        return False


def set_device(device: Device) -> None:
    """Makes ``device`` current on this thread, for libraries that call CANN themselves, too. A negative index does nothing.
    Prefer :class:`device`."""
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _state.lazy_init()
        _C._set_device(index)


def _exchange_device(index: int) -> int:
    if index < 0:
        return -1
    _state.lazy_init()
    return _C._exchange_device(index)


def _maybe_exchange_device(index: int) -> Any:
    return _exchange_device(index)


class device:
    """Context manager that makes a device current; a negative index or None changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exception: Any) -> Any:
        _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; nothing for other devices."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_npu else -1)


def synchronize(device: Device = None) -> None:
    """Waits for everything on all streams of a device, with a negative index of the current one; raises the error of a task
    that failed."""
    _state.lazy_init()
    index = _utils.index_or_current(device)
    _C._synchronize_device(index)
    if _sync_listener.listener is not None:
        _sync_listener.listener.host_waits_device(index)


def get_device_properties(device_name: Device = None, *, device: Device = None) -> Any:
    """Properties of a device: ``name``, ``total_memory`` (bytes), ``multi_processor_count`` (vector cores,
    as the published torch_npu counts), ``cube_core_num``, ``vector_core_num``, ``L2_cache_size`` (bytes),
    ``major``, ``minor`` (core architecture), ``uuid``; what
    CUDA's have besides (``warp_size``, ``regs_per_multiprocessor``, ...) is None.
    ``device`` is what torch.cuda calls ``device_name``."""
    _state.lazy_init()
    return _properties_of(_utils.existing_device(device if device_name is None else device_name))


@functools.lru_cache(maxsize=None)
def _properties_of(index: int) -> Any:
    return _C._device_properties(index)


def get_device_name(device_name: Device = None, *, device: Device = None) -> Any:
    """Name of the chip, such as Ascend910B3. ``device`` is what torch.cuda calls ``device_name``.

    No NPU is opened for it, so that a program may ask and then fork.
    """
    device = device if device_name is None else device_name
    _runtime.use_chosen()
    if device is not None:
        _utils.existing_device(device)
    return _C._soc_name()


def _architecture(device: Device = None) -> Tuple[int, int]:
    """(major, minor) of the core architecture: (2, 2) is C220 of Ascend910B and 910_93."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_device_capability(device: Device = None) -> Optional[Tuple[int, int]]:
    """None, as in the published torch_npu: an NPU has no capability of CUDA's kind, and programs that find none skip what needs
    it. TORCH_NPU_DEVICE_CAPABILITY (such as 8.0) is the answer where it is set. The core architecture is ``major`` and ``minor``
    of :func:`get_device_properties`."""
    text = _options.published("TORCH_NPU_DEVICE_CAPABILITY")
    if not text:
        return None
    major, _, minor = text.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise ValueError(f"TORCH_NPU_DEVICE_CAPABILITY={text}: expected two numbers, such as 8.0")
    return int(major), int(minor)


# The numbers by which programs tell chips apart: families in the order of their first number, members in theirs.
_SOC_FAMILIES = {
    100: ("Ascend910PremiumA", "Ascend910ProA", "Ascend910A", "Ascend910ProB", "Ascend910B"),
    200: ("Ascend310P1", "Ascend310P2", "Ascend310P3", "Ascend310P4", "Ascend310P5", "Ascend310P6", "Ascend310P7"),
    220: ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"),
    240: ("Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"),
    250: ("Ascend910_9391", "Ascend910_9392", "Ascend910_9381", "Ascend910_9382", "Ascend910_9372", "Ascend910_9362"),
    260: ("Ascend950",),
}
_SOC_NUMBERS = {name: first + i for first, names in _SOC_FAMILIES.items() for i, name in enumerate(names)}


@fixed
def get_soc_version() -> int:
    """Number of the chip of this machine: 220 to 225 is Ascend910B, 250 to 255 Ascend910_93, 260 Ascend950; -1 where it has none.
    :func:`get_device_name` tells its name."""
    name = get_device_name()
    return _SOC_NUMBERS.get("Ascend950" if name.startswith("Ascend950") else name, -1)


def can_device_access_peer(device_id: Device, peer_device_id: Any) -> bool:
    """True if ``device_id`` can read and write the memory of ``peer_device_id``. Raises on a bad index."""
    _state.lazy_init()
    index = _get_device_index(device_id, optional=True)
    peer = _get_device_index(peer_device_id)
    count = _C._device_count()
    for value in (index, peer):
        if not 0 <= value < count:
            raise AssertionError(f"npu:{value} does not exist: this process sees {count} NPU(s)")
    return _C._can_access_peer(index, peer)


def npurt() -> Any:
    """Calls of CANN's runtime by address: ``npuHostRegister``, ``npuHostUnregister``, ``npuStreamCreate``, ``npuStreamDestroy``,
    which return CANN's codes."""
    from torch_npu.npu import _npurt

    _state.lazy_init()
    return _npurt


def get_arch_list() -> List[Any]:
    """Empty: the kernels are CANN's, and torch_npu brings none that were built for certain chips."""
    return []


def ipc_collect() -> None:
    """Frees memory that other processes borrowed and have given back."""
    from torch_npu.multiprocessing import reductions

    _state.lazy_init()
    reductions.collect()


@fixed
def is_bf16_supported(including_emulation: bool = False) -> bool:
    """True if the chip computes in bfloat16: all do except the first Ascend910 and the 310 family."""
    name = get_device_name()
    without = ("Ascend910A", "Ascend910Pro", "Ascend910Premium", "Ascend310")
    return name != "Ascend910" and not name.startswith(without)


def current_blas_handle() -> None:
    """None, with a warning: CANN computes matrix products through operators, without a handle."""
    warnings.warn("NPU does not use blas handle: CANN's matrix products are operators (torch.matmul, ...)", stacklevel=2)
