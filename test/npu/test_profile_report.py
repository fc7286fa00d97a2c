"""python -m torch_npu.profiler.report: the data in its page, against the files that it was made from."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from torch_npu import profiler
from torch_npu.profiler import report

pytestmark = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><script>alert(1)</script>"


def record(folder):
    with profiler.profile(schedule=profiler.schedule(0, 2, 1), profile_memory=True, with_stack=True,
                          on_trace_ready=profiler.tensorboard_trace_handler(str(folder), "worker")) as profiled:
        for _ in range(3):
            x = torch.ones(64, 64, device="npu")
            with torch.profiler.record_function(HOSTILE):
                (x @ x).relu().sum().item()
            profiled.step()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    record(folder)
    return next(folder.iterdir())


def rows(folder, name):
    with open(folder / "ASCEND_PROFILER_OUTPUT" / name, newline="") as file:
        return list(csv.DictReader(file))


def data_of(page):
    text = Path(page).read_text()
    assert text.count("<script") == text.count("</script>") == 2  # no name ends one
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found.group(1))


def page_of(folder, tmp_path, **options):
    return data_of(report.write(str(folder), str(tmp_path / "page.html"), **options))


def events(rank, kind):
    """(name, begin, duration) of the tracks of a kind."""
    return [(rank["names"][name], begin, length) for track in rank["tracks"] if track["kind"] == kind
            for row in track["rows"] for begin, length, name in zip(*row)]


def test_tables_and_steps_are_those_of_the_files(recorded, tmp_path):
    data = page_of(recorded, tmp_path)
    rank, = data["ranks"]
    assert rank["notes"] == []
    for name, file in (("steps", "step_trace_time.csv"), ("kernels", "op_statistic.csv"), ("calls", "api_statistic.csv")):
        wanted = [[row[column] for column in data["columns"][name]] for row in rows(recorded, file)]
        assert wanted and len(rank[name]) == len(wanted)
        for shown, expected in zip(rank[name], wanted):
            assert [float(cell) if isinstance(value, (int, float)) else cell for value, cell in zip(shown, expected)] == shown
    assert [step[1] for step in rank["steps"]] == [1, 2]
    sums = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    for row in rows(recorded, "operator_details.csv"):
        sums[row["Name"]][0] += 1
        for i, column in enumerate(data["columns"]["operators"][2:], 1):
            sums[row["Name"]][i] += float(row[column])
    assert {name for name, *_ in rank["operators"]} == set(sums) and HOSTILE not in (name for name, *_ in rank["kernels"])
    for name, *numbers in rank["operators"]:
        assert numbers == pytest.approx(sums[name], abs=0.01)
    order = [row[4] for row in rank["operators"]]
    assert order == sorted(order, reverse=True) and order[0] > 0


def test_timeline_has_every_kernel_and_operator_once(recorded, tmp_path):
    data = page_of(recorded, tmp_path)
    rank, = data["ranks"]
    kernels = sorted((row["Name"], float(row["Start Time(us)"]), float(row["Duration(us)"])) for row in rows(recorded, "kernel_details.csv"))
    shown = sorted((name, begin + data["origin"], length) for name, begin, length in events(rank, "device") if not name.startswith("Memcpy"))
    assert [name for name, *_ in shown] == [name for name, *_ in kernels]
    for one, other in zip(shown, kernels):
        assert one[1:] == pytest.approx(other[1:], abs=0.5, rel=0)   # a float holds Unix microseconds to a quarter
    host = [name for name, _, _ in events(rank, "host")]
    wanted = [row["Name"] for row in rows(recorded, "operator_details.csv")]
    assert [name for name in host if name == "aten::mm"] == [name for name in wanted if name == "aten::mm"] != []
    assert HOSTILE in host and events(rank, "python")
    assert {name for name, _, _ in events(rank, "overlap")} == {"Computing", "Free"}
    for track in rank["tracks"]:
        for begins, lengths, _ in track["rows"]:
            for begin, length, after in zip(begins, lengths, begins[1:]):
                assert begin + length <= after + 0.002
    assert min(begin for kind in ("host", "python", "device") for _, begin, _ in events(rank, kind)) >= 0


def test_children_lie_below_their_operators(recorded, tmp_path):
    rank, = page_of(recorded, tmp_path)["ranks"]
    host, = (track for track in rank["tracks"] if track["kind"] == "host")
    depths = {rank["names"][name]: depth for depth, row in enumerate(host["rows"]) for name in row[2]}
    assert depths["ProfilerStep#1"] < depths["aten::matmul"] < depths["aten::mm"]


def test_memory_is_that_of_the_file(recorded, tmp_path):
    data = page_of(recorded, tmp_path)
    (device, (times, allocated, reserved)), = data["ranks"][0]["memory"].items()
    wanted = rows(recorded, "memory_record.csv")
    assert device == wanted[0]["Device Type"] and len(times) == len(wanted)
    assert allocated == [float(row["Total Allocated(MB)"]) for row in wanted]
    assert reserved == [float(row["Total Reserved(MB)"]) for row in wanted]
    assert times[0] + data["origin"] == pytest.approx(float(wanted[0]["Timestamp(us)"]), abs=0.5, rel=0)


def test_ranks_are_in_their_order(recorded, tmp_path):
    for number in (10, 2):
        copy = tmp_path / f"worker{number}_ascend_pt"
        shutil.copytree(recorded, copy)
        (copy / "profiler_info.json").rename(copy / f"profiler_info_{number}.json")
    data = page_of(tmp_path, tmp_path)
    assert [rank["name"] for rank in data["ranks"]] == ["rank 2", "rank 10"]
    assert data["ranks"][0]["kernels"] == data["ranks"][1]["kernels"] != []


def test_damaged_and_missing_files_are_notes(recorded, tmp_path):
    copy = tmp_path / "worker_ascend_pt"
    shutil.copytree(recorded, copy)
    output = copy / "ASCEND_PROFILER_OUTPUT"
    view = output / "trace_view.json"
    view.write_text(view.read_text()[:500])
    (output / "op_statistic.csv").unlink()
    (output / "operator_details.csv").write_text("Names\nx\n")
    rank, = page_of(tmp_path, tmp_path)["ranks"]
    assert rank["tracks"] == [] and rank["kernels"] == [] and rank["operators"] == [] and len(rank["steps"]) == 2
    assert [note.split(":")[0] for note in rank["notes"]] == [
        "trace_view.json cannot be read", "op_statistic.csv is not there", "operator_details.csv cannot be read"]


def test_what_was_not_analysed_is_a_note(tmp_path):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)):
        torch.ones(3, device="npu").sin()
    rank, = page_of(tmp_path, tmp_path)["ranks"]
    assert "torch_npu.profiler.analyse" in rank["notes"][0] and rank["tracks"] == []


def test_a_limit_of_events_leaves_the_longest(recorded, tmp_path):
    whole, = page_of(recorded, tmp_path)["ranks"]
    few, = page_of(recorded, tmp_path, events=20)["ranks"]
    lengths = [sorted((length for kind in ("host", "device", "overlap", "python") for _, _, length in events(rank, kind)), reverse=True)
               for rank in (whole, few)]
    assert lengths[1] == lengths[0][:20] and "the 20 longest of" in few["notes"][0]
    with pytest.raises(ValueError, match="positive"):
        report.write(str(recorded), events=0)


def test_a_profile_of_msprof(tmp_path):
    code = "import torch, torch_npu; x = torch.ones(64, 64, device='npu'); [x @ x for _ in range(5)]; torch.npu.synchronize()"
    subprocess.run([sys.executable, str(ROOT / "bin" / "msprof"), f"--output={tmp_path}", sys.executable, "-c", code], check=True,
                   env={**os.environ, "TORCH_NPU_RUNTIME": "softcann"})
    rank, = page_of(tmp_path, tmp_path)["ranks"]
    assert rank["notes"] == [] and rank["name"].startswith("PROF_")
    products = [length for name, _, length in events(rank, "device") if name == "aclnnMm"]
    row, = (row for row in rank["kernels"] if row[1] == "Mm")
    assert len(products) == row[3] == 5 and sum(products) == pytest.approx(row[4], abs=0.01)
    computing = rank["steps"][0][2]
    assert sum(products) <= computing + 0.01 and rank["calls"]


def test_the_command(recorded, tmp_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "torch_npu.profiler.report", *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)

    done = run(recorded, "-o", tmp_path / "page.html")
    assert done.returncode == 0 and done.stdout == f"{tmp_path / 'page.html'}\n"
    assert data_of(tmp_path / "page.html")["ranks"][0]["kernels"]
    (tmp_path / "empty").mkdir()
    for arguments, text in (((tmp_path / "empty",), "no folder *_ascend_pt"), ((tmp_path / "none",), "is no folder"),
                            ((recorded, "-o", tmp_path / "no" / "page.html"), "No such file")):
        failed = run(*arguments)
        assert failed.returncode == 1 and text in failed.stderr and "Traceback" not in failed.stderr
    assert sorted(os.listdir(tmp_path)) == ["empty", "page.html"]
