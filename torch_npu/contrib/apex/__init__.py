"""Apex's interface to mixed precision (``from torch_npu.contrib.apex import amp``) and what programs use of Apex beside it."""

from torch_npu.contrib.apex import (
    amp,
    fp16_utils,
    fused,
    multi_tensor_apply,
    normalization,
    optimizers,
    parallel,
    xentropy,
)

__all__ = ["amp", "fp16_utils", "fused", "multi_tensor_apply", "normalization", "optimizers", "parallel", "xentropy"]
