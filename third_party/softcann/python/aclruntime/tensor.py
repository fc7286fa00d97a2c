"""Arrays on the host or a device."""
import ctypes
import dataclasses
import enum
import time
from typing import List

import acl
import numpy as np
from acl import _library

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
IN_DEVICE = 1   # ACL_MEM_LOCATION_TYPE_DEVICE
ACL_TYPES = {0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
             10: "uint64", 11: "double", 12: "bool"}


class _Named(enum.IntEnum):
    """int() gives aclDataType's number, str() and format() the name."""

    def __str__(self):
        return f"dtype.{self.name}"

    def __format__(self, spec):
        return format(str(self), spec)


dtype = _Named("dtype", {name: number for number, name in ACL_TYPES.items()})
type = enum.Enum("type", ["memory_host", "memory_device", "memory_dvpp"])
NUMBERS = {name: number for number, name in ACL_TYPES.items()}


def check(ret, what):
    if ret:
        raise RuntimeError(f"{what}: {ret}: {acl.get_recent_err_msg()}")


@dataclasses.dataclass
class MemorySummary:
    """Milliseconds of each copy between host and device in this process; every instance has the same lists."""
    H2D_time_list: List[float] = dataclasses.field(default_factory=lambda: _TO_DEVICE)
    D2H_time_list: List[float] = dataclasses.field(default_factory=lambda: _TO_HOST)

    def reset(self):
        self.H2D_time_list.clear()
        self.D2H_time_list.clear()


_TO_DEVICE: List[float] = []
_TO_HOST: List[float] = []


def copy(to, source, size, direction):
    """A copy between host and device, whose time goes into MemorySummary."""
    start = time.perf_counter()
    check(acl.rt.memcpy(to, size, source, size, direction), "acl.rt.memcpy")
    (_TO_DEVICE if direction == HOST_TO_DEVICE else _TO_HOST).append((time.perf_counter() - start) * 1e3)


class Memory:
    """Device memory, freed with its last user; for images (`dvpp`) where libacl_dvpp gives it."""

    def __init__(self, size, dvpp=False):
        self.size, self._free = size, acl.media.dvpp_free if dvpp else acl.rt.free
        self.address, ret = acl.media.dvpp_malloc(max(size, 1)) if dvpp else acl.rt.malloc(max(size, 1), 0)
        check(ret, f"{size} bytes of device memory")

    def __del__(self):
        if getattr(self, "address", 0):
            self._free(self.address)


class _Attributes(ctypes.Structure):   # aclrtPtrAttributes
    _fields_ = [("id", ctypes.c_uint32), ("location", ctypes.c_int32), ("rest", ctypes.c_uint32 * 5)]


def on_device(address):
    """Whether it is device memory, as far as the library can tell."""
    function, found = _library.symbol(("libascendcl.so",), "aclrtPointerGetAttributes"), _Attributes()
    return function is not None and function(ctypes.c_void_p(address), ctypes.byref(found)) == 0 and found.location == IN_DEVICE


class BaseTensor:
    """`size` bytes at the address `buf`, of the caller's: on the host, from where a run copies them, or on the device."""

    def __init__(self, buf, size):
        self.buf, self.size = buf, size


class Tensor:
    """An array; `to_device` and `to_host` move it. On the host `numpy.array(tensor)` has its numbers."""

    def __init__(self, array):
        self._array, self._memory, self._device, self._dvpp = np.ascontiguousarray(array), None, -1, False
        self.shape, self._dtype = list(np.shape(array)), self._array.dtype
        if self._name() not in NUMBERS:
            raise TypeError(f"aclruntime.Tensor: {self._dtype} is no type of a model's tensors")

    @classmethod
    def _on_device(cls, memory, shape, number, device):
        self = cls.__new__(cls)
        self._array, self._memory, self._device, self._dvpp = None, memory, device, False
        self.shape, self._dtype = list(shape), np.dtype(ACL_TYPES[number])
        return self

    def _name(self):
        return "double" if self._dtype == np.float64 else self._dtype.name

    @property
    def dtype(self):
        return dtype[self._name()]

    @property
    def type(self):
        if self._memory is None:
            return type.memory_host
        return type.memory_dvpp if self._dvpp else type.memory_device

    @property
    def device(self):
        """The device's number, -1 on the host."""
        return self._device

    @property
    def nbytes(self):
        return int(np.prod(self.shape, dtype=np.int64)) * self._dtype.itemsize

    def to_device(self, device):
        self._move(device, False)

    def to_dvpp(self, device):
        """To device memory for images, which DVPP reads and writes."""
        self._move(device, True)

    def _move(self, device, dvpp):
        if self._memory is not None:
            if device != self._device or dvpp and not self._dvpp:
                raise ValueError(f"aclruntime.Tensor is on device {self._device} ({self.type.name}): bring it to the host first")
            return
        check(acl.rt.set_device(device), f"acl.rt.set_device({device})")
        memory = Memory(self.nbytes, dvpp)
        if self.nbytes:
            copy(memory.address, acl.util.numpy_to_ptr(self._array), self.nbytes, HOST_TO_DEVICE)
        self._memory, self._array, self._device, self._dvpp = memory, None, device, dvpp

    def to_host(self):
        if self._memory is None:
            return
        array = np.empty(self.shape, self._dtype)
        if array.nbytes:
            copy(acl.util.numpy_to_ptr(array), self._memory.address, array.nbytes, DEVICE_TO_HOST)
        self._memory, self._array, self._device, self._dvpp = None, array, -1, False

    def __repr__(self):
        return f"<aclruntime.Tensor: {self.shape} {self.dtype.name}, {self.type.name}>"

    def __array__(self, dtype=None, copy=None):
        if self._memory is not None:
            raise RuntimeError("aclruntime.Tensor is on a device: call to_host() first")
        array = self._array.reshape(self.shape)
        return array.astype(dtype) if dtype is not None and dtype != array.dtype else array.copy() if copy else array


def batch(inputs, keep_dims=False):
    """One tensor on the host of several: joined along the first dimension with `keep_dims`, otherwise along a new one."""
    arrays = []
    for one in inputs:
        one.to_host()
        arrays.append(np.array(one))
    return Tensor(np.concatenate(arrays) if keep_dims else np.stack(arrays))
