"""Apex's interface to mixed precision (``from torch_npu.contrib.apex import amp``) and what programs use of Apex beside it."""

from torch_npu.contrib.apex import amp, fused, normalization, optimizers, parallel

__all__ = ["amp", "fused", "normalization", "optimizers", "parallel"]
