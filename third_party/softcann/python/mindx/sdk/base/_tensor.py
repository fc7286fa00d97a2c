"""Arrays on the host or a device."""
import acl
import numpy as np
from aclruntime.tensor import HOST_TO_DEVICE, Tensor as Array, check

from ._device import host_bytes, use_device
from ._enums import dtype

SETTABLE = (dtype.float16, dtype.float32, dtype.uint8, dtype.int32)
NOWHERE = -1


class Tensor(Array):
    """A NumPy array's numbers in order of their indices; `to_device` and `to_host` move them.

    `shape`: list; `dtype`: base.dtype; `device`: its number, -1 on the host, where `numpy.array(tensor)` has the numbers.
    """

    def __init__(self, buffer):
        super().__init__(buffer)

    @property
    def dtype(self):
        return dtype[self._name()]

    def to_device(self, deviceId):
        use_device(deviceId)
        super().to_device(deviceId)

    def set_tensor_value(self, value, dataType):
        """All numbers become `value`. The tensor is on a device, and of the type `dataType`: float16, float32, uint8, int32."""
        if self.device == NOWHERE:
            raise RuntimeError("set_tensor_value: the tensor is on the host: call to_device() first")
        if dataType not in SETTABLE or dataType != self.dtype:
            raise RuntimeError(f"set_tensor_value: {dataType} for a tensor of {self.dtype}; float16, float32, uint8 and int32 "
                               "are possible")
        numbers = np.full(self.shape, value, self._dtype)
        check(acl.rt.memcpy(self._memory.address, self.nbytes, acl.util.numpy_to_ptr(numbers), self.nbytes, HOST_TO_DEVICE),
              "acl.rt.memcpy")
        return self

    def copied_to(self, device):
        """This tensor if it is on the device; otherwise one there that has its numbers."""
        if self.device == device:
            return self
        made = Tensor(host_array(self))
        made.to_device(device)
        return made


def host_array(tensor):
    """The numbers of a tensor, which stays where it is."""
    if tensor.device == NOWHERE:
        return np.array(tensor)
    use_device(tensor.device)
    return host_bytes(tensor._memory, tensor.nbytes).view(tensor._dtype).reshape(tensor.shape)


def batch_concat(inputs):
    """One tensor of many, along the first dimension, where the first of them is."""
    if not inputs:
        raise RuntimeError("batch_concat: no tensor is given")
    if len({(one.dtype, tuple(one.shape[1:]), one.device) for one in inputs}) != 1:
        raise RuntimeError("batch_concat: the tensors differ in type, in a dimension after the first, or in their device: "
                           f"{[(one.dtype.name, one.shape, one.device) for one in inputs]}")
    made = Tensor(np.concatenate([host_array(one) for one in inputs]))
    return made if inputs[0].device == NOWHERE else made.copied_to(inputs[0].device)


def transpose(input, axes=()):
    """A tensor on the host with its dimensions in the order `axes`; reversed where that is empty."""
    if input.device != NOWHERE:
        raise RuntimeError("transpose: the tensor is on a device: call to_host() first")
    if axes and sorted(axes) != list(range(len(input.shape))):
        raise RuntimeError(f"transpose: {list(axes)} are not the dimensions of {input.shape} in some order")
    return Tensor(np.array(input).transpose(tuple(axes) or None))
