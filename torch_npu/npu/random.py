"""Random numbers on the NPU: seeds and generator states, with torch.cuda's meaning."""

from typing import Any, List

import torch
from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "get_default_generator", "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]


class _NoSuchDeviceError(IndexError, RuntimeError):
    """A generator of a device that is not there. (torch.cuda and the published torch_npu raise IndexError.)"""


def _generator(index: int) -> Any:
    count = len(_state.default_generators)
    if not 0 <= index < count:
        raise _NoSuchDeviceError(f"npu:{index} does not exist: this process sees {count} NPU(s)")
    return _state.default_generators[index]


def _get_generator(device: Device) -> Any:
    """The default generator of a device given as torch.device."""
    _state.lazy_init()
    return _generator(_get_device_index(device, optional=True))


def get_default_generator(device_index: int) -> torch.Generator:
    """The default generator of the device with this index. RuntimeError where there is none."""
    _state.lazy_init()
    return _generator(device_index)


def get_rng_state(device: Device = "npu") -> Any:
    """State of a device's generator: a ByteTensor of 16 bytes, seed and offset."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> List[Any]:
    """States of all devices' generators, a list."""
    _state.lazy_init()
    return [get_rng_state(index) for index in range(_C._device_count())]


def set_rng_state(new_state: Any, device: Device = "npu") -> None:
    """Sets the state of a device's generator to one that :func:`get_rng_state` gave."""
    if not _state.is_initialized():
        new_state = new_state.clone(memory_format=torch.contiguous_format)  # it may change before it is used

    def apply() -> None:
        _generator(_get_device_index(device, optional=True)).set_state(new_state)

    _state.lazy_call(apply)


def set_rng_state_all(new_states: Any) -> None:
    """Sets the states of all devices' generators, in order."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _get_rng_state_offset(device: Device = "npu") -> Any:
    """How far a device's generator has come since it was seeded."""
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: Any, device: Device = "npu") -> None:
    """Puts a device's generator to an offset that :func:`_get_rng_state_offset` gave."""
    _state.lazy_call(lambda: _generator(_get_device_index(device, optional=True)).set_offset(offset))


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator. Without an NPU it does nothing."""
    seed = int(seed)
    _state.lazy_call(lambda: _generator(_C._current_device()).manual_seed(seed), kind="seed")


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices. Without an NPU it does nothing."""
    seed = int(seed)

    def apply() -> None:
        for generator in _state.default_generators:
            generator.manual_seed(seed)

    _state.lazy_call(apply, kind="seed_all")


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _state.lazy_call(lambda: _generator(_C._current_device()).seed())


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""

    def apply() -> None:
        first = None
        for generator in _state.default_generators:
            if first is None:
                first = generator.seed()
            else:
                generator.manual_seed(first)

    _state.lazy_call(apply)


def initial_seed() -> Any:
    """The seed of the current device's generator."""
    _state.lazy_init()
    return _generator(_C._current_device()).initial_seed()
