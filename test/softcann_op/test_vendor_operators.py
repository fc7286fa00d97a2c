"""The operators of vllm-ascend's own package of kernels that libopapi serves in its stead."""
import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, OPS, VENDOR_OPS, close


def test_names_are_sorted_and_no_part_of_the_contract():
    assert list(VENDOR_OPS) == sorted(VENDOR_OPS) and not VENDOR_OPS.keys() & OPS.keys()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("biased", [False, True])
def test_sums_normalized_with_a_bias(call, dtype, biased):
    x1, x2, gamma, beta = (torch.randn(*shape).to(dtype) for shape in ((3, 5, 16), (3, 5, 16), (16,), (16,)))
    y, rstd, x = torch.empty_like(x1), torch.empty(3, 5, 1), torch.empty_like(x1)
    call.named("aclnnAddRmsNormBias", x1=x1, x2=x2, gamma=gamma, betaOptional=beta if biased else None, epsilon=1e-5,
               yOut=y, rstdOut=rstd, xOut=x)
    total = x1 + x2
    close(x, total)
    close(rstd, (total.float().square().mean(-1, keepdim=True) + 1e-5).rsqrt(), HALVES[dtype])
    normal = F.rms_norm(total.float(), (16,), gamma.float(), 1e-5)
    close(y, normal + beta.float() if biased else normal, HALVES[dtype])


SIZE, TAPS, ROWS = 6, 4, 6


def convolved(before, x, weight, bias):
    """Outputs of a sequence's tokens x, `before`: its TAPS - 1 inputs in front of them."""
    inputs = torch.cat([before, x]).float()
    return F.silu(F.conv1d(inputs.t().unsqueeze(0), weight.float().t().unsqueeze(1), bias.float(), groups=SIZE)[0].t())


def convolve(call, x, weight, bias, states, slots, **more):
    out = torch.empty_like(x)
    call.named("aclnnCausalConv1d", x=x, weight=weight, biasOptional=bias, convStates=states, cacheIndicesOptional=slots,
               activationMode=1, padSlotId=-1, yOut=out, **more)
    return out


def convolution():
    weight, bias, states = torch.randn(TAPS, SIZE).half(), torch.randn(SIZE).half(), torch.randn(5, ROWS, SIZE).half()
    return weight, bias, states, states.clone()


def test_sequences_convolved_from_their_beginning_or_a_state(call):
    weight, bias, states, first = convolution()
    x, starts = torch.randn(9, SIZE).half(), torch.tensor([0, 5, 7, 9], dtype=torch.int32)
    out = convolve(call, x, weight, bias, states, torch.tensor([3, 1, -1], dtype=torch.int32), queryStartLocOptional=starts,
                   initialStateModeOptional=torch.tensor([False, True, True]))
    close(out[:5], convolved(torch.zeros(TAPS - 1, SIZE), x[:5], weight, bias), 1e-2)
    close(out[5:7], convolved(first[1, :TAPS - 1], x[5:7], weight, bias), 1e-2)
    assert states[3, :TAPS - 1].equal(x[2:5])  # the oldest first, at the slot's beginning
    assert states[1, :TAPS - 1].equal(torch.cat([first[1, 2:3], x[5:7]]))
    for slot in (0, 2, 4):
        assert states[slot].equal(first[slot])
    assert states[:, TAPS - 1:].equal(first[:, TAPS - 1:])


def test_a_token_each_convolved(call):
    weight, bias, states, first = convolution()
    x = torch.randn(2, SIZE).half()
    out = convolve(call, x, weight, bias, states, torch.tensor([4, 0], dtype=torch.int32), runMode=1)
    for b, slot in enumerate((4, 0)):
        close(out[b:b + 1], convolved(first[slot, :TAPS - 1], x[b:b + 1], weight, bias), 1e-2)
        assert states[slot, :TAPS - 1].equal(torch.cat([first[slot, 1:TAPS - 1], x[b:b + 1]]))


def test_drafts_convolved_behind_the_accepted_ones(call):
    weight, bias, states, first = convolution()
    x, starts = torch.randn(6, SIZE).half(), torch.tensor([0, 3, 6], dtype=torch.int32)
    out = convolve(call, x, weight, bias, states, torch.tensor([2, 3], dtype=torch.int32), queryStartLocOptional=starts,
                   numAcceptedTokensOptional=torch.tensor([1, 3], dtype=torch.int32), runMode=1)
    for b, (slot, skipped) in enumerate(((2, 0), (3, 2))):
        before, tokens = first[slot, skipped:skipped + TAPS - 1], x[3 * b:3 * b + 3]
        close(out[3 * b:3 * b + 3], convolved(before, tokens, weight, bias), 1e-2)
        assert states[slot, :TAPS - 2 + 3].equal(torch.cat([before[1:], tokens]))


def test_a_convolution_of_another_kind_is_refused(call):
    weight, bias, states, _ = convolution()
    with pytest.raises(RuntimeError, match="161002.*runMode 2"):
        convolve(call, torch.randn(2, SIZE).half(), weight, bias, states, None, runMode=2)


@pytest.mark.parametrize("shifted", [False, True])
def test_drafts_have_places(call, shifted):
    """Sequences of 4 tokens, one of them refused, and of 2."""
    numbers = {name: torch.tensor(values, dtype=torch.int32) for name, values in dict(
        targetTokenIds=[11, 12, 13, 14, 21, 22], targetPositions=[5, 6, 7, 8, 0, 1], nextTokenIds=[50, 60],
        queryStartLoc=[0, 4, 6], queryEndLoc=[2, 5]).items()}
    total = 6 + 2 * (2 - shifted)
    ids, positions, new, mapping = (torch.full((n,), -7, dtype=torch.int32) for n in (total, total, 4, 6))
    refused, masked = (torch.full((total,), -7, dtype=torch.int8) for _ in range(2))
    call.named("aclnnCopyAndExpandEagleInputs", **numbers, paddingTokenId=0, parallelDraftingTokenId=99, numPaddingSlotsPerRequest=2,
               shiftInputIds=shifted, totalInputTokens=6, outInputIds=ids, outPositions=positions, outIsRejectedTokenMask=refused,
               outIsMaskedTokenMask=masked, outNewTokenIndices=new, outHiddenStateMapping=mapping)
    if shifted:
        assert ids.tolist() == [12, 13, 50, 99, 0, 22, 60, 99]
        assert positions.tolist() == [5, 6, 7, 8, 0, 0, 1, 2]
        assert refused.tolist() == [0, 0, 0, 0, 1, 0, 0, 0] and masked.tolist() == [0, 0, 0, 1, 0, 0, 0, 1]
        assert new.tolist() == [2, 3, 6, 7] and mapping.tolist() == [0, 1, 2, 3, 5, 6]
    else:
        assert ids.tolist() == [11, 12, 13, 50, 99, 0, 21, 22, 60, 99]
        assert positions.tolist() == [5, 6, 7, 8, 9, 0, 0, 1, 2, 3]
        assert refused.tolist() == [0] * 5 + [1] + [0] * 4 and masked.tolist() == [0] * 4 + [1] + [0] * 4 + [1]
        assert new.tolist() == [3, 4, 8, 9]


def test_heads_that_arrived_in_parts(call):
    blocks, tokens, heads, size, parts = 5, 3, 4, 2, 2
    caches = [torch.randn(blocks, tokens, heads, size).half() for _ in range(4)]
    before = [cache.clone() for cache in caches]
    call.named("aclnnTransposeKvCacheByBlock", kCache=caches[:2], vCache=caches[2:], blockIDs=torch.tensor([4, 1]), blockSize=tokens,
               headNum=heads, headDim=size, splitNum=parts, layerNum=2)
    for cache, old in zip(caches, before):
        for block in range(blocks):
            arrived = old[block].reshape(parts, tokens, heads // parts, size)
            whole = torch.cat(list(arrived), 1) if block in (1, 4) else old[block]
            assert cache[block].equal(whole)
