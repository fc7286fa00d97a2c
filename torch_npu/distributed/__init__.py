"""torch.distributed on NPUs: the backend ``"hccl"``.

Importing torch_npu registers it, so ``init_process_group("hccl")`` works, as do ``init_process_group()`` (the default
for NPUs) and ``init_process_group("cpu:gloo,npu:hccl")``.
"""

import atexit
from typing import Any

from torch_npu import _C, _import_hook

__all__ = ["ProcessGroupHCCL", "is_hccl_available"]

ProcessGroupHCCL = _C._distributed_c10d.ProcessGroupHCCL


def is_hccl_available() -> bool:
    """Whether the backend ``"hccl"`` can be used: it is part of this package."""
    return True


def _create(options: Any, backend_options: Any) -> Any:
    """Makes the backend of one group, for torch.distributed.

    ``backend_options`` is what the user gave as ``pg_options``: a ``ProcessGroupHCCL.Options`` or None.
    """
    if backend_options is None:
        backend_options = ProcessGroupHCCL.Options()
    elif not isinstance(backend_options, ProcessGroupHCCL.Options):
        raise TypeError(f"pg_options must be ProcessGroupHCCL.Options, got {type(backend_options).__name__}")
    backend_options._timeout = options.timeout
    backend_options.group_name = options.group_id
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, backend_options)


def _register() -> None:
    import sys

    import torch.distributed as dist

    # The published package has the class at this address, and programs import it from there.
    sys.modules["torch_npu._C._distributed_c10d"] = _C._distributed_c10d
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    _import_hook.when_imported("torch.distributed.tensor", _register_sharding)
    atexit.register(_C._distributed_c10d._stop_watchdog)


def _register_sharding(module: Any) -> None:
    from torch_npu.distributed import _sharding

    _sharding.register()
