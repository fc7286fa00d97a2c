"""torch_npu.utils.perf_table, and the old arguments of torch.autograd.profiler."""
import json

import pytest
import torch
from torch.autograd import DeviceType

import torch_npu
from torch_npu.utils import perf_table

has_activities = pytest.mark.skipif(torch.__version__ < (2, 12),
                                    reason="torch has no place for another device's activities before 2.12")


def work(times):
    a, b = torch.ones(16, 32, device="npu"), torch.ones(32, 8, device="npu", dtype=torch.float32)
    for _ in range(times):
        (a @ b).relu()
    torch.npu.synchronize()


@pytest.fixture(scope="module")
def profiled():
    with torch_npu.profiler.profile(record_shapes=True, schedule=torch_npu.profiler.schedule(0, 2, 1, 1)) as profile:
        for _ in range(3):
            work(2)
            profile.step()
    return profile


@has_activities
def test_times_are_the_profile_s_own(profiled):
    table = perf_table(profiled)
    rows = {(row.name, row.shapes): row for row in table.rows}
    mm = rows["aten::mm", "16,32;32,8"]
    assert mm.calls == 4 and mm.dtypes == "float;float"
    device = [event for event in profiled.events() if event.device_type != DeviceType.CPU and not event.name.startswith("Profiler")]
    assert mm.device_self == pytest.approx(sum(e.time_range.elapsed_us() for e in device if "Mm" in e.name or "Matmul" in e.name))
    assert sum(row.device_self for row in table.rows) == pytest.approx(sum(e.time_range.elapsed_us() for e in device))
    mine = [event for event in profiled.events() if event.name == "aten::mm"]
    assert mm.host_total == pytest.approx(sum(event.cpu_time_total for event in mine)) and mm.host_avg == pytest.approx(mm.host_total / 4)
    assert rows["aten::matmul", "16,32;32,8"].device_total == pytest.approx(mm.device_total)
    assert rows["aten::matmul", "16,32;32,8"].device_self == 0
    assert sum(row.device_percent for row in table.rows) == pytest.approx(100)
    assert sum(row.host_percent for row in table.rows) == pytest.approx(100)


@has_activities
def test_the_whole_and_its_steps(profiled):
    table = perf_table(profiled)
    assert table.steps == 2
    assert 0 < table.device_busy <= table.end_to_end
    assert table.end_to_end >= max(row.host_total / row.calls for row in table.rows)
    assert all(before.device_self >= after.device_self for before, after in zip(table.rows, table.rows[1:]))


@has_activities
def test_text_order_and_json(profiled, tmp_path):
    table = perf_table(profiled)
    text = table.table(2)
    assert text.splitlines()[4] == f"... and {len(table.rows) - 2} more" and "Device Total(us)" in text
    assert f"2 steps of {table.end_to_end / 2:.3f} us" in text and str(table).count("\n") > text.count("\n")
    by_calls = table.sorted_by("calls").rows
    assert [row.calls for row in by_calls] == sorted((row.calls for row in table.rows), reverse=True)
    with pytest.raises(ValueError, match="host_avg"):
        table.sorted_by("name")
    table.export_json(str(tmp_path / "table.json"))
    written = json.loads((tmp_path / "table.json").read_text())
    assert written["end_to_end_us"] == table.end_to_end and written["operators"][0] == table.rows[0]._asdict()
    with pytest.raises(OSError):
        table.export_json(str(tmp_path / "missing" / "table.json"))


def test_a_profile_must_have_run():
    profile = torch.autograd.profiler.profile()
    with pytest.raises(RuntimeError, match="stop"):
        perf_table(profile)


def test_use_npu_of_old_programs():
    with torch.autograd.profiler.profile(use_npu=True, record_shapes=True) as profile:
        work(1)
    averages = {event.key: event for event in profile.key_averages()}
    assert averages["aten::mm"].npu_time_total == averages["aten::mm"].device_time_total > 0
    assert averages["aten::mm"].self_npu_time_total > 0
    assert "NPU total" in profile.key_averages().table(sort_by="npu_time_total", row_limit=3)
    row, = [row for row in perf_table(profile).rows if row.name == "aten::mm"]
    assert row.shapes == "16,32;32,8" and row.device_self > 0
    with torch.autograd.profiler.profile(use_npu=False) as profile:
        work(1)
    assert all(event.device_time_total == 0 for event in profile.key_averages())
    with pytest.raises(ValueError, match="another device"):
        torch.autograd.profiler.profile(use_npu=True, use_device="xpu")
