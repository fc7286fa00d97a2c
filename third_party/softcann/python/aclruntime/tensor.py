"""Arrays on the host or a device."""
import enum

import acl
import numpy as np

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
ACL_TYPES = {0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
             10: "uint64", 11: "double", 12: "bool"}
dtype = enum.Enum("dtype", sorted(ACL_TYPES.values()))
type = enum.Enum("type", ["memory_host", "memory_device", "memory_dvpp"])
NUMBERS = {name: number for number, name in ACL_TYPES.items()}


def check(ret, what):
    if ret:
        raise RuntimeError(f"{what}: {ret}: {acl.get_recent_err_msg()}")


class Memory:
    """Device memory, freed with its last user."""

    def __init__(self, size):
        self.size = size
        self.address, ret = acl.rt.malloc(max(size, 1), 0)
        check(ret, f"acl.rt.malloc of {size} bytes")

    def __del__(self):
        if getattr(self, "address", 0):
            acl.rt.free(self.address)


class BaseTensor:
    """`size` bytes at the device address `buf`, of the caller's."""

    def __init__(self, buf, size):
        self.buf, self.size = buf, size


class Tensor:
    """An array; `to_device` and `to_host` move it. On the host `numpy.array(tensor)` has its numbers."""

    def __init__(self, array):
        self._array, self._memory, self._device = np.ascontiguousarray(array), None, -1
        self.shape, self._dtype = list(np.shape(array)), self._array.dtype
        if self._name() not in NUMBERS:
            raise TypeError(f"aclruntime.Tensor: {self._dtype} is no type of a model's tensors")

    @classmethod
    def _on_device(cls, memory, shape, number, device):
        self = cls.__new__(cls)
        self._array, self._memory, self._device = None, memory, device
        self.shape, self._dtype = list(shape), np.dtype(ACL_TYPES[number])
        return self

    def _name(self):
        return "double" if self._dtype == np.float64 else self._dtype.name

    @property
    def dtype(self):
        return dtype[self._name()]

    @property
    def type(self):
        return type.memory_host if self._memory is None else type.memory_device

    @property
    def device(self):
        """The device's number, -1 on the host."""
        return self._device

    @property
    def nbytes(self):
        return int(np.prod(self.shape, dtype=np.int64)) * self._dtype.itemsize

    def to_device(self, device):
        if self._memory is not None:
            if device != self._device:
                raise ValueError(f"aclruntime.Tensor is on device {self._device}: bring it to the host before device {device}")
            return
        check(acl.rt.set_device(device), f"acl.rt.set_device({device})")
        memory = Memory(self.nbytes)
        if self.nbytes:
            check(acl.rt.memcpy(memory.address, self.nbytes, acl.util.numpy_to_ptr(self._array), self.nbytes, HOST_TO_DEVICE),
                  "acl.rt.memcpy")
        self._memory, self._array, self._device = memory, None, device

    def to_host(self):
        if self._memory is None:
            return
        array = np.empty(self.shape, self._dtype)
        if array.nbytes:
            check(acl.rt.memcpy(acl.util.numpy_to_ptr(array), array.nbytes, self._memory.address, array.nbytes, DEVICE_TO_HOST),
                  "acl.rt.memcpy")
        self._memory, self._array, self._device = None, array, -1

    def to_dvpp(self, device):
        raise NotImplementedError("aclruntime.Tensor.to_dvpp: memory for images needs libacl_dvpp; use to_device")

    def __array__(self, dtype=None, copy=None):
        if self._memory is not None:
            raise RuntimeError("aclruntime.Tensor is on a device: call to_host() first")
        array = self._array.reshape(self.shape)
        return array.astype(dtype) if dtype is not None and dtype != array.dtype else array.copy() if copy else array
