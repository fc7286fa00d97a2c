"""What the published torch_npu has beside torch.distributed's own interface: a store, and methods of its process group.

The methods are put on :class:`torch_npu.distributed.ProcessGroupHCCL` when torch_npu is imported.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from torch_npu._ops.errors import both

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
    return int(group._stream_id(_index(device)))


def _get_p2p_stream_id(group: Any, device: Any, peer: int, is_batched: int = 0) -> int:
    """``stream_id`` of the stream of messages to rank ``peer``; those of a batch run on the collectives'.

    -1 where no message has made that connection yet. ValueError, which is a RuntimeError, too, for a rank below 0.
    """
    if is_batched:
        return _get_coll_stream_id(group, device)
    if peer < 0:
        raise both(ValueError)(f"the stream of messages to rank {peer}: a rank is 0 or more")
    return int(group._message_stream_id(_index(device), peer))


def _get_stream_id(group: Any, p2p: bool = False, peer: int = -1) -> int:
    """The above, of the current device."""
    device = torch.device("npu", torch.npu.current_device())
    return _get_p2p_stream_id(group, device, peer) if p2p else _get_coll_stream_id(group, device)


def _batch_isend_irecv(group: Any, op_type_list: Sequence[str], tensors: Sequence[torch.Tensor], ranks: Sequence[int]) -> Any:
    """Sends ("isend") and receives ("irecv") as one: the work of all of them. ``ranks``: the others', in the group.

    Raises ValueError, which is a RuntimeError, too, for another operation and for lists of different lengths.
    """
    if not len(op_type_list) == len(tensors) == len(ranks):
        raise both(ValueError)(
            f"batch_isend_irecv: {len(op_type_list)} operations, {len(tensors)} tensors and {len(ranks)} ranks"
        )
    if unknown := [kind for kind in op_type_list if kind not in ("isend", "irecv")]:
        raise both(ValueError)(f"batch_isend_irecv: {unknown[0]!r} is neither isend nor irecv")
    group._begin_batch()
    for kind, tensor, rank in zip(op_type_list, tensors, ranks):
        (group.send if kind == "isend" else group.recv)([tensor], rank, 0)
    return group._end_batch()


def _parts(name: str, group: Any, tensor: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    from torch_npu.distributed import _uneven

    return _uneven.parts_of(name, tensor, list(sizes) or None, group.size())


def _all_gather_into_tensor_uneven(group: Any, output: torch.Tensor, input: torch.Tensor, output_split_sizes: Sequence[int] = (),
                                   opts: Any = None) -> Any:
    """As torch_npu.distributed.all_gather_into_tensor_uneven: its work. No sizes: all ranks have as many rows."""
    parts = _parts("all_gather_into_tensor_uneven", group, output, output_split_sizes)
    return group.allgather([parts], [input], c10d.AllgatherOptions() if opts is None else opts)


def _reduce_scatter_tensor_uneven(group: Any, output: torch.Tensor, input: torch.Tensor, input_split_sizes: Sequence[int] = (),
                                  opts: Any = None) -> Any:
    """As torch_npu.distributed.reduce_scatter_tensor_uneven: its work. No sizes: all ranks get as many rows."""
    parts = _parts("reduce_scatter_tensor_uneven", group, input, input_split_sizes)
    return group.reduce_scatter([output], [parts], c10d.ReduceScatterOptions() if opts is None else opts)


def _alltoallvc(group: Any, output: torch.Tensor, input: torch.Tensor, send_count_matrix: Sequence[int], opts: Any = None) -> Any:
    """As torch_npu.distributed.all_to_all_vc, with the matrix as one list, row by row: its work."""
    from torch_npu.distributed import _uneven

    ranks, flat = group.size(), list(send_count_matrix)
    matrix = [flat[i:i + ranks] for i in range(0, len(flat), ranks)]
    sends, receives = _uneven.counts_of(matrix, input, output, group.rank(), ranks)
    return group.alltoall_base(output.view(-1), input.view(-1), receives, sends, c10d.AllToAllOptions() if opts is None else opts)


def _group_end(group: Any) -> None:
    """Runs what came since _group_start() as one; the current stream waits for it."""
    work = group._end_batch()
    if work is not None:
        work.wait()


def _set_switch_nic_comm(group: Any, rankid: int, nRanks: int, ranks: Sequence[int] = (), useBackup: Sequence[bool] = ()) -> bool:
    """Lets traffic of ``ranks`` take the backup network card, or the first one again. ``rankid``, ``nRanks``: as published; the
    lists say it all. Raises ValueError where they differ in length."""
    group._switch_network_cards(list(ranks), list(useBackup))
    return True


_WINDOWS = "memory of other ranks is not mapped into this one; send, or use a collective"
_POOLS = "pools are not registered with HCCL's collectives, which take every tensor of the NPU"
_REFUSED = {
    "_get_window_mem": _WINDOWS,
    "_window_register_and_exchange": _WINDOWS,
    "deregister_mem_pool": _POOLS,
    "register_mem_pool": _POOLS,
}
# What the published module has is PyTorch's own, for which its groups are groups like any other.
_OF_PYTORCH = ("Reducer", "_broadcast_coalesced", "_compute_bucket_assignment_by_size", "_register_builtin_comm_hook",
               "_register_comm_hook")


def _refusing(name: str, why: str) -> Any:
    def refused(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"ProcessGroupHCCL.{name}: {why}")

    refused.__name__ = name
    refused.__doc__ = f"NotImplementedError: {why}."
    return refused


def add_functions(module: Any) -> None:
    """Gives torch_npu._C._distributed_c10d what the published one has of PyTorch."""
    for name in _OF_PYTORCH:
        setattr(module, name, getattr(torch._C._distributed_c10d, name))


def add_methods(process_group: Any) -> None:
    """Gives the class its published methods."""
    process_group.all_gather_into_tensor_uneven = _all_gather_into_tensor_uneven
    process_group.reduce_scatter_tensor_uneven = _reduce_scatter_tensor_uneven
    process_group.alltoallvc = _alltoallvc
    process_group._group_start = process_group._begin_batch
    process_group._group_end = _group_end
    for name, why in _REFUSED.items():
        setattr(process_group, name, _refusing(name, why))
    process_group._set_switch_nic_comm = _set_switch_nic_comm
    process_group.abort_hccl_comm = _abort_hccl_comm
    process_group._delete_tcpstore_key = _delete_tcpstore_key
    process_group.get_coll_stream_id = _get_coll_stream_id
    process_group.get_p2p_stream_id = _get_p2p_stream_id
    process_group._get_stream_id = _get_stream_id
    process_group.batch_isend_irecv = _batch_isend_irecv
