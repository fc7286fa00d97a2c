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


def _scaler_shares_overflow():
    """torch.amp.GradScaler("npu") has no hook where ranks could agree that one of them overflowed, which only matters on
    chips without inf: see torch_npu.npu.amp.grad_scaler.share_overflow. Needed as long as PyTorch has no such hook.
    """
    original = torch.amp.GradScaler._unscale_grads_

    def _unscale_grads_(self, *args, **kwargs):
        found_inf_per_device = original(self, *args, **kwargs)
        if self._device == "npu":
            from torch_npu.npu.amp.grad_scaler import share_overflow

            share_overflow(found_inf_per_device)
        return found_inf_per_device

    _unscale_grads_.__doc__ = original.__doc__
    torch.amp.GradScaler._unscale_grads_ = _unscale_grads_


PATCHES = (_dlpack_device, _scaler_shares_overflow)


def apply():
    for patch in PATCHES:
        patch()
