"""Fused attention whose values have smaller heads than queries and keys (DeepSeek's MLA): sizes, results, gradients."""

import pytest
import torch

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
BATCH, ROWS, HEADS, KEY_HEADS, WIDE, NARROW = 2, 6, 4, 2, 12, 8

TO_LAYOUT = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2),
    "BSH": lambda t: t.transpose(1, 2).flatten(2),
    "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2),
    "TND": lambda t: t.transpose(1, 2).flatten(0, 1),
}


def heads(device, count, size, seed):
    return torch.randn(BATCH, count, ROWS, size, generator=torch.Generator().manual_seed(seed)).to(device).requires_grad_()


@DEVICES
@pytest.mark.parametrize("layout", TO_LAYOUT)
@pytest.mark.parametrize("version", ["", "_v2", "_v3"])
def test_heads_of_the_result_are_those_of_the_values(device, layout, version):
    lay = TO_LAYOUT[layout]
    leaves = q, k, v = [heads(device, n, size, i) for i, (n, size) in enumerate([(HEADS, WIDE), (KEY_HEADS, WIDE), (KEY_HEADS, NARROW)])]
    expected = torch.nn.functional.scaled_dot_product_attention(*(t.cpu() for t in leaves), scale=0.4, enable_gqa=True)
    options = {}
    if layout == "TND":
        ends = [ROWS, 2 * ROWS]
        options = dict.fromkeys(("actual_seq_qlen", "actual_seq_kvlen"), torch.tensor(ends) if version == "_v3" else ends)
    attention = getattr(torch_npu, f"npu_fusion_attention{version}")
    inputs = [lay(t).contiguous() for t in leaves]
    out = attention(*inputs, HEADS, layout, scale=0.4, **options)[0]
    torch.testing.assert_close(out.cpu(), lay(expected).contiguous(), rtol=1e-4, atol=1e-5)
    grad = torch.randn(out.shape)
    found = torch.autograd.grad(out, leaves, grad.to(device))
    for ours, theirs in zip(found, torch.autograd.grad(lay(expected), leaves, grad)):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    if layout != "TND":
        plain = [t.detach().to("meta") for t in inputs]
        assert attention(*plain, HEADS, layout, scale=0.4)[0].shape == out.shape
    if version == "_v3":
        assert torch_npu._npu_fusion_attention_v3_infer_output(*(t.detach() for t in inputs), HEADS, layout)[0].shape == out.shape
