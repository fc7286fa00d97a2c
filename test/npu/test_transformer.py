"""torch.nn's transformer layers in inference, where they take operators that compute a whole layer."""
import copy

import pytest
import torch
import torch_npu

from torch import nn


@pytest.fixture(autouse=True)
def no_fallback():
    torch_npu.reset_fallbacks()
    yield
    assert torch_npu.fallbacks() == {}


def compare(module, call):
    torch.manual_seed(0)
    module.eval()
    on_npu = copy.deepcopy(module).npu()
    with torch.no_grad():
        torch.testing.assert_close(call(on_npu, "npu"), call(module, "cpu"), rtol=1e-4, atol=1e-5, check_device=False)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("mask", [None, "rows", "padding", "both"])
def test_encoder_layer(options, mask):
    x = torch.randn(3, 5, 16)
    given = {}
    if mask in ("rows", "both"):
        given["src_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask in ("padding", "both"):
        given["src_key_padding_mask"] = torch.arange(5) >= torch.tensor([[5], [3], [4]])
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)
    compare(layer, lambda module, device: module(x.to(device), **{name: value.to(device) for name, value in given.items()}).cpu())


@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("same", [True, False])
def test_attention(need_weights, average, same):
    x, y = torch.randn(2, 5, 16), torch.randn(2, 7, 16)

    def call(module, device):
        query = x.to(device)
        other = query if same else y.to(device)
        result, weights = module(query, other, other, need_weights=need_weights, average_attn_weights=average)
        return [t.cpu() for t in (result, weights) if t is not None]

    compare(nn.MultiheadAttention(16, 4, batch_first=True), call)


def test_operator_itself():
    q, k, v = torch.randn(3, 2, 5, 16)
    weights = [torch.randn(48, 16), torch.randn(48), torch.randn(16, 16), torch.randn(16)]
    padding = torch.arange(5) >= torch.tensor([[5], [4]])
    for mask, mask_type in ((None, None), (padding, 1), (torch.ones(5, 5, dtype=torch.bool).triu(1), 0), (torch.rand(2, 4, 5, 5) > 0.9, 2)):
        def run(device):
            rest = [w.to(device) for w in weights]
            return torch._native_multi_head_attention(q.to(device), k.to(device), v.to(device), 16, 4, *rest, None if mask is None else mask.to(device),
                                                      mask_type=mask_type)
        for a, e in zip(run("npu"), run("cpu")):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="mask_type"):
        torch._native_multi_head_attention(q.npu(), k.npu(), v.npu(), 16, 4, *[w.npu() for w in weights], padding.npu())
    with pytest.raises(RuntimeError, match="do not fit 3 heads"):
        torch._native_multi_head_attention(q.npu(), q.npu(), q.npu(), 16, 3, *[w.npu() for w in weights])


def test_product_and_activation():
    """The second half of a layer: torch's exact gelu, not the approximation that CUDA's library has."""
    b, x, w = torch.randn(32), torch.randn(5, 16), torch.randn(16, 32)
    for use_gelu in (False, True):
        torch.testing.assert_close(torch._addmm_activation(b.npu(), x.npu(), w.npu(), use_gelu=use_gelu).cpu(),
                                   torch._addmm_activation(b, x, w, use_gelu=use_gelu), rtol=1e-5, atol=1e-6)


def test_autocast_reaches_its_parts():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True).npu().eval()
    x = torch.randn(2, 5, 16, device="npu")
    with torch.no_grad():
        exact = layer(x)
        with torch.autocast("npu", dtype=torch.float16):
            rounded = layer(x)
    assert not torch.equal(rounded.float(), exact)
    torch.testing.assert_close(rounded.float(), exact, rtol=1e-2, atol=1e-2)
