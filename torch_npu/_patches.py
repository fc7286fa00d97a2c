"""Changes to PyTorch that no hook allows. Each says why, and which torch no longer needs it."""

import torch


def _dlpack_device():
    """Tensor.__dlpack_device__ compares the device type with the literal "privateuse1", so it raises for a backend
    that renamed itself. Needed through torch 2.13; remove it when the oldest supported torch asks for the
    registered name. (The C++ half of DLPack knows renamed backends.)
    """
    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self):
        if type(self) is torch.Tensor and self.device.type == "npu":
            from torch.utils.dlpack import DLDeviceType

            return DLDeviceType.kDLExtDev, self.device.index
        return original(self)

    __dlpack_device__.__doc__ = original.__doc__
    torch.Tensor.__dlpack_device__ = __dlpack_device__


PATCHES = (_dlpack_device,)


def apply():
    for patch in PATCHES:
        patch()
