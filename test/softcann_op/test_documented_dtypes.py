"""Dtypes that CANN's pages of its operators list and that ATen's kernels of the same name do not take, with their results."""
import pytest
import torch
from nn_client import close

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
BITS = {torch.uint16: 16, torch.uint32: 32, torch.uint64: 64}


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.tolist() == expected.tolist(), (actual, expected)


def great(dtype):
    """[2, 4] numbers, of which some have the highest bit set."""
    top = 1 << (BITS[dtype] - 1)
    return torch.tensor([[3, top, 2 * top - 1, 0], [top + 5, 7, 1, top - 1]], dtype=dtype)


def as_python(function, *tensors):
    return [[function(*numbers) for numbers in zip(*rows)] for rows in zip(*(tensor.tolist() for tensor in tensors))]


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_numbers_are_moved_and_counted(call, dtype):
    x, index = great(dtype), torch.tensor([[2, 0], [1, 3]])
    for strided in (x, x.t().contiguous().t()):
        out = torch.empty(2, 2, dtype=dtype)
        call("aclnnGather", strided, 1, index, out)
        same(out, torch.tensor([[x.tolist()[0][2], 3], [7, x.tolist()[1][3]]], dtype=dtype))
        call("aclnnTake", strided, index, out)
        same(out, torch.tensor([[x.tolist()[0][2], 3], [x.tolist()[0][1], 0]], dtype=dtype))
    for name, expected in ("aclnnNonzero", x.long().nonzero()), ("aclnnNonzeroV2", x.long().nonzero().t().contiguous()):
        out = torch.empty(16, dtype=torch.int64)
        call(name, x, out.view(8, 2) if name == "aclnnNonzero" else out.view(2, 8))
        same(out[:14].view(expected.shape), expected)
    with pytest.raises(RuntimeError, match="into"):
        call("aclnnGather", x, 1, index, torch.empty(2, 2, dtype=torch.int64 if dtype == torch.uint64 else torch.int16))
    with pytest.raises(RuntimeError, match="shape"):
        call("aclnnGather", x, 1, index, torch.empty(2, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_products_wrap_around(call, dtype):
    x, expected = great(dtype), []
    for row in x.tolist():
        product, products = 1, []
        for number in row:
            product = product * number % (1 << BITS[dtype])
            products.append(product)
        expected.append(products)
    out = torch.empty_like(x)
    call("aclnnCumprod", x, 1, dtype, out)
    same(out, torch.tensor(expected, dtype=dtype))
    call("aclnnCumprod", torch.tensor([[2, 3], [4, 5]], dtype=torch.uint16), 1, torch.int64, wide := torch.empty(2, 2, dtype=torch.int64))
    same(wide, torch.tensor([[2, 6], [4, 20]]))
    call("aclnnInplaceCumprod", x, 1)
    same(x, out)


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_shifts(call, dtype):
    x, bits = great(dtype), torch.tensor([1, 4, BITS[dtype] - 1, BITS[dtype]], dtype=dtype)
    by = bits.expand(2, 4)
    out = torch.empty_like(x)
    call("aclnnLeftShift", x, bits, out)
    same(out, torch.tensor(as_python(lambda a, b: (a << b) % (1 << BITS[dtype]), x, by), dtype=dtype))
    call("aclnnRightShift", x, bits, out)
    same(out, torch.tensor(as_python(lambda a, b: a >> b, x, by), dtype=dtype))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
@pytest.mark.parametrize("name, function", [("Gt", lambda a, b: a > b), ("Ge", lambda a, b: a >= b), ("Lt", lambda a, b: a < b),
                                            ("Le", lambda a, b: a <= b)])
def test_unsigned_comparisons(call, name, function, dtype):
    x, y = great(dtype), great(dtype).tolist()
    y = torch.tensor([[y[0][1], 3, y[0][2], 0], y[1][::-1]], dtype=dtype)
    truth = torch.tensor(as_python(function, x, y))
    number = torch.tensor(as_python(lambda a: function(a, 7), x))
    for out in torch.empty(2, 4, dtype=torch.bool), torch.empty(2, 4, dtype=torch.float32):
        call(f"aclnn{name}Tensor", x, y, out)
        same(out, truth.to(out.dtype))
        call(f"aclnn{name}Scalar", x, 7, out)
        same(out, number.to(out.dtype))
    changed = x.clone()
    call(f"aclnnInplace{name}Tensor", changed, y)
    same(changed, truth.to(dtype))
    changed = x.clone()
    call(f"aclnnInplace{name}Scalar", changed, 7)
    same(changed, number.to(dtype))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_functions_of_whole_numbers(call, dtype):
    x = torch.tensor([[5, 0, 100, 25], [14, 15, 35, 45]], dtype=dtype)
    if dtype != torch.uint8:
        x = torch.cat([x, -x])
    out = torch.full_like(x, 9)
    call("aclnnFrac", x, out)
    same(out, torch.zeros_like(x))
    if dtype in (torch.int32, torch.int64):
        call("aclnnRoundDecimals", x, -1, out)
        same(out, torch.tensor(as_python(lambda a: round(a, -1), x), dtype=dtype))
        changed = x.clone()
        call("aclnnInplaceRoundDecimals", changed, 2)
        same(changed, x)
    if dtype in (torch.int8, torch.int32):
        call("aclnnSelu", x, out)
        same(out, torch.selu(x.float()).to(dtype))
        changed = x.clone()
        call("aclnnInplaceSelu", changed)
        same(changed, out)
    changed = x.clone()
    call("aclnnInplaceFrac", changed)
    same(changed, torch.zeros_like(x))


def test_selu_of_int8_runs_over(call):
    x = torch.tensor([-128, -1, 59, 98, 120, 122, 127], dtype=torch.int8)
    out = torch.empty_like(x)
    call("aclnnSelu", x, out)
    same(out, torch.tensor([-1, -1, 61, 102, 126, -128, -123], dtype=torch.int8))


def test_hardsigmoid_of_int32_is_cut(call):
    x = torch.tensor([-5, -3, 0, 2, 3, 9], dtype=torch.int32)
    out = torch.full_like(x, 7)
    call("aclnnHardsigmoid", x, out)
    same(out, torch.tensor([0, 0, 0, 0, 1, 1], dtype=torch.int32))
    call("aclnnInplaceHardsigmoid", x)
    same(x, out)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_mean_of_whole_numbers_is_cut(call, dtype):
    x = torch.tensor([[1, 2, 4], [100, 101, 103]], dtype=dtype) * (1 if dtype == torch.uint8 else -1)
    out, everything = torch.empty(2, dtype=dtype), torch.empty((), dtype=dtype)
    sign = 1 if dtype == torch.uint8 else -1
    call("aclnnMean", x, [1], False, dtype, out)
    same(out, torch.tensor([2 * sign, 101 * sign], dtype=dtype))
    call("aclnnMeanV2", x, [0, 1], False, False, everything)
    same(everything, torch.tensor(51 * sign, dtype=dtype))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_unpooling_whole_numbers(call, dtype):
    limit = torch.iinfo(dtype)
    x = torch.tensor([[[[limit.min, 5], [7, limit.max]]]], dtype=dtype)
    index = torch.tensor([[[[0, 3], [9, 15]]]], dtype=torch.int32)
    out = torch.full((1, 1, 4, 4), 1, dtype=dtype)
    call("aclnnMaxUnpool2d", x, index, [4, 4], out)
    expected = torch.zeros(16, dtype=dtype)
    expected[index.long().flatten()] = x.flatten()
    same(out.flatten(), expected)
    out = torch.full((1, 1, 2, 2, 4), 1, dtype=dtype)
    call("aclnnMaxUnpool3d", x.unsqueeze(2), index.unsqueeze(2), [2, 2, 4], [1, 1, 1], [0, 0, 0], out)
    same(out.flatten(), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_true_quotients_into_whole_numbers_are_cut(call, dtype):
    x = torch.tensor([7, 100, 9, 0], dtype=dtype) * (1 if dtype == torch.uint8 else -1)
    y = torch.tensor([2, 7, 3, 5], dtype=dtype)
    expected = (x.float() / y.float()).to(dtype)
    out = torch.empty_like(x)
    call("aclnnDiv", x, y, out)
    same(out, expected)
    call("aclnnDivMod", x, y, 0, out)
    same(out, expected)
    call("aclnnDivs", x, 2, out)
    same(out, (x.float() / 2).to(dtype))
    for name, arguments, result in [("Div", (y,), expected), ("DivMod", (y, 0), expected), ("Divs", (2,), (x.float() / 2).to(dtype)),
                                    ("DivMods", (2, 0), (x.float() / 2).to(dtype))]:
        changed = x.clone()
        call("aclnnInplace" + name, changed, *arguments)
        same(changed, result)
    with pytest.raises(RuntimeError, match="can't be cast"):   # fractions are no whole numbers
        call("aclnnDiv", x.float(), y.float(), out)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_quotients_keep_the_digits_that_a_float_loses(call, dtype):
    x = torch.tensor([16777217, -2147483647, 2147483647], dtype=dtype)
    out = torch.empty_like(x)
    call("aclnnDiv", x, torch.ones_like(x), out)
    same(out, x)
    call("aclnnDivs", x, 1, out)
    same(out, x)
    call("aclnnDiv", torch.tensor([-2147483647], dtype=dtype), torch.tensor([2], dtype=dtype), out[:1])
    same(out[:1], torch.tensor([-1073741823], dtype=dtype))


def test_truth_values(call):
    x, y = torch.tensor([[True, False], [True, False]]), torch.tensor([[True, True], [False, False]])
    out = torch.zeros(2, 2, dtype=torch.bool)
    call("aclnnAbs", x, out)
    same(out, x)
    call("aclnnSub", x, y, 1, out)
    same(out, x ^ y)
    call("aclnnSub", x, y, 0, out)
    same(out, x)
    changed = x.clone()
    call("aclnnInplaceSub", changed, y, 1)
    same(changed, x ^ y)
    for mode in 1, 2:
        call("aclnnDivMod", x, torch.tensor(True), mode, out)
        same(out, x)
    numbers = torch.zeros(2, 2, dtype=torch.int32)
    call("aclnnFloorDivide", x, torch.tensor(True), numbers)
    same(numbers, x.int())
    total = torch.zeros((), dtype=torch.int64)
    call("aclnnTrace", torch.ones(3, 3, dtype=torch.bool), total)
    same(total, torch.tensor(3))
    padded = torch.zeros(1, 2, 4, dtype=torch.bool)
    call("aclnnReflectionPad1d", x.unsqueeze(0), [1, 1], padded)
    same(padded, torch.tensor([[[False, True, False, True]] * 2]))
    wide = torch.zeros(1, 2, 2, 3, dtype=torch.bool)
    call("aclnnReflectionPad2d", x.expand(1, 2, 2, 2), [1, 0, 0, 0], wide)
    same(wide, torch.tensor([[[[False, True, False]] * 2] * 2]))


@pytest.mark.parametrize("dtype", [*WHOLE, torch.bool, *UNSIGNED], ids=str)
def test_logarithms_of_sums_of_whole_numbers(call, dtype):
    x, y = torch.tensor([1, 0, 1, 1]).to(dtype), torch.tensor([0, 0, 1, 1]).to(dtype)
    for out in torch.empty(4), torch.empty(4, dtype=torch.float16):
        call("aclnnLogAddExp", x, y, out)
        close(out, torch.logaddexp(x.float(), y.float()).to(out.dtype), 1e-3)
        call("aclnnLogAddExp2", x, y, out)
        close(out, torch.logaddexp2(x.float(), y.float()).to(out.dtype), 1e-3)


def test_random_whole_and_complex_numbers(call):
    for dtype in WHOLE:
        x = torch.full((1000,), 99, dtype=dtype)
        call("aclnnInplaceUniform", x, 0.0, 4.0, 42, 0)
        assert sorted(set(x.tolist())) == [0, 1, 2, 3]
    for dtype in torch.complex64, torch.complex128:
        x = torch.full((1000,), 9j, dtype=dtype)
        call("aclnnInplaceRandom", x, -2, 2, 42, 0)
        assert set(x.tolist()) == {-2, -1, 0, 1}


def test_neighbours_of_complex_numbers(call):
    x = torch.tensor([1 + 1j, 1 + 1j, 1 - 1j, 2, 2, 1 + 1j], dtype=torch.complex64)
    for given, dim in (x, 1000), (x.view(2, 3), 1000), (x.unsqueeze(1).expand(6, 2).contiguous(), 0):
        values, inverse, counts = torch.empty(given.numel(), dtype=x.dtype), torch.empty(given.shape if dim else 6, dtype=torch.int64), torch.empty(6, dtype=torch.int64)
        shapes = call("aclnnUniqueConsecutive", given, True, True, dim, values, inverse, counts)
        unique = torch.tensor([1 + 1j, 1 - 1j, 2, 1 + 1j], dtype=x.dtype)
        same(values[:4 * (1 if dim else 2)], unique if dim else unique.repeat_interleave(2))
        same(inverse.flatten(), torch.tensor([0, 0, 1, 2, 2, 3]))
        same(counts[:4], torch.tensor([2, 1, 2, 1]))
        assert shapes[0] == ([4] if dim else [4, 2])


def test_classes_in_bytes(call):
    x, target = torch.randn(2, 3, 4, 5).log_softmax(1), torch.randint(3, (2, 4, 5))
    out, weight, total = torch.empty(2, 4, 5), torch.ones(3), torch.empty(1)
    call("aclnnNLLLoss2d", x, target.byte(), weight, 0, -100, out, total)
    close(out, torch.nn.functional.nll_loss(x, target, reduction="none"))
    gradient = torch.zeros_like(x)
    call("aclnnNLLLoss2dBackward", torch.ones(2, 4, 5), x, target.byte(), weight, 0, -100, total, gradient)
    close(gradient, torch.zeros_like(x).scatter_(1, target.unsqueeze(1), -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_loss_scales(call, dtype):
    for found, steps, expected, left in (0, 1, 1024, 2), (0, 2, 2048, 0), (1, 2, 512, 0):
        scale, tracker = torch.empty(1, dtype=dtype), torch.empty(1, dtype=torch.int32)
        call("aclnnAmpUpdateScale", torch.tensor([1024], dtype=dtype), torch.tensor([steps], dtype=torch.int32), torch.tensor([found], dtype=dtype),
             2.0, 0.5, 3, scale, tracker)
        assert scale.item() == expected and tracker.item() == left
    greatest = torch.tensor([torch.finfo(dtype).max], dtype=dtype)   # does not become infinite
    call("aclnnAmpUpdateScale", greatest, torch.tensor([2], dtype=torch.int32), torch.zeros(1, dtype=dtype), 2.0, 0.5, 3, scale, tracker)
    assert torch.equal(scale, greatest) and tracker.item() == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_exponents_of_whole_numbers_are_cut(call, dtype):
    x = torch.tensor([0, 1, 3, 100], dtype=dtype)
    out = torch.empty_like(x)
    call("aclnnForeachExp", [x], [out])
    same(out, torch.tensor([1, 2, 20, torch.iinfo(dtype).max], dtype=dtype))


def test_calls_that_would_end_the_process(call):
    """The CPU's division traps where a step below 1 becomes 0, and where the least number is divided by -1."""
    out = torch.empty(5, dtype=torch.int32)
    call("aclnnRange", 0.0, 2.0, 0.5, out)
    same(out, torch.tensor([0, 0, 1, 1, 2], dtype=torch.int32))
    with pytest.raises(RuntimeError, match="161002.*1 numbers for an output of"):   # a single one is not spread out
        call("aclnnRange", 0.0, 0.2, 0.5, out)
    least = torch.tensor([-2**31, 6], dtype=torch.int32)
    changed = least.clone()
    call("aclnnInplaceDivMod", changed, torch.tensor([-1, 4], dtype=torch.int32), 1)
    same(changed, torch.tensor([-2**31, 1], dtype=torch.int32))
    changed = least.clone()
    call("aclnnInplaceDivMods", changed, -1, 1)
    same(changed, torch.tensor([-2**31, -6], dtype=torch.int32))
