"""SGD with Apex's arguments."""

from typing import Any, Optional

from torch_npu.contrib.apex.fused._foreach import NoneForGrads
from torch_npu.optim import NpuFusedSGD

__all__ = ["FusedSGD"]


class FusedSGD(NoneForGrads, NpuFusedSGD):
    """SGD. ``wd_after_momentum=True`` is a NotImplementedError; ``materialize_master_grads`` changes nothing."""

    def __init__(self, params: Any, lr: Optional[float] = None, momentum: float = 0, dampening: int = 0, weight_decay: float = 0,
                 nesterov: bool = False, wd_after_momentum: bool = False, materialize_master_grads: bool = True,
                 set_grad_none: bool = False) -> None:
        if wd_after_momentum:
            raise NotImplementedError("FusedSGD: wd_after_momentum=True is not there")
        self.set_grad_none = set_grad_none
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "set_grad_none": self.set_grad_none}
