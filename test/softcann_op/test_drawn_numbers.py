"""Operators that draw numbers: their distribution, and that seed and offset alone decide what they draw, however they are given."""
import math

import pytest
import torch
from nn_client import close

N = 20000


def seeds(seed=11, offset=3):
    """As tensors, the number in the call is added to the offset."""
    return dict(seedTensor=torch.tensor([seed]), offsetTensor=torch.tensor([offset - 1]), offset=1)


def uniform(low, high):
    return (low + high) / 2, (high - low) / math.sqrt(12)


# Arguments, mean, standard deviation.
IN_PLACE = {
    "Uniform": ({"from": -2.0, "to": 6.0}, *uniform(-2, 6)),
    "Normal": (dict(mean=1.0, std=2.0), 1, 2),
    "Random": ({"from": 10, "to": 20}, 14.5, math.sqrt(99 / 12)),
}


def check(drawn, mean, std):
    drawn = drawn.double()
    assert abs(drawn.mean() - mean) < 5 * std / math.sqrt(N)
    assert abs(drawn.std() / std - 1) < 0.05


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(call, name):
    arguments, mean, std = IN_PLACE[name]
    by_numbers, by_tensors, again, other = (torch.zeros(N) for _ in range(4))
    call.named(f"aclnnInplace{name}", selfRef=by_numbers, **arguments, seed=11, offset=3)
    call.named(f"aclnnInplace{name}", selfRef=again, **arguments, seed=11, offset=3)
    call.named(f"aclnnInplace{name}", selfRef=other, **arguments, seed=12, offset=3)
    call.named(f"aclnnInplace{name}Tensor", selfRef=by_tensors, **arguments, **seeds())
    check(by_numbers, mean, std)
    assert torch.equal(by_numbers, again) and torch.equal(by_numbers, by_tensors) and not torch.equal(by_numbers, other)


def test_whole_range(call):
    drawn, by_tensors = torch.zeros(N), torch.zeros(N)
    call.named("aclnnInplaceRandomWithoutFromTo", selfRef=drawn, seed=11, offset=3)
    call.named("aclnnInplaceRandomWithoutFromToTensor", selfRef=by_tensors, **seeds())
    check(drawn, *uniform(0, 2**24))   # all whole numbers that a float32 has room for
    assert torch.equal(drawn, by_tensors)


def test_normal_of_means_and_deviations(call):
    mean, std = torch.full((N,), 1.0), torch.full((N,), 2.0)
    drawn = {}
    for name, first, second in (("FloatFloat", 1.0, 2.0), ("FloatTensor", 1.0, std), ("TensorFloat", mean, 2.0), ("TensorTensor", mean, std)):
        drawn[name] = torch.zeros(N)
        call.named(f"aclnnNormal{name}", mean=first, std=second, seed=11, offset=3, out=drawn[name])
        check(drawn[name], 1, 2)
        close(drawn[name], drawn["FloatFloat"])


def test_bernoulli(call):
    one, each = torch.zeros(N), torch.zeros(N)
    call.named("aclnnBernoulli", self=torch.zeros(N), prob=0.3, seed=11, offset=3, out=one)
    call.named("aclnnBernoulliTensor", self=torch.zeros(N), prob=torch.full((N,), 0.3), seed=11, offset=3, out=each)
    check(one, 0.3, math.sqrt(0.21))
    check(each, 0.3, math.sqrt(0.21))


def test_exponential(call):
    drawn = torch.zeros(N)
    call.named("aclnnStatelessExponentialTensor", self=drawn, **seeds(), lambd=2.0)
    check(drawn, 0.5, 0.5)
    assert (drawn >= 0).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(call, replacement):
    weights = torch.tensor([[1.0, 0, 3, 4], [4, 3, 0, 1]])
    count = 4000 if replacement else 3
    by_numbers, by_tensors = torch.zeros(2, count, dtype=torch.int64), torch.zeros(2, count, dtype=torch.int64)
    call.named("aclnnMultinomial", self=weights, numsamples=count, replacement=replacement, seed=11, offset=3, out=by_numbers)
    call.named("aclnnMultinomialTensor", self=weights, numsamples=count, replacement=replacement, **seeds(), out=by_tensors)
    assert torch.equal(by_numbers, by_tensors)
    if replacement:
        close(torch.nn.functional.one_hot(by_numbers, 4).float().mean(1), weights / 8, 0.05)
    else:
        assert by_numbers.sort(1).values.tolist() == [[0, 2, 3], [0, 1, 3]]


def test_dropout(call):
    x, out, mask = torch.rand(N) + 1, torch.zeros(N), torch.zeros(N // 8 // 16 * 16 + 16, dtype=torch.uint8)
    call.named("aclnnDropout", input=x, p=0.25, train=True, seed=11, offset=3, out=out, maskOut=mask)
    kept = out != 0
    check(kept.float(), 0.75, math.sqrt(0.1875))
    close(out[kept], x[kept] / 0.75)
    call.named("aclnnDropout", input=x, p=0.25, train=False, seed=11, offset=3, out=out, maskOut=mask)
    assert torch.equal(out, x)


def test_dropout_masks(call):
    bits = torch.zeros(N // 8 // 16 * 16, dtype=torch.uint8)
    by_numbers = bits.clone()
    count = bits.numel() * 8
    call.named("aclnnDropoutGenMaskV2Tensor", shape=[count], prob=0.25, **seeds(), probDataType=torch.float32, out=bits)
    call.named("aclnnDropoutGenMaskV2", shape=[count], prob=0.25, seed=11, offset=3, probDataType=torch.float32, out=by_numbers)
    assert torch.equal(bits, by_numbers)
    kept = (bits.unsqueeze(-1) >> torch.arange(8)) & 1
    check(kept.flatten().float(), 0.75, math.sqrt(0.1875))

    x, out, mask = torch.rand(count) + 1, torch.zeros(count), torch.zeros_like(bits)
    call.named("aclnnDropoutV3Tensor", input=x, p=0.25, **seeds(), out=out, maskOut=mask)
    kept = ((mask.unsqueeze(-1) >> torch.arange(8)) & 1).flatten().bool()
    check(kept.float(), 0.75, math.sqrt(0.1875))
    close(out, torch.where(kept, x / 0.75, 0))
