"""The legacy types: torch.npu.FloatTensor, torch.npu.FloatStorage and their kind."""

from typing import Any

import torch
from torch import Tensor
from torch.storage import _LegacyStorage
from torch.types import Device

from torch_npu.npu._utils import _get_device_index

__all__ = ["make_types"]

_DTYPES = {
    "Double": torch.double,
    "Float": torch.float,
    "Half": torch.half,
    "BFloat16": torch.bfloat16,
    "Long": torch.long,
    "Int": torch.int,
    "Short": torch.short,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
    "ComplexDouble": torch.cdouble,
    "ComplexFloat": torch.cfloat,
}
_WITHOUT_TENSOR_TYPE = ("ComplexDouble", "ComplexFloat")


class _TensorType(type):
    """``torch.npu.FloatTensor(2, 3)`` makes a tensor, ``device=1`` on that device; isinstance() asks for its device and dtype."""

    def __call__(cls, *args: Any, device: Device = None) -> Tensor:
        device = torch.device("npu", _get_device_index(device, optional=True))
        if not args:
            return torch.empty(0, dtype=cls.dtype, device=device)
        if all(isinstance(arg, int) for arg in args):
            return torch.empty(args, dtype=cls.dtype, device=device)
        if len(args) > 1:
            raise TypeError(f"{cls.__name__} takes sizes, or one sequence, tensor or storage")
        (data,) = args
        if isinstance(data, torch.Size):
            return torch.empty(data, dtype=cls.dtype, device=device)
        if isinstance(data, torch.Tensor):
            if not isinstance(data, cls):
                raise TypeError(f"expected a {cls.__name__}, got a {data.type()}")
            return data.detach()
        if isinstance(data, (torch.TypedStorage, torch.UntypedStorage)):
            return torch.empty(0, dtype=cls.dtype, device=device).set_(data)
        return torch.tensor(data, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, tensor: Tensor) -> bool:
        return isinstance(tensor, torch.Tensor) and tensor.device.type == "npu" and tensor.dtype == cls.dtype


class _StorageDtype:
    """The dtype of a legacy storage class, which TypedStorage reads from the class and from instances."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __get__(self, instance: Any, owner: Any = None) -> torch.dtype:
        return self.dtype


def make_types() -> Any:
    """All legacy types by name, for the module torch.npu."""
    made = {}
    for prefix, dtype in _DTYPES.items():
        if prefix not in _WITHOUT_TENSOR_TYPE:
            # PyTorch reads the full name off the class: x.type(torch.npu.FloatTensor).
            name = f"{prefix}Tensor"
            fields = {"dtype": dtype, "is_npu": True, "__module__": "torch.npu", "__qualname__": name}
            made[name] = _TensorType(f"torch.npu.{name}", (), fields)
        fields = {"dtype": _StorageDtype(dtype), "_dtype": _StorageDtype(dtype), "__module__": "torch_npu.npu"}
        metaclass: Any = type(_LegacyStorage)
        storage = metaclass(f"{prefix}Storage", (_LegacyStorage,), fields)
        made[f"{prefix}Storage"] = storage
        torch._storage_classes.add(storage)
    return made
