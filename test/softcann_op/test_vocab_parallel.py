"""Cross entropy over a split vocabulary, and checks for silent faults, at the C interface."""
import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, close

TOKENS, SIZE, WORDS = 11, 16, 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("keep", [True, False])
def test_loss_of_two_ranks(call, dtype, keep):
    """What two ranks compute, and agree on, is torch's cross entropy over the whole vocabulary."""
    x, whole = torch.randn(TOKENS, SIZE).to(dtype), torch.randn(2 * WORDS, SIZE).to(dtype)
    target, grad = torch.randint(0, 2 * WORDS, (TOKENS,)), torch.rand(TOKENS)
    ranks = []
    for rank in range(2):
        top, sums, predicted = torch.empty(TOKENS), torch.empty(TOKENS), torch.empty(TOKENS)
        bits, place = torch.empty((TOKENS + 7) // 8, dtype=torch.uint8), torch.empty_like(target)
        logits = torch.empty(TOKENS, WORDS).to(dtype) if keep else None
        weight = whole[rank * WORDS:(rank + 1) * WORDS].contiguous()
        call.named("aclnnFusedLinearOnlineMaxSum", input=x, weight=weight, target=target, vocabStartIndex=rank * WORDS,
                   vocabEndIndex=rank * WORDS + WORDS - 1, logitsMaxLocalOut=top, sumExpLogitsLocalOut=sums,
                   predictedLogitsLocalOut=predicted, targetMaskOut=bits, maskedTargetOut=place, vocabParallelLogitsOutOptional=logits)
        ranks.append((weight, top, sums, predicted, bits, place, logits))
    highest = torch.maximum(ranks[0][1], ranks[1][1])
    total = sum(r[2] * (r[1] - highest).exp() for r in ranks)
    own = [(target >= rank * WORDS) & (target < (rank + 1) * WORDS) for rank in range(2)]
    predicted = sum(torch.where(o, r[3] + r[1] - highest, 0.0) for o, r in zip(own, ranks))
    leaves = [t.float().requires_grad_() for t in (x, whole)]
    wanted = F.cross_entropy(leaves[0] @ leaves[1].t(), target, reduction="none")
    wanted.backward(grad)
    by_x, by_weights = torch.zeros(TOKENS, SIZE), []
    for weight, _, _, _, bits, place, logits in ranks:
        loss, softmax = torch.empty(TOKENS), torch.empty(TOKENS, WORDS) if keep else None
        call.named("aclnnFusedCrossEntropyLossWithMaxSum", logitsMax=highest, sumExpLogits=total, predictedLogits=predicted,
                   vocabParallelLogitsOptional=logits, lossOut=loss, softMaxOutOptional=softmax,
                   **({"inputOptional": x, "weightOptional": weight} if keep else {}))
        close(loss, wanted, 1e-4)
        found, by_weight = torch.empty_like(x), torch.empty_like(weight)
        call.named("aclnnFusedLinearCrossEntropyLossGrad", grad=grad, input=x, weight=weight, targetMask=bits, maskedTarget=place,
                   logitsMaxOptional=highest, sumExpLogitsOptional=total, softmaxOptional=softmax, inputGradOut=found,
                   weightGradOut=by_weight)
        by_x += found
        by_weights.append(by_weight)
    close(by_x, leaves[0].grad, 2 * HALVES[dtype])
    close(torch.cat(by_weights), leaves[1].grad, 2 * HALVES[dtype])


def test_what_the_loss_refuses(call):
    one = torch.ones(TOKENS)
    given = {"logitsMax": one, "sumExpLogits": one, "predictedLogits": one, "lossOut": torch.empty(TOKENS)}
    with pytest.raises(RuntimeError, match="labelSmoothing 0.5"):
        call.named("aclnnFusedCrossEntropyLossWithMaxSum", labelSmoothing=0.5, **given)
    with pytest.raises(RuntimeError, match="vocabParallelLogits"):
        call.named("aclnnFusedCrossEntropyLossWithMaxSum", inputOptional=torch.ones(TOKENS, SIZE), **given)


def check(call, value, state, steps, detect=2, grad=None):
    result = torch.full((1,), 9, dtype=torch.int32)
    call.named("aclnnSilentCheck", val=torch.tensor([value]), inputGradRef=grad if grad is not None else torch.ones(3), sfdaRef=state,
               stepRef=steps, cMinSteps=2, cThreshL1=1000.0, cCoeffL1=10.0, cThreshL2=100.0, cCoeffL2=2.0, npuAsdDetect=detect,
               result=result)
    return int(result)


def test_values_that_jump(call):
    state, steps, grad = torch.zeros(3), torch.zeros(1, dtype=torch.int64), torch.ones(3)
    assert [check(call, v, state, steps) for v in (4.0, 6.0, 5.0)] == [0, 0, 0]
    assert state.tolist() == [5.0, 4.0, 6.0] and int(steps) == 3
    assert check(call, 9.5, state, steps) == 2 and state.tolist() == [9.5, 4.0, 9.5]
    assert check(call, 90.0, state, steps, grad=grad) == 1 and not grad.any() and int(steps) == 4
    assert check(call, float("nan"), state, steps, detect=1) == 1 and int(steps) == 5


def test_values_above_the_average(call):
    average, steps, grad, beta = torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.ones(2, 3), 0.9
    expected, levels = 0.0, []
    for step, value in enumerate((0.0, 3.0, 2.0, 80.0, float("inf"))):
        result = torch.full((1,), 9, dtype=torch.int32)
        call.named("aclnnSilentCheckV2", val=torch.tensor([value]), max=torch.zeros(1), avgRef=average, inputGradRef=grad, stepRef=steps,
                   dstSize=[2, 3], dstStride=[3, 1], dstOffset=[0], cThreshL1=1e6, cThreshL2=20.0, beta1=beta,
                   npuAsdDetect=1 if step == 1 else 2, result=result)
        levels.append(int(result))
        if value < float("inf"):
            expected = beta * expected + (1 - beta) * value
            close(average, torch.tensor([expected]))
    assert levels == [0, 1, 0, 2, 1] and int(steps) == 4 and not grad.any()


def test_checksums_of_a_product(call):
    a, b, weight = torch.randn(10, 7), torch.randn(7, 300), torch.randn(300)
    c = a @ b
    c[3, 5] += 50.0  # of the first 256 columns
    c[9, 299] = float("nan")
    out = torch.empty(4, dtype=torch.uint8)
    call.named("aclnnMatmulAbftVerify", a=a, b=b, c=c, checksumWeight=weight, eMax=1e-3, compRow=out)
    assert out.tolist() == [0b11110111, 0b11111111, 0b11111111, 0b11111101]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_and_logits_of_a_shard(call, dtype):
    logits, target = torch.randn(2, 3, 16).to(dtype), torch.tensor([[16, 31, 15], [32, 20, 0]], dtype=torch.int32)
    highest = logits.amax(-1)
    predicted, sums, exponents = torch.empty(2, 3), torch.empty(2, 3), torch.empty(2, 3, 16)
    offset, mask = torch.empty(2, 3, dtype=torch.int32), torch.empty(2, 3, dtype=torch.int32)
    arguments = dict(vocabParallelLogits=logits, target=target, globalLogitsMax=highest, vocabStartIndex=16, predictedLogitsOut=predicted,
                     sumExpLogitsOut=sums, expLogitsOut=exponents, targetOffsetOut=offset, targetMaskOut=mask)
    call.named("aclnnCrossEntropySumExpAndIndexLogit", **arguments, vocabEndIndex=32)
    shifted = logits.float() - highest.float()[..., None]
    assert mask.tolist() == [[0, 0, 1], [1, 0, 1]] and offset.tolist() == [[0, 15, 0], [0, 4, 0]]
    torch.testing.assert_close(exponents, shifted.exp())
    torch.testing.assert_close(sums, shifted.exp().sum(-1))
    torch.testing.assert_close(predicted, shifted.gather(-1, offset.long()[..., None]).squeeze(-1) * (1 - mask))
    with pytest.raises(RuntimeError, match="161002.*words 16 to 30"):
        call.named("aclnnCrossEntropySumExpAndIndexLogit", **arguments, vocabEndIndex=30)
