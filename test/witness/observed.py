"""What a user of the published torch_npu looks at a program with, one function a subject: python observed.py NAME FOLDER.

Runs in that package's own environment; knows nothing of this repository. Each function asserts values.
"""
import csv
import json
import pathlib
import sqlite3
import sys

import numpy
import torch
from torch import nn

import torch_npu

FOLDER = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(".")


def dump():
    x, w = torch.randn(4, 3), torch.randn(3, 2)
    (FOLDER / "acl.json").write_text(json.dumps({"dump": {
        "dump_path": str(FOLDER / "dump"), "dump_list": [], "dump_mode": "all", "dump_op_switch": "on"}}))
    a, b = x.npu(), w.npu()
    torch_npu.npu.init_dump()
    torch_npu.npu.set_dump(str(FOLDER / "acl.json"))
    y = torch.relu(a @ b)
    torch.npu.synchronize()
    torch_npu.npu.finalize_dump()
    y.sin()
    torch.npu.synchronize()
    index, = (FOLDER / "dump").glob("*/index.jsonl")
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    assert all("Sin" not in line["operator"] for line in lines)
    relu = next(line for line in lines if "Relu" in line["operator"] and line["kind"] == "output")
    torch.testing.assert_close(torch.from_numpy(numpy.load(index.parent / relu["file"])), torch.relu(x @ w), rtol=1e-4, atol=1e-5)
    product = [line for line in lines if line["kind"] == "input" and line["shape"] in ([4, 3], [3, 2])]
    assert {tuple(line["shape"]) for line in product} == {(4, 3), (3, 2)}


def profile():
    """Its profiler, which asks CANN for its part and msprof for the tables."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).npu()
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(32, 64).npu()
    level = torch_npu.profiler._ExperimentalConfig(profiler_level=torch_npu.profiler.ProfilerLevel.Level1)
    handler = torch_npu.profiler.tensorboard_trace_handler(str(FOLDER / "profile"))
    kinds = [torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU]
    with torch_npu.profiler.profile(activities=kinds, on_trace_ready=handler, experimental_config=level, record_shapes=True,
                                    schedule=torch_npu.profiler.schedule(wait=0, warmup=0, active=2, repeat=1)) as profiled:
        for _ in range(2):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.npu.synchronize()
            profiled.step()
    output, = (FOLDER / "profile").glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    names = {path.name for path in output.iterdir()}
    assert {"kernel_details.csv", "op_statistic.csv", "operator_details.csv", "step_trace_time.csv", "trace_view.json",
            "api_statistic.csv"} <= names, names
    with open(output / "kernel_details.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    relu = [row for row in rows if row["Type"] == "Relu"]
    assert len(relu) == 2 and relu[0]["Input Shapes"].strip('"') == relu[0]["Output Shapes"].strip('"') == "32,128", relu
    assert relu[0]["Input Data Types"] == relu[0]["Output Data Types"] == "FLOAT"
    assert {row["Accelerator Core"] for row in rows} == {"AI_CORE", "AI_VECTOR_CORE"}
    assert all(float(row["Duration(us)"]) > 0 for row in rows)


def database():
    """Its profiler's tables in a database: a mark on a stream belongs to a task of the device, and the client's operators to CANN's calls."""
    profiler, x = torch_npu.profiler, torch.randn(32, 64).npu()
    settings = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1, export_type=[profiler.ExportType.Db], mstx=True)
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(FOLDER / "database")), experimental_config=settings):
        number = torch.npu.mstx.range_start("mine", torch.npu.current_stream())
        torch.relu(x @ x.t())
        torch.npu.mstx.range_end(number)
        torch.npu.synchronize()
    path, = (FOLDER / "database").glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler*.db")
    found = sqlite3.connect(path)
    begin, end, mark_begin, mark_end = found.execute(
        "SELECT TASK.startNs, TASK.endNs, MSTX_EVENTS.startNs, MSTX_EVENTS.endNs FROM MSTX_EVENTS JOIN TASK USING (connectionId) "
        "JOIN STRING_IDS ON id = message WHERE value = 'mine'").fetchone()
    assert mark_begin <= begin < end and mark_begin < mark_end
    within = found.execute(
        "SELECT COUNT(*) FROM TASK JOIN COMPUTE_TASK_INFO USING (globalTaskId) WHERE startNs >= ? AND endNs <= ?", (begin, end)).fetchone()
    assert within[0] >= 2
    joined = found.execute(
        "SELECT DISTINCT text.value FROM PYTORCH_API JOIN CONNECTION_IDS AS ids ON ids.id = PYTORCH_API.connectionId "
        "JOIN CANN_API ON CANN_API.connectionId = ids.connectionId JOIN STRING_IDS AS text ON text.id = PYTORCH_API.name").fetchall()
    assert {("aclnnMatmul",), ("aclnnRelu",)} <= set(joined), joined


def race():
    """Its sanitizer, which TORCH_NPU_SANITIZER=1 switches on."""
    x, side = torch.ones(1 << 16, device="npu"), torch.npu.Stream()
    x.mul_(2)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.add_(1)                                    # in order
    try:
        x.add_(1)                                    # beside the one on the other stream
    except Exception as error:
        assert type(error).__name__ == "CUDASanitizerErrors" and "1 errors" in str(error), error
        return
    raise AssertionError("the race was not found")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("passed")
