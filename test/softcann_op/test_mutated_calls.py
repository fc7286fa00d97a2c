"""Random calls of aclnn, right and wrong: see mutated_calls.py."""
import ast
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parent / "mutated_calls.py"


@pytest.mark.parametrize("seed", range(4))
def test_no_call_crashes(seed):
    path = os.pathsep.join(filter(None, [str(SCRIPT.parent), os.environ.get("PYTHONPATH")]))   # PYTHONSAFEPATH, of ci/sanitize.sh, leaves it out
    done = subprocess.run([sys.executable, str(SCRIPT), str(seed), "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, env={**os.environ, "SOFTCANN_HOST_TENSORS": "0", "SOFTCANN_MEMORY": "256M", "OMP_NUM_THREADS": "1",
                                            "PYTHONPATH": path,
                                            "SOFTCANN_INLINE_NS": "0" if seed % 2 else "20000"})
    assert done.returncode == 0, done.stderr[-4000:]
    counts = ast.literal_eval(done.stdout)
    assert counts["made"] > 1000 and counts[0] > 1000 and counts[161002] > 300, counts
