"""Load of a device, and what a monitor would show."""

from typing import Any, Callable

from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import _get_device_index, existing_device

__all__ = [
    "NA", "clock_rate", "device_memory_used", "list_npu_processes", "memory_usage", "power_draw", "temperature", "utilization",
]


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
    value = _C._utilization(existing_device(device))[field]
    return NA if value < 0 else value


def utilization(device: Device = None) -> Any:
    """Percent of time in which the device's matrix cores worked lately; NA when CANN cannot tell."""
    return _rate(device, "cube")


def memory_usage(device: Device = None) -> Any:
    """Percent of time in which device memory was read or written lately; NA when CANN cannot tell."""
    return _rate(device, "memory")


def device_memory_used(device: Device = None) -> Any:
    """Bytes of device memory in use by all processes."""
    from torch_npu.npu import _driver
    from torch_npu.npu.memory import mem_get_info

    found = _driver.find(device)
    if found is not None:
        driver, card, chip = found
        return driver.memory(card, chip)[0] * 2**20
    free, total = mem_get_info(device)
    return total - free


def list_npu_processes(device: Device = None) -> str:
    """The processes that use the device, and what each holds of its memory, as text.

    NotImplementedError where the driver's interface (libdcmi) is not there.
    """
    from torch_npu.npu import _driver

    driver, card, chip = _driver.need(device, "torch.npu.list_npu_processes")
    lines = [f"NPU:{_get_device_index(device, optional=True)}"]
    for pid, held in driver.processes(card, chip):
        lines.append(f"process {pid:>10d} uses {held / 2**20:>12.3f} MB NPU memory")
    return "\n".join(lines if len(lines) > 1 else [*lines, "no processes are running"])


def _figure(device: Device, ask: Callable[..., Any]) -> Any:
    from torch_npu.npu import _driver

    found = _driver.find(device)
    value = None if found is None else ask(*found)
    return NA if value is None else value


def temperature(device: Device = None) -> Any:
    """Degrees Celsius; NA where the driver does not tell."""
    return _figure(device, lambda driver, card, chip: driver.temperature(card, chip))


def power_draw(device: Device = None) -> Any:
    """Milliwatts; NA where the driver does not tell."""
    watts = _figure(device, lambda driver, card, chip: driver.power(card, chip))
    return NA if watts is NA else int(watts * 1000)


def clock_rate(device: Device = None) -> Any:
    """Megahertz of the AI cores; NA where the driver does not tell."""
    return _figure(device, lambda driver, card, chip: driver.core_clock(card, chip))
