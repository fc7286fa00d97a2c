"""The gated delta rule and causal convolutions at the C interface, against formulas of single tokens."""
import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, close

KEY_HEADS, VALUE_HEADS, KEY_SIZE, VALUE_SIZE = 2, 4, 8, 6


def tokens(count, dtype=torch.bfloat16):
    query, key = (F.normalize(torch.randn(count, KEY_HEADS, KEY_SIZE), dim=-1).to(dtype) for _ in range(2))
    value, beta = torch.randn(count, VALUE_HEADS, VALUE_SIZE).to(dtype), torch.rand(count, VALUE_HEADS).to(dtype)
    return query, key, value, beta, -torch.rand(count, VALUE_HEADS), -torch.rand(count, VALUE_HEADS, KEY_SIZE)


def step(state, t, inputs, scale):
    """S <- S diag(a) (I - beta k k^T) + beta v k^T, head by head, and S q."""
    query, key, value, beta, g, gk = (None if x is None else x.float() for x in inputs)
    after, out = state.clone(), torch.empty(VALUE_HEADS, VALUE_SIZE)
    for h in range(VALUE_HEADS):
        q, k = (x[t, h // (VALUE_HEADS // KEY_HEADS)] for x in (query, key))
        decay = (0 if g is None else g[t, h]) + (torch.zeros(KEY_SIZE) if gk is None else gk[t, h])
        erase = torch.eye(KEY_SIZE) - beta[t, h] * torch.outer(k, k)
        after[h] = state[h] @ torch.diag(decay.exp()) @ erase + beta[t, h] * torch.outer(value[t, h], k)
        out[h] = after[h] @ q * scale
    return after, out


@pytest.mark.parametrize("gates", [(True, True), (True, False), (False, False)])
def test_a_few_tokens_of_each_sequence(call, gates):
    inputs = tokens(5)
    inputs = (*inputs[:4], inputs[4] if gates[0] else None, inputs[5] if gates[1] else None)
    state, slots = torch.randn(8, VALUE_HEADS, VALUE_SIZE, KEY_SIZE).bfloat16(), torch.tensor([3, 1, 7, 0, 5], dtype=torch.int32)
    found, out = state.clone(), torch.empty_like(inputs[2])
    call.named("aclnnRecurrentGatedDeltaRule", query=inputs[0], key=inputs[1], value=inputs[2], beta=inputs[3], stateRef=found,
               actualSeqLengths=torch.tensor([2, 3], dtype=torch.int32), ssmStateIndices=slots, g=inputs[4], gk=inputs[5],
               numAcceptedTokens=torch.tensor([1, 2], dtype=torch.int32), scaleValue=0.5, out=out)
    wanted = state.clone()
    for start, length, first in ((0, 2, 3), (2, 3, 0)):
        current = state[first].float()
        for t in range(start, start + length):
            current, y = step(current, t, inputs, 0.5)
            wanted[slots[t]] = current.bfloat16()
            close(out[t], y, 3e-2)
    close(found, wanted, 3e-2)
    assert torch.equal(found[2], state[2])


def test_whole_sequences(call):
    inputs = tokens(9)
    first = torch.randn(2, VALUE_HEADS, VALUE_SIZE, KEY_SIZE).bfloat16()
    out, last = torch.empty_like(inputs[2]), torch.empty_like(first)
    call.named("aclnnChunkGatedDeltaRule", query=inputs[0], key=inputs[1], value=inputs[2], beta=inputs[3], initialState=first,
               actualSeqLengths=torch.tensor([4, 5], dtype=torch.int32), gOptional=inputs[4], scaleValue=0.5, out=out, finalState=last)
    for b, (start, end) in enumerate(((0, 4), (4, 9))):
        current = first[b].float()
        for t in range(start, end):
            current, y = step(current, t, (*inputs[:5], None), 0.5)
            close(out[t], y, 3e-2)
        close(last[b], current, 3e-2)


SIZE, TAPS = 16, 3
INT = {"dtype": torch.int32}


def convolved(before, x, weight):
    padded = torch.cat([before, x]).float()
    return sum(weight[k].float() * padded[k:k + x.shape[0]] for k in range(TAPS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("residual", [0, 1])
def test_convolution_with_a_cache(call, dtype, residual):
    x, weight, states = torch.randn(9, SIZE).to(dtype), torch.randn(TAPS, SIZE).to(dtype), torch.randn(6, 2, SIZE).to(dtype)
    kept, y = states.clone(), torch.empty_like(x)
    call.named("aclnnFusedCausalConv1d", x=x, weight=weight, convStates=kept, queryStartLoc=torch.tensor([0, 4, 8, 9], **INT),
               cacheIndices=torch.tensor([5, 2, -1], **INT), numComputedTokens=torch.tensor([0, 7, 3], **INT), padSlotId=-1,
               residualConnection=residual, blockSize=128, y=y)
    for start, before, slot in ((0, torch.zeros_like(states[0]), 5), (4, states[2], 2)):
        part = x[start:start + 4]
        close(y[start:start + 4], convolved(before, part, weight) + residual * part.float(), HALVES[dtype])
        assert torch.equal(kept[slot], part[-2:])
    assert not y[8:].any() and torch.equal(kept[[0, 1, 3, 4]], states[[0, 1, 3, 4]])


def test_convolution_of_speculative_tokens_in_place(call):
    x, weight, states = torch.randn(2, 3, SIZE), torch.randn(TAPS, SIZE), torch.randn(2, TAPS + 1, SIZE)
    kept, given = states.clone(), x.clone()
    call.named("aclnnInplaceFusedCausalConv1d", x=given, weight=weight, convStates=kept, numAcceptedTokens=torch.tensor([1, 3], **INT),
               padSlotId=-1, blockSize=128)
    for b, accepted in ((0, 1), (1, 3)):
        close(given[b], convolved(states[b, accepted - 1:accepted + 1], x[b], weight))
        padded = torch.cat([states[b, :accepted + 1], x[b]])
        assert torch.equal(kept[b], padded[-(TAPS + 1):])


def test_convolution_that_fills_blocks(call):
    """7 tokens after 2 in blocks of 4: the blocks that end after tokens 2 and 6 keep what lies before those ends."""
    x, weight, states = torch.randn(7, SIZE), torch.randn(TAPS, SIZE), torch.randn(4, 2, SIZE)
    kept, y = states.clone(), torch.empty_like(x)
    call.named("aclnnFusedCausalConv1d", x=x, weight=weight, convStates=kept, queryStartLoc=torch.tensor([0, 7], **INT),
               cacheIndices=torch.tensor([[3, 1, 0]], **INT), numComputedTokens=torch.tensor([2], **INT),
               blockIdxFirstScheduledToken=torch.tensor([0], **INT), blockIdxLastScheduledToken=torch.tensor([2], **INT),
               initialStateIdx=torch.tensor([0], **INT), padSlotId=-1, blockSize=4, y=y)
    close(y, convolved(states[3], x, weight))
    assert torch.equal(kept[3], x[0:2]) and torch.equal(kept[1], x[4:6]) and torch.equal(kept[0], x[-2:])
    assert torch.equal(kept[2], states[2])


def test_convolution_that_starts_late(call):
    x, weight = torch.randn(1, 4, SIZE), torch.randn(TAPS, SIZE)
    states, y = torch.randn(1, 2, SIZE), torch.empty(1, 4, SIZE)
    wanted = convolved(states[0], x[0], weight)
    wanted[:1] = 0
    call.named("aclnnFusedCausalConv1d", x=x, weight=weight, convStates=states, numComputedTokens=torch.tensor([1], **INT), convMode=1,
               padSlotId=-1, blockSize=128, y=y)
    close(y[0], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("masked", [True, False])
def test_masked_convolution(call, dtype, masked):
    x, weight = torch.randn(5, 2, SIZE).to(dtype).requires_grad_(), torch.randn(TAPS, SIZE).to(dtype).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 0, 1, 1, 1]]).bool() if masked else None
    wanted = F.conv1d(F.pad(x.float().permute(1, 2, 0), (TAPS - 1, 0)), weight.float().t().unsqueeze(1), groups=SIZE).permute(2, 0, 1)
    wanted = wanted * mask.t().unsqueeze(-1) if masked else wanted
    out, grad = torch.empty(5, 2, SIZE).to(dtype), torch.randn(5, 2, SIZE).to(dtype)
    call.named("aclnnMaskedCausalConv1d", x=x.detach(), weight=weight.detach(), maskOptional=mask, out=out)
    close(out, wanted, HALVES[dtype])
    wanted.backward(grad.float())
    by_x, by_weight = torch.empty(5, 2, SIZE).to(dtype), torch.empty(TAPS, SIZE).to(dtype)
    call.named("aclnnMaskedCausalConv1dBackward", gradY=grad, x=x.detach(), weight=weight.detach(), maskOptional=mask, gradXOut=by_x,
               gradWeightOut=by_weight)
    close(by_x, x.grad, HALVES[dtype])
    close(by_weight, weight.grad, HALVES[dtype])


@pytest.mark.parametrize("activation", [0, 1, 2])
def test_bias_activation_and_initial_states(call, activation):
    """A sequence begins with zeros (0), with the cache (1), or with the cache and hidden outputs (2)."""
    x, weight, bias, states = torch.randn(3, 4, SIZE), torch.randn(TAPS, SIZE), torch.randn(SIZE), torch.randn(3, TAPS - 1, SIZE)
    kept, out = states.clone(), torch.empty_like(x)
    call.named("aclnnFusedCausalConv1d", x=x, weight=weight, convStates=kept, initialStateMode=torch.tensor([0, 1, 2], **INT), bias=bias,
               activationMode=activation, residualConnection=1, y=out)
    for b in range(3):
        padded = torch.cat([torch.zeros_like(states[b]) if b == 0 else states[b], x[b]])
        wanted = torch.stack([(padded[i : i + TAPS] * weight).sum(0) for i in range(4)])
        if b == 2:
            wanted[: TAPS - 1] = 0
        wanted = wanted + bias
        close(out[b], (F.silu(wanted) if activation else wanted) + x[b], 1e-5)
        assert torch.equal(kept[b], x[b, -(TAPS - 1) :])


def test_what_is_refused(call):
    given = {"x": torch.ones(1, 4, SIZE), "weight": torch.ones(TAPS, SIZE), "convStates": torch.ones(1, 2, SIZE),
             "y": torch.empty(1, 4, SIZE)}
    for more, text in (({"activationMode": 3}, "activationMode"), ({"convMode": 2}, "convMode 2"),
                       ({"initialStateIdx": torch.zeros(1, **INT)}, "belong together")):
        with pytest.raises(RuntimeError, match="161002.*" + text):
            call.named("aclnnFusedCausalConv1d", **given, **more)
    with pytest.raises(RuntimeError, match="queryStartLoc"):
        call.named("aclnnFusedCausalConv1d", **{**given, "x": torch.ones(4, SIZE), "y": torch.empty(4, SIZE)})
