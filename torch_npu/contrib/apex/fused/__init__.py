"""The optimizers that Apex itself has, with Apex's arguments, defaults and rules."""

from torch_npu.contrib.apex.fused.adagrad import FusedAdagrad
from torch_npu.contrib.apex.fused.adam import FusedAdam
from torch_npu.contrib.apex.fused.fp16_optimizer import FP16_Optimizer
from torch_npu.contrib.apex.fused.lamb import FusedLAMB
from torch_npu.contrib.apex.fused.novograd import FusedNovoGrad
from torch_npu.contrib.apex.fused.sgd import FusedSGD

__all__ = ["FP16_Optimizer", "FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedNovoGrad", "FusedSGD"]
