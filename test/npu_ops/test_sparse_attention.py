"""Attention to some of the keys, and the indexer that chooses them, against their definitions."""

import pytest
import torch
import torch.nn.functional as F
from cases_composed import CASES

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
CLOSE = dict(rtol=1e-4, atol=1e-5)
SPANS = ((0, 3, 0, 6), (3, 7, 6, 15))  # of tokens and keys of two packed sequences


def move(device, value):
    return value.clone().to(device) if isinstance(value, torch.Tensor) else value


def arguments(name, index, device):
    torch.manual_seed(index)
    args, kwargs = CASES[name][index](torch.float32)
    return args, kwargs, [move(device, a) for a in args], {key: move(device, v) for key, v in kwargs.items()}


def attended(query, key, value, places, scale, sinks=None):
    """One token at a time: results and scores of a packed case."""
    out, scores = torch.zeros(7, 4, value.shape[-1]), {}
    for first, end, k, _ in SPANS:
        for t in range(first, end):
            rows = [k + p for p in places[t, 0].tolist() if p >= 0]
            for h in range(4):
                s = torch.stack([query[t, h] @ key[r, 0] for r in rows]) * scale
                scores[t, h] = s
                whole = s if sinks is None else torch.cat([s, sinks[h : h + 1]])
                out[t, h] = torch.softmax(whole, 0)[: len(rows)] @ value[rows, 0]
    return out, scores


@DEVICES
def test_sparse_flash_attention(device):
    args, options, own, moved = arguments("npu_sparse_flash_attention", 0, device)
    out, top, total = torch_npu.npu_sparse_flash_attention(*own, **moved)
    query, key = torch.cat([args[0], options["query_rope"]], -1), torch.cat([args[1], options["key_rope"]], -1)
    expected, scores = attended(query, key, args[2], args[3], 0.4)
    torch.testing.assert_close(out.cpu(), expected, **CLOSE)
    assert top.shape == total.shape == (1, 7, 4)
    for (t, h), s in scores.items():
        torch.testing.assert_close((top + total.log())[0, t, h].cpu(), s.logsumexp(0), **CLOSE)


@DEVICES
def test_sparse_flash_attention_with_sinks_and_without_values(device):
    args, options, own, moved = arguments("npu_sparse_flash_attention", 1, device)
    query, key = torch.cat([args[0], options["query_rope"]], -1), torch.cat([args[1], options["key_rope"]], -1)
    expected, _ = attended(query, key, args[1], args[3], 0.4, options["sinks"])
    torch.testing.assert_close(torch_npu.npu_sparse_flash_attention(*own, **moved)[0].cpu(), expected, **CLOSE)


@DEVICES
def test_sparse_flash_attention_over_pages_in_blocks(device):
    (query, key, value, places, *_), options, own, moved = arguments("npu_sparse_flash_attention", 2, device)
    places[0, 0, 0] = torch.tensor([1, 0])
    own[3] = places.to(device)
    out = torch_npu.npu_sparse_flash_attention(*own, **moved)[0].cpu()
    assert not out[1, 2].any()  # behind the length
    for b, i, length in ((0, 0, 9), (0, 2, 9), (1, 1, 7)):
        k, v = (t[options["block_table"][b].long()].flatten(0, 1)[:length, 0] for t in (key, value))
        rows = [2 * p + j for p in places[b, i, 0].tolist() for j in range(2) if 2 * p + j < length]
        expected = torch.softmax(query[b, i] @ k[rows].t() * 0.4, -1) @ v[rows]
        torch.testing.assert_close(out[b, i], expected, **CLOSE)


@DEVICES
@pytest.mark.parametrize("shared", [False, True], ids=["with values", "without values"])
def test_sparse_flash_attention_gradients(device, shared):
    _, _, args, options = arguments("npu_sparse_flash_attention", 0, device)
    options.pop("return_softmax_lse")
    places, scale = args[3:5]
    leaves = [t.requires_grad_() for t in (*args[:2], *([] if shared else [args[2]]), options["query_rope"], options["key_rope"])]
    value = None if shared else args[2]
    out, top, total = torch_npu.npu_sparse_flash_attention(args[0], args[1], value, places, scale, return_softmax_lse=True, **options)
    grad = torch.randn_like(out)
    out.backward(grad)
    plain = [t.detach().cpu().requires_grad_() for t in leaves]
    q, k = torch.cat([plain[0], plain[-2]], -1), torch.cat([plain[1], plain[-1]], -1)
    attended(q, k, plain[1] if shared else plain[2], places.cpu(), scale)[0].backward(grad.cpu())
    found = torch_npu.npu_sparse_flash_attention_grad(
        args[0].detach(), args[1].detach(), None if shared else args[2].detach(), places, grad, out.detach(), top, total, scale, 1,
        options["query_rope"].detach(), options["key_rope"].detach(), options["actual_seq_lengths_query"], options["actual_seq_lengths_kv"], "TND")
    if shared:
        assert found[2].numel() == 0
    for ours, leaf, reference in zip([t for t in found if t.numel()], leaves, plain):
        torch.testing.assert_close(leaf.grad.cpu(), reference.grad, **CLOSE)
        torch.testing.assert_close(ours.cpu(), reference.grad, **CLOSE)


@DEVICES
def test_block_sparse_attention_is_torchs_with_a_mask(device):
    (q, k, v, mask, _), _, own, options = arguments("npu_block_sparse_attention", 0, device)
    leaves = [t.requires_grad_() for t in own[:3]]
    out, sums = torch_npu.npu_block_sparse_attention(*own, **options)
    plain = [t.clone().requires_grad_() for t in (q, k, v)]
    seen = mask.bool().repeat_interleave(2, 2).repeat_interleave(3, 3)[:, :, :5, :7]
    keys, values = (t.repeat_interleave(2, 1) for t in plain[1:])
    expected = F.scaled_dot_product_attention(plain[0], keys, values, seen, scale=0.4).nan_to_num(0.0)
    torch.testing.assert_close(out.detach().cpu(), expected.detach(), **CLOSE)
    assert not out[0, 0, :2].any()
    lse = (plain[0] @ keys.transpose(2, 3) * 0.4).masked_fill(~seen, float("-inf")).logsumexp(-1, keepdim=True).detach()
    torch.testing.assert_close(sums.cpu()[0, 0, 2:], lse[0, 0, 2:], **CLOSE)
    torch.testing.assert_close(sums.cpu()[1], lse[1], **CLOSE)
    grad = torch.randn(2, 4, 5, 8)
    out.backward(grad.to(device))
    shown = seen.any(-1, keepdim=True)
    weights = torch.softmax((plain[0] @ keys.transpose(2, 3) * 0.4).masked_fill(~seen, -1e9), -1)
    (torch.matmul(weights, values) * shown).backward(grad)
    again = torch_npu.npu_block_sparse_attention_backward(
        grad.to(device), *(t.detach() for t in leaves), out.detach(), sums, own[3], [2, 3], None, None, "BNSD", "BNSD", 2, 0.4)
    for ours, leaf, reference in zip(again, leaves, plain):
        torch.testing.assert_close(leaf.grad.cpu(), reference.grad, **CLOSE)
        torch.testing.assert_close(ours.cpu(), reference.grad, **CLOSE)


@DEVICES
def test_packed_block_sparse_attention_is_that_of_each_sequence(device):
    (q, k, v, mask, _), options, own, moved = arguments("npu_block_sparse_attention", 1, device)
    out, sums = torch_npu.npu_block_sparse_attention(*own, **moved)
    assert sums.shape == (8, 4, 1)
    for b, (rows, keys) in enumerate(((slice(0, 5), slice(0, 7)), (slice(5, 8), slice(7, 13)))):
        one, of_one = torch_npu.npu_block_sparse_attention(
            *(t[r].transpose(0, 1).unsqueeze(0) for t, r in ((q, rows), (k, keys), (v, keys))), mask[b : b + 1], [2, 3], q_input_layout="BNSD",
            kv_input_layout="BNSD", num_key_value_heads=2, scale_value=0.4)
        torch.testing.assert_close(out[rows].cpu(), one[0].transpose(0, 1), **CLOSE)
        torch.testing.assert_close(sums[rows].cpu(), of_one[0].transpose(0, 1), **CLOSE)


def index_scores(query, key, weights):
    return (torch.einsum("snd,kd->snk", query, key[:, 0]).relu() * weights.unsqueeze(-1)).sum(1)


@DEVICES
def test_lightning_indexer_gradients(device):
    (q, k, dy, places, w, *_), _, own, _ = arguments("npu_lightning_indexer_grad", 0, device)
    found = torch_npu.npu_lightning_indexer_grad(*own)
    leaves = [t.clone().requires_grad_() for t in (q, k, w)]
    total = 0.0
    for first, end, start, last in SPANS:
        scores = index_scores(leaves[0][first:end], leaves[1][start:last], leaves[2][first:end])
        for t in range(first, end):
            total = total + sum(scores[t - first, p] * g for p, g in zip(places[t, 0].tolist(), dy[t, 0]) if p >= 0)
    total.backward()
    for ours, leaf in zip(found, leaves):
        torch.testing.assert_close(ours.cpu(), leaf.grad, **CLOSE)


@DEVICES
def test_the_indexers_statistics(device):
    (q, k, w), _, own, _ = arguments("npu_dense_lightning_indexer_softmax_lse", 0, device)
    top, total = (t.cpu() for t in torch_npu.npu_dense_lightning_indexer_softmax_lse(*own))
    assert top.shape == total.shape == (2, 1, 4)
    for b in range(2):
        scores = index_scores(q[b], k[b], w[b])
        for t in range(4):
            torch.testing.assert_close((top + total.log())[b, 0, t], scores[t, : 3 + t].logsumexp(0), **CLOSE)
            torch.testing.assert_close(top[b, 0, t], scores[t, : 3 + t].max(), **CLOSE)


def kl(target, scores):
    """Of distributions, by torch."""
    return F.kl_div(torch.log_softmax(scores, -1), target / target.sum(), reduction="sum")


@DEVICES
def test_dense_loss(device):
    (query, key, q, k, w, *_), options, own, moved = arguments("npu_dense_lightning_indexer_grad_kl_loss", 0, device)
    *found, loss = torch_npu.npu_dense_lightning_indexer_grad_kl_loss(*own, **moved)
    leaves = [t.clone().requires_grad_() for t in (q, k, w)]
    query, key = torch.cat([query, options["query_rope"]], -1), torch.cat([key, options["key_rope"]], -1)
    expected = 0.0
    for b in range(2):
        scores = index_scores(leaves[0][b], leaves[1][b], leaves[2][b])
        for t in range(4):
            seen = 3 + t
            target = torch.softmax(torch.einsum("nd,knd->nk", query[b, t], key[b, :seen]) * 0.3, -1).sum(0)
            expected = expected + kl(target, scores[t, :seen])
    expected.backward()
    torch.testing.assert_close(loss.cpu(), expected.detach().reshape(1), **CLOSE)
    for ours, leaf in zip(found, leaves):
        torch.testing.assert_close(ours.cpu(), leaf.grad, rtol=1e-3, atol=1e-5)


@DEVICES
def test_sparse_loss(device):
    (query, key, q, k, w, places, *_), options, own, moved = arguments("npu_sparse_lightning_indexer_grad_kl_loss", 0, device)
    ropes = {name: moved[name] for name in ("query_rope", "key_rope")}
    ends = {"actual_seq_lengths_query": torch.tensor([3, 7]), "actual_seq_lengths_kv": torch.tensor([6, 15])}
    _, top, total = torch_npu.npu_sparse_flash_attention(
        own[0], own[1], None, own[5], 0.4, layout_query="TND", layout_kv="TND", return_softmax_lse=True,
        **{name: tensor.to(device) for name, tensor in ends.items()}, **ropes)
    *found, loss = torch_npu.npu_sparse_lightning_indexer_grad_kl_loss(*own[:6], top, total, 0.4, **moved)
    leaves = [t.clone().requires_grad_() for t in (q, k, w)]
    query, key = torch.cat([query, options["query_rope"]], -1), torch.cat([key, options["key_rope"]], -1)
    expected = 0.0
    for first, end, start, last in SPANS:
        scores = index_scores(leaves[0][first:end], leaves[1][start:last], leaves[2][first:end])
        for t in range(first, end):
            rows = [p for p in places[t, 0].tolist() if p >= 0]
            target = torch.softmax(query[t] @ key[start:last, 0][rows].t() * 0.4, -1).sum(0)
            expected = expected + kl(target, scores[t - first, rows])
    expected.backward()
    torch.testing.assert_close(loss.cpu(), expected.detach().reshape(1), **CLOSE)
    for ours, leaf in zip(found, leaves):
        torch.testing.assert_close(ours.cpu(), leaf.grad, rtol=1e-3, atol=1e-5)
