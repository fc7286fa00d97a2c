"""softcann, a software CANN: Ascend's C interface served by the CPU.

Nothing is loaded by importing this package. `library_path()` is the folder with libascendcl.so and its companions;
`python -m softcann env` prints what a shell needs so that another client of CANN finds them.
"""
import os
from typing import Dict, List, Mapping, Optional, Tuple

__all__ = ["environment", "library_path", "options"]

# Each would lead a client to an installation of the real CANN.
FOREIGN = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "ASCEND_CUSTOM_OPP_PATH")


def library_path() -> str:
    """Folder of libascendcl.so; FileNotFoundError where the package was not built."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    library = os.path.join(folder, "libascendcl.so")
    if not os.path.isfile(library):
        raise FileNotFoundError(f"{library} is not there: build and install the softcann wheel (bash ci/build.sh)")
    return folder


def environment(inherited: Mapping[str, str] = os.environ) -> Dict[str, Optional[str]]:
    """Variables for a process that is to use softcann, by name; None means that the variable must be unset.

    `inherited` is the environment that they are added to.
    """
    folder = library_path()
    others = [path for path in inherited.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path and path != folder]
    return {"LD_LIBRARY_PATH": os.pathsep.join([folder, *others]), **dict.fromkeys(FOREIGN)}


def options() -> List[Tuple[str, ...]]:
    """The environment variables that softcann reads: a list of (name, default, description)."""
    import ctypes

    library = ctypes.CDLL(os.path.join(library_path(), "libascendcl.so"))
    library.softcannDescribeOptions.restype = ctypes.c_char_p
    lines = library.softcannDescribeOptions().decode().splitlines()
    return [tuple(line.split("\t")) for line in lines]
