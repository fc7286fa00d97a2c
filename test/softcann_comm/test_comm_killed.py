"""A short slice of ci/kill_ranks.py: ranks die at random, the others are told who, in time."""
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "ci" / "kill_ranks.py"


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_every_death_is_told_with_its_name(transport):
    # A machine that runs other tests may be slow to wake a rank up; what is told, and that nothing is left, does not depend on it.
    done = subprocess.run([sys.executable, str(SCRIPT), "--trials", "12", "--seed", "3", "--transport", transport, "--slack", "20"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    report = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][0])
    assert report["trials"] == 12 and report["problems"] == 0
