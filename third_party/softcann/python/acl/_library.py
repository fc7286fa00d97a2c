"""The libraries of CANN that this process uses: those it has loaded or finds, otherwise softcann's."""
import ctypes
import functools
import importlib.util
import os


def _softcann():
    """Folder of softcann's libraries: its own wheel, or the one that torch_npu's wheel carries."""
    for package in ("softcann", "torch_npu.softcann"):
        top, *inner = package.split(".")
        spec = importlib.util.find_spec(top)   # found, not imported: torch_npu imports torch
        for place in spec.submodule_search_locations or () if spec else ():
            folder = os.path.join(place, *inner, "lib")
            if os.path.isfile(os.path.join(folder, "libascendcl.so")):
                return folder
    return None


@functools.lru_cache(maxsize=None)
def _chosen():
    """The folder, empty where the loader finds the libraries by their names, and libascendcl."""
    try:
        return "", ctypes.CDLL("libascendcl.so", mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        problem = error
    homes = map(os.environ.get, ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"))
    for folder in (*(os.path.join(home, "lib64") for home in homes if home), _softcann()):
        path = folder and os.path.join(folder, "libascendcl.so")
        if path and os.path.isfile(path):
            return folder, ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    raise ImportError(f"acl needs libascendcl.so ({problem}): pip install softcann, or set up CANN's environment")


def folder():
    """Where the libraries are, for messages."""
    return _chosen()[0] or "the loader's path"


@functools.lru_cache(maxsize=None)
def _opened(name):
    place, first = _chosen()
    if name == "libascendcl.so":
        return first
    try:
        return ctypes.CDLL(os.path.join(place, name), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


def symbol(libraries, name):
    """The function `name` of the first of the libraries that has it; None where none has."""
    for one in map(_opened, libraries):
        if one is not None and hasattr(one, name):
            return getattr(one, name)
    return None
