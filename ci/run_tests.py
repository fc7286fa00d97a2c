"""Runs the tests on all cores, then those that need the machine alone; called by ci/test.sh with arguments for pytest.

`--quick` takes what QUICK names. Two passes of pytest: first, all but the tests marked `alone`, with one worker a core and whole
files to each worker; then the others, one after the other. At the end: the slowest 20 of both passes, and one line that sums up.
"""
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from typing import Dict, List, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPORTS = ROOT / "build" / "test-reports"
SLOWEST = 20
# `--quick`: the tree and the registry, softcann's operators, every family of operators, Ascend's own operators, what is central
# to the adapter, and collectives between ranks. Not: sweeps of all of OpInfo, whole models, failures of ranks, wheels, C++,
# fuzzing, how processes end, switches for debugging, the published client.
QUICK = [
    "test/unit", "test/codegen", "test/softcann", "test/softcann_op", "test/softcann_model", "test/test_network_ops",
    "test/npu_ops",
    *(f"test/npu/test_{name}.py" for name in (
        "device", "event", "generator", "import", "memory", "numbers", "runtime", "serialization", "settings",
        "stream")),
    "test/amp/test_autocast.py", "test/amp/test_grad_scaler.py", "test/distributed/test_collectives.py",
]
NOTHING_COLLECTED = 5   # pytest's exit code
ENDS = {"failure": "failed", "error": "errors", "skipped": "skipped"}   # elements of a JUnit report
Times = List[Tuple[float, str]]


def passes(arguments: List[str]) -> List[Tuple[str, List[str]]]:
    """Name and options of the passes. Options given by the caller come last, so that they win."""
    workers = len(os.sched_getaffinity(0))
    together = ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"] if workers > 1 else []
    return [("together", [*together, "--alone=no", *arguments]), ("alone", ["--alone=only", *arguments])]


def counts_and_times(report: pathlib.Path) -> Tuple[Dict[str, int], Times]:
    """Of a JUnit report: how many tests ended how, and seconds and name of each."""
    counts, times = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0}, []
    for case in ElementTree.parse(report).iter("testcase"):
        ended = next((ENDS[child.tag] for child in case if child.tag in ENDS), "passed")
        counts[ended] += 1
        times.append((float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}"))
    return counts, times


def stops_at_failures(arguments: List[str]) -> bool:
    return any(argument in ("-x", "--exitfirst") or argument.startswith("--maxfail") for argument in arguments)


def main(arguments: List[str]) -> int:
    """pytest's exit code: of the first pass that failed, 5 if neither found a test, else 0."""
    if "--quick" in arguments:
        arguments = [*QUICK, *(argument for argument in arguments if argument != "--quick")]
    REPORTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    # Once, where PYTHONDONTWRITEBYTECODE would leave it to each of a thousand processes.
    subprocess.run([sys.executable, "-m", "compileall", "-q", "torch_npu", "third_party/softcann/python"], cwd=ROOT, check=True)
    total, times, codes = {}, [], []
    for name, options in passes(arguments):
        report = REPORTS / f"{name}.xml"
        report.unlink(missing_ok=True)
        codes.append(subprocess.run([sys.executable, "-m", "pytest", f"--junitxml={report}", *options], cwd=ROOT).returncode)
        if report.exists():
            counts, seconds = counts_and_times(report)
            total = {kind: total.get(kind, 0) + count for kind, count in counts.items()}
            times += seconds
        if codes[-1] not in (0, NOTHING_COLLECTED) and (codes[-1] != 1 or stops_at_failures(arguments)):
            break
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    code = failures[0] if failures else min(codes)
    if times:
        print(f"\nslowest {SLOWEST} (seconds, with their fixtures):")
        for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
            print(f"{seconds:8.1f}  {name}")
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    counted = ", ".join(f"{count} {kind}" for kind, count in total.items() if count or kind == "passed")
    print(f"ci/test.sh: {counted or 'no tests'} in {minutes} min {seconds} s; exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
