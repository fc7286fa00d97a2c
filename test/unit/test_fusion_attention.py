"""npu_fusion_attention against scaled_dot_product_attention, on the CPU, and on the NPU where that has operators of its own."""
import pytest
import torch
from torch.nn import functional as F

import torch_npu
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
    (2, {"atten_mask": True}, lambda row, column: column <= row),
    (3, {"atten_mask": True}, lambda row, column: column <= row + 3),
    (0, {"atten_mask": False, "pre_tockens": 2, "next_tockens": 1}, lambda row, column: (column <= row + 1) & (column >= row - 2)),
    (0, {"pre_tockens": 2, "next_tockens": 1}, lambda row, column: column >= 0),  # without a mask the band does not count
    (4, {"atten_mask": True, "pre_tockens": 2, "next_tockens": 1}, lambda row, column: (column <= row + 4) & (column >= row + 1)),
])
def test_masks(mode, options, seen):
    q, k, v = inputs(kv_length=S + 3)
    allowed = seen(torch.arange(S).unsqueeze(1), torch.arange(S + 3)).expand(S, S + 3)
    if "atten_mask" in options:
        options = {**options, "atten_mask": ~allowed if options["atten_mask"] else torch.zeros_like(allowed)}
    out = npu_fusion_attention(q, k, v, N, "BNSD", scale=0.3, sparse_mode=mode, **options)[0]
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=0.3))


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
@pytest.mark.parametrize("mode", [2, 3, 4])
def test_without_a_mask_every_score_counts(device, layout, mode):
    # As ring attention calls it, for keys of earlier ranks.
    tensors = [t.detach().to(device).requires_grad_() for t in inputs()]
    grad = torch.randn(B, N, S, D)
    if layout == "BNSD":
        options, arranged = {}, lambda t: t
    else:
        ends = [S * (i + 1) for i in range(B)]
        options, arranged = {"actual_seq_qlen": ends, "actual_seq_kvlen": ends}, lambda t: t.transpose(1, 2).flatten(0, 1)
    out = torch.ops.npu.npu_fusion_attention(*map(arranged, tensors), N, layout, scale=0.3, sparse_mode=mode, pre_tockens=S,
                                             next_tockens=0, **options)[0]
    out.backward(arranged(grad.to(device)))
    references = [t.detach().cpu().requires_grad_() for t in tensors]
    expected = F.scaled_dot_product_attention(*references, scale=0.3)
    expected.backward(grad)
    torch.testing.assert_close(out.cpu(), arranged(expected), rtol=1e-4, atol=1e-5)
    for tensor, reference in zip(tensors, references):
        torch.testing.assert_close(tensor.grad.cpu(), reference.grad, rtol=1e-4, atol=1e-5)


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
    with pytest.raises(RuntimeError, match="actual_seq_qlen"):
        npu_fusion_attention(q, k, v, N, "TND")
    with pytest.raises(NotImplementedError, match="sparse_mode=5"):
        npu_fusion_attention(q, k, v, N, "BNSD", sparse_mode=5)
    with pytest.raises(NotImplementedError, match="prefix"):
        npu_fusion_attention(q[0], k[0], v[0], S, "TND", actual_seq_qlen=[4], actual_seq_kvlen=[4], prefix=[1], sparse_mode=6)
    with pytest.raises(NotImplementedError, match="padding_mask"):
        npu_fusion_attention(q, k, v, N, "BNSD", padding_mask=q)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("version", ["npu_fusion_attention", "npu_fusion_attention_v2"])
def test_the_callers_dropout_mask(device, version):
    """The documented call: a mask of _npu_dropout_gen_mask, with the seed and offset that made it, forward and backward."""
    attention = getattr(torch_npu, version)
    q, k, v = (t.detach().to(device).requires_grad_() for t in inputs())
    mask = torch_npu._npu_dropout_gen_mask(q.detach(), [B, N, S, S], p=0.25, seed=42, offset=3)
    options = dict(keep_prob=0.75, scale=0.3)
    out, *_, seed, offset, count = attention(q, k, v, N, "BNSD", dropout_mask=mask, seed=42, offset=3, **options)
    assert (seed, offset, count) == (42, 3, B * N * S * S)
    kept = (mask.cpu().unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8) & 1).flatten()[:count].view(B, N, S, S)
    assert 0 < kept.sum() < count
    x, y, z = (t.detach().cpu().requires_grad_() for t in (q, k, v))
    expected = ((x @ y.transpose(2, 3) * 0.3).softmax(-1) * kept / 0.75) @ z
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-4)
    out.square().sum().backward()
    expected.square().sum().backward()
    for there, here in ((q, x), (k, y), (v, z)):
        torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-3, atol=1e-3)
    other = attention(q, k, v, N, "BNSD", dropout_mask=torch.full_like(mask, 255), seed=42, offset=3, **options)[0]
    whole = attention(q, k, v, N, "BNSD", scale=0.3)[0]
    torch.testing.assert_close(other.cpu(), whole.cpu() / 0.75, rtol=1e-4, atol=1e-4)   # the mask counts, not the seed's


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("version", ["npu_fusion_attention", "npu_fusion_attention_v2"])
def test_seed_and_offset_come_back_without_dropout(device, version):
    q, k, v = (t.detach().to(device) for t in inputs())
    assert getattr(torch_npu, version)(q, k, v, N, "BNSD", seed=5, offset=7)[4:6] == (5, 7)
    assert getattr(torch_npu, version)(q, k, v, N, "BNSD")[4:6] == (0, 0)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_dropout_masks_that_do_not_fit(device):
    q, k, v = (t.to(device) for t in inputs())
    mask = torch_npu._npu_dropout_gen_mask(q, [B, N, S, S], p=0.25, seed=42, offset=0)
    with pytest.raises(RuntimeError, match="seed and the offset"):
        torch_npu.npu_fusion_attention(q, k, v, N, "BNSD", keep_prob=0.75, dropout_mask=mask)
    for wrong in (mask[:-1], mask.int()):
        with pytest.raises(RuntimeError, match="a bit for each"):
            torch_npu.npu_fusion_attention(q, k, v, N, "BNSD", keep_prob=0.75, dropout_mask=wrong, seed=42)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("mode", [5, 6])
def test_prefix_is_seen_by_all_rows(device, mode):
    q, k, v = inputs(kv_length=S + 3)
    prefix = torch.tensor([5, 0])
    row, column = torch.arange(S).unsqueeze(1), torch.arange(S + 3)
    allowed = ((column <= row + 3) | (column < prefix.view(-1, 1, 1))).unsqueeze(1)
    q, k, v = (t.to(device) for t in (q, k, v))
    out = torch.ops.npu.npu_fusion_attention(q, k, v, N, "BNSD", scale=0.3, sparse_mode=mode, prefix=[5, 0],
                                             atten_mask=(~allowed).to(device))[0]
    torch.testing.assert_close(out.cpu(), F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu(), attn_mask=allowed, scale=0.3),
                               rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("layout", [*TO_LAYOUT, "TND"])
def test_sink_takes_its_share(device, layout):
    q, k, v = inputs()
    sink = torch.linspace(-1, 1, N).requires_grad_()
    scores = torch.cat([q @ k.transpose(2, 3) * 0.3, sink.view(1, N, 1, 1).expand(B, N, S, 1)], -1)
    expected = scores.softmax(-1)[..., :-1] @ v
    lengths = {"actual_seq_qlen": [S, B * S], "actual_seq_kvlen": [S, B * S]} if layout == "TND" else {}
    to = TO_LAYOUT.get(layout, lambda t: t.transpose(1, 2).flatten(0, 1))
    out = torch.ops.npu.npu_fusion_attention(*(to(t).to(device) for t in (q, k, v)), N, layout, scale=0.3, sink=sink.to(device), **lengths)
    torch.testing.assert_close(out[0].cpu(), to(expected), rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(expected)
    found = torch.autograd.grad(out[0], (q, k, v, sink), to(weight).to(device))
    for ours, reference in zip(found, torch.autograd.grad(expected, (q, k, v, sink), weight)):
        torch.testing.assert_close(ours.cpu(), reference, rtol=1e-3, atol=1e-4)
