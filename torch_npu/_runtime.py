"""Which CANN this process uses. Decided once, openly: TORCH_NPU_RUNTIME=auto|cann|softcann; the rule is in ``_cann``.

Besides this early choice, the C++ options table (csrc/core/options.def) reads the environment.
"""

import os
from typing import Any, Dict, Optional

from torch_npu import _C
from torch_npu._cann import Choice, choose, is_softcann, npu_device_files

__all__ = ["npu_device_files", "prepare", "runtime_info", "use_chosen"]

_choice: Optional[Choice] = None


def prepare() -> None:
    """Tells the C++ loader where the libraries are, without opening them; a failure waits for first use."""
    try:
        use_chosen()
    except (RuntimeError, ValueError):
        pass


def use_chosen() -> Choice:
    """The Choice of this process, made at the first call that succeeds.

    Raises ValueError or RuntimeError with cause and remedy when there is no CANN that could be used.
    """
    global _choice
    if _choice is not None and _C._opened_libraries():
        return _choice
    _choice = None
    choice = choose(os.path.dirname(os.path.abspath(__file__)))
    if choice.runtime == "softcann" and "LOCAL_WORLD_SIZE" in os.environ:
        # Under torchrun each process gets a device of its own, as on a server of NPUs.
        if not os.environ["LOCAL_WORLD_SIZE"].isdecimal():
            processes = os.environ["LOCAL_WORLD_SIZE"]
            raise ValueError(f"LOCAL_WORLD_SIZE={processes}: expected the number of processes, as torchrun sets it")
        os.environ.setdefault("SOFTCANN_DEVICE_COUNT", os.environ["LOCAL_WORLD_SIZE"])
    _tell_home(choice)
    _C._set_library_path([os.fsencode(folder) for folder in choice.folders])   # a folder's name need not be UTF-8
    _choice = choice
    return choice


def _tell_home(choice: Choice) -> None:
    """Libraries such as DeepSpeed ask this variable where CANN is, and stop where it is not set. What is set stays, unless it is
    the home of another softcann, from an earlier choice or a parent process. Builds that link with -lascendcl look below it in
    lib64, which softcann has not: the linker finds softcann's libraries by LIBRARY_PATH."""
    home = choice.home if choice.runtime == "cann" else os.path.dirname(choice.folders[0])
    have = os.environ.get("ASCEND_HOME_PATH")
    if home and (not have or is_softcann(have)):
        os.environ["ASCEND_HOME_PATH"] = home
    folders = [folder for folder in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if folder]
    if choice.runtime == "softcann" and choice.folders[0] not in folders:
        os.environ["LIBRARY_PATH"] = os.pathsep.join([choice.folders[0], *folders])


def runtime_info() -> Dict[str, Any]:
    """What runs below torch_npu, as a dict.

    Keys: ``runtime`` ("cann" or "softcann"), ``reason`` (why that one), ``library_path`` (folders searched),
    ``libraries`` (name to path of those open), ``soc``, ``cann_version``, ``device_count``, ``torch_npu``,
    ``torch``, and ``error``: None, or why the runtime cannot be used (other entries are None then).
    """
    import torch

    from torch_npu import version

    info = dict.fromkeys(("runtime", "reason", "library_path", "soc", "cann_version", "device_count", "error"))
    info.update(libraries={}, torch_npu=version.__version__, torch=torch.__version__)
    try:
        choice = use_chosen()
        info.update(runtime=choice.runtime, reason=choice.reason, library_path=list(choice.folders))
        info["device_count"] = _C._device_count()
        info["soc"] = _C._soc_name()
        info["cann_version"] = _C._cann_version()
    except (RuntimeError, ValueError) as error:
        info["error"] = str(error)
    info["libraries"] = _C._opened_libraries()
    return info
