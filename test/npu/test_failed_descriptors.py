"""A descriptor that cannot be made is an error, never an argument left out: each operator raises, or is right."""

import pytest
import torch
from fork_server import run_python

# Run in a process of its own, since faults are counted from its start.
OPERATORS = r"""
import sys, torch, torch_npu
import torch.nn.functional as F

torch.manual_seed(0)
r = torch.randn
i = lambda high, *size: torch.randint(high, size)
OPERATORS = {
    "linear": (F.linear, r(4, 8), r(6, 8), r(6)),
    "addmm": (torch.addmm, r(6), r(4, 8), r(8, 6)),
    "baddbmm": (torch.baddbmm, r(2, 4, 6), r(2, 4, 8), r(2, 8, 6)),
    "mm": (torch.mm, r(4, 8), r(8, 6)),
    "bmm": (torch.bmm, r(2, 4, 8), r(2, 8, 6)),
    "conv2d": (F.conv2d, r(2, 3, 8, 8), r(4, 3, 3, 3), r(4)),
    "conv_transpose2d": (F.conv_transpose2d, r(2, 4, 5, 5), r(4, 3, 3, 3), r(3)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), r(4, 8), r(8), r(8)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), r(2, 4, 6), r(4), r(4)),
    "batch_norm": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), r(4, 8), r(8), r(8).abs(), r(8), r(8)),
    "batch_norm, training": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), r(4, 8), r(8), r(8)),
    "clamp, tensors": (lambda x, a, b: torch.clamp(x, a, b), r(9), r(9) - 1, r(9) + 1),
    "clamp, numbers": (lambda x: torch.clamp(x, -0.5, 0.5), r(9)),
    "where": (torch.where, r(9) > 0, r(9), r(9)),
    "add": (lambda a, b: torch.add(a, b, alpha=3), r(9), r(9)),
    "mul_": (lambda a, b: a.mul_(b), r(9), r(9)),
    "addcmul": (lambda *t: torch.addcmul(*t, value=2), r(9), r(9), r(9)),
    "addcdiv": (lambda *t: torch.addcdiv(*t, value=2), r(9), r(9), r(9).abs() + 1),
    "lerp": (torch.lerp, r(9), r(9), r(9)),
    "softmax": (lambda x: torch.softmax(x, 1), r(4, 8)),
    "nll_loss": (lambda x, y, w: F.nll_loss(x, y, w), r(5, 7), i(7, 5), r(7).abs()),
    "cross_entropy": (lambda x, y, w: F.cross_entropy(x, y, w), r(5, 7), i(7, 5), r(7).abs()),
    "binary_cross_entropy": (F.binary_cross_entropy, torch.rand(9), torch.rand(9), torch.rand(9)),
    "binary_cross_entropy_with_logits": (lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p), r(9),
                                         torch.rand(9), torch.rand(9), torch.rand(9)),
    "embedding": (F.embedding, i(5, 7), r(5, 3)),
    "embedding_bag": (lambda x, w, p: F.embedding_bag(x, w, per_sample_weights=p, mode="sum"), i(5, 2, 4), r(5, 3), r(2, 4)),
    "scaled_dot_product_attention": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), r(1, 2, 4, 8), r(1, 2, 4, 8),
                                     r(1, 2, 4, 8), r(4, 4) > -1),
    "index_select": (lambda x, n: torch.index_select(x, 0, n), r(5, 3), i(5, 4)),
    "gather": (lambda x, n: torch.gather(x, 0, n), r(5, 3), i(5, 2, 3)),
    "scatter_add": (lambda x, n, s: torch.scatter_add(x, 0, n, s), r(5, 3), i(5, 2, 3), r(2, 3)),
    "index_put_": (lambda x, n, s: x.index_put_((n,), s), r(5, 3), torch.tensor([0, 3]), r(2, 3)),
    "cat": (lambda *t: torch.cat(t), r(2, 3), r(1, 3), r(4, 3)),
    "sum": (lambda x: torch.sum(x, 1), r(4, 8)),
    "var": (lambda x: torch.var(x, 0), r(4, 8)),
    "searchsorted": (lambda a, v: torch.searchsorted(a, v), r(9).sort().values, r(4)),
    "_foreach_add": (lambda *t: torch.stack(torch._foreach_add(t[:2], t[2:], alpha=2)), r(3), r(3), r(3), r(3)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), r(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1),
}
wrong, raised = [], 0
for name, (function, *inputs) in OPERATORS.items():
    expected = function(*[t.clone() for t in inputs])
    for _ in range(TIMES):
        try:
            actual = function(*[t.npu() for t in inputs]).cpu()
        except (RuntimeError, ValueError) as error:
            if "made no descriptor" in str(error):
                raised += 1
                continue
            wrong.append((name, str(error)[:200]))
            continue
        if not torch.allclose(actual, expected, rtol=1e-4, atol=1e-4):
            wrong.append((name, "another value"))
print(len(OPERATORS), "operators,", raised, "errors, wrong:", wrong)
assert not wrong
assert raised or not NEEDED
x = torch.ones(8).npu()
for _ in range(9):  # of one descriptor, which not every fault of a rhythm can hit
    try:
        x.zero_()
        break
    except RuntimeError:
        pass
assert not x.cpu().any(), "no operator works any more"
"""


def run(fault, times, needed=True):
    script = f"TIMES, NEEDED = {times}, {needed}\n" + OPERATORS
    done = run_python(script, timeout=900, SOFTCANN_FAULT=fault)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split(" operators,")[0].split()[-1]) >= 36


@pytest.mark.parametrize("every, times", [(2, 4), (3, 6), (5, 8)])
def test_a_tensor_that_cannot_be_described_is_an_error(every, times):
    run(f"aclCreateTensor:every={every}:code=1", times)


def test_numbers_and_lists_that_cannot_be_described_are_errors():
    makers = ("Scalar", "IntArray", "BoolArray", "FloatArray", "TensorList", "ScalarList")
    run(",".join(f"aclCreate{maker}:every=2:code=1" for maker in makers), 3)


def test_more_dimensions_than_cann_describes_are_an_error():
    x = torch.ones([1] * 70)
    on_npu = x.npu()
    for function in (lambda t: t + 1, lambda t: torch.clamp(t, t, t), torch.relu, lambda t: t.mul_(2)):
        with pytest.raises(RuntimeError, match="aclCreateTensor made no descriptor of .* 70 dimensions"):
            function(on_npu)
    assert torch.equal(on_npu.cpu(), x)
