"""What the files of this folder share: operators of torch's OpInfo database, on the NPU against the CPU.

Each file is one family and runs alone (`python3 test/test_network_ops/test_div.py` prints OK) or under pytest. A case
takes a few of OpInfo's samples, made from a fixed seed, and compares result, gradients, in-place and out= form with
the CPU's. Tolerances are torch.testing's own for the dtype, or OpInfo's where it states wider ones. Where a
result or gradient misses them, float64 is the judge: the NPU's error may be at most three times the CPU's.
"""
import itertools
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch
from chosen_indices import CHOSEN, picked, promised
from moved_arguments import in_double
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db

import torch_npu  # noqa: F401

OPS = {op.full_name: op for op in op_db}
SAMPLES = 4


def to_npu(value):
    return value.detach().to("npu").requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def samples_of(op, dtype, grad, limit=SAMPLES):
    """The first samples; each has the seed of its own so that a case does not depend on the ones before."""
    torch.manual_seed(20)
    return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), limit))


def tensors_of(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


class OpCase(unittest.TestCase):
    """Subclasses set `ops` (full OpInfo names) and may narrow `dtypes`; test_against_cpu does the rest.

    `random`: names whose results are drawn, of which only shape and dtype are compared.
    """

    ops = ()
    dtypes = (torch.float32, torch.float16, torch.int64)
    random = ()

    @classmethod
    def setUpClass(cls):
        missing = [name for name in cls.ops if name not in OPS]
        assert not missing, f"not in this torch's OpInfo database: {missing}"

    @staticmethod
    def as_good(actual, expected, exact):
        """Whether `actual` is about as close to the float64 result as the CPU's is."""
        scale = exact.abs().clamp(min=exact.abs().mean().item() or 1e-30)
        error, cpu = ((actual - exact).abs() / scale).max(), ((expected - exact).abs() / scale).max()
        return bool(error <= max(16 * torch.finfo(actual.dtype).eps, 3 * cpu))

    def close(self, op, dtype, actual, expected, what, exact=None):
        """`exact` computes the leaves in float64, when it comes to that."""
        actual, expected = tensors_of(actual), tensors_of(expected)
        self.assertEqual(len(actual), len(expected), what)
        for index, (a, e) in enumerate(zip(actual, expected)):
            self.assertEqual(e.device.type, "cpu")
            if op.full_name in self.random:
                self.assertEqual((a.shape, a.dtype), (e.shape, e.dtype), what)
                continue
            rtol, atol = torch.testing._comparison.default_tolerances(e)
            for decorator in op.decorators or ():
                for override in getattr(decorator, "decorators", ()):
                    if isinstance(override, toleranceOverride) and dtype in override.d:
                        rtol, atol = max(rtol, override.d[dtype].rtol), max(atol, override.d[dtype].atol)
            try:
                torch.testing.assert_close(a.cpu(), e, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}")
            except AssertionError:
                if exact is None or not self.as_good(a.detach().cpu(), e.detach(), exact()[index].detach()):
                    raise

    def run_one(self, op, dtype):
        differentiable = dtype in (torch.float32, torch.float64, torch.complex64) and op.supports_autograd
        for index, sample in enumerate(samples_of(op, dtype, differentiable)):
            what = f"{op.full_name} {dtype} sample {index}"
            on_npu = sample.transform(to_npu)
            torch.manual_seed(7)
            expected = sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))
            torch.manual_seed(7)
            actual = on_npu.output_process_fn_grad(op(on_npu.input, *on_npu.args, **on_npu.kwargs))
            wide = sample.transform(in_double)
            inexact = dtype.is_floating_point or dtype.is_complex
            exact = (lambda: tensors_of(op(wide.input, *wide.args, **wide.kwargs))) if inexact else None
            self.close(op, dtype, *(self.by_number(op, sample, results) for results in (actual, expected)), what, exact)
            if differentiable and op.full_name not in self.random:
                exact = lambda: self.gradients(wide, op(wide.input, *wide.args, **wide.kwargs))
                self.close(op, dtype, self.gradients(on_npu, actual), self.gradients(sample, expected), what + ", gradient", exact)

    @staticmethod
    def by_number(op, sample, results):
        """The results with the numbers at the indices that were chosen, where torch leaves the choice among equal ones open."""
        if CHOSEN.get(op.name) is None or promised(sample):
            return results
        found = tensors_of(results)
        found[CHOSEN[op.name]] = picked(op.name, sample, found[CHOSEN[op.name]]).to(found[0].device)
        return found

    @staticmethod
    def gradients(sample, output):
        inputs = [t for t in tensors_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
        outputs = [t for t in tensors_of(output) if t.requires_grad]
        if not inputs or not outputs:
            return []
        cotangents = [(torch.arange(o.numel(), dtype=torch.float64) * 0.7 + 0.3).cos().reshape(o.shape).to(o.dtype).to(o.device)
                      for o in outputs]
        return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)

    def test_against_cpu(self):
        for name in self.ops:
            for dtype in self.dtypes:
                op = OPS[name]
                if op.supports_dtype(dtype, "cpu"):
                    with self.subTest(op=name, dtype=dtype):
                        self.run_one(op, dtype)


def main():
    """Entry of a file that is run alone."""
    unittest.main(module="__main__")
