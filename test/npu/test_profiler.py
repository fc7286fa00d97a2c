"""What torch.profiler shows of the NPU: the host's times, the device's memory, and marks of the program."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

mstx = torch.npu.mstx


def found(profiled):
    return {event.key: event for event in profiled.key_averages()}


@pytest.mark.parametrize("activities", [None, [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]])
def test_times_of_the_host_and_memory_of_the_device(activities, capfd):
    with profile(activities=activities, profile_memory=True) as profiled:
        x = torch.ones(1000, device="npu") * 2
    operator = found(profiled)["aten::mul"]
    assert operator.cpu_time_total > 0 and operator.device_time_total == 0
    assert operator.device_memory_usage >= x.nbytes
    assert "Exception" not in capfd.readouterr().err


def test_marks_and_ranges():
    @mstx.mstx_range("function")
    def add():
        return torch.ones(2, device="npu") + 1

    with profile() as profiled:
        outer = mstx.range_start("outer", torch.npu.current_stream())
        inner = mstx().range_start("inner", domain="mine")
        add()
        add()
        mstx.range_end(outer)  # not nested
        with mstx.mstx_range("block"):
            mstx.mark("mark")
        mstx.range_end(inner, "mine")
    counts = {name: event.count for name, event in found(profiled).items()}
    assert {name: counts.get(name) for name in ("outer", "inner", "function", "block", "mark")} == {
        "outer": 1, "inner": 1, "function": 2, "block": 1, "mark": 1}
    assert outer != inner and outer > 0


def test_marks_without_a_profile():
    assert mstx.range_start("nothing") == 0
    mstx.range_end(0)
    mstx.range_end(10**9)
    mstx.mark("nothing")


def test_times_of_the_device_by_events(capfd):
    with torch.autograd.profiler.profile(use_device="npu") as profiled:
        torch.ones(500, 500, device="npu") @ torch.ones(500, 500, device="npu")
    assert found(profiled)["aten::mm"].device_time_total > 0
    assert "Exception" not in capfd.readouterr().err
