"""run_check() and the doctor: what they say when all is well, and when it is not."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch

import torch_npu
from torch_npu import _health, doctor as doctor_module


def test_run_check(capsys):
    assert torch_npu.run_check() is True
    assert capsys.readouterr().out == f"torch_npu works well on {torch.npu.device_count()} npu\n"


def test_run_check_says_what_is_wrong(capsys, monkeypatch):
    def wrong(index):
        raise _health.WrongResult("a matrix product on npu:0 is 3 too much")

    monkeypatch.setattr(_health, "_check_device", wrong)
    assert torch_npu.run_check() is False
    out = capsys.readouterr().out
    assert "is 3 too much" in out and "Remedy: the device computes wrongly" in out


@pytest.mark.parametrize(
    "code, remedy", [(107001, "ASCEND_RT_VISIBLE_DEVICES"), (207001, "free device memory"), (207004, "install the driver"), (507046, "in time"), (9, "doctor")]
)
def test_the_remedy_goes_by_the_code(monkeypatch, code, remedy):
    error = RuntimeError("no NPU is wrong by a forked word")  # words decide nothing
    error.error_code = code

    def failing(index):
        raise error

    monkeypatch.setattr(_health, "_check_device", failing)
    assert remedy in _health.find_problem().split("Remedy:")[1]


def test_cann_errors_carry_their_code():
    with pytest.raises(torch.AcceleratorError) as caught:
        torch.npu.ExternalStream(0xDEAD000)
    assert caught.value.error_code == 107017


def test_check_finds_a_wrong_result(monkeypatch):
    good = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: good(a, b) + (1 if a.is_npu else 0))
    with pytest.raises(RuntimeError, match="a matrix product on npu:0 is wrong"):
        _health._check_device(0)


def test_run_check_without_cann(python):
    run = python("import torch_npu; print(torch_npu.run_check())", TORCH_NPU_RUNTIME="cann", ASCEND_HOME_PATH="/nowhere")
    assert "False" in run.stdout and "ASCEND_HOME_PATH=/nowhere" in run.stdout and "Remedy:" in run.stdout, run.stderr


def doctor(**environment):
    import os

    return subprocess.run(
        [sys.executable, "-m", "torch_npu.doctor"],
        env=dict(os.environ, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=1200,
    )


def test_doctor():
    run = doctor()
    assert run.returncode == 0, run.stdout + run.stderr
    for text in ("torch_npu", "because", "libascendcl", "npu:0", torch.npu.get_device_name(), "works well on"):
        assert text in run.stdout


def test_doctor_shows_options_and_trouble():
    run = doctor(TORCH_NPU_FALLBACK_CPU_DISABLE="1")
    assert "fallback_forbidden" in run.stdout and run.returncode == 0
    run = doctor(TORCH_NPU_RUNTIME="cann", ASCEND_HOME_PATH="/nowhere")
    assert run.returncode == 1 and "ASCEND_HOME_PATH=/nowhere" in run.stdout


@pytest.mark.parametrize("code, meaning, cause, after", [
    ("507035", "a vector core kernel failed", "index out of range", "ASCEND_LAUNCH_BLOCKING=1"),
    ("HCCL_E_TIMEOUT", "HCCL's result 9", "another rank", "watchdog"), ("107024", "captured stream", "event", "docs/graphs.md")])
def test_a_code_is_explained(capsys, code, meaning, cause, after):
    assert doctor_module.main(["explain", code]) == 0
    first, causes, todo = capsys.readouterr().out.splitlines()
    assert first.startswith(code) and meaning in first
    assert causes.startswith("  likely causes: ") and cause in causes and todo.startswith("  what to do: ") and after in todo


def test_an_unknown_code_is_said_to_be_so(capsys, tmp_path):
    assert doctor_module.main(["explain", "999999", "507035", str(tmp_path), "9" * 5000]) == 1
    out = capsys.readouterr().out
    assert "999999: neither a code that torch_npu knows nor a file" in out and "99: neither a code" in out
    assert f"{tmp_path} cannot be read: Is a directory" in out


def contract():
    """The text of the contract's headers."""
    folder = pathlib.Path(__file__).parents[2] / "third_party" / "cann" / "include"
    return "".join(path.read_text() for path in folder.rglob("*.h"))


def test_every_result_of_hccl_has_advice():
    from torch_npu._errors import advice

    names = dict(re.findall(r"(HCCL_E_\w+)\s*=\s*(\d+)", contract()))
    names.pop("HCCL_E_RESERVED", None)
    assert names and {name: str(row[0]) for name, row in advice.HCCL.items()} == names


def test_every_code_of_the_contract_is_explained():
    """By `torch_npu.doctor explain`: what it means, what may lie behind it, what to do."""
    from torch_npu._errors.explain import explain

    codes = dict(re.findall(r"#define (ACL_ERROR_\w+|ACLNN_ERR_\w+)\s+(\d{6})\b", contract()))
    assert len(codes) > 250 and codes["ACL_ERROR_RT_SUSPECT_REMOTE_ERROR"] == "507057"
    short = {name: code for name, code in codes.items() if len((explain(code) or "").splitlines()) != 3}
    assert short == {}


def test_a_log_is_explained_with_the_first_line_of_each_code(capsys, tmp_path):
    """The log is what a failing program really wrote."""
    failing = ("import torch, torch_npu\nx = torch.ones(2, device='npu')\n"
               "print(x[torch.tensor([9], device='npu')].cpu())")
    run = subprocess.run([sys.executable, "-c", failing], text=True, capture_output=True)
    log = tmp_path / "train.log"
    log.write_text("2026-11-23 12:00:00.507035 step 107001/200000 loss 1.507035\n" + run.stderr + run.stderr
                   + "EI0006: [PID: 1] getting a socket took too long\nHcclAllReduce failed with code 9 (timeout)\n")
    assert doctor_module.main(["explain", str(log)]) == 0
    out = capsys.readouterr().out
    heads = [line.partition(":")[0] for line in out.splitlines()[1:] if line and not line.startswith(" ")]
    assert set(heads) == {"507035", "ERR00100", "EI0006", "HCCL_E_TIMEOUT"} and "aclnnIndex" in out
    assert "in 2 lines, first in line" in out and out.index("507035:") < out.index("EI0006:")
    log.write_text("all is well\n")
    assert doctor_module.main(["explain", str(log)]) == 0 and "no code that torch_npu knows" in capsys.readouterr().out
