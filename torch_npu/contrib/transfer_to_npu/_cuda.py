"""torch.cuda and its submodules: everything that torch.npu has under the same name. What torch.cuda has alone stays as it is."""
import inspect
import sys
from typing import Any

import torch

from torch_npu import npu
from torch_npu.contrib.transfer_to_npu._replace import put
from torch_npu.npu import streams

SUBMODULES = "_utils amp amp.autocast_mode amp.grad_scaler graphs memory random streams".split()
_ALIASES = {"CUDAGraph": "NPUGraph", "CUDAPluggableAllocator": "NPUPluggableAllocator"}
# They change at initialisation, so torch.cuda must not have a copy.
_CHANGING = ("_initialized", "default_generators")


def apply() -> None:
    _take_over(torch.cuda, npu)
    for name in SUBMODULES:
        ours, theirs = (sys.modules.get(f"{package}.{name}") for package in ("torch_npu.npu", "torch.cuda"))
        if ours is not None and theirs is not None:
            _take_over(theirs, ours)
    put(torch.cuda, "get_device_capability", npu._architecture)  # programs for CUDA compare it with numbers
    # Libraries with kernels for CUDA (bitsandbytes) take it when they are imported, if torch.cuda is available.
    torch._C._cuda_getCurrentRawStream = streams._get_current_raw_stream  # type: ignore[assignment]
    _changing()
    npu.Stream.cuda_stream = npu.Stream.npu_stream
    npu.Event.cuda_event = npu.Event.npu_event


def _take_over(theirs: Any, ours: Any) -> None:
    for name, value in list(vars(theirs).items()):
        if name.startswith("__") or inspect.ismodule(value) or name in _CHANGING:
            continue
        if not (getattr(value, "__module__", None) or "torch.cuda").startswith("torch.cuda"):
            continue    # imported there: a Callable of collections.abc is not to be one of typing in all modules of torch
        new = getattr(ours, _ALIASES.get(name, name), None)
        if new is not None and new is not value and not inspect.ismodule(new):
            put(theirs, name, new)


def _changing() -> None:
    for name in _CHANGING:
        vars(torch.cuda).pop(name, None)
    inherited = vars(torch.cuda).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if name in _CHANGING:
            return getattr(npu, name)
        if inherited is not None:
            return inherited(name)
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")

    torch.cuda.__getattr__ = __getattr__
