"""Batch norms over several ranks."""

from typing import Any

import torch

__all__ = ["SyncBatchNorm", "convert_syncbn_model", "create_syncbn_process_group"]

SyncBatchNorm = torch.nn.SyncBatchNorm


def convert_syncbn_model(module: torch.nn.Module, process_group: Any = None, channel_last: bool = False) -> torch.nn.Module:
    """The module with each of its batch norms replaced by a SyncBatchNorm. ``channel_last`` changes nothing."""
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)


def create_syncbn_process_group(group_size: int) -> Any:
    """The process group of ``group_size`` consecutive ranks that this rank is in; None, all ranks, for 0.

    Every rank makes all of these groups, so every rank must call it. ValueError unless ``group_size`` divides their number.
    """
    if group_size == 0:
        return None
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    if group_size < 0 or world % group_size:
        raise ValueError(f"group_size {group_size} does not divide the {world} ranks")
    groups = [torch.distributed.new_group(ranks=list(range(first, first + group_size))) for first in range(0, world, group_size)]
    return groups[rank // group_size]
