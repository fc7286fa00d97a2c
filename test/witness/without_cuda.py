"""Put into the published client's environment where its torch has CUDA, as PyPI's builds for x86 have, and torch is 2.12 or newer.

Since then CUDA and torch_npu register the names of their allocators' settings in one table of torch, which refuses a name that it has:
importing torch_npu ends the process. Torch on a host of NPUs has no CUDA. So CUDA's names are taken out of the table before
libtorch_npu.so is loaded; the client itself is as published.
"""
import ctypes
import importlib.abc
import pathlib
import sys


class BeforeTheClient(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch_npu._C":
            sys.meta_path.remove(self)
            ctypes.CDLL(str(pathlib.Path(__file__).with_name("libwithout_cuda.so"))).forget_names_of_cuda()


sys.meta_path.insert(0, BeforeTheClient())
