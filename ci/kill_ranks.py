#!/usr/bin/env python3
"""Kills or stops a random rank, at a random moment, again and again: every other rank has to get an error that names it, in
time, and nothing may be left behind.

    .venv/bin/python ci/kill_ranks.py --trials 1000 [--seed N] [--transport auto|tcp]
    .venv/bin/python ci/kill_ranks.py --seed N --first NUMBER --trials 1 --again 100     # one that went wrong

A trial forks 2 to 4 ranks that connect and then call collectives of random kinds and sizes. Half of the victims are killed,
half are stopped (SIGSTOP), a quarter of them while the ranks connect. A rank has the limit of its call from the death on, or from
the call where that is later. Where the machine is so slow that a rank's time is over before anybody dies, the trial is done
again, and counted. Prints a table and what went wrong; exits with 1 if anything did.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import select
import signal
import struct
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_REPEATED = 10
EXECUTE, CONNECT = 1, 2   # seconds: HCCL_EXEC_TIMEOUT, HCCL_CONNECT_TIMEOUT
REPORT = struct.Struct("=cddi")   # kind, when it was told, when its call began, code
NAMED = re.compile(r"rank(?:\(s\))? ([\d, ]+)")


class Clock:
    """When this rank's present call began."""

    def __init__(self):
        self.began = time.monotonic()

    def begin(self):
        self.began = time.monotonic()


def communicate(hccl, np, comm, rng, clock):
    """Collectives until one fails."""
    buffers = {count: hccl.Buffer(np.zeros(count * comm.size, np.float32)) for count in (1, 1000, 50000)}
    while True:
        count = rng.choice(list(buffers))
        call = rng.choice(["reduce", "gather", "broadcast", "barrier"])
        clock.begin()
        if call == "reduce":
            comm.all_reduce(buffers[count], buffers[count], count, "float32")
        elif call == "gather":
            comm.all_gather(buffers[count], buffers[count], count, "float32")
        elif call == "broadcast":
            comm.broadcast(buffers[count], count, "float32", rng.randrange(comm.size))
        else:
            comm.barrier()
        if rng.random() < 0.5:
            clock.begin()
            hccl.synchronize()


def rank_main(rank, size, seed, roots, report):
    """The life of one rank; what it was told goes to `report`."""
    import hccl
    import numpy as np
    connected, clock = False, Clock()
    try:
        hccl.open_device()
        if rank == 0:
            info = hccl.root_info()
            for _, write in roots[1:]:
                os.write(write, info)
        else:
            info = b""
            while len(info) < hccl.ROOT_INFO_BYTES:
                info += os.read(roots[rank][0], hccl.ROOT_INFO_BYTES)
        os.write(report, b"\0")   # about to connect
        clock.begin()
        comm = hccl.Comm.connect(size, info, rank)
        connected = True
        os.write(report, b"\1")
        communicate(hccl, np, comm, random.Random(seed), clock)
    except hccl.HcclError as error:
        os.write(report, REPORT.pack(b"\2", time.monotonic(), clock.began, error.code) + str(error).encode())
        if rank == 0 and not connected:   # with its process the place where ranks meet ends: who comes later can be told no more
            os.close(report)
            signal.pause()   # until the trial is over
    os._exit(0)


def read_until(pipe, wanted, seconds):
    """What the pipe gives until it has `wanted` (empty: all), ends, or the time is over."""
    data, end = b"", time.monotonic() + seconds
    while not wanted or wanted not in data:
        ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
        piece = os.read(pipe, 65536) if ready else b""
        if not piece:
            break
        data += piece
    return data


def condition(process):
    """What has become of a rank that says nothing."""
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is not None:
        return f"it ended with {ended.si_status}" if ended.si_code == os.CLD_EXITED else f"signal {ended.si_status} ended it"
    waits = []
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        try:
            waits.append(f"{(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}")
        except OSError:
            pass   # the thread has ended
    return f"its threads wait in {waits}"


Plan = collections.namedtuple("Plan", "size how victim connecting seed moment")


def plan(rng, most_ranks):
    size = rng.randint(2, most_ranks)
    return Plan(size, rng.choice(["kill", "stop"]), rng.randrange(size), rng.random() < 0.25, rng.random(), rng.random())


def over_before(dead, data):
    """Whether the limit of a rank's call was over before the death: then that is not what it was told of."""
    at = data.find(b"\2")
    if at < 0:
        return False
    _, _, began, _ = REPORT.unpack_from(data, at)
    return began + (EXECUTE if data[1:2] == b"\1" else CONNECT) <= dead


def trial(planned):
    """One death. Returns (what was done, seconds until the last rank knew, problems); None where ranks were too slow for it."""
    size, how, victim, connecting, seed, moment = planned
    roots, reports, processes = [os.pipe() for _ in range(size)], [os.pipe() for _ in range(size)], []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            try:
                # When a job loses its parent, the kernel continues those of its processes that are stopped: a rank is of none.
                os.setsid()
                for other in range(size):   # an end that others hold would not end
                    os.close(reports[other][0])
                    if other != rank:
                        os.close(reports[other][1])
                rank_main(rank, size, seed, roots, reports[rank][1])
            except BaseException as error:
                os.write(reports[rank][1], b"\3" + repr(error).encode())
                os._exit(1)
        processes.append(process)
    for _, write in reports:
        os.close(write)
    heard = read_until(reports[victim][0], b"\0" if connecting else b"\1", 60)
    problems = [] if heard else [f"rank {victim} did not get to its death"]
    time.sleep(moment * (0.003 if connecting else 0.05))
    dead = time.monotonic()
    os.kill(processes[victim], signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    slowest, too_slow = 0, over_before(dead, heard)
    for rank in range(size):
        if rank == victim:
            continue
        data = read_until(reports[rank][0], b"", 30)
        at = data.find(b"\2")
        if at < 0:
            problems.append(f"rank {rank} was told nothing: {data[:300]!r}; {condition(processes[rank])}; of rank {victim}, "
                            f"{condition(processes[victim])}")
            continue
        _, told, began, code = REPORT.unpack_from(data, at)
        text = data[at + REPORT.size:].decode(errors="replace")
        too_slow = too_slow or over_before(dead, data)
        slowest = max(slowest, told - max(dead, began))
        named = {int(number) for found in NAMED.findall(text) for number in re.findall(r"\d+", found)}
        if victim not in named:
            problems.append(f"rank {rank} was told code {code} without the name of rank {victim}: {text}")
    for process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    for read, write in roots:
        os.close(read), os.close(write)
    for read, _ in reports:
        os.close(read)
    if too_slow:
        return None
    return (size, how, "connecting" if connecting else "running"), slowest, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial of the seed")
    parser.add_argument("--again", type=int, default=1, help="how often each trial is done")
    parser.add_argument("--transport", default="auto", choices=["auto", "tcp"])
    parser.add_argument("--most-ranks", type=int, default=4)
    parser.add_argument("--slack", type=float, default=2.0, help="seconds that a loaded machine may take beyond the limit")
    options = parser.parse_args()
    os.environ.update(SOFTCANN_TRANSPORT=options.transport, HCCL_IF_IP="127.0.0.1", HCCL_EXEC_TIMEOUT=str(EXECUTE),
                      HCCL_CONNECT_TIMEOUT=str(CONNECT), SOFTCANN_MEMORY="256M", SOFTCANN_DEVICE_COUNT="1", OMP_NUM_THREADS="1",
                      OPENBLAS_NUM_THREADS="1")
    sys.path[:0] = [str(ROOT / "test" / "softcann_comm"), str(ROOT / "test")]
    import hccl  # noqa: F401  the ranks have it from here
    from shared_memory import left_over, new_left_over

    before, rng = left_over(), random.Random(options.seed)
    times, wrong = collections.defaultdict(list), []
    plans = [plan(rng, options.most_ranks) for _ in range(options.first + options.trials)]
    numbers = [number for number in range(options.first, len(plans)) for _ in range(options.again)]
    repeated = 0
    for done, number in enumerate(numbers, 1):
        result = trial(plans[number])
        for _ in range(MOST_REPEATED):
            repeated += result is None
            result = result or trial(plans[number])
        if result is None:
            sys.exit(f"trial {number}: ranks were too slow to come to the death, {MOST_REPEATED + 1} times: too much load")
        what, seconds, problems = result
        times[what].append(seconds)
        limit = CONNECT if what[2] == "connecting" else EXECUTE
        if seconds > limit + options.slack:
            problems.append(f"took {seconds:.2f} s, more than the limit of {limit} s and {options.slack} s")
        wrong += [f"trial {number}, {what}: {problem}" for problem in problems]
        if problems:
            print("\n".join(wrong[-len(problems):]), flush=True)
        if done % 100 == 0:
            print(f"{done} trials, {len(wrong)} problems", flush=True)
    left = new_left_over(before)
    if left:
        wrong.append(f"left behind: {left}")
        print(wrong[-1])
    print("| ranks | victim | while | trials | median s | slowest s |\n|---|---|---|---|---|---|")
    for (size, how, when), seconds in sorted(times.items()):
        seconds.sort()
        print(f"| {size} | {how} | {when} | {len(seconds)} | {seconds[len(seconds) // 2]:.2f} | {seconds[-1]:.2f} |")
    print(json.dumps({"trials": len(numbers), "transport": options.transport, "seed": options.seed, "repeated": repeated,
                      "problems": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
