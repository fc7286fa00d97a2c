"""softcann, a software CANN: Ascend's C interface served by the CPU.

Nothing is loaded by importing this package. `library_path()` is the folder with libascendcl.so and its companions;
`python -m softcann env` prints what a shell needs so that another client of CANN finds them.
"""
import os
from typing import Dict, List, Mapping, Optional, Tuple

__all__ = ["environment", "library_path", "options", "torch_problem"]

# Each would lead a client to an installation of the real CANN.
FOREIGN = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "ASCEND_CUSTOM_OPP_PATH")


def library_path() -> str:
    """Folder of libascendcl.so: of this package, or of the source tree around it; FileNotFoundError where neither was built."""
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.normpath(os.path.join(here, *[os.pardir] * 4, "torch_npu", "softcann"))
    for folder in (os.path.join(here, "lib"), os.path.join(tree, "lib")):
        if os.path.isfile(os.path.join(folder, "libascendcl.so")):
            return folder
    library = os.path.join(here, "lib", "libascendcl.so")
    raise FileNotFoundError(f"{library} is not there: build and install the softcann wheel (bash ci/build.sh)")


def torch_problem() -> Optional[str]:
    """Why the operators of this package would not work with the torch that is installed, in one sentence; None where they would.

    A torch minor has its own C++ ABI, so each has its own wheel; what it was built for stands in its requirements.
    """
    from importlib import metadata

    try:
        required = [r for r in metadata.requires("softcann") or [] if r.startswith("torch==")]
    except metadata.PackageNotFoundError:
        return None  # not installed as a package of its own
    minor = required[0][len("torch=="):].split(";")[0].strip().rstrip("*").rstrip(".") if required else ""
    if not minor:
        return None
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return f"this softcann is for torch {minor}, and there is no torch here: pip install 'torch=={minor}.*'"
    if installed.startswith(minor + "."):
        return None
    return (f"this softcann is for torch {minor}, and torch {installed} is installed: install the softcann wheel of that torch, "
            f"or pip install 'torch=={minor}.*'")


def _torch_elsewhere(folder: str) -> List[str]:
    """torch's libraries, where those of the operators do not find them: in a source tree, which is no neighbour of torch."""
    from importlib import util

    beside = (os.path.join(folder, *[os.pardir] * up, "torch", "lib") for up in (2, 3))
    if any(os.path.isdir(path) for path in beside):
        return []
    spec = util.find_spec("torch")
    return [os.path.join(path, "lib") for path in spec.submodule_search_locations or []] if spec else []


def environment(inherited: Mapping[str, str] = os.environ) -> Dict[str, Optional[str]]:
    """Variables for a process that is to use softcann, by name; None means that the variable must be unset.

    `inherited` is the environment that they are added to.
    """
    folder = library_path()
    torch = _torch_elsewhere(folder)

    def first(name: str) -> str:
        others = [path for path in inherited.get(name, "").split(os.pathsep) if path and path not in (folder, *torch)]
        return os.pathsep.join([folder, *others, *torch])

    # The second is the linker's: builds that link with -lascendcl find it where they expect an installation's lib64.
    return {"LD_LIBRARY_PATH": first("LD_LIBRARY_PATH"), "LIBRARY_PATH": first("LIBRARY_PATH"), **dict.fromkeys(FOREIGN)}


def options() -> List[Tuple[str, ...]]:
    """The environment variables that softcann reads: a list of (name, default, description)."""
    import ctypes

    library = ctypes.CDLL(os.path.join(library_path(), "libascendcl.so"))
    library.softcannDescribeOptions.restype = ctypes.c_char_p
    lines = library.softcannDescribeOptions().decode().splitlines()
    return [tuple(line.split("\t")) for line in lines]
