"""Arguments at the edge of what an operator takes: the NPU gives what the CPU gives, and refuses with the class of error that it has."""
import warnings

import pytest
import torch

import torch_npu

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


def outcome(call, device):
    """Results on the CPU, or the class of the error that torch's users catch."""
    try:
        result = call(device)
    except (IndexError, RuntimeError) as error:
        return IndexError if isinstance(error, IndexError) else RuntimeError
    return [part.cpu() for part in (result if isinstance(result, tuple) else (result,))]


def same(call):
    expected, actual = outcome(call, "cpu"), outcome(call, "npu")
    if isinstance(expected, list):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    else:
        assert actual is expected
    return expected


@pytest.mark.parametrize("fill", [
    lambda out: torch.arange(4, out=out), lambda out: torch.linspace(0, 3, 4, out=out), lambda out: torch.range(0, 3, out=out),
], ids=["arange", "linspace", "range"])
def test_sequence_keeps_the_shape_of_its_out(fill):
    def call(device):
        board = torch.zeros(2, 3, device=device)
        fill(board.narrow(1, 1, 2))
        return board
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)   # torch.range is deprecated
        written, = same(call)
    assert written.tolist() == [[0, 0, 1], [0, 2, 3]]


@pytest.mark.parametrize("element", [1, 1.0, 5])
@pytest.mark.parametrize("tests", [[], [1.0, 2.0], [[1.0], [3.0]]], ids=str)
@pytest.mark.parametrize("invert", [False, True])
def test_number_among_elements(element, tests, invert):
    answer, = same(lambda device: torch.isin(element, torch.tensor(tests, device=device), invert=invert))
    assert answer.shape == ()
    same(lambda device: torch.isin(element, torch.tensor(tests, device=device), invert=invert,
                                   out=torch.empty((), dtype=torch.bool, device=device)))


@pytest.mark.parametrize("dims", [(0, 0), (0, -3), (3,), (-4,), (0, 2), ()], ids=str)
def test_flip(dims):
    same(lambda device: torch.arange(8, device=device).reshape(2, 2, 2).flip(dims))


@pytest.mark.parametrize("bins", [-1, 0, 2])
def test_number_of_bins(bins):
    same(lambda device: torch.histc(torch.arange(4.0, device=device), bins))


@pytest.mark.parametrize("shape, dim", [((0, 3), 0), ((0, 3), 1), ((0, 0), 1), ((3, 0, 2), -1), ((3, 0), 1)], ids=str)
def test_unique_slices_without_elements(shape, dim):
    for unique in (torch.unique, torch.unique_consecutive):
        same(lambda device, unique=unique: unique(torch.empty(shape, device=device), return_inverse=True, return_counts=True, dim=dim))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_random_unsigned_integers(dtype):
    drawn = torch.empty(1000, dtype=dtype, device="npu").random_(3, 9)
    assert drawn.dtype == dtype and drawn.cpu().long().unique().tolist() == [3, 4, 5, 6, 7, 8]


def test_batch_norm_statistics_of_equal_batches():
    x, mean, invstd = torch.randn(4, 3, 5, device="npu"), torch.randn(2, 3, device="npu"), torch.rand(2, 3, device="npu") + 0.5
    total, inverse = torch.batch_norm_gather_stats(x, mean, invstd, None, None, 0.1, 0.0, 10)
    variance = (invstd.pow(-2) + mean.square()).mean(0) - mean.mean(0).square()   # both batches have the same weight
    torch.testing.assert_close(total, mean.mean(0))
    torch.testing.assert_close(inverse, variance.rsqrt())


def test_indices_of_one_dimension_lie_side_by_side():
    for shape in ((3, 4), (2, 3, 4), (5,)):
        def call(device, shape=shape):
            return torch.ones(shape, device=device).nonzero()
        found, = same(call)
        assert call("npu").stride() == call("cpu").stride() and found.shape[1] == len(shape)
    with torch.sparse.check_sparse_tensor_invariants():
        same(lambda device: torch.eye(3, device=device).to_sparse_csr().col_indices())
        same(lambda device: torch.eye(3, device=device).to_sparse_csc().to_dense())


def test_lazy_clone_is_a_copy():
    x = torch.ones(3, device="npu")
    copy = torch._lazy_clone(x)
    copy.add_(1)
    x.mul_(5)
    assert x.tolist() == [5, 5, 5] and copy.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_exponential_at_its_ends(dtype):
    drawn = torch.empty(1000, dtype=dtype, device="npu")
    assert drawn.exponential_(1e6).min().item() > 0   # float16 has no number for many of these
    assert drawn.exponential_(float("inf")).abs().max().item() == 0


@pytest.mark.parametrize("count", [3, 1 << 17], ids=["few", "many"])
@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**63 - 1, 7])
def test_fill_beyond_signed_integers(value, count):
    assert torch.full((count,), value, dtype=torch.uint64, device="npu").cpu().numpy().tolist() == [value] * count
    with pytest.raises(RuntimeError, match="overflow"):
        torch.full((count,), 2**64 - 1, dtype=torch.int64, device="npu").cpu()


@pytest.mark.parametrize("call", [
    lambda x, places, mask: places.index_fill_(0, places, 0),
    lambda x, places, mask: places.index_fill_(0, places[:2], torch.zeros((), dtype=torch.long, device=x.device)),
    lambda x, places, mask: places.put_(places, places.clone()),
    lambda x, places, mask: x.put_(places, x[:3]),
    lambda x, places, mask: mask[1:].masked_fill_(mask[:-1], False),
    lambda x, places, mask: mask[1:].masked_fill_(mask[:-1], torch.tensor(False, device=x.device)),
], ids=["index_fill", "index_fill by tensor", "put index", "put source", "masked_fill", "masked_fill by tensor"])
def test_operands_that_would_change_while_they_are_read(call):
    def written(device):
        return call(torch.arange(6.0, device=device), torch.tensor([2, 1, 0], device=device),
                    torch.tensor([True, False, True], device=device))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        written("cpu")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        written("npu")


def test_operands_that_share_memory_without_harm():
    same(lambda device: (mask := torch.tensor([True, False], device=device)).masked_fill_(mask, False))
    same(lambda device: (x := torch.arange(6, device=device))[:3].index_fill_(0, x[4:5] - 3, 9))
    same(lambda device: (x := torch.tensor([2, 1, 0], device=device)).scatter(0, x, x))
    same(lambda device: (x := torch.tensor([2, 1, 0], device=device)).index_fill(0, x, 5))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.complex64], ids=str)
@pytest.mark.parametrize("values", [0, 1, 3])
def test_sparse_number_becomes_dense(dtype, values):
    def dense(device):
        indices = torch.empty((0, values), dtype=torch.long, device=device)
        return torch.sparse_coo_tensor(indices, torch.ones(values, device=device).to(dtype), ()).to_dense()
    assert same(dense)[0].dtype == dtype


@pytest.mark.parametrize("operator, lists", [("add", 1), ("mul", 1), ("div", 1), ("clamp_max", 1), ("addcdiv", 3), ("addcmul", 3)])
@pytest.mark.parametrize("suffix", ["", "_"])
def test_lists_without_numbers(operator, lists, suffix):
    function = getattr(torch, f"_foreach_{operator}{suffix}")
    for count in (0, 2, 4):
        assert same(lambda device, count=count: function(
            *([torch.ones(2, device=device) for _ in range(3)] for _ in range(lists)), [1.0] * count)) is RuntimeError


@pytest.mark.parametrize("operator", ["add", "sub", "mul", "div", "pow"])
@pytest.mark.parametrize("number", [True, [True, True], [True, 2.0]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_lists_with_a_bool(operator, number, dtype):
    def call(device):
        given = number
        if operator == "sub" and device == "cpu":  # PyTorch refuses it, the published torch_npu takes a bool for a number
            given = [float(each) for each in number] if isinstance(number, list) else float(number)
        return tuple(getattr(torch, f"_foreach_{operator}")([torch.full((2,), value, dtype=dtype, device=device) for value in (3, 5)], given))
    assert len(same(call)) == 2


@pytest.mark.parametrize("matrix", [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]], ids=str)
@pytest.mark.parametrize("function", [torch.linalg.inv_ex, torch.linalg.cholesky_ex], ids=["inv_ex", "cholesky_ex"])
@pytest.mark.parametrize("batches", [(), (3,)], ids=str)
def test_errors_that_were_asked_for(function, matrix, batches):
    def call(device):
        return function(torch.tensor(matrix, device=device).expand(*batches, 2, 2), check_errors=True)
    try:
        expected = call("cpu")
    except torch.linalg.LinAlgError:
        with pytest.raises(torch.linalg.LinAlgError):
            call("npu")
    else:
        torch.testing.assert_close([part.cpu() for part in call("npu")], list(expected))


@pytest.mark.parametrize("order", [None, 1, -1, 2, -2, "fro", "nuc", float("inf"), -float("inf")], ids=str)
def test_condition_of_a_matrix_without_inverse(order):
    same(lambda device: torch.linalg.cond(torch.ones(2, 2, device=device), order))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("limits", [{}, {"posinf": float("inf")}, {"neginf": float("-inf"), "nan": float("inf")}, {"posinf": -1, "neginf": 2}],
                         ids=str)
def test_numbers_for_infinities(dtype, limits):
    values = [float("nan"), float("inf"), float("-inf"), 1.5]
    same(lambda device: torch.nan_to_num(torch.tensor(values, dtype=dtype, device=device), **limits))
    same(lambda device: torch.tensor(values, dtype=dtype, device=device).nan_to_num_(**limits))


@pytest.mark.parametrize("indices, size", [([[0, 1, 1], [0, 0, 1]], (2, 2)), ([[0, 1, 1], [1, 1, 0]], (2, 2)), ([[0, 0]], (3,)),
                                           ([[0, 0, 1], [0, 1, 0], [5, 0, 0]], (2, 3, 7)), ([[], []], (2, 2))], ids=str)
def test_claim_to_be_coalesced(indices, size):
    def call(device):
        given = torch.tensor(indices, dtype=torch.long, device=device)
        with torch.sparse.check_sparse_tensor_invariants():
            return torch.sparse_coo_tensor(given, torch.ones(given.shape[1], device=device), size, is_coalesced=True).to_dense()
    same(call)


def test_triangular_systems_call_nothing_deprecated(python):
    run = python("""if True:
        import torch, torch_npu
        x = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
        torch.testing.assert_close(torch.linalg.solve_triangular(x.npu(), x.npu(), upper=True).cpu(), torch.eye(2))
        torch.testing.assert_close(torch.linalg.solve_triangular(x.mT.npu(), x.npu(), upper=False, left=False).cpu(), x @ x.mT.inverse())
    """)
    assert run.returncode == 0 and "deprecated" not in run.stderr, run.stderr


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lists", [([0, 1], [], [1, 1], [0, 0]), ([1], [0], [1], [0]), ([1, 1], [0, 0], [1, 1, 1], [0, 0])], ids=str)
def test_convolution_with_lists_of_other_lengths(transposed, lists):
    """torch.convolution makes the lists as long as the picture has dimensions; the kernel behind it can be called directly."""
    stride, padding, dilation, output_padding = lists
    x, weight = torch.ones(1, 2, 4, 4, device="npu"), torch.ones(2, 2, 3, 3, device="npu")
    with pytest.raises(RuntimeError, match="2 numbers each"):
        torch.ops.aten.convolution_overrideable(x, weight, None, stride, padding, dilation, transposed, output_padding, 1)


def test_polynomial_of_a_degree_that_is_no_number():
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l", "legendre_polynomial_p"):
        polynomial = getattr(torch.special, name)
        same(lambda device, polynomial=polynomial: polynomial(torch.tensor([0.5, 0.5, 0.5], device=device),
                                                              torch.tensor([float("nan"), 2.0, -1.0], device=device)))


@pytest.mark.parametrize("shapes", [((), (3,)), ((4, 1), (4,)), ((2, 3, 4), (4,))], ids=str)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_gradient_of_a_loss_that_broadcasts(name, reduction, shapes):
    """torch.nn.functional broadcasts before it calls these operators; a program may call them itself."""
    prediction, labels = (torch.linspace(-1, 1, max(1, torch.Size(shape).numel())).reshape(shape) for shape in shapes)

    def gradient(device):
        leaf = prediction.to(device).requires_grad_()
        getattr(torch.ops.aten, name)(leaf, labels.to(device), reduction).sum().backward()
        return leaf.grad
    torch.testing.assert_close(gradient("npu").cpu(), gradient("cpu"))


@pytest.mark.parametrize("call", [
    lambda x: x * 5, lambda x: x / 2, lambda x: x - 1, lambda x: x < 1, lambda x: x == 2, lambda x: torch.maximum(x, x), lambda x: -x,
    lambda x: x + x, lambda x: x[:0] * 2], ids=["mul", "div", "sub", "lt", "eq", "maximum", "neg", "add", "empty"])
def test_strides_of_dimensions_of_one(call):
    """They tell the memory format of a tensor of one pixel, which is contiguous in each of them."""
    for memory_format in (torch.channels_last, torch.contiguous_format):
        x = torch.rand(10, 3, 1, 1).to(memory_format=memory_format)
        assert call(x.npu()).stride() == call(x).stride()


def test_number_of_no_element():
    with pytest.raises(RuntimeError, match="no elements"):
        torch.ops.aten._local_scalar_dense(torch.empty(0, device="npu"))


@pytest.mark.parametrize("call", [
    lambda d: torch.nn.functional.unfold(torch.ones(1, 2, 5, 5, device=d), 2, stride=0),
    lambda d: torch.nn.functional.unfold(torch.ones(1, 2, 5, 5, device=d), 2, dilation=0),
    lambda d: torch.nn.functional.unfold(torch.ones(1, 2, 5, 5, device=d), 2, padding=-1),
    lambda d: torch.nn.functional.unfold(torch.ones(1, 2, 5, 5, device=d), (0, 1)),
    lambda d: torch.nn.functional.unfold(torch.ones(3, 0, 5, 5, device=d), 2),
    lambda d: torch.nn.functional.fold(torch.ones(1, 4, 9, device=d), (4, 4), (0, 2)),
    lambda d: torch.nn.functional.fold(torch.ones(1, 4, 9, device=d), (4, 4), 2, stride=0),
    lambda d: torch.nn.functional.ctc_loss(torch.ones(3, 0, 4, device=d), *[torch.ones(0, dtype=torch.long, device=d)] * 3)],
    ids=["stride", "dilation", "padding", "kernel", "channels", "fold_kernel", "fold_stride", "ctc_loss"])
def test_windows_and_samples_of_nothing(call):
    """Some of these would divide by zero, which ends the process."""
    assert same(call) is RuntimeError


def test_attention_without_heads():
    x = torch.ones(1, 4, 16, device="npu", dtype=torch.float16)
    with pytest.raises(ValueError, match="0 heads"):
        torch_npu.npu_fused_infer_attention_score(x, x, x, num_heads=0, input_layout="BSH")


@pytest.mark.parametrize("dim", [0, 2])
def test_lengths_of_a_weight_without_dimensions_of_one(dim):
    v, g = torch.randn(4, 3, 5), torch.randn(4 if dim == 0 else 5)

    def call(device):
        inputs = [x.to(device).requires_grad_() for x in (v, g)]
        weight, norms = torch._weight_norm_interface(*inputs, dim)
        return [weight, norms, *torch.autograd.grad(weight.square().sum(), inputs)]

    for found, expected in zip(call("npu"), call("cpu")):
        torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_quotient_without_a_place(dtype):
    """On the CPU it ends the process for the wider types; on a device the least number stays."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([least, 9], dtype=dtype, device="npu"), torch.tensor([-1, -2], dtype=dtype, device="npu")
    assert torch.div(x, y, rounding_mode="trunc").tolist() == [least, -4]
    assert torch.div(x, -1, rounding_mode="trunc").tolist() == [least, -9]
