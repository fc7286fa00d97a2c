"""run_check() and the doctor: what they say when all is well, and when it is not."""

import subprocess
import sys

import pytest
import torch

import torch_npu
from torch_npu import _health


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
    "code, remedy", [(107001, "ASCEND_RT_VISIBLE_DEVICES"), (207001, "free device memory"), (507046, "in time"), (9, "doctor")]
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
