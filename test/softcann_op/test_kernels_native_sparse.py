"""Native sparse attention, attention to blocks and from pairs, attention of quantised tensors at the C interface, against plain
formulas in torch."""
import pytest
import torch
from nn_client import HALVES, close

HEADS, KV, SIZE, WIDTH, SCALE = 4, 2, 8, 6, 0.4
ENDS = [9, 21]


def windows(x, ends, block, stride):
    """[windows of all sequences, block, heads, size]"""
    found = []
    for start, end in zip([0, *ends], ends):
        found += [x[i : i + block] for i in range(start, end - block + 1, stride)]
    return torch.stack(found)


@pytest.mark.parametrize("dtype", list(HALVES))
def test_compression_of_windows(call, dtype):
    x, weight, ends = torch.randn(24, 3, SIZE).to(dtype), torch.randn(4, 3).to(dtype), [9, 12, 24]
    wanted = (windows(x.float(), ends, 4, 2) * weight.float().unsqueeze(-1)).sum(1)
    out = torch.empty_like(wanted, dtype=dtype)
    call.named("aclnnNsaCompress", input=x, weight=weight, actSeqLenOptional=ends, layoutOptional="TND", compressBlockSize=4,
               compressStride=2, output=out)
    close(out, wanted, HALVES[dtype])
    lengths = torch.empty_like(out)
    call.named("aclnnNsaCompress", input=x, weight=weight, actSeqLenOptional=[9, 3, 12], layoutOptional="TND", compressBlockSize=4,
               compressStride=2, actSeqLenType=1, output=lengths)
    assert torch.equal(lengths, out)


def test_gradients_of_compression(call):
    x, weight = torch.randn(24, 3, SIZE, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    out = (windows(x, [9, 12, 24], 4, 2) * weight.unsqueeze(-1)).sum(1)
    grad = torch.randn_like(out)
    out.backward(grad)
    dx, dweight = torch.empty(24, 3, SIZE), torch.empty(4, 3)
    call.named("aclnnNsaCompressGrad", outputGrad=grad, input=x.detach(), weight=weight.detach(), actSeqLenOptionalOptional=[9, 12, 24],
               compressBlockSize=4, compressStride=2, layoutOptionalOptional="TND", inputGradOut=dx, weightGradOut=dweight)
    close(dx, x.grad, 1e-5)
    close(dweight, weight.grad, 1e-4)


def test_newest_window_into_a_cache(call):
    pages, weight, cache = torch.randn(6, 4, 3, SIZE), torch.randn(4, 3), torch.zeros(7, 3, SIZE)
    table = torch.tensor([[5, 0, 3], [2, 4, 1]], dtype=torch.int32)
    call.named("aclnnNsaCompressWithCache", input=pages, weight=weight, slotMapping=torch.tensor([5, 2], dtype=torch.int32),
               actSeqLenOptional=[10, 7], blockTableOptional=table, layoutOptional="TND", compressBlockSize=4, compressStride=2,
               actSeqLenType=1, pageBlockSize=4, outputCache=cache)
    first = pages[table[0].long()].flatten(0, 1)[6:10]
    wanted = torch.zeros_like(cache)
    wanted[5] = (first * weight.unsqueeze(-1)).sum(0)  # 7 - 4 is no multiple of the stride: nothing of the second
    close(cache, wanted)


def attention(query, key, value, hidden=None, scale=SCALE):
    """[heads, rows, size] with repeated keys; (out, weights)."""
    groups = query.shape[0] // key.shape[0]
    scores = query @ key.repeat_interleave(groups, 0).transpose(1, 2) * scale
    weights = torch.softmax(scores if hidden is None else scores.masked_fill(hidden, float("-inf")), -1).nan_to_num(0.0)
    return weights @ value.repeat_interleave(groups, 0), weights


def packed(*tensors):
    return [t.transpose(0, 1) for t in tensors]


@pytest.mark.parametrize("strided", [False, True])
def test_attention_to_windows_and_the_blocks_that_matter(call, strided):
    query, key, value = torch.randn(21, HEADS, SIZE), torch.randn(13, KV, SIZE), torch.randn(13, KV, WIDTH)
    mask = torch.arange(8) > torch.arange(12).unsqueeze(1)
    own = torch.arange(4) == torch.arange(12).unsqueeze(1) // 3
    out, places = torch.empty(21, HEADS, WIDTH), torch.empty(21, KV, 3, dtype=torch.int32)
    top, total = (torch.empty(21, 8, HEADS).mT if strided else torch.empty(21, HEADS, 8) for _ in range(2))
    call.named("aclnnNsaCompressAttention", query=query, key=key, value=value, attenMaskOptional=mask, topkMaskOptional=own,
               actualSeqQLenOptional=ENDS, actualCmpSeqKvLenOptional=[5, 13], actualSelSeqKvLenOptional=[3, 7], scaleValue=SCALE,
               headNum=HEADS, inputLayout="TND", sparseMode=1, compressBlockSize=4, compressStride=2, selectBlockSize=4,
               selectBlockCount=3, softmaxMaxOut=top, softmaxSumOut=total, attentionOutOut=out, topkIndicesOut=places)
    for (q, q_end), (k, k_end), blocks in (((0, 9), (0, 5), 3), ((9, 21), (5, 13), 4)):
        rows, count = q_end - q, k_end - k
        wanted, weights = attention(*packed(query[q:q_end], key[k:k_end], value[k:k_end]), mask[:rows, :count])
        close(out[q:q_end], wanted.transpose(0, 1), 1e-5)
        importance = torch.zeros(KV, rows, blocks)
        for window in range(count):  # of 2 strides, as a block: they share 2, 1 or none
            for block in range(blocks):
                shared = max(0, min(window + 2, 2 * block + 2) - max(window, 2 * block))
                importance[..., block] += shared * weights.view(KV, 2, rows, count)[..., window].sum(1)
        importance = importance.masked_fill(own[:rows, :blocks], float("inf"))
        best = importance.sort(dim=-1, descending=True, stable=True)[1][..., :3]
        assert torch.equal(places[q:q_end].long(), best.transpose(0, 1))
        scores = packed(query[q:q_end])[0] @ packed(key[k:k_end])[0].repeat_interleave(2, 0).transpose(1, 2) * SCALE
        sums = scores.masked_fill(mask[:rows, :count], float("-inf")).logsumexp(-1)
        close((top + total.log())[q:q_end, :, 0].reshape(HEADS, rows), sums, 1e-4)  # as aclnnFlashAttentionVarLenScore's


def hidden_of(places, block, keys, groups):
    seen = torch.zeros(places.shape[1], places.shape[0], keys, dtype=torch.bool)
    for row, of_row in enumerate(places.tolist()):
        for head, blocks in enumerate(of_row):
            for b in blocks:
                if b >= 0:
                    seen[head, row, b * block : (b + 1) * block] = True
    return ~seen.repeat_interleave(groups, 0)


def chosen_blocks(rows):
    places = torch.stack([torch.randperm(3)[:2] for _ in range(rows * KV)]).view(rows, KV, 2).int()
    places[::3, :, 1] = -1
    return places


@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_chosen_blocks_and_its_gradients(call, causal):
    query, key, value = (torch.randn(21, h, s, requires_grad=True) for h, s in ((HEADS, SIZE), (KV, SIZE), (KV, WIDTH)))
    places, grad, outs = chosen_blocks(21), torch.randn(21, HEADS, WIDTH), []
    for start, end in ((0, 9), (9, 21)):
        hidden = hidden_of(places[start:end], 4, end - start, 2)
        if causal:
            hidden = hidden | torch.ones(end - start, end - start, dtype=torch.bool).triu(1)
        outs.append(attention(*packed(query[start:end], key[start:end], value[start:end]), hidden)[0].transpose(0, 1))
    wanted = torch.cat(outs)
    wanted.backward(grad)
    plain, out = [t.detach() for t in (query, key, value)], torch.empty(21, HEADS, WIDTH)
    top, total = torch.empty(21, HEADS, 8), torch.empty(21, HEADS, 8)
    given = {"query": plain[0], "key": plain[1], "value": plain[2], "topkIndices": places, "actualSeqQLenOptional": ENDS,
             "actualSeqKvLenOptional": ENDS, "scaleValue": SCALE, "headNum": HEADS, "inputLayout": "TND", "sparseMode": 2,
             "selectedBlockSize": 4, "selectedBlockCount": 2,
             "attenMaskOptional": torch.ones(2048, 2048, dtype=torch.bool).triu(1) if causal else None}
    call.named("aclnnNsaSelectedAttention", softmaxMaxOut=top, softmaxSumOut=total, attentionOut=out, **given)
    close(out, wanted.detach(), 1e-5)
    found = [torch.empty_like(t) for t in plain]
    call.named("aclnnNsaSelectedAttentionGrad", attentionOut=out, attentionOutGrad=grad, softmaxMax=top, softmaxSum=total,
               dqOut=found[0], dkOut=found[1], dvOut=found[2], **given)
    for ours, t in zip(found, (query, key, value)):
        close(ours, t.grad.nan_to_num(0.0), 1e-4)
    with pytest.raises(RuntimeError, match="161002.*layout BSND"):
        call.named("aclnnNsaSelectedAttention", softmaxMaxOut=top, softmaxSumOut=total, attentionOut=out, **{**given, "inputLayout": "BSND"})


def test_inference_with_pages(call):
    table, lengths = torch.tensor([[5, 0, 3], [2, 4, 1]], dtype=torch.int32), [9, 4]
    query, key, value = torch.randn(2, HEADS, SIZE), torch.randn(6, 4, KV * SIZE), torch.randn(6, 4, KV * WIDTH)
    out, places = torch.empty(2, HEADS, WIDTH), torch.empty(2, KV, 3, dtype=torch.int32)
    given = {"query": query, "key": key, "value": value, "blockTableOptional": table, "numHeads": HEADS, "numKeyValueHeads": KV,
             "selectBlockSize": 4, "layoutOptional": "TND", "pageBlockSize": 4, "scaleValue": SCALE, "output": out}
    call.named("aclnnNsaCompressAttentionInfer", actualCmpKvSeqLenOptional=lengths, compressBlockSize=4, compressBlockStride=2,
               selectBlockCount=3, topKOutput=places, **given)
    for b, length in enumerate(lengths):
        k, v = (t[table[b].long()].flatten(0, 1)[:length].view(length, KV, -1) for t in (key, value))
        wanted, weights = attention(*packed(query[b : b + 1], k, v))
        close(out[b : b + 1], wanted.transpose(0, 1), 1e-5)
        blocks = -(-length // 2)
        shared = torch.tensor([[max(0, min(w + 2, 2 * n + 2) - max(w, 2 * n)) for n in range(blocks)] for w in range(length)])
        order = (weights.view(KV, 2, length).sum(1) @ shared.float()).sort(dim=-1, descending=True, stable=True)[1]
        assert torch.equal(places[b, :, : min(3, blocks)].long(), order[:, :3])
        assert places[b, :, blocks:].eq(-1).all()
    chosen = torch.tensor([[[1, 0], [0, 2]], [[0, -1], [0, -1]]], dtype=torch.int32)
    call.named("aclnnNsaSelectedAttentionInfer", topkIndices=chosen, actualKvSeqLenOptional=lengths, selectBlockCount=2, **given)
    for b, length in enumerate(lengths):
        k, v = (t[table[b].long()].flatten(0, 1)[:length].view(length, KV, -1) for t in (key, value))
        hidden = hidden_of(chosen[b : b + 1], 4, length, 2)
        close(out[b : b + 1], attention(*packed(query[b : b + 1], k, v), hidden)[0].transpose(0, 1), 1e-5)


@pytest.mark.parametrize("layout", ["TND", "BNSD"])
def test_attention_to_the_blocks_of_a_mask(call, layout):
    lengths, key_lengths = [5, 3], [7, 6]
    mask = (torch.rand(2, HEADS, 3, 3) > 0.4).to(torch.int8)
    mask[..., 0] = 1
    if layout == "TND":
        shapes = ((8, HEADS, SIZE), (13, KV, SIZE), (13, KV, WIDTH))
    else:
        shapes = ((2, HEADS, 6, SIZE), (2, KV, 8, SIZE), (2, KV, 8, WIDTH))
    query, key, value = (torch.randn(*shape, requires_grad=True) for shape in shapes)
    wanted, sums = torch.zeros(*shapes[0][:-1], WIDTH), torch.zeros(*shapes[0][:-1], 1)
    row = key_row = 0
    for b, (n, m) in enumerate(zip(lengths, key_lengths)):
        if layout == "TND":
            parts = packed(query[row : row + n], key[key_row : key_row + m], value[key_row : key_row + m])
            targets = packed(wanted[row : row + n], sums[row : row + n])
        else:
            parts = [query[b, :, :n], key[b, :, :m], value[b, :, :m]]
            targets = [wanted[b, :, :n], sums[b, :, :n]]
        hidden = mask[b].eq(0).repeat_interleave(2, 1).repeat_interleave(3, 2)[:, :n, :m]
        targets[0] += attention(*parts, hidden)[0]
        scores = parts[0] @ parts[1].repeat_interleave(2, 0).transpose(1, 2) * SCALE
        targets[1] += scores.masked_fill(hidden, float("-inf")).logsumexp(-1, keepdim=True).detach()
        row, key_row = row + n, key_row + m
    grad = torch.randn_like(wanted)
    wanted.backward(grad)
    plain, out, lse = [t.detach() for t in (query, key, value)], torch.empty_like(grad), torch.empty_like(sums)
    given = {"query": plain[0], "key": plain[1], "value": plain[2], "blockSparseMaskOptional": mask, "blockShapeOptional": [2, 3],
             "actualSeqLengthsOptional": lengths, "actualSeqLengthsKvOptional": key_lengths, "qInputLayout": layout,
             "kvInputLayout": layout, "numKeyValueHeads": KV, "scaleValue": SCALE}
    call.named("aclnnBlockSparseAttention", softmaxLseFlag=1, attentionOut=out, softmaxLseOptional=lse, **given)
    close(out, wanted.detach(), 1e-5)
    close(lse, sums, 1e-5)
    found = [torch.empty_like(t) for t in plain]
    call.named("aclnnBlockSparseAttentionGrad", dout=grad, attentionOut=out, softmaxLse=lse, dq=found[0], dk=found[1], dv=found[2], **given)
    for ours, t in zip(found, (query, key, value)):
        close(ours, t.grad, 1e-4)
    with pytest.raises(RuntimeError, match="161002.*layouts BSND"):
        call.named("aclnnBlockSparseAttention", attentionOut=out, **{**given, "qInputLayout": "BSND"})


def test_attention_from_pairs(call):
    shapes = ((1, 2, 3, 4, 6), (1, 2, 3, 5, 6), (1, 2, 3, 5, 6), (1, 2, 5, 4, 6), (1, 2, 5, 4, 6))
    inputs = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    query, key1, value1, key2, value2 = inputs
    mask = torch.arange(15).view(1, 1, 3, 1, 5) % 4 == 0
    scores = (query.unsqueeze(4) * (key1.unsqueeze(3) + key2.transpose(2, 3).unsqueeze(2))).sum(-1) * 0.5
    scores = scores.masked_fill(mask, float("-inf"))
    wanted = (scores.softmax(-1).unsqueeze(-1) * (value1.unsqueeze(3) + value2.transpose(2, 3).unsqueeze(2))).sum(4)
    grad = torch.randn_like(wanted)
    wanted.backward(grad)
    plain = [t.detach() for t in inputs]
    out, top, total = torch.empty(shapes[0]), torch.empty(1, 2, 3, 4, 8), torch.empty(1, 2, 3, 4, 8)
    named = dict(zip(("query", "key1", "value1", "key2", "value2"), plain))
    call.named("aclnnFusedFloydAttention", attenMaskOptional=mask, scaleValueOptional=0.5, softmaxMaxOut=top, softmaxSumOut=total,
               attentionOutOut=out, **named)
    close(out, wanted.detach())
    close((top + total.log())[..., 3], scores.detach().logsumexp(-1))
    found = [torch.empty_like(t) for t in plain]
    call.named("aclnnFusedFloydAttentionGrad", dy=grad, attenMaskOptional=mask, softmaxMax=top, softmaxSum=total, attentionIn=out,
               scaleValue=0.5, **dict(zip(("dqOut", "dk1Out", "dv1Out", "dk2Out", "dv2Out"), found)), **named)
    for ours, t in zip(found, inputs):
        close(ours, t.grad, 1e-5)


def test_attention_to_a_quantised_latent_cache(call):
    latent = torch.randint(-127, 128, (2, 9, 1, 16), dtype=torch.int8)
    rope, scales = torch.randn(2, 9, 1, 4).bfloat16(), torch.rand(2, 9, 1, 2) + 0.1
    cache = torch.cat([latent, rope.view(torch.int8), scales.view(torch.int8)], -1)
    query = torch.randn(2, 5, HEADS, 20).half()
    places = torch.stack([torch.randperm(9)[:4] for _ in range(10)]).view(2, 5, 1, 4).int()
    places[..., 3] = -1
    out = torch.empty(2, 5, HEADS, 16).half()
    given = {"query": query, "key": cache, "value": cache, "sparseIndices": places, "scaleValue": 0.05, "keyQuantMode": 2,
             "valueQuantMode": 2, "sparseBlockSizeOptional": 1, "layoutQueryOptional": "BSND", "layoutKvOptional": "BSND",
             "attentionModeOptional": 2, "quantScaleRepoModeOptional": 1, "tileSizeOptional": 8, "ropeHeadDimOptional": 4,
             "attentionOutOut": out}
    call.named("aclnnKvQuantSparseFlashAttention", **given)
    values = latent.float() * scales.repeat_interleave(8, -1)
    keys = torch.cat([values, rope.float()], -1)
    for b in range(2):
        hidden = torch.ones(5, 9, dtype=torch.bool)
        for row in range(5):
            hidden[row, places[b, row, 0, :3].long()] = False
        wanted = attention(*packed(query[b].float(), keys[b], values[b]), hidden, 0.05)[0]
        close(out[b], wanted.transpose(0, 1), 2e-2)
    with pytest.raises(RuntimeError, match="161002.*quant modes 2"):
        call.named("aclnnKvQuantSparseFlashAttention", **{**given, "keyQuantMode": 0})


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_attention_of_float8(call, layout):
    tokens, keys = 130, 260
    query, dy = ((torch.randn(1, HEADS, tokens, s) * 2).to(torch.float8_e4m3fn) for s in (SIZE, SIZE))
    key, value = ((torch.randn(1, KV, keys, SIZE) * 2).to(torch.float8_e4m3fn) for _ in range(2))
    scales = [torch.rand(1, h, n, 1) / 4 + 0.1 for h, n in ((HEADS, 2), (KV, 2), (KV, 1), (HEADS, 2))]
    p_scale = torch.tensor([128.0])
    spread = zip((query, key, value, dy), scales, (128, 256, 512, 128))
    wide = [t.float() * s.repeat_interleave(n, 2)[:, :, : t.shape[2]] for t, s, n in spread]
    inputs = [t[0].requires_grad_() for t in wide[:3]]
    out, weights = attention(*inputs)
    stored = (weights.detach() * 128).clamp(max=448).to(torch.float8_e4m3fn).float() / 128
    wanted = (weights + (stored - weights.detach())) @ inputs[2].repeat_interleave(2, 0)
    wanted.backward(wide[3][0])

    def as_given(t):
        return t if layout == "BNSD" else t.transpose(1, 2).contiguous()

    named = {"query": as_given(query), "value": as_given(value), "dScaleQ": scales[0], "dScaleK": scales[1], "dScaleV": scales[2],
             "pScale": p_scale, "scaleValue": SCALE, "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1, "headNum": HEADS,
             "inputLayout": layout}
    found, top, total = torch.empty_like(as_given(query), dtype=torch.bfloat16), *(torch.empty(1, HEADS, tokens, 1) for _ in range(2))
    call.named("aclnnQuantFlashAttentionScore", key=as_given(key), softmaxMaxOut=top, softmaxSumOut=total,
               softmaxOutout=torch.empty(0, dtype=torch.bfloat16), attentionOutOut=found, **named)
    close(found, as_given(wanted.detach()[None]), 3e-2)
    scores = inputs[0].detach() @ inputs[1].detach().repeat_interleave(2, 0).transpose(1, 2) * SCALE
    close((top + total.log())[0, ..., 0], scores.logsumexp(-1), 1e-4)
    grads = [torch.empty_like(as_given(t), dtype=torch.float32) for t in (query, key, value)]
    call.named("aclnnQuantFlashAttentionScoreGrad", keyIn=as_given(key), dy=as_given(dy), dScaleDy=scales[3], softmaxMax=top,
               softmaxSum=total, attentionIn=found, dqOut=grads[0], dkOut=grads[1], dvOut=grads[2], **named)
    for ours, t in zip(grads, inputs):
        close(ours, as_given(t.grad[None]), 1e-3)
    with pytest.raises(RuntimeError, match="161002.*layout BSH"):
        call.named("aclnnQuantFlashAttentionScore", key=as_given(key), softmaxMaxOut=top, softmaxSumOut=total,
                   softmaxOutout=torch.empty(0, dtype=torch.bfloat16), attentionOutOut=found, **{**named, "inputLayout": "BSH"})
