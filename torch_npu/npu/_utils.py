"""What the files of torch.npu share."""

from typing import Any, Callable

import torch
from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state

_LARGEST_INDEX = 127


class InvalidDeviceError(RuntimeError, AssertionError):
    """A device that is not there. (torch.cuda and the published torch_npu raise AssertionError.)"""


class InvalidValueError(ValueError, RuntimeError):
    """A value that an argument does not take. (The published torch_npu raises RuntimeError.)"""


class InvalidTypeError(TypeError, RuntimeError):
    """A value of a type that an argument does not take. (Torch's operators, and the published torch_npu, raise RuntimeError.)"""


class RefusedError(AssertionError, ValueError):
    """Arguments that do not go together. (The published torch_npu asserts.)"""


def existing_device(device: Device) -> int:
    """Index of a device. InvalidDeviceError where there is none of it."""
    index = _get_device_index(device, optional=True)
    if not 0 <= index < _C._device_count():
        raise InvalidDeviceError(f"Invalid device id: npu:{index} does not exist, this process sees {_C._device_count()} NPU(s)")
    return int(index)


def index_or_current(device: Device) -> int:
    """Index of a device; a negative one is the current device."""
    index = _get_device_index(device, optional=True)
    return _C._current_device() if index < 0 else int(index)


def _get_device_index(device: Device, optional: bool = False, allow_cpu: bool = False) -> Any:
    """Index of a device given as None, an int, a string such as "npu:1", a torch.device, or a torch.npu.device.

    Without an index in it, the current device's if ``optional``, else ValueError. A CPU device gives -1 if
    ``allow_cpu``, else ValueError, as any other device type does.
    """
    if device is None and optional:   # first: it is what synchronize() and its kin wait for
        return current_device()
    if isinstance(device, bool):
        raise TypeError("expected a device or an index, got a bool")
    if isinstance(device, int):
        if device > _LARGEST_INDEX:   # torch would keep its last 8 bits
            raise InvalidDeviceError(f"npu:{device} does not exist: this process sees {_C._device_count()} NPU(s)")
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "npu":
            raise ValueError(f"Expected a npu device, but got: {device}")
        if device.index is not None:
            return device.index
    elif isinstance(device, torch.npu.device):
        if device.idx >= 0:
            return device.idx
    elif device is not None:
        raise TypeError(f"expected a device, a string or an index, got {type(device).__name__}")
    if not optional:
        raise ValueError(f"expected a device with an index such as npu:0, or an index, got {device}")
    return current_device()


def current_device() -> int:
    """Index of the current device of this thread."""
    _state.lazy_init()
    return _C._current_device()


def fixed(function: Callable[..., Any]) -> Any:
    """Marks a function whose answer does not change while the process lives: torch.compile asks once, instead of
    tracing it. What ``torch.compiler.assume_constant_result`` does, which would import Dynamo."""
    function._dynamo_marked_constant = True
    return function


class classproperty:  # a decorator, by the published name
    """A property of a class, computed by a function of the class."""

    def __init__(self, func: Any) -> None:
        self._function = func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._function(owner)
