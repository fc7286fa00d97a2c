"""For suites of DTensor: :class:`NPUDTensorTestBase`."""

import torch
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase

__all__ = ["NPUDTensorTestBase"]


class NPUDTensorTestBase(DTensorTestBase):
    """PyTorch's DTensorTestBase on NPUs: as many ranks as there are, at most 4."""

    @property
    def device_type(self) -> str:
        return "npu"

    @property
    def world_size(self) -> int:
        count = torch.npu.device_count()
        return min(4, count) if count > 1 else 4
