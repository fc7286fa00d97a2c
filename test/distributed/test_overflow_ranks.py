"""Loss scaling on several ranks: an overflow on one of them skips the step on all, also where no inf shows it."""
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("overflow_ranks.py")


@pytest.mark.parametrize("kind, soc", [("saturating", "Ascend910A"), ("ieee", "Ascend910B3")])
def test_all_ranks_skip(tmp_path, kind, soc):
    environment = {**os.environ, "SOFTCANN_SOC": soc, "SOFTCANN_DEVICE_COUNT": "2", "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, str(SCRIPT), str(rank), str(tmp_path / "store"), kind], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(2)]
    try:
        outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n--- next rank\n".join(outputs)
