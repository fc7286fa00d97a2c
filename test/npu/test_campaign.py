"""A slice of the fault campaign; all of it is docs/fault_campaign.md."""
import pathlib
import re
import subprocess
import sys

import pytest

CAMPAIGN = pathlib.Path(__file__).resolve().parents[2] / "ci" / "campaign.py"


@pytest.mark.slow
def test_every_fault_is_told_or_survived(tmp_path):
    done = subprocess.run([sys.executable, str(CAMPAIGN), "--slice", "7/100", "--report", str(tmp_path / "report.md")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-8000:]
    report = (tmp_path / "report.md").read_text()
    faults, broken = re.search(r"(\d+) faults .* (\d+) broke a rule", report).groups()
    assert int(faults) > 5 and int(broken) == 0
    assert "`launch`" not in report, "a line of the trace that is no call"
