"""``import torch_npu.contrib.apex_alias``: from then on ``from apex import amp`` and ``from apex.optimizers import FusedAdam``
find torch_npu.contrib.apex, unless a real Apex is installed, which stays what it is. ``Fused*`` are the ``NpuFused*`` optimizers.
"""

import importlib.util
import sys
import types

from torch_npu.contrib import apex as _apex

__all__ = ["installed"]


def _optimizers() -> types.ModuleType:
    module = types.ModuleType("apex.optimizers", _apex.optimizers.__doc__)
    for name in _apex.optimizers.__all__:
        setattr(module, name, getattr(_apex.optimizers, name))
        if name.startswith("NpuFused"):
            setattr(module, name[len("Npu"):], getattr(_apex.optimizers, name))
    return module


def _install() -> bool:
    """Whether ``apex`` is ours now."""
    if "apex" in sys.modules or importlib.util.find_spec("apex") is not None:
        return sys.modules.get("apex") is not None and hasattr(sys.modules["apex"], "_of_torch_npu")
    module = types.ModuleType("apex", __doc__)
    module.__dict__.update(_of_torch_npu=True, __path__=[], amp=_apex.amp, optimizers=_optimizers())
    sys.modules.update({"apex": module, "apex.amp": _apex.amp, "apex.optimizers": module.__dict__["optimizers"]})
    return True


installed = _install()
