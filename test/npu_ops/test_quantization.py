"""Quantization: scales, offsets and numbers of few bits, by hand."""

import pytest
import torch

import torch_npu


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantized_results_have_the_offset_of_their_scale(device):
    x, weight, factors = torch.full((1, 2), 3.0, device=device).half(), torch.tensor([[1, 2], [3, -4]], device=device).char(), torch.ones(2, device=device)
    scale, offset = factors / 2, torch.tensor([-7.0, 9.0], device=device)   # 3 * (4, -2) / 2 + (-7, 9)
    whole = torch_npu.npu_trans_quant_param(scale, offset)
    product = lambda *quant: torch_npu.npu_weight_quant_batchmatmul(x, weight, factors.half(), None, *quant)
    for result in (product(whole, offset), product(whole), product(scale, offset), torch_npu.npu_quant_matmul(x.char(), weight, whole),
                   torch_npu.npu_quant_matmul(x.char(), weight, whole, offset=offset)):
        assert result.dtype == torch.int8 and result.tolist() == [[-1, 6]]
    assert product(scale).tolist() == [[6, -3]]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantize_to_four_bits(device):
    x = torch.tensor([[1.0, -2, 3, 4, 5, 6, 30, -30]], device=device)
    result = torch_npu.npu_quantize(x, torch.tensor([1.0], device=device), None, torch.quint4x2, -1, False)
    assert result.dtype == torch.int32 and result.shape == (1, 1) and result.item() & 0xFFFFFFFF == 0x876543E1
    with pytest.raises(NotImplementedError, match="div_mode=False"):
        torch_npu.npu_quantize(x, torch.tensor([1.0], device=device), None, torch.quint4x2)


def test_exponents_may_be_signed_bytes():
    y, x = torch.zeros(4, 8).npu(), torch.ones(64, 8).to(torch.float8_e4m3fn).npu()
    scales = [torch.full((1, n, 2), 128, dtype=torch.uint8).npu() for n in (4, 8)]   # 2 each
    results = [torch_npu.npu_add_quant_matmul(y, x[:, :4].t(), x, b.view(dtype), x1_scale=a.view(dtype).transpose(0, 1), group_sizes=[1, 1, 32])
               for dtype in (torch.uint8, torch.int8) for a, b in [scales]]
    assert results[0].eq(256).all() and torch.equal(*results)
