"""Profiles that cannot be written, programs that are killed, two profilers, forks: a clear error, or what there is."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from torch_npu import profiler
from torch_npu.profiler import dynamic_profile, report

pytestmark = pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")


def work():
    x = torch.ones(64, 64, device="npu")
    return (x @ x).sum().item()


def products(profiled):
    return sum(event.count for event in profiled.key_averages() if event.key == "aten::mm")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "file"))):
            work()
    with profiler.profile() as profiled:  # the next one is whole
        work()
    assert products(profiled) == 1


SCRIPT = """
import sys, torch
from torch_npu import profiler
x = torch.ones(64, 64, device="npu")
with profiler.profile(record_shapes=True, with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(sys.argv[1])):
    for _ in range(2000):
        (x @ x).sum()
    torch.npu.synchronize()
"""


def test_a_full_disk_is_an_error(tmp_path):
    """A file system of a megabyte, in a mount of the program's own."""
    full, program = tmp_path / "full", tmp_path / "program.py"
    full.mkdir()
    program.write_text(SCRIPT)
    command = f"mount -t tmpfs -o size=1m tmpfs {full} && {sys.executable} {program} {full}; status=$?; cp -r {full}/. {tmp_path}/kept; exit $status"
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr or "is no whole trace; was the disk full" in done.stderr, done.stderr
    folder, = (tmp_path / "kept").glob("*_ascend_pt")
    page = report.write(str(folder), str(tmp_path / "page.html"))
    assert "was not analysed" in open(page).read() or "cannot be read" in open(page).read()


def test_a_killed_program_leaves_the_profiles_before(tmp_path):
    code = """
import sys, torch
from torch_npu import profiler
x = torch.ones(64, 64, device="npu")
with profiler.profile(schedule=profiler.schedule(0, 1, 0, repeat=0), on_trace_ready=profiler.tensorboard_trace_handler(sys.argv[1])) as profiled:
    while True:
        (x @ x).sum().item()
        profiled.step()
"""
    program = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while len(os.listdir(tmp_path)) < 4:
            assert time.monotonic() < deadline and program.poll() is None
            time.sleep(0.02)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    page = report.write(str(tmp_path), str(tmp_path / "page.html"))
    text = open(page).read()
    data = json.loads(text[text.index('id="data">') + len('id="data">'):text.index("</script>")])
    whole = [rank for rank in data["ranks"] if not rank["notes"]]
    assert len(whole) >= len(data["ranks"]) - 1 >= 3
    assert all("aclnnMm" in rank["names"] and rank["kernels"] for rank in whole)


def test_one_damaged_profile_does_not_keep_the_others(tmp_path):
    for name in ("first", "second"):
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), name, analyse_flag=False)):
            work()
    first, second = sorted(tmp_path.iterdir())
    trace = first / "FRAMEWORK" / "trace.json"
    trace.write_text(trace.read_text()[:1000])
    with pytest.warns(RuntimeWarning, match="1 of 2 profiles cannot be analysed:\n.*first_.* is no whole trace"):
        profiler.analyse(str(tmp_path))
    assert (second / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").exists() and trace.exists()


def test_a_second_profiler_is_refused_and_the_first_goes_on():
    with profiler.profile() as first:
        work()
        with pytest.raises(RuntimeError, match="running already"):
            with profiler.profile():
                work()
        work()
    with profiler.profile() as after:
        work()
    assert products(first) == 2 and products(after) == 1


def test_a_watched_file_does_not_stop_a_program_that_profiles_itself(tmp_path):
    watch = dynamic_profile._Watch()
    config = {**dynamic_profile._read(str(_configuration(tmp_path))), "prof_dir": str(tmp_path)}
    with profiler.profile() as own:
        watch.begin(config)
        assert watch.running is None
        work()
    assert products(own) == 1
    watch.begin(config)
    assert watch.running is not None
    watch.running.stop()


@pytest.mark.parametrize("setting", [{"warmup": "3"}, {"start_step": None}, {"activities": 5}, {"activities": ["GPU", 1]}, {"prof_dir": 7},
                                     {"active": 0}, {"active": True}, {"warmup": -1}, {"experimental_config": "x"}, {"rank_list": 0}])
def test_a_watched_file_with_a_wrong_setting_is_not_used(setting, tmp_path, caplog):
    path = _configuration(tmp_path)
    watch = dynamic_profile._Watch()
    watch.path = str(path)
    path.write_text(json.dumps(setting))
    watch.step()
    assert watch.running is None and f"is not used: {next(iter(setting))} " in caplog.text


def test_settings_of_a_watched_file_that_nobody_knows_are_left_out(tmp_path, caplog):
    path = _configuration(tmp_path)
    path.write_text(json.dumps({"of_tomorrow": 1, "experimental_config": {"mstx": True, "of_tomorrow": 1}}))
    assert dynamic_profile._read(str(path))["experimental_config"]["mstx"] is True and "has no of_tomorrow" in caplog.text


def _configuration(folder):
    dynamic_profile.init(str(folder))
    dynamic_profile._watch = dynamic_profile._Watch()
    return folder / "profiler_config.json"


def test_a_fork_leaves_the_profile_of_its_parent_alone(python):
    result = python("""
import os, torch
from torch_npu import profiler
x = torch.ones(8, 8, device="npu")
with profiler.profile() as profiled:
    x @ x
    child = os.fork()
    if child == 0:
        torch.ones(3).sin()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    x @ x
print(sum(event.count for event in profiled.key_averages() if event.key == "aten::mm"),
      sum(event.count for event in profiled.key_averages() if event.key == "aten::sin"))
""")
    assert result.returncode == 0 and result.stdout.split()[-2:] == ["2", "0"], result.stderr
