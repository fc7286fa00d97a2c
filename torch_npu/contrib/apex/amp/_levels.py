"""The optimization levels: what each means, and what may be changed about it."""

import math
from typing import Any

import torch

from torch_npu.npu.device import is_bf16_supported

# cast_model_type, autocast, keep_batchnorm_fp32, master_weights, loss_scale
_LEVELS = {
    "O0": (torch.float32, False, None, False, 1.0),
    "O1": (None, True, None, None, "dynamic"),
    "O2": (torch.float16, False, True, True, "dynamic"),
    "O3": (torch.float16, False, False, False, 1.0),
}
_MODEL_TYPES = (torch.float16, torch.bfloat16, torch.float32)


class Properties:
    """The properties of one amp.initialize: the level's, unless given."""

    def __init__(self, opt_level: Any, cast_model_type: Any, patch_torch_functions: Any, keep_batchnorm_fp32: Any,
                 master_weights: Any, loss_scale: Any) -> None:
        if opt_level not in _LEVELS:
            raise ValueError(f"opt_level {opt_level!r}: expected one of 'O0', 'O1', 'O2', 'O3' (the letter O, not zero)")
        self.opt_level = opt_level
        (self.cast_model_type, self.autocast, self.keep_batchnorm_fp32, self.master_weights,
         self.loss_scale) = _LEVELS[opt_level]
        if opt_level == "O1":
            for name, value in (("cast_model_type", cast_model_type), ("keep_batchnorm_fp32", keep_batchnorm_fp32),
                                ("master_weights", master_weights)):
                if value is not None:
                    raise ValueError(f"{name} cannot be given with O1, where autocast chooses the type of each operator")
        if patch_torch_functions is not None and bool(patch_torch_functions) != self.autocast:
            raise ValueError(f"patch_torch_functions={patch_torch_functions} does not go with {opt_level}: "
                             "it is what makes the level O1")
        if cast_model_type is not None:
            self.cast_model_type = _model_type(cast_model_type)
        if keep_batchnorm_fp32 is not None:
            self.keep_batchnorm_fp32 = _flag("keep_batchnorm_fp32", keep_batchnorm_fp32)
        if master_weights is not None:
            self.master_weights = _flag("master_weights", master_weights)
        if loss_scale is not None:
            self.loss_scale = _loss_scale(loss_scale)


def _model_type(dtype: torch.dtype) -> torch.dtype:
    if dtype not in _MODEL_TYPES:
        raise ValueError(f"cast_model_type {dtype}: expected torch.float16, torch.bfloat16 or torch.float32")
    if dtype is torch.bfloat16 and not is_bf16_supported():
        raise ValueError("cast_model_type torch.bfloat16: this NPU does not compute in it, use torch.float16")
    return dtype


def _flag(name: str, value: Any) -> bool:
    """True and False; as strings too, for they often come from a command line."""
    if value in (True, "True"):
        return True
    if value in (False, "False"):
        return False
    raise ValueError(f"{name} {value!r}: expected True or False")


def _loss_scale(value: Any) -> Any:
    if value == "dynamic":
        return value
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"loss_scale {value!r}: expected 'dynamic' or a positive number")
    return number
