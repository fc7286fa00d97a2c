"""Load of a device, and what a monitor would show."""

from typing import Any

from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import _get_device_index


class _NotAvailable(float):
    """NaN that prints as NA: a figure CANN's interface does not give."""

    def __new__(cls) -> Any:
        return super().__new__(cls, "nan")

    def __repr__(self) -> str:
        return "NA"

    __str__ = __repr__


NA = _NotAvailable()


def _rate(device: Device, field: Any) -> Any:
    _state.lazy_init()
    value = _C._utilization(_get_device_index(device, optional=True))[field]
    return NA if value < 0 else value


def utilization(device: Device = None) -> Any:
    """Percent of time in which the device's matrix cores worked lately; NA when CANN cannot tell."""
    return _rate(device, "cube")


def memory_usage(device: Device = None) -> Any:
    """Percent of time in which device memory was read or written lately; NA when CANN cannot tell."""
    return _rate(device, "memory")


def device_memory_used(device: Device = None) -> Any:
    """Bytes of device memory in use by all processes."""
    from torch_npu.npu.memory import mem_get_info

    free, total = mem_get_info(device)
    return total - free


def _unknown(device: Device) -> Any:
    _state.lazy_init()
    _C._check_device(_get_device_index(device, optional=True))
    return NA


def temperature(device: Device = None) -> Any:
    """Degrees Celsius: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)


def power_draw(device: Device = None) -> Any:
    """Milliwatts: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)


def clock_rate(device: Device = None) -> Any:
    """Megahertz: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)
