"""Sparse attention and the lightning indexer at the C interface, against torch's softmax, sort and gradients."""
import pytest
import torch
from nn_client import HALVES, close

from torch_npu._cpu_ops import lightning_indexer, sparse_attention

HEADS, SIZE, ROPE, COUNT = 4, 16, 8, 6
SCALE = SIZE**-0.5


def batches(dtype):
    query, key = torch.randn(2, 5, HEADS, SIZE).to(dtype), torch.randn(2, 9, 1, SIZE).to(dtype)
    value = torch.randn(2, 9, 1, SIZE).to(dtype)
    places = torch.stack([torch.randperm(9)[:COUNT] for _ in range(10)]).view(2, 5, 1, COUNT).int()
    places[..., -1] = -1
    return query, key, value, places


def ropes(dtype):
    return torch.randn(2, 5, HEADS, ROPE).to(dtype), torch.randn(2, 9, 1, ROPE).to(dtype)


def dense_attention(query, key, value, places, causal, sinks=None):
    """Over all keys, of which those without a place are hidden."""
    scores = torch.einsum("bsnd,btd->bsnt", query, key[:, :, 0]) * SCALE
    chosen = torch.zeros(*places.shape[:2], key.shape[1] + 1, dtype=torch.bool)
    chosen.scatter_(-1, torch.where(places[:, :, 0] < 0, key.shape[1], places[:, :, 0]).long(), True)
    seen = chosen[..., :-1]
    if causal:
        seen = seen & torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril(key.shape[1] - query.shape[1])
    scores = scores.masked_fill(~seen.unsqueeze(2), float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.view(1, 1, -1, 1).expand(*scores.shape[:-1], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)[..., : key.shape[1]]
    return torch.einsum("bsnt,btd->bsnd", weights, value[:, :, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 3])
def test_attention_to_chosen_keys(call, dtype, mode):
    query, key, value, places = batches(dtype)
    query_rope, key_rope = ropes(dtype)
    out, top, total = torch.empty_like(query), torch.empty(2, 1, 5, HEADS), torch.empty(2, 1, 5, HEADS)
    call.named("aclnnSparseFlashAttention", query=query, key=key, value=value, sparseIndices=places, queryRopeOptional=query_rope,
               keyRopeOptional=key_rope, scaleValue=SCALE, sparseBlockSizeOptional=1, layoutQueryOptional="BSND",
               layoutKvOptional="BSND", sparseMode=mode, attentionMode=2, returnSoftmaxLse=True, attentionOut=out, softmaxMax=top,
               softmaxSum=total)
    wide = [torch.cat([a.float(), b.float()], -1) for a, b in ((query, query_rope), (key, key_rope))]
    close(out, dense_attention(*wide, value.float(), places, mode == 3), HALVES[dtype])
    wanted = sparse_attention.npu_sparse_flash_attention(
        query, key, value, places, SCALE, query_rope=query_rope, key_rope=key_rope, sparse_mode=mode, return_softmax_lse=True)
    close(top, wanted[1], 1e-4)
    close(total, wanted[2], 1e-4)


def test_attention_with_sinks_and_without_statistics(call):
    query, key, value, places = batches(torch.float16)
    sinks, out = torch.randn(HEADS), torch.empty_like(query)
    call.named("aclnnSparseFlashAttentionV2", query=query, key=key, value=value, sparseIndices=places, sinksOptional=sinks,
               scaleValue=SCALE, sparseBlockSizeOptional=1, sparseMode=3, attentionOut=out)
    close(out, dense_attention(query.float(), key.float(), value.float(), places, True, sinks), 5e-3)


def test_attention_to_pages_and_packed_sequences(call):
    query, out = torch.randn(7, HEADS, SIZE), torch.empty(7, HEADS, SIZE)
    pages, table = torch.randn(6, 4, 1, SIZE), torch.tensor([[5, 0, 3], [2, 4, -1]], dtype=torch.int32)
    ends, lengths = torch.tensor([3, 7], dtype=torch.int32), torch.tensor([10, 6], dtype=torch.int32)
    places = torch.randint(0, 3, (7, 1, 2), dtype=torch.int32)
    places[:, 0, 1] = -1
    call.named("aclnnSparseFlashAttention", query=query, key=pages, value=pages, sparseIndices=places, blockTableOptional=table,
               actualSeqLengthsQueryOptional=ends, actualSeqLengthsKvOptional=lengths, scaleValue=SCALE, sparseBlockSizeOptional=2,
               layoutQueryOptional="TND", layoutKvOptional="PA_BSND", sparseMode=3, attentionOut=out)
    wanted = sparse_attention.npu_sparse_flash_attention(
        query, pages, pages, places, SCALE, block_table=table, actual_seq_lengths_query=ends, actual_seq_lengths_kv=lengths,
        sparse_block_size=2, layout_query="TND", layout_kv="PA_BSND")[0]
    close(out, wanted)


def test_gradients_of_attention(call):
    inputs = [t.float().requires_grad_() for t in (*batches(torch.float32)[:3], *ropes(torch.float32))]
    query, key, value, query_rope, key_rope = inputs
    places, grad = batches(torch.float32)[3], torch.randn(2, 5, HEADS, SIZE)
    out = dense_attention(torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1), value, places, True)
    out.backward(grad)
    plain = [t.detach() for t in inputs]
    found = [torch.empty_like(t) for t in plain]
    call.named("aclnnSparseFlashAttentionGrad", query=plain[0], key=plain[1], value=plain[2], sparseIndices=places, dOut=grad,
               out=out.detach(), softmaxMax=torch.empty(2, 1, 5, HEADS), softmaxSum=torch.empty(2, 1, 5, HEADS),
               queryRopeOptional=plain[3], keyRopeOptional=plain[4], scaleValue=SCALE, sparseBlockSize=1, layoutOptional="BSND",
               sparseMode=3, dQueryOut=found[0], dKeyOut=found[1], dValueOut=found[2], dQueryRopeOutOptional=found[3],
               dKeyRopeOutOptional=found[4])
    for t, g in zip(inputs, found):
        close(g, t.grad, 1e-4)


def indexer_scores(query, key, weights):
    return (torch.einsum("bsnd,btd->bsnt", query, key[:, :, 0]).relu() * weights.unsqueeze(-1)).sum(2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 3])
def test_keys_that_matter_most(call, dtype, mode):
    query, key, _, _ = batches(dtype)
    weights = torch.rand(2, 5, HEADS)
    indices, values = torch.empty(2, 5, 1, 8, dtype=torch.int32), torch.empty(2, 5, 1, 8).to(dtype)
    call.named("aclnnLightningIndexer", query=query, key=key, weights=weights, layoutQueryOptional="BSND", layoutKeyOptional="BSND",
               sparseCount=8, sparseMode=mode, returnValues=True, sparseIndicesOut=indices, sparseValuesOut=values)
    scores = indexer_scores(query.float(), key.float(), weights)
    if mode == 3:
        scores = scores.masked_fill(torch.ones(5, 9, dtype=torch.bool).triu(5), float("-inf"))
    best, order = scores.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(indices[:, :, 0].long(), torch.where(best[..., :8] == float("-inf"), -1, order[..., :8]))
    seen = best[..., :8] > float("-inf")
    close(values[:, :, 0].float()[seen], best[..., :8][seen], HALVES[dtype])


def test_keys_that_matter_most_of_int8(call):
    query, key = (torch.randint(-100, 100, (2, n, h, SIZE), dtype=torch.int8) for n, h in ((5, HEADS), (9, 1)))
    weights = torch.rand(2, 5, HEADS, dtype=torch.float16)
    query_scale, key_scale = torch.rand(2, 5, HEADS, dtype=torch.float16), torch.rand(2, 9, 1, dtype=torch.float16)
    out = torch.empty(2, 5, 1, 4, dtype=torch.int32)
    call.named("aclnnQuantLightningIndexer", query=query, key=key, weights=weights, queryDequantScale=query_scale,
               keyDequantScale=key_scale, sparseCount=4, sparseMode=3, out=out)
    scores = indexer_scores(query.float() * query_scale.unsqueeze(-1), key.float() * key_scale.unsqueeze(-1), weights.float())
    scores = scores.masked_fill(torch.ones(5, 9, dtype=torch.bool).triu(5), float("-inf"))
    assert torch.equal(out[:, :, 0].long(), scores.sort(dim=-1, descending=True, stable=True)[1][..., :4])
    with pytest.raises(RuntimeError, match="quant modes 1"):
        call.named("aclnnQuantLightningIndexer", query=query, key=key, weights=weights, queryDequantScale=query_scale,
                   keyDequantScale=key_scale, queryQuantMode=1, sparseCount=4, sparseMode=3, out=out)


def test_gradients_of_the_indexer(call):
    query, key, _, places = (t.float() for t in batches(torch.float32))
    inputs = [query.requires_grad_(), key.requires_grad_(), torch.rand(2, 5, HEADS).requires_grad_()]
    places, grad = places.int(), torch.randn(2, 5, 1, COUNT)
    chosen = indexer_scores(*inputs).gather(-1, places[:, :, 0].clamp(min=0).long())
    (chosen * grad[:, :, 0] * (places[:, :, 0] >= 0)).sum().backward()
    plain = [t.detach() for t in inputs]
    found = [torch.empty_like(t) for t in plain]
    call.named("aclnnLightningIndexerGrad", query=plain[0], key=plain[1], dy=grad, sparseIndices=places, weights=plain[2], headNum=HEADS,
               inputLayout="BSND", sparseMode=3, dqOut=found[0], dkOut=found[1], dweightsOut=found[2])
    for t, g in zip(inputs, found):
        close(g, t.grad, 1e-4)


def test_statistics_of_the_indexer(call):
    query, key, weights = torch.randn(7, HEADS, SIZE), torch.randn(12, 1, SIZE), torch.rand(7, HEADS)
    top, total = torch.empty(1, 7), torch.empty(1, 7)
    call.named("aclnnDenseLightningIndexerSoftmaxLse", queryIndex=query, keyIndex=key, weight=weights,
               actualSeqLengthsQueryOptional=[3, 7], actualSeqLengthsKeyOptional=[5, 12], layoutOptional="TND", sparseMode=3,
               softmaxMaxOut=top, softmaxSumOut=total)
    wanted = lightning_indexer.npu_dense_lightning_indexer_softmax_lse(
        query, key, weights, actual_seq_qlen=[3, 7], actual_seq_klen=[5, 12], layout="TND")
    close(top, wanted[0])
    close(total, wanted[1])


def test_what_is_refused(call):
    query, key, value, places = batches(torch.float16)
    given = {"query": query, "key": key, "value": value, "sparseIndices": places, "scaleValue": SCALE, "sparseBlockSizeOptional": 1,
             "attentionOut": torch.empty_like(query)}
    with pytest.raises(RuntimeError, match="161002.*sparseMode 4"):
        call.named("aclnnSparseFlashAttention", sparseMode=4, **given)
    with pytest.raises(RuntimeError, match="layouts BNSD"):
        call.named("aclnnSparseFlashAttention", sparseMode=3, layoutQueryOptional="BNSD", **given)
    with pytest.raises(RuntimeError, match="161002.*one head"):
        call.named("aclnnSparseFlashAttention", sparseMode=3, **{**given, "key": key.expand(2, 9, 2, SIZE).contiguous()})
    with pytest.raises(RuntimeError, match="161002.*sparseMode 1"):
        call.named("aclnnLightningIndexer", query=query, key=key, weights=torch.rand(2, 5, HEADS), sparseCount=4, sparseMode=1,
                   sparseIndicesOut=torch.empty(2, 5, 1, 4, dtype=torch.int32))


def teacher_of(query, key, places, seen):
    """The attention's distribution over the chosen keys, summed over heads; [batch, tokens, keys], and its statistics."""
    scores = torch.einsum("bsnd,btd->bsnt", query, key[:, :, 0]) * SCALE
    chosen = scores.gather(-1, places.unsqueeze(2).expand(-1, -1, HEADS, -1)).masked_fill(~seen.unsqueeze(2), float("-inf"))
    top = chosen.amax(-1)
    total = (chosen - top.unsqueeze(-1)).exp().sum(-1)
    summed = chosen.softmax(-1).sum(2)
    return summed / summed.sum(-1, keepdim=True), top, total


@pytest.mark.parametrize("name", ["aclnnSparseLightningIndexerGradKLLoss", "aclnnSparseLightningIndexerGradKLLossV2",
                                  "aclnnDenseLightningIndexerGradKLLoss"])
def test_lesson_of_the_indexer(call, name):
    query, key, _, _ = batches(torch.float32)
    inputs = [torch.randn(2, 5, HEADS, SIZE), torch.randn(2, 9, 1, SIZE), torch.rand(2, 5, HEADS)]
    for t in inputs:
        t.requires_grad_()
    dense = name.startswith("aclnnDense")
    last = torch.arange(4, 9).view(1, 5, 1)
    if dense:
        places = torch.arange(9).expand(2, 5, 9)
        seen = places <= last
    else:
        places = torch.stack([torch.randperm(5)[:4] for _ in range(10)]).view(2, 5, 4)
        seen = torch.ones(2, 5, 4, dtype=torch.bool)
    target, top, total = teacher_of(query, key, places, seen)
    scores = indexer_scores(*inputs).gather(-1, places).masked_fill(~seen, float("-inf"))
    wanted = torch.where(seen, target * (target.clamp(min=1e-30).log() - scores.log_softmax(-1)).nan_to_num(0.0), 0.0).sum()
    wanted.backward()
    plain = [t.detach() for t in inputs]
    found, loss = [torch.empty_like(t) for t in plain], torch.empty(1)
    statistics = [t.unsqueeze(1).contiguous() for t in (top, total)]  # one head of keys
    given = {"query": query, "key": key, "queryIndex": plain[0], "keyIndex": plain[1], "softmaxMax": statistics[0],
             "softmaxSum": statistics[1], "scaleValue": SCALE, "layout": "BSND", "sparseMode": 3, "dQueryIndex": found[0],
             "dKeyIndex": found[1], "loss": loss}
    if dense:
        highest = scores.detach().amax(-1)
        given |= {"weights": plain[2], "dWeights": found[2], "softmaxMaxIndex": highest.unsqueeze(1),
                  "softmaxSumIndex": (scores.detach() - highest.unsqueeze(-1)).exp().sum(-1).unsqueeze(1)}
    elif name.endswith("V2"):
        given |= {"weight": plain[2], "dWeight": found[2], "sparseIndices": places.unsqueeze(2).int()}
    else:
        given |= {"weights": plain[2], "dWeights": found[2], "sparseIndices": places.unsqueeze(2).int()}
    call.named(name, **given)
    close(loss[0], wanted.detach(), 1e-4)
    for ours, t in zip(found, inputs):
        close(ours, t.grad, 1e-4)
    with pytest.raises(RuntimeError, match="161002.*sparseMode 0"):
        call.named(name, **{**given, "sparseMode": 0})
