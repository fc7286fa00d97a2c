"""softcann's kernels that order numbers (sort, topk, argmax and their kin) against torch's: exact, around every length where the way changes."""
import itertools

import pytest
import torch
from test_kernels_elementwise import same

NAN, INF = float("nan"), float("inf")
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, torch.bool]
LENGTHS = [1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 64, 65, 66, 127, 128, 129, 130, 255, 256, 257, 1000, 5000]


def numbers(shape, dtype, kind="plain"):
    """Random numbers; "few" has many ties, "special" has zeros of both signs, infinities and NaNs, "wide" all of a dtype's bits."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if kind == "few":
        return torch.randint(-2 if dtype != torch.uint8 else 0, 3, shape).to(dtype)
    if kind == "special" and dtype.is_floating_point:
        values = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, -NAN, 1e-30, -1e-30], dtype=dtype)
        return values[torch.randint(len(values), shape)]
    if kind == "wide":
        words = torch.randint(-2**63, 2**63 - 1, shape)
        return words.view(dtype)[..., :shape[-1]].contiguous() if dtype != torch.int64 else words
    return (torch.randn(shape) * 40).to(torch.int8).to(dtype) if not dtype.is_floating_point else torch.randn(shape, dtype=torch.float64).to(dtype)


def layouts(x):
    """Views of a tensor of three dimensions, each with a dimension to go along."""
    for dim in (0, 1, 2, -1):
        yield x.transpose(0, 2), dim
        yield x[:, ::2, 10:], dim
    yield torch.tensor(3.0), 0
    yield x[:1, :1], 0  # strides of single elements say nothing
    yield x[:1, :1], 1


def bits(tensor):
    """For comparing zeros' signs and NaNs."""
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(integer)


def check_sort(call, x, dim, descending, values=None, indices=None):
    expected = torch.sort(x, dim=dim, stable=True, descending=descending)
    values = torch.empty_like(expected.values) if values is None else values
    indices = torch.empty_like(expected.indices) if indices is None else indices
    call("aclnnSort", x, True, dim, descending, values, indices)
    same(indices, expected.indices.to(indices.dtype))
    same(bits(values), bits(expected.values))


@pytest.mark.parametrize("kind", ["plain", "few", "special", "wide"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sort(call, dtype, kind):
    for length, descending in itertools.product(LENGTHS, [False, True]):
        check_sort(call, numbers((3, length), dtype, kind), 1, descending)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_equals_of_narrow_types_stand_as_torch_leaves_them(call, dtype):
    for length, descending in itertools.product([5, 100, 8000], [False, True]):
        x = numbers((2, length), dtype, "few")
        expected = torch.sort(x, 1, descending)
        values, indices = torch.empty_like(expected.values), torch.empty_like(expected.indices)
        call("aclnnSort", x, False, 1, descending, values, indices)
        same(values, expected.values)
        same(indices, expected.indices)
        call("aclnnArgsort", x, 1, descending, indices)
        same(indices, torch.argsort(x, 1, descending))


def test_sort_of_each_count_of_digits(call):
    for bit in range(63):
        x = torch.randint(2**bit, (2, 300)) - 2**bit // 3
        check_sort(call, x, 1, False)
        check_sort(call, x, 1, True)
        if bit < 31:
            check_sort(call, x.int(), 1, False)
    check_sort(call, torch.full((2, 300), 7), 1, True)
    check_sort(call, torch.arange(600).reshape(2, 300) * 65536, 1, True)


def test_sort_of_layouts(call):
    x = torch.randn(6, 7, 200)
    for dim in (0, 1, 2, -1, -3):
        check_sort(call, x, dim, False)
        check_sort(call, x.transpose(0, 2), dim, True)
        check_sort(call, x[:, ::2, 10:], dim, False)
    check_sort(call, torch.randn(5, 1).expand(5, 150), 1, True)
    gaps = torch.empty(4, 300)[:, ::2]
    check_sort(call, torch.randn(4, 150), 1, False, gaps, torch.empty(4, 150, dtype=torch.int32))
    check_sort(call, torch.tensor(3.0), 0, False)
    check_sort(call, x[:1, :1], 0, False)
    check_sort(call, x[:1, :1], 1, False)
    check_sort(call, torch.empty(0, 5), 1, False)
    check_sort(call, torch.empty(5, 0), 1, False)
    order = torch.empty(4, 150, dtype=torch.int64)
    y = torch.randn(4, 150)
    call("aclnnArgsort", y, 1, True, order)
    same(order, torch.argsort(y, 1, True))


@pytest.mark.parametrize("length", [20, 300])
def test_sort_onto_its_own_operand(call, length):
    x = torch.randn(3, length)
    expected = torch.sort(x, dim=1)
    indices = torch.empty_like(expected.indices)
    call("aclnnSort", x, True, 1, False, x, indices)
    same(x, expected.values)
    same(indices, expected.indices)


def check_topk(call, x, k, dim, largest, ordered=True):
    """Of equals topk promises none in particular; softcann's own kernel takes the first, as a stable sort has them. Narrow types and
    whole numbers, which are full of equals, are ATen's."""
    if x.is_floating_point() and x.element_size() >= 4:
        expected = torch.sort(x, dim=dim, stable=True, descending=largest)
        expected = [t.narrow(dim, 0, k) for t in expected]
    else:
        expected = torch.topk(x, k, dim, largest, ordered)
    values, indices = torch.empty(expected[0].shape, dtype=x.dtype), torch.empty(expected[0].shape, dtype=torch.int64)
    call("aclnnTopk", x, k, dim, largest, ordered, values, indices)
    same(indices, expected[1])
    same(bits(values), bits(expected[0]))
    same(values, torch.topk(x, k, dim, largest).values)


@pytest.mark.parametrize("kind", ["plain", "few", "special", "wide"])
@pytest.mark.parametrize("dtype", TYPES[:-1], ids=str)
def test_topk(call, dtype, kind):
    for length, largest in itertools.product(LENGTHS, [False, True]):
        x = numbers((3, length), dtype, kind)
        for k in {1, 2, 8, 15, 16, 17, 33, 64, 65, 200, length - 1, length}:
            if 1 <= k <= length:
                check_topk(call, x, k, 1, largest)


def test_topk_of_ordered_rows_and_layouts(call):
    rising = torch.arange(3000.0)
    for x in (rising, rising.flip(0), rising // 500, torch.zeros(3000)):
        for largest in (False, True):
            check_topk(call, x, 8, 0, largest)
            check_topk(call, x, 8, -1, largest, ordered=False)
    x = torch.randn(300, 5, 170)
    for dim in (0, 1, 2, -1):
        check_topk(call, x, 3, dim, True)
        check_topk(call, x.transpose(0, 2), 3, dim, False)
    with pytest.raises(RuntimeError):
        call("aclnnTopk", x, 6, 1, True, True, torch.empty(300, 6, 170), torch.empty(300, 6, 170, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64], ids=str)
def test_long_keys_that_share_their_upper_bits(call, dtype):
    """Such rows are put in order by their upper 32 bits and settled afterwards, unless many share these."""
    for alike in (1, 2, 15, 16, 17, 18, 300):
        upper = torch.randint(-2**30, 2**30, (4, 600)) // alike * alike
        upper[:, :alike] = upper[:, :1]
        words = (upper << 32) + torch.randint(3, (4, 600))
        x = words if dtype == torch.int64 else words.view(torch.float64).nan_to_num(1.5)
        for descending in (False, True):
            check_sort(call, x, 1, descending)
            check_sort(call, x.sort(1).values, 1, descending)


def check_extremes(call, x, dim, keepdim=False):
    for name, arg in (("aclnnArgMax", torch.argmax), ("aclnnArgMin", torch.argmin)):
        if x.dtype != torch.bool:
            expected = arg(x, dim, keepdim)
            out = torch.full_like(expected, -1)
            call(name, x, dim, keepdim, out)
            same(out, expected)
    for name, along in (("aclnnMaxDim", torch.max), ("aclnnMinDim", torch.min)):
        expected = along(x, dim, keepdim)
        values, indices = torch.empty_like(expected.values), torch.full_like(expected.indices, -1)
        call(name, x, dim, keepdim, values, indices)
        same(indices, expected.indices)
        same(bits(values), bits(expected.values))


@pytest.mark.parametrize("kind", ["plain", "few", "special", "wide"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_extremes(call, dtype, kind):
    for length in LENGTHS + [511, 512, 513]:
        check_extremes(call, numbers((3, length), dtype, kind), 1)
    for inner in (1, 2, 7, 8, 9, 33, 255, 256, 257, 600):
        x = numbers((2, 40, inner), dtype, kind)
        check_extremes(call, x, 1, keepdim=True)
        check_extremes(call, x, -3)


@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_extremes_of_infinities_and_nan(call, dtype):
    values = torch.tensor([0.0, -0.0, NAN, INF, -INF, -NAN], dtype=dtype)
    x = values[torch.cartesian_prod(*[torch.arange(6)] * 4)]
    check_extremes(call, x, 1)
    check_extremes(call, x.t().contiguous(), 0)
    for fill in (-INF, INF, NAN):
        check_extremes(call, torch.full((3, 700), fill, dtype=dtype), 1)
        check_extremes(call, torch.full((3, 700), fill, dtype=dtype), 0)


def test_extremes_at_each_place_and_layout(call):
    for place in range(600):
        x = torch.zeros(1, 600)
        x[0, place:] = 1
        check_extremes(call, x, 1)
    x = torch.randn(6, 7, 40)
    for view, dim in layouts(x):
        check_extremes(call, view, dim)
    narrow = torch.empty(6, 7, dtype=torch.int32)
    call("aclnnArgMax", x, 2, False, narrow)
    same(narrow, x.argmax(2).int())
    with pytest.raises(RuntimeError):
        call("aclnnArgMax", torch.empty(3, 0), 1, False, torch.empty(3, dtype=torch.int64))
    with pytest.raises(RuntimeError):
        call("aclnnArgMax", torch.zeros(3, 2, dtype=torch.bool), 1, False, torch.empty(3, dtype=torch.int64))


def test_largest_and_smallest_of_several_tensors(call):
    tensors = [torch.randn(3, 4), torch.randn(4), torch.tensor([[1.0], [NAN], [0.0]])]
    for name, combine in (("aclnnMaxN", torch.maximum), ("aclnnMinN", torch.minimum)):
        out = torch.empty(3, 4)
        call(name, tensors, out)
        same(out, combine(combine(tensors[0], tensors[1]), tensors[2]))


@pytest.mark.parametrize("dims, keep, noop", [([1], False, False), ([0, 2], True, False), ([], False, False), ([], False, True)])
def test_largest_along_dimensions(call, dims, keep, noop):
    x = torch.randn(2, 3, 4)
    expected = x if noop else torch.amax(x, dims, keep)
    out = torch.empty_like(expected)
    call("aclnnMaxV2", x, dims, keep, noop, out)
    same(out, expected)
