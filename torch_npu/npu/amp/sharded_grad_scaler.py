"""ShardedGradScaler for FSDP, on the NPU unless told otherwise. A module of its own: it imports FSDP."""

from typing import Any, Dict

import torch.distributed as dist
from torch.distributed.fsdp import sharded_grad_scaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(sharded_grad_scaler.ShardedGradScaler):
    """``torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler(device="npu", ...)``.

    With fused optimizers, too, all ranks skip the step in which one overflowed. PyTorch's lets each rank look at its own
    shard there, and what it leaves after ``unscale_`` (the number of ranks, of shape [1]) is not what they take.
    """

    def __init__(self, device: str = "npu", *args: Any, **kwargs: Any) -> None:
        super().__init__(device, *args, **kwargs)

    def _check_inf_per_device(self, optimizer: Any) -> Dict[str, Any]:
        found_inf_per_device = super()._check_inf_per_device(optimizer)
        for found_inf in found_inf_per_device.values():
            shared = found_inf.to(self._device)
            dist.all_reduce(shared, op=dist.ReduceOp.MAX, group=self.process_group)
            if shared is not found_inf:
                found_inf.copy_(shared)
        return found_inf_per_device

    def unscale_(self, optimizer: Any) -> None:
        super().unscale_(optimizer)
        if self._enabled:
            state = self._per_optimizer_states[id(optimizer)]
            found = state["found_inf_per_device"]
            state["found_inf_per_device"] = {device: found_inf.clamp(max=1).reshape(()) for device, found_inf in found.items()}
