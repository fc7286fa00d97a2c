"""Every entry of torch's OpInfo database, once, on the NPU: the values, and which operators ran on the CPU.

A quick look over the whole breadth; test/test_network_ops compares families in depth, with gradients and dtypes.
"""
import itertools
import pathlib

import pytest
import torch
import yaml
from chosen_indices import CHOSEN, has_ties, picked, promised
from moved_arguments import in_double
from torch.testing._internal.common_methods_invocations import op_db

import torch_npu

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTED = {op for group in yaml.safe_load((ROOT / "codegen" / "fallbacks.yaml").read_text()) for op in group["ops"]}

EXCEPTIONS = yaml.safe_load(pathlib.Path(__file__).with_name("opinfo_exceptions.yaml").read_text())
# Operators on sparse tensors run on the CPU unless torch's own kernel is of no device: csrc/aten/layouts.cpp.
ON_SPARSE = {"sparse.sampled_addmm": {"sparse_sampled_addmm"}, "sparse.mm.reduce": {"_sparse_mm_reduce_impl"}, "to_sparse": {"add"}}
# Results that are drawn, or memory as it was: only shape and dtype mean something.
UNDEFINED = {"bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric", "log_normal",
             "multinomial", "new_empty", "new_empty_strided", "normal", "normal.in_place", "normal.number_mean", "rand_like", "randint",
             "randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout",
             "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train",
             "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.rrelu",
             "nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention", "pca_lowrank", "svd_lowrank",
             # eigenvectors and singular vectors are unique only up to a phase
             "linalg.eig", "linalg.svd", "svd", "linalg.eigh", "to"}


ON_HOST = {"tensor_split"}  # torch wants its tensor of sections on the CPU
PART_OF_A_STORAGE = {"as_strided.partial_views"}  # of which only the part is moved


def tensors(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def move(value):
    return value.detach().to("npu") if isinstance(value, torch.Tensor) else value


def compare(op, sample):
    torch.manual_seed(1)
    expected = tensors(op(sample.input, *sample.args, **sample.kwargs))
    on_npu = sample.transform(move)
    if op.full_name in ON_HOST:
        on_npu.args = sample.args
    torch.manual_seed(1)
    actual = tensors(op(on_npu.input, *on_npu.args, **on_npu.kwargs))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        assert (a.shape, a.dtype, a.layout) == (e.shape, e.dtype, e.layout)
        if a.layout != torch.strided:
            a, e = a.to_dense(), e.to_dense()
        if op.full_name not in UNDEFINED:
            torch.testing.assert_close(a.cpu(), e, rtol=1e-3, atol=1e-3, equal_nan=True)


def fell_back():
    names = {name.split("::")[1].split(".")[0] for name in torch_npu.fallbacks()}
    torch_npu.reset_fallbacks()
    return names


@pytest.mark.filterwarnings("ignore")
def test_every_entry_once():
    """In float32, or the first dtype the entry has. All failures are told together."""
    wrong, unlisted, on_cpu, entries = {}, {}, 0, 0
    fell_back()
    for op in op_db:
        if op.full_name.startswith("jiterator"):  # which compiles for CUDA
            continue
        dtypes = op.supported_dtypes("cpu")
        dtype = torch.float32 if torch.float32 in dtypes else next((d for d in (torch.int64, torch.bool, torch.complex64) if d in dtypes), None)
        if dtype is None:
            continue
        torch.manual_seed(3)
        entries += 1
        try:
            for sample in itertools.islice(op.sample_inputs("cpu", dtype), 1):
                compare(op, sample)
        except Exception as error:
            wrong[op.full_name] = f"{type(error).__name__}: {str(error)[:200]}"
        names = fell_back()
        on_cpu += bool(names)
        if names - LISTED - ON_SPARSE.get(op.full_name, set()):
            unlisted[op.full_name] = names - LISTED
    assert wrong == {}
    assert unlisted == {}, "these ran on the CPU and are not in codegen/fallbacks.yaml"
    assert on_cpu <= 0.08 * entries


def results(op, sample, device, check):
    """The entry's results, or the gradients of all its inputs, on the CPU."""
    backward = check == "backward"
    # Tensors that were moved: what to("cpu") gives stays where it is.
    sample = sample.transform(lambda t: t.detach().to(device).requires_grad_(backward and t.requires_grad) if isinstance(t, torch.Tensor) else t)
    found = tensors(op(sample.input, *sample.args, **sample.kwargs))
    if backward:
        outputs = [t for t in found if t.requires_grad]
        inputs = [t for t in tensors((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
        # As the sweep does: on the device that is swept.
        weights = [(torch.arange(t.numel(), dtype=torch.float64) * 0.7 + 0.3).cos().reshape(t.shape).to(t.dtype).to(device) for t in outputs]
        found = torch.autograd.grad(outputs, inputs, weights)
    return [t.detach().cpu() for t in found]


# |NPU - float64| allowed where the CPU's own rounding is as far off, relative to the largest element.
ROUNDING = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.complex64: 4e-5}
SAMPLES = 12


def as_double(sample):
    return sample.transform(lambda v: in_double(v) if isinstance(v, torch.Tensor) else v)


def close(actual, expected, exact):
    """As close as the dtype allows to the CPU's, or else to float64's, which `exact` makes; or as close to that as the CPU's is."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
        return
    except AssertionError:
        wide = exact() if expected.dtype in ROUNDING and actual.shape == expected.shape else None
        if wide is None or wide.shape != actual.shape:
            raise
        scale = wide.abs().nan_to_num(0, 0, 0).max().item()
        rounding = ROUNDING[expected.dtype]
        off = [(t.to(wide.dtype) - wide).abs().nan_to_num(0, 0, 0).max().item() for t in (actual, expected)]
        if not torch.equal(actual.isnan(), wide.isnan()) or off[0] > max(1e-5, 2 * rounding * scale, 4 * off[1]):
            raise


def compare_sample(op, sample, check):
    expected = results(op, sample, "cpu", check)
    actual = results(op, sample, "npu", check)
    assert len(actual) == len(expected)
    doubles = []

    def exact(k):
        if not doubles:
            try:
                doubles.extend(results(op, as_double(sample), "cpu", check))
            except RuntimeError:
                doubles.extend([None] * len(expected))
        return doubles[k]

    for k, (a, e) in enumerate(zip(actual, expected)):
        assert (a.shape, a.dtype, a.layout) == (e.shape, e.dtype, e.layout)
        if check == "forward" and CHOSEN.get(op.name) == k and not promised(sample):
            a, e = (picked(op.name, sample, indices) for indices in (a, e))
        if a.layout != torch.strided:
            a, e = a.to_dense(), e.to_dense()
        close(a, e, lambda: exact(k))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype, check", [*itertools.product([torch.float32, torch.float16, torch.bfloat16, torch.complex64], ["forward", "backward"]),
                                          (torch.int64, "forward"), (torch.bool, "forward")], ids=str)
def test_samples(dtype, check):
    """Twelve samples of every entry that has the dtype on the CPU. All failures are told together."""
    backward = check == "backward"
    excepted = {e["entry"] for e in EXCEPTIONS if str(dtype).split(".")[1] in e["dtypes"] and e["check"] == check}
    wrong, compared = {}, 0
    for op in op_db:
        if dtype not in (op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")) or (backward and not op.supports_autograd):
            continue
        if op.full_name in UNDEFINED | ON_HOST | PART_OF_A_STORAGE | excepted or op.full_name.startswith("jiterator"):
            continue
        torch.manual_seed(11)
        samples = op.sample_inputs("cpu", dtype, requires_grad=backward)
        for k in range(SAMPLES):
            try:
                sample = next(samples, None)
                if sample is None:
                    break
                if backward and op.name in CHOSEN and not promised(sample) and has_ties(op.name, sample):
                    continue  # the gradient goes to the place that was chosen
                results(op, sample, "cpu", check)
            except Exception:  # the CPU has no answer to compare with
                continue
            try:
                compare_sample(op, sample, check)
                compared += 1
            except Exception as error:
                wrong[op.full_name, k] = f"{type(error).__name__}: {str(error)[:300]}"
                break
    assert wrong == {}
    assert compared > 1000


def agrees(op, sample, check):
    expected = results(op, sample, "cpu", check)
    try:
        torch.testing.assert_close(results(op, sample, "npu", check), expected, equal_nan=True)
    except (AssertionError, RuntimeError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda e: e["entry"])
def test_exceptions_are_still_needed(exception):
    op, = (op for op in op_db if op.full_name == exception["entry"])
    for name in exception["dtypes"]:
        torch.manual_seed(0)
        samples = itertools.islice(op.sample_inputs("cpu", getattr(torch, name), requires_grad=exception["check"] == "backward"), 20)
        assert not all(agrees(op, sample, exception["check"]) for sample in samples), f"{name} agrees now: take it off the list"


def test_the_list_of_exceptions_is_short():
    assert len(EXCEPTIONS) <= 15 and all(e["reason"] for e in EXCEPTIONS)


def test_gradient_of_to_cpu():
    """What the list says of `to`: the operator itself is right, and a gradient on another device is refused everywhere."""
    x = torch.ones(3, device="npu", requires_grad=True)
    y = x.to("cpu")
    y.backward(torch.tensor([1.0, 2, 3]), retain_graph=True)
    assert x.grad.device.type == "npu" and x.grad.cpu().tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="expected device cpu but got npu:0"):
        y.backward(torch.ones(3, device="npu"))
    with pytest.raises(RuntimeError, match="expected device cpu but got meta"):
        torch.ones(3, requires_grad=True).mul(2).backward(torch.ones(3, device="meta"))
