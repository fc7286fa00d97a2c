"""msprof-analyze, Ascend's reader of profiles, on profiles of a run by DistributedDataParallel on two ranks."""

from __future__ import annotations

import csv
import functools
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import torch
from harness import case, main, ranks, run


@functools.cache
def folder() -> Path:
    """With the folders *_ascend_pt of three runs, first/ and second/, and database/, which is the one with databases."""
    path = Path(tempfile.mkdtemp())
    for name, kind in (("first", "text"), ("second", "text"), ("database", "db")):
        ranks("use_msprof_analyze.py", "worker", str(path / name), kind)
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


@case("the same, of databases (`ExportType.Db`)")
def database() -> None:
    source, out = folder() / "database", folder() / "out"
    said = analyze("cluster", "-d", str(source), "-m", "all", "-o", str(out / "cluster"))
    assert "does not have" not in said and "missing" not in said, said
    with sqlite3.connect(out / "cluster" / "cluster_analysis_output" / "cluster_analysis.db") as results:
        steps = results.execute('SELECT step, "index", computing, communication FROM ClusterStepTraceTime WHERE type = "rank"').fetchall()
        sent = results.execute("SELECT src_rank, dst_rank, transit_size FROM ClusterCommunicationMatrix").fetchall()
    assert sorted((step, rank) for step, rank, *_ in steps) == [(step, rank) for step in "234" for rank in "01"]
    assert all(computing > 0 and communication > 0 for *_, computing, communication in steps), steps
    assert {(int(one), int(other)) for one, other, size in sent if size} == {(0, 1), (1, 0)}, sent
    first, second = sorted(source.glob("*_ascend_pt"))
    said = analyze("compare", "-d", str(first), "-bp", str(second), "-o", str(out / "compare"))
    assert "E2E Time" in said and list((out / "compare").glob("*.xlsx"))
    for name, what in (("one", first), ("both", source)):
        said = analyze("advisor", "all", "-d", str(what), "-o", str(out / name))
        assert list((out / name).glob("mstt_advisor_*.html")) and "jit_compile" not in said, said


@case("`msprof-analyze cluster` on what msprof made (`PROF_*`), as text and as databases")
def msprof() -> None:
    command = str(Path(__file__).parents[2] / "bin" / "msprof")
    for kind in ("text", "db"):
        source, out = folder() / f"msprof_{kind}", folder() / f"msprof_{kind}_out"
        run(sys.executable, command, f"--output={source}", "--hccl=on", "--analyze=on", f"--type={kind}", sys.executable, "-m",
            "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__, "worker", str(folder() / "unused"), "text", devices=2)
        said = analyze("cluster", "-d", str(source), "-m", "all", "-o", str(out))
        assert "missing" not in said and "not completed" not in said, said
        if kind == "text":
            with open(out / "cluster_analysis_output" / "cluster_step_trace_time.csv", newline="") as file:
                steps = [(row["Index"], float(row["Computing"]), float(row["Communication"])) for row in csv.DictReader(file)]
        else:
            with sqlite3.connect(out / "cluster_analysis_output" / "cluster_analysis.db") as results:
                steps = results.execute('SELECT "index", computing, communication FROM ClusterStepTraceTime').fetchall()
        assert sorted(rank for rank, *_ in steps) == ["0", "1"], steps
        assert all(computing > 0 and communication > 0 for _, computing, communication in steps), steps


def worker(path: str, kind: str) -> None:
    from torch_npu import profiler

    torch.distributed.init_process_group("hccl")
    rank = torch.distributed.get_rank()
    torch.npu.set_device(rank)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).npu()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, export_type=kind)
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
        worker(*sys.argv[2:])
    else:
        main("msprof-analyze")
