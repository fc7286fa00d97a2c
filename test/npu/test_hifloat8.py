"""torch_npu.HiFloat8Tensor: numbers of 8 bits behind a tensor that shows another dtype."""
import io
import math

import pytest
import torch

import torch_npu
from torch_npu.utils import hif8_tensor

HiFloat8 = torch_npu.HiFloat8Tensor
# Of the format's description: code -> number.
KNOWN = {0b00000000: 0.0, 0b00000001: 2.0**-22, 0b00000111: 2.0**-16, 0b00001000: 1.0, 0b00001111: 1.875, 0b00010000: 2.0, 0b00011000: 0.5,
         0b00100000: 4.0, 0b00101000: 8.0, 0b00110000: 0.25, 0b01000000: 16.0, 0b01001111: 1.75 * 2**7, 0b01010000: 2.0**-4,
         0b01100000: 256.0, 0b01101110: 2.0**15, 0b01111110: 2.0**-15, 0b01101111: math.inf, 0b10001000: -1.0, 0b11101111: -math.inf}


def test_codes():
    every = torch.arange(256, dtype=torch.uint8)
    numbers = HiFloat8(data=every).float().cpu()
    for code, number in KNOWN.items():
        assert numbers[code] == number, bin(code)
    assert numbers[0x80].isnan() and numbers.isnan().sum() == 1 and numbers.isinf().sum() == 2
    assert numbers[~numbers.isnan()].unique().numel() == 255
    assert HiFloat8.to_hifloat8(numbers)._data.cpu().equal(every)   # each number is its own nearest


def test_rounding():
    given = [1.0624, 1.0625, -1.0625, 100.0, 104.0, 40959.0, 40960.0, 2.0**-23, 2.0**-24, -0.0, math.nan]
    wanted = [1.0, 1.125, -1.125, 96.0, 112.0, 32768.0, math.inf, 2.0**-22, 0.0, 0.0]
    found = HiFloat8.to_hifloat8(torch.tensor(given)).float().cpu()
    assert found[:-1].tolist() == wanted and found[-1].isnan() and not found[9].signbit()


def test_shows_the_dtype_and_computes_in_it():
    x = HiFloat8.to_hifloat8(torch.tensor([[1.0, 2.5], [3.0, 100.0]], dtype=torch.bfloat16))
    assert x.dtype == torch.bfloat16 and x.shape == (2, 2) and x.is_npu and x._data.dtype == torch.uint8
    product = x @ x.t()
    assert type(product) is torch.Tensor and product.dtype == torch.bfloat16 and product[0, 0] == 7.25
    assert x.half().dtype == torch.float16 and x.cpu().tolist() == [[1.0, 2.5], [3.0, 96.0]]
    assert x.to_dtype(torch.float32).dtype == torch.float32 and "96" in repr(x)
    for moved in (x.view(4), x.reshape(1, 4), x.t(), x[1:], x.clone(), x.transpose(0, 1).contiguous(), x.detach()):
        assert type(moved) is HiFloat8
    assert x.t().float().tolist() == [[1.0, 3.0], [2.5, 96.0]] and x[1:].float().tolist() == [[3.0, 96.0]]


def test_is_written_to():
    x = HiFloat8.to_hifloat8(torch.ones(2))
    assert x.add_(1.3) is x and x.float().tolist() == [2.25, 2.25]
    x.copy_(torch.tensor([5.0, 100.0]))
    assert x.float().tolist() == [5.0, 96.0]
    x.data = torch.tensor([7.0, 8.0])
    y = HiFloat8.to_hifloat8(torch.zeros(2))
    y.copy_(x)
    assert y.float().tolist() == [7.0, 8.0]
    plain = torch.zeros(2, device="npu")
    plain.copy_(x)
    assert plain.tolist() == [7.0, 8.0]


def test_gradients_pass():
    x = torch.randn(3, 4, device="npu", requires_grad=True)
    (HiFloat8.to_hifloat8(x).view(12).float() * 3).sum().backward()
    assert x.grad.cpu().equal(torch.full((3, 4), 3.0))


def test_is_saved():
    file = io.BytesIO()
    torch.save(HiFloat8.to_hifloat8(torch.tensor([1.0, 3.0]).half()), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is HiFloat8 and loaded.dtype == torch.float16 and loaded.float().tolist() == [1.0, 3.0]


def test_refuses():
    with pytest.raises(ValueError, match="bytes, not torch.float32"):
        HiFloat8(data=torch.ones(2))
    assert hif8_tensor._HiFloat8Tensor is HiFloat8
