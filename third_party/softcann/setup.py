"""Packages the software CANN alone, for any client of CANN: python setup.py bdist_wheel. See the root's setup.py."""
import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "ci"))
import native_build  # noqa: E402

TORCH = native_build.torch_version()


class NativeBuild(build_ext):
    def run(self) -> None:
        native_build.build(TORCH, pathlib.Path(self.build_lib).resolve(), "-DTORCH_NPU_BUILD_ADAPTER=OFF")

    def get_outputs(self):
        return []


class AnyPythonWheel(bdist_wheel):
    """The libraries know no Python: one wheel for all interpreters of a platform."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    version=native_build.own_version(TORCH),
    install_requires=[native_build.torch_requirement(TORCH)],   # libopapi computes with libtorch_cpu
    ext_modules=[Extension("softcann.native", sources=[])],
    cmdclass={"build_ext": NativeBuild, "bdist_wheel": AnyPythonWheel},
)
