"""softcann's own loops, where ATen's are slow: comparing, choosing by a mask, sums of products, variances,
softmax, triangles, transposed copies.

What moves elements must be torch's bit for bit, whatever the strides; what adds up is judged by float64.
"""
import math

import pytest
import torch
from test_kernels_elementwise import same
from torch.nn import functional as F

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
EVERY = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
LENGTHS = [1, 17, 511, 512, 513, 70000]  # around a strip, and more than one thread takes


def numbers(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-3, 4, shape, generator=generator)
    if dtype.is_floating_point:
        values = values.float()
        values.view(-1)[::7] = torch.tensor(SPECIAL).repeat(values.numel())[:values.view(-1)[::7].numel()]
    return values.clamp(min=0).to(dtype) if dtype in (torch.uint8, torch.bool) else values.to(dtype)


def layouts(dtype):
    """Pairs (a, b) of tensors that broadcast against each other, in every order of memory that matters."""
    for n in LENGTHS:
        yield numbers((n,), dtype), numbers((n,), dtype, 1)
    a, b = numbers((600, 40), dtype), numbers((40, 600), dtype, 1)
    yield a, b.t()
    yield a.t(), b
    yield a[::2, 1::3], b.t()[::2, 1::3]
    yield a, b.t()[0]
    yield a, b.t()[:, :1]
    yield a[:1], b.t()
    yield a, b[0, 0]
    yield a.flatten()[::2], b.flatten()[1::2]


COMPARISONS = {"Eq": torch.eq, "Ne": torch.ne, "Lt": torch.lt, "Le": torch.le, "Gt": torch.gt, "Ge": torch.ge}


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(call, name, dtype):
    for a, b in layouts(dtype):
        expected = COMPARISONS[name](a, b)
        out = torch.full(expected.shape, True)
        call(f"aclnn{name}Tensor", a, b, out)
        same(out, expected)
        apart = torch.full((*expected.shape, 2), True)[..., 0]
        call(f"aclnn{name}Tensor", a, b, apart)
        same(apart, expected)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_numbers(call, name, dtype):
    a = numbers((5000,), dtype)
    for number in (0, 2, -1, 1.5, 1e300, 2**40, -2**40, math.nan, math.inf, True):
        if dtype not in (torch.int64, torch.float32, torch.float64) and abs(number) > 2**31:
            continue  # torch itself wraps such numbers, or refuses them
        out, expected = torch.full(a.shape, True), COMPARISONS[name](a, number)
        call(f"aclnn{name}Scalar", a, number, out)
        same(out, expected)


@pytest.mark.parametrize("dtype", EVERY + [torch.complex64, torch.complex128], ids=str)
def test_where(call, dtype):
    for a, b in layouts(dtype if not dtype.is_complex else torch.float32):
        a, b = a.to(dtype), b.to(dtype)
        mask = numbers(torch.broadcast_shapes(a.shape, b.shape), torch.bool, 2)
        for condition in (mask, mask.as_strided(mask.shape, [0] * mask.dim())):
            expected = torch.where(condition, a, b)
            for out in (torch.full_like(expected, 1), torch.full((*expected.shape, 2), 1, dtype=dtype)[..., 1]):
                call("aclnnSWhere", condition, a, b, out)
                same(out, expected)


def test_where_into_one_of_its_inputs(call):
    a, b, mask = torch.randn(3000), torch.randn(3000), torch.rand(3000) > 0.5
    for inputs in ((a.clone(), b), (a, b.clone())):
        out = inputs[0] if inputs[1] is b else inputs[1]
        expected = torch.where(mask, a, b)
        call("aclnnSWhere", mask, *inputs, out)
        same(out, expected)


@pytest.mark.parametrize("dtype", EVERY + [torch.complex64], ids=str)
def test_masked_fill(call, dtype):
    value = True if dtype == torch.bool else 3
    for a, b in layouts(dtype if not dtype.is_complex else torch.float32):
        expected = torch.broadcast_tensors(a, b)[0].to(dtype).clone()
        mask = b == 1  # of fewer dimensions than the tensor, at times
        for target in (expected.clone(), torch.stack([expected, expected], -1)[..., 0]):
            call("aclnnInplaceMaskedFillScalar", target, mask, value)
            wanted = expected.masked_fill(mask, value)
            same(target, wanted)
        filled = expected.clone()
        call("aclnnInplaceMaskedFillTensor", filled, mask.to(torch.uint8), torch.tensor([value]).to(dtype))
        same(filled, wanted)


@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded tensors:UserWarning")
def test_masked_fill_of_an_expanded_tensor(call):
    for value in (2.0, torch.tensor(2.0)):
        expected, got = torch.zeros(3, 1).expand(3, 4), torch.zeros(3, 1).expand(3, 4)
        mask = torch.tensor([True, False, True])[:, None].expand(3, 4)
        expected.masked_fill_(mask, value)
        call("aclnnInplaceMaskedFill" + ("Tensor" if torch.is_tensor(value) else "Scalar"), got, mask, value)
        same(got, expected)


def test_factors_beyond_float_are_refused(call):
    x, out = torch.ones(5), torch.ones(5)
    for name, operands in (("Add", 2), ("Sub", 2), ("Addcmul", 3), ("Addcdiv", 3)):
        with pytest.raises(RuntimeError):
            call(f"aclnn{name}", *[x] * operands, 1e40, out)
        call(f"aclnn{name}", *[x] * operands, math.inf, out)


def test_masked_fill_refuses_what_a_dtype_cannot_hold(call):
    x = torch.zeros(3000, dtype=torch.int8)
    with pytest.raises(RuntimeError):
        call("aclnnInplaceMaskedFillScalar", x, x == 0, 1000)
    x = torch.zeros(3000)
    call("aclnnInplaceMaskedFillScalar", x, x == 0, -math.inf)
    assert torch.isneginf(x).all()


SHAPES = [((7,), []), ((1,), []), ((70000,), []), ((5, 0), []), ((40, 33), [1]), ((40, 33), [0]), ((40, 33), [0, 1]), ((3, 5, 7, 2), [1, 2]),
          ((3, 5, 7, 2), [0, 3]), ((3, 5, 7, 2), [-1, 1]), ((2, 300, 600), [1]), ((2, 300, 600), [0]), ((3, 40000), [1]), ((40000, 3), [0]), ((4, 1, 6), [1])]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("correction", [0, 1, 5])
@pytest.mark.parametrize("offset", [0, 1000])
def test_variance(call, dtype, correction, offset):
    for shape, dims in SHAPES:
        for order in (None, list(reversed(range(len(shape))))):
            x = (torch.randn(shape, dtype=torch.float64) + offset).to(dtype)
            if order:
                x = x.permute(order).contiguous().permute(order)
            wide = x.double()
            # Without the offset, which is taken off exactly, the reference loses nothing itself.
            variance, mean = torch.var_mean(wide - offset, dims or None, correction=correction, keepdim=True)
            mean += offset
            tolerance = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]

            def close(got, expected):
                torch.testing.assert_close(got.double(), expected.to(dtype).double(), rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)

            out, out_mean = torch.full(variance.shape, 9.0, dtype=dtype), torch.full(variance.shape, 9.0, dtype=dtype)
            call("aclnnVarMean", x, dims, correction, True, out, out_mean)
            close(out, variance)
            close(out_mean, mean)
            call("aclnnStdMeanCorrection", x, dims, correction, True, out, out_mean)
            close(out, variance.sqrt())
            close(out_mean, mean)
            apart = torch.full((*variance.shape, 2), 9.0, dtype=dtype)[..., 0]
            call("aclnnStd", x, dims, correction, True, apart)
            close(apart, variance.sqrt())


def test_variance_of_special_values(call):
    for value in SPECIAL[:3]:
        x, out = torch.randn(3, 50), torch.empty(3)
        x[1, 20] = value
        call("aclnnVarCorrection", x, [1], 1, False, out)
        assert out[1].isnan() and not out[[0, 2]].isnan().any()
        first = torch.randn(3, 50)
        first[:, 0] = value
        call("aclnnVarCorrection", first, [1], 1, False, out)
        assert out.isnan().all()
    same_everywhere, out = torch.full((2, 5000), 1e30), torch.empty(2)
    call("aclnnVarCorrection", same_everywhere, [1], 1, False, out)
    assert (out == 0).all()


def test_variance_does_not_depend_on_threads(call):
    x, results = torch.randn(200000), []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            out = torch.empty(())
            call("aclnnVarCorrection", x, [], 1, False, out)
            results.append(out)
    finally:
        torch.set_num_threads(threads)
    same(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16, torch.bool, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (3, 4, 6), (300, 300), (2, 0, 3), (3, 0), (1, 1)])
def test_triangles(call, dtype, shape):
    x = torch.randint(1, 5, shape).to(dtype)
    for diagonal in (0, 1, -2, 100, -100, 2**62, -2**62):
        reach = max(-1000, min(1000, diagonal))
        for name, function in (("Tril", torch.tril), ("Triu", torch.triu)):
            expected = function(x, reach)
            for source in (x, x.transpose(-1, -2).contiguous().transpose(-1, -2)):
                out = torch.full_like(x, 3, memory_format=torch.contiguous_format)
                call(f"aclnn{name}", source, diagonal, out)
                assert torch.equal(out, expected)
                target = source.clone()
                call(f"aclnnInplace{name}", target, diagonal)
                assert torch.equal(target, expected)
                apart = torch.full((*shape, 2), 3).to(dtype)[..., 0]
                call(f"aclnn{name}", source, diagonal, apart)
                assert torch.equal(apart, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.complex64, torch.complex128], ids=str)
def test_transposed_copies(call, dtype):
    cases = [((64, 64), (1, 0)), ((100, 37), (1, 0)), ((8, 1000), (1, 0)), ((1000, 9), (1, 0)), ((7, 500), (1, 0)), ((3, 17, 5, 33), (0, 2, 3, 1)),
             ((3, 17, 5, 33), (3, 2, 1, 0)), ((3, 17, 5, 33), (0, 3, 1, 2)), ((2, 3, 40, 50), (0, 1, 3, 2)), ((2, 40, 1, 50), (3, 2, 1, 0)), ((300, 310), (1, 0))]
    for shape, order in cases:
        x = torch.randint(-100, 100, shape).to(dtype)
        expected = x.permute(order).clone(memory_format=torch.contiguous_format)
        for source in (x, torch.stack([x, x], 0)[1], torch.nn.functional.pad(x.real.float(), (1, 2, 1, 2)).to(dtype)[..., 1:-2, 1:-2]):
            out = torch.zeros(expected.shape, dtype=dtype)
            call("aclnnInplaceCopy", out, source.permute(order))
            assert torch.equal(out, expected)
            out = torch.zeros(expected.shape, dtype=dtype)
            call("aclnnPermute", source, list(order), out)
            assert torch.equal(out, expected)
        back = [order.index(i) for i in range(len(order))]
        out = torch.zeros(expected.shape, dtype=dtype).permute(back)
        call("aclnnInplaceCopy", out, x)
        assert torch.equal(out, x)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 1024, 1025])
def test_sums_of_products_round_as_torch(call, n):
    a, b, c = torch.randn(n), torch.randn(n), torch.randn(n)
    for value in (1, 0.3, -2.5):
        for name, function, operands in [
                ("Add", lambda a, b, alpha: torch.add(a, b, alpha=alpha), (a, b)), ("Sub", lambda a, b, alpha: torch.sub(a, b, alpha=alpha), (a, b)),
                ("Addcmul", lambda *abc: torch.addcmul(*abc[:3], value=abc[3]), (a, b, c)),
                ("Addcdiv", lambda *abc: torch.addcdiv(*abc[:3], value=abc[3]), (a, b, c)), ("Lerps", torch.lerp, (a, b))]:
            out, expected = torch.empty(n), function(*operands, value)
            call(f"aclnn{name}", *operands, value, out)
            same(out, expected)
            target = a.clone()
            call(f"aclnnInplace{name}", target, *operands[1:], value)
            same(target, expected)


@pytest.mark.parametrize("name,function", [("aclnnSoftmax", torch.softmax), ("aclnnLogSoftmax", torch.log_softmax)])
@pytest.mark.parametrize("scale", [1, 30, 1e-3])
def test_softmax_of_rows(call, name, function, scale):
    for rows, columns in [(3, 8), (5, 15), (1, 16), (4, 17), (2, 31), (7, 32), (3, 33), (2, 47), (33, 1000), (1, 100000), (9, 7)]:
        x = torch.randn(rows, columns) * scale
        expected = function(x.double(), -1)
        rounding = 1e-6 + (x.max() - x.min()).item() * 2**-24  # that of x - max, which is the exponent
        for dim in (1, -1):
            out = torch.full_like(x, 9)
            call(name, x, dim, out)
            torch.testing.assert_close(out.double(), expected, rtol=rounding, atol=2**-126 if name == "aclnnSoftmax" else 1e-6)
        target = x.clone()
        call(name, target, 1, target)
        same(target, out)


def test_softmax_of_special_values(call):
    for columns in (9, 16, 40):
        for place in (0, columns - 1):
            for value in SPECIAL[:3]:
                x = torch.randn(3, columns)
                x[1, place] = value
                for name, function in (("aclnnSoftmax", torch.softmax), ("aclnnLogSoftmax", torch.log_softmax)):
                    out = torch.empty_like(x)
                    call(name, x, 1, out)
                    torch.testing.assert_close(out, function(x, 1), equal_nan=True)
        hidden = torch.full((2, columns), -math.inf)
        out = torch.empty_like(hidden)
        call("aclnnSoftmax", hidden, 1, out)
        assert out.isnan().all()
        hidden[:, 3] = -1e30
        call("aclnnSoftmax", hidden, 1, out)
        same(out, torch.softmax(hidden, 1))


def test_a_transposed_copy_within_one_tensor(call):
    x = torch.arange(10000.0).view(100, 100)
    for rows in (50, 64):
        expected = x.clone()
        expected[:rows, :rows] = x[:rows, :rows].t().clone()
        got = x.clone()
        call("aclnnInplaceCopy", got[:rows, :rows], got[:rows, :rows].t().clone())
        assert torch.equal(got, expected)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40, 5000])
def test_tanh_gelu(call, count):
    """Both directions against float64, also where the tangent cancels, overflows or is no number; in place too."""
    special = torch.tensor([0.0, -0.0, 1e-20, -1e-20, 63.0, -63.0, 88.0, -88.0, 1e4, -1e4, 3e38, -3e38])
    x = torch.cat([special, torch.randn(count) * 4])[:count] if count > 1 else torch.tensor([-3.0])
    grad = torch.randn(count)
    wide = x.double().requires_grad_()
    u = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    expected = wide * torch.sigmoid(2 * u)  # float64's own tangent cancels too
    expected.backward(grad.double())
    out, result = torch.empty(count), torch.empty(count)
    call("aclnnGeluV2", x, 1, out)
    call("aclnnGeluBackwardV2", grad, x, "tanh", result)
    torch.testing.assert_close(out.double(), expected.detach(), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(result.double(), wide.grad, rtol=2e-6, atol=1e-6)
    same = x.clone()
    call("aclnnGeluV2", same, 1, same)
    assert torch.equal(same, out)
    odd = torch.tensor([float("nan"), float("inf"), float("-inf")])
    out = torch.empty(3)
    call("aclnnGeluV2", odd, 1, out)
    assert torch.equal(out.isnan(), F.gelu(odd, approximate="tanh").isnan()) and out[1] == float("inf")


@pytest.mark.parametrize("rows,columns", [(0, 5), (1, 1), (16, 96), (17, 64), (33, 130), (1000, 16)])
def test_column_sums(call, rows, columns):
    """Small matrices, with and without the dimension kept, also where the sums cancel."""
    x = torch.randn(rows, columns) * 1000
    for keep in (False, True):
        out = torch.empty((1, columns) if keep else columns)
        call("aclnnReduceSum", x, [0], keep, torch.float32, out)
        torch.testing.assert_close(out.double(), x.double().sum(0, keepdim=keep), rtol=1e-6, atol=1e-6 * 1000 * max(rows, 1) ** 0.5)


def lists(dtype, count=3):
    """Lists of tensors of the same shapes: empty, small, large, with gaps, transposed."""
    def one(seed):
        torch.manual_seed(seed)
        made = [torch.rand(n) * 8 + 0.5 for n in (0, 1, 31, 1024, 5000, 70000)]
        made += [(torch.rand(60) + 0.5)[::2], torch.rand(12, 7).t() + 0.5, (torch.rand(3, 1) + 0.5).expand(3, 4)]
        return [x.to(dtype) for x in made]
    return [one(seed) for seed in range(count)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_lists(call, dtype):
    """Every list operator with a loop of its own, bit for bit as torch's single one; results in place too."""
    a, b, c = lists(dtype)
    n = len(a)
    numbers = [2] * n if dtype == torch.int64 else [0.3 + i for i in range(n)]
    cases = [
        ("AddListV2", (a, b, 2), lambda i: torch.add(a[i], b[i], alpha=2)), ("SubListV2", (a, b, 3), lambda i: torch.sub(a[i], b[i], alpha=3)),
        ("AddScalarV2", (a, 2), lambda i: a[i] + 2), ("SubScalarV2", (a, 2), lambda i: a[i] - 2), ("MulScalarV2", (a, 3), lambda i: a[i] * 3),
        ("MulScalarList", (a, numbers), lambda i: a[i] * numbers[i]), ("AddScalarList", (a, numbers), lambda i: a[i] + numbers[i]),
        ("MulList", (a, b), lambda i: a[i] * b[i]), ("AddcmulScalarV2", (a, b, c, 2), lambda i: torch.addcmul(a[i], b[i], c[i], value=2)),
    ]
    if dtype != torch.int64:
        cases += [
            ("DivList", (a, b), lambda i: a[i] / b[i]), ("DivScalarV2", (a, 0.3), lambda i: a[i] / 0.3),
            ("DivScalarList", (a, numbers), lambda i: a[i] / numbers[i]), ("Sqrt", (a,), lambda i: a[i].sqrt()),
            ("AddcdivScalarV2", (a, b, c, -0.1), lambda i: torch.addcdiv(a[i], b[i], c[i], value=-0.1)),
            ("LerpScalar", (a, b, 0.2), lambda i: torch.lerp(a[i], b[i], 0.2)), ("LerpScalar", (a, b, 0.7), lambda i: torch.lerp(a[i], b[i], 0.7)),
        ]
    for name, arguments, single in cases:
        expected = [single(i) for i in range(n)]
        outs = [torch.empty_like(e) for e in expected]
        call(f"aclnnForeach{name}", *arguments, outs)
        for out, wanted in zip(outs, expected):
            same(out, wanted)
        own = [x.clone() for x in a]  # the same order of memory
        call(f"aclnnForeach{name}", own, *arguments[1:], own)
        for out, wanted in zip(own, expected):
            same(out, wanted)
