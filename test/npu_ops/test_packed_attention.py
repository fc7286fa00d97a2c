"""Fused attention over packed sequences ("TND"): where the statistics lie, parts of the keys put together, sequences that are empty, dropout."""

import pytest
import torch

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


@DEVICES
def test_statistics_of_packed_attention_lie_by_sequence_or_as_the_queries(device):
    q = torch.randn(7, 2, 8, device=device, requires_grad=True)
    options = dict(scale=0.4, actual_seq_qlen=[2, 7], actual_seq_kvlen=[2, 7])
    for attention in (torch_npu.npu_fusion_attention, torch_npu.npu_fusion_attention_v2):
        packed, as_queries = (attention(q, q, q, 2, "TND", softmax_layout=layout, **options) for layout in ("", "TND"))
        torch.testing.assert_close(packed[0], as_queries[0])
        rows = [r.split([2, 5]) for r in packed[1:3]]   # of a sequence: [its heads, its rows, 8]
        for by_sequence, statistic in zip(rows, as_queries[1:3]):
            torch.testing.assert_close(torch.cat([r.reshape(2, -1, 8).transpose(0, 1) for r in by_sequence]), statistic)
        torch.testing.assert_close(*[torch.autograd.grad(result[0].square().sum(), q)[0] for result in (packed, as_queries)])
        with pytest.raises(ValueError, match="softmax_layout may be TND with the layout TND, but got BSND with TND"):
            attention(q, q, q, 2, "TND", softmax_layout="BSND", **options)


@DEVICES
@pytest.mark.parametrize("layout", ["", "TND"])
def test_ring_attention_joins_packed_parts_of_the_keys(device, layout):
    q, k, v = (torch.randn(9, 3, 8, device=device) for _ in range(3))

    def attend(k, v, ends):
        return torch_npu.npu_fusion_attention(q, k, v, 3, "TND", scale=0.4, actual_seq_qlen=[2, 5, 9], actual_seq_kvlen=ends,
                                              softmax_layout=layout)[:3]

    first, whole = torch.tensor([0, 2, 3, 5, 6]), attend(k, v, [2, 5, 9])
    second = torch.tensor([1, 4, 7, 8])
    parts = [attend(k[rows].contiguous(), v[rows].contiguous(), ends) for rows, ends in ((first, [1, 3, 5]), (second, [1, 2, 4]))]
    update = lambda ends: torch_npu.npu_ring_attention_update(*parts[0], *parts[1], actual_seq_qlen=ends, input_layout="TND",
                                                              input_softmax_layout=layout)
    for ends in ([0, 2, 5, 9], [2, 5, 9]):
        out, top, total = update(torch.tensor(ends, device=device))
        torch.testing.assert_close(out, whole[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(top + total.log(), whole[1] + whole[2].log(), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="layout TND needs actual_seq_qlen"):
        update(None)


@DEVICES
def test_packed_sequences_may_be_empty_and_those_at_the_end_left_out(device):
    def attend(*ends):
        leaves = [torch.randn(9, 2, 8, generator=torch.Generator().manual_seed(i)).to(device).requires_grad_() for i in range(3)]
        out, *_, count = torch_npu.npu_fusion_attention(*leaves, 2, "TND", scale=0.4, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[-1])
        return [out, *torch.autograd.grad(out.square().sum(), leaves)], count

    expected, count = attend([2, 5, 9])
    for ends in ([2, 5, 9, 0, 0], [0, 2, 5, 9], [2, 2, 5, 9]):
        found, same = attend(ends)
        assert same == count
        for ours, theirs in zip(found, expected):
            torch.testing.assert_close(ours, theirs)
    out, dq, dk, dv = attend([4, 9, 9], [0, 7, 9])[0]   # rows without keys, keys without rows
    for nothing in (out[:4], dq[:4], dk[7:], dv[7:]):
        assert not nothing.any()
    assert all(t.any() for t in (out[4:], dq[4:], dk[:7], dv[:7]))


@pytest.mark.parametrize("attention", [torch_npu.npu_fusion_attention, torch_npu.npu_fusion_attention_v2])
@DEVICES
def test_attention_dropout_of_packed_sequences(attention, device):
    torch.manual_seed(7)
    q, k, v = (torch.randn(7, 4, 8).to(device).requires_grad_() for _ in range(3))
    ends, heads = [3, 3, 7], 4
    out, _, _, _, seed, offset, size = attention(q, k, v, heads, "TND", scale=0.3, keep_prob=0.5, actual_seq_qlen=ends, actual_seq_kvlen=ends)
    assert size == heads * (9 + 16)
    mask = torch_npu._npu_dropout_gen_mask(q, [size], 0.5, seed, offset).cpu()
    bits = (mask[:, None].int() >> torch.arange(8) & 1).flatten()[:size]
    leaves = [x.detach().cpu().requires_grad_() for x in (q, k, v)]
    parts = []
    for start, end, stays in ((0, 3, bits[:36]), (3, 7, bits[36:])):
        a, b, c = (x[start:end].transpose(0, 1) for x in leaves)
        weights = (a @ b.mT * 0.3).softmax(-1) * stays.view(heads, end - start, -1) / 0.5
        parts.append((weights @ c).transpose(0, 1))
    expected = torch.cat(parts)
    torch.testing.assert_close(out.cpu(), expected)
    grad = torch.randn(out.shape)
    out.backward(grad.to(device))
    expected.backward(grad)
    for ours, theirs in zip((q, k, v), leaves):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize("pse_type", [2, 3])
def test_linear_biases_are_made_of_slopes(pse_type, device):
    """What pse_type 0 gives for the whole bias; a ring of ranks hands over where its rows begin."""
    q, k, v = (torch.randn(2, 4, rows, 8, device=device) for rows in (6, 5, 5))
    slopes = torch.rand(2, 4, device=device)
    distance = (torch.arange(5) + 7 - torch.arange(6).unsqueeze(1) - 4).abs().float().to(device)
    bias = -slopes[..., None, None] * (distance if pse_type == 2 else distance.sqrt())
    expected = torch_npu.npu_fusion_attention_v2(q, k, v, 4, "BNSD", pse=bias, pse_type=0, scale=0.3)[0]
    starts = dict(pse_type=pse_type, scale=0.3, q_start_idx=[4], kv_start_idx=[7])
    torch.testing.assert_close(torch_npu.npu_fusion_attention_v2(q, k, v, 4, "BNSD", pse=slopes, **starts)[0], expected)
    packed = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
    found = torch_npu.npu_fusion_attention_v2(*packed, 4, "TND", pse=slopes, actual_seq_qlen=[6, 12], actual_seq_kvlen=[5, 10], **starts)[0]
    torch.testing.assert_close(found.unflatten(0, (2, 6)).transpose(1, 2), expected)
    with pytest.raises(RuntimeError, match="slopes"):
        torch_npu.npu_fusion_attention_v2(q, k, v, 4, "BNSD", pse=slopes[:, :3], **starts)
        torch.npu.synchronize()


@DEVICES
@pytest.mark.parametrize("pse_type", [0, 1])
def test_the_last_rows_of_a_bias_say_all_of_it(pse_type, device):
    """Of ALiBi, which depends on the distance alone; packed sequences take it only so."""
    rows, settings = 1030, dict(scale=0.3, sparse_mode=2, atten_mask=torch.ones(2048, 2048).triu(1).bool().to(device), pse_type=pse_type)
    leaves = [torch.randn(1, 2, rows, 4, device=device).requires_grad_() for _ in range(3)]
    distance = (torch.arange(rows) - torch.arange(rows).unsqueeze(1)).clamp_max(0).float()
    bias = (torch.tensor([0.5, 0.25]).view(1, 2, 1, 1) * distance).to(device)

    def attend(q, k, v, layout, pse, **more):
        out = torch_npu.npu_fusion_attention_v2(q, k, v, 2, layout, pse=pse, **settings, **more)[0]
        return [out, *torch.autograd.grad(out.square().sum(), [x for x in (*leaves, pse) if x.requires_grad])]

    expected = attend(*leaves, "BNSD", bias)
    found = attend(*leaves, "BNSD", bias[:, :, -1024:].clone().requires_grad_())
    assert not found.pop().any()
    torch.testing.assert_close(found, expected)
    packed = attend(*(torch.cat([x[0], x[0, :, :9]], 1).transpose(0, 1) for x in leaves), "TND", bias[:, :, -1024:],
                    actual_seq_qlen=[rows, rows + 9], actual_seq_kvlen=[rows, rows + 9])[0]
    torch.testing.assert_close(packed[:rows].transpose(0, 1), expected[0][0])
    torch.testing.assert_close(packed[rows:].transpose(0, 1), expected[0][0, :, :9])


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_rope_of_queries_and_keys(device):
    """As attention whose heads have these elements too; with smaller values, groups, and a sink."""
    q, k, v, q_rope, k_rope = leaves = [torch.randn(7, heads, size, device=device, requires_grad=True)
                                        for heads, size in ((4, 8), (2, 8), (2, 8), (4, 6), (2, 6))]
    settings = dict(actual_seq_qlen=[3, 7], actual_seq_kvlen=[3, 7], scale=0.3, sparse_mode=3, softmax_layout="TND",
                    sink=torch.randn(4, device=device), atten_mask=torch.ones(2048, 2048, dtype=torch.bool, device=device).triu(1))
    attention = torch_npu.npu_fusion_attention_v2
    found = attention(q, k, v, 4, "TND", query_rope=q_rope, key_rope=k_rope, **settings)
    expected = attention(torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1), v, 4, "TND", **settings)
    for ours, theirs in zip(found[:3], expected[:3]):
        torch.testing.assert_close(ours, theirs)
    grad = torch.randn_like(found[0])
    for ours, theirs in zip(torch.autograd.grad(found[0], leaves, grad), torch.autograd.grad(expected[0], leaves, grad)):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(RuntimeError, match="query_rope and key_rope are given together"):
        attention(q, k, v, 4, "TND", query_rope=q_rope, **settings)
