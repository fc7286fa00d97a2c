"""Process groups and device meshes; and what torch.distributed and DataParallel take for the device of this process."""
import functools
from typing import Any

import torch
import torch.distributed as dist

from torch_npu.contrib.transfer_to_npu._replace import backend, device, put, replace

GROUP_FUNCTIONS = ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")


def apply() -> None:
    _available_device()
    if not dist.is_available():
        return
    from torch.distributed import device_mesh

    from torch_npu.distributed import ProcessGroupHCCL

    for name in GROUP_FUNCTIONS:
        replace(dist, name, backend=backend, device_id=device)
    replace(dist, "is_backend_available", backend=backend)
    replace(dist, "get_default_backend_for_device", device=device)

    def is_nccl_available() -> bool:
        """True where process groups of hccl can be made, which "nccl" means."""
        return dist.is_backend_available("hccl")

    dist.is_nccl_available = is_nccl_available   # not in torch's own modules: there it says that torch has ProcessGroupNCCL
    dist.ProcessGroupNCCL = ProcessGroupHCCL  # type: ignore[misc]  # for its Options
    for owner in (dist, device_mesh):
        replace(owner, "init_device_mesh", device_type=device)
    replace(device_mesh.DeviceMesh, "__init__", device_type=device)


def _available_device() -> None:
    original = torch._utils._get_available_device_type

    @functools.wraps(original)
    def _get_available_device_type() -> Any:
        return device(original())

    put(torch._utils, original.__name__, _get_available_device_type)
