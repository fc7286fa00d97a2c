"""A short slice of ci/kill_ranks.py: ranks die at random, the others are told who, in time."""
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "ci" / "kill_ranks.py"


# Over TCP with more ranks, one that gave up because of the death closes its connections, and others may be told its name instead.
@pytest.mark.parametrize("transport, most_ranks", [("auto", 4), ("tcp", 2)])
def test_every_death_is_told_with_its_name(transport, most_ranks):
    # A machine that runs other tests may be slow to wake a rank up; what is told, and that nothing is left, does not depend on it.
    done = subprocess.run([sys.executable, str(SCRIPT), "--trials", "12", "--seed", "3", "--transport", transport, "--slack", "20",
                           "--most-ranks", str(most_ranks)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    report = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][0])
    assert report["trials"] == 12 and report["problems"] == 0
