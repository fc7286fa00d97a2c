"""Lists of tensors: each operator gives for every tensor what torch's function of one gives."""
import pytest
import torch
from nn_client import CALLED

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = ((3,), (4, 5), (2, 3, 4), ())
UNARY = {
    "Abs": torch.abs, "Acos": torch.acos, "Asin": torch.asin, "Atan": torch.atan, "Copy": torch.clone, "Cos": torch.cos, "Cosh": torch.cosh,
    "Erf": torch.erf, "Erfc": torch.erfc, "Exp": torch.exp, "Expm1": torch.expm1, "Neg": torch.neg, "Reciprocal": torch.reciprocal,
    "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh, "Tan": torch.tan, "Tanh": torch.tanh,
    "Log": torch.log, "Log10": torch.log10, "Log1p": torch.log1p, "Log2": torch.log2, "Sqrt": torch.sqrt,
}
BINARY = {"AddList": torch.add, "AddListV2": torch.add, "SubList": torch.sub, "SubListV2": torch.sub, "MulList": torch.mul,
          "DivList": torch.div, "MaximumList": torch.maximum, "MinimumList": torch.minimum, "PowList": torch.pow}
BY_NUMBER = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
             "Maximum": lambda x, s: torch.clamp(x, min=s), "Minimum": lambda x, s: torch.clamp(x, max=s)}
TERNARY = {"Addcdiv": lambda x, y, z, s: x + s * y / z, "Addcmul": lambda x, y, z, s: x + s * y * z}
ROUNDED = {1: torch.round, 2: torch.floor, 3: torch.ceil, 4: lambda x: x.sign() * (x.abs().double() + 0.5).floor(), 5: torch.trunc,
           7: torch.frac}


def tensors(dtype, low=0.2, high=0.9):
    return [(torch.rand(shape) * (high - low) + low).to(dtype) for shape in SHAPES]


def in_float(function, *lists):
    """What float32 gives, rounded once."""
    return [function(*(t.float() for t in each)).to(each[0].dtype) for each in zip(*lists)]


def compare(actual, expected):
    for a, e in zip(actual, expected):
        tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[e.dtype]   # of the last bit
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance, equal_nan=True)


def empty(like):
    return [torch.full_like(t, float("nan")) for t in like]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(call, name, dtype):
    x = tensors(dtype)
    out = empty(x)
    call(f"aclnnForeach{name}", x, out)
    compare(out, in_float(UNARY[name], x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_two_lists(call, name, dtype):
    x, y = tensors(dtype), tensors(dtype)
    out = empty(x)
    alpha = {"AddList": torch.tensor([2.0]).to(dtype), "SubList": torch.tensor([2.0]).to(dtype), "AddListV2": 2.0, "SubListV2": 2.0}.get(name)
    more = [] if alpha is None else [alpha]
    call(f"aclnnForeach{name}", x, y, *more, out)
    compare(out, in_float((lambda a, b: BINARY[name](a, b, alpha=2)) if more else BINARY[name], x, y))


@pytest.mark.parametrize("form", ["Scalar", "ScalarV2", "ScalarList"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BY_NUMBER)
def test_by_numbers(call, name, dtype, form):
    if f"aclnnForeach{name}{form}" not in CALLED:
        pytest.fail("no such operator")
    x = tensors(dtype)
    out = empty(x)
    numbers = [0.25, 0.5, 2.0, 0.75] if form == "ScalarList" else [0.5] * 4
    given = {"Scalar": torch.tensor([0.5]).to(dtype), "ScalarV2": 0.5, "ScalarList": numbers}[form]
    call(f"aclnnForeach{name}{form}", x, given, out)
    compare(out, in_float(lambda a, s: BY_NUMBER[name](a, s.item()), x, [torch.tensor(n) for n in numbers]))


@pytest.mark.parametrize("form", ["Scalar", "ScalarV2", "ScalarList", "List"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TERNARY)
def test_three_lists(call, name, dtype, form):
    x, y, z = tensors(dtype), tensors(dtype), tensors(dtype)
    out = empty(x)
    numbers = [0.5] * 4 if form.startswith("Scalar") and form != "ScalarList" else [0.25, 0.5, 2.0, 0.75]
    given = {"Scalar": torch.tensor([0.5]).to(dtype), "ScalarV2": 0.5}.get(form, torch.tensor(numbers).to(dtype))
    call(f"aclnnForeach{name}{form}", x, y, z, given, out)
    compare(out, in_float(TERNARY[name], x, y, z, [torch.tensor(n) for n in numbers]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lerp(call, dtype):
    x, y, weight = tensors(dtype), tensors(dtype), tensors(dtype)
    out = empty(x)
    call("aclnnForeachLerpList", x, y, weight, out)
    compare(out, in_float(torch.lerp, x, y, weight))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_number_to_the_power_of_tensors(call, dtype):
    x = tensors(dtype)
    out = empty(x)
    call("aclnnForeachPowScalarAndTensor", 2.0, x, out)
    compare(out, in_float(lambda a: torch.pow(2.0, a), x))


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rounded(call, dtype, mode):
    x = [*tensors(dtype, -4, 4), torch.tensor([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388609.0]).to(dtype)]
    for name, given in (("aclnnForeachRoundOffNumber", torch.tensor([mode], dtype=torch.int8)), ("aclnnForeachRoundOffNumberV2", mode)):
        out = empty(x)
        call(name, x, given, out)
        compare(out, in_float(ROUNDED[mode], x))


def test_zeros(call):
    x = tensors(torch.float32)
    call("aclnnForeachZeroInplace", x)
    assert all((t == 0).all() for t in x)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adam(call, amsgrad, maximize):
    params = [torch.randn(4, 5), torch.randn(7)]
    grads = [torch.randn_like(p) for p in params]
    reference = [torch.nn.Parameter(p.clone()) for p in params]
    optimizer = torch.optim.Adam(reference, lr=0.1, betas=(0.8, 0.95), weight_decay=0.01, eps=1e-6, amsgrad=amsgrad, maximize=maximize)
    averages, squares, largest = ([torch.zeros_like(p) for p in params] for _ in range(3))
    for step in (1, 2, 3):
        for r, g in zip(reference, grads):
            r.grad = g.clone()
        optimizer.step()
        call.named("aclnnFusedAdam", paramsRef=params, gradsRef=[g.clone() for g in grads], expAvgsRef=averages, expAvgSqsRef=squares,
                   maxExpAvgSqsRef=largest if amsgrad else [], stateSteps=[torch.tensor(float(step))] * 2, lr=0.1, beta1=0.8, beta2=0.95, weightDecay=0.01,
                   eps=1e-6, amsgrad=amsgrad, maximize=maximize)
    for ours, theirs in zip(params, reference):
        torch.testing.assert_close(ours, theirs.detach())
