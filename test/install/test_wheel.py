"""The wheel in an environment of its own: what it says of itself, that it runs, and that it leaves nothing behind."""

import email
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])


def run(*command, **kwargs):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)
    assert done.returncode == 0, done.stdout.decode()[-4000:]
    return done.stdout.decode()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment without anything, but for torch and what it depends on, lent by the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    lender = pathlib.Path(torch.__file__).parents[1]
    (folder / SITE / "lent.pth").write_text(f"{lender}\n")
    return folder


def files(folder):
    """Without compiled Python, which belongs to whoever ran first (pip, venv)."""
    return {path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def pip(environment, *arguments):
    return run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", *arguments)


USE = """
import sys, torch, torch_npu
assert torch_npu.__file__.startswith(sys.prefix), torch_npu.__file__
assert torch_npu.run_check()
x = torch.randn(4, 3, device="npu", requires_grad=True)
(x @ x.t()).relu().sum().backward()
assert x.grad.shape == (4, 3) and not torch_npu.fallbacks()
"""


def test_install_run_elsewhere_uninstall(wheel, environment, tmp_path):
    before = files(environment)
    pip(environment, "install", "-q", "--no-deps", "--no-index", wheel)
    assert files(environment) > before
    # No compiler, no tools: an empty PATH.
    clean = {"PATH": str(tmp_path), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "TORCH_NPU_RUNTIME": "softcann"}
    python = environment / "bin" / "python"
    assert "works well on 1 npu" in run(python, "-c", USE, cwd=tmp_path, env=clean)
    assert "works well on 1 npu" in run(python, "-m", "torch_npu.doctor", cwd=tmp_path, env=clean)
    assert "Chip Logic ID" in run(environment / "bin" / "npu-smi", "info", "-m", cwd=tmp_path, env=clean)
    assert "--enable_tiered_parallel_tcpstore" in run(environment / "bin" / "torch_npu_run", "--help", cwd=tmp_path, env=clean)
    assert list(tmp_path.iterdir()) == []
    pip(environment, "uninstall", "-q", "-y", "torch_npu")
    assert files(environment) - before == set()
    assert not any("torch_npu" in str(path) for path in environment.rglob("*"))


def test_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = next(name for name in names if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"torch=={minor}.*" in metadata.get_all("Requires-Dist")
    assert metadata["Version"].startswith(f"{minor}.") and metadata["Requires-Python"] == ">=3.9"
    assert metadata["License-Expression"] == "BSD-3-Clause" and f"{folder}/licenses/LICENSE" in names
    assert "Programming Language :: Python :: {}.{}".format(*sys.version_info[:2]) in metadata.get_all("Classifier")
    assert re.search(r"\[torch.backends\]\s+torch_npu = torch_npu:_autoload", entry_points)


def test_contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for wanted in ("__init__.pyi", "_C.pyi", "py.typed", "_build_info.py", "lib/libtorch_npu.so", "softcann/lib/libopapi.so",
                   "include/torch_npu/torch_npu.h", "doctor.py"):
        assert f"torch_npu/{wanted}" in names, wanted
    # Every Python module of the tree, and nothing that is not ours.
    tracked = {str(path.relative_to(ROOT)) for path in (ROOT / "torch_npu").rglob("*.py")}
    assert tracked <= names | {"torch_npu/_build_info.py"}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"torch_npu"}


VERSION = """
import sys; sys.path.insert(0, "ci")
import native_build
print(native_build.own_version("2.13.0"), native_build.own_version("2.9.1"))
"""


def test_version_comes_from_the_commit(tmp_path):
    """Two trees of one commit, wherever they are, have one version; a tree without a repository has no suffix."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    commit = run("git", "rev-parse", "--short=7", "HEAD", cwd=ROOT).strip()
    revision = (ROOT / "VERSION").read_text().strip()
    versions = []
    for name in ("a", "b"):
        run("git", "clone", "-q", "--shared", ROOT, tmp_path / name)
        versions.append(run(sys.executable, "-c", VERSION, cwd=tmp_path / name))
    assert versions == [f"2.13.{revision}+git{commit} 2.9.{revision}+git{commit}\n"] * 2
    copy = tmp_path / "a" / "archive"   # unpacked inside of another repository
    (copy / "ci").mkdir(parents=True)
    (copy / "ci" / "native_build.py").write_bytes((ROOT / "ci" / "native_build.py").read_bytes())
    (copy / "VERSION").write_text(revision)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    assert run(sys.executable, "-c", VERSION, cwd=copy, env=environment) == f"2.13.{revision} 2.9.{revision}\n"
