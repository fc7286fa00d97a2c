"""Where torch_npu.profiler writes, and what a program's own on_trace_ready can do."""
import gzip
import json
import os
import shutil

import pytest
import torch

from torch_npu import profiler
from torch_npu.profiler._profiler_path_creator import ProfPathCreator

pytestmark = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    yield
    ProfPathCreator().init()


def record(**options):
    with profiler.profile(**options) as profiled:
        torch.ones(4, device="npu").add(1)
    return profiled


def only(folder):
    name, = os.listdir(folder)
    assert name.endswith("_ascend_pt") and f"_{os.getpid()}_" in name
    return os.path.join(os.path.abspath(folder), name)


def test_nothing_is_written_that_nobody_asked_for():
    record()
    assert os.listdir() == []


def test_the_work_path_has_raw_traces_to_analyse_later(monkeypatch):
    monkeypatch.setenv("ASCEND_WORK_PATH", os.path.abspath("work"))
    profiled = record()
    folder = only("work/profiling_data")
    assert profiled.prof_if.prof_path == folder and not os.path.exists(f"{folder}/ASCEND_PROFILER_OUTPUT")
    profiler.profiler.analyse("work")
    assert os.path.exists(f"{folder}/ASCEND_PROFILER_OUTPUT/kernel_details.csv")


def test_a_handler_without_a_folder_writes_to_the_work_path(monkeypatch):
    record(on_trace_ready=profiler.tensorboard_trace_handler())
    assert os.path.isdir(f"{only('.')}/ASCEND_PROFILER_OUTPUT")
    monkeypatch.setenv("ASCEND_WORK_PATH", os.path.abspath("work"))
    record(on_trace_ready=profiler.tensorboard_trace_handler())
    assert os.path.isdir(f"{only('work/profiling_data')}/ASCEND_PROFILER_OUTPUT")
    record(on_trace_ready=profiler.tensorboard_trace_handler("own"))
    assert only("own")


@pytest.mark.parametrize("analyse", [True, False])
def test_a_function_of_the_programs_own_moves_the_folder(analyse):
    ProfPathCreator().init(worker_name="worker", dir_name="first")
    assert ProfPathCreator() is ProfPathCreator()

    def move(profiled):
        if analyse:
            profiled.prof_if.analyse()
        shutil.move(profiled.prof_if.prof_path, "second")

    record(on_trace_ready=move)
    assert os.listdir("first") == []
    assert os.path.exists("second/ASCEND_PROFILER_OUTPUT/kernel_details.csv") == analyse


def test_the_folder_is_known_after_the_profile():
    profiled = record(on_trace_ready=profiler.tensorboard_trace_handler("traces"))
    assert profiled.prof_if.prof_path == only("traces")
    alone = record()
    alone.prof_if.analyse()
    assert os.path.exists(f"{alone.prof_if.prof_path}/ASCEND_PROFILER_OUTPUT/trace_view.json")


def test_what_cannot_be():
    ProfPathCreator().init(worker_name="a/b", dir_name="traces")
    assert os.path.dirname(ProfPathCreator().new_path()) == os.path.abspath("traces")
    with pytest.warns(RuntimeWarning, match="not started"):
        profiler.profile().prof_if.analyse()
    assert not os.path.exists("traces")


def test_each_trace_has_a_folder_of_its_own():
    found = []
    schedule = profiler.schedule(wait=0, warmup=0, active=1, repeat=3)
    with profiler.profile(schedule=schedule, on_trace_ready=lambda p: (p.prof_if.analyse(), found.append(p.prof_if.prof_path))) as p:
        for _ in range(3):
            torch.ones(4, device="npu").add(1)
            torch.npu.synchronize()
            p.step()
    assert len(set(found)) == 3 and all(os.path.exists(f"{path}/ASCEND_PROFILER_OUTPUT/kernel_details.csv") for path in found)


def test_a_trace_is_exported_as_often_as_asked():
    profiled = record(on_trace_ready=profiler.tensorboard_trace_handler("traces"))  # writes it first, and removes it
    profiled.export_chrome_trace("a.json")
    profiled.export_chrome_trace("a.json")
    profiled.export_chrome_trace("b.json.gz")
    with open("a.json") as plain, gzip.open("b.json.gz") as packed:
        events = json.load(plain)["traceEvents"]
        assert events == json.load(packed)["traceEvents"]
    assert any(event.get("name") == "aten::add" for event in events)
    packed_first = record()
    packed_first.export_chrome_trace("c.json.gz")
    packed_first.export_chrome_trace("c.json")
    with open("c.json") as plain, gzip.open("c.json.gz") as packed:
        assert json.load(plain)["traceEvents"] == json.load(packed)["traceEvents"]


def test_a_trace_whose_file_was_changed_is_not_taken_for_it():
    first = record()
    first.export_chrome_trace("a.json")
    record().export_chrome_trace("a.json")   # in a new file of that name
    first.export_chrome_trace("b.json.gz")
    second = record()
    second.export_chrome_trace("c.json")
    with open("c.json", "w") as file:
        file.write("{}")
    with pytest.warns(RuntimeWarning, match="c.json, where this trace was exported to first, was changed since"):
        second.export_chrome_trace("d.json")
    assert os.path.exists("b.json.gz") and not os.path.exists("d.json")
