"""examples/offline/run.sh: each example in one command, as a new user starts it. Those with pictures: test/softcann_media."""
import os
import subprocess

import pytest
from acl_tools import ROOT

pytest.importorskip("onnx", reason="softcann[atc] is not installed")


@pytest.fixture(scope="module")
def start():
    """run.sh of a tree whose environment is the one that runs the tests; the lines of stdout."""
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("this tree has no .venv")
    stamp = ROOT / ".venv/.stamp-offline"
    stamp.write_text((ROOT / "examples/offline/requirements.txt").read_text())   # the tests' environment has what is in it

    def run(*words):
        done = subprocess.run(["bash", str(ROOT / "examples/offline/run.sh"), *words], cwd="/", capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_NPU_RUNTIME": "softcann"}, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()
    return run


def test_batches_of_several_sizes(start):
    lines = start("dynamic_batch", "--rows", "3,9")
    assert lines[:2] == ["3 rows: output [3, 10]", "9 rows: output [9, 10]"] and lines[2].startswith("largest difference from eager ")


def test_image_and_text(start):
    lines = start("clip", "one", "two")
    assert [line.split(" ", 1)[1] for line in lines[:2]] == ["one", "two"]
    assert abs(sum(float(line.split()[0]) for line in lines[:2]) - 1) < 2e-3 and lines[2].startswith("largest difference from eager ")


def test_deployment(start, tmp_path):
    lines = start("deploy", "--out", str(tmp_path))
    assert [line for line in lines if line.startswith("==")] == ["== 1. the NPU", "== 2. convert", "== 3. validate", "== 4. benchmark"]
    assert "ATC run success, welcome to the next use." in lines and any("cosine 1.0000" in line for line in lines)
    assert any("NPU_compute_time (ms): min = " in line for line in lines) and (tmp_path / "net.om").exists()


def test_cpp(start):
    found = [line for line in start("cpp") if line.startswith("output y [2,10] ")]
    assert len(found) == 2 and found[0] == found[1]   # one run at a time, and several on a stream
