"""Gradients against finite differences, in float64, of every entry of torch's OpInfo database that has one."""
import itertools

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")

ENTRIES = [op for op in op_db if op.supports_autograd and torch.float64 in op.supported_backward_dtypes("cpu")]
CHECKED = (0, 1, 4, 9)  # samples: the first ones are often of no dimension, or of one
# Finite differences do not suit them: the CPU fails the same check.
UNSUITED = {
    "as_strided_scatter": "the first sample's memory overlaps",
    **dict.fromkeys(("native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"),
                    "its statistics are results without a gradient"),
    "nn.functional.max_unpool2d": "an index occurs twice",
    "nn.functional.max_unpool3d": "an index occurs twice",
    "__rpow__": "the gradient at a negative base is nan",
    **dict.fromkeys(("normal", "normal.number_mean"), "its numbers are drawn"),
    "sparse.sampled_addmm": "its result is sparse",
    "sparse.mm.reduce": "a sparse argument is disturbed element by element as if it were dense",
    **dict.fromkeys(("bfloat16", "half", "float", "cfloat", "chalf"), "the result is not of double precision"),
}


def differentiable(op, sample):
    """A function of the tensors of a sample that want a gradient, and these tensors."""
    leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.numel()
              and leaf.dtype in (torch.float64, torch.complex128)]

    def call(*inputs):
        torch.manual_seed(5)
        given = list(leaves)
        for k, x in zip(places, inputs):
            given[k] = x
        first, args, kwargs = tree_unflatten(given, structure)
        result = sample.output_process_fn_grad(op.gradcheck_wrapper(op.get_op(), first, *args, **kwargs))
        return tuple(t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()))

    return call, [leaves[k] for k in places]


def first_derivatives(op, device):
    torch.manual_seed(3)
    cases = (differentiable(op, sample) for sample in op.sample_inputs(device, torch.float64, requires_grad=True))
    first = list(itertools.islice(cases, max(CHECKED) + 1))
    checked = [first[k] for k in CHECKED if k < len(first) and first[k][1]]
    if not checked:   # the first that is for derivatives
        checked = list(itertools.islice((case for case in itertools.chain(first, cases) if case[1]), 1))
    assert checked, "no sample has an input to differentiate by"
    for call, inputs in checked:
        torch.autograd.gradcheck(call, inputs, fast_mode=op.gradcheck_fast_mode is not False, check_forward_ad=op.supports_forward_ad,
                                 check_undefined_grad=False, nondet_tol=op.gradcheck_nondet_tol)


@pytest.mark.parametrize("op", [op for op in ENTRIES if op.full_name not in UNSUITED], ids=lambda op: op.full_name)
def test_first_derivatives(op):
    """Backward, and forward where there is one; twice over, so that a backward that changes what it was given is found."""
    first_derivatives(op, "npu")


@pytest.mark.parametrize("op", [op for op in ENTRIES if op.full_name in UNSUITED], ids=lambda op: op.full_name)
def test_unsuited_entries_fail_on_the_cpu_too(op):
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        first_derivatives(op, "cpu")


# Every tenth that allows it, so that the test stays short.
@pytest.mark.parametrize("op", [op for op in ENTRIES if op.supports_forward_ad and op.supports_gradgrad and not op.full_name.startswith("linalg")][::10],
                         ids=lambda op: op.full_name)
def test_second_derivatives(op):
    cases = (differentiable(op, sample) for sample in op.sample_inputs("npu", torch.float64, requires_grad=True))
    call, inputs = next(case for case in cases if case[1])
    torch.autograd.gradgradcheck(call, inputs, gen_non_contig_grad_outputs=False, fast_mode=True)
