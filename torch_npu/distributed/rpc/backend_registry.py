"""Registers the RPC backend ``NPU_TENSORPIPE`` with torch.distributed.rpc, when that is imported."""

from __future__ import annotations

from typing import Any

__all__ = ["NAME", "register"]

NAME = "NPU_TENSORPIPE"


def _construct_options(rpc_timeout: float, init_method: str, num_worker_threads: int = 16, **options: Any) -> Any:
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    return NPUTensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method,
                                          num_worker_threads=num_worker_threads, **options)


def _init_backend(store: Any, name: str, rank: int, world_size: int, rpc_backend_options: Any) -> Any:
    from torch.distributed.rpc import backend_registry

    if rpc_backend_options.device_maps:
        raise NotImplementedError(
            f"worker {name}: device maps, {rpc_backend_options.device_maps}: messages of {NAME} carry tensors of the CPU only; "
            "leave the maps out, and move tensors with .cpu() before a call"
        )
    rpc_backend_options.devices = []
    tensorpipe = backend_registry.BackendType["TENSORPIPE"]
    return backend_registry.init_backend(tensorpipe, store, name, rank, world_size, rpc_backend_options)


def register(rpc: Any) -> None:
    """``rpc``: torch.distributed.rpc. Does nothing where this torch has no TensorPipe."""
    registry = getattr(rpc, "backend_registry", None)
    if registry is None or not registry.backend_registered("TENSORPIPE") or registry.backend_registered(NAME):
        return
    registry.register_backend(NAME, _construct_options, _init_backend)
    rpc.BackendType = registry.BackendType  # registering makes the enumeration anew
