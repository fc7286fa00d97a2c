"""msprof and aclprof* on softcann: what is recorded, and Ascend's tables of it."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
FACTS = ROOT.parent / "shared" / "facts" / "offline" / "07_msprof.json"

# A client below torch: three fills and two copies on a stream.
CLIENT = f"""
import ctypes
acl = ctypes.CDLL({str(LIBRARIES / "libascendcl.so")!r})
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
memory, size, stream = ctypes.c_void_p(), ctypes.c_size_t(1 << 20), ctypes.c_void_p()
host = ctypes.create_string_buffer(1 << 20)
assert acl.aclrtMalloc(ctypes.byref(memory), size, 0) == 0 and acl.aclrtCreateStream(ctypes.byref(stream)) == 0
def work():
    for value in range(3):
        assert acl.aclrtMemsetAsync(memory, size, value, size, stream) == 0
    for _ in range(2):
        assert acl.aclrtMemcpyAsync(host, size, memory, size, 2, stream) == 0
    assert acl.aclrtSynchronizeStream(stream) == 0
"""
API = """
prof = ctypes.CDLL(LIBRARY)
prof.aclprofCreateConfig.restype = prof.aclprofCreateStamp.restype = prof.aclprofCreateStepInfo.restype = ctypes.c_void_p
def config(kinds=0x83):
    made = prof.aclprofCreateConfig((ctypes.c_uint32 * 1)(0), 1, 255, None, ctypes.c_uint64(kinds))
    assert made
    return ctypes.c_void_p(made)
""".replace("LIBRARY", repr(str(LIBRARIES / "libmsprofiler.so")))


def msprof(*arguments, check=True, **environment):
    return subprocess.run([sys.executable, str(ROOT / "bin" / "msprof"), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, check=check, env={**os.environ, **environment})


def client(code, *arguments):
    done = subprocess.run([sys.executable, "-c", CLIENT + API + code, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(folder):
    """Rows by table, as dictionaries; and the timeline."""
    profile, = folder.glob("PROF_*")
    output = profile / "mindstudio_profiler_output"
    found = {}
    for path in output.glob("*.csv"):
        with open(path, newline="") as file:
            found[re.sub(r"_\d{14}$", "", path.stem)] = list(csv.DictReader(file))
    timeline, = output.glob("msprof_*.json")
    return found, json.loads(timeline.read_text())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    result = msprof(f"--output={folder}", sys.executable, "-c", CLIENT + "work()")
    return folder, result.stdout


def test_the_command_says_what_it_does(recorded):
    folder, text = recorded
    profile, = folder.glob("PROF_*")
    assert re.fullmatch(r"PROF_\d{6}_\d{17}_[A-Z]{15}", profile.name)
    assert text.splitlines() == ["[INFO] Start profiling....", f"[INFO] Start export data in {profile.name}.",
                                 f"[INFO] Export all data in {profile.name} done.",
                                 f"[INFO] Process profiling data complete. Data is saved in {folder}"]


def test_each_task_is_in_the_tables_and_the_timeline(recorded):
    found, timeline = tables(recorded[0])
    tasks = found["task_time"]
    assert [row["kernel_name"] for row in tasks] == ["aclrtMemsetAsync"] * 3 + ["aclrtMemcpyAsync"] * 2
    assert len({row["stream_id"] for row in tasks}) == 1 and {row["Device_id"] for row in tasks} == {"0"}
    for before, after in zip(tasks, tasks[1:]):
        assert float(before["task_start(us)"]) <= float(before["task_stop(us)"]) <= float(after["task_start(us)"])
    for row in tasks:
        assert float(row["task_stop(us)"]) - float(row["task_start(us)"]) == pytest.approx(float(row["task_time(us)"]), abs=0.5)
    shown = [event for event in timeline if event["ph"] == "X" and "Task Id" in event["args"]]
    assert [(event["name"], f"{event['dur']:.3f}") for event in shown] == [(row["kernel_name"], row["task_time(us)"]) for row in tasks]
    assert {"CANN", "Ascend Hardware (NPU 0)"} <= {event["args"]["name"] for event in timeline if event["name"] == "process_name"}


def test_calls_are_counted_and_timed(recorded):
    rows = {row["API Name"]: row for row in tables(recorded[0])[0]["api_statistic"]}
    assert {name: int(row["Count"]) for name, row in rows.items()} == {
        "aclrtMemsetAsync": 3, "aclrtMemcpyAsync": 2, "aclrtSynchronizeStream": 1, "aclrtMalloc": 1}
    for row in rows.values():
        assert row["Level"] == "acl"
        assert float(row["Time(us)"]) == pytest.approx(float(row["Avg(us)"]) * int(row["Count"]), abs=0.01)
        assert 0 < float(row["Min(us)"]) <= float(row["Avg(us)"]) <= float(row["Max(us)"])


def test_the_tables_can_be_made_again_and_as_json(recorded, tmp_path):
    folder, _ = recorded
    profile, = folder.glob("PROF_*")
    subprocess.run(["cp", "-r", str(profile), str(tmp_path)], check=True)
    subprocess.run(["rm", "-r", str(tmp_path / profile.name / "mindstudio_profiler_output")], check=True)
    msprof("--export=on", f"--output={tmp_path}", "--summary-format=json", "--clear=on")
    made, = (tmp_path / profile.name / "mindstudio_profiler_output").glob("task_time_*.json")
    assert [row["kernel_name"] for row in json.loads(made.read_text())] == [row["kernel_name"] for row in tables(folder)[0]["task_time"]]
    assert not list(tmp_path.rglob("softcann.*"))


@pytest.mark.skipif(not FACTS.is_file(), reason="the fact tables are not here")
def test_the_columns_are_ascends():
    sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))
    from softcann._msprof_tables import TABLES

    facts = json.loads(FACTS.read_text())["csv_columns"]
    for name, columns in TABLES.items():
        wanted = [column.partition(" (older")[0] for column in facts[name] if "(old)" not in column and "PMU" not in column]
        assert list(columns)[: len(wanted)] == wanted, name


OPERATORS = """
import torch, torch_npu
a = torch.ones(4, 6, device="npu")
b = torch.ones(6, 2, dtype=torch.float32, device="npu")
for _ in range(3):
    c = torch.mm(a, b)
(c + 1).half()
torch.npu.synchronize()
"""


def test_operators_have_their_shapes_and_shares(tmp_path):
    pytest.importorskip("torch")
    msprof(f"--output={tmp_path}", f"--application={sys.executable} -c '{OPERATORS}'", TORCH_NPU_RUNTIME="softcann",
           PYTHONPATH=str(ROOT))
    found, _ = tables(tmp_path)
    products = [row for row in found["op_summary"] if row["Task Type"] == "AI_CORE"]
    assert len(products) == 3
    for row in products:
        assert row["Input Shapes"] == '"4,6;6,2"' and row["Output Shapes"] == '"4,2"'
        assert row["Input Data Types"] == "FLOAT;FLOAT" and row["Input Formats"] == "ND;ND" and row["aicore_time(us)"] == "N/A"
    statistic = found["op_statistic"]
    assert {row["OP Type"]: int(row["Count"]) for row in statistic}[products[0]["OP Type"]] == 3
    assert sum(float(row["Ratio(%)"]) for row in statistic) == pytest.approx(100, abs=0.01)
    spent = sum(float(row["Task Duration(us)"]) for row in found["op_summary"] if row["Task Type"] in ("AI_CORE", "AI_VECTOR_CORE"))
    assert sum(float(row["Total Time(us)"]) for row in statistic) == pytest.approx(spent, abs=0.1)


ABSENT = f"""
import sys
sys.path.insert(0, {str(ROOT / "test" / "softcann_op")!r})
import torch
from nn_client import Client
call, out = Client({str(LIBRARIES)!r}), torch.empty(3, 2)
call("aclnnIndex", torch.arange(12.).reshape(3, 4), [None, torch.tensor([0, 2])], out)
assert out.sum() == 30
"""


def test_a_list_may_leave_tensors_out(tmp_path):
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(ABSENT)
    msprof(f"--output={tmp_path}", sys.executable, program)
    found, _ = tables(tmp_path)
    row, = (row for row in found["op_summary"] if row["Task Type"] == "AI_VECTOR_CORE")
    assert row["Input Shapes"] == '"3,4;2"' and row["Output Shapes"] == '"3,2"'


def test_a_program_records_parts_of_itself(tmp_path):
    client("""
import sys
folder = sys.argv[1].encode()
assert prof.aclprofInit(folder, ctypes.c_size_t(len(folder))) == 0
chosen, step = config(), ctypes.c_void_p(prof.aclprofCreateStepInfo())
stamp = ctypes.c_void_p(prof.aclprofCreateStamp())
work()
assert prof.aclprofStart(chosen) == 0
assert prof.aclprofGetStepTimestamp(step, 0, stream) == 0
assert prof.aclprofSetStampTraceMessage(stamp, b"forward", 7) == 0 and prof.aclprofPush(stamp) == 0
acl.aclrtMemsetAsync(memory, size, 1, size, stream)
assert prof.aclprofPop() == 0
number = ctypes.c_uint32()
assert prof.aclprofRangeStart(stamp, ctypes.byref(number)) == 0 and prof.aclprofRangeStop(number) == 0
assert prof.aclprofMarkEx(b"here\\tnow", ctypes.c_size_t(8), stream) == 0
acl.aclrtSynchronizeStream(stream)
assert prof.aclprofGetStepTimestamp(step, 1, stream) == 0
assert prof.aclprofStop(chosen) == 0
work()
assert prof.aclprofDestroyConfig(chosen) == 0 and prof.aclprofFinalize() == 0
""", tmp_path)
    msprof("--export=on", f"--output={tmp_path}", "--msproftx=on")
    found, _ = tables(tmp_path)
    assert [row["kernel_name"] for row in found["task_time"]] == ["aclrtMemsetAsync"]
    marks = found["msprof_tx"]
    assert [(row["event_type"], row["message"]) for row in marks] == [
        ("push_pop", "forward"), ("start_end", "forward"), ("mark_ex", "here now"), ("step", "step")]
    assert marks[2]["Device Start_time(us)"] != "N/A" and marks[0]["Device Start_time(us)"] == "N/A"
    assert float(marks[3]["Start_time(us)"]) <= float(marks[0]["Start_time(us)"]) <= float(marks[3]["End_time(us)"])


def test_only_what_was_asked_for_is_recorded(tmp_path):
    client("""
import sys
folder = sys.argv[1].encode()
assert prof.aclprofInit(folder, ctypes.c_size_t(len(folder))) == 0
tasks_only = config(2)
assert prof.aclprofStart(tasks_only) == 0
work()
assert prof.aclprofStop(tasks_only) == 0
""", tmp_path)
    msprof("--export=on", f"--output={tmp_path}")
    found, _ = tables(tmp_path)
    assert set(found) == {"task_time"}


@pytest.mark.parametrize("code,expected", [
    ("prof.aclprofStart(config())", 100043), ("prof.aclprofFinalize()", 100043), ("prof.aclprofStart(None)", 100000),
    ("[prof.aclprofInit(b'/tmp', ctypes.c_size_t(4)), prof.aclprofInit(b'/tmp', ctypes.c_size_t(4))][1]", 100002),
    ("[prof.aclprofInit(b'/proc/x', ctypes.c_size_t(7)), prof.aclprofStart(config())][1]", 500005),
    ("prof.aclprofPop()", 100000), ("prof.aclprofRangeStop(77)", 100000)])
def test_calls_out_of_order_are_refused(code, expected):
    assert client(f"print({code})") == f"{expected}\n"


def test_a_killed_program_leaves_what_it_had(tmp_path):
    code = CLIENT + "work()\nfor _ in range(3000): work()\nimport os; os.kill(os.getpid(), 9)"
    result = msprof(f"--output={tmp_path}", sys.executable, "-c", code, check=False)
    assert "Export all data" in result.stdout
    assert result.returncode != 0


@pytest.mark.parametrize("arguments,text", [
    (["--output={folder}", sys.executable, "-c", "pass"], "used no device of softcann"),
    (["--output={folder}", "/no/such/program"], "[ERROR] /no/such/program: No such file or directory"),
    (["--export=on", "--output={folder}"], "there is no PROF_* in"),
    (["--pid=1", "--dynamic=on", "x"], "softcann does not serve attaching to a running program"),
    (["--ai-core=maybe", "x"], "invalid choice: 'maybe'"),
    (["--nonsense=on", "x"], "unrecognized arguments: --nonsense=on"),
    ([], "a program, or --export=on")])
def test_what_cannot_be_done_is_told(tmp_path, arguments, text):
    result = msprof(*(word.format(folder=tmp_path) for word in arguments), check=False)
    assert result.returncode != 0 and text in result.stdout


def test_a_folder_that_cannot_be_written_stops_the_program(tmp_path):
    file = tmp_path / "file"
    file.touch()
    result = msprof(f"--output={file}/below", sys.executable, "-c", CLIENT, check=False)
    assert result.returncode == 1 and "Not a directory" in result.stdout
    done = subprocess.run([sys.executable, "-c", CLIENT], stderr=subprocess.PIPE, env={**os.environ, "SOFTCANN_PROF": "/proc/nowhere"})
    assert done.returncode != 0   # aclrtSetDevice fails


def test_options_for_hardware_are_told_to_have_no_effect(tmp_path):
    result = msprof(f"--output={tmp_path}", "--aic-metrics=PipeUtilization", "--l2=off", sys.executable, "-c", CLIENT + "work()")
    assert "no effect on softcann, which has no hardware counters: --aic-metrics\n" in result.stdout
