"""Data parallel training under Apex's names, by torch's own means."""

import inspect
from typing import Any, Optional

import torch

__all__ = ["DistributedDataParallel", "SyncBatchNorm", "convert_syncbn_model"]

# forward() leaves the buffers as they are: newer versions of torch have a name of its own for that.
_NAMES = inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters
_BUFFERS_STAY: Any = {"forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers": False}

SyncBatchNorm = torch.nn.SyncBatchNorm


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch's, called as Apex's: parameters and buffers are rank 0's at the beginning, gradients are averaged in backward.

    ``delay_allreduce``: parameters may be without a gradient. ``shared_param``, which Apex replaced by it, asks for the same. The
    arguments behind it that are named here are about how Apex schedules its work, and change nothing. Sums instead of averages
    (``gradient_average=False``) and ``allreduce_always_fp32`` are a NotImplementedError.
    """

    def __init__(self, module: torch.nn.Module, message_size: int = 10_000_000, delay_allreduce: bool = False,
                 shared_param: Optional[bool] = None, allreduce_trigger_params: Any = None,
                 retain_allreduce_buffers: bool = False, allreduce_always_fp32: bool = False, num_allreduce_streams: int = 1,
                 allreduce_communicators: Any = None, gradient_average: bool = True, gradient_predivide_factor: float = 1.0,
                 gradient_average_split_factor: Any = None, prof: bool = False) -> None:
        if not gradient_average or allreduce_always_fp32:
            raise NotImplementedError("gradient_average=False and allreduce_always_fp32=True: register a communication hook "
                                      "with torch.nn.parallel.DistributedDataParallel instead")
        for buffer in module.buffers():
            torch.distributed.broadcast(buffer, 0)
        super().__init__(module, find_unused_parameters=bool(delay_allreduce or shared_param), **_BUFFERS_STAY)


def convert_syncbn_model(module: torch.nn.Module, process_group: Any = None, channel_last: bool = False) -> torch.nn.Module:
    """The module with each of its batch norms replaced by a SyncBatchNorm. ``channel_last`` changes nothing."""
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)
