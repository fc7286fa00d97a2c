"""Apex's interface to mixed precision: ``from torch_npu.contrib.apex import amp``."""

from torch_npu.contrib.apex import amp, optimizers

__all__ = ["amp", "optimizers"]
