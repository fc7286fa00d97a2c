"""The JSON file of acl.init (aclInit): what is served, and codes and texts for what is wrong. Dumps have their own test."""
import json

import pytest
from acl_tools import run_program

INVALID_FILE, PARSE_FILE, PARAM, PROFILING, QUEUE = 100003, 100006, 100000, 100010, 148048
INIT = """
import sys
import acl
ret = acl.init(sys.argv[1])
print(ret, acl.get_recent_err_msg())
"""
ERRORS = """
import sys, threading
import acl
assert acl.init(sys.argv[1]) == 0
def fail():
    acl.rt.set_device(99)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
print(acl.get_recent_err_msg())
print(acl.get_recent_err_msg())   # told once
"""
DEVICE = """
import sys
import acl
assert acl.init(sys.argv[1]) == 0
print(acl.rt.get_device())
"""
PROFILE = """
import sys
import acl
assert acl.init(sys.argv[1]) == 0, acl.get_recent_err_msg()
assert acl.rt.set_device(0) == 0
place, ret = acl.rt.malloc(64, 0)
stream, ret = acl.rt.create_stream()
assert acl.rt.memset_async(place, 64, 0, 64, stream) == 0 and acl.rt.synchronize_stream(stream) == 0
print(acl.finalize())
"""
SCENE_AGAIN = """
import glob, json, sys
import acl
assert acl.init(sys.argv[1]) == 0, acl.get_recent_err_msg()
acl.rt.set_device(0)
lib, room = __import__("ctypes"), None
lib, room = lib.CDLL("libascendcl.so"), lib.create_string_buffer(4096)
size = __import__("ctypes").c_size_t(4096)
def watches():
    return lib.acldumpGetExceptionInfoPath(room, size)
seen = [watches()]
assert acl.mdl.init_dump() == 0, acl.get_recent_err_msg()
json.dump({"dump": {"dump_path": "asked", "dump_mode": "all", "dump_op_switch": "on"}}, open("dump.json", "w"))
for _ in range(2):
    assert acl.mdl.set_dump("dump.json") == 0, acl.get_recent_err_msg()
    seen.append(watches())
json.dump({"dump": {"dump_path": "/proc/nowhere", "dump_mode": "all"}}, open("dump.json", "w"))
assert acl.mdl.set_dump("dump.json") != 0
seen.append(watches())
assert acl.mdl.finalize_dump() == 0
seen.append(watches())
assert acl.finalize() == 0
seen.append(watches())
print(seen)
"""
SCENE = """
import json, os, sys
import acl
assert acl.init(sys.argv[1]) == 0, acl.get_recent_err_msg()
acl.rt.set_device(0)
place, ret = acl.rt.malloc(64, 0)
print(sorted(os.listdir(".")))                       # nothing failed, so nothing is written
assert acl.mdl.init_dump() == 0, acl.get_recent_err_msg()   # takes the place of what waits for failures
json.dump({"dump": {"dump_path": "asked", "dump_mode": "all", "dump_op_switch": "on"}}, open("dump.json", "w"))
assert acl.mdl.set_dump("dump.json") == 0, acl.get_recent_err_msg()
assert acl.mdl.finalize_dump() == 0
print(sorted(os.listdir(".")), acl.finalize())
"""


def run(folder, program, content, *words):
    (folder / "acl.json").write_text(content if isinstance(content, str) else json.dumps(content))
    done = run_program(folder, "-c", program, folder / "acl.json", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("content", [
    {}, {"max_opqueue_num": "10000", "err_msg_mode": "0", "StackSize": {"aicore_stack_size": 32768}, "acl_graph": {"event_mode": "1"},
         "simd_printf_fifo_size_per_core": 1048576, "defaultDevice": {"default_device": "0"}}, {"profiler": {"switch": "off"}},
    {"of_a_later_cann": 1}])
def test_what_is_taken(acl, tmp_path, content):
    assert run(tmp_path, INIT, content).split()[0] == "0"


@pytest.mark.parametrize("content, code, says", [
    ("{", PARSE_FILE, ""), ({"max_opqueue_num": "none"}, QUEUE, "whole number"), ({"max_opqueue_num": 0}, QUEUE, "not above 0"),
    ({"err_msg_mode": "2"}, PARAM, "neither 0"), ({"defaultDevice": {"default_device": "7"}}, PARAM, "device 7 does not exist"),
    ({"defaultDevice": 0}, PARAM, "default_device"), ({"profiler": {"switch": "yes"}}, PROFILING, "on or off"),
    ({"profiler": {"switch": "on", "nothing": "on"}}, PROFILING, "'nothing' is not known"), ({"profiler": []}, PROFILING, "object"),
    ({"acl_graph": {"event_mode": 3}}, PARAM, "event_mode"), ({"simd_printf_fifo_size_per_core": 3}, PARAM, "1024"),
    ({"StackSize": {}}, PARAM, "aicore_stack_size")])
def test_what_is_wrong_has_a_code(acl, tmp_path, content, code, says):
    ret, _, text = run(tmp_path, INIT, content).partition(" ")
    assert int(ret) == code and text.startswith("aclInit: ") and says in text, text


def test_a_file_that_is_not_there(acl, tmp_path):
    done = run_program(tmp_path, "-c", INIT, tmp_path / "none.json")
    assert done.stdout.startswith(f"{INVALID_FILE} aclInit: ") and "none.json" in done.stdout


@pytest.mark.parametrize("mode, told", [("0", False), ("1", True)])
def test_whose_errors_are_told(acl, tmp_path, mode, told):
    first, second = run(tmp_path, ERRORS, {"err_msg_mode": mode}).split("\n")[:2]
    assert ("device 99" in first) == told and "device 99" not in second


def test_the_default_device(acl, tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTCANN_DEVICE_COUNT", "2")
    assert run(tmp_path, DEVICE, {"defaultDevice": {"default_device": "1"}}).strip() == "(1, 0)"
    assert run(tmp_path, DEVICE, {}).strip() != "(1, 0)"


def test_a_profile(acl, tmp_path):
    (tmp_path / "out").mkdir()
    config = {"profiler": {"switch": "on", "output": str(tmp_path / "out"), "ascendcl": "on", "task_time": "on", "aic_metrics": "PipeUtilization"}}
    assert run(tmp_path, PROFILE, config).strip() == "0"
    folder, = (tmp_path / "out").glob("PROF_*")
    tasks = (folder / "device_0/data/softcann.tasks").read_text()
    calls = (folder / "host/data/softcann.calls").read_text()
    assert "emset" in tasks and "aclrtMalloc" in calls and "aclFinalize" not in calls.split("aclrtMalloc")[0]


def test_a_dump_of_failures_costs_nothing_and_makes_place_for_another(tmp_path):
    """The published torch_npu asks for it in each process."""
    assert run(tmp_path, SCENE, {"dump": {"dump_scene": "lite_exception"}}) == "['acl.json']\n['acl.json', 'asked', 'dump.json'] 0\n"


def test_a_dump_of_failures_goes_on_after_another(tmp_path):
    assert run(tmp_path, SCENE_AGAIN, {"dump": {"dump_scene": "lite_exception"}}) == "[0, 500001, 500001, 0, 0, 500001]\n"
