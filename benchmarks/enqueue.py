"""Host cost of an operator: npu against CPU tensors, and against the published client on the same software CANN.

    python benchmarks/enqueue.py [--client PYTHON]

Part 1, end to end: 12 operators on one element, real kernels, the synchronize included, against CPU tensors; and one
addition with a synchronize of its own.
Part 2, host only: the kernels are no-ops (SOFTCANN_NOOP=1); against the published torch_npu at each of its queue
levels. Its environment is the one test/witness makes; without it part 2 is left out, and the output says so.
One thread.
"""
import os
import shlex
import subprocess
import sys

import common

CALLS, BATCHES = 50, 20   # a round is the best of so many batches
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "SOFTCANN_THREADS": "1"}


def operators(torch, device):
    """The 12 operators: name to a function of no arguments."""
    a, b, out = (torch.ones(1, device=device) for _ in range(3))
    m, n = (torch.ones(2, 2, device=device) for _ in range(2))
    return {
        "empty": lambda: torch.empty(1, device=device),
        "add(out=)": lambda: torch.add(a, b, out=out),
        "a + b": lambda: a + b,
        "mul_": lambda: out.mul_(1.0),
        "a * 2": lambda: a * 2,
        "fill_": lambda: out.fill_(1.0),
        "copy_": lambda: out.copy_(a),
        "relu": lambda: torch.relu(a),
        "a < b": lambda: a < b,
        "sum": lambda: m.sum(),
        "cat": lambda: torch.cat((a, b)),
        "mm": lambda: torch.mm(m, n),
    }


def worker(device):
    """Microseconds an operator: the enqueueing alone, and with the synchronize shared by the calls."""
    import torch
    if device == "npu":
        import torch_npu  # noqa: F401
        synchronize = torch.npu.synchronize
    else:
        synchronize = lambda: None
    functions = operators(torch, device)

    def measure():
        result = {}
        for name, function in functions.items():
            synchronize()
            batches = []
            for _ in range(BATCHES):
                enqueue = common.seconds(function, CALLS)
                rest = common.seconds(synchronize)
                batches.append((enqueue * 1e6, (enqueue + rest / CALLS) * 1e6))
            result[name] = [min(column) for column in zip(*batches)]
        x = torch.ones(1, device=device)
        awaited = common.best(lambda: common.seconds(lambda: (x + x, synchronize()), CALLS), BATCHES) * 1e6
        result["a + b, synchronize"] = [awaited, awaited]
        return result
    common.serve(measure)


def client_environment(python):
    """Where softcann is, for the published client: what `python -m softcann env` prints."""
    output = subprocess.run([python, "-m", "softcann", "env"], stdout=subprocess.PIPE, text=True, check=True).stdout
    words = [shlex.split(line) for line in output.splitlines()]
    return dict(word.split("=", 1) for line in words if line[:1] == ["export"] for word in line[1:])


def compare(title, column, workers, names, rounds):
    """Prints the table of all workers' costs; the first is ours. Returns the figures."""
    answers = common.interleave([w.ask for w in workers], rounds)
    for w in workers:
        w.close()
    costs = [{op: [answer[op][column] for answer in list_of_answers] for op in list_of_answers[0]}
             for list_of_answers in answers]
    ops = list(costs[0])
    rows = [[op, *(common.median(c[op]) for c in costs), *(common.ratio(costs[0][op], c[op]) for c in costs[1:])]
            for op in ops]
    # The mean is of the 12 operators; the synchronize at each call stands beside them.
    means = [common.geomean(row[-len(costs) + 1 + k] for row in rows[:12]) for k in range(len(costs) - 1)]
    rows.append(["geomean", *([""] * len(costs)), *means])
    common.print_table(title, ["operator", *names, *(f"ratio to {name}" for name in names[1:])], rows)
    return {"operators": {row[0]: dict(zip(names, row[1:])) for row in rows[:-1]}, "geomean": dict(zip(names[1:], means))}


def main():
    default = common.ROOT / "build" / "witness" / "py{}.{}".format(*sys.version_info[:2]) / "venv" / "bin" / "python"
    options = common.arguments("enqueue", __doc__, lambda p: p.add_argument("--client", default=str(default)))
    workers = [common.Worker(__file__, "npu", **ENVIRONMENT), common.Worker(__file__, "cpu", **ENVIRONMENT)]
    results = {"cpu": compare("microseconds an operator, end to end", 1, workers, ["npu", "cpu"], options.rounds)}
    if os.path.exists(options.client):
        noop = {**ENVIRONMENT, "SOFTCANN_NOOP": "1"}
        # PYTHONPATH may lead to this tree, which would then be measured against itself.
        client = {**noop, **client_environment(options.client), "PYTHONPATH": ""}
        levels = ["0", "1", "2"]
        workers = [common.Worker(__file__, "npu", **noop)]
        workers += [common.Worker(__file__, "npu", python=options.client, TASK_QUEUE_ENABLE=level, **client)
                    for level in levels]
        results["client"] = compare("microseconds an operator on the host, kernels switched off", 0, workers,
                                    ["npu"] + [f"published, queue {level}" for level in levels], options.rounds)
    else:
        print(f"\nno published client at {options.client}: run ci/test.sh test/witness first, or give --client")
    common.write_json(options.json, results)


if __name__ == "__main__":
    if sys.argv[1:] in (["npu"], ["cpu"]):
        worker(sys.argv[1])
    else:
        main()
