"""ci/build.sh, ci/check_torch.sh and ci/check_wheel.sh: what they refuse, and how they say so. Nothing is built."""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest
import torch
from built_tree import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "{}.{}".format(*sys.version_info[:2])


def script(name, *arguments, **environment):
    return subprocess.run(["bash", str(ROOT / "ci" / name), *arguments], env={**os.environ, "PYTHON": sys.executable, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, cwd="/")


@pytest.mark.parametrize("name", ["build.sh", "check_torch.sh", "check_wheel.sh", "demo.sh"])
def test_help(name):
    run = script(name, "--help")
    assert run.returncode == 0 and f"bash ci/{name}" in run.stdout and not run.stderr


@pytest.mark.parametrize("name", ["build.sh", "check_torch.sh"])
def test_unknown_argument(name):
    run = script(name, "--fast")
    assert run.returncode == 1 and "unknown argument '--fast'" in run.stderr and "--help" in run.stderr


@pytest.mark.parametrize("name, torch", [
    ("build.sh", "--torch=1.13"), ("build.sh", "--torch=2"), ("check_wheel.sh", "--torch=1.13"), ("check_torch.sh", "2.7")])
def test_unsupported_torch_is_refused_with_the_table(name, torch):
    run = script(name, f"--python={PYTHON}", torch)
    assert run.returncode == 1 and f"Python {PYTHON} with torch {torch.split('=')[-1]} is not supported" in run.stderr
    assert (ROOT / "ci" / "versions.txt").read_text().strip() in run.stderr


def test_unsupported_python_is_refused_with_the_table():
    run = script("build.sh", "--python=3.8")
    assert run.returncode == 1 and "Python 3.8 is not supported" in run.stderr
    assert (ROOT / "ci" / "versions.txt").read_text().strip() in run.stderr


def test_an_absent_python_is_an_error_that_says_how_to_get_it(tmp_path):
    other = "3.10" if PYTHON != "3.10" else "3.12"
    run = script("build.sh", f"--python={other}")   # PYTHON names another one
    assert run.returncode == 1 and f"apt-get install python{other}" in run.stderr and "PYTHON=" in run.stderr


def test_only_the_bindings_know_the_python():
    """Other objects serve every Python: a command that names this one's folders would compile them again for the next."""
    if not (BUILD / "compile_commands.json").exists():
        pytest.skip("nothing is built in this tree for this Python and torch")
    folders = {sys.prefix, sys.base_prefix, sysconfig.get_path("include")} - {"/usr"}
    launchers = set(re.findall(r"^ *LAUNCHER = (.*)", (BUILD / "build.ninja").read_text(), re.M))   # ccache
    assert not [launcher for launcher in launchers if any(folder in launcher for folder in folders)]
    units = json.loads((BUILD / "compile_commands.json").read_text())
    here = str(pathlib.Path(torch.__file__).parent)
    knowing = {unit["file"] for unit in units if any(folder in unit["command"].replace(here, "") for folder in folders)}
    assert knowing == {unit["file"] for unit in units if "torch_npu_python.dir" in unit["output"]}
