"""Runs scripts that were written for CUDA on the NPU: ``from torch_npu.contrib import transfer_to_npu``.

From this import on, in the whole process, "cuda" means "npu" and "nccl" means "hccl":

- devices: ``torch.device("cuda")``, ``device="cuda:0"``, ``.to("cuda")``, ``.cuda()``, ``map_location="cuda"``;
- ``torch.cuda.*`` is what ``torch.npu`` has under the same name;
- ``torch.autocast("cuda")``, ``torch.amp.GradScaler("cuda")``, ``torch.cuda.amp``;
- ``init_process_group("nccl")`` and its kin; ``tensor.is_cuda`` is true for tensors on the NPU.

``TORCH_TRANSFER_TO_NPU=1`` in the environment does it without a change of the script. Kernels written in CUDA, and
libraries that contain them, are beyond it.
"""
import functools
import re

import torch

from torch_npu import npu

_Device = torch.device
_CUDA = re.compile(r"\bcuda\b")
# Creation functions take the device by keyword only.
_FACTORIES = (
    "arange asarray as_tensor bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye frombuffer "
    "full full_like hamming_window hann_window kaiser_window linspace logspace ones ones_like rand rand_like randint "
    "randint_like randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like").split()
_TENSOR_METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros to".split()
_MODULE_METHODS = "to to_empty".split()
_GROUP_FUNCTIONS = ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")


def _device(value):
    """The value, with an npu device where it is a cuda device or its name."""
    if isinstance(value, str):
        return _CUDA.sub("npu", value) if value.startswith("cuda") else value
    if type(value) is _Device and value.type == "cuda":
        return _Device("npu", value.index) if value.index is not None else _Device("npu")
    return value


def _backend(value):
    """The value, with hccl where it names nccl, also in "cpu:gloo,cuda:nccl"."""
    if not isinstance(value, str):
        return value
    return re.sub(r"\bnccl\b", "hccl", _CUDA.sub("npu", value))


def _rewritten(function, *keywords, positional=False, rewrite=_device):
    """The function with the named arguments rewritten, and all positional ones where wanted."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        for keyword in keywords:
            if keyword in kwargs:
                kwargs[keyword] = rewrite(kwargs[keyword])
        if positional:
            args = tuple(rewrite(value) for value in args)
        return function(*args, **kwargs)

    return wrapper


def _replace(owner, name, *keywords, **options):
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, _rewritten(original, *keywords, **options))


class _DeviceType(type):
    def __call__(cls, *args, **kwargs):
        kwargs = {name: _device(value) for name, value in kwargs.items()}
        return _Device(*(_device(value) for value in args), **kwargs)

    def __instancecheck__(cls, instance):
        return isinstance(instance, _Device)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, _Device)


class _TransferredDevice(metaclass=_DeviceType):
    __doc__ = _Device.__doc__


_TransferredDevice.__name__ = _TransferredDevice.__qualname__ = "device"


def _devices():
    from torch.utils._device import _device_constructors

    _device_constructors()  # `with torch.device(...)` knows the functions themselves, so its list is made before they change
    torch.device = _TransferredDevice
    for name in _FACTORIES:
        _replace(torch, name, "device")
    for name in _TENSOR_METHODS:
        _replace(torch.Tensor, name, "device", positional=name == "to")
    for name in _MODULE_METHODS:
        _replace(torch.nn.Module, name, "device", positional=True)
    torch.Tensor.cuda = torch.Tensor.npu
    torch.nn.Module.cuda = torch.nn.Module.npu
    torch.Tensor.is_cuda = property(lambda tensor: tensor.is_npu, doc="True for a tensor on the NPU.")
    _replace(torch, "load", "map_location")
    _replace(torch, "set_default_device", "device", positional=True)
    generator = torch.Generator

    class Generator(generator):
        __doc__ = generator.__doc__

        def __new__(cls, device="cpu"):
            return super().__new__(cls, device=_device(device))

    torch.Generator = Generator


def _cuda_module():
    """Everything public that torch.npu has too; what torch.cuda has alone stays as it is."""
    for name in dir(npu):
        if not name.startswith("_"):
            setattr(torch.cuda, name, getattr(npu, name))


def _amp():
    for owner in (torch.amp.autocast, torch.amp.GradScaler):
        original = owner.__init__
        owner.__init__ = _rewritten(original, "device", "device_type", positional=True)
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        _replace(torch, name, "device_type", positional=True)


def _distributed():
    import torch.distributed as dist

    if not dist.is_available():
        return
    for name in _GROUP_FUNCTIONS:
        _replace(dist, name, "backend", positional=name == "init_process_group", rewrite=_backend)
        _replace(dist, name, "device_id")
    dist.is_nccl_available = getattr(dist, "is_hccl_available", dist.is_nccl_available)
    import torch.distributed.device_mesh as device_mesh

    for owner in (dist, device_mesh):
        _replace(owner, "init_device_mesh", "device_type", positional=True)


_devices()
_cuda_module()
_amp()
_distributed()
