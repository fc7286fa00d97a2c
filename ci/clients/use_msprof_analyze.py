"""msprof-analyze, Ascend's reader of profiles, on profiles of a run by DistributedDataParallel on two ranks."""

from __future__ import annotations

import csv
import functools
import json
import sys
import tempfile
from pathlib import Path

import torch
from harness import case, main, ranks, run


@functools.cache
def folder() -> Path:
    """With the folders *_ascend_pt of two runs, first/ and second/."""
    path = Path(tempfile.mkdtemp())
    for name in ("first", "second"):
        ranks("use_msprof_analyze.py", "worker", str(path / name))
    return path


def analyze(*arguments: str) -> str:
    said = run("msprof-analyze", *arguments)
    assert "[ERROR]" not in said and "Traceback" not in said, said
    return said


@case("`msprof-analyze cluster -m all`: times of the steps of both ranks, collectives and links")
def cluster() -> None:
    out = folder() / "cluster"
    said = analyze("cluster", "-d", str(folder() / "first"), "-m", "all", "-o", str(out))
    assert "does not have" not in said and "same local rank" not in said, said
    results = out / "cluster_analysis_output"
    with open(results / "cluster_step_trace_time.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["Type"] == "rank"]
    assert sorted((row["Step"], row["Index"]) for row in rows) == [(step, rank) for step in "234" for rank in "01"]
    assert all(float(row["Computing"]) > 0 and float(row["Communication"]) > 0 for row in rows), rows
    links = json.loads((results / "cluster_communication_matrix.json").read_text())["(0, 1)"]
    assert sorted(links) == ["step2", "step3", "step4"]
    for step in links.values():
        total = next(link for name, link in step.items() if name.startswith("Total"))
        assert total["0-1"]["Transit Size(MB)"] > 0 and total["1-0"]["Transit Size(MB)"] > 0, total


@case("`msprof-analyze compare`: two runs, one against the other")
def compare() -> None:
    one, other = (next((folder() / name).glob("*_ascend_pt")) for name in ("first", "second"))
    said = analyze("compare", "-d", str(one), "-bp", str(other), "-o", str(folder() / "compare"))
    assert "WARNING" not in said.replace("Security Warning", "").replace("[WARNING][entrance", ""), said
    assert "E2E Time" in said and list((folder() / "compare").glob("*.xlsx"))


@case("`msprof-analyze advisor all`: of a rank, and of both")
def advisor() -> None:
    one = next((folder() / "first").glob("*_ascend_pt"))
    for name, source in (("one", one), ("both", folder() / "first")):
        out = folder() / f"advisor_{name}"
        analyze("advisor", "all", "-d", str(source), "-o", str(out))
        assert list(out.glob("mstt_advisor_*.html"))


def worker(path: str) -> None:
    from torch_npu import profiler

    torch.distributed.init_process_group("hccl")
    rank = torch.distributed.get_rank()
    torch.npu.set_device(rank)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).npu()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1)
    with profiler.profile(schedule=profiler.schedule(wait=1, warmup=1, active=3), record_shapes=True, profile_memory=True, with_stack=True,
                          experimental_config=config, on_trace_ready=profiler.tensorboard_trace_handler(path)) as profiled:
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(32, 256, device="npu")).square().mean().backward()
            optimizer.step()
            profiled.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2])
    else:
        main("msprof-analyze")
