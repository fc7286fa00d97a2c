"""torch.distributed on NPUs: the backend ``"hccl"``.

Importing torch_npu registers it, so ``init_process_group("hccl")`` works, as do ``init_process_group()`` (the default
for NPUs) and ``init_process_group("cpu:gloo,npu:hccl")``.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import TYPE_CHECKING, Any

from torch_npu import _C, _lazy, _options
from torch_npu._hooks import imports
from torch_npu.distributed import _published
from torch_npu.distributed._published import (
    ParallelStore,
    _is_support_hccl_comm_name,
    _make_hccl_premul_sum,
    _verify_params_across_processes,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = [
    "ParallelStore",
    "ProcessGroupHCCL",
    "_is_support_hccl_comm_name",
    "_make_hccl_premul_sum",
    "_verify_params_across_processes",
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]

# Besides these nn, tensor and others, which are PyTorch's: _published/names.py
__getattr__ = _lazy.lazy(__name__, dict.fromkeys(
    ("all_gather_into_tensor_uneven", "all_to_all_vc", "reduce_scatter_tensor_uneven"), "torch_npu.distributed._uneven"))
_log = logging.getLogger("torch_npu.hccl")
ProcessGroupHCCL = _C._distributed_c10d.ProcessGroupHCCL
_variables = _options.Variables("hccl_")  # programs set TORCH_HCCL_* between the import and init_process_group


def is_hccl_available() -> bool:
    """Whether the backend ``"hccl"`` can be used: it is part of this package."""
    return True


def is_available() -> bool:
    """As torch.distributed.is_available()."""
    import torch.distributed as dist

    return dist.is_available()


class NoGroupError(ValueError, KeyError):
    """There is no such process group. (The published torch_npu raises KeyError.)"""

    __str__ = ValueError.__str__  # KeyError's shows the repr


def reinit_process_group(group: ProcessGroup | None = None, rebuild_link: bool = True) -> ProcessGroup | None:
    """Makes a group that has failed usable again, in the same processes: its ranks connect anew at their next collective.

    All ranks of the group call it, each after it has met the error; a rank that is gone cannot be replaced this way (then
    make a new group of those that are left, or let torchrun restart the job). Sub-groups are initialized again one by one.

    Args:
        group: the group; the default one if None.
        rebuild_link: False keeps the connections, for a group that has not failed.

    Returns:
        The group; None without ``rebuild_link``.

    Raises:
        KeyError: it is not a process group. (It is a ValueError, too.)
        ValueError: the group has no backend for NPUs, or it is not ``"hccl"``.
        torch.distributed.DistBackendError: ``rebuild_link`` is False and the group has failed.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if group is None else group
    if group is None:
        raise NoGroupError("reinit_process_group: there is no default group; call init_process_group first")
    if not isinstance(group, dist.ProcessGroup):
        raise NoGroupError(f"reinit_process_group: there is no group {group!r}")
    try:
        backend = group._get_backend(torch.device("npu"))
    except RuntimeError as error:
        raise ValueError(f"reinit_process_group: the group has no backend for NPUs: {error}") from error
    if not isinstance(backend, ProcessGroupHCCL):
        raise ValueError(f"reinit_process_group: the group's backend is {type(backend).__name__}, not ProcessGroupHCCL")
    backend._reinit(rebuild_link)
    return group if rebuild_link else None


def _create(options: Any, backend_options: Any) -> Any:
    """Makes the backend of one group, for torch.distributed.

    ``backend_options`` is what the user gave as ``pg_options``: a ``ProcessGroupHCCL.Options`` or None.
    """
    _variables.follow()
    if backend_options is None:
        backend_options = ProcessGroupHCCL.Options()
    elif not isinstance(backend_options, ProcessGroupHCCL.Options):
        raise TypeError(f"pg_options must be ProcessGroupHCCL.Options, got {type(backend_options).__name__}")
    backend_options._timeout = options.timeout
    backend_options.group_name = options.group_id
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    if os.environ.get("TORCH_HCCL_HIGH_PRIORITY") == "1":
        backend_options.is_high_priority_stream = True
    if os.environ.get("TORCH_HCCL_STATUS_SAVE_ENABLE") == "1":
        from torch_npu.distributed import _status

        _status.keep(options)
    pipes = os.environ.get("TORCH_HCCL_DEBUG_INFO_PIPE_FILE")
    if pipes:
        from torch_npu.distributed import _pipe

        _pipe.listen(pipes, (options.global_ranks_in_group or range(options.group_size))[options.group_rank])
    _log.info("group %s: rank %d of %d, of global ranks %s, timeout %s", options.group_id, options.group_rank, options.group_size,
              options.global_ranks_in_group or "all", options.timeout)
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, backend_options)


def _register() -> None:
    import sys

    import torch.distributed as dist

    # The published package has the class at this address, and programs import it from there.
    module: Any = _C._distributed_c10d
    _published.add_methods(ProcessGroupHCCL)
    _published.add_functions(module)
    module.ParallelStore = ParallelStore
    module._is_support_hccl_comm_name = _is_support_hccl_comm_name
    module._verify_params_across_processes = _verify_params_across_processes
    sys.modules["torch_npu._C._distributed_c10d"] = module
    # Where programs look for a backend's class and for whether it is there.
    dist.ProcessGroupHCCL = dist.distributed_c10d.ProcessGroupHCCL = ProcessGroupHCCL
    dist.is_hccl_available = dist.distributed_c10d.is_hccl_available = is_hccl_available
    dist.reinit_process_group = dist.distributed_c10d.reinit_process_group = reinit_process_group
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    from torch_npu.distributed import rendezvous

    rendezvous.register()
    imports.when_imported("torch.distributed.tensor", _register_sharding)
    imports.when_imported("torch.distributed.rpc", _register_rpc)
    imports.when_imported("torch.distributed.tensor.experimental._context_parallel._attention", _register_context_parallel)
    atexit.register(_C._distributed_c10d._stop_watchdog)


def _register_context_parallel(module: Any) -> None:
    from torch_npu.distributed import _context_parallel

    _context_parallel.register(module)


def _register_rpc(module: Any) -> None:
    from torch_npu.distributed.rpc import backend_registry

    backend_registry.register(module)


def _register_sharding(module: Any) -> None:
    from torch_npu.distributed import _sharded_attention, _sharded_calls, _sharding

    _sharding.register()
    _sharded_attention.register()
    _sharded_calls.register()
