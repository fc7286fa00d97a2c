"""npu_fusion_attention against scaled_dot_product_attention, on the CPU: no device is needed."""
import pytest
import torch
from torch.nn import functional as F

from torch_npu._cpu_ops.attention import npu_fusion_attention

B, N, S, D = 2, 4, 6, 8
TO_LAYOUT = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2),
    "BSH": lambda t: t.transpose(1, 2).flatten(2),
    "SBH": lambda t: t.transpose(1, 2).flatten(2).transpose(0, 1),
}


def inputs(kv_heads=N, kv_length=S):
    torch.manual_seed(0)
    return [torch.randn(B, heads, length, D, requires_grad=True)
            for heads, length in ((N, S), (kv_heads, kv_length), (kv_heads, kv_length))]


@pytest.mark.parametrize("layout", TO_LAYOUT)
@pytest.mark.parametrize("kv_heads", [N, 2])
def test_layouts_and_gradients(layout, kv_heads):
    q, k, v = inputs(kv_heads)
    to = TO_LAYOUT[layout]
    out = npu_fusion_attention(to(q), to(k), to(v), N, layout, scale=D**-0.5)[0]
    expected = to(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    torch.testing.assert_close(out, expected)
    weight = torch.randn_like(expected)
    for ours, reference in zip(torch.autograd.grad(out, (q, k, v), weight),
                               torch.autograd.grad(expected, (q, k, v), weight)):
        torch.testing.assert_close(ours, reference)


@pytest.mark.parametrize("mode,options,seen", [
    (0, {"atten_mask": True}, lambda row, column: column <= row),
    (1, {"atten_mask": True}, lambda row, column: column <= row),
    (2, {}, lambda row, column: column <= row),
    (3, {}, lambda row, column: column <= row + 3),
    (0, {"atten_mask": False, "pre_tockens": 2, "next_tockens": 1}, lambda row, column: (column <= row + 1) & (column >= row - 2)),
    (0, {"pre_tockens": 2, "next_tockens": 1}, lambda row, column: column >= 0),  # without a mask the band does not count
    (4, {"pre_tockens": 2, "next_tockens": 1}, lambda row, column: (column <= row + 4) & (column >= row + 1)),
])
def test_masks(mode, options, seen):
    q, k, v = inputs(kv_length=S + 3)
    allowed = seen(torch.arange(S).unsqueeze(1), torch.arange(S + 3)).expand(S, S + 3)
    if "atten_mask" in options:
        options = {**options, "atten_mask": ~allowed if options["atten_mask"] else torch.zeros_like(allowed)}
    out = npu_fusion_attention(q, k, v, N, "BNSD", scale=0.3, sparse_mode=mode, **options)[0]
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=0.3))


def test_bias_is_added_before_scaling():
    q, k, v = inputs()
    bias = torch.randn(B, N, S, S)
    out = npu_fusion_attention(q, k, v, N, "BNSD", pse=bias, scale=0.3)[0]
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=bias * 0.3, scale=0.3))


def test_statistics_of_the_softmax():
    q, k, v = inputs()
    _, top, total, *_ = npu_fusion_attention(q, k, v, N, "BNSD")
    scores = q @ k.transpose(2, 3)
    assert top.shape == total.shape == (B, N, S, 8)
    torch.testing.assert_close(top[..., 0] + total[..., 5].log(), scores.logsumexp(-1))


def test_what_is_not_supported_is_refused():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="actual_seq_qlen"):
        npu_fusion_attention(q, k, v, N, "TND")
    with pytest.raises(NotImplementedError, match="prefix"):
        npu_fusion_attention(q, k, v, N, "BNSD", prefix=[1])
