"""Tests on a device: softcann with two devices unless the environment says otherwise."""

import os
import subprocess
import sys

import pytest

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")


def run_python(code, timeout=300, **environment):
    """Runs Python code in a process of its own; the completed process, with text output.

    None as a value removes the variable. What breaks a process (a failed stream, a fork, an import) is tested so.
    """
    env = dict(os.environ)
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return subprocess.run(
        [sys.executable, "-c", code], env=env, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def python():
    return run_python


@pytest.fixture(autouse=True)
def _device_zero():
    """Each test starts on npu:0 with its default stream."""
    import torch

    torch.npu.set_stream(torch.npu.default_stream(0))
    yield
    torch.npu.set_stream(torch.npu.default_stream(0))
