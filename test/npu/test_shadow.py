"""Shadow mode: each operator on the CPU beside the NPU."""
import subprocess
import sys

import pytest
import torch

from torch_npu.npu import shadow


@pytest.fixture
def wrong():
    """wrong(name, function): that function is the NPU's kernel of aten::name until the test ends."""
    libraries = []

    def register(name, function):
        library = torch.library.Library("aten", "IMPL")
        library.impl(name, function, "PrivateUse1")
        libraries.append(library)
    yield register
    for library in libraries:
        library._destroy()


pytestmark = pytest.mark.filterwarnings("ignore:.*[Oo]verriding a previously registered kernel.*")


def sinh_with_a_bad_row(x):
    out = x.cpu().sinh()
    out.view(-1)[-1] *= 1.001
    return out.npu()


def test_a_wrong_kernel_is_the_first_that_is_named_and_can_be_reproduced(wrong, tmp_path, python):
    wrong("sinh", sinh_with_a_bad_row)
    x = torch.arange(6.0, device="npu").view(2, 3)
    with shadow.Shadow(str(tmp_path)) as mode, pytest.raises(shadow.ShadowError) as caught:
        (x.sigmoid() + 1).sinh().sum()
    message, difference = str(caught.value), caught.value.difference
    assert "aten.sinh.default (call " in message and __file__ in message and "self float32[2, 3]" in message
    assert difference.index == (1, 2) and difference.error == pytest.approx(1e-3, rel=1e-2) and difference.npu != difference.cpu
    assert mode.compared == 3
    script = f"{caught.value.folder}/reproduce.py"
    assert f"python {script}" in message
    right = subprocess.run([sys.executable, script], text=True, capture_output=True)
    assert right.returncode == 0 and "the results agree" in right.stdout, right.stderr   # there the kernel is the right one
    args, kwargs = torch.load(f"{caught.value.folder}/inputs.pt")
    assert shadow.run(torch.ops.aten.sinh.default, args, kwargs).index == (1, 2)


def test_a_wrong_kernel_of_a_backward_pass(wrong, tmp_path):
    wrong("tanh_backward", lambda grad, output: grad * (1 - output))
    x = torch.ones(3, device="npu", requires_grad=True)
    with shadow.Shadow(str(tmp_path)), pytest.raises(shadow.ShadowError, match=r"aten.tanh_backward.default") as caught:
        x.tanh().sum().backward()
    assert f"{__file__}:" in str(caught.value) and "(backward)" in str(caught.value)


def test_what_is_written_into_arguments_is_compared(wrong, tmp_path):
    wrong("_foreach_add_.Scalar", lambda tensors, value: [t.copy_((t.cpu() + 2 * value).npu()) for t in tensors] and None)
    tensors = [torch.zeros(2, device="npu"), torch.ones(1, device="npu")]
    with shadow.Shadow(str(tmp_path)), pytest.raises(shadow.ShadowError, match=r"'self\[0\]'.*2.0 on the NPU and 1.0 on the CPU"):
        torch._foreach_add_(tensors, 1.0)


@pytest.mark.parametrize("result, message", [(lambda x: x.double(), "on the CPU float32"), (lambda x: x[:1].clone(), "shape"),
                                             (lambda x: x * float("nan"), "finite on one side only")])
def test_other_dtypes_shapes_and_nan_are_differences(wrong, tmp_path, result, message):
    wrong("cosh", result)
    with shadow.Shadow(str(tmp_path)), pytest.raises(shadow.ShadowError, match=message):
        torch.ones(2, device="npu").cosh()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_training_a_network_is_silent(tmp_path, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(72, 5)).npu().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(4, 3, 8, 8, device="npu", dtype=dtype), torch.randint(5, (4,), device="npu")
    with shadow.Shadow(str(tmp_path)) as mode:
        for _ in range(2):
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert mode.compared > 40
    assert not set(mode.skipped.values()) - {"random numbers", "nothing is computed"}, mode.skipped


def test_cancellation_and_ties_are_no_differences(tmp_path):
    x = torch.randn(64, 1000, device="npu") * 100
    ties = torch.randint(3, (200,), device="npu").float()
    with shadow.Shadow(str(tmp_path)) as mode:
        (x - x.mean()).sum()
        x[:, :500] @ x[:, :500].t() - (x @ x.t())
        ties.sort()
        ties.topk(5)
        (x > 0).sum()
    assert mode.compared >= 9 and set(mode.skipped.values()) == {"nothing is computed"}


def test_what_the_cpu_cannot_do_is_told(tmp_path):
    with shadow.Shadow(str(tmp_path)) as mode:
        torch.randn(3, device="npu")
        torch.empty(3, device="npu").view(3, 1)
    assert mode.skipped["aten.randn.default"] == "random numbers" and mode.compared == 0


def test_a_folder_that_cannot_be_written_is_told_and_the_operator_named_all_the_same(wrong, tmp_path):
    (tmp_path / "file").write_text("")
    wrong("sinh", sinh_with_a_bad_row)
    with shadow.Shadow(str(tmp_path / "file")), pytest.raises(shadow.ShadowError, match="(?s)aten.sinh.*could not be saved") as caught:
        torch.ones(2, device="npu").sinh()
    assert caught.value.folder is None


def test_the_environment_switches_it_on(python, tmp_path):
    code = """if True:
        import torch, torch_npu, warnings
        warnings.simplefilter("ignore")
        library = torch.library.Library("aten", "IMPL")
        library.impl("sinh", lambda x: x * 2, "PrivateUse1")
        x = torch.ones(2, device="npu") + 1
        x.sinh()"""
    process = python(code, TORCH_NPU_SHADOW="cpu", TORCH_NPU_SHADOW_PATH=str(tmp_path))
    assert process.returncode == 1 and "ShadowError: aten.sinh.default" in process.stderr and list(tmp_path.glob("*/reproduce.py"))
    process = python("import torch, torch_npu", TORCH_NPU_SHADOW="gpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.returncode == 1 and "TORCH_NPU_SHADOW=gpu: expected cpu" in process.stderr
