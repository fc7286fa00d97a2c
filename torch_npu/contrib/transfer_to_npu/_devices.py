"""torch.device and all that takes one: creation functions, methods of tensors, modules and storages, streams, generators."""
import functools
from typing import Any, Dict, List

import torch

from torch_npu._hooks import imports
from torch_npu.contrib.transfer_to_npu._replace import TRANSFERRED, Device, device, devices, put, replace, tensor_type

# They take the device by keyword only.
FACTORIES = (
    "_efficientzerotensor _empty_affine_quantized _empty_per_channel_affine_quantized arange asarray as_tensor bartlett_window "
    "blackman_window empty empty_like empty_permuted empty_quantized empty_strided eye frombuffer from_file full full_like "
    "hamming_window hann_window kaiser_window linspace logspace normal ones ones_like rand rand_like randint randint_like "
    "randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like").split()
TENSOR_METHODS = "new new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()


def apply() -> None:
    _functions()
    _classes()
    _methods()
    _default_type()
    imports.when_imported("torch._dynamo.variables.tensor", _traced_is_cuda)


def _functions() -> None:
    from torch.utils._device import _device_constructors

    constructors = _device_constructors()   # what `with torch.device(...)` gives a device to
    for name in FACTORIES:
        original = getattr(torch, name, None)
        replace(torch, name, device=device)
        if original in constructors:
            constructors.add(getattr(torch, name))
    for name in ("fftfreq", "rfftfreq"):
        replace(torch.fft, name, device=device)
    for name in ("nested_tensor", "as_nested_tensor"):
        replace(torch.nested, name, device=device)
    replace(torch, "set_default_device", device=device)
    for owner in (torch.library, torch._library.custom_ops.CustomOpDef):
        replace(owner, "register_kernel", device_types=devices)
        replace(owner, "register_autocast", device_type=device)
    replace(torch.library, "custom_op", device_types=devices)


class _DeviceClass(type):
    """torch.device cannot be subclassed, so this stands for it. It is equal to it where torch compares the two: FX does
    when it writes code, TorchScript and Dynamo look the class up in their tables."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return Device(*map(device, args), **{name: device(value) for name, value in kwargs.items()})

    def __eq__(cls, other: Any) -> bool:
        return other is cls or other is Device

    def __hash__(cls) -> int:
        return hash(Device)

    def __getattr__(cls, name: str) -> Any:
        return getattr(Device, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return subclass is cls or issubclass(subclass, Device)


def _stand_in(original: Any) -> Any:
    """A class for a torch class whose constructor takes a device: it makes instances of the original, and can be subclassed."""

    base: Any = type(original)  # known at run time alone

    class StandIn(base):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = tuple(map(device, args)), {name: device(value) for name, value in kwargs.items()}
            return original(*args, **kwargs) if cls is new else super().__call__(*args, **kwargs)

        def __eq__(cls, other: Any) -> bool:
            return other is cls or cls is new and other is original

        def __hash__(cls) -> int:
            return hash(original) if cls is new else super().__hash__()

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original) if cls is new else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: Any) -> Any:
            return issubclass(subclass, original) if cls is new else super().__subclasscheck__(subclass)

    fields = {"__doc__": original.__doc__, "__module__": "torch", "__qualname__": original.__qualname__}
    new = StandIn(original.__name__, (original,), fields)
    return new


def _classes() -> None:
    classes: Any = torch
    classes.device = _DeviceClass("device", (), {"__doc__": Device.__doc__, "__module__": "torch"})
    for name in ("Generator", "Stream", "Event"):
        setattr(torch, name, _stand_in(getattr(torch, name)))
        TRANSFERRED.add(getattr(torch, name))
    new = torch.UntypedStorage.__new__

    @functools.wraps(new)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return new(cls, *args, **{name: device(value) for name, value in kwargs.items()})

    torch.UntypedStorage.__new__ = __new__


def _methods() -> None:
    for name in TENSOR_METHODS:
        replace(torch.Tensor, name, device=device)
    for name in ("to", "pin_memory", "is_pinned"):
        replace(torch.Tensor, name, device=device, everywhere=True)
    replace(torch.Tensor, "type", dtype=tensor_type, everywhere=True)
    replace(torch.nn.Module, "to", device=device, everywhere=True)   # to(*args, **kwargs)
    replace(torch.nn.Module, "to_empty", device=device)
    torch.Tensor.cuda = torch.Tensor.npu
    torch.nn.Module.cuda = torch.nn.Module.npu
    kinds: Dict[str, List[Any]] = {"tensor": [torch.Tensor], "storage": [torch.UntypedStorage, torch.TypedStorage]}
    for word, owners in kinds.items():
        for owner in owners:
            owner.is_cuda = property(lambda value: value.device.type == "npu", doc=f"True for a {word} on the NPU.")


def _default_type() -> None:
    """torch.set_default_tensor_type("torch.cuda.FloatTensor"): PyTorch knows no such type of other devices, so it becomes
    its two halves, a default dtype and a default device."""
    original = torch.set_default_tensor_type
    changed = False

    @functools.wraps(original)
    def set_default_tensor_type(t: Any) -> None:
        nonlocal changed
        if isinstance(t, str):
            t = torch._utils._import_dotted_name(tensor_type(t))
        if getattr(t, "is_npu", False):
            torch.set_default_dtype(t.dtype)
            torch.set_default_device("npu")
            changed = True
        else:
            if changed:
                torch.set_default_device(None)
                changed = False
            original(t)

    put(torch, "set_default_tensor_type", set_default_tensor_type)


def _traced_is_cuda(table: Any) -> None:
    """Dynamo answers tensor.is_cuda itself, by the name of the device."""
    original = table.TensorVariable.method_attr_is_cuda

    @functools.wraps(original)
    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        if self.device is not None:
            return table.ConstantVariable.create(self.device.type == "npu")
        return original(self, tx)

    table.TensorVariable.method_attr_is_cuda = method_attr_is_cuda
