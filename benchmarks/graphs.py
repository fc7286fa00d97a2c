"""Graphs against eager work, one thread: 1,000 small additions, and a training step of a tiny GPT whose cost is the host's."""
import os
import sys

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common

sys.path.insert(0, str(common.ROOT / "examples"))


def additions(device):
    import torch

    x = torch.ones(32, 32, device=device)

    def run():
        y = x
        for _ in range(1000):
            y = y + 1
        return y

    return run


def training_step(device):
    import torch
    from models.gpt import GPT
    from torch.nn import functional as F

    torch.manual_seed(0)
    model = GPT(64, 16, layers=4, width=32).to(device)
    # Counters of steps on the device: a graph cannot count on the host.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=device == "npu")
    tokens, targets = torch.randint(64, (1, 16)).to(device), torch.randint(64, (1, 16)).to(device)

    def step():
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss

    return step


def replayed(function):
    """(the replay, what has to live as long: what the function reads, and what it returns)"""
    import torch

    with torch.npu.stream(torch.npu.Stream()):
        for _ in range(3):
            function()
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = function()
    return graph.replay, (function, result)


def main():
    options = common.arguments("graphs", __doc__)
    import torch

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    rows, results = [], {}
    for name, make, calls in (("1,000 additions of 32x32", additions, 20), ("tiny GPT d32 L4 T16 b1, a step", training_step, 20)):
        cpu, npu = make("cpu"), make("npu")
        replay, kept = replayed(make("npu"))

        def waited(function):
            def run():
                function()
                torch.npu.synchronize()
            return run

        ways = [cpu, waited(npu), waited(replay)]
        for way in ways:
            way()
        times = common.interleave([lambda way=way: common.seconds(way, calls) * 1e3 for way in ways], options.rounds)
        eager, graph = common.ratio(times[1], times[0]), common.ratio(times[2], times[0])
        rows.append([name, *(common.median(t) for t in times), eager, graph])
        results[name] = {"cpu_ms": common.median(times[0]), "npu_ms": common.median(times[1]), "graph_ms": common.median(times[2]),
                         "npu_to_cpu": eager, "graph_to_cpu": graph}
        del kept
    common.print_table("graphs, one thread (aims: 0.06 and 0.40 of the CPU's)",
                       ["", "cpu ms", "npu ms", "graph ms", "npu / cpu", "graph / cpu"], rows)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
