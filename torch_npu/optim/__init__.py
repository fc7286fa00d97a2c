"""Optimizers that update all parameters of a group at once, on flat tensors.

Each gives the results of its unfused counterpart. ``clip_grad_norm_fused_(max_norm)`` clips the gradients of all of its
parameters together.
"""

from torch_npu.optim._base import NpuFusedOptimizerBase
from torch_npu.optim.adadelta import NpuFusedAdadelta
from torch_npu.optim.adam import NpuFusedAdam, NpuFusedAdamW
from torch_npu.optim.adamp import NpuFusedAdamP
from torch_npu.optim.bert_adam import NpuFusedBertAdam
from torch_npu.optim.distributed_muon import _DistributedMuon
from torch_npu.optim.lamb import NpuFusedLamb
from torch_npu.optim.rmsprop import NpuFusedRMSprop, NpuFusedRMSpropTF
from torch_npu.optim.sgd import NpuFusedSGD

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
