"""How many cores a device or a stream may use, and how long one operator may run.

Whether a limit can be set is CANN's decision: one that cannot raises RuntimeError with CANN's code.
"""

from typing import Any, Dict

import torch
from torch.types import Device

from torch_npu import _C
from torch_npu.npu import _state
from torch_npu.npu._utils import InvalidTypeError, RefusedError, existing_device

__all__ = [
    "get_device_limit", "get_stream_limit", "reset_stream_limit", "set_device_limit", "set_op_timeout_ms", "set_stream_limit",
]

_CORES = ("cube", "vector")


def _wanted(cube_num: Any, vector_num: Any) -> Dict[str, Any]:
    wanted = {core: count for core, count in zip(_CORES, (cube_num, vector_num)) if count != -1}
    for core, count in wanted.items():
        if count <= 0:
            raise ValueError(f"{core}_num is {count}: expected a positive number")
    return wanted


def _checked_stream(stream: Any) -> Any:
    if not isinstance(stream, torch.npu.Stream):
        raise RefusedError(f"a limit is for a torch.npu.Stream, not for {type(stream).__name__}")
    return stream


def set_device_limit(device: Device, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cube and vector cores that operators on a device use; -1 leaves a kind as it is."""
    _state.lazy_init()
    index = existing_device(device)
    for core, count in _wanted(cube_num, vector_num).items():
        _C._set_device_limit(index, core, count)


def get_device_limit(device: Device) -> Dict[str, int]:
    """The cores operators on a device may use, a dict with cube_core_num and vector_core_num."""
    _state.lazy_init()
    index = existing_device(device)
    return {f"{core}_core_num": _C._device_limit(index, core) for core in _CORES}


def set_stream_limit(stream: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cube and vector cores that operators on a stream use; -1 leaves a kind as it is."""
    _checked_stream(stream)
    for core, count in _wanted(cube_num, vector_num).items():
        _C._set_stream_limit(stream.stream_id, stream.device_index, core, count)


def get_stream_limit(stream: Any) -> Dict[str, int]:
    """The cores operators on a stream may use, a dict with cube_core_num and vector_core_num."""
    _checked_stream(stream)
    return {f"{core}_core_num": _C._stream_limit(stream.stream_id, stream.device_index, core) for core in _CORES}


def reset_stream_limit(stream: Any) -> None:
    """Takes back the limits of a stream."""
    _checked_stream(stream)
    _C._reset_stream_limit(stream.stream_id, stream.device_index)


def set_op_timeout_ms(timeout: Any) -> None:
    """Longest run of one operator in milliseconds; after that it fails. The device rounds it."""
    if not isinstance(timeout, (int, float)):
        raise InvalidTypeError(f"a timeout is a number of milliseconds, not {timeout!r}")
    if timeout <= 0:
        raise ValueError(f"a timeout of {timeout} ms: expected a positive number")
    _state.lazy_init()
    _C._set_operator_timeout(int(timeout * 1000))
