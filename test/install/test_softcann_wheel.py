"""softcann's folder is a project of its own: with ../cann beside it, and nothing else of the repository, it makes a wheel."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"


def run(*command, **kwargs):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The two folders elsewhere, without what builds have left in them."""
    copy = tmp_path_factory.mktemp("alone")
    for name in ("cann", "softcann"):
        shutil.copytree(ROOT / "third_party" / name, copy / name, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    return copy / "softcann"


def test_a_wheel_of_libraries_that_are_built(folder, tmp_path):
    if not (LIBRARIES / "libopapi.so").exists():
        pytest.skip("softcann is not built")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, folder,
        env={**os.environ, "SOFTCANN_LIBRARIES": str(LIBRARIES)})
    wheel, = tmp_path.glob("softcann-*.whl")
    minor = ".".join(torch.__version__.split(".")[:2])
    assert wheel.name.startswith(f"softcann-{minor}.0-py3-none-")
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH_NPU", "ASCEND"))}
    environment["PYTHONPATH"] = str(tmp_path / "site")
    assert run(sys.executable, "-m", "softcann", "path", env=environment, cwd=tmp_path).strip() == str(tmp_path / "site" / "softcann" / "lib")
    assert "SOFTCANN_DEVICE_COUNT" in run(sys.executable, "-m", "softcann", "options", env=environment, cwd=tmp_path)
    assert "--application" in run(tmp_path / "site" / "bin" / "msprof", "--help", env=environment, cwd=tmp_path)
    assert "NPU ID" in run(tmp_path / "site" / "bin" / "npu-smi", "info", "-m", env=environment, cwd=tmp_path)
    (tmp_path / "empty.om").touch()   # a command that fails, where there is no torch
    done = subprocess.run([sys.executable, "-S", "-m", "softcann", "bench", "--model", "empty.om"], env=environment, cwd=tmp_path,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and f"pip install 'torch=={minor}.*'" in done.stderr


@pytest.mark.slow
def test_the_runtime_compiles_from_its_own_folder(folder, tmp_path):
    """What the operators need besides is torch's folder, and half an hour; the runtime is quick."""
    run("cmake", "-S", folder, "-B", tmp_path, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DTORCH_DIR={pathlib.Path(torch.__file__).parent}", f"-DPython3_EXECUTABLE={sys.executable}",
        env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
    ninja = shutil.which("ninja", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    targets = run(ninja, "-C", tmp_path, "-t", "targets", "all")
    assert "lib/libopapi.so" in targets and "lib/libhccl.so" in targets
    run(ninja, "-C", tmp_path, "acl_tdt_channel", "cann_generate")
    commands = run(ninja, "-C", tmp_path, "-t", "commands", "opapi", "ascendcl", "hccl")
    assert str(ROOT / "ci") not in commands and str(ROOT / "csrc") not in commands and str(ROOT / "third_party") not in commands
