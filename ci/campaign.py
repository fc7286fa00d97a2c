"""Fails every call of CANN once, and looks at what becomes of the program.

    python ci/campaign.py [--seconds N] [--workload NAME] [--entry NAME] [--report FILE]

A workload is run once to count its calls of each entry point of softcann. Then it is run again for each of them, with that one
call failing (SOFTCANN_FAULT), in a process of its own: first the first call of every entry point, then the second, and so on,
until every call has failed or the time is over. After each fault the process must
- have been told by an exception that names the failure, or have the right result all the same;
- compute the workload rightly when it is run again, the fault being over;
- have all its memory back; and end well, by itself, in time.
Processes are forked from one that has imported torch and has not used a device. Exit status 1 when a run broke a rule.
"""
import argparse
import collections
import gc
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

PATIENCE = 120   # seconds for one process
OUT_OF_MEMORY = 207001
CODES = {"aclrtMalloc": OUT_OF_MEMORY, "aclrtMallocPhysical": OUT_OF_MEMORY, "aclrtMallocHost": OUT_OF_MEMORY}
BELOW = ("task.*", "worker", "mmap", "memfd")   # not calls of the client: they are tried until nothing fails any more
MOST_BELOW = 40


# ---- workloads: each returns a list of numbers that must not depend on anything but the arithmetic ----

def train_step(device):
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    x, target = torch.linspace(-1, 1, 48).view(6, 8).to(device), torch.arange(6, device=device) % 4
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
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


WORKLOADS = {"train": train_step, "operators": operators_and_memory, "streams": streams_and_graphs}


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


def attempt(workload, wanted):
    """(outcome, text): "right", "told" or a broken rule."""
    try:
        got = workload("npu")
    except RuntimeError as error:   # AcceleratorError and OutOfMemoryError are such
        text = str(error)
        return ("told", text) if any(word in text for word in ("SOFTCANN_FAULT", "code", "memory", "failed")) else ("vague", text)
    except Exception as error:
        return "wrong exception", f"{type(error).__name__}: {error}"
    return ("wrong result", f"{got} instead of {wanted}") if differs(got, wanted) else ("right", "")


def run_here(name, wanted):
    """What happened, as a dict: ``outcome`` of the run with the fault and ``broken``, the rules that were broken."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    workload, broken = WORKLOADS[name], []
    outcome, text = attempt(workload, wanted)
    if outcome not in ("told", "right"):
        broken.append(f"{outcome}: {text}")
    try:
        torch.npu.synchronize()   # what it left
    except RuntimeError as error:
        if outcome == "right":
            outcome, text = "told", str(error)
    again, why = attempt(workload, wanted)
    if again != "right":
        broken.append(f"afterwards {again}: {why}")
    left = close_up()
    if left != 0:
        broken.append(f"{left} bytes are not given back")
    return {"outcome": outcome, "text": text[:300], "broken": broken}


def in_child(name, wanted, fault, trace, answer):
    """Forks. Returns the child's result, with ``broken`` extended by how it ended."""
    pid = os.fork()
    if pid == 0:
        os.environ.update(SOFTCANN_TRACE=trace, **({"SOFTCANN_FAULT": fault} if fault else {}))
        result = run_here(name, wanted)
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
    result = json.loads(path.read_text()) if path.exists() else {"outcome": "ended", "text": "", "broken": []}
    if path.exists():
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
    for line in pathlib.Path(trace).read_text().splitlines():
        words = line.split()
        if len(words) >= 3:
            counts[words[2]] += 1
            injected = injected or words[-1] == "injected"
    return counts, injected


class Campaign:
    def __init__(self, seconds, only_entry):
        self.until = time.monotonic() + seconds
        self.only_entry = only_entry
        self.rows = collections.defaultdict(collections.Counter)   # (workload, entry) -> outcomes
        self.broken = []
        self.folder = tempfile.mkdtemp(prefix="campaign-")

    def run(self, names):
        queue = []
        for name in names:
            wanted = self._reference(name)
            result, counts, _ = self._one(name, wanted, "")
            if result["broken"] or result["outcome"] != "right":
                raise SystemExit(f"{name} does not work without faults: {result}")
            entries = dict(counts, **dict.fromkeys(BELOW, MOST_BELOW))
            for entry, calls in sorted(entries.items()):
                if self.only_entry in (None, entry):
                    # A run is the workload twice, so half of the calls are the first time's.
                    most = calls if entry in BELOW else (calls + 1) // 2
                    self.rows[name, entry]["calls"] = 0 if entry in BELOW else most
                    queue += [(nth, name, entry, wanted) for nth in range(1, most + 1)]
        over = set()
        for nth, name, entry, wanted in sorted(queue, key=lambda item: item[:3]):
            if time.monotonic() > self.until:
                break
            if (name, entry) not in over and not self._fault(name, wanted, entry, nth):
                over.add((name, entry))
        return not self.broken

    def _reference(self, name):
        """What the CPU computes; in a process of its own, as autograd starts threads that no fork survives."""
        path = pathlib.Path(self.folder) / "reference"
        pid = os.fork()
        if pid == 0:
            path.write_text(json.dumps(WORKLOADS[name]("cpu")))
            os._exit(0)
        os.waitpid(pid, 0)
        return json.loads(path.read_text())

    def _fault(self, name, wanted, entry, nth):
        """False when the workload came to its end without that call."""
        fault = f"{entry}:nth={nth}:code={CODES.get(entry, 507015)}"
        result, _, injected = self._one(name, wanted, fault)
        if not injected and not result["broken"]:
            return False
        row = self.rows[name, entry]
        row["faults"] += 1
        row["broken" if result["broken"] else result["outcome"]] += 1
        for rule in result["broken"]:
            self.broken.append(f"{name} {fault}: {rule}")
            print(self.broken[-1], flush=True)
        return True

    def _one(self, name, wanted, fault):
        trace = os.path.join(self.folder, "trace")
        result = in_child(name, wanted, fault, trace, os.path.join(self.folder, "answer"))
        counts, injected = calls_of(trace) if os.path.exists(trace) else ({}, False)
        if os.path.exists(trace):
            os.unlink(trace)
        return result, counts, injected

    def report(self):
        total = sum(self.rows.values(), collections.Counter())
        places = len({entry for _, entry in self.rows})
        lines = [f"{total['faults']} faults at {places} places: {total['told']} told, {total['right']} without effect on the "
                 f"result, {total['broken']} broke a rule.", "",
                 "| Workload | Where | Calls | Faults | Told | Right all the same | Broke a rule |", "|" + "---|" * 7]
        for (name, entry), row in sorted(self.rows.items()):
            figures = " | ".join(str(row[column]) for column in ("faults", "told", "right", "broken"))
            lines.append(f"| {name} | `{entry}` | {row['calls'] or ''} | {figures} |")
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append")
    parser.add_argument("--entry")
    parser.add_argument("--report")
    arguments = parser.parse_args()
    os.environ.update(TORCH_NPU_RUNTIME="softcann", SOFTCANN_DEVICE_COUNT="1", SOFTCANN_MEMORY="512M")
    import torch

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)   # a forked process has none of the threads
    campaign = Campaign(arguments.seconds, arguments.entry)
    well = campaign.run(arguments.workload or list(WORKLOADS))
    report = campaign.report()
    print(report)
    if arguments.report:
        pathlib.Path(arguments.report).write_text(report)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
