"""``import torch_npu.contrib.apex_alias``: from then on ``from apex import amp`` and ``from apex.optimizers import FusedAdam``
find torch_npu.contrib.apex, unless a real Apex is installed, which stays what it is.

There are ``apex.amp``, ``apex.parallel``, ``apex.normalization``, ``apex.optimizers`` with its modules ``npu_fused_*``, and
``apex.contrib.combine_tensors``, which Ascend's Apex has. The optimizers are Apex's own where it has one of that name; else
``Fused*`` are the ``NpuFused*`` ones.
"""

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Dict

from torch_npu import optim as _optim
from torch_npu.contrib import apex as _apex
from torch_npu.utils import combine_tensors as _combine

__all__ = ["installed"]


def _module(name: str, doc: Any, /, **names: Any) -> types.ModuleType:
    module = types.ModuleType(name, doc)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package="__path__" in names)   # for who asks find_spec
    module.__dict__.update(names)
    return module


def _optimizers() -> Dict[str, Any]:
    npu = {name: getattr(_apex.optimizers, name) for name in _apex.optimizers.__all__}
    short = {name[len("Npu"):]: value for name, value in npu.items() if name.startswith("NpuFused")}
    own = {name: getattr(_apex.fused, name) for name in _apex.fused.__all__}
    return {**npu, **short, **own}


def _install() -> bool:
    """Whether ``apex`` is ours now."""
    if "apex" in sys.modules or importlib.util.find_spec("apex") is not None:
        return sys.modules.get("apex") is not None and hasattr(sys.modules["apex"], "_of_torch_npu")
    combine = _module("apex.contrib.combine_tensors", _combine.__doc__, combine_npu=_combine.npu_combine_tensors,
                      **{name: getattr(_combine, name) for name in _combine.__all__})
    modules = ("adadelta", "adam", "adamp", "bert_adam", "lamb", "rmsprop", "sgd")
    submodules = {f"npu_fused_{name}": getattr(_optim, name) for name in modules}
    optimizers = _module("apex.optimizers", _apex.fused.__doc__, __path__=[], **_optimizers(), **submodules)
    found = {
        "apex.amp": _apex.amp,
        "apex.parallel": _apex.parallel,
        "apex.normalization": _apex.normalization,
        "apex.normalization.fused_layer_norm": _apex.normalization,
        "apex.optimizers": optimizers,
        **{f"apex.optimizers.{name}": module for name, module in submodules.items()},
        "apex.contrib": _module("apex.contrib", "Ascend's addition to Apex.", __path__=[], combine_tensors=combine),
        "apex.contrib.combine_tensors": combine,
    }
    children = {name.split(".")[1]: module for name, module in found.items() if name.count(".") == 1}
    sys.modules.update(found, apex=_module("apex", __doc__, _of_torch_npu=True, __path__=[], **children))
    return True


installed = _install()
