"""Registers ``NPU_TENSORPIPE`` and ``NPU_FAULTY_TENSORPIPE`` with torch.distributed.rpc, when that is imported."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FAULTY", "NAME", "register"]

NAME = "NPU_TENSORPIPE"
FAULTY = "NPU_FAULTY_TENSORPIPE"


def _construct_options(rpc_timeout: float, init_method: str, num_worker_threads: int = 16, **options: Any) -> Any:
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    return NPUTensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method,
                                          num_worker_threads=num_worker_threads, **options)


def _construct_faulty_options(rpc_timeout: float, init_method: str, num_worker_threads: int = 16,
                              messages_to_fail: Sequence[str] = (), messages_to_delay: dict[str, float] | None = None,
                              num_fail_sends: int = 0, **_: Any) -> Any:
    from torch_npu import _C

    return _C._distributed_rpc.FaultyTensorPipeRpcBackendOptions(
        num_worker_threads=num_worker_threads, rpc_timeout=rpc_timeout, init_method=init_method,
        messages_to_fail=messages_to_fail, messages_to_delay=messages_to_delay or {}, num_fail_sends=num_fail_sends)


def _told(name: str, options: Any) -> tuple[str, int, Any, Any]:
    """What a worker tells the others of itself: name, count of NPUs, device maps and devices."""
    import torch

    return name, torch.npu.device_count(), options.device_maps, options.devices


def _told_here() -> tuple[str, int, Any, Any]:
    from torch.distributed.rpc import api

    agent = api._get_current_rpc_agent()
    return _told(agent.get_worker_info().name, agent._get_backend_options())


def _check(told: list[Any], all_are_there: bool) -> None:
    """Raises ValueError where a map names a worker or a device that is not there. ``told``: by all workers."""
    import torch

    there = {worker: set(devices or [torch.device("npu", i) for i in range(count)]) for worker, count, _, devices in told}
    for worker, count, device_maps, devices in told:
        if lost := [str(device) for device in devices if device.index >= count]:
            raise ValueError(f"worker {worker} has {count} NPUs, but its options name {', '.join(lost)}")
        if len(set(devices)) != len(devices):
            raise ValueError(f"the devices in the options of worker {worker} name one twice: {', '.join(map(str, devices))}")
        for target, device_map in device_maps.items():
            if target not in there and all_are_there:
                raise ValueError(f"worker {worker} has a device map for {target}, none of the workers {', '.join(there)}")
            for owner, used in ((worker, device_map.keys()), (target, device_map.values())):
                if owner in there and (lost := [str(d) for d in used if d.type != "cpu" and d not in there[owner]]):
                    raise ValueError(f"the device map of worker {worker} for {target} names {', '.join(lost)}, "
                                     f"which {owner} does not have: {', '.join(sorted(map(str, there[owner])))}")


def _devices_of(name: str, told: list[Any]) -> list[Any]:
    """The devices that a worker is asked for: those of its options, or else those of its own maps and of the others' for it."""
    from torch.distributed.rpc import backend_registry

    maps = {worker: device_maps for worker, _, device_maps, _ in told}
    devices = {worker: given for worker, _, _, given in told}
    reverse_maps = backend_registry._create_reverse_mapping(name, list(maps), maps)
    return backend_registry._create_device_list(devices[name], maps[name], reverse_maps)


def _init_group(store: Any, name: str, rank: int, world_size: int, options: Any) -> Any:
    import torch
    import torch.distributed as dist
    from torch.distributed.rpc import api, backend_registry

    from torch_npu import _C

    group = backend_registry._init_process_group(store, rank, world_size)
    told: list[Any] = [None] * world_size
    dist.all_gather_object(told, _told(name, options), group)
    _check(told, all_are_there=True)
    devices = _devices_of(name, told)
    if devices:
        torch.npu.init()   # before another worker's tensors come
    agent = _C._distributed_rpc.TensorPipeAgent(store, name, rank, world_size, options, {}, devices)
    api._init_rpc_states(agent)
    api._all_gather(None, timeout=options.rpc_timeout)   # connects them, which can take longer than a shutdown waits
    group.barrier().wait()
    return agent


def _join_group(store: Any, name: str, rank: int, options: Any) -> Any:
    """Of a group that workers join and leave."""
    import torch
    from torch.distributed.rpc import api

    from torch_npu import _C

    with api._group_membership_management(store, name, True):
        agent = _C._distributed_rpc.TensorPipeAgent(store, name, rank, None, options, {}, [])
        api._init_rpc_states(agent)
        try:
            if options.devices or options.device_maps:
                torch.npu.init()
            here = agent.get_worker_info()
            others = [worker.name for worker in agent.get_worker_infos() if worker.name != name]
            told = [_told(name, options), *(api.rpc_sync(other, _told_here) for other in others)]
            _check(told, all_are_there=False)
            for worker, *_ in told:
                api.rpc_sync(worker, api._update_group_membership, args=(here, _devices_of(worker, told), {}, True))
        except Exception:
            api.shutdown()
            raise
        return agent


def _init_backend(store: Any, name: str, rank: int, world_size: int | None, rpc_backend_options: Any) -> Any:
    if world_size:
        return _init_group(store, name, rank, world_size, rpc_backend_options)
    return _join_group(store, name, rank, rpc_backend_options)


def _init_faulty_backend(store: Any, name: str, rank: int, world_size: int, rpc_backend_options: Any) -> Any:
    from torch.distributed.rpc import api

    from torch_npu import _C

    agent = _C._distributed_rpc.FaultyTensorPipeAgent(store, name, rank, world_size, rpc_backend_options, {}, [])
    api._init_rpc_states(agent)
    return agent


def register(rpc: Any) -> None:
    """``rpc``: torch.distributed.rpc. Does nothing where this torch has no TensorPipe."""
    registry = getattr(rpc, "backend_registry", None)
    if registry is None or not registry.backend_registered("TENSORPIPE") or registry.backend_registered(NAME):
        return
    registry.register_backend(NAME, _construct_options, _init_backend)
    registry.register_backend(FAULTY, _construct_faulty_options, _init_faulty_backend)
    rpc.BackendType = registry.BackendType  # registering makes the enumeration anew
    _complete_gradients()


def _complete_gradients() -> None:
    """Has get_gradients() wait for the NPUs. A gradient is computed on the stream of its forward, which may be any, and PyTorch's
    context of distributed autograd, in C++, keeps events for gradients of CUDA alone.
    """
    from torch._C import _distributed_autograd
    from torch.distributed import autograd

    original = autograd.get_gradients

    @functools.wraps(original)
    def get_gradients(context_id: int) -> Any:
        import torch

        gradients = original(context_id)
        for device in {gradient.device for gradient in gradients.values()}:
            if device.type == "npu":
                torch.npu.synchronize(device)
        return gradients

    autograd.get_gradients = _distributed_autograd.get_gradients = get_gradients
