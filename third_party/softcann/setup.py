"""Packages the software CANN alone, for any client of CANN; the compiling is CMake's (CMakeLists.txt), driven with Ninja.

    pip wheel --no-deps third_party/softcann      for the torch that is installed beside this pip

It needs this folder and ../cann, nothing else of the repository.

Environment: SOFTCANN_LIBRARIES  a folder of libraries that are built already: they are packaged as they are
             SOFTCANN_VERSION    the version; default torch's minor and .0
             CMAKE_ARGS          more arguments to cmake
             MAX_JOBS            compilers at once
"""
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent


def torch_folder() -> pathlib.Path:
    """The torch to compute with, found without importing it: also from the isolated environment that pip builds in."""
    spec = importlib.util.find_spec("torch")
    folders = [*(spec.submodule_search_locations or [] if spec else []), os.path.join(sysconfig.get_path("purelib"), "torch")]
    found = next((folder for folder in folders if os.path.isfile(os.path.join(folder, "version.py"))), None)
    if found is None:
        raise SystemExit(f"softcann's operators compute with torch's CPU kernels, and {sys.executable} has no torch. Install it "
                         "first: pip install torch, 2.8 or newer")
    return pathlib.Path(found)


TORCH = torch_folder()
MINOR = re.search(r"__version__ = ['\"](\d+\.\d+)\.", (TORCH / "version.py").read_text())[1]


def tool(name: str) -> str:
    beside = pathlib.Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is needed to build softcann: pip install {name}")
    return found


class NativeBuild(build_ext):
    def run(self) -> None:
        libraries = pathlib.Path(self.build_lib).resolve() / "softcann" / "lib"
        shutil.copytree(HERE.parent / "cann", libraries.parent / "cann", dirs_exist_ok=True)
        built = os.environ.get("SOFTCANN_LIBRARIES")
        if built:
            shutil.copytree(built, libraries, symlinks=True, dirs_exist_ok=True)
            return
        folder = str(pathlib.Path(self.build_temp).resolve())
        ninja = tool("ninja")
        # CMake calls ninja too; one of another version rewrites the log, after which everything is compiled again.
        subprocess.check_call([
            tool("cmake"), "-S", str(HERE), "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}",
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
            f"-DPython_EXECUTABLE={sys.executable}", f"-DPython3_EXECUTABLE={sys.executable}", f"-DTORCH_DIR={TORCH}",
            f"-DSOFTCANN_LIBRARY_DIR={libraries}", *shlex.split(os.environ.get("CMAKE_ARGS", ""))])
        jobs = os.environ.get("MAX_JOBS")
        subprocess.check_call([ninja, "-C", folder, *(["-j", jobs] if jobs else [])])

    def get_outputs(self):
        return []


class AnyPythonWheel(bdist_wheel):
    """The libraries know no Python: one wheel for all interpreters of a platform."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    version=os.environ.get("SOFTCANN_VERSION", f"{MINOR}.0"),
    install_requires=[f"torch=={MINOR}.*"],   # a torch minor has its own C++ ABI
    ext_modules=[Extension("softcann.native", sources=[])],
    cmdclass={"build_ext": NativeBuild, "bdist_wheel": AnyPythonWheel},
)
