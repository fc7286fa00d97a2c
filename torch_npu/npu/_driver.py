"""The management interface of the driver below: what processes on the whole machine do with a device."""

import functools
from typing import Any, Optional, Tuple

from torch.types import Device

from torch_npu import _C, _runtime
from torch_npu.npu import _state
from torch_npu.npu._utils import _get_device_index
from torch_npu.softcann import dcmi


@functools.lru_cache(maxsize=None)
def _library() -> Optional[Any]:
    path = dcmi.find_library(_runtime.use_chosen().folders)
    try:
        return dcmi.Dcmi(path) if path else None
    except (OSError, dcmi.DcmiError):
        return None   # a container without the driver's files, or one that may not ask


def find(device: Device) -> Optional[Tuple[Any, int, int]]:
    """The driver's interface, and the card and chip of a device in it; None where there is no libdcmi, or it refuses."""
    _state.lazy_init()
    physical = _C._physical_device(_get_device_index(device, optional=True))
    driver = _library()
    return None if driver is None else (driver, *driver.place_of_physical(physical))


def need(device: Device, what: str) -> Tuple[Any, int, int]:
    """The same; NotImplementedError where there is none."""
    found = find(device)
    if found is None:
        raise NotImplementedError(
            f"{what} needs the driver's libdcmi.so, which is not there or does not answer (in a container: mount "
            "/usr/local/Ascend/driver, or run `npu-smi info` on the host)")
    return found
