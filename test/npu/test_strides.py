"""Every entry of torch's OpInfo database on tensors that are not contiguous: results and gradients are those of contiguous ones.

Kernels of libraries like to lay out their results as they see fit; operators of images have orders of memory of their own.
"""
import contextlib
import functools
import itertools

import pytest
import torch
from moved_arguments import on_npu
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")

SAMPLES = 12
# Of strides or of memory itself, or refused for them.
ABOUT_STRIDES = {"as_strided", "as_strided_copy", "as_strided_scatter", "resize_", "view", "view_as", "view_as_complex", "take_along_dim", "empty_strided"}
# Drawn, left as it was, or unique only up to a sign; an index that occurs twice; a tensor that has to stay on the CPU; a
# gradient that cancels (logcumsumexp: the CPU's is as far from float64's); statistics that batch norm saves outside training, which
# nobody writes and the CPU does not have (nn.functional.batch_norm is looked at).
UNDEFINED = {"bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "exponential", "geometric", "log_normal", "multinomial",
             "new_empty", "new_empty_strided", "normal", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
             "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
             "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
             "nn.functional.rrelu", "nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention",
             "pca_lowrank", "svd_lowrank", "nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d", "tensor_split",
             "logcumsumexp", "native_batch_norm", "_native_batch_norm_legit"}
ENTRIES = [op for op in op_db if torch.float32 in op.supported_dtypes("cpu") and op.name not in ABOUT_STRIDES | UNDEFINED
           and not op.full_name.startswith("jiterator")]


def channels_last(x):
    if x.dim() in (4, 5):
        return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    return x.t().contiguous().t() if x.dim() == 2 else x


def backwards(x):
    """The first dimension lies closest together in memory, the last one farthest apart."""
    order = list(range(x.dim()))[::-1]
    return x.permute(order).contiguous().permute(order)


def first_two_swapped(x):
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.dim() >= 2 else x


ORDERS = {"channels_last": channels_last, "with_gaps": noncontiguous_like, "backwards": backwards, "first_two_swapped": first_two_swapped}


def run(op, sample, device, order):
    leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))

    def moved(leaf):
        if isinstance(leaf, torch.Tensor):
            copy = leaf.detach().clone().to(device)
            return (order(copy) if copy.layout == torch.strided else copy).requires_grad_(leaf.requires_grad)
        return torch.device(device) if leaf in ("cpu", torch.device("cpu")) else leaf

    leaves = [moved(leaf) for leaf in leaves]
    first, args, kwargs = tree_unflatten(leaves, structure)
    result = sample.output_process_fn_grad(op.get_op()(first, *args, **kwargs))
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    differentiable = [t for t in outputs if t.requires_grad and t.layout == torch.strided]
    gradients = ()
    if wanted and differentiable:
        generator = torch.Generator().manual_seed(5)
        given = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(device) for t in differentiable]
        gradients = torch.autograd.grad(differentiable, wanted, given, allow_unused=True)
    plain = lambda t: (t if t.layout == torch.strided else t.to_dense()).detach().cpu() if isinstance(t, torch.Tensor) else t
    return tree_map(plain, [outputs, list(gradients)])


@pytest.fixture(scope="module")
def contiguous():
    """(operator, number of the sample, sample, its results and gradients on the CPU), for every sample that the CPU takes."""
    found = []
    for op in ENTRIES:
        torch.manual_seed(3)
        gradients = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
        for k, sample in enumerate(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=gradients), SAMPLES)):
            with contextlib.suppress(Exception):
                found.append((op, k, sample, run(op, sample, "cpu", lambda x: x)))
    assert len(found) > 2 * len(ENTRIES)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_results_do_not_depend_on_strides(contiguous, order):
    """All failures are told together."""
    wrong = {}
    for op, k, sample, expected in contiguous:
        if op.full_name in wrong:
            continue
        try:
            torch.testing.assert_close(run(op, sample, "npu", ORDERS[order]), expected, rtol=5e-3, atol=1e-3, equal_nan=True)
            torch.npu.synchronize()
        except Exception as error:
            wrong[op.full_name] = f"sample {k}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    assert wrong == {}, "\n".join(f"{name}: {what}" for name, what in wrong.items())


MARGIN, FILL = 64, 7


def in_margins(shape, dtype):
    """A tensor laid out backwards in the middle of a buffer, and the buffer."""
    size = torch.Size(shape).numel()
    buffer = torch.full((size + 2 * MARGIN,), FILL).to(dtype).npu()
    strides = [1]
    for extent in shape[:-1]:
        strides.append(strides[-1] * max(extent, 1))
    return buffer.as_strided(shape, strides[: len(shape)], MARGIN), buffer


def untouched(buffer):
    margins = torch.cat([buffer[:MARGIN], buffer[-MARGIN:]]).cpu()
    return torch.equal(margins, torch.full((2 * MARGIN,), FILL).to(buffer.dtype))


# torch's own out= reshapes the tensor, or forgets it, so that CPU tensors fare no better.
OUT_BROKEN = {"matmul", "nn.functional.linear", "fft.ihfft2", "fft.ihfftn"}


def writes(op, sample):
    """(what was written on the CPU, the same on the NPU, the NPU's buffers), for each way the operator has to write."""
    if op.inplace_variant and isinstance(sample.input, torch.Tensor) and sample.input.dim() >= 2:
        expected = sample.input.clone()
        try:
            op.inplace_variant(expected, *sample.args, **sample.kwargs)
        except RuntimeError:   # the result has another shape, or this operator refuses to write so
            expected = None
        if expected is not None and expected.shape == sample.input.shape:
            target, buffer = in_margins(expected.shape, expected.dtype)
            target.copy_(sample.input)
            op.inplace_variant(target, *on_npu(sample.args), **on_npu(sample.kwargs))
            yield expected, target, [buffer]
    if op.supports_out and op.full_name not in OUT_BROKEN:
        result = op(sample.input, *sample.args, **sample.kwargs)
        outputs = tree_leaves(result)
        if all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in outputs) and outputs[0].dim() >= 2:
            targets, buffers = zip(*[in_margins(t.shape, t.dtype) for t in outputs])
            out = targets[0] if isinstance(result, torch.Tensor) else targets
            try:
                op(sample.input, *sample.args, out=tree_map(torch.empty_like, result), **sample.kwargs)
            except (RuntimeError, TypeError):
                return
            op(on_npu(sample.input), *on_npu(sample.args), out=out, **on_npu(sample.kwargs))
            yield outputs, list(targets), buffers


def test_writes_stay_within_tensors_of_any_order():
    """In place and by out=, into memory laid out backwards: the right values, and nothing beside them."""
    wrong = {}
    for op in ENTRIES:
        torch.manual_seed(3)
        for k, sample in enumerate(itertools.islice(op.sample_inputs("cpu", torch.float32), 6)):
            try:
                for expected, got, buffers in writes(op, sample):
                    torch.testing.assert_close(tree_map(lambda t: t.cpu(), got), expected, rtol=5e-3, atol=1e-3, equal_nan=True)
                    assert all(untouched(buffer) for buffer in buffers), "wrote beside the tensor"
            except Exception as error:
                wrong[op.full_name] = f"sample {k}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                break
    assert wrong == {}, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def places(result):
    """Sizes of the results, and strides where there is more than one element to step over."""
    tensors = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.layout == torch.strided]
    return [(tuple(t.shape), tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) if t.numel() else ()) for t in tensors]


def last_two_swapped(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() >= 2 else x


# The CPU's and CUDA's list positions by columns, which would be one copy more; the result of a fallback lies as it came; a
# transposed convolution of volumes keeps the input's memory format, as others do.
LAID_OUT_OTHERWISE = {"argwhere", "nonzero", "linalg.lstsq", "linalg.lstsq.grad_oriented", "nn.functional.conv_transpose3d"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("order", [lambda x: x, last_two_swapped, channels_last], ids=["plain", "last_two_swapped", "channels_last"])
def test_results_lie_in_memory_as_torchs_do(order, dtype):
    """As the meta device says, by which torch.compile reckons, or, where that differs from it, as on the CPU."""
    def moved(value, device):
        if not isinstance(value, torch.Tensor):
            return torch.device(device) if value in ("cpu", torch.device("cpu")) else value
        if device != "npu" or value.layout != torch.strided or any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape)):
            return value.to(device)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="npu").copy_(value)

    def result(op, sample, device):
        arranged = tree_map(lambda t: order(t) if isinstance(t, torch.Tensor) and t.layout == torch.strided else t, sample)
        input, args, kwargs = tree_map(lambda value: moved(value, device), arranged)
        return places(op(input, *args, **kwargs))

    wrong, cases = {}, 0
    for op in op_db:
        if dtype not in op.supported_dtypes("cpu") or op.full_name in LAID_OUT_OTHERWISE:
            continue
        torch.manual_seed(3)
        for k, given in enumerate(itertools.islice(op.sample_inputs("cpu", dtype), 7)):
            sample = (given.input, given.args, given.kwargs)
            try:
                expected, got = result(op, sample, "cpu"), result(op, sample, "npu")
            except Exception:
                continue
            cases += 1
            if got == expected:
                continue
            try:
                reckoned = result(op, sample, "meta")
            except Exception:
                reckoned = expected
            if any(each not in known for each, known in zip(got, zip(expected, reckoned))) or len(got) != len(expected):
                wrong[op.full_name] = f"sample {k}: {got}, not {expected}"
                break
    assert wrong == {}, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    assert cases > 1000


def test_results_of_arguments_in_two_orders_lie_as_torchs_do():
    """bucketize's by rows, the loss of logits as its target: as on the CPU, and as torch.compile reckons."""
    numbers, boundaries = torch.randn(5, 4), torch.tensor([-1.0, 0.0, 1.0])
    turned, target = numbers.t().contiguous().t(), torch.rand(5, 4)

    def strides(device):
        plain, columns, goal = (torch.empty_strided(x.shape, x.stride(), device=device).copy_(x) for x in (numbers, turned, target))
        loss = functools.partial(torch.nn.functional.binary_cross_entropy_with_logits, reduction="none")
        results = torch.bucketize(columns, boundaries.to(device)), loss(columns, goal), loss(goal, columns), loss(plain, goal)
        return [r.stride() for r in results]

    assert strides("npu") == strides("cpu") == [(4, 1), (4, 1), (1, 5), (4, 1)]


@pytest.mark.parametrize("shapes", [((2, 3, 5), (5, 4)), ((2, 3, 5), (5,)), ((5,), (2, 5, 4)), ((3, 5), (2, 5, 4)), ((2, 3, 5), (2, 5, 4))], ids=str)
def test_matmul_into_memory_of_any_order(shapes):
    """Also where torch's own way of a product of a batch and a matrix needs rows that are no view of `out`."""
    a, b = (torch.randn(shape) for shape in shapes)
    expected = a @ b
    for out in (backwards(torch.zeros_like(expected)), torch.zeros(*expected.shape, 2)[..., 0], torch.zeros(7, 2).t()):
        there = torch.empty_strided(out.shape, out.stride(), device="npu")
        where = there.data_ptr()
        assert torch.matmul(a.npu(), b.npu(), out=there) is there
        torch.testing.assert_close(there.cpu(), expected, rtol=1e-4, atol=1e-4)
        assert out.shape != expected.shape or (there.stride() == out.stride() and there.data_ptr() == where)
    there = backwards(torch.zeros_like(expected).npu())
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.matmul(a.npu().requires_grad_(), b.npu(), out=there)


@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
def test_spaced_numbers_keep_the_shape_of_out(function):
    for out in (torch.empty(20)[::2], torch.empty(5, 2).t(), torch.empty(2, 5)):
        expected = torch.empty_strided(out.size(), out.stride())
        there = torch.empty_strided(out.size(), out.stride(), device="npu")
        function(0, 1, 10, out=expected)
        assert function(0, 1, 10, out=there) is there
        assert there.shape == out.shape and there.stride() == out.stride()
        torch.testing.assert_close(there.cpu(), expected)


def test_results_are_contiguous_where_the_option_asks():
    matrix = torch.arange(12.0, device="npu").view(3, 4).t()
    cases = [lambda: matrix.eq(matrix), lambda: matrix < 2, lambda: matrix + 1, lambda: matrix * matrix, matrix.exp,
             lambda: (matrix > 0) & (matrix < 5)]
    torchs = [case() for case in cases]
    torch.npu.set_option({"contiguous_results": True})
    try:
        asked = [case() for case in cases]
    finally:
        torch.npu.set_option({"contiguous_results": False})
    for k, (result, expected) in enumerate(zip(asked, torchs)):
        assert result.is_contiguous() and not expected.is_contiguous(), k
        assert result.view(-1).tolist() == expected.reshape(-1).tolist(), k
