"""Shared by all tests: where things are, and what the C++ and Python parts leave to their own folders.

Folders by need: unit/ no device, codegen/ the registry, softcann/ the software CANN alone, npu/ a device,
witness/ the published client in an environment of its own.
"""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))   # the models the demo, the tests and the benchmarks share
sys.path.insert(0, str(ROOT))                # codegen, benchmarks

# Losses are compared with the CPU's step by step; two threads keep the runs short and the sums in one order.
os.environ.setdefault("OMP_NUM_THREADS", "2")


def run_python(code, timeout=1200, **environment):
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
