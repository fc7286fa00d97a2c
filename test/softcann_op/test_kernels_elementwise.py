"""Elementwise operators, reductions, scans, creation, random numbers and foreach lists against torch.

Elementwise results must be torch's bit for bit, on the path for small tensors (3 elements), on ATen's (5000), and
for views.
"""
import math

import pytest
import torch

SIZES = [3, 5000]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
NUMBERS = FLOATS + [torch.int64, torch.int32]


def sample(n, dtype, low=-4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.rand(n, generator=generator) * 8 + low).to(dtype)
    return torch.randint(low, low + 8, (n,), generator=generator).to(dtype)


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


BINARY = {
    "aclnnAdd": lambda a, b: a + b, "aclnnSub": lambda a, b: a - b, "aclnnMul": lambda a, b: a * b,
    "aclnnDiv": lambda a, b: a / b, "aclnnMaximum": torch.maximum, "aclnnMinimum": torch.minimum,
    "aclnnEqTensor": torch.eq, "aclnnNeTensor": torch.ne, "aclnnLtTensor": torch.lt, "aclnnGeTensor": torch.ge,
    "aclnnGtTensor": torch.gt, "aclnnLeTensor": torch.le, "aclnnAtan2": torch.atan2,
    "aclnnFloorDivide": torch.floor_divide, "aclnnRemainderTensorTensor": torch.remainder,
    "aclnnPowTensorTensor": lambda a, b: torch.pow(a.abs(), b),
}
EXTRA = {"aclnnAdd": [1], "aclnnSub": [1]}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(call, name, dtype, n):
    a, b = sample(n, dtype), sample(n, dtype, low=1, seed=1)
    if name == "aclnnPowTensorTensor":
        a = a.abs()
    expected = BINARY[name](a, b)
    out = torch.empty_like(expected)
    call(name, a, b, *EXTRA.get(name, []), out)
    same(out, expected)
    wide = torch.empty(2 * n, dtype=expected.dtype)[::2]  # strided output, one-element operand
    call(name, a, b[:1], *EXTRA.get(name, []), wide)
    torch.testing.assert_close(wide, BINARY[name](a, b[:1]))  # ATen itself rounds otherwise without its vectors


SCALAR = {
    "aclnnAdds": lambda a, s: a + s, "aclnnSubs": lambda a, s: a - s, "aclnnMuls": lambda a, s: a * s,
    "aclnnDivs": lambda a, s: a / s, "aclnnEqScalar": torch.eq, "aclnnGtScalar": torch.gt, "aclnnLtScalar": torch.lt,
    "aclnnPowTensorScalar": torch.pow, "aclnnRemainderTensorScalar": torch.remainder,
    "aclnnRsubs": lambda a, s: s - a, "aclnnFloorDivides": torch.floor_divide,
}
SCALAR_EXTRA = {"aclnnAdds": [1], "aclnnSubs": [1], "aclnnRsubs": [1]}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("value", [2, 1.5], ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("name", SCALAR)
def test_with_a_number(call, name, dtype, value, n):
    a = sample(n, dtype)
    expected = SCALAR[name](a, value)
    out = torch.empty_like(expected)
    call(name, a, value, *SCALAR_EXTRA.get(name, []), out)
    same(out, expected)


def test_an_integer_tensor_and_a_fraction_are_computed_in_the_outputs_type(call):
    a, out = torch.tensor([1, 2, 3]), torch.empty(3, dtype=torch.float64)
    call("aclnnMuls", a, 0.1, out)
    same(out, a.double() * 0.1)


UNARY = {
    "aclnnNeg": torch.neg, "aclnnAbs": torch.abs, "aclnnSqrt": torch.sqrt, "aclnnRsqrt": torch.rsqrt,
    "aclnnReciprocal": torch.reciprocal, "aclnnExp": torch.exp, "aclnnLog": torch.log, "aclnnTanh": torch.tanh,
    "aclnnErf": torch.erf, "aclnnSin": torch.sin, "aclnnCos": torch.cos, "aclnnFloor": torch.floor,
    "aclnnRound": torch.round, "aclnnSign": torch.sign, "aclnnSquare": torch.square, "aclnnIsFinite": torch.isfinite,
    "aclnnLogicalNot": torch.logical_not, "aclnnIsPosInf": torch.isposinf, "aclnnIsInf": torch.isinf,
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(call, name, dtype, n):
    a = sample(n, dtype)
    a[:3] = torch.tensor([-0.0, math.inf, math.nan]).to(dtype)
    expected = UNARY[name](a)
    out = torch.empty_like(expected)
    call(name, a, out)
    same(out, expected)


def test_in_place(call):
    for n in SIZES:
        a, b = sample(n, torch.float32), sample(n, torch.float32, seed=1)
        x = a.clone()
        call("aclnnInplaceAdd", x, b, 0.5)
        same(x, torch.add(a, b, alpha=0.5))
        call("aclnnInplaceMuls", x, 3.0)
        same(x, torch.add(a, b, alpha=0.5) * 3)
        shifted = torch.arange(float(n + 1))
        call("aclnnInplaceCopy", x, a)
        same(x, a)
        call("aclnnInplaceFillScalar", x, 7.0)
        same(x, torch.full((n,), 7.0))
        call("aclnnInplaceZero", x)
        same(x, torch.zeros(n))
        call("aclnnInplaceMaskedFillScalar", shifted, shifted > 1, -1.0)
        same(shifted, torch.arange(float(n + 1)).masked_fill(torch.arange(n + 1) > 1, -1.0))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.complex128], ids=str)
def test_larger_than_the_caches(call, dtype):
    n = (17 << 20) // dtype.itemsize + 1   # an odd rest
    x, y = torch.empty(n + 1, dtype=dtype)[1:], torch.empty(n, dtype=dtype)
    for target in (x, y):
        call("aclnnInplaceFillScalar", target, 3.0)
        same(target, torch.full((n,), 3.0).to(dtype))
        call("aclnnInplaceOne", target)
        same(target, torch.ones(n, dtype=dtype))
        call("aclnnInplaceZero", target)
        same(target, torch.zeros(n, dtype=dtype))
    source = torch.arange(n).to(dtype)
    for target in (x, y):
        call("aclnnInplaceCopy", target, source)
        same(target, source)
    call("aclnnInplaceCopy", x, x)
    same(x, source)


@pytest.mark.parametrize("source", NUMBERS + [torch.bool], ids=str)
@pytest.mark.parametrize("target", NUMBERS + [torch.bool], ids=str)
def test_cast(call, source, target):
    a = sample(70, torch.float32).to(source)
    out = torch.empty(70, dtype=target)
    call("aclnnCast", a, target, out)
    same(out, a.to(target))


def test_ternary(call):
    a, b, c = (sample(100, torch.float32, seed=s) for s in range(3))
    out = torch.empty(100)
    for name, expected, arguments in [
            ("aclnnAddcmul", torch.addcmul(a, b, c, value=0.3), (a, b, c, 0.3)),
            ("aclnnAddcdiv", torch.addcdiv(a, b, c, value=0.3), (a, b, c, 0.3)),
            ("aclnnLerps", torch.lerp(a, b, 0.3), (a, b, 0.3)), ("aclnnLerp", torch.lerp(a, b, c), (a, b, c)),
            ("aclnnClamp", a.clamp(-1, 2), (a, -1.0, 2.0)), ("aclnnClamp", a.clamp(min=-1), (a, -1.0, None)),
            ("aclnnSWhere", torch.where(a > 0, b, c), (a > 0, b, c)),
            ("aclnnNanToNum", torch.nan_to_num(a), (a, 0.0, 3.4e38, -3.4e38))]:
        call(name, *arguments, out)
        same(out, expected)


X = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(5))
REDUCTIONS = [
    ("aclnnReduceSum", (X, [1], False, torch.float32), lambda: X.sum(1)),
    ("aclnnReduceSum", (X, [], False, torch.float32), lambda: X.sum()),
    ("aclnnReduceSum", (X, [0, 2], True, torch.float32), lambda: X.sum((0, 2), keepdim=True)),
    ("aclnnMean", (X, [2], False, torch.float32), lambda: X.mean(2)),
    ("aclnnMean", (X, None, False, torch.float32), lambda: X.mean()),
    ("aclnnAmax", (X, [1], False), lambda: X.amax(1)), ("aclnnAmin", (X, [0, 1], False), lambda: X.amin((0, 1))),
    ("aclnnMax", (X,), lambda: X.max()), ("aclnnMin", (X,), lambda: X.min()),
    ("aclnnMaxDim", (X, 1, False), lambda: X.max(1)), ("aclnnMinDim", (X, -1, True), lambda: X.min(-1, True)),
    ("aclnnArgMax", (X, 1, False), lambda: X.argmax(1)), ("aclnnArgMin", (X, 0, True), lambda: X.argmin(0, True)),
    ("aclnnAll", (X > -9, [1], False), lambda: (X > -9).all(1)), ("aclnnAny", (X > 2, [], False), lambda: (X > 2).any()),
    ("aclnnStd", (X, [1], 1, False), lambda: X.std(1)), ("aclnnVarCorrection", (X, [], 0, False), lambda: X.var(correction=0)),
    ("aclnnVarMean", (X, [2], 1, True), lambda: torch.var_mean(X, 2, keepdim=True)),
    ("aclnnStdMeanCorrection", (X, [2], 1, True), lambda: torch.std_mean(X, 2, keepdim=True)),
    ("aclnnNorm", (X, 2.0, [1], False), lambda: X.norm(2, 1)), ("aclnnNorm", (X, 1.0, [], False), lambda: X.norm(1)),
    ("aclnnLogSumExp", (X, [1], False), lambda: X.logsumexp(1)),
    ("aclnnProd", (X, torch.float32), lambda: X.prod()), ("aclnnProdDim", (X, 1, False, torch.float32), lambda: X.prod(1)),
    ("aclnnMedian", (X,), lambda: X.median()), ("aclnnMedianDim", (X, 1, False), lambda: X.median(1)),
    ("aclnnReduceNansum", (X, [1], False, torch.float32), lambda: X.nansum(1)),
    ("aclnnAminmaxDim", (X, 1, False), lambda: torch.aminmax(X, dim=1)),
    ("aclnnCumsum", (X, 1, torch.float32), lambda: X.cumsum(1)),
    ("aclnnCumprod", (X, 1, torch.float32), lambda: X.cumprod(1)),
    ("aclnnCummax", (X, 1), lambda: X.cummax(1)), ("aclnnCummin", (X, 1), lambda: X.cummin(1)),
    ("aclnnHistc", (X, 10, -3, 3), lambda: X.histc(10, -3, 3)),
    ("aclnnTrace", (X[0],), lambda: X[0, :5, :5].trace()),
]


@pytest.mark.parametrize("name,arguments,reference", REDUCTIONS, ids=[f"{r[0]}-{i}" for i, r in enumerate(REDUCTIONS)])
def test_reductions_and_scans(call, name, arguments, reference):
    expected = reference()
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    outs = [torch.empty_like(e) for e in expected]
    call(name, *arguments, *outs)
    for out, wanted in zip(outs, expected):
        same(out, wanted)


def test_int32_positions(call):
    values, positions = torch.empty(4, 6), torch.empty(4, 6, dtype=torch.int32)
    call("aclnnMaxDim", X, 1, False, values, positions)
    same(positions, X.max(1).indices.int())


def test_creation(call):
    for name, arguments, expected in [
            ("aclnnArange", (0, 10, 3), torch.arange(0, 10, 3)), ("aclnnArange", (0.0, 1.0, 0.25), torch.arange(0, 1, 0.25)),
            ("aclnnRange", (0.0, 1.0, 0.25), torch.tensor([0, 0.25, 0.5, 0.75, 1])),
            ("aclnnLinspace", (0.0, 1.0, 7), torch.linspace(0, 1, 7)), ("aclnnEye", (3, 4), torch.eye(3, 4)),
            ("aclnnLogSpace", (0.0, 2.0, 5, 10.0), torch.logspace(0, 2, 5))]:
        out = torch.empty_like(expected)
        call(name, *arguments, out)
        same(out, expected)


RANDOM = {
    "aclnnInplaceUniform": (-1.0, 3.0), "aclnnInplaceNormal": (1.0, 2.0), "aclnnInplaceRandom": (-5, 6),
    "aclnnInplaceBernoulli": (0.3,),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_functions_of_seed_and_offset(call, name, dtype):
    n = 100003
    x, again, other, strided = (torch.zeros(n, dtype=dtype) for _ in range(4))
    call(name, x, *RANDOM[name], 42, 4)
    call(name, again, *RANDOM[name], 42, 4)
    call(name, other, *RANDOM[name], 42, 8)
    strided = torch.zeros(n, 2, dtype=dtype)[:, 0]
    call(name, strided, *RANDOM[name], 42, 4)
    same(again, x)
    same(strided, x)
    assert not torch.equal(other, x)
    mean, deviation = x.double().mean().item(), x.double().std().item()
    wanted = {"aclnnInplaceUniform": (1, 4 / math.sqrt(12)), "aclnnInplaceNormal": (1, 2),
              "aclnnInplaceRandom": (0, math.sqrt(10)), "aclnnInplaceBernoulli": (0.3, math.sqrt(0.21))}[name]
    assert abs(mean - wanted[0]) < 0.03 and abs(deviation - wanted[1]) < 0.03
    if name == "aclnnInplaceUniform":
        assert x.min() >= -1 and x.max() <= 3
    if name == "aclnnInplaceRandom":
        assert sorted(x.unique().tolist()) == list(range(-5, 6))


def test_permutation_and_sampling(call):
    out = torch.empty(1000, dtype=torch.int64)
    call("aclnnRandperm", 1000, 7, 0, out)
    assert sorted(out.tolist()) == list(range(1000)) and out.tolist() != list(range(1000))
    drawn = torch.empty(10000, dtype=torch.int64)
    call("aclnnMultinomial", torch.tensor([0.1, 0.0, 0.9]), 10000, True, 3, 0, drawn)
    counts = drawn.bincount(minlength=3).tolist()
    assert counts[1] == 0 and abs(counts[0] - 1000) < 200


@pytest.mark.parametrize("n", [5, 1000, 100001])
def test_dropout_by_bit_masks(call, n):
    mask = torch.zeros((n + 127) // 128 * 16, dtype=torch.uint8)
    call("aclnnDropoutGenMaskV2", [n], 0.25, 11, 0, torch.float32, mask)
    x, out, grad = torch.ones(n), torch.empty(n), torch.empty(n)
    call("aclnnDropoutDoMask", x, mask, 0.25, out)
    bits = torch.tensor([(mask[i // 8].item() >> (i % 8)) & 1 for i in range(min(n, 200))])
    same(out[:200], bits.float() / 0.75)
    call("aclnnDropoutBackward", x, mask, 1 / 0.75, grad)
    same(grad, out)
    if n > 10000:
        assert abs(out.bool().float().mean().item() - 0.75) < 0.01
    whole, again = torch.empty(n), torch.zeros_like(mask)
    call("aclnnDropoutV3", x, None, 0.25, 11, 0, whole, again)
    same(whole, out)
    same(again, mask)


def test_foreach(call):
    a, b = [sample(n, torch.float32) for n in (3, 2000, 7)], [sample(n, torch.float32, 1, 1) for n in (3, 2000, 7)]
    c = [x + 1 for x in b]
    for name, arguments, expected in [
            ("aclnnForeachAddListV2", (a, b, 0.5), torch._foreach_add(a, b, alpha=0.5)),
            ("aclnnForeachMulList", (a, b), torch._foreach_mul(a, b)),
            ("aclnnForeachMulScalarV2", (a, 0.1), torch._foreach_mul(a, 0.1)),
            ("aclnnForeachAddScalar", (a, torch.tensor([2.0])), torch._foreach_add(a, 2.0)),
            ("aclnnForeachDivScalarList", (a, [1.5, 2.5, 3.0]), torch._foreach_div(a, [1.5, 2.5, 3.0])),
            ("aclnnForeachSqrt", (b,), torch._foreach_sqrt(b)), ("aclnnForeachExp", (a,), torch._foreach_exp(a)),
            ("aclnnForeachAddcdivScalarV2", (a, b, c, -0.1), torch._foreach_addcdiv(a, b, c, -0.1)),
            ("aclnnForeachAddcmulScalarList", (a, b, c, torch.tensor([1.0, 2.0, 3.0])),
             torch._foreach_addcmul(a, b, c, torch.tensor([1.0, 2.0, 3.0]))),
            ("aclnnForeachLerpScalar", (a, b, 0.2), torch._foreach_lerp(a, b, 0.2)),
            ("aclnnForeachMaximumScalarV2", (a, 0.5), torch._foreach_maximum(a, 0.5)),
            ("aclnnForeachRoundOffNumberV2", (a, 2), torch._foreach_floor(a))]:
        outs = [torch.empty_like(e) for e in expected]
        call(name, *arguments, outs)
        for out, wanted in zip(outs, expected):
            same(out, wanted)
    norms = [torch.empty(()) for _ in a]
    call("aclnnForeachNorm", a, 2.0, norms)
    for norm, x in zip(norms, a):
        same(norm, x.norm())


def test_fused_adamw_is_torchs(call):
    p = torch.nn.Parameter(sample(50, torch.float32))
    p.grad = sample(50, torch.float32, seed=3)
    x, g, m, v = p.detach().clone(), p.grad.clone(), torch.zeros(50), torch.zeros(50)
    optimizer = torch.optim.AdamW([p], lr=0.01, weight_decay=0.1, fused=True)
    for step in range(1, 4):
        optimizer.step()
        call("aclnnApplyAdamWV2", x, m, v, None, g, torch.tensor([step - 1.0]),  # steps before this one
              0.01, 0.9, 0.999, 0.1, 1e-8, False, False)
        torch.testing.assert_close(x, p.detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("operator", ["aclnnFusedAdamw", "aclnnFusedSgd"])
@pytest.mark.parametrize("other", [lambda x: torch.stack([x, -x], -1)[..., 0], lambda x: x.t().contiguous().t()], ids=["gaps", "transposed"])
@pytest.mark.parametrize("which", range(3))   # of parameter, gradient and average
def test_fused_steps_of_tensors_that_lie_otherwise(call, operator, other, which):
    tensors = [sample(40, torch.float32, seed=i).view(5, 8) for i in range(3)]
    relaid = [other(x.clone()) if i == which else x.clone() for i, x in enumerate(tensors)]

    def step(p, g, m):
        square = torch.ones(5, 8)
        if operator == "aclnnFusedAdamw":
            call(operator, [p], [g], [m], [square], [], [torch.tensor(2.0)], None, None, 0.01, 0.9, 0.999, 0.1, 1e-8, False, False)
        else:
            call(operator, [p], [g], [m], None, 0.1, 0.9, 0.01, 0.0, False, False, False)
    step(*tensors)
    step(*relaid)
    for found, expected in zip(relaid, tensors):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fused_steps_by_one_gradient_for_all_elements(call, dtype):
    start, one = sample(20, dtype).view(4, 5), torch.ones(1, 1, dtype=dtype)
    found, expected = start.clone(), start.clone()
    for p, gradient in ((found, one.expand(4, 5)), (expected, torch.ones_like(start))):
        call("aclnnFusedSgd", [p], [gradient], [torch.zeros_like(p)], None, 0.1, 0.9, 0.01, 0.0, False, False, False)
        call("aclnnApplyAdamWV2", p, torch.zeros_like(p), torch.zeros_like(p), None, gradient, torch.tensor([0.0]),
             0.01, 0.9, 0.999, 0.1, 1e-8, False, False)
        call("aclnnFusedAdamw", [p], [gradient], [torch.zeros_like(p)], [torch.zeros_like(p)], [], [torch.tensor(2.0)], None, None,
             0.01, 0.9, 0.999, 0.1, 1e-8, False, False)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("decay_into", ["gradient", "step"])
def test_adam_with_an_average_of_parameters(call, decay_into):
    kind = {"gradient": torch.optim.Adam, "step": torch.optim.AdamW}[decay_into]
    p = torch.nn.Parameter(sample(50, torch.float32))
    x, m, v, s = p.detach().clone(), torch.zeros(50), torch.zeros(50), torch.zeros(50)
    average = s.clone()
    optimizer = kind([p], lr=0.01, weight_decay=0.1)
    for step in range(1, 4):
        p.grad = sample(50, torch.float32, seed=step)
        optimizer.step()
        average = 0.9 * average + 0.1 * p.detach()
        call("aclnnApplyFusedEmaAdam", p.grad, x, m, v, s, torch.tensor([step]), 0.01, 0.9, 0.9, 0.999, 1e-8,
             decay_into == "step", True, 0.1)
        torch.testing.assert_close(x, p.detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(s, average, rtol=1e-5, atol=1e-5)
    start = x.clone()
    call("aclnnApplyFusedEmaAdam", p.grad, x, m.zero_(), v.zero_(), s, torch.tensor([1]), 0.01, 0.9, 0.5, 0.75, 1e-8, 1, False, 0.0)
    torch.testing.assert_close(x, start - 0.01 * p.grad.sign(), rtol=1e-5, atol=1e-5)  # (1 - 0.5) / sqrt(1 - 0.75): no correction
    with pytest.raises(RuntimeError, match="mode 2"):
        call("aclnnApplyFusedEmaAdam", p.grad, x, m, v, s, torch.tensor([1]), 0.01, 0.9, 0.5, 0.75, 1e-8, 2, False, 0.0)


def test_is_close_of_bool(call):
    a, b, out = torch.tensor([True, False, True]), torch.tensor([True, True, False]), torch.empty(3, dtype=torch.bool)
    call("aclnnIsClose", a, b, 1e-5, 1e-8, False, out)
    assert out.tolist() == [True, False, False]


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32, torch.float32), (torch.float16, torch.float32, torch.float32),
                                    (torch.int32, torch.float32, torch.float32), (torch.int32, torch.int32, torch.int32),
                                    (torch.bfloat16,) * 3, (torch.int8,) * 3])
def test_quotients_and_remainders_of_tensorflow(call, dtypes):
    a = torch.tensor([7, -7, 5, -5, 0, 3]).to(dtypes[0])
    b, out = torch.tensor([2, 2, -3, -3, 4, 1]).to(dtypes[1]), torch.empty(6).to(dtypes[2])
    for name, wanted in (("aclnnTruncateDiv", [3, -3, -1, 1, 0, 3]), ("aclnnTruncateMod", [1, -1, 2, -2, 0, 0]),
                         ("aclnnFloorDiv", [3, -4, -2, 1, 0, 3])):
        call.named(name, x1=a, x2=b, yOut=out)
        assert out.tolist() == wanted, name


def test_products_in_which_zero_wins(call):
    a, out = torch.tensor([math.inf, math.nan, 2.0, math.inf]), torch.empty(4)
    call.named("aclnnMulNoNan", x1=a, x2=torch.tensor([0.0, 0.0, 3.0, 2.0]), yOut=out)
    assert out.tolist() == [0, 0, 6, math.inf]


def test_lists_in_place(call):
    a, b = [torch.rand(3), torch.rand(2, 2) + 1], [torch.rand(3) + 1, torch.rand(2, 2) + 1]
    half = torch.tensor([0.5])
    for name, more, function in (("AddList", {"alpha": half}, lambda x, y: x + 0.5 * y), ("SubList", {"alpha": half}, lambda x, y: x - 0.5 * y),
                                 ("MulList", {}, torch.mul), ("DivList", {}, torch.div)):
        made = [x.clone() for x in a]
        call.named(f"aclnnForeach{name}Inplace", x1=made, x2=b, **more)
        for x, y, found in zip(a, b, made):
            torch.testing.assert_close(found, function(x, y))
    for name, more, function in (("MulScalar", {"scalar": half}, lambda x: x * 0.5), ("SubScalar", {"scalar": half}, lambda x: x - 0.5),
                                 ("Log", {}, torch.log), ("ACos", {}, torch.acos)):
        made = [x.clone() for x in a]
        call.named(f"aclnnForeach{name}Inplace", x=made, **more)
        for x, found in zip(a, made):
            torch.testing.assert_close(found, function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_quotient_without_a_place(call, dtype):
    """The least number by -1: the processor's instruction ends the process, where a device wraps around."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([least, 7, -7, least], dtype=dtype), torch.tensor([-1, -1, 2, 2], dtype=dtype)
    wanted, out = torch.tensor([least, -7, -3, least // 2], dtype=dtype), torch.empty(4, dtype=dtype)
    call.named("aclnnDivMod", self=x, other=y, mode=1, out=out)
    assert torch.equal(out, wanted)
    call.named("aclnnTruncateDiv", x1=x, x2=y, yOut=out)
    assert torch.equal(out, wanted)
    call.named("aclnnDivMods", self=x, other=-1, mode=1, out=out)
    wanted = torch.tensor([least, -7, 7, least], dtype=dtype)
    assert torch.equal(out, wanted)
    call.named("aclnnDivMods", self=x, other=-1, mode=1, out=(floats := torch.empty(4)))   # the quotient is a whole one all the same
    assert torch.equal(floats, wanted.float())


@pytest.mark.parametrize("name, arguments", [
    ("aclnnRelu", ()), ("aclnnSigmoid", ()), ("aclnnElu", (1.0, 1.0, 1.0)), ("aclnnMish", ()), ("aclnnSoftplus", (1.0, 20.0)), ("aclnnCumsum", (1, torch.float32)),
    ("aclnnSoftmax", (1,)), ("aclnnGather", (1, torch.zeros(3, 4, dtype=torch.long)))])
def test_a_result_of_another_shape_is_refused(call, name, arguments):
    x = torch.randn(3, 4)
    call(name, x, *arguments, torch.empty(3, 4))
    for shape in (12,), (4, 3), (3, 4, 1), (2, 6):   # as many elements
        with pytest.raises(RuntimeError, match=r"161002.*should have had the shape \[3, 4\]"):
            call(name, x, *arguments, torch.empty(shape))
