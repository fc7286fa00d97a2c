"""Native sparse attention against its definition, token by token."""

import pytest
import torch
from cases_composed import _OWN_BLOCK, _SEEN, _TABLE, CASES

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
CLOSE = dict(rtol=1e-4, atol=1e-5)


def move(device, values):
    return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]


def windows(length):
    """(first, end) of each window of 4 tokens, every 2."""
    return [(first, first + 4) for first in range(0, length - 3, 2)]


@DEVICES
def test_compress(device):
    torch.manual_seed(1)
    x, weight = torch.randn(21, 3, 8), torch.randn(4, 3)
    expected = [
        sum(weight[r, :, None] * x[start + first + r] for r in range(4))
        for start, end in ((0, 9), (9, 12), (12, 21))
        for first, _ in windows(end - start)
    ]
    leaves = [x.to(device).requires_grad_(), weight.to(device).requires_grad_()]
    found = torch_npu.npu_nsa_compress(*leaves, 4, 2, actual_seq_len=[9, 12, 21])
    torch.testing.assert_close(found.cpu(), torch.stack(expected), **CLOSE)
    grad = torch.randn_like(found)
    found.backward(grad)
    again = torch_npu.npu_nsa_compress_grad(grad, *(t.detach() for t in leaves), 4, 2, actual_seq_len=[9, 12, 21])
    for ours, leaf in zip(again, leaves):
        torch.testing.assert_close(ours, leaf.grad)
    share = torch.zeros(21, 3)  # of the windows that a token belongs to
    for i, (start, first) in enumerate([(s, f) for s, e in ((0, 9), (9, 12), (12, 21)) for f, _ in windows(e - s)]):
        share[start + first : start + first + 4] += grad[i].cpu().sum(-1) * weight
    torch.testing.assert_close(leaves[0].grad.cpu().sum(-1), share, **CLOSE)


@DEVICES
def test_compress_writes_the_window_that_is_complete(device):
    pages, weight, cache = torch.randn(6, 4, 3, 8), torch.randn(4, 3), torch.zeros(7, 3, 8)
    slots = torch.tensor([5, 2], dtype=torch.int32)
    args = move(device, (pages, weight, slots, 4, 2, 4))
    cache = cache.to(device)
    found = torch_npu.npu_nsa_compress_infer.cache(*args, block_table=_TABLE.to(device), actual_seq_len=[10, 7], cache=cache)
    tokens = pages[_TABLE[0].long()].flatten(0, 1)
    expected = torch.zeros(7, 3, 8)
    expected[5] = (tokens[6:10] * weight[:, :, None]).sum(0)  # 7 tokens complete no window
    assert found.data_ptr() == cache.data_ptr()
    torch.testing.assert_close(cache.cpu(), expected, **CLOSE)


def attention(query, keys, values, scale):
    weights = torch.softmax(query @ keys.t() * scale, -1)
    return weights, weights @ values


@DEVICES
def test_compress_attention(device):
    torch.manual_seed(2)
    args, options = CASES["npu_nsa_compress_attention"][1](torch.float32)
    query, key, value = args[:3]
    out, places, top, total = torch_npu.npu_nsa_compress_attention(
        *move(device, args), **dict(zip(options, move(device, options.values())))
    )
    assert places.dtype == torch.int32 and top.shape == (21, 4, 8)
    for start, first, length, count, blocks in ((0, 0, 9, 3, 2), (9, 3, 12, 5, 3)):
        for token in range(length):
            seen = [w for w in range(count) if not _SEEN[token, w]]
            scores = torch.zeros(2, blocks)
            for head in range(4):
                group = head // 2
                if not seen:
                    assert not out[start + token, head].any()
                    continue
                keys, values = (t[first : first + count, group][seen] for t in (key, value))
                weights, expected = attention(query[start + token, head], keys, values, 0.4)
                torch.testing.assert_close(out[start + token, head].cpu(), expected, **CLOSE)
                sums = (top + total.log())[start : start + length].view(4, length, 8)[head, token].cpu()
                torch.testing.assert_close(sums, (query[start + token, head] @ keys.t() * 0.4).logsumexp(0).expand(8), **CLOSE)
                for w, weight in zip(seen, weights):
                    for stride in (w, w + 1):  # two strides of two tokens, two strides to a block
                        if stride // 2 < blocks:
                            scores[group, stride // 2] += weight
            scores[:, _OWN_BLOCK[token, :blocks]] = float("inf")
            for group in range(2):
                order = scores[group].sort(descending=True, stable=True)[1].tolist()
                assert places[start + token, group].tolist() == (order + [-1])[:3]


@DEVICES
def test_compress_attention_over_pages_is_that_of_rows(device):
    torch.manual_seed(3)
    query, key, value = torch.randn(2, 4, 8), torch.randn(6, 4, 2, 8), torch.randn(6, 4, 2, 6)
    out, places = torch_npu.npu_nsa_compress_attention_infer(
        *move(device, (query, key.flatten(2), value.flatten(2))),
        0.4,
        4,
        2,
        4,
        2,
        4,
        4,
        2,
        block_table=_TABLE.to(device),
        actual_cmp_seq_kvlen=[9, 4],
    )
    rows = [torch.cat([t[_TABLE[b].long()].flatten(0, 1)[:n] for b, n in enumerate((9, 4))]) for t in (key, value)]
    expected = torch_npu.npu_nsa_compress_attention(
        query, *rows, 0.4, 4, 4, 2, 4, 2, actual_seq_qlen=[1, 2], actual_cmp_seq_kvlen=[9, 13]
    )
    torch.testing.assert_close(out.cpu(), expected[0], **CLOSE)
    assert torch.equal(places.cpu(), expected[1])


def selected(query, key, value, places, causal):
    """Attention of one token and head to blocks of 4."""
    rows = sorted(
        {r for p in places if p >= 0 for r in range(4 * p, 4 * p + 4) if r < key.shape[0] and (causal is None or r <= causal)}
    )
    return attention(query, key[rows], value[rows], 0.4)[1] if rows else torch.zeros(value.shape[-1])


@DEVICES
@pytest.mark.parametrize("causal", [False, True])
def test_select_attention(device, causal):
    torch.manual_seed(4)
    args, options = CASES["npu_nsa_select_attention"][causal](torch.float32)
    query, key, value, places = args[:4]
    leaves = [t.clone().to(device).requires_grad_() for t in (query, key, value)]
    mask = options.get("atten_mask")
    options["atten_mask"] = None if mask is None else mask.to(device)
    found, top, total = torch_npu.npu_nsa_select_attention(*leaves, places.to(device), *args[4:], **options)
    own = [t.clone().requires_grad_() for t in (query, key, value)]
    expected = torch.stack(
        [
            torch.stack(
                [
                    selected(
                        own[0][t, h],
                        own[1][start:end, h // 2],
                        own[2][start:end, h // 2],
                        places[t, h // 2].tolist(),
                        t - start if causal else None,
                    )
                    for h in range(4)
                ]
            )
            for start, end in ((0, 9), (9, 21))
            for t in range(start, end)
        ]
    )
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), **CLOSE)
    grad = torch.randn(21, 4, 6)
    found.backward(grad.to(device))
    expected.backward(grad)
    again = torch_npu.npu_nsa_select_attention_grad(
        grad.to(device), *(t.detach() for t in leaves), found.detach(), top, total, places.to(device), *args[4:], **options
    )
    for ours, leaf, reference in zip(again, leaves, own):
        torch.testing.assert_close(leaf.grad.cpu(), reference.grad, **CLOSE)
        torch.testing.assert_close(ours.cpu(), reference.grad, **CLOSE)


@DEVICES
def test_select_attention_over_pages(device):
    torch.manual_seed(5)
    query, key, value = torch.randn(2, 2, 4, 8), torch.randn(6, 4, 2, 8), torch.randn(6, 4, 2, 6)
    places = torch.tensor([[[[1, 0], [0, 2]], [[2, 0], [1, 2]]], [[[1, -1], [0, 1]], [[0, -1], [1, 0]]]], dtype=torch.int32)
    found = torch_npu.npu_nsa_select_attention_infer(
        *move(device, (query, key, value, places)), 0.4, 4, 2, 4, 2, 4, block_table=_TABLE.to(device), actual_seq_kvlen=[9, 7]
    )
    for b, length in enumerate((9, 7)):
        rows = [t[_TABLE[b].long()].flatten(0, 1)[:length] for t in (key, value)]
        for i in range(2):
            for h in range(4):
                expected = selected(
                    query[b, i, h], rows[0][:, h // 2], rows[1][:, h // 2], places[b, i, h // 2].tolist(), length - 2 + i
                )
                torch.testing.assert_close(found[b, i, h].cpu(), expected, **CLOSE)


def test_what_is_not_served_says_so():
    args = CASES["npu_nsa_compress"][0](torch.float32)[0]
    with pytest.raises(ValueError, match="actual_seq_len"):
        torch_npu.npu_nsa_compress(*args)
    query, key, value, places = CASES["npu_nsa_select_attention"][0](torch.float32)[0][:4]
    with pytest.raises(ValueError, match="names 2 blocks"):
        torch_npu.npu_nsa_select_attention(query, key, value, places, 0.4, 4, 4, 3, actual_seq_qlen=[21], actual_seq_kvlen=[21])
