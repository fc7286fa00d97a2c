"""torch.load: where tensors go, and checkpoints that were saved on CUDA."""
from collections.abc import Mapping
from typing import Any

import torch

from torch_npu.contrib.transfer_to_npu._replace import device, replace

# Before 20, the priority of PyTorch's own reader of "cuda", which would ask for a CUDA device.
_PRIORITY = 15


def apply() -> None:
    replace(torch, "load", map_location=_map_location)
    torch.serialization.register_package(_PRIORITY, lambda storage: None, _restore)


def _restore(storage: Any, location: Any) -> Any:
    if location.startswith("cuda"):
        return torch.serialization.default_restore_location(storage, device(location))
    return None


def _map_location(value: Any) -> Any:
    if isinstance(value, Mapping):
        # Its keys are looked up among the locations in the file: npu:0 if it was saved here, cuda:0 if it was on CUDA.
        values = {key: device(place) for key, place in value.items()}
        return {**{device(key): place for key, place in values.items()}, **values}
    if callable(value):
        return lambda storage, location: value(storage, _cuda_name(location))
    return device(value)


def _cuda_name(location: Any) -> Any:
    """The location as a script for CUDA expects it."""
    return "cuda" + location[len("npu"):] if location.startswith("npu") else location
