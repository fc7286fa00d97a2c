"""One kernel that computes something wrong, and says nothing (SOFTCANN_FAULT=...:value=): each tool names it first."""
import re

import pytest

from torch_npu import compare

# The second product of the second step is wrong; its result goes through operators in which it shows more.
PROGRAM = """
import sys
import torch, torch_npu

def train(device, steps=2):
    torch.manual_seed(0)
    x = torch.randn(8, 16).to(device)
    w1, w2 = torch.randn(16, 4).to(device).requires_grad_(), torch.randn(4, 3).to(device).requires_grad_()
    for step in range(steps):
        hidden = (x @ w1).sigmoid()
        loss = (hidden @ w2).softmax(-1).square().sum()   # WRONG: the fourth product, without gradients
        torch.npu.dump.step()
    return loss

with torch.no_grad():
"""
WRONG = next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "WRONG" in line)
FAULT = "aclnnMm:nth=4:value={}"


@pytest.fixture
def run(python, tmp_path):
    """run(statement, **environment): the program in a process of its own, from a file so that lines have names."""
    def start(statement, **environment):
        path = tmp_path / "program.py"
        path.write_text(f"{PROGRAM}    {statement}\n")
        return python(f"import runpy; runpy.run_path({str(path)!r})", **environment)
    return start


def dumped(run, folder, device, **environment):
    process = run(f"torch.npu.init_dump(); torch.npu.set_dump({{'dump_path': {str(folder)!r}, 'dump_device': {device!r}}}); "
                  f"train({device!r}); torch.npu.finalize_dump()", **environment)
    assert process.returncode == 0, process.stderr
    return str(folder)


@pytest.mark.parametrize("value", ["-3.5", "nan"])
def test_shadow_mode_names_it_first(run, tmp_path, value):
    process = run("train('npu')", SOFTCANN_FAULT=FAULT.format(value), TORCH_NPU_SHADOW="cpu", TORCH_NPU_SHADOW_PATH=tmp_path / "shadow")
    assert process.returncode == 1
    message = process.stderr[process.stderr.index("ShadowError: "):]
    assert "aten.mm.default (call 3)" in message and f"program.py:{WRONG}" in message and "[7, 2]" in message, message
    script, = (tmp_path / "shadow").glob("*/reproduce.py")
    assert "aten.mm.default" in script.read_text()
    assert run("train('npu')", TORCH_NPU_SHADOW="cpu").returncode == 0


@pytest.mark.parametrize("value", ["-3.5", "nan"])
def test_the_comparer_names_it_first(run, tmp_path, value, capsys):
    wrong = dumped(run, tmp_path / "wrong", "npu", SOFTCANN_FAULT=FAULT.format(value))
    right = dumped(run, tmp_path / "right", "npu")
    for other in (right, dumped(run, tmp_path / "cpu", "cpu")):
        result = compare.compare(wrong, other)
        assert result.made is result.first and result.first.operator == "aten.mm.default", result.first
        assert re.search(rf"program.py:{WRONG}$", result.first.lines[0]) and result.first.step == 1
    assert compare.main([wrong, right]) == 1
    capsys.readouterr()


def test_the_check_for_nan_names_it_first(run):
    process = run("train('npu')", SOFTCANN_FAULT=FAULT.format("nan"), TORCH_NPU_CHECK_NAN_INF="1")
    assert process.returncode == 1
    error = process.stderr[process.stderr.index("RuntimeError: "):]
    assert "Mm" in error and "nan of finite operands" in error, error
    assert f"line {WRONG}, in train" in process.stderr
    assert run("train('npu')", TORCH_NPU_CHECK_NAN_INF="1").returncode == 0


def test_without_a_tool_nobody_tells(run):
    process = run("print(train('npu').item())", SOFTCANN_FAULT=FAULT.format("nan"))
    assert process.returncode == 0 and process.stdout.split() == ["nan"], process.stderr


def test_rules_that_make_no_sense_are_refused(run):
    for rule in ("aclnnMm:value=", "aclnnMm:value=much", "aclnnMm:value=1:code=507015"):
        process = run("train('npu')", SOFTCANN_FAULT=rule)
        assert process.returncode == 1 and "SOFTCANN_FAULT" in process.stderr, rule
