"""What torch refuses on the CPU is refused on the NPU: OpInfo's error inputs raise the same type of exception."""
import itertools
import os
import re
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from moved_arguments import on_npu
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import torch_npu

# The message says neither what the CPU's says nor the operator's name, but is the one that CUDA gives too.
OTHER_WORDS = {"gather", "narrow_copy"}
# Operands of several dtypes that torch's kernels refuse and ours take, as the published torch_npu: test_mixed_dtypes.py.
OF_SEVERAL_DTYPES = {"gather", "scatter", "scatter_add", "scatter_reduce", "isclose", "index_put"}


def first_line(error):
    return str(error).split("\n")[0].replace("npu:0", "cpu")


def run(op, sample):
    """The exception that the sample raises, or None."""
    try:
        op(sample.input, *sample.args, **sample.kwargs)
        torch.npu.synchronize()
    except Exception as error:
        return error
    return None


def late_found(error):
    """Whether the device told it, whose errors begin with 500000; libopapi's refusals of arguments are 161xxx and 561xxx."""
    return 500000 <= getattr(error, "error_code", 0) < 560000


def judge(op, expected, actual, error_type):
    """What is wrong with the NPU's exception; None when all is well."""
    if actual is None:
        return None if op.name in OF_SEVERAL_DTYPES and re.search("dtype|did not match", str(expected)) else "no error"
    if late_found(actual):
        return f"only the device found out: {first_line(actual)}"
    if type(actual) is not type(expected) and not isinstance(actual, error_type):
        return f"{type(actual).__name__}: {first_line(actual)}"
    named = op.name.split(".")[-1].strip("_").lower() in str(actual).lower()
    if not named and first_line(actual) != first_line(expected) and op.name not in OTHER_WORDS:
        return f"says {first_line(actual)}"
    return None


def test_error_inputs():
    """All failures are told together."""
    wrong, cases = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            if op.error_inputs_func is None:
                continue
            for k, (on_cpu, on_npu) in enumerate(zip(op.error_inputs("cpu"), op.error_inputs("npu"))):
                expected = run(op, on_cpu.sample_input)
                if expected is None:
                    continue
                cases += 1
                complaint = judge(op, expected, run(op, on_npu.sample_input), on_npu.error_type)
                if complaint:
                    wrong[op.full_name, k] = f"{complaint}; the CPU: {type(expected).__name__}: {first_line(expected)}"
    assert wrong == {}
    assert cases > 600


def with_dtype(sample, base, dtype, device):
    """The sample's input, args and kwargs with tensors of `base` made `dtype`."""
    def convert(value):
        if not isinstance(value, torch.Tensor):
            return value
        return (value.to(dtype) if value.dtype == base else value).to(device)
    return tree_map(convert, (sample.input, sample.args, sample.kwargs))


def test_dtypes_without_a_kernel_leave_the_device_well():
    """Where the CPU refuses a dtype the NPU may know more; else it says so at the call, and what follows works."""
    late, refused = [], 0
    for op in op_db:
        base = next((dtype for dtype in (torch.float32, torch.int64) if dtype in op.dtypes), None)
        if base is None:
            continue
        for dtype in (torch.bool, torch.int64, torch.float16, torch.complex64, torch.uint8):
            if dtype in op.dtypes:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sample = next(iter(op.sample_inputs("cpu", base)), None)
                if sample is None:
                    continue
                try:
                    input, args, kwargs = with_dtype(sample, base, dtype, "cpu")
                    op.op(input, *args, **kwargs)
                    continue
                except Exception:
                    pass
                try:
                    input, args, kwargs = with_dtype(sample, base, dtype, "npu")
                    op.op(input, *args, **kwargs)
                    torch.npu.synchronize()
                except Exception as error:
                    refused += 1
                    if late_found(error):
                        late.append((op.full_name, dtype, first_line(error)))
                        break
        if late:
            break  # the stream keeps its error: the next would only repeat it
    assert late == []
    assert refused > 400


def test_a_refusal_found_in_the_queue_is_told_once():
    x = torch.ones(1024, 1024, dtype=torch.int64, device="npu")
    good = torch.ones(3, device="npu")
    try:
        torch.nn.functional.silu(x)
        after = good + 1
        torch.npu.synchronize()
    except RuntimeError as error:
        assert "silu" in str(error).lower() and "Long" in str(error)
    else:
        raise AssertionError("SiLU of int64 was computed")
    torch.npu.synchronize()
    assert (good + 1).tolist() == [2, 2, 2] and after.tolist() == [2, 2, 2]


def test_data_without_a_result_leave_the_device_well():
    """Integers divided by zero, matrices that have no factors: an error as on the CPU, and work goes on."""
    numbers, zeros = torch.tensor([1, 2], device="npu"), torch.tensor([0, 1], device="npu")
    many = torch.ones(1 << 20, dtype=torch.int64, device="npu")   # long enough for the queue
    nan = torch.full((3, 3), float("nan"), device="npu")
    for message, call in [
        ("ZeroDivisionError", lambda: numbers // zeros),
        ("ZeroDivisionError", lambda: numbers % 0),
        ("ZeroDivisionError", lambda: numbers.fmod_(zeros)),
        ("ZeroDivisionError", lambda: many // (many - 1)),
        ("non-finite", lambda: torch.linalg.svd(nan)),
        ("between 0 and 1", lambda: torch.bernoulli(torch.tensor([0.5, 2.0], device="npu"))),
        ("between 0 and 1", lambda: torch.zeros(3, 3, device="npu").bernoulli_(nan)),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()
            torch.npu.synchronize()
        assert (numbers + 1).tolist() == [2, 3]


def test_operators_that_are_particular():
    """What OpInfo's error inputs do not have: weights of another dtype, nothing to reduce, memory that overlaps."""
    def ones(*sizes, dtype=torch.float32):
        return torch.ones(sizes, dtype=dtype, device="npu")

    half, double = torch.half, torch.double
    line = ones(5)
    cases = [
        ("should be the same", lambda: torch.nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2, dtype=half))),
        ("should be the same", lambda: torch.nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2), ones(1, dtype=half))),
        ("mixed dtypes", lambda: torch.nn.functional.batch_norm(ones(2, 3), ones(3, dtype=double), ones(3, dtype=double))),
        ("mixed dtypes", lambda: torch.nn.functional.batch_norm(ones(2, 3, dtype=double), None, None, ones(3), training=True)),
        ("not implemented for 'Bool'", lambda: torch.randperm(3, dtype=torch.bool, device="npu")),
        ("not implemented for 'Char'", lambda: torch.nextafter(ones(2, dtype=torch.int8), ones(2, dtype=torch.int8))),
        ("Expected reduction dim", lambda: ones(0).max()),
        ("Expected reduction dim", lambda: ones(0, 3).min()),
        ("refer to a single memory location", lambda: line[1:].copy_(line[:-1])),
        ("single memory location", lambda: ones(1).expand(3).copy_(ones(3))),
    ]
    for message, call in cases:
        try:
            call()
        except RuntimeError as error:
            assert message in str(error), error
        else:
            raise AssertionError(f"no error: {message}")
    torch.npu.synchronize()


def test_shapes_that_only_kernels_check_leave_the_device_well():
    x, weight = torch.ones(2, 3, device="npu"), torch.ones(4, 3, device="npu")
    for call in (lambda: torch.nn.functional.linear(x, weight, torch.ones(7, device="npu")),
                 lambda: x.flip((0, 0)),
                 lambda: torch.full((2,), float("nan"), dtype=torch.int64, device="npu"),
                 lambda: torch.ones(2, dtype=torch.uint8, device="npu").fill_(300),
                 lambda: x.addcmul(x, x, value=1e40)):
        with pytest.raises((RuntimeError, IndexError)):
            call()
            torch.npu.synchronize()
        assert (x + 1).tolist() == [[2, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize("layer, shape", [
    (torch.nn.Conv1d(3, 8, 3), (1, 3, 8)), (torch.nn.Conv2d(3, 8, 3), (1, 3, 8, 8)), (torch.nn.Conv2d(3, 8, 3, dilation=2), (1, 3, 8, 8)),
    (torch.nn.Conv3d(3, 8, 3), (1, 3, 8, 8, 8)), (torch.nn.ConvTranspose2d(3, 8, 3), (1, 3, 8, 8)), (torch.nn.BatchNorm2d(3), (2, 3, 4, 4)),
    (torch.nn.InstanceNorm1d(3, affine=True), (2, 3, 5))], ids=lambda value: getattr(value, "_get_name", str)())
def test_an_input_left_on_the_cpu(layer, shape):
    with pytest.raises(RuntimeError, match="all tensors to be on the same device.*cpu and npu:0"):
        layer.npu()(torch.ones(shape))


def test_indices_on_the_npu_for_a_cpu_tensor():
    x = torch.ones(4, 3)
    for call in (lambda: x[torch.tensor([0, 1], device="npu")], lambda: x[x.npu() > 0], lambda: x.index_put_((x.npu() > 0,), x)):
        with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)"):
            call()
    with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
        x.masked_select(x.npu() > 0)


def test_indices_and_values_of_other_devices():
    x, places = torch.zeros(3, device="npu"), torch.tensor([0, 2])
    x[places] = torch.ones(2, device="npu")
    x[places.npu()] = torch.tensor(2.0)
    x[x == 0] = torch.tensor(3.0)
    assert x[places].tolist() == [2, 2] and x.tolist() == [2, 3, 2]
    for values in (torch.ones(2), torch.ones(1)):
        with pytest.raises(RuntimeError, match="all tensors to be on the same device.*npu:0 and cpu"):
            x.index_put_((places,), values)
    if torch.npu.device_count() > 1:
        for call in (lambda: x[places.to("npu:1")], lambda: x.index_put_((places.to("npu:1"),), x[:1])):
            with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device as the indexed tensor \(npu:0\)"):
                call()


def test_places_in_a_dimension_that_has_none():
    """Without results the operator is not run and could not tell; where another dimension is empty, nothing is written."""
    x, place, one = torch.zeros(3, 0, device="npu"), torch.zeros(3, 1, dtype=torch.long, device="npu"), torch.ones(3, 1, device="npu")
    calls = [
        lambda: x.scatter(1, place, 1.0), lambda: x.scatter(1, place, one), lambda: x.scatter_add(1, place, one),
        lambda: x.scatter_reduce(1, place, one, "sum"), lambda: x.scatter(1, place, 2.0, reduce="multiply"),
        lambda: x.index_copy(1, place[0], one), lambda: x.index_fill(-1, place[0], 1.0),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="out of bounds for dimension . with size 0"):
            call()
    with pytest.raises(IndexError, match="empty tensor"):
        x.put_(place, one)
    none = place[:, :0]
    assert x.scatter(1, none, 1.0).shape == x.index_fill(1, none[0], 1.0).shape == (3, 0) and x.put_(none, x.clone()).shape == (3, 0)
    assert x.t().scatter(1, none.t() + 7, 1.0).shape == x.t().index_copy(1, place[0] + 7, x.t()[:, :1]).shape == (0, 3)


def test_a_matrix_without_singular_values():
    """Of type LinAlgError, which programs catch to go on without."""
    nan, infinite = torch.full((3, 2), float("nan")), torch.tensor([[float("inf"), 1.0], [0.0, 1.0]])
    for call in (torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv, torch.linalg.cond, lambda x: torch.svd_lowrank(x, 1)):
        for device in ("cpu", "npu"):
            with pytest.raises(torch.linalg.LinAlgError, match="linalg.svd: .*failed to converge because the input matrix contained non-finite"):
                call(nan.to(device))
    for dtype in (torch.float32, torch.complex64):
        batch = torch.stack([torch.eye(2), infinite, torch.eye(2)]).to("npu", dtype).view(3, 1, 2, 2)
        with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.svd: \(Batch element 1\): .*non-finite"):
            torch.linalg.svd(batch)
        assert torch.equal(torch.linalg.svdvals(batch[::2]).cpu(), torch.ones(2, 1, 2))
    assert torch.equal(torch.linalg.svdvals(infinite.npu()).cpu().isnan(), torch.linalg.svdvals(infinite).isnan())
    assert torch.equal(torch.linalg.svdvals(torch.eye(2, device="npu")).cpu(), torch.ones(2))


def test_writing_into_a_number_of_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
        torch.ones(()).floor_divide_(torch.tensor(2.0, device="npu"))


def test_writing_over_what_is_read():
    x = torch.ones(6, device="npu")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.nan_to_num(x[:-1], out=x[1:])
    one = torch.tensor([1.0], device="npu")
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        one.logical_and_(torch.tensor([1.0, 0.0], device="npu"))


def test_index_put_over_what_it_reads():
    def calls(device):
        a, i = torch.arange(4.0, device=device), torch.arange(4, device=device)
        yield lambda: a.index_put_((i[:2],), a[1:3])
        yield lambda: a.index_put_((i,), a)
        yield lambda: i.index_put_((i,), i + 4)
        yield lambda: i.index_put_((i[:2],), i[2:].clone(), accumulate=True)
    for device in ("cpu", "npu"):
        for call in calls(device):
            with pytest.raises(RuntimeError, match="single memory location"):
                call()
    mask = torch.tensor([True, False, True], device="npu")  # a fill: the mask is read first
    assert not mask.index_put_((mask,), torch.tensor(False, device="npu")).any()
    x = torch.arange(6.0, device="npu")
    assert x.index_put_((torch.tensor([0, 1], device="npu"),), x[4:].clone()).tolist() == [4, 5, 2, 3, 4, 5]


# torch.lu copies in Python; the sparse one and the last steps of these transforms take any tensor on every device.
TAKES_ANY_OUTPUT = {"lu", "sparse.sampled_addmm", "fft.ihfft2", "fft.ihfftn"}


def test_outputs_have_to_be_on_the_npu():
    """Whether the operator runs on the NPU, is made of others, or runs on the CPU for want of a kernel."""
    taken, cases = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            base = next((dtype for dtype in (torch.float32, torch.int64) if dtype in op.dtypes), None)
            if not op.supports_out or base is None or op.full_name in TAKES_ANY_OUTPUT:
                continue
            for sample in itertools.islice(op.sample_inputs("cpu", base), 2):
                given = (sample.input, sample.args, sample.kwargs)
                if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(given)):
                    continue
                try:
                    out = tree_map(torch.empty_like, op(sample.input, *sample.args, **sample.kwargs))
                    op(sample.input, *sample.args, out=out, **sample.kwargs)
                except Exception:
                    continue
                cases += 1
                input, args, kwargs = on_npu(given)
                try:
                    op(input, *args, out=out, **kwargs)
                    taken[op.full_name] = "taken"
                except Exception as error:
                    if not isinstance(error, RuntimeError) or "device" not in first_line(error).lower():
                        taken[op.full_name] = first_line(error)
    assert taken == {}
    assert cases > 500


def test_outputs_that_share_memory_in_part():
    """With an input: operators without an iterator, whose kernels would read what they have written."""
    memory = torch.rand(60, device="npu")
    x, y = memory[:25].view(5, 5), torch.rand(5, 5, device="npu")
    out = memory[1:26].view(5, 5)
    places, index = torch.empty(5, 5, dtype=torch.int64, device="npu"), torch.zeros(5, 5, dtype=torch.int64, device="npu")
    cases = [
        lambda: torch.mm(x, y, out=out), lambda: torch.addmm(x, y, y, out=out), lambda: torch.addmm(y, y, x, out=out),
        lambda: torch.cumsum(x, 0, out=out), lambda: torch.cumprod(x, 1, out=out), lambda: torch.logcumsumexp(x, 0, out=out),
        lambda: torch.softmax(x, 1, out=out), lambda: torch.tril(x, out=out), lambda: torch.renorm(x, 2, 0, 1, out=out),
        lambda: torch.sort(x, out=(out, places)), lambda: torch.topk(x, 5, out=(out, places)), lambda: torch.scatter(x, 0, index, y, out=out),
        lambda: torch.gather(x, 0, index, out=out), lambda: torch.index_copy(x, 0, index[0], y, out=out),
        lambda: torch.mode(x, out=(memory[1:6], places[0])), lambda: torch.max(x, 0, out=(memory[1:6], places[0])),
        lambda: torch.bernoulli(x, out=out), lambda: torch.frexp(x, out=(out, places.int())),
        lambda: torch.linalg.cross(memory[:6].view(2, 3), y[:2, :3].contiguous(), out=memory[1:7].view(2, 3)),
    ]
    for k, call in enumerate(cases):
        with pytest.raises(RuntimeError, match="unsupported operation: some elements"):
            call()
            raise AssertionError(f"case {k} was computed")
    torch.cumsum(x, 0, out=x)   # the same tensor is another matter
    torch.npu.synchronize()


def test_outputs_whose_elements_share_memory():
    x = torch.eye(3, device="npu")
    spread = torch.empty(3, 1, device="npu").expand(3, 3)
    for call in (lambda: torch.add(x, x, out=spread), lambda: torch.mm(x, x, out=spread), lambda: torch.igamma(x, x, out=spread),
                 lambda: torch.linalg.inv(x, out=spread), lambda: torch.linalg.eigh(x, out=(spread[0], spread)),
                 lambda: torch.normal(x, x, out=spread), lambda: torch.special.bessel_j0(x, out=spread)):
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
            call()


def test_elements_that_share_memory_are_written_in_place_by_fills_alone():
    def each(device):
        x, y, index = torch.ones(1, 3, device=device).expand(4, 3), torch.ones(12, device=device), torch.tensor([0], device=device)
        functional = torch.nn.functional
        refused = [
            x.relu_, x.logit_, x.normal_, x.log_normal_, x.exp_, lambda: x.add_(1), lambda: functional.hardtanh_(x),
            lambda: functional.hardswish(x, inplace=True), lambda: torch.rrelu_(x), lambda: x.put_(index, y[:1]),
            lambda: x.masked_scatter_(x > 0, y), lambda: x.scatter_(0, index[None], 1.0),
        ]
        fills = [x.zero_, lambda: x.fill_(2), lambda: x.masked_fill_(x > 0, 3), lambda: x.index_fill_(0, index, 4.0)]
        return refused, fills, x

    for device in ("cpu", "npu"):
        refused, fills, x = each(device)
        for k, call in enumerate(refused):
            with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
                call()
                raise AssertionError(f"case {k} was computed on {device}")
        for value, call in zip((0, 2, 3, 4), fills):
            call()
            assert (x == value).all()


def test_dtypes_that_would_lose_the_result():
    """Integers have no room for these, and of a complex number only the magnitude would count."""
    whole, turned = torch.ones(3, dtype=torch.long, device="npu"), torch.ones(3, dtype=torch.complex64, device="npu")
    calls = [lambda: torch.hypot(whole, whole), lambda: torch.hypot(turned, turned), lambda: torch.logcumsumexp(whole, 0),
             lambda: torch.copysign(turned, 1.0), lambda: torch.i0(turned), lambda: torch.special.i0e(turned)]
    for call in calls:
        with pytest.raises(NotImplementedError, match="not implemented for '(Long|ComplexFloat)'"):
            call()


def test_refusals_are_no_failures_of_the_device():
    """Dtypes and arguments that an operator refuses are RuntimeError, as by the published client. AcceleratorError is for what a device
    has met: who restarts one after it must not be misled."""
    x, turned, nothing = torch.ones(3, device="npu"), torch.ones(3, dtype=torch.complex64, device="npu"), torch.zeros(2, dtype=torch.long, device="npu")
    many = torch.ones(1 << 20, device="npu")   # in the queue, whose refusal comes later
    for call in (lambda: torch.lcm(x, x), lambda: torch.gcd(many, many), lambda: torch.lgamma(turned), lambda: torch.polygamma(1, turned),
                 lambda: torch.special.ndtri(x.half()), lambda: torch.arange(3, device="npu", dtype=torch.bool), lambda: nothing // nothing):
        with pytest.raises(RuntimeError, match="161002") as told:
            call()
            torch.npu.synchronize()
        assert type(told.value) is RuntimeError
        assert (x + 1).tolist() == [2, 2, 2]


def test_no_kernel():
    """CANN that finds no kernel file for the dtypes says so by a code, which is NotImplementedError here."""
    script = "import torch, torch_npu\ntry: torch.ones(3, device='npu') + 1\nexcept NotImplementedError as error: assert '561003' in str(error)\nelse: raise SystemExit(1)"
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "SOFTCANN_FAULT": "aclnnAdds:nth=1:code=561003"}, check=True, timeout=120)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_classes_below_zero(dtype):
    """Where one_hot counts the classes, which the host has to wait for."""
    for labels in ([1, -1, 3], [-1], [[0, 2], [-3, 1]]):
        with pytest.raises(RuntimeError, match="must be non-negative"):
            torch.nn.functional.one_hot(torch.tensor(labels, dtype=dtype, device="npu"))
    assert torch.nn.functional.one_hot(torch.tensor([0, 2], dtype=dtype, device="npu")).tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="total number of classes"):
        torch.nn.functional.one_hot(torch.zeros(0, dtype=dtype, device="npu").long())


def test_group_norm_of_another_number_of_elements():
    """DTensor asks for it, with a shard and the whole tensor's N: an empty shard, too, is no result."""
    for device in ("cpu", "npu"):
        weight, stats = torch.ones(4, device=device), torch.ones(1, 2, device=device)
        for n in (0, 2):
            x = torch.ones(n, 4, 3, device=device)
            with pytest.raises(RuntimeError, match="elements|numel"):
                torch.native_group_norm(x, weight, weight, 1, 4, 3, 2, 1e-5)
            with pytest.raises(RuntimeError, match="elements|numel"):
                torch.ops.aten.native_group_norm_backward(x, x, stats, stats, weight, 1, 4, 3, 2, [True] * 3)


X = torch.randn(2, 4, 5, 5, dtype=torch.complex64)


@pytest.mark.parametrize("call", [
    lambda x: F.layer_norm(x, (5,)), lambda x: F.group_norm(x, 2), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.binary_cross_entropy_with_logits(x, x), lambda x: F.grid_sample(x, x[..., :2], align_corners=False),
    lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True), lambda x: torch.histc(x),
], ids=["layer_norm", "group_norm", "batch_norm", "bce_with_logits", "grid_sample", "antialias", "histc"])
def test_complex_numbers_do_not_lose_their_imaginary_parts(call):
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="not implemented for"):
            call(X.to(device))
            torch.npu.synchronize()


@pytest.mark.parametrize("call", [
    lambda x: torch.special.zeta(x, x), lambda x: torch.special.log_ndtr(x), lambda x: torch.mode(x), lambda x: F.huber_loss(x, x),
    lambda x: torch.histogram(x, 4), lambda x: x.geometric_(0.5), lambda x: x.log_normal_(),
    lambda x: F.fractional_max_pool2d(x, 2, output_size=(2, 2)),
], ids=["zeta", "log_ndtr", "mode", "huber_loss", "histogram", "geometric", "log_normal", "fractional_max_pool2d"])
def test_composed_operators_refuse_complex_numbers_as_the_cpu(call):
    for device in ("cpu", "npu"):
        with pytest.raises(NotImplementedError):
            call(X.to(device, copy=True))


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("call", [
    lambda x: torch.cholesky(x), lambda x: torch.histogram(x, 4), lambda x: x.log_normal_(), lambda x: x.geometric_(0.5),
    lambda x: F.multi_margin_loss(x, torch.zeros(3, dtype=torch.int64, device=x.device)), lambda x: F.huber_loss(x, x),
], ids=["cholesky", "histogram", "log_normal", "geometric", "multi_margin_loss", "huber_loss"])
def test_composed_operators_refuse_bools_as_the_cpu(call):
    for device in ("cpu", "npu"):
        with pytest.raises(NotImplementedError):
            call(torch.ones(3, 3, dtype=torch.bool, device=device))


def test_custom_operators_refuse_complex_numbers():
    x, row = torch.ones(2, 4, dtype=torch.complex64, device="npu"), torch.ones(4, dtype=torch.complex64, device="npu")
    for call in (lambda: torch_npu.npu_rms_norm(x, row), lambda: torch_npu.npu_add_rms_norm(x, x, row),
                 lambda: torch_npu.fast_gelu(x), lambda: torch_npu.npu_dynamic_quant(x), lambda: torch_npu.npu_add_layer_norm(x, x, row, row)):
        with pytest.raises(RuntimeError, match="161002.*not implemented for 'ComplexFloat'"):
            call()
            torch.npu.synchronize()
