"""C++ extensions that call the NPU: where the headers and libraries are, and an ``Extension`` that knows them.

    from setuptools import setup
    from torch.utils.cpp_extension import BuildExtension
    from torch_npu.utils.cpp_extension import NpuExtension

    setup(name="my_ops", ext_modules=[NpuExtension("my_ops", ["my_ops.cpp"])], cmdclass={"build_ext": BuildExtension})

The sources include ``<torch_npu/torch_npu.h>``. An extension belongs to one minor version of torch, as torch_npu does.
"""
import pathlib
from typing import Any, List

__all__ = ["NpuExtension", "include_paths", "library_paths", "load"]

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_COMPILE_ARGUMENTS = ["-std=c++20"]


def include_paths() -> List[str]:
    """Folders with the headers of torch_npu and of CANN's interface, as a list of str; torch's are not among them."""
    root = _PACKAGE / "include"
    if not (root / "torch_npu" / "torch_npu.h").is_file():
        raise RuntimeError(f"torch_npu's headers are not in {root}; install torch_npu again")
    # The headers include each other from the second folder, CANN's from the third.
    return [str(root), str(root / "torch_npu"), str(root / "cann")]


def library_paths() -> List[str]:
    """Folders with the libraries to link, as a list of str."""
    return [str(_PACKAGE / "lib")]


def NpuExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """A ``setuptools.Extension`` for C++ that uses torch and torch_npu; build it with torch's ``BuildExtension``.

    Args:
        name (str): full name of the Python module to make.
        sources (list of str): C++ files.
        args, kwargs: as for ``setuptools.Extension``; paths, libraries and compiler arguments given here come first.

    Returns:
        setuptools.Extension

    Raises:
        RuntimeError: where the installed torch_npu has no headers.
    """
    from torch.utils.cpp_extension import CppExtension

    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), *include_paths()]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", []), *library_paths()]
    kwargs["libraries"] = [*kwargs.get("libraries", []), "torch_npu"]
    given = kwargs.get("extra_compile_args", [])
    if isinstance(given, dict):
        kwargs["extra_compile_args"] = {**given, "cxx": [*given.get("cxx", []), *_COMPILE_ARGUMENTS]}
    else:
        kwargs["extra_compile_args"] = [*given, *_COMPILE_ARGUMENTS]
    kwargs["extra_link_args"] = [*kwargs.get("extra_link_args", []), *(f"-Wl,-rpath,{path}" for path in library_paths())]
    return CppExtension(name, sources, *args, **kwargs)


def load(name: str, sources: Any, extra_cflags: Any = None, extra_ldflags: Any = None, extra_include_paths: Any = None,
         **kwargs: Any) -> Any:
    """Compiles and imports an extension at run time: ``torch.utils.cpp_extension.load`` with torch_npu's paths added.

    Args, returns and errors are those of torch's function.
    """
    from torch.utils import cpp_extension

    return cpp_extension.load(
        name, sources,
        extra_cflags=[*(extra_cflags or []), *_COMPILE_ARGUMENTS],
        extra_ldflags=[*(extra_ldflags or []), *(f"-L{path} -Wl,-rpath,{path}" for path in library_paths()), "-ltorch_npu"],
        extra_include_paths=[*(extra_include_paths or []), *include_paths()],
        **kwargs)
