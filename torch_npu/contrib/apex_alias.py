"""``import torch_npu.contrib.apex_alias``: from then on ``from apex import amp`` and ``from apex.optimizers import FusedAdam``
find torch_npu.contrib.apex, unless a real Apex is installed, which stays what it is.

There are ``apex.amp``, ``apex.fp16_utils``, ``apex.parallel``, ``apex.normalization``, ``apex.multi_tensor_apply``,
``apex.optimizers`` with its modules ``npu_fused_*``, ``apex.contrib.optimizers``, ``apex.contrib.xentropy``, and
``apex.contrib.combine_tensors``, which Ascend's Apex has; and ``apex_C``, which Apex builds beside itself. The optimizers are
Apex's own where it has one of that name; else ``Fused*`` are the ``NpuFused*`` ones.
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


def _parallel() -> Dict[str, types.ModuleType]:
    """``apex.parallel`` and its modules: in Apex its name ``LARC`` is a module, which has the class."""
    larc = _module("apex.parallel.LARC", _apex.parallel.LARC.__doc__, LARC=_apex.parallel.LARC)
    names = {name: getattr(_apex.parallel, name) for name in _apex.parallel.__all__}
    parallel = _module("apex.parallel", _apex.parallel.__doc__, __path__=[], **{**names, "LARC": larc})
    return {"apex.parallel": parallel, "apex.parallel.LARC": larc, "apex.parallel.distributed": _apex.parallel.distributed}


def _contrib() -> Dict[str, types.ModuleType]:
    combine = _module("apex.contrib.combine_tensors", _combine.__doc__, combine_npu=_combine.npu_combine_tensors,
                      **{name: getattr(_combine, name) for name in _combine.__all__})
    names = ("FP16_Optimizer", "FusedAdam", "FusedLAMB", "FusedSGD")
    optimizers = _module("apex.contrib.optimizers", _apex.fused.__doc__, **{name: getattr(_apex.fused, name) for name in names})
    contrib = _module("apex.contrib", "Of Apex's contributions, and Ascend's.", __path__=[], combine_tensors=combine,
                      optimizers=optimizers, xentropy=_apex.xentropy)
    return {"apex.contrib": contrib, "apex.contrib.combine_tensors": combine, "apex.contrib.optimizers": optimizers,
            "apex.contrib.xentropy": _apex.xentropy}


def _install() -> bool:
    """Whether ``apex`` is ours now."""
    if "apex" in sys.modules or importlib.util.find_spec("apex") is not None:
        return sys.modules.get("apex") is not None and hasattr(sys.modules["apex"], "_of_torch_npu")
    modules = ("adadelta", "adam", "adamp", "bert_adam", "lamb", "rmsprop", "sgd")
    submodules = {f"npu_fused_{name}": getattr(_optim, name) for name in modules}
    submodules.update({f"fused_{name}": getattr(_apex.fused, name) for name in ("adagrad", "adam", "lamb", "novograd", "sgd")})
    optimizers = _module("apex.optimizers", _apex.fused.__doc__, __path__=[], **_optimizers(), **submodules)
    found = {
        "apex.amp": _apex.amp,
        "apex.fp16_utils": _apex.fp16_utils,
        "apex.multi_tensor_apply": _apex.multi_tensor_apply,
        "apex.normalization": _apex.normalization,
        "apex.normalization.fused_layer_norm": _apex.normalization,
        "apex.optimizers": optimizers,
        **{f"apex.optimizers.{name}": module for name, module in submodules.items()},
        **_parallel(),
        **_contrib(),
    }
    children = {name.split(".")[1]: module for name, module in found.items() if name.count(".") == 1}
    sys.modules.update(found, apex=_module("apex", __doc__, _of_torch_npu=True, __path__=[], **children))
    distributed = _apex.parallel.distributed
    sys.modules.setdefault("apex_C", _module("apex_C", "Lists of tensors in one.", flatten=distributed.flatten,
                                             unflatten=distributed.unflatten))
    return True


installed = _install()
