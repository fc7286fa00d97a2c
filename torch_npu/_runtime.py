"""Which CANN this process uses. Decided once, openly: TORCH_NPU_RUNTIME=auto|cann|softcann.

``auto`` takes the real CANN when the machine has NPU device files; then a broken CANN is an error that
names its cause. Only a machine without any NPU gets the software CANN.

Besides this early choice, the C++ options table (csrc/core/options.def) reads the environment.
"""

import glob
import os
import platform
from typing import Any, Dict, List, Tuple

from torch_npu import _C

_CHOICES = ("auto", "cann", "softcann")
_HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_DEFAULT_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/latest",
    "/usr/local/Ascend/nnae/latest",
)
_LIBRARY = "libascendcl.so"


class Choice:
    """The CANN that was chosen: ``runtime`` ("cann" or "softcann"), library ``folders``, ``reason``."""

    def __init__(self, runtime: Any, folders: Any, reason: Any) -> None:
        self.runtime = runtime
        self.folders = folders
        self.reason = reason


_choice = None


def npu_device_files() -> List[str]:
    """Device files of NPUs on this machine, sorted; an empty list where there is none."""
    return sorted(glob.glob("/dev/davinci[0-9]*"))


def _library_folders(home: Any) -> List[str]:
    """Folders below a CANN home where its libraries may be."""
    arch = "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    names = ("lib64", f"{arch}-linux/lib64", "runtime/lib64", "lib")
    return [os.path.join(home, name) for name in names]


def _folders_with_library(folders: Any) -> List[Any]:
    return [folder for folder in folders if os.path.isfile(os.path.join(folder, _LIBRARY))]


def _find_cann() -> Tuple[List[Any], str]:
    """Folders of the real CANN's libraries and where they come from.

    Raises RuntimeError that names the variable and the file when CANN is absent or incomplete. A variable that
    is set is believed: nothing else is searched then.
    """
    for variable in _HOME_VARIABLES:
        home = os.environ.get(variable)
        if not home:
            continue
        if not os.path.isdir(home):
            raise RuntimeError(
                f"{variable}={home}, but there is no such folder; point it to the CANN installation "
                "(`source <CANN>/set_env.sh` does) or unset it"
            )
        folders = _library_folders(home)
        if not _folders_with_library(folders):
            tried = ", ".join(folders)
            raise RuntimeError(
                f"{variable}={home}, but {_LIBRARY} is in none of {tried}; the CANN installation there is "
                f"incomplete: reinstall it or correct {variable}"
            )
        return [folder for folder in folders if os.path.isdir(folder)], f"{variable}={home}"

    path = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    found = _folders_with_library(path)
    if found:
        return found, f"LD_LIBRARY_PATH has {found[0]}"
    for home in _DEFAULT_HOMES:
        folders = _library_folders(home)
        if _folders_with_library(folders):
            return [folder for folder in folders if os.path.isdir(folder)], f"found in {home}"
    raise RuntimeError(
        f"CANN was not found: {' and '.join(_HOME_VARIABLES)} are not set, {_LIBRARY} is not in LD_LIBRARY_PATH "
        f"and not below {', '.join(_DEFAULT_HOMES)}; install CANN and `source <CANN>/set_env.sh`, "
        "or set TORCH_NPU_RUNTIME=softcann to run on the software CANN"
    )


def _find_softcann() -> List[str]:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "softcann", "lib")
    library = os.path.join(folder, _LIBRARY)
    if not os.path.isfile(library):
        raise RuntimeError(
            f"the software CANN is incomplete: {library} is not there; reinstall torch_npu or rebuild it"
        )
    return [folder]


def choose() -> Any:
    """Decides which CANN to use; a Choice. Raises ValueError or RuntimeError with cause and remedy."""
    wanted = os.environ.get("TORCH_NPU_RUNTIME", "auto") or "auto"
    if wanted not in _CHOICES:
        raise ValueError(f"TORCH_NPU_RUNTIME={wanted}: expected one of {', '.join(_CHOICES)}")
    if wanted == "softcann":
        return Choice("softcann", _find_softcann(), "TORCH_NPU_RUNTIME=softcann")
    if wanted == "cann":
        folders, source = _find_cann()
        return Choice("cann", folders, f"TORCH_NPU_RUNTIME=cann, {source}")
    devices = npu_device_files()
    if not devices:
        return Choice("softcann", _find_softcann(), "this machine has no NPU (no /dev/davinci*)")
    try:
        folders, source = _find_cann()
    except RuntimeError as error:
        raise RuntimeError(f"this machine has an NPU ({devices[0]}), so the real CANN is needed: {error}") from None
    return Choice("cann", folders, f"this machine has an NPU ({devices[0]}); {source}")


def prepare() -> None:
    """Tells the C++ loader where the libraries are, without opening them; a failure waits for first use."""
    try:
        use_chosen()
    except (RuntimeError, ValueError):
        pass


def use_chosen() -> Any:
    """The Choice of this process, made at the first call that succeeds. Raises as :func:`choose` does."""
    global _choice
    if _choice is not None and _C._opened_libraries():
        return _choice
    _choice = None
    choice = choose()
    if choice.runtime == "softcann" and "LOCAL_WORLD_SIZE" in os.environ:
        # Under torchrun each process gets a device of its own, as on a server of NPUs.
        os.environ.setdefault("SOFTCANN_DEVICE_COUNT", os.environ["LOCAL_WORLD_SIZE"])
    _C._set_library_path(choice.folders)
    _choice = choice
    return choice


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
