"""msprof --dynamic=on: programs that are recorded while they run."""
import csv
import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest
from msprof_client import API, CLIENT, ROOT, msprof, tables

FOREVER = CLIENT + "import time\nprint('ready', flush=True)\nwhile True:\n    work()\n    time.sleep(0.01)"


@pytest.fixture
def running():
    program = subprocess.Popen([sys.executable, "-c", FOREVER], stdout=subprocess.PIPE, universal_newlines=True,
                               env={**os.environ, "PROFILING_MODE": "dynamic"})
    assert program.stdout.readline() == "ready\n"
    yield program
    program.kill()
    program.wait()
    program.stdout.close()


class Dialogue:
    """msprof --dynamic=on, which is given commands."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, str(ROOT / "bin" / "msprof"), "--dynamic=on", *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = ""

    def until(self, mark):
        while mark not in self.said:
            assert select.select([self.process.stdout], [], [], 60)[0], f"nothing follows {self.said!r}"
            part = os.read(self.process.stdout.fileno(), 4096)
            assert part, self.said
            self.said += part.decode()
        said, self.said = self.said, ""
        return said

    def tell(self, command, mark):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        return self.until(mark)

    def end(self, command="quit"):
        said, _ = self.process.communicate(command.encode() + b"\n", timeout=60)
        return self.process.returncode, self.said + said.decode()


def test_attaching_to_a_program_that_runs(running, tmp_path):
    dialogue = Dialogue(f"--pid={running.pid}", f"--output={tmp_path}")
    dialogue.until("> ")
    assert "stop: done" not in dialogue.tell("stop", "start comes first")
    for _ in range(2):
        dialogue.tell("start", "start: done")
        dialogue.tell("start", "is being recorded already")
        time.sleep(0.3)
        dialogue.tell("stop", "stop: done")
    dialogue.tell("pause", "expected start, stop or quit")
    status, said = dialogue.end()
    assert status == 0 and "Process profiling data complete" in said and running.poll() is None
    folders = sorted(tmp_path.glob("PROF_*"))
    assert len(folders) == 2
    for folder in folders:
        made, = folder.glob("mindstudio_profiler_output/task_time_*.csv")
        with open(made, newline="") as file:
            assert {row["kernel_name"] for row in csv.DictReader(file)} == {"aclrtMemsetAsync", "aclrtMemcpyAsync"}
        info = json.loads((folder / "host" / "info.json").read_text())
        assert info["pid"] == running.pid and info["end_ns"] - info["begin_ns"] > 3e8


def test_what_was_started_ends_with_msprof(running, tmp_path):
    dialogue = Dialogue(f"--pid={running.pid}", f"--output={tmp_path}")
    dialogue.tell("start", "start: done")
    dialogue.process.send_signal(signal.SIGKILL)
    dialogue.process.communicate()
    folder, = tmp_path.glob("PROF_*")
    deadline = time.monotonic() + 20
    while json.loads((folder / "host" / "info.json").read_text())["end_ns"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    again = Dialogue(f"--pid={running.pid}", f"--output={tmp_path}")
    again.tell("start", "start: done")
    assert again.end()[0] == 0


def test_a_program_that_is_started_for_it(tmp_path):
    dialogue = Dialogue(f"--output={tmp_path}", sys.executable, "-c", FOREVER)
    dialogue.until("ready\n")
    dialogue.tell("start", "start: done")
    time.sleep(0.2)
    dialogue.tell("stop", "stop: done")
    folder, = tmp_path.glob("PROF_*")
    os.kill(json.loads((folder / "host" / "info.json").read_text())["pid"], signal.SIGKILL)
    said, _ = dialogue.process.communicate(timeout=60)
    assert dialogue.process.returncode != 0 and b"Export all data" in said


def test_a_program_that_cannot_be_attached_to(running, tmp_path):
    dialogue = Dialogue(f"--pid={os.getpid()}", f"--output={tmp_path}")
    said = dialogue.tell("start", str(running.pid))
    assert f"process {os.getpid()} cannot be attached to" in said and "PROFILING_MODE=dynamic" in said
    status, said = dialogue.end()
    assert status == 1 and "no profile was started" in said


def test_a_program_may_record_itself_meanwhile(tmp_path):
    """Two collectors: the second is refused, and the first one's profile is whole."""
    code = """
import sys
folder = sys.argv[1].encode()
assert prof.aclprofInit(folder, ctypes.c_size_t(len(folder))) == 0
print(prof.aclprofStart(config()))
work()
"""
    result = msprof(f"--output={tmp_path}", sys.executable, "-c", CLIENT + API + code, tmp_path)
    assert "\n100042\n" in result.stdout
    assert len(tables(tmp_path)[0]["task_time"]) == 5
