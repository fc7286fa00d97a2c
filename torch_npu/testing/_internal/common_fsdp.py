"""For suites of FullyShardedDataParallel: :class:`FSDPNPUTest`."""

from typing import Any

import torch
import torch.distributed as dist
import torch.testing._internal.common_fsdp as common_fsdp

__all__ = ["FSDPNPUTest"]

# PyTorch's module knows no device but CUDA, XPU and HPU.
common_fsdp.DEVICE_TYPE = "npu"
common_fsdp.DISTRIBUTED_BACKEND = "hccl"
common_fsdp.DEVICE_COUNT = torch.npu.device_count()


class FSDPNPUTest(common_fsdp.FSDPTest):
    """PyTorch's FSDPTest with a rank on each NPU, or in a fake process group with ``fake_pg=True``."""

    @classmethod
    # The classes that this overrides call the pipe differently.
    def _run(  # type: ignore[override]
        cls, rank: int, test_name: str, file_name: str, pipe: Any, **kwargs: Any
    ) -> None:
        self = cls(test_name)
        self.rank, self.file_name = rank, file_name
        torch.npu.set_device(rank % torch.npu.device_count())
        if kwargs.get("fake_pg"):
            from torch.testing._internal.distributed import fake_pg

            dist.init_process_group("fake", world_size=self.world_size, rank=rank, store=fake_pg.FakeStore())
        else:
            dist.init_process_group("hccl", world_size=int(self.world_size), rank=rank, init_method=self.init_method)
        torch._dynamo.reset()
        dist.barrier()  # no rank may end, as one that skips does at once, before all have begun
        self.run_test(test_name, pipe)
        torch._dynamo.reset()
        dist.barrier()
        dist.destroy_process_group()
