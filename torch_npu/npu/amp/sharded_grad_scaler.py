"""ShardedGradScaler for FSDP, on the NPU unless told otherwise. A module of its own: it imports FSDP."""

from torch.distributed.fsdp import sharded_grad_scaler


class ShardedGradScaler(sharded_grad_scaler.ShardedGradScaler):
    """``torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler(device="npu", ...)``."""

    def __init__(self, device="npu", *args, **kwargs):
        super().__init__(device, *args, **kwargs)
