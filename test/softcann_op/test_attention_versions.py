"""The newer versions of attention for training: rope apart, sinks, sequences of different lengths, parts put together."""
import pytest
import torch
from nn_client import OPS, close

HEADS, KV_HEADS, SIZE, ROPE = 4, 2, 16, 8


def reference(query, key, value, scale, causal, sink=None):
    """[heads, rows, size]: softmax(query @ key.T * scale), with a score of its own for each head."""
    key, value = (t.repeat_interleave(query.shape[0] // t.shape[0], 0) for t in (key, value))
    scores = query @ key.transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), float("-inf"))
    if sink is not None:
        scores = torch.cat([scores, sink.view(-1, 1, 1).expand(-1, scores.shape[1], 1)], -1)
    return torch.softmax(scores, -1)[..., :key.shape[1]] @ value


def tensors(tokens, layout=None):
    """Queries, their rope, keys, their rope, values, as [tokens, heads, size]."""
    sizes = ((HEADS, SIZE), (HEADS, ROPE), (KV_HEADS, SIZE), (KV_HEADS, ROPE), (KV_HEADS, SIZE))
    return [torch.randn(tokens, *size, requires_grad=True) for size in sizes]


def by_head(*parts):
    return torch.cat(parts, -1).transpose(0, 1)


ROPES, SINKS = {"V3", "V5"}, {"V5"}
# Tensors for the statistics of 15 tokens, as they may lie in memory.
STATISTICS = {"in order": lambda: torch.empty(15, HEADS, 8), "transposed": lambda: torch.empty(15, 8, HEADS).mT,
              "with gaps": lambda: torch.empty(15, HEADS, 16)[..., ::2]}


@pytest.mark.parametrize("statistics", STATISTICS.values(), ids=STATISTICS)
@pytest.mark.parametrize("version", ["", "V2", "V3", "V4", "V5"])
def test_sequences_of_different_lengths(call, version, statistics):
    ends, scale = [3, 10, 15], SIZE**-0.5
    q, qr, k, kr, v = tensors(15)
    sink = torch.randn(HEADS, requires_grad=True) if version in SINKS else None
    rope = version in ROPES
    parts = []
    for start, end in zip([0] + ends[:-1], ends):
        rows = slice(start, end)
        query, key = ((by_head(q[rows], qr[rows]), by_head(k[rows], kr[rows])) if rope else (by_head(q[rows]), by_head(k[rows])))
        parts.append(reference(query, key, by_head(v[rows]), scale, True, sink).transpose(0, 1))
    expected, dy = torch.cat(parts), torch.randn(15, HEADS, SIZE)
    expected.backward(dy)
    given = dict(query=q.detach(), value=v.detach(), actualSeqQLenOptional=ends, actualSeqKvLenOptional=ends, scaleValue=scale,
                 keepProb=1.0, preTokens=2**31 - 1, nextTokens=2**31 - 1, headNum=HEADS, inputLayout="TND", sparseMode=2,
                 attenMaskOptional=torch.ones(2048, 2048, dtype=torch.uint8).triu(1))
    more = {"queryRope": qr.detach()} if rope else {}
    out, top, total = torch.empty(15, HEADS, SIZE), statistics(), statistics()
    call.named("aclnnFlashAttentionVarLenScore" + version, **given, **more, key=k.detach(), **({"keyRope": kr.detach()} if rope else {}),
               **({"sinkOptional": sink.detach()} if sink is not None else {}), softmaxMaxOut=top, softmaxSumOut=total, attentionOutOut=out)
    close(out, expected, 1e-4)
    grads = [torch.empty_like(t) for t in (q, qr, k, kr, v)]
    outs = {"dqOut": grads[0], "dkOut": grads[2], "dvOut": grads[4]}
    if rope:
        more.update(keyInRope=kr.detach())
        outs.update(dqRopeOut=grads[1], dkRopeOut=grads[3])
    if sink is not None:
        more.update(sinkInOptional=sink.detach())
        outs.update(dsinkOut=torch.empty(HEADS))
    call.named("aclnnFlashAttentionUnpaddingScoreGrad" + version, **given, **more, keyIn=k.detach(), dy=dy, softmaxMaxOptional=top,
               softmaxSumOptional=total, attentionInOptional=out, **outs)
    for name, leaf in (("dqOut", q), ("dkOut", k), ("dvOut", v), ("dqRopeOut", qr), ("dkRopeOut", kr), ("dsinkOut", sink)):
        if name in outs:
            close(outs[name], leaf.grad, 1e-4)


@pytest.mark.parametrize("statistics", STATISTICS.values(), ids=STATISTICS)
@pytest.mark.parametrize("version,layout", [("", None), ("V2", None), ("V3", None), ("V4", ""), ("V4", "same_as_input"), ("V5", ""),
                                            ("V5", "same_as_input")])
def test_statistics_of_sequences(call, version, layout, statistics):
    ends, scale = [3, 10, 15], SIZE**-0.5
    q, _, k, _, v = (t.detach() for t in tensors(15))
    top, total = statistics(), statistics()
    call.named("aclnnFlashAttentionVarLenScore" + version, query=q, key=k, value=v, actualSeqQLenOptional=ends, actualSeqKvLenOptional=ends,
               scaleValue=scale, keepProb=1.0, preTokens=2**31 - 1, nextTokens=2**31 - 1, headNum=HEADS, inputLayout="TND",
               **({} if layout is None else {"softmaxOutLayout": layout}), softmaxMaxOut=top, softmaxSumOut=total,
               attentionOutOut=torch.empty(15, HEADS, SIZE))
    sums = (top + total.log())[..., 0]
    for start, end in zip([0] + ends[:-1], ends):
        keys = k[start:end].transpose(0, 1).repeat_interleave(HEADS // KV_HEADS, 0)
        expected = (q[start:end].transpose(0, 1) @ keys.transpose(1, 2) * scale).logsumexp(-1)   # [heads, rows]
        found = sums[start:end].t() if layout == "same_as_input" else sums[start:end].reshape(HEADS, -1)
        close(found, expected)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_version_four(call, layout):
    length, scale = 6, SIZE**-0.5
    q, qr, k, kr, v = tensors(length)
    sink = torch.randn(HEADS, requires_grad=True)
    expected, dy = reference(by_head(q, qr), by_head(k, kr), by_head(v), scale, False, sink), torch.randn(length, HEADS, SIZE)
    expected.transpose(0, 1).backward(dy)

    def laid(t):
        t = t.detach()
        if layout == "BNSD":
            return t.transpose(0, 1).unsqueeze(0).contiguous()
        if layout == "SBH":
            return t.flatten(1).unsqueeze(1)
        return t.unsqueeze(0) if layout == "BSND" else t.flatten(1).unsqueeze(0)

    given = dict(query=laid(q), value=laid(v), queryRopeOptional=laid(qr), keyRopeOptional=laid(kr), scaleValue=scale, keepProb=1.0,
                 preTokens=2**31 - 1, nextTokens=2**31 - 1, headNum=HEADS, inputLayout=layout, pseType=1)
    out, top, total = torch.empty_like(laid(q)), torch.empty(1, HEADS, length, 8), torch.empty(1, HEADS, length, 8)
    call.named("aclnnFlashAttentionScoreV4", **given, key=laid(k), sinkOptional=sink.detach(), softmaxMaxOut=top, softmaxSumOut=total,
               attentionOutOut=out)
    close(out, laid(expected.transpose(0, 1)), 1e-4)
    names = ("dqOut", "dqRopeOut", "dkOut", "dkRopeOut", "dvOut")
    grads = {name: torch.empty_like(laid(t)) for name, t in zip(names, (q, qr, k, kr, v))}
    dsink = torch.empty(HEADS)
    call.named("aclnnFlashAttentionScoreGradV4", **given, keyIn=laid(k), dy=laid(dy), sinkInOptional=sink.detach(), softmaxMaxOptional=top,
               softmaxSumOptional=total, attentionInOptional=out, **grads, dsinkOut=dsink)
    for name, leaf in zip(names, (q, qr, k, kr, v)):
        close(grads[name], laid(leaf.grad), 1e-4)
    close(dsink, sink.grad, 1e-4)


@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_parts_of_the_keys_put_together(call, layout):
    rows, scale = 5, SIZE**-0.5
    q, k, v = torch.randn(HEADS, rows, SIZE), torch.randn(HEADS, 12, SIZE), torch.randn(HEADS, 12, SIZE)

    def part(keys):
        scores = q @ k[:, keys].transpose(1, 2) * scale
        top = scores.amax(-1, keepdim=True)
        total = (scores - top).exp().sum(-1, keepdim=True)
        out = ((scores - top).exp() / total @ v[:, keys]).transpose(0, 1)
        stats = [t.expand(HEADS, rows, 8) for t in (top, total)]
        if layout == "SBH":
            return [out.reshape(rows, 1, -1), *(t.unsqueeze(0).contiguous() for t in stats)]
        return [out.contiguous(), *(t.transpose(0, 1).contiguous() for t in stats)]

    first, second, whole = part(slice(0, 5)), part(slice(5, 12)), part(slice(0, 12))
    outs = [torch.empty_like(t) for t in whole]
    call.named("aclnnRingAttentionUpdateV2", prevAttnOut=first[0], prevSoftmaxMax=first[1], prevSoftmaxSum=first[2], curAttnOut=second[0],
               curSoftmaxMax=second[1], curSoftmaxSum=second[2], inputLayoutOptional=layout, inputSoftmaxLayoutOptional=layout, attnOutOut=outs[0], softmaxMaxOut=outs[1],
               softmaxSumOut=outs[2])
    for actual, expected in zip(outs, whole):
        close(actual, expected)
    if layout == "SBH":
        call.named("aclnnRingAttentionUpdate", prevAttnOut=first[0], prevSoftmaxMax=first[1], prevSoftmaxSum=first[2], curAttnOut=second[0],
                   curSoftmaxMax=second[1], curSoftmaxSum=second[2], inputLayoutOptional=layout, attnOutOut=outs[0].zero_(),
                   softmaxMaxOut=outs[1].zero_(), softmaxSumOut=outs[2].zero_())
        for actual, expected in zip(outs, whole):
            close(actual, expected)


def test_rotation_by_a_matrix(call):
    x, cos, sin, turn = torch.randn(2, 3, 4, 8), torch.randn(1, 3, 1, 8), torch.randn(1, 3, 1, 8), torch.randn(8, 8)
    out = torch.empty_like(x)
    call.named("aclnnRotaryPositionEmbeddingV2", x=x, cos=cos, sin=sin, rotate=turn, out=out)
    close(out, x * cos + x @ turn * sin)
    call.named("aclnnRotaryPositionEmbeddingV2", x=x, cos=cos, sin=sin, mode=1, out=out)
    pairs = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    close(out, x * cos + pairs * sin)


def test_rotation_out_of_a_cache_in_its_second_version(call):
    positions, query, key, table = torch.tensor([3, 0, 5]), torch.randn(3, 32), torch.randn(3, 16), torch.randn(6, 16)
    first, second = ([torch.empty_like(query), torch.empty_like(key)] for _ in range(2))
    for name, outs in (("aclnnRopeWithSinCosCache", first), ("aclnnRopeWithSinCosCacheV2", second)):
        call.named(name, positions=positions, queryIn=query, keyIn=key, cosSinCache=table, headSize=16, isNeoxStyle=True, queryOut=outs[0],
                   keyOut=outs[1])
    cos, sin = table[positions].chunk(2, -1)
    heads = key.view(3, 1, 16)
    a, b = heads.chunk(2, -1)
    expected = torch.cat([a * cos.unsqueeze(1) - b * sin.unsqueeze(1), b * cos.unsqueeze(1) + a * sin.unsqueeze(1)], -1)
    close(second[1], expected.view(3, 16))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


@pytest.mark.parametrize("version", ["V2", "V3"])
def test_early_versions_of_one_new_token(call, version):
    """Grouped heads, sequences of their own lengths; a quantized result is refused."""
    query, key, value = torch.randn(2, 4, 1, 8).half(), torch.randn(2, 2, 6, 8).half(), torch.randn(2, 2, 6, 8).half()
    out, arguments = torch.empty(2, 4, 1, 8).half(), dict(numHeads=4, scaleValue=0.3, inputLayout="BNSD", numKeyValueHeads=2)
    call.named("aclnnIncreFlashAttention" + version, query=query, key=[key], value=[value], actualSeqLengths=[3, 6], attentionOut=out,
               **arguments)
    for i, length in enumerate((3, 6)):
        k, v = (t[i, :, :length].float().repeat_interleave(2, 0) for t in (key, value))
        torch.testing.assert_close(out[i].float(), (query[i].float() @ k.mT * 0.3).softmax(-1) @ v, rtol=5e-3, atol=5e-3)
    with pytest.raises(RuntimeError, match="quantization"):
        call.named("aclnnIncreFlashAttention" + version, query=query, key=[key], value=[value], quantScale2=torch.ones(1),
                   attentionOut=out, **arguments)


@pytest.mark.parametrize("version, phase1", [(1, "GetWorkspaceSize"), (3, "GetWorkspaceSize"), (4, "GetWorkspaceSize"),
                                             *((version, "GetMaxWorkspaceSize") for version in (2, 3, 4, 5))])
def test_fused_infer_attention(call, version, phase1):
    q, k, v = (torch.randn(2, 4, 6, 16) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(2, 4, 6, 1)
    name = "aclnnFusedInferAttentionScore" + (f"V{version}" if version > 1 else "")
    values = {"query": q, "key": [k], "value": [v], "numHeads": 4, "scaleValue": 0.25, "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1,
              "inputLayout": "BNSD", "softmaxLseFlag": True, "attentionOut": out, "softmaxLse": lse}
    others = {"T": None, "T!": None, "int[]": None, "i64": 0}
    call(name, *[values.get(p.name, others.get(p.kind)) for p in OPS[name].params], phase1=phase1)
    scores = q @ k.transpose(2, 3) * 0.25
    close(out, scores.softmax(3) @ v)
    close(lse, scores.logsumexp(3, keepdim=True))
    values.update(softmaxLseFlag=False, softmaxLse=None, attentionOut=torch.empty_like(q))   # nor a place for it
    call(name, *[values.get(p.name, others.get(p.kind)) for p in OPS[name].params], phase1=phase1)
    close(values["attentionOut"], scores.softmax(3) @ v)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_whole_batches(call, version):
    """Keys that two heads of queries share, causal; the third version with a score of its own for each head."""
    sink = torch.randn(HEADS, requires_grad=True) if version == "V3" else None
    q, k, v = (torch.randn(2, heads, 6, SIZE, requires_grad=True) for heads in (HEADS, KV_HEADS, KV_HEADS))
    expected, dy = torch.stack([reference(*parts, 0.25, True, sink) for parts in zip(q, k, v)]), torch.randn(2, HEADS, 6, SIZE)
    expected.backward(dy)
    given = dict(query=q.detach(), value=v.detach(), attenMaskOptional=torch.ones(6, 6, dtype=torch.bool).triu(1), scaleValue=0.25,
                 keepProb=1.0, preTokens=2**31 - 1, nextTokens=0, headNum=HEADS, inputLayout="BNSD")
    out, top, total = torch.empty(2, HEADS, 6, SIZE), torch.empty(2, HEADS, 6, 8), torch.empty(2, HEADS, 6, 8)
    call.named("aclnnFlashAttentionScore" + version, **given, key=k.detach(), softmaxMaxOut=top, softmaxSumOut=total, attentionOutOut=out,
               **({} if sink is None else {"sinkOptional": sink.detach()}))
    close(out, expected, 1e-4)
    grads = {"dqOut": torch.empty_like(q), "dkOut": torch.empty_like(k), "dvOut": torch.empty_like(v)}
    if sink is not None:
        grads["dsinkOut"] = torch.empty(HEADS)
    call.named("aclnnFlashAttentionScoreGrad" + version, **given, keyIn=k.detach(), dy=dy, softmaxMaxOptional=top, softmaxSumOptional=total,
               attentionInOptional=out, **({} if sink is None else {"sinkInOptional": sink.detach()}), **grads)
    for made, leaf in zip(grads.values(), (q, k, v, sink)):
        close(made, leaf.grad, 1e-4)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_prompts(call, version):
    q, k, v = (torch.randn(2, heads, 6, SIZE).half() for heads in (HEADS, KV_HEADS, KV_HEADS))
    out = torch.empty_like(q)
    call.named("aclnnPromptFlashAttention" + version, query=q, key=k, value=v, attenMask=torch.ones(6, 6, dtype=torch.bool).triu(1),
               actualSeqLengths=[6, 4], numHeads=HEADS, scaleValue=0.25, preTokens=2**31 - 1, nextTokens=0, inputLayout="BNSD",
               numKeyValueHeads=KV_HEADS, attentionOut=out)
    for i, length in enumerate((6, 4)):
        expected = reference(q[i].float(), k[i].float(), v[i].float(), 0.25, True)
        close(out[i, :, :length], expected[:, :length].half(), 5e-3)


@pytest.mark.parametrize("version", ["", "V2"])
def test_rotary_embedding_of_halves(call, version):
    q, k = torch.randn(2, 3, HEADS, 128), torch.randn(2, 3, KV_HEADS, 128)
    angles = torch.rand(2, 3, 1, 64).repeat(1, 1, 1, 2)
    cos, sin = angles.cos(), angles.sin()

    def turned(x):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin
    expected = turned(q), turned(k)
    call.named("aclnnApplyRotaryPosEmb" + version, queryRef=q, keyRef=k, cos=cos, sin=sin, layout=1,
               **({"rotaryMode": "half"} if version else {}))
    close(q, expected[0])
    close(k, expected[1])


def statistics_of(shape):
    return dict(softmaxMaxOut=torch.empty(shape), softmaxSumOut=torch.empty(shape))


@pytest.mark.parametrize("shape", [(1,), (1, 1, 1, 1), (2, 2, 5, 7), (2, 2, 4, 8), (2, 4, 5, 8), (0,)])
def test_results_of_other_sizes_are_refused(call, shape):
    """The kernels write rows of what they were given."""
    q = torch.randn(2, 2, 5, 8)
    given = dict(query=q, value=q, scaleValue=1.0, keepProb=1.0, preTokens=2**31 - 1, nextTokens=2**31 - 1, headNum=2, inputLayout="BNSD")
    scored = dict(key=q, **statistics_of((2, 2, 5, 8)))
    call.named("aclnnFlashAttentionScore", **given, **scored, attentionOutOut=(out := torch.empty(2, 2, 5, 8)))
    with pytest.raises(RuntimeError, match="161002"):
        call.named("aclnnFlashAttentionScore", **given, **scored, attentionOutOut=torch.empty(shape))
    found = dict(keyIn=q, softmaxMaxOptional=scored["softmaxMaxOut"], softmaxSumOptional=scored["softmaxSumOut"])
    fitting = dict(dy=q, attentionInOptional=out, dqOut=torch.empty(2, 2, 5, 8), dkOut=torch.empty(2, 2, 5, 8), dvOut=torch.empty(2, 2, 5, 8))
    call.named("aclnnFlashAttentionScoreGrad", **given, **found, **fitting)
    for name in fitting:
        with pytest.raises(RuntimeError, match="161002"):
            call.named("aclnnFlashAttentionScoreGrad", **given, **found, **{**fitting, name: torch.empty(shape)})


@pytest.mark.parametrize("shape", [(15, HEADS, SIZE - 1), (14, HEADS, SIZE), (15, HEADS - 1, SIZE)])
def test_results_of_sequences_of_other_sizes_are_refused(call, shape):
    q = torch.randn(15, HEADS, SIZE)
    with pytest.raises(RuntimeError, match="161002"):
        call.named("aclnnFlashAttentionVarLenScore", query=q, key=q, value=q, actualSeqQLenOptional=[5, 15], actualSeqKvLenOptional=[5, 15],
                   scaleValue=1.0, keepProb=1.0, preTokens=2**31 - 1, nextTokens=2**31 - 1, headNum=HEADS, inputLayout="TND",
                   **statistics_of((15, HEADS, 8)), attentionOutOut=torch.empty(shape))
