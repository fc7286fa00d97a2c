"""What operators compute does not depend on how their tensors lie in memory: see relaid_calls.py."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CALLS = HERE.parent / "witness" / "calls.py"   # each of PyTorch's and of Ascend's operators, and some networks


def test_results_in_every_layout(tmp_path):
    recorded = {**os.environ, "SOFTCANN_RECORD": str(tmp_path / "calls.rec"), "SOFTCANN_TRACE": str(tmp_path / "calls.trace"),
                "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(CALLS)], env=recorded, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:]
    again = subprocess.run([sys.executable, str(HERE / "relaid_calls.py"), recorded["SOFTCANN_RECORD"]],
                           env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    assert again.returncode == 0, again.stderr[-2000:]
    *wrong, counts = again.stdout.splitlines()
    operators, calls = int(counts.split()[0]), int(counts.split()[2])
    assert not wrong and operators > 400 and calls > 6000, again.stdout
