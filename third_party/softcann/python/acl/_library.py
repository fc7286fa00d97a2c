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


class _DlInfo(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


@functools.lru_cache(maxsize=None)
def _ascendcl():
    try:
        return ctypes.CDLL("libascendcl.so", mode=ctypes.RTLD_GLOBAL)   # also one that was loaded by its path
    except OSError as error:
        problem = error
    homes = map(os.environ.get, ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"))
    for place in (*(os.path.join(home, "lib64") for home in homes if home), _softcann()):
        path = place and os.path.join(place, "libascendcl.so")
        if path and os.path.isfile(path):
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    raise ImportError(f"acl needs libascendcl.so ({problem}): install the wheel that bash ci/build.sh makes, "
                      "dist/softcann-*.whl, or set up CANN's environment")


@functools.lru_cache(maxsize=None)
def folder():
    """Where the libascendcl that is used lies; its companions are those beside it."""
    info = _DlInfo()
    if not ctypes.CDLL(None).dladdr(ctypes.cast(_ascendcl().aclInit, ctypes.c_void_p), ctypes.byref(info)):
        raise ImportError("the loader does not know where libascendcl.so lies")
    return os.path.dirname(os.path.abspath(os.fsdecode(info.file)))


@functools.lru_cache(maxsize=None)
def _opened(name):
    if name == "libascendcl.so":
        return _ascendcl()
    try:
        return ctypes.CDLL(os.path.join(folder(), name), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


def symbol(libraries, name):
    """The function `name` of the first of the libraries that has it; None where none has."""
    for one in map(_opened, libraries):
        if one is not None and hasattr(one, name):
            return getattr(one, name)
    return None
