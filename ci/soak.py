"""Threads, streams, allocations, graphs, the profiler and forks, all at once, for as long as one likes.

    python ci/soak.py --minutes N [--report FILE]

Every tenth of a minute the process notes its resident memory, threads, open files, the NPU's memory and how many rounds each kind
of work has made. At the end: every value was right; memory, threads and files of the last third are those of the second (flat);
so is the speed, to a half, since the machine may be busy. The report has the curves. Exit status 1 when a rule is broken.
"""
import argparse
import functools
import gc
import os
import pathlib
import random
import statistics
import sys
import threading
import time

INTERVAL = 6.0            # seconds
GROWTH = 1.05             # of the last third over the second
GROWTH_BYTES = 32 << 20   # which may be on top: pools fill
SLOWER = 0.5
# A capture begins with a wait for the whole device, which would be told the failures of every stream.
DEVICE = threading.Lock()


class Work(threading.Thread):
    """Makes rounds of one kind until told to stop; the first thing that is wrong ends it."""

    def __init__(self, name, make_round, pause):
        super().__init__(name=name, daemon=True)
        self.make_round, self.pause = make_round, pause
        self.rounds, self.error, self.over = 0, None, threading.Event()

    def run(self):
        source = random.Random(self.name)
        try:
            while not self.over.is_set():
                self.make_round(source)
                self.rounds += 1
                self.over.wait(self.pause)
        except Exception as error:   # told at the end
            self.error = error


def expect(got, wanted, what):
    if abs(got - wanted) > 1e-3 * max(1.0, abs(wanted)):
        raise AssertionError(f"{what}: {got} instead of {wanted}")


def training(_):
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x = torch.linspace(-1, 1, 128).view(8, 16).npu()
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if losses[-1] > losses[0]:
        raise AssertionError(f"the loss does not fall: {losses}")


def streams(source):
    import torch

    n = source.randrange(1, 4000)
    x = torch.ones(n, device="npu")
    side, done = torch.npu.Stream(), torch.npu.Event()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x * 3
        done.record()
    y.record_stream(torch.npu.current_stream())
    torch.npu.current_stream().wait_event(done)
    expect((y + x).sum().item(), 4.0 * n, "streams")


def allocations(source):
    import torch

    kept = [torch.full((source.randrange(1, 1 << source.randrange(4, 20)),), float(i), device="npu") for i in range(12)]
    source.shuffle(kept)
    del kept[::2]
    more = [torch.zeros(source.randrange(1, 1 << 18), device="npu") for _ in range(6)]
    for tensor in kept:
        expect(tensor[-1].item(), tensor[0].item(), "allocations")
    expect(sum(tensor.sum().item() for tensor in more), 0.0, "zeros")
    pinned = torch.arange(1000.0).pin_memory()
    expect(pinned.to("npu", non_blocking=True).sum().item(), 499500.0, "pinned memory")
    if source.random() < 0.05:
        torch.npu.empty_cache()


@functools.lru_cache(maxsize=None)
def own_stream(_name):
    """Streams come from pools that all threads share. Nobody else here takes one of this priority, to find it being captured, or
    failed by others."""
    import torch

    return torch.npu.Stream(priority=-1)


def graphs(_):
    import torch

    stream = own_stream("graphs")
    with DEVICE, torch.npu.stream(stream):
        x, graph = torch.ones(256, device="npu"), torch.npu.NPUGraph()
        with torch.npu.graph(graph, stream=stream, capture_error_mode="thread_local"):
            y = (x * 2 + 1).sum()
        for value in (1.0, 4.0):
            x.fill_(value)
            graph.replay()
            expect(y.item(), 256 * (2 * value + 1), "graph")


def profiler(_):
    import torch

    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        x = torch.ones(64, 64, device="npu")
        expect((x @ x).sum().item(), 64.0**3, "under the profiler")
    if not any("mm" in event.name or "matmul" in event.name for event in profile.function_events):
        raise AssertionError("the profile has no matrix product")


def failures(_):
    import torch

    with DEVICE, torch.npu.stream(own_stream("failures")):
        x = torch.ones(3, device="npu")
        try:
            x[torch.tensor([7], device="npu")].sum().item()
        except RuntimeError:
            expect((x + 1).sum().item(), 6.0, "after a failure")
        else:
            raise AssertionError("an index out of range was not told")


def forks(_):
    pid = os.fork()
    if pid == 0:
        os._exit(sum(range(10)))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if os.WEXITSTATUS(status) != 45:
                raise AssertionError(f"a child ended with {status}")
            return
        time.sleep(0.01)
    raise AssertionError("a child hangs")


KINDS = [(training, 0.0), (streams, 0.0), (streams, 0.01), (allocations, 0.0), (graphs, 0.05), (profiler, 0.5), (failures, 0.2),
         (forks, 0.5)]


def look(works):
    import torch

    gc.collect()
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {
        "resident MiB": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
        "reserved MiB": torch.npu.memory_reserved() / 2**20,
        "rounds": sum(work.rounds for work in works),
    }


def judge(notes):
    """The rules that the curves break."""
    third = len(notes) // 3
    middle, last = notes[third:2 * third], notes[2 * third:]
    broken = []
    for name in ("resident MiB", "threads", "files", "reserved MiB"):
        before, after = (statistics.median(note[name] for note in part) for part in (middle, last))
        slack = GROWTH_BYTES / 2**20 if name.endswith("MiB") else 4
        if after > before * GROWTH + slack:
            broken.append(f"{name} grows: {before:.0f}, then {after:.0f}")
    before, after = ((part[-1]["rounds"] - part[0]["rounds"]) / max(1, len(part) - 1) for part in (middle, last))
    if after < before * SLOWER:
        broken.append(f"it becomes slow: {before:.0f} rounds an interval, then {after:.0f}")
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--report")
    arguments = parser.parse_args()
    os.environ.setdefault("TORCH_NPU_RUNTIME", "softcann")
    import torch

    torch.set_num_threads(1)
    torch.ones(1, device="npu").item()
    works = [Work(f"{make.__name__} {index}", make, pause) for index, (make, pause) in enumerate(KINDS)]
    for work in works:
        work.start()
    notes, until = [], time.monotonic() + arguments.minutes * 60
    while time.monotonic() < until and not any(work.error for work in works):
        time.sleep(min(INTERVAL, max(0.1, arguments.minutes * 6)))
        notes.append(look(works))
    for work in works:
        work.over.set()
    for work in works:
        work.join(120)
    broken = [f"{work.name}: {type(work.error).__name__}: {work.error}" for work in works if work.error]
    broken += [f"{work.name} does not end" for work in works if work.is_alive()]
    broken += judge(notes) if len(notes) >= 6 else ["too short to judge"]
    lines = [f"{arguments.minutes:g} minutes: " + ", ".join(f"{work.name} {work.rounds}" for work in works) + " rounds."]
    lines += [f"BROKEN: {rule}" for rule in broken] or ["Every value was right; memory, threads, files and speed are flat."]
    lines += ["", "| " + " | ".join(notes[0]) + " |" if notes else "", "|" + "---|" * 5]
    lines += ["| " + " | ".join(f"{value:.0f}" for value in note.values()) + " |" for note in notes]
    print("\n".join(lines))
    if arguments.report:
        pathlib.Path(arguments.report).write_text("\n".join(lines) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
