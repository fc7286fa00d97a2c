"""Mixtures of experts at the C interface: routing, results added up, maps of tokens and experts, and grouped products."""
import pytest
import torch
import torch.nn.functional as F
from nn_client import close, packed

from torch_npu._cpu_ops import moe, quant_experts, routing_map

TOKENS, K, EXPERTS, SIZE = 6, 2, 4, 8


def routed():
    return torch.stack([torch.randperm(EXPERTS)[:K] for _ in range(TOKENS)]).int()


def empty(*shapes):
    return [torch.full(shape, -7).to(dtype) for shape, dtype in shapes]


def test_routing_without_capacity(call):
    x, experts = torch.randn(TOKENS, SIZE), routed()
    rows, places, counts = empty(((TOKENS * K, SIZE), torch.float32), ((TOKENS * K,), torch.int32), ((EXPERTS,), torch.int32))
    order = experts.view(-1).argsort(stable=True)
    for flag, expected in ((1, experts.view(-1).bincount(minlength=EXPERTS).cumsum(0)), (2, experts.view(-1).bincount(minlength=EXPERTS))):
        call.named("aclnnMoeInitRoutingV2", x=x, expertIdx=experts, expertNumOptional=EXPERTS, expertTokensCountOrCumsumFlagOptional=flag,
                   expandedXOut=rows, expandedRowIdxOut=places, expertTokensCountOrCumsumOutOptional=counts)
        assert torch.equal(rows, x[order // K])
        assert torch.equal(rows[places.long()], x.repeat_interleave(K, 0))
        assert torch.equal(counts.long(), expected)


def test_routing_with_capacity(call):
    x, experts, capacity = torch.randn(TOKENS, SIZE), routed(), 2
    rows, places, counts = empty(((EXPERTS, capacity, SIZE), torch.float32), ((TOKENS * K,), torch.int32), ((EXPERTS,), torch.int32))
    call.named("aclnnMoeInitRoutingV2", x=x, expertIdx=experts, expertCapacityOptional=capacity, expertNumOptional=EXPERTS,
               dropPadModeOptional=1, expertTokensBeforeCapacityFlagOptional=True, expandedXOut=rows, expandedRowIdxOut=places,
               expertTokensBeforeCapacityOutOptional=counts)
    expected, taken, where = torch.zeros_like(rows), [0] * EXPERTS, []
    for copy, expert in enumerate(experts.view(-1).tolist()):
        if taken[expert] < capacity:
            expected[expert, taken[expert]] = x[copy // K]
        where.append(expert * capacity + taken[expert] if taken[expert] < capacity else -1)
        taken[expert] += 1
    assert torch.equal(rows, expected) and places.tolist() == where and counts.tolist() == taken


@pytest.mark.parametrize("mode", [0, 1])
def test_routing_with_quantization(call, mode):
    x, experts = torch.randn(TOKENS, SIZE), routed()
    scale = torch.tensor([30.0]) if mode == 0 else torch.rand(EXPERTS, SIZE) + 0.5
    offset = torch.tensor([2.0]) if mode == 0 else None
    rows, places, counts, scales = empty(((TOKENS * K, SIZE), torch.int8), ((TOKENS * K,), torch.int32), ((EXPERTS,), torch.int32),
                                         ((TOKENS * K,), torch.float32))
    call.named("aclnnMoeInitRoutingQuantV2", x=x, expertIdx=experts, scaleOptional=scale, offsetOptional=offset, expertNum=EXPERTS,
               expertTokensCountOrCumsumFlag=1, quantMode=mode, expandedXOut=rows, expandedRowIdxOut=places,
               expertTokensCountOrCumsumOutOptional=counts, dynamicQuantScaleOutOptional=scales)
    wanted = quant_experts.npu_moe_init_routing_quant(x, experts, scale=scale, offset=offset, active_num=0, expert_num=EXPERTS,
                                                  expert_tokens_num_mode=1, quant_mode=mode)
    assert (rows.int() - wanted[0].int()).abs().max() <= 1
    assert torch.equal(places, wanted[1]) and torch.equal(counts, wanted[2])
    if mode == 1:
        close(scales, wanted[4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_added_up(call, dtype):
    rows, skip1, skip2, bias, scales = (torch.randn(*s).to(dtype) for s in (
        (TOKENS * K, SIZE), (TOKENS, SIZE), (TOKENS, SIZE), (EXPERTS, SIZE), (TOKENS, K)))
    places, experts, out = torch.randperm(TOKENS * K).int(), routed(), torch.empty(TOKENS, SIZE).to(dtype)
    wanted = moe.npu_moe_finalize_routing(rows, skip1, skip2, bias, scales, places, experts)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    call.named("aclnnMoeFinalizeRouting", expandedX=rows, x1=skip1, x2Optional=skip2, bias=bias, scales=scales, expandedRowIdx=places,
               expandedExpertIdx=experts, out=out)
    close(out, wanted, tolerance)
    by_token = places.view(K, TOKENS).t().reshape(-1).contiguous()
    for mode, given in ((0, places), (2, by_token)):
        call.named("aclnnMoeFinalizeRoutingV2", expandedX=rows, expandedRowIdx=given, x1Optional=skip1, x2Optional=skip2, biasOptional=bias,
                   scalesOptional=scales, expertIdxOptional=experts, dropPadMode=mode, out=out)
        close(out, wanted, tolerance)


def test_results_of_dropped_copies_and_of_experts_that_compute_nothing(call):
    rows, scales, x, out = torch.randn(2, 5, SIZE), torch.rand(4, K), torch.randn(4, SIZE), torch.empty(4, SIZE)
    places = torch.tensor([0, -1, 3, 9, 2, -1, 7, 1], dtype=torch.int32)
    flat = torch.cat([rows.view(-1, SIZE), torch.zeros(1, SIZE)])
    found = flat[places.long()].view(4, K, SIZE)
    call.named("aclnnMoeFinalizeRoutingV2", expandedX=rows, expandedRowIdx=places, scalesOptional=scales, dropPadMode=3, out=out)
    close(out, (found * scales.unsqueeze(-1)).sum(1))
    experts = torch.tensor([[0, 8], [1, 9], [10, 0], [11, 1]], dtype=torch.int32)
    a1, a2, v = torch.randn(2, SIZE), torch.randn(2, SIZE), torch.randn(2, SIZE)
    call.named("aclnnMoeFinalizeRoutingV4", expandedX=rows, expandedRowIdx=places, scalesOptional=scales, expertIdxOptional=experts,
               xOptional=x, a1Optional=a1, a2Optional=a2, vOptional=v, dropPadMode=3, zeroExpertRange=[8, 9], copyExpertRange=[9, 10],
               constantExpertRange=[10, 12], k=K, out=out)
    found[0, 1], found[1, 1] = 0, x[1]
    found[2, 0], found[3, 0] = a1[0] * x[2] + a2[0] * v[0], a1[1] * x[3] + a2[1] * v[1]
    close(out, (found * scales.unsqueeze(-1)).sum(1))


@pytest.mark.parametrize("with_bias", [False, True])
def test_gradient_of_added_results(call, with_bias):
    """Copies are numbered token by token; one of them was dropped."""
    rows, scales, bias = (torch.randn(*s, requires_grad=True) for s in ((7, SIZE), (4, 2), (3, SIZE)))
    places, experts = torch.tensor([1, 6, -1, 0, 3, 2, 5, 4], dtype=torch.int32), torch.randint(0, 3, (4, 2), dtype=torch.int32)
    there = (places >= 0).view(4, 2, 1)
    copies = rows[places.clamp(min=0).long()].view(4, 2, SIZE)
    if with_bias:
        copies = copies + bias[experts.long()]
    grad = torch.randn(4, SIZE)
    (torch.where(there, copies, 0.0) * scales.unsqueeze(-1)).sum(1).backward(grad)
    by_rows, by_scales = torch.empty(7, SIZE), torch.empty(4, 2)
    more = {"biasOptional": bias.detach(), "expertIdxOptional": experts} if with_bias else {}
    call.named("aclnnMoeFinalizeRoutingV2Grad", gradY=grad, expandedRowIdx=places, expandedXOptional=rows.detach(),
               scalesOptional=scales.detach(), gradExpandedXOut=by_rows, gradScalesOut=by_scales, **more)
    close(by_rows, rows.grad, 1e-5)
    close(by_scales, scales.grad, 1e-5)
    if not with_bias:
        call.named("aclnnMoeFinalizeRoutingV2Grad", gradY=grad, expandedRowIdx=places, gradExpandedXOut=by_rows, gradScalesOut=by_scales)
        wanted = torch.zeros(7, SIZE)
        for i, place in enumerate(places.tolist()):
            if place >= 0:
                wanted[place] = grad[i // 2]
        close(by_rows, wanted)
    with pytest.raises(RuntimeError, match="161002.*dropPadMode 2"):
        call.named("aclnnMoeFinalizeRoutingV2Grad", gradY=grad, expandedRowIdx=places, dropPadMode=2, gradExpandedXOut=by_rows,
                   gradScalesOut=by_scales)


@pytest.mark.parametrize("norm", [0, 1])
def test_gradient_of_gating(call, norm):
    x = torch.randn(TOKENS, EXPERTS, requires_grad=True)
    normal = torch.softmax(x, -1) if norm == 0 else torch.sigmoid(x)
    weights, experts = normal.topk(K, -1)
    y = (weights if norm == 0 else weights / (weights.sum(-1, True) + 1e-20)) * 2.5
    dy, out = torch.randn(TOKENS, K), torch.empty(TOKENS, EXPERTS)
    y.backward(dy)
    call.named("aclnnMoeGatingTopKBackward", xNorm=normal.detach(), gradY=dy, expertIdx=experts.int(), normType=norm,
               routedScalingFactor=2.5, eps=1e-20, out=out)
    close(out, x.grad)


def test_replicas_of_experts(call):
    ids, table = torch.randint(0, 3, (5, 2), dtype=torch.int32), torch.tensor([[1, 0, 0], [2, 1, 3], [2, 2, 4]], dtype=torch.int32)
    scales, threshold = torch.rand(5, 2), torch.tensor([0.3, 0.6])
    active = torch.tensor([True, True, False, True, True])
    found, mask = empty(((5, 2), torch.int32), ((5, 2), torch.bool))
    for mode, rank in ((0, 0), (0, 3), (1, 0)):
        call.named("aclnnMoeUpdateExpert", expertIds=ids, eplbTable=table, expertScalesOptional=scales, pruningThresholdOptional=threshold,
                   activeMaskOptional=active, localRankId=rank, worldSize=4, balanceMode=mode, balancedExpertIds=found,
                   balancedActiveMask=mask)
        for (t, j), expert in zip(((t, j) for t in range(5) for j in range(2)), ids.view(-1).tolist()):
            copies = table[expert, 0].item()
            turn = 0 if copies == 1 else rank // -(-4 // copies) if mode == 0 else t % copies
            assert found[t, j] == table[expert, 1 + turn]
        assert torch.equal(mask, (scales.sum(1, True) * threshold < scales) & active.unsqueeze(1))


@pytest.mark.parametrize("padded", [False, True])
def test_routing_map(call, padded):
    chosen = torch.zeros(TOKENS, EXPERTS, dtype=torch.bool).scatter(1, routed().long(), True)
    tokens, probs, slots = torch.randn(TOKENS, SIZE), torch.rand(TOKENS, EXPERTS), TOKENS * K
    rows, row_probs, places = empty(((slots, SIZE), torch.float32), ((slots,), torch.float32), ((slots,), torch.int32))
    call.named("aclnnMoeTokenPermuteWithRoutingMap", tokens=tokens, routingMap=chosen, probsOptional=probs, numOutTokens=slots,
               dropAndPad=padded, permuteTokensOut=rows, permuteProbsOutOptional=row_probs, sortedIndicesOut=places)
    wanted = routing_map.npu_moe_token_permute_with_routing_map(tokens, chosen, probs=probs, num_out_tokens=slots, drop_and_pad=padded)
    for actual, expected in zip((rows, row_probs, places), wanted):
        assert torch.equal(actual, expected)
    drows, dprobs = torch.randn(slots, SIZE), torch.randn(slots)
    dtokens, dtable = empty(((TOKENS, SIZE), torch.float32), ((TOKENS, EXPERTS), torch.float32))
    call.named("aclnnMoeTokenPermuteWithRoutingMapGrad", permutedTokenOutputGrad=drows, permutedProbsOutputGradOptional=dprobs,
               sortedIndices=places, routingMapOptional=chosen, numExperts=EXPERTS, tokensNum=TOKENS, dropAndPad=padded,
               tokensGradOut=dtokens, probsGradOutOptional=dtable)
    expected = routing_map.npu_moe_token_permute_with_routing_map_grad(drows, dprobs, places, chosen, EXPERTS, TOKENS, padded)
    close(dtokens, expected[0])
    close(dtable, expected[1])
    back, index, owner, used = empty(((TOKENS, SIZE), torch.float32), ((slots,), torch.int32), ((slots,), torch.int32), ((slots,), torch.float32))
    call.named("aclnnMoeTokenUnpermuteWithRoutingMap", permutedTokens=rows, sortedIndices=places, routingMapOptional=chosen,
               probsOptional=probs, paddedMode=padded, unpermutedTokens=back, outIndex=index, permuteTokenId=owner, permuteProbs=used)
    wanted = routing_map._npu_moe_token_unpermute_with_routing_map(rows, places, (TOKENS, SIZE), probs=probs, routing_map=chosen,
                                                                   drop_and_pad=padded)
    for actual, expected in zip((back, index, owner, used), wanted):
        close(actual, expected)
    dback, drows, dtable = torch.randn(TOKENS, SIZE), torch.empty(slots, SIZE), torch.empty(TOKENS, EXPERTS)
    call.named("aclnnMoeTokenUnpermuteWithRoutingMapGrad", unpermutedTokensGrad=dback, outIndex=index, permuteTokenId=owner,
               routingMapOptional=chosen, permutedTokensOptional=rows, probsOptional=probs, dropAndPad=padded,
               permutedTokensGradOut=drows, probsGradOutOptional=dtable)
    expected = routing_map.npu_moe_token_unpermute_with_routing_map_grad(dback, index, owner, chosen, rows, probs, padded, (TOKENS, SIZE))
    close(drows, expected[0])
    close(dtable, expected[1])
    if not padded:   # MindSpeed's call: the places in place of the tokens
        call.named("aclnnMoeTokenUnpermuteWithRoutingMapGrad", unpermutedTokensGrad=dback, outIndex=places, permuteTokenId=places,
                   routingMapOptional=chosen, permutedTokensOptional=rows, probsOptional=probs, permutedTokensGradOut=drows,
                   probsGradOutOptional=dtable)
        close(drows, expected[0])
        close(dtable, expected[1])
        call.named("aclnnMoeTokenUnpermuteWithRoutingMapGrad", unpermutedTokensGrad=dback, outIndex=places, permuteTokenId=places,
                   permutedTokensGradOut=drows)
        close(drows, routing_map.npu_moe_token_permute_with_routing_map(dback, chosen, num_out_tokens=slots)[0])


def test_grouped_products(call):
    x, weight, bias = torch.randn(10, 16), torch.randn(3, 16, 8), torch.randn(3, 8)
    out = torch.full((10, 8), 9.0)
    ends = [2, 2, 7]
    group = [0, 0, 2, 2, 2, 2, 2]
    expected = torch.zeros(10, 8)
    for row, g in enumerate(group):
        expected[row] = x[row] @ weight[g] + bias[g]
    call.named("aclnnGroupedMatmul", x=[x], weight=[weight], biasOptional=[bias], groupListOptional=ends, splitItem=3, y=[out])
    close(out, expected, 1e-4)
    for name, of_the_host in (("aclnnGroupedMatmulV2", True), ("aclnnGroupedMatmulV3", False)):
        out.fill_(9)
        call.named(name, x=[x], weight=[weight], biasOptional=[bias], groupListOptional=ends if of_the_host else torch.tensor(ends),
                   splitItem=3, groupType=0, y=[out])
        close(out, expected, 1e-4)
        columns = torch.full((3, 16, 8), 9.0)
        call.named(name, x=[x.t()], weight=[expected], groupListOptional=ends if of_the_host else torch.tensor(ends), splitItem=3,
                   groupType=2, y=[columns])
        for i, part in enumerate((slice(0, 2), slice(2, 2), slice(2, 7))):
            close(columns[i], x[part].t() @ expected[part], 1e-3)
    out.fill_(9)
    call.named("aclnnGroupedMatmulWeightNz", x=[x], weight=[weight], biasOptional=[bias], groupListOptional=torch.tensor([2, 0, 5]),
               splitItem=3, groupType=0, groupListType=1, actType=1, out=[out])
    close(out, F.relu(expected), 1e-4)
    apart = [torch.randn(n, 16) for n in (3, 4)]
    outs = [torch.empty(n, 8) for n in (3, 4)]
    call.named("aclnnGroupedMatmul", x=apart, weight=[weight[0], weight[1]], y=outs)
    for i, result in enumerate(outs):
        close(result, apart[i] @ weight[i], 1e-4)
    sums = torch.randn(3 * 16, 8)
    start = sums.clone().view(3, 16, 8)
    rows = torch.randn(10, 8)
    call.named("aclnnGroupedMatmulAdd", x=x, weight=rows, groupList=torch.tensor(ends), yRef=sums, transposeX=True, groupType=2)
    for i, part in enumerate((slice(0, 2), slice(2, 2), slice(2, 7))):
        close(sums.view(3, 16, 8)[i], start[i] + x[part].t() @ rows[part], 1e-4)


def test_grouped_int8_products_are_exact(call):
    x, weight = torch.full((2, 2048), 127, dtype=torch.int8), torch.full((1, 2048, 4), 127, dtype=torch.int8)
    weight[0, -1] = 126
    out = torch.empty(2, 4, dtype=torch.int32)
    call.named("aclnnGroupedMatmulV5", x=[x], weight=[weight], groupListOptional=torch.tensor([2]), splitItem=3, groupType=0, out=[out])
    assert (out - (127 * 127 * 2048 - 127)).abs().max() <= 1  # float32 holds the sum to 1


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@pytest.mark.parametrize("name", ["aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2", "aclnnGroupedMatmulSwigluQuantWeightNZ"])
def test_grouped_products_through_swiglu(call, name):
    x, weight, weight_scale, x_scale = int8(9, 32), int8(3, 32, 16), torch.rand(3, 16) / 50, torch.rand(9)
    ends, smooth = torch.tensor([3, 3, 7]), torch.rand(3, 8) + 0.5
    out, scales = torch.empty(9, 8, dtype=torch.int8), torch.empty(9)
    if name.endswith("NZ"):
        call.named(name, x=x, weight=weight, weightScale=weight_scale, xScale=x_scale, groupList=ends, output=out, outputScale=scales)
        smooth = None
    else:
        call.named(name, x=x, weight=[weight], weightScale=[weight_scale], xScale=x_scale, smoothScale=smooth, groupList=ends, output=out,
                   outputScale=scales)
    wanted = quant_experts.npu_grouped_matmul_swiglu_quant_v2(x, [weight], [weight_scale], x_scale, ends, smooth_scale=smooth)
    close(scales, wanted[1], 1e-4)
    assert (out.int() - wanted[0].int()).abs().max() <= 1


def int4():
    """Rows of int8, weights of int4 with scales for two parts of their rows, and the correction made with them."""
    x, weight = int8(9, 32), torch.randint(-8, 8, (3, 32, 16))
    scale, x_scale = torch.rand(3, 2, 16) / 50, torch.rand(9)
    stored = (scale.view(torch.int32) & ~0x1FFF).view(torch.float32)  # what the matrix unit keeps of a scale
    value = weight * stored.repeat_interleave(16, 1)
    return x, weight, stored.view(torch.int32).long(), x_scale, value, 8 * value.sum(1)


@pytest.mark.parametrize("name", ["aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2", "aclnnGroupedMatmulSwigluQuantWeightNZ"])
def test_grouped_products_of_int4_weights(call, name):
    x, weight, scale, x_scale, value, correction = int4()
    out, scales = torch.empty(9, 8, dtype=torch.int8), torch.empty(9)
    more = dict(xScale=x_scale, groupList=torch.tensor([3, 3, 7]), output=out, outputScale=scales)
    if name.endswith("NZ"):
        call.named(name, x=x, weight=packed(weight), weightScale=scale, bias=correction, **more)
    else:
        call.named(name, x=x, weight=[packed(weight)], weightScale=[scale], weightAssistMatrix=[correction], dequantMode=1, **more)
    wanted = torch.cat([x[a:b].float() @ value[g] for a, b, g in ((0, 3, 0), (3, 7, 2))]) * x_scale[:7].unsqueeze(1)
    wanted = F.silu(wanted[:, :8]) * wanted[:, 8:]
    close(scales[:7], wanted.abs().amax(1) / 127, 1e-4)
    assert (out[:7] - (wanted / scales[:7].unsqueeze(1))).abs().max() < 0.51 and not out[7:].any()
    with pytest.raises(RuntimeError, match="161002"):
        none = scale[:, :0]
        call.named(name, **({"x": x, "weight": packed(weight), "weightScale": none, "bias": correction} if name.endswith("NZ") else
                            {"x": x, "weight": [packed(weight)], "weightScale": [none], "weightAssistMatrix": [correction], "dequantMode": 1}), **more)
    twin = quant_experts.npu_grouped_matmul_swiglu_quant(x, packed(weight), more["groupList"], scale, x_scale, bias=correction)
    close(twin[1], scales, 1e-4)
    assert (twin[0].int() - out.int()).abs().max() <= 1


def powers(codes):
    """Of MX scales, a number for each of the 32 in a block; `codes` has blocks last."""
    return torch.ldexp(torch.ones(codes.shape), codes.int() - 127).repeat_interleave(32, -1)


@pytest.mark.parametrize("name", ["aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2"])
def test_grouped_products_in_mx_blocks_through_swiglu(call, name):
    x, weight = torch.randn(7, 96).to(torch.float8_e4m3fn), torch.randn(3, 96, 256).to(torch.float8_e4m3fn)
    x_codes, weight_codes = torch.randint(124, 130, (7, 2, 2), dtype=torch.uint8), torch.randint(120, 128, (3, 2, 256, 2), dtype=torch.uint8)
    out, scales = torch.empty(7, 128, dtype=torch.uint8).view(torch.float8_e4m3fn), torch.empty(7, 2, 2, dtype=torch.uint8)
    e8m0 = torch.float8_e8m0fnu
    arguments = dict(x=x, weight=[weight], weightScale=[weight_codes.view(e8m0)], xScale=x_codes.view(e8m0), groupList=torch.tensor([3, 3, 6]),
                     output=out, outputScale=scales.view(e8m0))
    call.named(name, dequantMode=2, quantMode=2, **arguments)
    left = x.float() * powers(x_codes.flatten(1))[:, :96]
    right = weight.float() * powers(weight_codes.permute(0, 2, 1, 3).flatten(2)).mT[:, :96]
    product = torch.cat([left[:3] @ right[0], left[3:6] @ right[2]])
    wanted = F.silu(product[:, :128]) * product[:, 128:]
    top = wanted.view(6, 4, 32).abs().amax(-1)
    assert torch.equal(scales.flatten(1)[:6].int() - 127, torch.frexp(top)[1] - 1 - 8)
    scaled = (wanted / powers(scales.flatten(1)[:6])).clamp(-448, 448)
    assert ((out[:6].float() - scaled).abs() <= scaled.abs() / 15 + 2**-9).all()
    assert not out[6:].float().any() and not scales[6:].any()
    for modes in ({"dequantMode": 2, "quantMode": 0}, {"dequantMode": 0, "quantMode": 0}):
        with pytest.raises(RuntimeError, match="161002"):
            call.named(name, **modes, **arguments)


@pytest.mark.parametrize("name", ["aclnnGroupedMatmulV4", "aclnnGroupedMatmulV5", "aclnnGroupedMatmulWeightNz"])
def test_grouped_int4_weights_and_their_correction(call, name):
    x, weight, scale, x_scale, value, correction = int4()
    out = torch.empty(9, 16).bfloat16()
    call.named(name, x=[x], weight=[packed(weight)], biasOptional=[correction], scaleOptional=[scale], perTokenScaleOptional=[x_scale],
               groupListOptional=torch.tensor([3, 1, 5]), splitItem=2, groupType=0, groupListType=1, out=[out])
    wanted = torch.cat([x[a:b].float() @ value[g] for g, (a, b) in enumerate(((0, 3), (3, 4), (4, 9)))]) * x_scale.unsqueeze(1)
    close(out, wanted, 1e-2)


@pytest.mark.parametrize("name", ["aclnnGroupedMatmulFinalizeRouting", "aclnnGroupedMatmulFinalizeRoutingV2", "aclnnGroupedMatmulFinalizeRoutingV3",
                                  "aclnnGroupedMatmulFinalizeRoutingWeightNz", "aclnnGroupedMatmulFinalizeRoutingWeightNzV2"])
def test_grouped_products_added_up(call, name):
    x, weight, scale, rows = int8(8, 32), int8(2, 32, 16), torch.rand(2, 16) / 50, torch.rand(8)
    shared, logit, index = torch.randn(2, 16).bfloat16(), torch.rand(8), torch.randint(0, 4, (8,))
    more = "Optional" if "Nz" not in name else ""
    out = torch.empty(4, 16)
    given = {"scale": scale, "groupList": torch.tensor([3, 5]), "sharedInput": shared, "logit": logit, "rowIndex": index}
    names = ("x", "w", "y") if name.endswith("Routing") else ("x1", "x2", "out")
    call.named(name, pertokenScaleOptional=rows, sharedInputWeight=0.5, sharedInputOffset=1, groupListType=1,
               **dict(zip(names, (x, weight, out))), **{key + more: value for key, value in given.items()})
    wanted = quant_experts.npu_grouped_matmul_finalize_routing(
        x, weight, given["groupList"], scale=scale, pertoken_scale=rows, shared_input=shared, logit=logit, row_index=index,
        shared_input_weight=0.5, shared_input_offset=1, output_bs=4)
    close(out, wanted, 1e-4)


def test_feed_forward_layers_with_lengths_on_the_host(call):
    x, w1, w2, b1, out = torch.randn(7, 8), torch.randn(2, 8, 12), torch.randn(2, 12, 8), torch.randn(2, 12), torch.empty(7, 8)
    for tokens, absolute in (([3, 2], False), ([3, 5], True)):
        call.named("aclnnFFNV2", x=x, weight1=w1, weight2=w2, expertTokens=tokens, bias1=b1, activation="relu", tokensIndexFlag=absolute, y=out)
        for part, g in ((slice(0, 3), 0), (slice(3, 5), 1)):
            close(out[part], F.relu(x[part] @ w1[g] + b1[g]) @ w2[g], 1e-4)
        assert not out[5:].any()
    first = torch.empty(7, 8)  # its lengths are never ends
    call.named("aclnnFFN", x=x, weight1=w1, weight2=w2, expertTokens=[3, 2], bias1=b1, activation="relu", y=first)
    assert torch.equal(first, out)
    call.named("aclnnFFN", x=x, weight1=w1[0], weight2=w2[0], activation="silu", y=first)
    close(first, F.silu(x @ w1[0]) @ w2[0], 1e-4)


@pytest.mark.parametrize("norm", [0, 1])
def test_gating_by_choice_and_by_table(call, norm):
    x, bias, ids = torch.randn(5, 8), torch.randn(8), torch.tensor([3, 0, 3, 6, 1])
    table = torch.stack([torch.randperm(8)[:3] for _ in range(7)]).int()
    normal = x.softmax(-1) if norm == 0 else x.sigmoid()
    for named in ({"biasOptional": bias}, {"inputIdsOptional": ids, "tid2eidOptional": table}):
        weights, experts, out = torch.empty(5, 3), torch.empty(5, 3, dtype=torch.int32), torch.empty(5, 8)
        call.named("aclnnMoeGatingTopKV2", x=x, k=3, kGroup=1, groupCount=1, normType=norm, outFlag=True, routedScalingFactor=2.0,
                   eps=1e-20, yOut=weights, expertIdxOut=experts, outOut=out, **named)
        wanted = (normal + bias).topk(3).indices if "biasOptional" in named else table[ids].long()
        chosen = normal.gather(1, wanted)
        assert torch.equal(experts.long(), wanted)
        close(weights, 2 * (chosen / chosen.sum(1, keepdim=True) if norm else chosen))
        close(out, normal)
    with pytest.raises(RuntimeError, match="must both be given"):
        call.named("aclnnMoeGatingTopKV2", x=x, k=3, kGroup=1, groupCount=1, inputIdsOptional=ids, yOut=weights, expertIdxOut=experts,
                   outOut=out)


@pytest.mark.parametrize("norm", [0, 1])
@pytest.mark.parametrize("renorm", [0, 1])
def test_gating_by_weights_that_sum_to_one(call, norm, renorm):
    x, weights, experts = torch.randn(5, 8), torch.empty(5, 3), torch.empty(5, 3, dtype=torch.int32)
    call.named("aclnnMoeGatingTopK", x=x, k=3, kGroup=1, groupCount=1, renorm=renorm, normType=norm, routedScalingFactor=2.0, eps=1e-20,
               yOut=weights, expertIdxOut=experts, outOut=torch.empty(5, 8))
    chosen, wanted = (x.softmax(-1) if norm == 0 else x.sigmoid()).topk(3)
    assert torch.equal(experts.long(), wanted)
    close(weights, 2 * (chosen / chosen.sum(1, keepdim=True) if norm or renorm else chosen))


def test_gating_refuses_what_it_does_not_know(call):
    with pytest.raises(RuntimeError, match="renorm 2 is not supported"):
        call.named("aclnnMoeGatingTopK", x=torch.randn(5, 8), k=3, kGroup=1, groupCount=1, renorm=2, yOut=torch.empty(5, 3),
                   expertIdxOut=torch.empty(5, 3, dtype=torch.int32), outOut=torch.empty(5, 8))


@pytest.mark.parametrize("mode", [0, 1])
def test_gradient_of_routed_tokens(call, mode):
    """A row behind the last, and one that was dropped, count for nothing."""
    place = torch.tensor([3, 0, 5, -1, 1, 9], dtype=torch.int32)
    grad, out, expected = torch.randn(6, 4), torch.empty(3, 4), torch.zeros(3, 4)
    for i, row in enumerate(place.tolist()):
        if 0 <= row < 6:
            expected[i // 2] += grad[row]
    call.named("aclnnMoeInitRoutingV2Grad", gradExpandedX=grad.view(2, 3, 4) if mode else grad, expandedRowIdx=place, topK=2,
               dropPadMode=mode, out=out)
    torch.testing.assert_close(out, expected)
    with pytest.raises(RuntimeError, match="161002.*dropPadMode 2"):
        call.named("aclnnMoeInitRoutingV2Grad", gradExpandedX=grad, expandedRowIdx=place, topK=2, dropPadMode=2, out=out)


@pytest.mark.parametrize("own", [None, [2, 7]])
def test_tokens_of_a_range_of_copies(call, own):
    """Forth and back through what belongs to one rank; the other ranks' copies count as zeros."""
    tokens, experts, probs = torch.randn(5, SIZE), torch.randint(0, 4, (5, 2), dtype=torch.int32), torch.rand(5, 2)
    first, end = own or (0, 10)
    order = torch.argsort(experts.view(-1), stable=True)
    mine = order[first:end]
    rows, places, rates = torch.empty(end - first, SIZE), torch.empty(10, dtype=torch.int32), torch.empty(end - first)
    call.named("aclnnMoeTokenPermuteWithEp", tokens=tokens, indices=experts, probsOptional=probs, rangeOptional=own, permuteTokensOut=rows,
               sortedIndicesOut=places, permuteProbsOut=rates)
    assert torch.equal(places.long(), torch.argsort(order)) and torch.equal(rows, tokens[mine // 2])
    assert torch.equal(rates, probs.view(-1)[mine])
    copies = torch.zeros(10, SIZE).index_copy(0, mine, rows).view(5, 2, SIZE)
    out = torch.empty(5, SIZE)
    call.named("aclnnMoeTokenUnpermuteWithEp", permutedTokens=rows, sortedIndices=places, probsOptional=probs, numTopk=2, rangeOptional=own,
               out=out)
    close(out, (copies * probs.unsqueeze(-1)).sum(1))
    call.named("aclnnMoeTokenUnpermuteWithEp", permutedTokens=rows, sortedIndices=places, numTopk=2, rangeOptional=own, out=out)
    close(out, copies.sum(1))
    grad, by_rows, by_probs = torch.randn(5, SIZE), torch.empty(end - first, SIZE), torch.empty(5, 2)
    call.named("aclnnMoeTokenUnpermuteWithEpGrad", unpermutedTokensGrad=grad, sortedIndices=places, permutedTokensOptional=rows,
               probsOptional=probs, rangeOptional=own, topkNum=2, permutedTokensGradOut=by_rows, probsGradOut=by_probs)
    close(by_rows, (grad.unsqueeze(1) * probs.unsqueeze(-1)).view(10, SIZE)[mine])
    close(by_probs, (copies * grad.unsqueeze(1)).sum(-1))
    by_tokens, rate_grads = torch.empty(5, SIZE), torch.randn(end - first)
    call.named("aclnnMoeTokenPermuteWithEpGrad", permutedTokensOutputGrad=rows, sortedIndices=places,
               permutedProbsOutputGradOptional=rate_grads, numTopk=2, rangeOptional=own, tokenGradOut=by_tokens, probsGradOut=by_probs)
    close(by_tokens, copies.sum(1))
    close(by_probs.view(-1), torch.zeros(10).index_copy(0, mine, rate_grads))
    with pytest.raises(RuntimeError, match="161002.*range 2 to 11 of 10 copies"):
        call.named("aclnnMoeTokenUnpermuteWithEp", permutedTokens=rows, sortedIndices=places, numTopk=2, rangeOptional=[2, 11], out=out)


def test_first_routing_quantized(call):
    x, experts = torch.randn(4, SIZE), torch.randint(0, 3, (4, 2), dtype=torch.int32)
    numbers = torch.arange(8, dtype=torch.int32).view(2, 4).t().contiguous()  # column by column
    rows, plain = torch.empty(8, SIZE, dtype=torch.int8), torch.empty(8, SIZE)
    places, sorted_experts = torch.empty(8, dtype=torch.int32), torch.empty(8, dtype=torch.int32)
    given = dict(x=x, rowIdx=numbers, expertIdx=experts, activeNum=4, expandedRowIdxOut=places, expandedExpertIdxOut=sorted_experts)
    call.named("aclnnMoeInitRouting", expandedXOut=plain, **given)
    before = places.clone(), sorted_experts.clone()
    call.named("aclnnMoeInitRoutingQuant", scale=20.0, offset=-3.0, expandedXOut=rows, **given)
    assert torch.equal(places, before[0]) and torch.equal(sorted_experts, before[1])
    assert torch.equal(rows, (plain * 20 - 3).round().clamp(-128, 127).to(torch.int8))


def test_weights_described_with_the_sizes_of_their_blocks(call):
    x, weight, scale, rows = int8(6, 32), int8(2, 32, 128), torch.rand(2, 128) / 50, torch.rand(6)
    blocks = weight.view(2, 2, 16, 4, 32).permute(0, 3, 1, 2, 4).contiguous()
    outs = [(torch.empty(6, 64, dtype=torch.int8), torch.empty(6)) for _ in range(2)]
    for w, (out, steps) in zip((weight, blocks), outs):
        call.named("aclnnGroupedMatmulSwigluQuant", x=x, weight=w, weightScale=scale, xScale=rows, groupList=torch.tensor([2, 6]), output=out,
                   outputScale=steps)
    assert torch.equal(outs[0][0], outs[1][0]) and torch.equal(outs[0][1], outs[1][1]) and outs[0][1].all()
