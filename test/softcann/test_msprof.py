"""msprof and aclprof* on softcann: what is recorded, and Ascend's tables of it."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest
from msprof_client import API, CLIENT, LIBRARIES, ROOT, msprof, tables

FACTS = ROOT.parent / "shared" / "facts" / "offline" / "07_msprof.json"


def client(code, *arguments):
    done = subprocess.run([sys.executable, "-c", CLIENT + API + code, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    begins, ends = ({event["id"]: event for event in timeline if event["ph"] == kind} for kind in "sf")
    calls = {(event["tid"], event["ts"]): event["name"] for event in timeline if event["ph"] == "X" and event["pid"] == begins[min(begins)]["pid"]}
    assert begins.keys() == ends.keys() and len(ends) == len(tasks)   # each task hangs on the call that submitted it
    named = {event["ts"]: event["name"] for event in shown}
    assert all(calls[begins[one]["tid"], begins[one]["ts"]] == f"Acl@{named[ends[one]['ts']]}" for one in begins)
    labels = {event["pid"]: event["args"]["labels"] for event in timeline if event["name"] == "process_labels"}
    assert labels[shown[0]["pid"]] == "NPU 0"
    assert {"CANN", "Ascend Hardware (NPU 0)"} <= {event["args"]["name"] for event in timeline if event["name"] == "process_name"}


def test_calls_are_counted_and_timed(recorded):
    rows = {row["API Name"]: row for row in tables(recorded[0])[0]["api_statistic"]}
    assert {name: int(row["Count"]) for name, row in rows.items()} == {
        "aclrtMemsetAsync": 3, "aclrtMemcpyAsync": 2, "aclrtSynchronizeStream": 1, "aclrtMalloc": 1, "aclrtCreateStream": 1}
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
    thread = client("""
import sys, threading
print(threading.get_native_id())
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
class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_uint64), ("type", ctypes.c_uint64), ("rest", ctypes.c_uint32 * 4), ("pointers", ctypes.c_void_p * 2)]
class Attributes(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("kind", ctypes.c_uint32), ("info", ctypes.POINTER(TensorInfo))]
prof.aclprofStr2Id.restype = ctypes.c_uint64
info = TensorInfo(prof.aclprofStr2Id(b"my_op"), prof.aclprofStr2Id(b"MyOp"))
assert prof.aclprofRangePop() != 0 and prof.aclprofRangePushEx(None) != 0
assert prof.aclprofRangePushEx(ctypes.byref(Attributes(1, 16, 0, ctypes.pointer(info)))) == 0 and prof.aclprofRangePop() == 0
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
    assert {row["tid"] for row in marks} == {thread.strip()}   # the host's, though a stream's thread comes to one of them
    assert [(row["event_type"], row["message"]) for row in marks] == [
        ("push_pop", "forward"), ("start_end", "forward"), ("push_pop", "my_op MyOp"), ("mark_ex", "here now"), ("step", "step")]
    assert marks[3]["Device Start_time(us)"] != "N/A" and marks[0]["Device Start_time(us)"] == "N/A"
    assert float(marks[4]["Start_time(us)"]) <= float(marks[0]["Start_time(us)"]) <= float(marks[4]["End_time(us)"])
    msprof("--export=on", f"--output={tmp_path}", "--type=db")
    path, = tmp_path.glob("PROF_*/msprof_*.db")
    events = query(path, "SELECT kind.name, value, globalTid & 0xffffffff, endGlobalTid = globalTid, connectionId FROM MSTX_EVENTS "
                   "JOIN STRING_IDS AS text ON text.id = message JOIN ENUM_MSTX_EVENT_TYPE AS kind ON kind.id = eventType")
    assert [event[:4] for event in events] == [
        ("push_pop", "forward", int(thread), 1), ("start_end", "forward", int(thread), 1), ("push_pop", "my_op MyOp", int(thread), 1),
        ("mark_ex", "here now", int(thread), 1)]
    tasks = query(path, "SELECT value, TASK.startNs, streamId FROM TASK JOIN MSTX_EVENTS USING (connectionId) JOIN STRING_IDS ON id = taskType")
    stream = query(path, "SELECT DISTINCT streamId FROM TASK WHERE taskId IS NOT NULL")[0][0]
    assert [(kind, on) for kind, _, on in tasks] == [("PROFILER_TRACE_EX", stream)]
    assert "{}.{:03d}".format(*divmod(tasks[0][1], 1000)) == marks[3]["Device Start_time(us)"].strip()


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


@pytest.mark.parametrize("setting,name,remedy", [
    (1, "ACL_PROF_STORAGE_LIMIT", "--duration"), (6, "ACL_PROF_SYS_INTERCONNECTION_FREQ", "leave the setting out"), (8, "ACL_PROF_HOST_SYS", "pidstat"),
    (16, "ACL_PROF_PATH", "aclprofInit"), (2, "unknown setting 2", ""), (17, "unknown setting 17", "")])
def test_settings_are_refused_by_name_with_a_remedy(setting, name, remedy):
    said = client(f"acl.aclGetRecentErrMsg.restype = ctypes.c_char_p\nassert prof.aclprofSetConfig({setting}, b'50', ctypes.c_size_t(2)) != 0\n"
                  "print(acl.aclGetRecentErrMsg().decode())")
    assert said.startswith(f"aclprofSetConfig: {name}") and remedy in said


def test_no_feature_needs_a_client_that_knows_it():
    assert client("""
for name in ("aclprofGetSupportedFeatures", "aclprofGetSupportedFeaturesV2"):
    size, data = ctypes.c_size_t(7), ctypes.c_void_p()
    print(getattr(prof, name)(ctypes.byref(size), ctypes.byref(data)), size.value, data.value, getattr(prof, name)(None, None) != 0)
print(prof.aclprofRegisterDeviceCallback())
""") == "0 0 None True\n0 0 None True\n0\n"


def test_a_killed_program_leaves_what_it_had(tmp_path):
    code = CLIENT + "work()\nfor _ in range(3000): work()\nimport os; os.kill(os.getpid(), 9)"
    result = msprof(f"--output={tmp_path}", sys.executable, "-c", code, check=False)
    assert "Export all data" in result.stdout
    assert result.returncode != 0


@pytest.mark.parametrize("arguments,text", [
    (["--output={folder}", sys.executable, "-c", "pass"], "used no device of softcann"),
    (["--output={folder}", "/no/such/program"], "[ERROR] /no/such/program: No such file or directory"),
    (["--export=on", "--output={folder}"], "there is no PROF_* in"),
    (["--pid=1", "--dynamic=on", "x"], "Argument --pid: it is for --dynamic=on, without a program"),
    (["--pid=1"], "Argument --pid: it is for --dynamic=on"),
    (["--pid=one", "--dynamic=on"], "invalid value 'one'"),
    (["--delay=0", "x"], "Argument --delay: invalid value 0"),
    (["--duration=-1", "x"], "Argument --duration: invalid value -1"),
    (["--duration=1", "--dynamic=on", "x"], "not for --dynamic=on"),
    (["--delay=1", "--export=on"], "Argument --delay: it is for a program"),
    (["--delay=600", "--output={folder}", sys.executable, "-c", CLIENT], "within --delay=600"),
    (["--analyze=on", "--rule=links", "--output={folder}"], "Argument --rule: invalid value 'links'"),
    (["--analyze=on", "--output={folder}"], "there is no PROF_* in"),
    (["--application=python 'x"], "Argument --application: python 'x: No closing quotation"),
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


def query(path, text):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def test_a_database_has_what_the_tables_have(recorded):
    folder, _ = recorded
    msprof("--export=on", f"--output={folder}", "--type=db")
    path, = folder.glob("PROF_*/msprof_*.db")
    assert re.fullmatch(r"msprof_\d{14}\.db", path.name)
    found = query(path, "SELECT kind.value, (endNs - startNs) / 1e3, deviceId, taskId FROM TASK JOIN STRING_IDS AS kind ON kind.id = taskType")
    rows = tables(folder)[0]["task_time"]
    assert len(found) == len(rows) == 5 and {kind for kind, *_ in found} == {"MEMCPY_ASYNC"}
    assert [length for _, length, *_ in found] == pytest.approx([float(row["task_time(us)"]) for row in rows], abs=0.001)
    calls = query(path, "SELECT value, COUNT(*), SUM(endNs - startNs) / 1e3, type.name FROM CANN_API JOIN STRING_IDS ON STRING_IDS.id = CANN_API.name "
                  "JOIN ENUM_API_TYPE AS type ON type.id = CANN_API.type GROUP BY value")
    told = {row["API Name"]: row for row in tables(folder)[0]["api_statistic"]}
    assert {name: (count, kind) for name, count, _, kind in calls} == {name: (int(row["Count"]), "acl") for name, row in told.items()}
    for name, _, total, _ in calls:
        assert total == pytest.approx(float(told[name]["Time(us)"]), abs=0.01)
    (begin, end), = query(path, "SELECT * FROM SESSION_TIME_INFO")
    assert query(path, f"SELECT MIN(startNs) > {begin}, MAX(endNs) < {end} FROM TASK") == [(1, 1)]
    assert query(path, "SELECT * FROM NPU_INFO") == [(0, "Ascend910B3")]


@pytest.mark.parametrize("options,expected", [
    (["--delay=1"], range(1, 20)), (["--duration=1"], range(1, 20)), (["--delay=1", "--duration=1"], range(1, 12)), ([], [20])])
def test_a_part_of_a_program(tmp_path, options, expected):
    """Of 20 rounds, one every 150 ms."""
    code = CLIENT + "import time\nfor _ in range(20):\n    work()\n    time.sleep(0.15)"
    msprof(f"--output={tmp_path}", *options, sys.executable, "-c", code)
    rounds = len([row for row in tables(tmp_path)[0]["task_time"] if row["kernel_name"] == "aclrtMemsetAsync"]) / 3
    assert min(expected) <= rounds <= max(expected)


def test_a_part_of_a_program_without_the_command(tmp_path):
    code = CLIENT + "import time\nfor _ in range(20):\n    work()\n    time.sleep(0.15)"
    subprocess.run([sys.executable, "-c", code], check=True, env={
        **os.environ, "SOFTCANN_PROF": str(tmp_path), "SOFTCANN_PROF_DELAY": "1", "SOFTCANN_PROF_DURATION": "1"})
    msprof("--export=on", f"--output={tmp_path}")
    assert 5 <= len(tables(tmp_path)[0]["task_time"]) <= 12 * 5
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, universal_newlines=True, env={
        **os.environ, "SOFTCANN_PROF": "/proc/nowhere", "SOFTCANN_PROF_DELAY": "1"})
    assert done.returncode == 0 and "a profile cannot be recorded to /proc/nowhere" in done.stderr


def test_a_fork_leaves_the_profile_of_its_parent_alone(tmp_path):
    code = CLIENT + """
import os
work()
child = os.fork()
if child == 0:
    code = acl.aclrtMemsetAsync(memory, size, 1, size, stream)
    os._exit(0 if code != 0 else 1)   # refused: a device does not outlive a fork
assert os.waitpid(child, 0)[1] == 0
work()
"""
    msprof(f"--output={tmp_path}", sys.executable, "-c", code)
    assert len(tables(tmp_path)[0]["task_time"]) == 10


def test_a_full_disk_leaves_what_there_was(tmp_path):
    """A file system of a megabyte, in a mount of the program's own."""
    code = CLIENT + "for _ in range(9000): work()"
    (tmp_path / "program.py").write_text(code)
    full = tmp_path / "full"
    full.mkdir()
    script = (f"mount -t tmpfs -o size=1m tmpfs {full} && SOFTCANN_PROF={full} {sys.executable} {tmp_path / 'program.py'}; status=$?; "
              f"cp -r {full}/PROF_* {tmp_path}; exit $status")
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0 and "the profile is not whole" in done.stderr and "No space left on device" in done.stderr, done.stderr
    msprof("--export=on", f"--output={tmp_path}")
    assert 1000 < len(tables(tmp_path)[0]["task_time"]) < 45000


RANKS = """
import sys
import torch, torch_npu
torch.distributed.init_process_group("hccl")
rank = torch.distributed.get_rank()
torch.npu.set_device(rank)
x = torch.ones(1000, device="npu")
for _ in range(3):
    torch.distributed.all_reduce(x)
gathered = torch.empty(2000, dtype=torch.float16, device="npu")
torch.distributed.all_gather_into_tensor(gathered, x.half())
torch.distributed.send(x, 1) if rank == 0 else torch.distributed.recv(x, 0)
torch.distributed.destroy_process_group()
"""


def test_collectives_of_two_ranks(tmp_path):
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(RANKS)
    msprof(f"--output={tmp_path}", "--hccl=on", "--analyze=on", sys.executable, "-m", "torch.distributed.run", "--standalone",
           "--nproc_per_node=2", program, SOFTCANN_DEVICE_COUNT="2", TORCH_NPU_RUNTIME="softcann", OMP_NUM_THREADS="1")
    msprof("--export=on", "--analyze=on", f"--output={tmp_path}", "--type=db")
    seen = set()
    for folder in tmp_path.glob("PROF_*"):
        info, = folder.glob("device_*/info.json.*")
        rank = json.loads(info.read_text())["rank_id"]
        assert info.parent.name == f"device_{rank}"
        seen.add(rank)
        times = json.loads((folder / "analyze" / "communication.json").read_text())
        total = times.pop("Total Op Info")["Communication Bandwidth Info"]["SDMA"]
        names = [name.partition("__")[0] for name in times]
        assert names.count("hcom_allReduce") >= 3 and "hcom_allGather" in names
        size = {name.partition("__")[0]: told["Communication Bandwidth Info"]["SDMA"]["Transit Size(MB)"] for name, told in times.items()}
        elapsed = [told["Communication Time Info"]["Elapse Time(ms)"] for told in times.values()]
        assert total["Transit Time(ms)"] == pytest.approx(sum(elapsed)) and min(elapsed) > 0
        # Half precision, of both ranks; the other all_reduce may be torch's own, of another size.
        assert size["hcom_allGather"] == 2 * 2000 / 1e6
        assert size["hcom_send" if rank == 0 else "hcom_receive"] == 4 * 1000 / 1e6
        matrix = json.loads((folder / "analyze" / "communication_matrix.json").read_text())
        sent = [links[f"{rank}-{1 - rank}"]["Transit Size(MB)"] for name, links in matrix.items() if name.startswith("hcom_allReduce")]
        assert sent.count(4 * 1000 / 1e6) == 3
        timeline = json.loads(next(folder.glob("mindstudio_profiler_output/msprof_*.json")).read_text())
        tracks = {event["args"]["name"]: event["pid"] for event in timeline if event["name"] == "process_name"}
        shown = [event for event in timeline if event.get("pid") == tracks[f"Communication (NPU {rank})"] and event["ph"] == "X"]
        assert len(shown) == len(times)
        spans = [event for event in timeline if event.get("pid") == tracks[f"Overlap Analysis (NPU {rank})"] and event["ph"] == "X"]
        parts = {name: sum(event["dur"] for event in spans if event["name"] == name) for name in
                 ("Computing", "Communication(Not Overlapped)", "Free")}
        first, last = min(float(event["ts"]) for event in spans), max(float(event["ts"]) + event["dur"] for event in spans)
        assert sum(parts.values()) == pytest.approx(last - first, abs=0.5) and all(parts.values())
        path, = folder.glob("msprof_*.db")
        assert len(query(path, "SELECT * FROM COMMUNICATION_OP")) == len(shown)
        analysis = folder / "analyze" / "communication_analyzer.db"
        found = query(analysis, "SELECT hccl_op_name || '@' || group_name, elapse_time FROM CommAnalyzerTime ORDER BY start_timestamp")
        assert found == list(zip(times, elapsed))
        assert query(analysis, "SELECT SUM(transit_size) FROM CommAnalyzerBandwidth")[0][0] == pytest.approx(total["Transit Size(MB)"])
        assert {tuple(map(int, row)) for row in query(analysis, "SELECT src_rank, dst_rank FROM CommAnalyzerMatrix")} == {
            (rank, 0), (rank, 1)}
        assert query(path, "SELECT rankId, deviceId FROM RANK_DEVICE_MAP") == [(rank, rank)]
        assert query(path, "SELECT count, type.name FROM COMMUNICATION_OP JOIN STRING_IDS AS kind ON kind.id = opType "
                     "JOIN ENUM_HCCL_DATA_TYPE AS type ON type.id = dataType WHERE kind.value = 'hcom_allGather_'") == [(2000, "FLOAT16")]
    assert seen == {0, 1}


def test_marks_of_mstx_have_the_times_of_their_stream_and_a_domain(tmp_path):
    code = CLIENT + f"""
tx = ctypes.CDLL({str(LIBRARIES / "libms_tools_ext.so")!r})
tx.mstxDomainCreateA.restype, tx.mstxRangeStartA.restype = ctypes.c_void_p, ctypes.c_uint64
tx.mstxMarkA(b"plain", None)
whole = ctypes.c_uint64(tx.mstxRangeStartA(b"whole", stream))
work()
tx.mstxRangeEnd(whole)
tx.mstxDomainMarkA(ctypes.c_void_p(tx.mstxDomainCreateA(b"data")), b"loaded", None)
assert acl.aclrtSynchronizeStream(stream) == 0
"""
    msprof(f"--output={tmp_path}", "--msproftx=on", sys.executable, "-c", code)
    found = tables(tmp_path)[0]
    rows = {row["message"]: row for row in found["msprof_tx"]}
    assert {name: row["domain"] for name, row in rows.items()} == {"plain": "default", "whole": "default", "loaded": "data"}
    assert rows["plain"]["Device Start_time(us)"] == "N/A" and rows["whole"]["event_type"] == "start_end"
    begin, end = (float(rows["whole"][f"Device {what}_time(us)"]) for what in ("Start", "End"))
    for task in found["task_time"]:
        assert begin <= float(task["task_start(us)"]) <= float(task["task_stop(us)"]) <= end
    for option, expected in (("--mstx-domain-include=data", {"loaded"}), ("--mstx-domain-exclude=data", {"plain", "whole"})):
        subprocess.run(["rm", "-r", str(next(tmp_path.glob("PROF_*")) / "mindstudio_profiler_output")], check=True)
        msprof("--export=on", f"--output={tmp_path}", "--msproftx=on", option)
        assert {row["message"] for row in tables(tmp_path)[0]["msprof_tx"]} == expected
    assert "not together" in msprof("--export=on", "--mstx-domain-include=a", "--mstx-domain-exclude=b", check=False).stdout


def test_who_polls_sees_a_table_before_the_export_ends(tmp_path):
    """As the published profiler does, every 0.1 s; it reads the timeline at its first sight of a table."""
    msprof(f"--output={tmp_path}", sys.executable, "-c", CLIENT + "work()")
    profile, = tmp_path.glob("PROF_*")
    output = profile / "mindstudio_profiler_output"
    for file in output.iterdir():
        file.unlink()
    export = subprocess.Popen([sys.executable, str(ROOT / "bin" / "msprof"), "--export=on", f"--output={tmp_path}"])
    while export.poll() is None and not list(output.glob("*.csv")):
        time.sleep(0.1)
    seen = {path.suffix for path in output.iterdir()}
    assert export.poll() is None, "ended within a look of the first table"
    assert ".json" in seen
    assert export.wait(60) == 0
