"""DLPack: tensors handed over without a copy."""

import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

import torch_npu


def test_device():
    x = torch.ones(2, device="npu")
    assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_capsule_shares_memory():
    x = torch.arange(6.0, device="npu").view(2, 3).t()
    y = from_dlpack(to_dlpack(x))
    assert y.is_npu and y.data_ptr() == x.data_ptr() and y.stride() == x.stride()
    x[0, 0] = 5.0
    assert y[0, 0].item() == 5.0


def test_from_dlpack_of_a_tensor():
    x = torch.arange(3, device="npu")
    y = torch.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() and y.tolist() == [0, 1, 2]


def test_memory_outlives_the_source():
    y = from_dlpack(to_dlpack(torch.full((1024,), 3.0, device="npu")))
    torch.zeros(1024, device="npu")
    assert y.sum().item() == 3072.0


def test_storage_formats_are_not_handed_out(monkeypatch):
    monkeypatch.setattr(torch.npu.config, "allow_internal_format", True)
    x = torch.arange(12.0).view(3, 4)
    formatted = torch_npu.npu_format_cast(x.npu(), 29)
    y = torch.from_dlpack(formatted)
    assert torch.equal(y.cpu(), x) and y.data_ptr() == formatted.data_ptr()
    assert torch_npu.get_npu_format(formatted) == 2
