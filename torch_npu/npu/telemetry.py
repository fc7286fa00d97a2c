"""Load of a device, and what a monitor would show."""

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import _get_device_index


class _NotAvailable(float):
    """NaN that prints as NA: a figure CANN's interface does not give."""

    def __new__(cls):
        return super().__new__(cls, "nan")

    def __repr__(self):
        return "NA"

    __str__ = __repr__


NA = _NotAvailable()


def _rate(device, field):
    _state.lazy_init()
    value = _C._utilization(_get_device_index(device, optional=True))[field]
    return NA if value < 0 else value


def utilization(device=None):
    """Percent of time in which the device's matrix cores worked lately; NA when CANN cannot tell."""
    return _rate(device, "cube")


def memory_usage(device=None):
    """Percent of time in which device memory was read or written lately; NA when CANN cannot tell."""
    return _rate(device, "memory")


def device_memory_used(device=None):
    """Bytes of device memory in use by all processes."""
    from torch_npu.npu.memory import mem_get_info

    free, total = mem_get_info(device)
    return total - free


def _unknown(device):
    _state.lazy_init()
    _C._check_device(_get_device_index(device, optional=True))
    return NA


def temperature(device=None):
    """Degrees Celsius: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)


def power_draw(device=None):
    """Milliwatts: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)


def clock_rate(device=None):
    """Megahertz: NA, for CANN's runtime interface does not tell (`npu-smi info` does)."""
    return _unknown(device)
