"""Every entry of torch's OpInfo database, once, on the NPU: the values, and which operators ran on the CPU.

A quick look over the whole breadth; test/test_network_ops compares families in depth, with gradients and dtypes.
"""
import itertools
import pathlib

import pytest
import torch
import torch_npu
import yaml

from torch.testing._internal.common_methods_invocations import op_db

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
