"""Registers the RPC backend ``NPU_TENSORPIPE`` with torch.distributed.rpc, when that is imported."""

from __future__ import annotations

from typing import Any

__all__ = ["NAME", "register"]

NAME = "NPU_TENSORPIPE"


def _construct_options(rpc_timeout: float, init_method: str, num_worker_threads: int = 16, **options: Any) -> Any:
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    return NPUTensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method,
                                          num_worker_threads=num_worker_threads, **options)


def _exchange(name: str, options: Any, group: Any) -> tuple[dict[str, dict[Any, Any]], list[Any]]:
    """What the others' maps make of this worker's devices, to those of the others, and this worker's devices.

    Raises ValueError, on all workers, where a map names a worker or a device that is not there.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.rpc import backend_registry

    told: list[Any] = [None] * group.size()
    dist.all_gather_object(told, (name, torch.npu.device_count(), options.device_maps, options.devices), group)
    maps = {worker: device_maps for worker, _, device_maps, _ in told}
    there = {worker: devices or [torch.device("npu", i) for i in range(count)] for worker, count, _, devices in told}
    for worker, count, device_maps, devices in told:
        if lost := [str(device) for device in devices if device.index >= count]:
            raise ValueError(f"worker {worker} has {count} NPUs, but its options name {', '.join(lost)}")
        for target, device_map in device_maps.items():
            if target not in maps:
                raise ValueError(f"worker {worker} has a device map for {target}, none of the workers {', '.join(maps)}")
            for owner, used in ((worker, device_map.keys()), (target, device_map.values())):
                if lost := [str(device) for device in used if device not in there[owner]]:
                    raise ValueError(f"the device map of worker {worker} for {target} names {', '.join(lost)}, "
                                     f"which {owner} does not have: {', '.join(map(str, there[owner]))}")
    reverse_maps = backend_registry._create_reverse_mapping(name, list(maps), maps)
    return reverse_maps, backend_registry._create_device_list(options.devices, options.device_maps, reverse_maps)


def _init_backend(store: Any, name: str, rank: int, world_size: int, rpc_backend_options: Any) -> Any:
    import torch
    from torch.distributed.rpc import api, backend_registry

    from torch_npu import _C

    if not world_size:
        raise NotImplementedError(f"worker {name}: {NAME} needs a world_size; workers that come and go have TENSORPIPE")
    group = backend_registry._init_process_group(store, rank, world_size)
    reverse_maps, devices = _exchange(name, rpc_backend_options, group)
    if devices:
        torch.npu.init()   # before another worker's tensors come
    agent = _C._distributed_rpc.TensorPipeAgent(store, name, rank, world_size, rpc_backend_options, reverse_maps, devices)
    api._init_rpc_states(agent)
    api._all_gather(None, timeout=rpc_backend_options.rpc_timeout)   # connects them, which can take longer than a shutdown waits
    group.barrier().wait()
    return agent


def register(rpc: Any) -> None:
    """``rpc``: torch.distributed.rpc. Does nothing where this torch has no TensorPipe."""
    registry = getattr(rpc, "backend_registry", None)
    if registry is None or not registry.backend_registered("TENSORPIPE") or registry.backend_registered(NAME):
        return
    registry.register_backend(NAME, _construct_options, _init_backend)
    rpc.BackendType = registry.BackendType  # registering makes the enumeration anew
