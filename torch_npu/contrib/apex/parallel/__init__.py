"""Data parallel training under Apex's names, by torch's own means."""

from torch_npu.contrib.apex.parallel import distributed
from torch_npu.contrib.apex.parallel.distributed import DistributedDataParallel, Reducer
from torch_npu.contrib.apex.parallel.larc import LARC
from torch_npu.contrib.apex.parallel.sync_batch_norm import SyncBatchNorm, convert_syncbn_model, create_syncbn_process_group

__all__ = ["LARC", "DistributedDataParallel", "Reducer", "SyncBatchNorm", "convert_syncbn_model", "create_syncbn_process_group",
           "distributed"]
