"""Storage formats: tensors keep base formats, and say so."""
import warnings

import pytest
import torch

import torch_npu


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_base_formats(device):
    x = torch.randn(2, 3, 4, 5, device=device)
    assert [torch_npu.get_npu_format(t) for t in (x, x[0], x[None])] == [0, 2, 30]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy = torch_npu.npu_format_cast(x, 2)
    assert torch.equal(copy, x) and copy.data_ptr() != x.data_ptr()
    assert torch_npu.npu_format_cast_(x, 0) is x and torch_npu.npu_format_cast_(x, copy) is x
    assert torch.equal(torch_npu.npu_format_cast(x, copy), x)


def test_internal_formats_stay_base_with_a_warning():
    x = torch.randn(20, 18, device="npu", requires_grad=True)
    with pytest.warns(UserWarning, match="allow_internal_format is False"):
        cast = torch_npu.npu_format_cast(x, 29)
    assert torch_npu.get_npu_format(cast) == 2 and torch.equal(cast, x)
    (cast * 2).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2))


def test_refusals():
    with pytest.raises(ValueError, match="999 is not known"):
        torch_npu.npu_format_cast(torch.zeros(3, 4).npu(), 999)
    with pytest.raises(ValueError, match="3 is not for tensors of 3 dimensions"):
        torch_npu.npu_format_cast(torch.zeros(3, 4, 5).npu(), 3)
