"""Builds and packages torch_npu; the compiling is CMake's (CMakeLists.txt), driven with Ninja.

    pip install --no-build-isolation -e .    libraries in place; run again after a change
    python setup.py build_ext --inplace      the same without pip: only what changed
    python setup.py bdist_wheel              a wheel for this Python and the installed torch

Environment: TORCH_NPU_BUILD_DIR   where to compile; default build/py<version>-torch<version>
             TORCH_NPU_CMAKE_ARGS  more arguments to cmake, such as -DCMAKE_BUILD_TYPE=RelWithDebInfo
             MAX_JOBS              compilers at once
"""
import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "ci"))
import compile_commands  # noqa: E402
import native_build  # noqa: E402

TORCH = native_build.torch_version()
VERSION = native_build.own_version(TORCH)
BUILD_INFO = f'''"""Written by setup.py."""
version = {VERSION!r}
git_version = {native_build.git("rev-parse", "HEAD") or "unknown"!r}
torch_version = {TORCH!r}
python_version = {native_build.PYTHON!r}
'''


class NativeBuild(build_ext):
    """Hands the whole of the native build to CMake and Ninja."""

    def run(self) -> None:
        in_place = self.inplace or self.editable_mode
        package = (ROOT if in_place else pathlib.Path(self.build_lib).resolve()) / "torch_npu"
        folder = native_build.build(TORCH, package, "-DTORCH_NPU_BUILD_ADAPTER=ON")
        if in_place:
            compile_commands.write(ROOT, folder)
        native_build.write_if_changed(package / "_build_info.py", BUILD_INFO)

    def get_source_files(self):
        return []

    def get_outputs(self):
        return []

    def get_output_mapping(self):
        return {}


setup(
    version=VERSION,
    install_requires=[native_build.torch_requirement(TORCH)],
    # The file is named by CMake; this entry makes setuptools tag the wheel for this interpreter.
    ext_modules=[Extension("torch_npu._C", sources=[])],
    cmdclass={"build_ext": NativeBuild},
)
