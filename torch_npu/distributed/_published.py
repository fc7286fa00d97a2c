"""What the published torch_npu has beside torch.distributed's own interface: a store, and methods of its process group.

The methods are put on :class:`torch_npu.distributed.ProcessGroupHCCL` when torch_npu is imported.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Sequence


class ParallelStore(dist.TCPStore):
    """A torch.distributed.TCPStore with the published arguments.

    ``is_server``: this process holds the data. ``world_size``: the processes that are waited for, if ``wait_workers``; negative:
    none. ``multi_tenant``: an address that this process serves already is shared. TCPStore serves many ranks at once by itself,
    so an agent between (``agent_run``, ``agent_pid``) and tiers (``enable_tiered``) are accepted and not made.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 29500, world_size: int = -1, agent_run: bool = False,
                 agent_pid: int = -1, is_server: bool = False, enable_tiered: bool = False,
                 timeout: timedelta = timedelta(seconds=300), wait_workers: bool = True, multi_tenant: bool = False) -> None:
        super().__init__(host, port, world_size if world_size >= 0 else None, is_server, timeout, wait_workers, multi_tenant)


def _make_hccl_premul_sum(factor: Any) -> Any:
    """A reduction for collectives: every rank's input times ``factor`` (a number, or a tensor of one), summed."""
    from torch.distributed import _make_nccl_premul_sum

    return _make_nccl_premul_sum(factor)


def _is_support_hccl_comm_name() -> bool:
    """Whether a communicator can be given a name (``hccl_config={"group_name": ...}``)."""
    return True


def _verify_params_across_processes(process_group: Any, params: Sequence[torch.Tensor], logger: Any = None) -> None:
    """As torch.distributed._verify_params_across_processes: RuntimeError unless all ranks have parameters of the same shapes."""
    dist._verify_params_across_processes(process_group, list(params), logger)


def _abort_hccl_comm(group: Any, reason: str | None = None) -> None:
    """Ends the communicators: what is in flight fails. The ranks connect anew at their next collective."""
    group._reinit(True)


def _delete_tcpstore_key(group: Any) -> None:
    """Deletes nothing: what a group leaves in the store is under a prefix of its own, which no later communicator uses."""


def _index(device: Any) -> int:
    device = torch.device(device)
    return torch.npu.current_device() if device.index is None else device.index


def _get_coll_stream_id(group: Any, device: Any) -> int:
    """``stream_id`` of the stream that asynchronous collectives on ``device`` run on."""
    return int(group._stream_id(_index(device), None))


def _get_p2p_stream_id(group: Any, device: Any, peer: int, is_batched: int = 0) -> int:
    """``stream_id`` of the stream of messages to rank ``peer``; those of a batch run on the collectives'.

    Raises ValueError where no message has made that connection yet.
    """
    return int(group._stream_id(_index(device), None if is_batched else peer))


def _get_stream_id(group: Any, p2p: bool = False, peer: int = -1) -> int:
    """The above, of the current device."""
    return int(group._stream_id(torch.npu.current_device(), peer if p2p else None))


def _batch_isend_irecv(group: Any, op_type_list: Sequence[str], tensors: Sequence[torch.Tensor], ranks: Sequence[int]) -> Any:
    """Sends ("isend") and receives ("irecv") as one: the work of all of them. ``ranks``: the others', in the group.

    Raises ValueError for another operation and for lists of different lengths.
    """
    if not len(op_type_list) == len(tensors) == len(ranks):
        raise ValueError(f"batch_isend_irecv: {len(op_type_list)} operations, {len(tensors)} tensors and {len(ranks)} ranks")
    if unknown := [kind for kind in op_type_list if kind not in ("isend", "irecv")]:
        raise ValueError(f"batch_isend_irecv: {unknown[0]!r} is neither isend nor irecv")
    group._begin_batch()
    for kind, tensor, rank in zip(op_type_list, tensors, ranks):
        (group.send if kind == "isend" else group.recv)([tensor], rank, 0)
    return group._end_batch()


def add_methods(process_group: Any) -> None:
    """Gives the class its published methods."""
    process_group.abort_hccl_comm = _abort_hccl_comm
    process_group._delete_tcpstore_key = _delete_tcpstore_key
    process_group.get_coll_stream_id = _get_coll_stream_id
    process_group.get_p2p_stream_id = _get_p2p_stream_id
    process_group._get_stream_id = _get_stream_id
    process_group.batch_isend_irecv = _batch_isend_irecv
