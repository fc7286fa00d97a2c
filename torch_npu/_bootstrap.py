"""What ``import torch_npu`` does: check versions, load the C++ part, tell PyTorch about the device.

Nothing here opens CANN or touches a device.
"""

import glob
import os
import sys
from typing import Any, Dict, List, Optional


def check_torch_version(installed: Any, built: Any) -> None:
    """Raises ImportError unless both versions have the same major and minor number.

    PyTorch keeps its C++ interface stable within a minor version only; loading across two of them
    ends in an undefined symbol or a crash.
    """
    if not built or installed.split("+")[0].split(".")[:2] == built.split(".")[:2]:
        return
    minor = ".".join(built.split(".")[:2])
    raise ImportError(
        f"this torch_npu was built for torch {minor}, but torch {installed} is installed; "
        f"run `pip install 'torch=={minor}.*'` or install the torch_npu that matches torch {installed}"
    )


def check_built(package: str, path: Optional[List[str]] = None) -> None:
    """Raises ImportError where ``package``, the folder of torch_npu, is a source tree without the C++ part.

    Python looks into the current folder first, so that in such a tree it does not find the installed package. ``path``: the
    folders to look for it, ``sys.path`` when None.
    """
    if _is_built(package) or not os.path.isfile(os.path.join(package, "..", "csrc", "CMakeLists.txt")):
        return
    tree = os.path.abspath(os.path.join(package, ".."))
    others = [os.path.join(folder, "torch_npu") for folder in (sys.path if path is None else path) if folder]
    installed = next((other for other in others if _is_built(other)), None)
    raise ImportError(
        f"{tree} is a source tree of torch_npu that is not built, and Python found it before anything that is installed. "
        + (f"Leave this folder (and take it out of PYTHONPATH) to use {installed}, or build here" if installed else "Build here")
        + ": `pip install --no-build-isolation -e .`"
    )


def _is_built(package: str) -> bool:
    return bool(glob.glob(os.path.join(glob.escape(package), "_C.*.so")))


def start() -> None:
    check_built(os.path.dirname(os.path.abspath(__file__)))
    import torch

    from torch_npu import version

    check_torch_version(torch.__version__, version.torch_version)
    try:
        import torch_npu._C
    except ImportError as error:
        raise ImportError(
            f"the C++ part of torch_npu {version.__version__} could not be loaded with torch "
            f"{torch.__version__}: {error}; reinstall torch_npu for this torch and this Python"
        ) from error

    torch.utils.rename_privateuse1_backend("npu")
    activities = torch._C._profiler.ProfilerActivity
    if not hasattr(activities, "NPU"):   # newer versions of torch name it themselves
        activities.NPU = activities.PrivateUse1
    from torch_npu import npu

    torch._register_device_module("npu", npu)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )

    from torch_npu import _compile, _exit, _options, _runtime, _verbosity
    from torch_npu._debug import start as debugging
    from torch_npu._hooks import libraries, patches
    from torch_npu._ops import custom
    from torch_npu._published import c_extension, names
    from torch_npu.multiprocessing import reductions
    from torch_npu.utils import storage

    _verbosity.apply()
    patches.apply()
    custom.register()
    _compile.register_when_imported()  # which names custom operators
    libraries.register_when_imported()
    reductions.register()
    storage._register()
    names.register_aliases()
    vars(torch_npu._C).update(__getattr__=c_extension.lookup, __dir__=c_extension.listed)
    _runtime.prepare()
    _exit.register()
    torch_npu._C._apply_fallback_ops()
    if torch.distributed.is_available():
        from torch_npu import distributed

        distributed._register()
    if _options.get("transfer_to_npu"):
        from torch_npu.contrib import transfer_to_npu  # noqa: F401
    debugging.from_environment()


def _lookup(name: str) -> Any:
    """A name of torch_npu that is not there yet: a part that few programs need, or a custom operator."""
    from torch_npu._ops import custom
    from torch_npu._published import names

    if name in names.MODULES or name in names.TORCH_NPU:
        value = names.find("torch_npu", name, names.TORCH_NPU, names.MODULES)
        setattr(sys.modules["torch_npu"], name, value)
        return value
    if name in names.OTHER_NAMES:
        return names.find_other(name)

    return custom.lookup(name)


def public_names() -> Dict[str, Any]:
    """The names of the package torch_npu."""
    from torch_npu import _lazy, npu, utils, version
    from torch_npu._ops import custom
    from torch_npu._ops.fallbacks import fallbacks, reset_fallbacks
    from torch_npu._published import names
    from torch_npu._runtime import runtime_info

    return {
        "__dir__": lambda: _lazy.listing(
            "torch_npu", custom.operators(), names.TORCH_NPU, names.OTHER_NAMES, names.MODULES)(),
        "__getattr__": _lookup,
        "__version__": version.__version__,
        "fallbacks": fallbacks,
        "npu": npu,
        "reset_fallbacks": reset_fallbacks,
        "runtime_info": runtime_info,
        "utils": utils,
        "version": version,
    }
