"""Builds the extension of this folder: pip install --no-build-isolation ."""
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension

from torch_npu.utils.cpp_extension import NpuExtension

setup(
    name="npu_axpy",
    version="1.0",
    ext_modules=[NpuExtension("npu_axpy", ["npu_axpy.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
