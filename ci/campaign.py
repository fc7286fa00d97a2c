"""Fails every call of CANN once, and looks at what becomes of the program.

    python ci/campaign.py [--state FILE] [--seconds N] [--slice I/N] [--workload NAME] [--entry NAME] [--report FILE]

A workload is run once to count its calls of each entry point of softcann. Then it is run again for each of them, with that one
call failing (SOFTCANN_FAULT), in a process of its own: first the first call of every entry point, then the second, and so on,
until every call has failed or the time is over. After each fault the process must
- have been told by an exception that names the failure, or have the right result all the same;
- compute the workload rightly when it is run again, the fault being over;
- hold as much device memory as without the fault (constants that the adapter keeps); and end well, by itself, in time.
With --state the next run goes on where this one ended, and the report is of all of them. --slice takes every N-th fault.
Processes are forked from one that has imported torch and has not used a device. Exit status 1 when a run broke a rule.
"""
import argparse
import collections
import gc
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import zlib

PATIENCE = 120   # seconds for one process
OUT_OF_MEMORY = 207001
CODES = {"aclrtMalloc": OUT_OF_MEMORY, "aclrtMallocPhysical": OUT_OF_MEMORY, "aclrtMallocHost": OUT_OF_MEMORY}
BELOW = ("task.*", "worker", "mmap", "memfd")   # not calls of the client: they are tried until nothing fails any more
MOST_BELOW = 40
COUNTS = "## Counts\n\n"   # the part of a page that --report writes


# ---- workloads: each returns a list of numbers that must not depend on anything but the arithmetic ----

def train_step(device):
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(*layers).to(device)
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))
    steps = [torch.zeros((), device=device) for _ in parameters]
    x, target = torch.linspace(-1, 1, 48).view(6, 8).to(device), torch.arange(6, device=device) % 4
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(x), target)
        gradients = torch.autograd.grad(loss, parameters)
        # What AdamW calls: the class imports a compiler, which takes longer than all the rest.
        torch._foreach_add_(steps, 1)
        with torch.no_grad():
            torch._fused_adamw_(parameters, gradients, first, second, [], steps, lr=0.01, beta1=0.9, beta2=0.999,
                                weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)
        losses.append(loss.item())
    return losses


def operators_and_memory(device):
    import torch

    host = torch.arange(1 << 16, dtype=torch.float32)
    if device == "npu":
        host = host.pin_memory()
    x = host.to(device, non_blocking=True)
    y = torch.cat([x[:100], x[-100:]]).view(2, 100)
    big = torch.zeros(3 << 20, device=device)
    results = [y.sum(), big.sum(), (y @ y.t()).diagonal().sum(), y.topk(3).values.sum(), y.to(torch.bfloat16).float().max()]
    del big
    if device == "npu":
        torch.npu.empty_cache()
    index = torch.tensor([3, 1, 2], device=device)
    results += [x[index].sum(), torch.where(x > 5, x, -x).sum(), x.view(256, 256).t().contiguous()[0].sum()]
    results += [x.sort(descending=True)[0][0]]
    return [result.cpu().item() for result in results]


def streams_and_graphs(device):
    import torch

    if device == "cpu":
        x = torch.arange(64.0)
        return [(x * 2 + 1).sum().item(), (x + 3).sum().item(), ((x + 5) * 2).sum().item()]
    x = torch.arange(64.0, device=device)
    side, ready = torch.npu.Stream(), torch.npu.Event()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x * 2
        ready.record()
    y.record_stream(torch.npu.current_stream())
    torch.npu.current_stream().wait_event(ready)
    first = (y + 1).sum().item()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    second = (x + 3).sum()
    end.record()
    end.synchronize()
    if start.elapsed_time(end) < 0:
        raise AssertionError("time runs backwards")
    graph, inputs = torch.npu.NPUGraph(), x.clone()
    torch.npu.synchronize()
    with torch.npu.graph(graph):
        out = (inputs + 5) * 2
    graph.replay()
    return [first, second.item(), out.sum().item()]


def collectives(device):
    import torch

    if device == "cpu":
        return [28.0, 28.0, 28.0, 28.0]
    import torch.distributed as dist

    x = torch.arange(8.0, device=device)
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        everything, part = [torch.zeros_like(x)], torch.zeros_like(x)
        dist.all_reduce(x)
        dist.all_gather(everything, x)
        dist.reduce_scatter(part, everything)
        dist.broadcast(part, 0)
        dist.barrier()
        group = dist.new_group([0])
        work = dist.all_reduce(part, group=group, async_op=True)
        work.wait()
        return [x.sum().item(), everything[0].sum().item(), part.sum().item(), part.clone().sum().item()]
    finally:
        dist.destroy_process_group()


WORKLOADS = {"train": train_step, "operators": operators_and_memory, "streams": streams_and_graphs, "collectives": collectives}


# ---- one process ----

def differs(got, wanted):
    return len(got) != len(wanted) or any(not abs(a - b) <= 1e-4 * max(1.0, abs(b)) for a, b in zip(got, wanted))


def close_up():
    """Bytes that tensors still have, with everything given back that can be."""
    import torch

    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    return torch.npu.memory_allocated()


def kinds_of(fault):
    """The exceptions that tell of a failure: PyTorch has one each for a device, its memory and collectives. Calls that make a
    description (aclCreateTensor and its like) return no code, only nothing, so that there is no kind to choose by."""
    import torch

    kinds = torch.AcceleratorError, torch.OutOfMemoryError, torch.distributed.DistBackendError
    return kinds + (RuntimeError,) * (fault or "").startswith("aclCreate")


def attempt(workload, wanted, kinds):
    """(outcome, text): "right", "told" by an exception of one of the kinds, or a broken rule."""
    try:
        got = workload("npu")
    except kinds as error:
        return "told", str(error)
    except Exception as error:
        return "wrong exception", f"{type(error).__name__}: {error}"
    return ("wrong result", f"{got} instead of {wanted}") if differs(got, wanted) else ("right", "")


def run_here(name, wanted, kept, trace, fault):
    """What happened, as a dict: ``outcome`` of the run with the fault, ``broken``, the rules that were broken, ``calls`` of each
    entry point until then, and ``left`` bytes, which are to be ``kept`` (None: as many as after one run)."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    workload, kinds, broken = WORKLOADS[name], kinds_of(fault), []
    outcome, text = attempt(workload, wanted, kinds)
    if outcome not in ("told", "right"):
        broken.append(f"{outcome}: {text}")
    try:
        torch.npu.synchronize()   # what it left
    except kinds as error:
        if outcome == "right":
            outcome, text = "told", str(error)
    calls, injected = calls_of(trace)
    if kept is not None and not injected and outcome == "right":
        return {"outcome": "not reached", "text": "", "broken": [], "calls": calls, "left": kept}
    kept = close_up() if kept is None else kept
    again, why = attempt(workload, wanted, kinds)
    if again != "right":
        broken.append(f"afterwards {again}: {why}")
    left = close_up()
    if left != kept:
        broken.append(f"{left} bytes are left instead of {kept}")
    return {"outcome": outcome, "text": text[:300], "broken": broken, "calls": calls, "left": left}


def in_child(name, wanted, kept, fault, trace, answer):
    """Forks. Returns the child's result, with ``broken`` extended by how it ended."""
    pid = os.fork()
    if pid == 0:
        os.environ.update(SOFTCANN_TRACE=trace, **({"SOFTCANN_FAULT": fault} if fault else {}))
        result = run_here(name, wanted, kept, trace, fault)
        pathlib.Path(answer).write_text(json.dumps(result))
        sys.exit(0)   # by all exit handlers
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        status = None
    path = pathlib.Path(answer)
    result = {"outcome": "ended", "text": "", "broken": [], "calls": {}, "left": 0}
    if path.exists():
        result = json.loads(path.read_text())
        path.unlink()
    if status is None:
        result["broken"].append(f"hangs ({PATIENCE} s)")
    elif status != 0:
        result["broken"].append(f"ends by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status)
                                else f"ends with status {os.WEXITSTATUS(status)}")
    return result


def calls_of(trace):
    """(calls of each entry point, whether a fault was injected)."""
    counts, injected = collections.Counter(), False
    if not os.path.exists(trace):
        return counts, injected
    for line in pathlib.Path(trace).read_text().splitlines():
        words = line.split()
        if len(words) >= 3 and words[2] != "launch":   # what an operator was launched with: no call, and cannot fail
            counts[words[2]] += 1
            injected = injected or words[-1] == "injected"
    return counts, injected


class State:
    """What is known so far; in a file if there is one."""

    def __init__(self, path):
        self.path = pathlib.Path(path) if path else None
        known = json.loads(self.path.read_text()) if self.path and self.path.exists() else {"rows": [], "broken": [], "done": []}
        self.rows = collections.defaultdict(collections.Counter)   # (workload, entry) -> outcomes
        self.rows.update({(name, entry): collections.Counter(counts) for name, entry, counts in known["rows"]})
        self.broken = known["broken"]
        self.done = {tuple(item) for item in known["done"]}   # (nth, workload, entry)

    def save(self):
        if self.path:
            rows = [[name, entry, dict(counts)] for (name, entry), counts in sorted(self.rows.items())]
            self.path.write_text(json.dumps({"rows": rows, "broken": self.broken, "done": sorted(self.done)}))


class Campaign:
    def __init__(self, state, seconds, only_entry, part):
        self.state = state
        self.until = time.monotonic() + seconds
        self.only_entry = only_entry
        self.part = part   # (index, of how many)
        self.folder = tempfile.mkdtemp(prefix="campaign-")

    def run(self, names):
        """Whether no rule was broken. ``self.left`` faults were not tried for want of time."""
        queue, wanted, kept = [], {}, {}
        for name in names:
            wanted[name] = self._reference(name)
            result = self._one(name, wanted[name], None, "")
            if result["broken"] or result["outcome"] != "right":
                raise SystemExit(f"{name} does not work without faults: {result}")
            if not result["calls"]:
                raise SystemExit("no call was traced: softcann was loaded before the processes were forked")
            kept[name] = result["left"]
            queue += self._faults_of(name, result["calls"])
        index, parts = self.part
        # By what a fault is, not by its place in the list: how often some calls come differs between runs.
        queue = [item for item in sorted(queue)
                 if zlib.crc32(repr(item).encode()) % parts == index - 1 and item not in self.state.done]
        over, self.left = set(), 0
        for nth, name, entry in queue:
            if time.monotonic() > self.until:
                self.left += 1
            elif (name, entry) not in over:
                if not self._fault(name, wanted[name], kept[name], entry, nth):
                    over.add((name, entry))
                self.state.done.add((nth, name, entry))
                self.state.save()
        shutil.rmtree(self.folder)
        return not self.state.broken

    def _faults_of(self, name, counts):
        entries = dict(counts, **dict.fromkeys(BELOW, MOST_BELOW))
        for entry, calls in entries.items():
            if self.only_entry in (None, entry):
                self.state.rows[name, entry]["calls"] = 0 if entry in BELOW else calls
                yield from ((nth, name, entry) for nth in range(1, calls + 1))

    def _reference(self, name):
        """What the CPU computes; in a process of its own, as autograd starts threads that no fork survives."""
        path = pathlib.Path(self.folder) / "reference"
        pid = os.fork()
        if pid == 0:
            path.write_text(json.dumps(WORKLOADS[name]("cpu")))
            os._exit(0)
        os.waitpid(pid, 0)
        return json.loads(path.read_text())

    def _fault(self, name, wanted, kept, entry, nth):
        """False when the workload came to its end without that call."""
        fault = f"{entry}:nth={nth}:code={CODES.get(entry, 507015)}"
        result = self._one(name, wanted, kept, fault)
        if result["outcome"] == "not reached" and not result["broken"]:
            return False
        row = self.state.rows[name, entry]
        row["faults"] += 1
        row["broken" if result["broken"] else result["outcome"]] += 1
        for rule in result["broken"]:
            self.state.broken.append(f"{name} {fault}: {rule}")
            print(self.state.broken[-1], flush=True)
        return True

    def _one(self, name, wanted, kept, fault):
        trace = os.path.join(self.folder, "trace")
        result = in_child(name, wanted, kept, fault, trace, os.path.join(self.folder, "answer"))
        if os.path.exists(trace):
            os.unlink(trace)
        return result


def report(state):
    total, places = sum(state.rows.values(), collections.Counter()), collections.defaultdict(collections.Counter)
    for (_, entry), row in state.rows.items():
        places[entry] += row
    lines = [f"{time.strftime('%Y-%m-%d')}: {total['faults']} faults at {len(places)} places in "
             f"{len({name for name, _ in state.rows})} workloads: {total['told']} told, {total['right']} without effect on "
             f"the result, {total['broken']} broke a rule.", "",
             "| Where | Calls | Faults | Told | Right all the same | Broke a rule |", "|" + "---|" * 6]
    for entry, row in sorted(places.items()):
        figures = " | ".join(str(row[column]) for column in ("faults", "told", "right", "broken"))
        lines.append(f"| `{entry}` | {row['calls'] or ''} | {figures} |")
    return "\n".join(lines + [""] * bool(state.broken) + [f"- {rule}" for rule in state.broken]) + "\n"


def part_of(text):
    """(index, of how many), from "2/5"."""
    index, parts = (int(number) for number in text.split("/"))
    if not 1 <= index <= parts:
        raise argparse.ArgumentTypeError(f"{text} is not I/N with 1 <= I <= N")
    return index, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append")
    parser.add_argument("--entry")
    parser.add_argument("--slice", type=part_of, default=(1, 1), metavar="I/N")
    parser.add_argument("--state", help="a file: what is known, to go on from")
    parser.add_argument("--report")
    arguments = parser.parse_args()
    os.environ.update(TORCH_NPU_RUNTIME="softcann", SOFTCANN_DEVICE_COUNT="1", SOFTCANN_MEMORY="512M")
    import torch
    import torch.distributed

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)   # a forked process has none of the threads
    state = State(arguments.state)
    campaign = Campaign(state, arguments.seconds, arguments.entry, arguments.slice)
    well = campaign.run(arguments.workload or list(WORKLOADS))
    text = report(state)
    if campaign.left:
        text += f"\n{campaign.left} faults have not been tried yet: `--state` goes on with them.\n"
    print(text)
    if arguments.report:
        page = pathlib.Path(arguments.report)
        above = page.read_text().split(COUNTS)[0] if page.exists() else ""   # what somebody wrote about it
        page.write_text(above + COUNTS + text)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
