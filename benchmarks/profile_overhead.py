"""What a profile costs a launch: off, the host alone, Level0, Level1, and Level1 of the device alone.

    python benchmarks/profile_overhead.py [--instructions]

An addition on one element, launched from Python; its kernel is a no-op (SOFTCANN_NOOP=1) and what is measured is the processor
time of the launching thread, so that other programs disturb little. Rounds are interleaved; each figure is the median over the
rounds of the difference to the same round without a profile. "off after" is measured behind a profile that has ended.

--instructions: the instructions of a launch, counted by valgrind (cachegrind), which no load disturbs: two runs of a program with
different numbers of launches, and the difference of their counts. Minutes.
"""
import os
import re
import subprocess
import sys
import tempfile
import time
from statistics import median

import common

CALLS = 2000
FEW, MANY = 200, 1200  # launches of the two counted runs
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "SOFTCANN_THREADS": "1", "SOFTCANN_NOOP": "1"}
KINDS = ("off", "host", "Level0", "Level1", "Level1, device")
TIMED = (*KINDS, "off after")


def make_profile(kind):
    from torch_npu import profiler

    if kind == "host":
        return profiler.profile(activities=[profiler.ProfilerActivity.CPU])
    level, _, device_alone = kind.partition(", ")
    activities = [profiler.ProfilerActivity.NPU] if device_alone else None
    config = profiler._ExperimentalConfig(profiler_level=getattr(profiler.ProfilerLevel, level))
    return profiler.profile(activities=activities, experimental_config=config)


def launcher():
    import torch

    import torch_npu  # noqa: F401

    a, b, out = (torch.ones(1, device="npu") for _ in range(3))

    def launch(calls):
        for _ in range(calls):
            torch.add(a, b, out=out)

    launch(CALLS)
    torch.npu.synchronize()
    return launch, torch.npu.synchronize


def worker():
    """Microseconds of the thread for a launch: a round of all kinds, for each line of input."""
    launch, synchronize = launcher()

    def measure(kind):
        profile = None if kind.startswith("off") else make_profile(kind)
        if profile is not None:
            profile.start()
        begin = time.thread_time()
        launch(CALLS)
        passed = time.thread_time() - begin
        synchronize()
        if profile is not None:
            profile.stop()
        return passed / CALLS * 1e6

    common.serve(lambda: [measure(kind) for kind in TIMED])


def counted(kind, calls):
    """The program whose instructions are counted."""
    launch, synchronize = launcher()
    profile = None if kind == "off" else make_profile(kind)
    if profile is not None:
        profile.start()
    launch(calls)
    synchronize()
    os._exit(0)  # what becomes of the records afterwards is no part of a launch


def instructions(kind, calls):
    with tempfile.NamedTemporaryFile() as file:
        done = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={file.name}", sys.executable,
                               __file__, "counted", kind, str(calls)], env={**os.environ, **ENVIRONMENT}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = re.search(r"I +refs: +([\d,]+)", done.stdout)
    if found is None:
        sys.exit(f"valgrind counted nothing:\n{done.stdout[-2000:]}")
    return int(found[1].replace(",", ""))


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker()
    if sys.argv[1:2] == ["counted"]:
        return counted(sys.argv[2], int(sys.argv[3]))
    options = common.arguments("profile_overhead", __doc__, lambda parser: parser.add_argument("--instructions", action="store_true"))
    if options.instructions:
        rows = [[kind, (instructions(kind, MANY) - instructions(kind, FEW)) / (MANY - FEW)] for kind in KINDS]
        return common.print_table("Instructions of a launch", ["profile", "instructions"], rows)
    process = common.Worker(__file__, "worker", **ENVIRONMENT)
    rounds = [process.ask() for _ in range(options.rounds)]
    process.close()
    found = {kind: [one[place] for one in rounds] for place, kind in enumerate(TIMED)}
    rows = [[kind, median(times), median(a - b for a, b in zip(times, found["off"]))] for kind, times in found.items()]
    common.print_table("Processor time of a launch (us)", ["profile", "launch", "above off"], rows)
    common.write_json(options.json, found)


if __name__ == "__main__":
    main()
