"""torch_npu.testing: comparisons that pass and fail where they should, inputs, skips, generated tests."""
import unittest

import numpy as np
import pytest
import torch

from torch_npu._cann import version_key
from torch_npu.testing import common_distributed, common_utils, decorator, testcase


class Case(testcase.TestCase):
    def runTest(self):
        pass


case = Case()


def rtol_fails(x, y, **options):
    with pytest.raises(AssertionError) as caught:
        case.assertRtolEqual(x, y, **options)
    return str(caught.value)


def test_rtol_equal_passes():
    x = torch.randn(50)
    case.assertRtolEqual(x, x * (1 + 5e-5))
    case.assertRtolEqual(x.npu(), x.numpy())
    case.assertRtolEqual([x, 1], [x.npu(), 1])
    case.assertRtolEqual(x.half(), x.half() + 5e-4)
    case.assertRtolEqual(x.bfloat16().npu(), x.bfloat16())
    case.assertRtolEqual(np.array([np.nan, np.inf, -np.inf]), np.array([np.nan, np.inf, -np.inf]))
    case.assertRtolEqual(x.double(), x, auto_trans_dtype=True)
    case.assertRtolEqual(np.float32(1.0), torch.tensor(1.0))
    case.assertRtolEqual(torch.empty(0, 3), torch.empty(0, 3))
    many = torch.ones(20000)
    other = many.clone()
    other[0] = 3  # one in 20000 is less than prec
    case.assertRtolEqual(many, other)


def test_rtol_equal_fails():
    x = torch.ones(50)
    other = x.clone()
    other[7] = 1.001
    assert "at (7,)" in rtol_fails(x, other)
    case.assertRtolEqual(x, other, prec=1e-2)
    assert "0.001" in rtol_fails(x.half(), other.half() + 0.5)
    assert "shapes" in rtol_fails(x, x.view(5, 10))
    assert "dtypes" in rtol_fails(x, x.double())
    assert "NaN" in rtol_fails(x, x * np.nan)
    assert "lengths" in rtol_fails([x], [x, x])
    assert "here: " in rtol_fails(x, -x, message="here")
    rtol_fails(np.array([np.inf]), np.array([-np.inf]))
    rtol_fails(np.array([np.inf]), np.array([1.0]))


def test_assert_equal():
    x = torch.randn(8)
    case.assertEqual(x, x.npu())
    case.assertEqual(x.half(), x.half() + 5e-4)
    case.assertEqual({"a": [x, 1]}, {"a": [x.npu(), 1]})
    case.assertEqual(x, x + 0.01, 0.1)
    case.assertEqual(x, x + 0.01, atol=0.1, rtol=0)
    case.assertEqual(torch.tensor([1, 2]), [1, 2])
    case.assertEqual(0.1 + 0.2, 0.3)
    case.assertNotEqual(x, x + 1)
    for wrong in ((x, x + 0.01), ([1], [1, 2]), ({"a": x}, {"b": x}), ("a", "b"), (torch.tensor([1]), torch.tensor([2])),
                  (1.0, 1.1)):
        with pytest.raises(AssertionError):
            case.assertEqual(*wrong)
    with pytest.raises(AssertionError):
        case.assertEqual(x, x.double(), exact_dtype=True)
    with pytest.raises(AssertionError):
        case.assertNotEqual(x, x.clone())


def test_common_tensors():
    cpu, npu = common_utils.create_common_tensor([np.float16, -1, (3, 4)], -2, 2)
    assert cpu.dtype == torch.float16 and cpu.shape == (3, 4) and npu.device == torch.device("npu:0")
    assert torch.equal(cpu, npu.cpu()) and cpu.abs().max() <= 2 and cpu.std() > 0
    cpu, npu = common_utils.create_common_tensor([np.int32, -1, [5]], 0, 100)
    assert cpu.dtype == torch.int32 and torch.equal(cpu, npu.cpu())
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.complex64):
        cpu, npu = common_utils.create_dtype_tensor((6, 7), dtype, no_zero=True)
        assert cpu.dtype == npu.dtype == dtype and torch.equal(cpu, npu.cpu())
        assert (cpu != 0).all()
    with pytest.raises(ValueError, match="between 3 and 3"):
        common_utils.create_dtype_tensor((2,), torch.float32, min_value=3, max_value=3)


def test_device(monkeypatch):
    monkeypatch.setenv("SET_NPU_DEVICE", "1")
    assert common_utils.get_npu_device() == "npu:1"
    try:
        assert common_utils.set_npu_device() == "npu:1"
        assert torch.npu.current_device() == 1
    finally:
        torch.npu.set_device(0)


def runs(decorate):
    try:
        return decorate(lambda self: "ran")(None) == "ran"
    except unittest.SkipTest:
        return False


def test_skips():
    soc = torch.npu.get_device_name(0)
    assert runs(common_utils.SupportedDevices([soc[:10]])) and not runs(common_utils.SupportedDevices(["Ascend310"]))
    assert runs(common_utils.SkipIfNotGteCANNVersion("1.0.0")) and not runs(common_utils.SkipIfNotGteCANNVersion("99.0.0"))
    assert runs(common_utils.SkipIfNotRegistered("add.Tensor")) and runs(common_utils.SkipIfNotRegistered("aten::add"))
    assert not runs(common_utils.SkipIfNotRegistered("aten::no_such_operator", "why"))
    assert runs(common_distributed.skipIfUnsupportMultiNPU(1)) and not runs(common_distributed.skipIfUnsupportMultiNPU(65))
    assert runs(common_utils.SkipIfNoLapack())


@pytest.mark.parametrize("older,newer", [("8.0.RC1", "8.0.0"), ("8.0.RC1", "8.0.RC2"), ("8.0.0", "8.1.RC1"), ("7.9", "8.0.0")])
def test_versions_sort(older, newer):
    assert version_key(older) < version_key(newer)


def test_generated_tests():
    seen = []

    @decorator.instantiate_tests
    class Generated(testcase.TestCase):
        @decorator.Dtypes(torch.float32, torch.int8)
        @decorator.Formats(0, 2)
        def test_op(self, device, dtype, npu_format):
            seen.append((device, dtype, npu_format))

        @decorator.Dtypes(torch.bool)
        def test_fails(self, dtype):
            self.fail("on purpose")

    names = unittest.defaultTestLoader.getTestCaseNames(Generated)
    assert sorted(names) == ["test_fails_bool", "test_op_float32_0", "test_op_float32_2", "test_op_int8_0", "test_op_int8_2"]
    result = unittest.defaultTestLoader.loadTestsFromTestCase(Generated).run(unittest.TestResult())
    assert result.testsRun == 5 and len(result.failures) == 1 and not result.errors
    assert sorted(seen, key=str) == sorted(
        (("npu", d, f) for d in (torch.float32, torch.int8) for f in (0, 2)), key=str)
    with pytest.raises(TypeError, match="dtype"):
        decorator.instantiate_tests(type("Bad", (), {"test_x": decorator.Dtypes(torch.bool)(lambda self: None)}))


def test_operators_in_profile():
    class Item:
        def __init__(self, key):
            self.key = key

    class Profile:
        def key_averages(self):
            return [Item("aten::add"), Item("aten::mul")]

    check = common_utils.check_operators_in_prof
    assert check(["aten::add"], Profile())
    assert not check(["aten::add", "aten::div"], Profile())
    assert not check(["aten::add"], Profile(), ["aten::mul"])


def test_broadcast_helper():
    for cpu, npu in common_utils.test_2args_broadcast(torch.add):
        case.assertRtolEqual(cpu, npu)


SUITE = """
import torch, torch_npu
from torch_npu.testing.testcase import TestCase, run_tests
from torch_npu.testing.common_utils import create_common_tensor
import numpy as np

class TestAdd(TestCase):
    def test_add(self):
        cpu, npu = create_common_tensor([np.float32, 2, (4, 5)], -1, 1)
        self.assertRtolEqual((cpu + cpu).numpy(), (npu + npu).cpu().numpy())

run_tests()
"""


def test_a_suite_runs(python):
    result = python(SUITE)
    assert result.returncode == 0 and result.stderr.rstrip().endswith("OK"), result.stderr


def test_common_distributed(tmp_path):
    class Ranks:
        world_size, rank, file_name = 1, 0, str(tmp_path / "store")

        @common_distributed.with_comms
        def body(self):
            return torch.distributed.get_backend()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.npu, "device_count", lambda: 0)
        assert Ranks().body() == "gloo"
    assert not torch.distributed.is_initialized()
    with pytest.raises(RuntimeError, match="mpi"):
        common_distributed.init_pg("mpi")


def test_slow_equality_looks_at_each_element():
    x = torch.rand(20)
    case.assertTensorsSlowEqual(x, x.npu() + 5e-6)
    other = x.clone()
    other[7] += 1e-3
    with pytest.raises(AssertionError, match="0.0009|0.001"):
        case.assertTensorsSlowEqual(x, other)
    case.assertTensorsSlowEqual(x, other, prec=1e-2)
    with pytest.raises(AssertionError, match="shapes differ"):
        case.assertTensorsSlowEqual(x, x[:3])


def test_items_may_have_more_than_three_parts():
    cpu, npu = common_utils.create_common_tensor([np.float32, -1, (2, 3), "mine", 4], 0, 1)
    assert cpu.shape == npu.shape == (2, 3) and npu.is_npu and torch.equal(npu.cpu(), cpu)


def test_each_test_begins_at_the_seed():
    case.setUp()
    first = torch.rand(2)
    torch.manual_seed(666)
    assert torch.equal(first, torch.rand(2))


def test_equality_of_what_published_suites_compare():
    x = torch.arange(3.0)
    case.assertEqual(x, [torch.tensor(0.0), 1, 2.0])
    case.assertEqual(torch.tensor([3.0], device="npu"), 3)
    case.assertEqual(3, 4, prec=1)
    case.assertEqual({1: 2}.keys(), [1])
    case.assertEqual(range(2), torch.tensor([0, 1]))
    assert case.precision == 1e-5
    for wrong in (({1: 2}.keys(), [2]), (3, 4), (torch.tensor([3.0]), 4), (x, [0, 1]), (None, 1), ({1}, {2})):
        with pytest.raises(AssertionError):
            case.assertEqual(*wrong)
    case.assertAlmostEqual(x.npu(), x + 1e-3, places=2)
    case.assertAlmostEqual(1.0, 1.1, delta=0.2)
    with pytest.raises(AssertionError):
        case.assertAlmostEqual(x, x + 1e-3)


def test_rtol_equal_of_bfloat16_and_sequences():
    x = torch.tensor([0.0001, 0.5], dtype=torch.bfloat16)
    case.assertRtolEqual(x, x + torch.tensor([0.0005, 0.0], dtype=torch.bfloat16))
    rtol_fails(x, x + 0.25)
    case.assertRtolEqual(torch.tensor([1.0, 2.0]), [1, 2])
    rtol_fails([1, 2], torch.tensor([1.0, 3.0]))
    case.assertRtolEqual(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), auto_trans_dtype=True)
    rtol_fails(torch.tensor([1, 2]), torch.tensor([1.5, 2.0]), auto_trans_dtype=True)


def test_warnings():
    case.assertWarns(lambda: __import__("warnings").warn("here", stacklevel=1))
    with case.assertWarns(DeprecationWarning):
        __import__("warnings").warn("here", DeprecationWarning, stacklevel=1)
    with pytest.raises(AssertionError, match="why: there was no warning"):
        case.assertWarns(lambda: 0, "why")


def test_sparse_tensors():
    for uncoalesced in (False, True):
        made, indices, values = case.genSparseTensor((4, 5, 2), 2, 6, uncoalesced, "npu")
        assert made.is_npu and made.is_coalesced() != uncoalesced and indices.shape == (2, made._nnz())
        assert torch.equal(case.safeToDense(made).cpu(), made.cpu().to_dense()) and values.shape[1:] == (2,)
        case.assertEqual(made, made.cpu().coalesce())
    with pytest.raises(RuntimeError, match="3 elements"):
        case.genSparseTensor((0, 5), 1, 3, False)


def test_tests_of_operators():
    class Operator:
        name, dtypesIfNPU, formats = "double", (torch.float32, torch.int8), (0, 2)

        def get_decorators(self, *of):
            return []

    seen = []

    @decorator.instantiate_ops_tests([Operator()])
    class Generated(testcase.TestCase):
        def test_op(self, dtype, npu_format, op):
            seen.append((dtype, npu_format, op.name))

        def test_variant_consistency_eager(self, dtype, npu_format, op):
            seen.append(dtype)

    result = unittest.defaultTestLoader.loadTestsFromTestCase(Generated).run(unittest.TestResult())
    assert result.testsRun == 6 and result.wasSuccessful() and seen.count(torch.float32) == 2 and len(seen) == 6
    assert (torch.int8, 2, "double") in seen and hasattr(Generated, "test_op_double_int8_2")


PYTORCHS_OWN = """
import json, os, sys
json.dump({"test_off_npu (__main__.TestHere)": ["why", []], "test_other_chip_npu (__main__.TestHereNPU)": ["why", ["910A"]],
           "test_off_too_npu (__main__.TestHereNPU)": ["why", ["A2"]]}, open("disabled.json", "w"))
os.environ["DISABLED_TESTS_FILE"] = "disabled.json"
import torch, torch_npu
import torch_npu.testing
from torch.testing._internal.common_utils import TestCase, run_tests, TEST_CUDA
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA

class TestHere(TestCase):
    @onlyCUDA
    def test_device(self, device):
        assert TEST_CUDA and torch.device(device).type == "npu"
        print("ran", device)

    def test_off(self, device):
        print("disabled")

    def test_off_too(self, device):
        print("disabled")

    def test_other_chip(self, device):
        print("ran there")

instantiate_device_type_tests(TestHere, globals())
assert "TestHereCPU" not in globals()
if __name__ == "__main__":
    run_tests()
"""


def test_pytorchs_suites_run_for_the_npu(python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "suite.py"
    path.write_text(PYTORCHS_OWN)
    done = python(f"import runpy, sys; sys.argv = [{str(path)!r}]; runpy.run_path({str(path)!r}, run_name='__main__')",
                  CI=None)   # there PyTorch's run_tests writes reports with a package of its own
    assert "ran npu" in done.stdout and "ran there" in done.stdout and "disabled\n" not in done.stdout, done.stdout + done.stderr
    assert "skipped=2" in done.stderr, done.stderr


def test_fake_groups_take_npu_tensors(python):
    done = python("""
import torch, torch_npu.testing, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
x = torch.ones(2, device="npu")
dist.all_reduce(x)
print(x.device)
""")
    assert done.stdout.strip() == "npu:0", done.stderr
