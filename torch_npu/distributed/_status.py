"""TORCH_HCCL_STATUS_SAVE_ENABLE=1: a file of each rank with the latest collective of its groups, under the published name."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from torch_npu import _C

_INTERVAL = 2   # seconds
_kept = False


def keep(options: Any) -> None:
    """Has the watchdog keep the file, from the first group of the process on, which torch.distributed's ``options`` are of."""
    global _kept
    if _kept:
        return
    import torch

    _kept = True
    rank = (options.global_ranks_in_group or range(options.group_size))[options.group_rank]
    size = int(os.environ.get("WORLD_SIZE", options.group_size))
    parts = (rank, os.environ.get("MASTER_ADDR", ""), torch.npu.current_device(), size, os.getpid(), int(time.time() * 1000))
    try:
        interval = int(os.environ.get("TORCH_HCCL_STATUS_SAVE_INTERVAL", _INTERVAL))
    except ValueError:
        interval = _INTERVAL
    _C._distributed_c10d._keep_status(
        os.environ.get("TORCH_HCCL_STATUS_SAVE_PATH", ""), f"torch_hccl_status-{'_'.join(map(str, parts))}.log",
        timedelta(seconds=interval if interval > 0 else _INTERVAL), rank == 0)
