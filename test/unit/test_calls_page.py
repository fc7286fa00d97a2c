"""docs/calls.md and the reasons beside its differences."""
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "calls.md").read_text()
REASONS = yaml.safe_load((ROOT / "ci" / "call_reasons.yaml").read_text())


def rows():
    table = PAGE.partition("## Computed by other operators")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines() if re.match(r"\| \d+: ", line)]


def test_each_reason_explains_a_difference():
    told = {row[-1] for row in rows()}
    assert rows() and [entry["reason"] for entry in REASONS if entry["reason"] not in told] == []


def test_reasons_are_patterns_with_a_sentence():
    for entry in REASONS:
        assert set(entry) - {"cases"} == {"here", "there", "reason"} and entry["reason"]
        for pattern in ("cases", "here", "there"):
            re.compile(entry.get(pattern, ""))


def test_the_page_counts_what_has_no_reason():
    counted = int(re.search(r"Differences without a reason: (\d+)", PAGE)[1])
    # Tables end their rows with "|": a row without a reason has an empty last cell.
    table = PAGE.partition("## Computed by other operators")[2].partition("\n## ")[0]
    assert counted == sum(line.rstrip().endswith("|  |") for line in table.splitlines() if re.match(r"\| \d+: ", line))
