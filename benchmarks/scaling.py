"""Is the host cost of an operator the same with 10^2 and with 10^6 live tensors, and after as many operators?
Does resident memory stay where it was over many training steps?

    python benchmarks/scaling.py [--steps 100000]
"""
import os

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common
import torch

import torch_npu  # noqa: F401

COUNTS = [10**2, 10**3, 10**4, 10**5, 10**6]


def cost(calls=100, batches=40):
    """Microseconds of an addition that allocates its result."""
    a, b = torch.ones(1, device="npu"), torch.ones(1, device="npu")
    torch.npu.synchronize()
    return common.best(lambda: common.seconds(lambda: a + b, calls), batches) * 1e6


def resident_mib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def training(steps):
    """MiB resident at ten points of a training of a small model, after a tenth of the steps to warm up."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu()
    optimizer = torch.optim.Adam(model.parameters())
    inputs, labels = torch.randn(8, 16, device="npu"), torch.randint(4, (8,), device="npu")
    points = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if step % max(steps // 10, 1) == 0:
            torch.npu.synchronize()
            points.append(resident_mib())
    return points


def main():
    options = common.arguments("scaling", __doc__, lambda p: p.add_argument("--steps", type=int, default=100_000))
    cost()
    # The machine's own drift is taken out: each count is measured beside an empty process state, in turn.
    rows, results, live = [], {}, []
    base = common.Worker(__file__, "--base")
    for count in COUNTS:
        live += [torch.empty(1, device="npu") for _ in range(count - len(live))]
        ours, theirs = common.interleave([cost, base.ask], options.rounds)
        rows.append([f"{count:,}", common.median(ours), common.ratio(ours, theirs)])
        results[str(count)] = {"us": rows[-1][1], "ratio": rows[-1][2]}
    base.close()
    common.print_table("a + b with so many live tensors, us; ratio to a process with none",
                       ["live tensors", "us", "ratio"], rows)
    points = training(options.steps)
    results["resident"] = points
    common.print_table(f"MiB resident after a tenth of {options.steps:,} training steps, and after all",
                       ["first", "last", "growth"], [[points[0], points[-1], points[-1] - points[0]]])
    common.write_json(options.json, results)


if __name__ == "__main__":
    import sys
    if sys.argv[1:] == ["--base"]:
        common.serve(cost)
    else:
        main()
