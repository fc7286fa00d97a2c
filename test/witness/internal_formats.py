"""Tensors in the NPU's internal formats through the published client, which casts them by name (Identity), and networks on a device
where it takes these formats by itself: python internal_formats.py. Run by test_published_client.py. Knows nothing of this repository.
"""
import copy
import warnings

import torch
from torch import nn

import torch_npu

warnings.simplefilter("ignore")
ND, NC1HWC0, FRACTAL_Z, FRACTAL_NZ = 2, 3, 4, 29


def casts():
    for shape, kind in (((5, 40), FRACTAL_NZ), ((2, 20, 5, 5), NC1HWC0), ((6, 20, 3, 3), FRACTAL_Z), ((3, 33, 17), FRACTAL_NZ)):
        for dtype in (torch.float32, torch.float16):
            x = torch.randn(shape).to(dtype)
            cast = torch_npu.npu_format_cast(x.npu(), kind)
            assert torch_npu.get_npu_format(cast) == kind
            assert cast.cpu().equal(x)
            assert torch_npu.npu_format_cast(cast, ND).cpu().equal(x)
            torch.testing.assert_close((cast * 2).cpu(), x * 2)


def training(module, x):
    """Results and gradients of a module against the CPU's."""
    twin, place = copy.deepcopy(module).npu(), x.npu().requires_grad_()
    x = x.clone().requires_grad_()
    expected, found = (m(v)[0] if isinstance(m, nn.RNNBase) else m(v) for m, v in ((module, x), (twin, place)))
    grad = torch.randn_like(expected)
    expected.backward(grad)
    found.backward(grad.npu())
    wanted = [expected, x.grad, *(p.grad for p in module.parameters())]
    for one, other in zip(wanted, (found, place.grad, *(p.grad for p in twin.parameters()))):
        torch.testing.assert_close(other.detach().cpu(), one.detach(), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.npu.config.allow_internal_format = True
    casts()
    for settings in ({}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True}, {"bias": False}):
        training(nn.GRU(8, 16, **settings), torch.randn(5, 3, 8))
    training(nn.Sequential(nn.Conv2d(4, 20, 3), nn.BatchNorm2d(20), nn.ReLU(), nn.Flatten(), nn.Linear(320, 3)), torch.randn(2, 4, 6, 6))
    torch.npu.synchronize()
    print("passed")
