"""What torch.profiler shows of the NPU: what ran on it and who launched it, its memory, and marks of the program."""
import csv
import glob
import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

mstx = torch.npu.mstx
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
traced = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")


def found(profiled):
    return {event.key: event for event in profiled.key_averages()}


def launches(profiled):
    """The device's part, in order of launch."""
    return [event for event in profiled.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]


@traced
@pytest.mark.parametrize("activities", [None, [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]])
def test_times_and_memory(activities, capfd):
    with profile(activities=activities, profile_memory=True) as profiled:
        x = torch.ones(1000, device="npu") * 2
    events = found(profiled)
    operator = events["aten::mul"]
    assert operator.cpu_time_total > 0 and operator.device_time_total == events["aclnnMuls"].device_time_total > 0
    assert operator.device_memory_usage >= x.nbytes
    assert "Exception" not in capfd.readouterr().err


@traced
def test_the_device_alone_and_the_host_alone():
    x = torch.ones(10, device="npu")
    with profile(activities=[ProfilerActivity.PrivateUse1]) as profiled:
        x + x
    assert [event.name for event in launches(profiled)] == ["aclnnAdd"] and "aten::add" not in found(profiled)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        x + x
    assert launches(profiled) == [] and "aten::add" in found(profiled)


@traced
def test_launches_belong_to_their_operators():
    w = torch.ones(64, 64, device="npu", requires_grad=True)
    with profile() as profiled:
        with record_function("forward"):
            loss = (w @ w).relu().sum()
        loss.backward()
        value = loss.item()
    assert value == 64.0 ** 3
    events = found(profiled)
    # Two gradients of the product; the forward's operators are within the range, the backward's are not.
    assert events["aclnnMm"].count == 3 == events["aten::mm"].count
    assert events["aten::mm"].device_time_total == pytest.approx(events["aclnnMm"].device_time_total)
    forward = events["forward"].device_time_total
    assert 0 < forward < sum(event.self_device_time_total for event in events.values())
    assert events["Memcpy DtoH"].count == 1 and events["aten::item"].device_time_total > 0


@traced
@pytest.mark.alone   # two clocks: what runs on the cores between two reads differs
def test_where_and_when_launches_ran():
    """In order on their stream, after their launch, and as long as they take."""
    x = torch.ones(1200, 1200, device="npu")
    side = torch.npu.Stream()
    x @ x
    torch.npu.synchronize()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    with profile() as profiled:
        start.record()
        for _ in range(3):
            x @ x
        end.record()
        with torch.npu.stream(side):
            x + x
        torch.npu.synchronize()
    products = [event for event in launches(profiled) if event.name == "aclnnMm"]
    addition, = [event for event in launches(profiled) if event.name == "aclnnAdd"]
    calls = [event for event in profiled.events() if event.name == "aclnnLaunch"]
    assert [event.device_index for event in products] == [0] * 3 and len(calls) == 4
    for before, after in zip(products, products[1:]):
        assert before.time_range.end <= after.time_range.start + 1   # microseconds: the clock's precision
    for call, product in zip(calls, products):
        assert call.time_range.start <= product.time_range.start + 20
    total = sum(event.device_time_total for event in products)
    assert 0.5 * total <= start.elapsed_time(end) * 1e3 <= 2 * total + 1000
    assert addition.device_resource_id == side.stream_id != products[0].device_resource_id


@traced
def test_the_trace_for_a_viewer(tmp_path):
    x = torch.ones(1 << 20)
    with profile() as profiled:
        (x.npu() + 1).cpu()
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernel, = [event for event in events if event.get("cat") == "kernel"]
    there, back = sorted((event for event in events if event.get("cat") == "gpu_memcpy"), key=lambda event: event["ts"])
    assert kernel["name"] == "aclnnAdds" and (kernel["pid"], kernel["tid"]) == (0, 0)
    assert (there["name"], back["name"]) == ("Memcpy HtoD", "Memcpy DtoH")
    assert there["args"]["bytes"] == back["args"]["bytes"] == x.nbytes
    assert there["args"]["memory bandwidth (GB/s)"] == pytest.approx(x.nbytes / there["dur"] / 1e3, rel=1e-2)
    assert there["ts"] + there["dur"] <= kernel["ts"] + 1 and kernel["ts"] + kernel["dur"] <= back["ts"] + 1
    # An arrow from the call to each of the three.
    starts, ends = ({event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == phase} for phase in "sf")
    assert len(starts) == 3 and starts == ends
    operator = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "cpu_op"}
    assert operator[kernel["args"]["External id"]] == "aten::add"


@traced
def test_several_threads_and_devices(tmp_path):
    """In a process of its own with two devices."""
    program = tmp_path / "program.py"
    program.write_text("""
import threading
import torch
import torch_npu
from torch.profiler import profile

def work(device):
    x = torch.ones(8, device=f"npu:{device}")
    for _ in range(200):
        x = x + 1
    torch.npu.synchronize(device)

with profile() as profiled:
    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
additions = [event for event in profiled.events() if event.name == "aclnnAdds"]
print([sum(event.device_index == device for event in additions) for device in (0, 1)])
""")
    result = subprocess.run([sys.executable, program], env={**os.environ, "SOFTCANN_DEVICE_COUNT": "2"},
                            capture_output=True, text=True, timeout=1200)
    assert result.stdout == "[400, 400]\n", result.stderr


@traced
def test_more_launches_than_a_device_has_events():
    x = torch.ones(4, device="npu")
    with profile(activities=[ProfilerActivity.PrivateUse1]) as profiled:
        for _ in range(20000):
            x + x
    assert len(launches(profiled)) == 20000


@traced
def test_cycles_of_a_schedule():
    x, counts = torch.ones(4, device="npu"), []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                 on_trace_ready=lambda profiled: counts.append(len(launches(profiled)))) as profiled:
        for _ in range(8):
            x + x
            profiled.step()
    assert counts == [2, 2]


@traced
def test_operators_that_fail():
    x = torch.ones(4, device="npu")
    with profile() as profiled:
        with pytest.raises(RuntimeError):
            x + torch.ones(3, device="npu")
        with pytest.raises(RuntimeError):
            torch.addmm(x, x, x)
        x + x
    assert [event.name for event in launches(profiled)].count("aclnnAdd") == 1


@traced
def test_a_thread_that_launches_while_profiles_come_and_go():
    stop, x = threading.Event(), torch.ones(4, device="npu")

    def work():
        while not stop.is_set():
            x + x

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            with profile(activities=[ProfilerActivity.PrivateUse1]) as profiled:
                x * 3
            assert "aclnnMuls" in found(profiled)
    finally:
        stop.set()
        thread.join()


def test_names_for_programs_for_npus():
    import torch_npu

    assert issubclass(torch_npu.profiler.profile, profile) and torch_npu.profiler.ProfilerActivity is ProfilerActivity


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


@traced
def test_marks_on_a_stream_have_its_times(tmp_path):
    side = torch.npu.Stream()
    x = torch.ones(64, 64, device="npu")
    torch.npu.synchronize()
    with profile() as profiled:
        with torch.npu.stream(side):
            outer = mstx.range_start("outer", side)
            x @ x
            inner = mstx.range_start("inner", side)
            mstx.range_end(outer)   # not nested
            x.relu()
            mstx.range_end(inner)
            mstx.mark("moment", side)
            mstx.range_start("never ended", side)
        mstx.mark("host alone")
        torch.npu.synchronize()
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    with open(tmp_path / "trace.json") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    marks = {event["name"]: event for event in events if event.get("cat") == "gpu_user_annotation"}
    assert set(marks) == {"outer", "inner", "moment"}
    kernels = {event["name"]: event for event in events if event.get("cat") == "kernel"}
    relu = kernels["aclnnRelu"]
    mm = next(event for name, event in kernels.items() if "Mm" in name or "Matmul" in name)
    assert {event["args"]["stream"] for event in marks.values()} == {relu["args"]["stream"]}

    def holds(mark, kernel):
        return mark["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= mark["ts"] + mark["dur"]

    assert holds(marks["outer"], mm) and not holds(marks["outer"], relu)
    assert holds(marks["inner"], relu) and not holds(marks["inner"], mm)
    assert {event["name"] for event in events if event.get("cat") == "user_annotation"} >= {"outer", "host alone"}


@traced
def test_profiles_leave_domains_out(tmp_path):
    import torch_npu.profiler as ascend

    for setting, expected in (({"mstx_domain_include": ["data"]}, {"data"}), ({"mstx_domain_exclude": ["data"]}, {"default", "model"})):
        with ascend.profile(experimental_config=ascend._ExperimentalConfig(**setting)) as profiled:
            for domain in ("default", "data", "model"):
                mstx.mark(domain, domain=domain)
        assert {name for name in found(profiled) if name in ("default", "data", "model")} == expected
    both = ascend._ExperimentalConfig(mstx_domain_include=["a"], mstx_domain_exclude=["b"])
    assert both._mstx_domain_include == ["a"] and both._mstx_domain_exclude == []


def test_msprof_sees_marks_of_the_adapter(tmp_path):
    program = """
import torch
x = torch.ones(8, device="npu")
with torch.npu.mstx.mstx_range("load", torch.npu.current_stream(), "data"):
    x + 1
torch.npu.mstx.mark("done")
torch.npu.synchronize()
"""
    subprocess.run([sys.executable, os.path.join(ROOT, "bin", "msprof"), f"--output={tmp_path}", "--msproftx=on", sys.executable,
                    "-c", program], check=True, stdout=subprocess.DEVNULL)
    path, = glob.glob(str(tmp_path / "PROF_*" / "mindstudio_profiler_output" / "msprof_tx_*.csv"))
    with open(path, newline="") as file:
        rows = {row["message"]: row for row in csv.DictReader(file)}
    assert rows["load"]["domain"] == "data" and rows["load"]["Device Start_time(us)"] != "N/A"
    assert rows["done"]["domain"] == "default" and rows["done"]["Device Start_time(us)"] == "N/A"


def test_marks_without_a_profile():
    assert mstx.range_start("nothing") == 0
    mstx.range_end(0)
    mstx.range_end(10**9)
    mstx.mark("nothing")


def test_times_of_the_device_by_events(capfd):
    with torch.autograd.profiler.profile(use_device="npu", use_kineto=False) as profiled:
        torch.ones(500, 500, device="npu") @ torch.ones(500, 500, device="npu")
    assert found(profiled)["aten::mm"].device_time_total > 0
    assert "Exception" not in capfd.readouterr().err
