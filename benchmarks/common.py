"""The measuring: interleaved rounds, medians of ratios, a table and a JSON file.

Machines are shared and noisy, so a figure here is a ratio: both sides run in turn, round by round, and the ratio is
the median over the rounds. Only the standard library is needed: workers import this file in other environments.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROUNDS = 8
ANSWER = "answer: "


def seconds(function, calls=1):
    """Mean time of a call in one run of `calls` calls."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def best(measure, times):
    """The least of several runs: what another process takes away makes a run longer, never shorter."""
    return min(measure() for _ in range(times))


def interleave(functions, rounds=ROUNDS):
    """Runs each function once a round, in turn; a list of its results (numbers or lists of numbers) for each."""
    results = [[] for _ in functions]
    for _ in range(rounds):
        for function, list_of_results in zip(functions, results):
            list_of_results.append(function())
    return results


def ratio(ours, theirs):
    """Median over the rounds of ours / theirs."""
    return median(a / b for a, b in zip(ours, theirs))


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def label(size):
    """A number of bytes, such as 64 KiB."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def print_table(title, header, rows):
    """Rows of text and numbers; numbers with three significant digits."""
    def text(value):
        return value if isinstance(value, str) else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    lines = [header] + [[text(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    print(f"\n{title}")
    for number, line in enumerate(lines):
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(line, widths))))
        if number == 0:
            print("  ".join("-" * width for width in widths))


def arguments(name, document, more=lambda parser: None):
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", default=str(ROOT / "build" / "benchmarks" / f"{name}.json"), metavar="FILE")
    more(parser)
    return parser.parse_args()


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write_json(path, results):
    """Results with the machine they are from."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    print(f"\n{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f}; written to {path}")


class Worker:
    """A script in another process that answers each line on its standard input with one of JSON."""

    def __init__(self, script, *words, python=sys.executable, **environment):
        env = {**os.environ, **environment}
        self.process = subprocess.Popen([python, str(script), *words], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.ask()   # started and warm

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        for line in self.process.stdout:   # some clients print warnings there
            if line.startswith(ANSWER):
                return json.loads(line[len(ANSWER):])
        raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


AWAKE = 0.1   # seconds


def serve(measure):
    """The other end of Worker: answers each line of input with measure()."""
    for _ in sys.stdin:
        # A processor that was idle takes tens of milliseconds, on a virtual machine, to come to its full speed.
        start = time.perf_counter()
        while time.perf_counter() - start < AWAKE:
            pass
        print(ANSWER + json.dumps(measure()), flush=True)
