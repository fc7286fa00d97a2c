"""Options of the RPC backend ``NPU_TENSORPIPE``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions

from torch_npu._ops.errors import both

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NPUTensorPipeRpcBackendOptions"]

Device = Union[int, str, torch.device]


def _device(device: Device, *others: str) -> torch.device:
    found = torch.device("npu", device) if isinstance(device, int) else torch.device(device)
    if found.type not in ("npu", *others):
        raise both(ValueError)(f"the devices of NPUTensorPipeRpcBackendOptions are NPUs, got {found}")
    return found


def _pairs(device_map: dict[Device, Device]) -> dict[torch.device, torch.device]:
    found = {_device(ours, "cpu"): _device(theirs, "cpu") for ours, theirs in device_map.items()}
    if len(set(found.values())) != len(found):
        raise both(ValueError)(f"two devices are mapped to the same one: {found}")
    return found


class NPUTensorPipeRpcBackendOptions(TensorPipeRpcBackendOptions):
    """As torch.distributed.rpc.TensorPipeRpcBackendOptions, with NPUs as devices; a number names an NPU. Maps may name
    the CPU, too.

    Raises ValueError for another kind of device, and for a map that leads two devices to one or one to two; ``init_rpc`` does for
    devices that are not there.
    """

    def __init__(self, *, num_worker_threads: int = 16, rpc_timeout: float = 60.0, init_method: str = "env://",
                 device_maps: dict[str, dict[Device, Device]] | None = None, devices: Sequence[Device] | None = None,
                 _transports: list[str] | None = None, _channels: list[str] | None = None) -> None:
        super().__init__(num_worker_threads=num_worker_threads, rpc_timeout=rpc_timeout, init_method=init_method,
                         _transports=_transports, _channels=_channels)
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        if devices:
            self.set_devices(devices)

    def set_device_map(self, to: str, device_map: dict[Device, Device]) -> None:
        """Adds to the map of this worker's devices to those of ``to``."""
        merged: dict[Device, Device] = {ours: theirs for ours, theirs in self.device_maps.get(to, {}).items()}
        for ours, theirs in _pairs(device_map).items():
            if merged.setdefault(ours, theirs) != theirs:
                raise both(ValueError)(f"{ours} is mapped to {merged[ours]} of {to} already, so not to {theirs}")
        self._set_device_map(to, _pairs(merged))

    def set_devices(self, devices: Sequence[Device]) -> None:
        """The devices of this worker."""
        self.devices = [_device(device) for device in devices]
