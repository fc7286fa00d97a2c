"""npu-smi and libdcmi on softcann: what all processes of the machine tell of their devices, and Ascend's layouts."""
import ast
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
# Each question in a process of its own: the library reads the environment once.
ASK = f"""
import ctypes, sys
sys.path.insert(0, {str(ROOT / "third_party" / "softcann" / "python")!r})
from softcann import dcmi
driver = dcmi.Dcmi({str(LIBRARIES / "libdcmi.so")!r})
"""

# Holds memory of the devices named on the command line and does what it is told: each line of stdin is Python.
CLIENT = f"""
import ctypes, os, sys
acl = ctypes.CDLL({str(LIBRARIES / "libascendcl.so")!r})
assert acl.aclInit(None) == 0
for device in map(int, sys.argv[2:]):
    assert acl.aclrtSetDevice(device) == 0
    memory = ctypes.c_void_p()
    assert acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]) << 20), 0) == 0
def work():
    assert acl.aclrtMemsetAsync(memory, ctypes.c_size_t(int(sys.argv[1]) << 20), 1, ctypes.c_size_t(int(sys.argv[1]) << 20), None) == 0
    assert acl.aclrtSynchronizeStream(None) == 0
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTCANN_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SOFTCANN_DEVICE_COUNT", "2")
    monkeypatch.setenv("SOFTCANN_MEMORY", "1G")
    processes = []

    def start(*arguments, **environment):
        process = subprocess.Popen([sys.executable, "-c", CLIENT, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   universal_newlines=True, env={**os.environ, **environment})
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    start.folder = tmp_path / f"softcann-{os.geteuid()}"
    yield start
    for process in processes:
        process.kill()
        process.wait()


def smi(*arguments, check=True, **environment):
    # Through the file of torch_npu's wheel, which finds this tree.
    return subprocess.run([sys.executable, str(ROOT / "bin" / "npu-smi"), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, check=check, env={**os.environ, **environment}).stdout


def ask(expression, before=""):
    """The value of an expression, with `driver`, a client of libdcmi."""
    code = f"{ASK}\n{before}\nprint(repr(({expression})))"
    return ast.literal_eval(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout)


def tell(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


IDLE = """\
+------------------------------------------------------------------------------------------------+
| npu-smi VERSION                  Version: VERSION                                              |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | NA          NA                0    / 0             |
| 0                         | NA            | 0           0    / 0          0    / 1024          |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""


def test_the_table_of_an_idle_machine(machine):
    version = smi("-v").split()[-1]
    expected = IDLE.splitlines()
    expected[1] = f"| {f'npu-smi {version}':<33}{f'Version: {version}':<62}|"
    assert smi("info", SOFTCANN_DEVICE_COUNT="1").splitlines() == expected
    assert {len(line) for line in expected} == {98}


def test_processes_and_their_memory_are_shown(machine):
    one, two = machine(64, 0, 1), machine(32, 1)
    text = smi("info")
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines() if re.search(r"\| +\d+ +\| \S+ +\| \d+ +\|$", line)]
    name = pathlib.Path(f"/proc/{one.pid}/comm").read_text().strip()
    assert [(place.split()[0], pid, shown, held) for place, pid, shown, held in rows] == [
        ("0", str(one.pid), name, "64"), *sorted([("1", str(one.pid), name, "64"), ("1", str(two.pid), name, "32")])]
    assert re.findall(r"(\d+) +/ 1024 ", text) == ["64", "96"]
    assert re.search(r"HBM Usage Rate\(%\)\s+: (\d+)", smi("info", "-t", "usages", "-i", 1))[1] == "9"
    assert f"Process id:{two.pid}  Process name:{name}        Process memory(MB):32\n" in smi("info", "-t", "proc-mem", "-i", 1)
    assert oct((machine.folder / str(one.pid)).stat().st_mode & 0o777) == "0o600"


def test_memory_that_is_given_back_is_not_counted(machine):
    process = machine(64, 0)
    tell(process, "acl.aclrtFree(memory)")
    assert re.search(r"Process memory\(MB\):(\d+)", smi("info", "-t", "proc-mem", "-i", 0))[1] == "0"


@pytest.mark.parametrize("ending", ["killed", "ended", "killed with a child that it forked"])
def test_a_process_that_is_gone_leaves_nothing(machine, ending):
    process = machine(8, 0)
    if "forked" in ending:
        tell(process, "child = os.fork() or (os.close(1), sys.stdin.close(), __import__('signal').pause())")
        child = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    assert (machine.folder / str(process.pid)).exists()
    if ending == "ended":
        process.stdin.close()
    else:
        process.kill()
    process.wait()
    try:
        assert "No process in device." in smi("info", "-t", "proc-mem", "-i", 0)
        assert list(machine.folder.iterdir()) == []
    finally:
        if "forked" in ending:
            os.kill(child, signal.SIGKILL)


def test_load_is_the_time_that_streams_compute(machine):
    process = machine(64, 0)
    assert ask("driver.utilization(0, 0, dcmi.AICORE)") == 0
    process.stdin.write("while True: work()\n")
    process.stdin.flush()
    # As soon as it has begun, the one device is busy and the other is not.
    busy, idle = ask("busy, driver.utilization(1, 0, dcmi.AICORE)",
                     "busy = 0\nwhile busy == 0: busy = driver.utilization(0, 0, dcmi.AICORE)")
    assert 0 < busy <= 100 and idle == 0
    process.kill()
    process.wait()
    assert "Aicore Usage Rate(%)           : 0\n" in smi("info", "-t", "usages", "-i", 0)


def test_what_is_not_known_is_not_invented(machine):
    assert ask("driver.temperature(0, 0), driver.power(0, 0), driver.bus(0, 0), driver.clock(0, 0, dcmi.AICORE_CLOCK), "
               "driver.utilization(0, 0, dcmi.AICPU)") == (None,) * 5
    common = dict(re.findall(r"\t(.+?) +: (.*)", smi("info", "-t", "common", "-i", 0)))
    assert [key for key, value in common.items() if value == "NA"] == [
        "Memory Usage Rate(%)", "Aicore Freq(MHZ)", "Aicore curFreq(MHZ)", "Temperature(C)", "NPU Real-time Power(W)"]
    assert ask("code", "try: driver.memory(7, 0)\nexcept dcmi.DcmiError as error: code = error.code") == -8007


@pytest.mark.parametrize("soc,second_row", [
    ("Ascend310P3", "| 0       0         | NA              | 0            0    / 1024                             |"),
    ("Ascend910_9382", "| 0     0                   | NA            | 0           0    / 0          0    / 1024          |"),
    ("Ascend950PR_9599", "|        |                  | NA            | 0           0    / 0          0    / 1024           |")])
def test_each_family_has_its_layout(machine, soc, second_row):
    lines = smi("info", SOFTCANN_SOC=soc).splitlines()
    assert second_row in lines
    assert len({len(line) for line in lines}) == 1


def test_the_list_and_the_map(machine):
    assert smi("info", "-l").startswith("\tTotal Count                    : 2\n\n\tNPU ID                         : 0\n")
    assert smi("info", "-m").splitlines() == [
        "\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name",
        "\t0                              0                              0                              Ascend 910B3",
        "\t1                              0                              1                              Ascend 910B3"]
    assert re.search(r"NPU1 +NA +X +\d", smi("info", "-t", "topo"))


def test_numbers_and_counts_that_hardware_has(machine):
    assert smi("info", "-t", "phyid-remap", "-p", 1).splitlines() == [
        "\tChip Physical ID               : 1", "\tChip Logic ID                  : 1", "\tNPU ID                         : 1",
        "\tChip ID                        : 0"]
    counts = smi("info", "-t", "ecc", "-i", 0).splitlines()
    assert counts[0].split() == ["NPU", "ID", ":", "0"] and "\tHBM Single Bit Error Count               : NA" in counts


def test_watch_writes_a_line_for_each_chip_until_it_is_interrupted(machine):
    process = subprocess.Popen([sys.executable, str(ROOT / "bin" / "npu-smi"), "info", "watch", "-i", "1", "-d", "0.01", "-s", "am"],
                               stdout=subprocess.PIPE, universal_newlines=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))   # ignored in a job of the shell's
    assert process.stdout.readline() == "NpuID(Idx)  ChipId(Idx) AI Core(%)  Memory(%)\n"
    assert {process.stdout.readline() for _ in range(3)} == {"1           0           0           0\n"}
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


@pytest.mark.parametrize("arguments,text", [
    (["info", "-t", "usages", "-i", "5"], "there is no NPU 5; there are 0, 1"),
    (["info", "-t", "usages"], "-t usages needs -i"),
    (["info", "-t", "phyid-remap"], "needs -p"),
    (["info", "-t", "phyid-remap", "-p", "7"], "no chip has the physical number 7; they have 0, 1"),
    (["info", "watch", "-d", "-1"], "-1: seconds from 0 to 86400"), (["info", "watch", "-d", "nan"], "nan: seconds from 0"),
    (["info", "watch", "-s", "pz"], "-s pz: z is none of ptaicmbn"),
    (["info", "-t", "voltage"], "invalid choice: 'voltage'"),
    (["set", "-t", "ecc"], "invalid choice: 'set'"),
    ([], "a command is expected")])
def test_what_cannot_be_shown_is_refused(machine, arguments, text):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        smi(*arguments)
    assert text in refused.value.output


def test_a_wrong_setting_is_told(machine):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        smi("info", SOFTCANN_DEVICE_COUNT="many")
    assert "dcmi model initialized failed" in refused.value.output


def test_a_folder_of_somebody_else_is_not_used(machine):
    machine.folder.mkdir(mode=0o777)
    machine.folder.chmod(0o777)   # anybody could put files there
    process = machine(8, 0)
    assert list(machine.folder.iterdir()) == []
    tell(process, "work()")


def test_the_driver_names_processors_and_places(machine):
    assert ask("driver.place_of(1), driver.logic_id(1, 0), driver.physical_id(1)") == ((1, 0), 1, 1)
    assert ask("tuple(driver.chip(0, 0))") == ("Ascend", "910B3", "softcann", 20)
    assert int(re.split("[-,]", ask("driver.processors(0, 0)"))[0]) == min(os.sched_getaffinity(0))
