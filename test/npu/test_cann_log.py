"""CANN's log: what ASCEND_GLOBAL_LOG_LEVEL, ASCEND_SLOG_PRINT_TO_STDOUT and ASCEND_PROCESS_LOG_PATH make softcann write, and where."""
import re

PROGRAM = """
import torch
x = torch.ones(3, device="npu")
torch.npu.Stream()
for _ in range(2):
    x * 2
try:
    torch.empty(1 << 50, dtype=torch.int8, device="npu")
except torch.OutOfMemoryError:
    print("too much")
"""
# [LEVEL] MODULE(pid,program):time [file:line]thread text
LINE = re.compile(r"^\[(DEBUG|INFO|WARNING|ERROR)\] (\w+)\((\d+),[^)]+\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} "
                  r"\[([\w.]+):\d+\]\d+ (.*)$")
SILENT = {"ASCEND_GLOBAL_LOG_LEVEL": None, "ASCEND_SLOG_PRINT_TO_STDOUT": None, "ASCEND_PROCESS_LOG_PATH": None}


def lines(text):
    found = [LINE.match(line) for line in text.splitlines()]
    return [match.groups() for match in found if match]


def test_without_options_nothing_is_written(python):
    run = python(PROGRAM, **SILENT)
    assert (run.stdout, run.stderr) == ("too much\n", "")


def test_level_0_tells_devices_streams_operators_and_errors(python):
    run = python(PROGRAM, **{**SILENT, "ASCEND_GLOBAL_LOG_LEVEL": 0})
    assert run.stdout == "too much\n"
    written = lines(run.stderr)
    assert len(written) == len(run.stderr.splitlines()) > 4, run.stderr
    assert len({pid for _, _, pid, _, _ in written}) == 1
    texts = [(level, module, text) for level, module, _, _, text in written]
    assert sum(level == "INFO" and "device 0 was opened: Ascend" in text for level, _, text in texts) == 1
    assert any(level == "INFO" and re.match(r"stream \d+ of device 0 was created", text) for level, _, text in texts)
    assert texts.count(("INFO", "OP", "first use of aclnnMuls")) == 1, texts
    assert any((level, module) == ("ERROR", "RUNTIME") and "code 207001" in text for level, module, text in texts), texts


def test_level_3_on_stdout_has_the_errors_alone(python):
    run = python(PROGRAM, **{**SILENT, "ASCEND_SLOG_PRINT_TO_STDOUT": 1})
    assert run.stderr == ""
    assert {level for level, *_ in lines(run.stdout)} == {"ERROR"}


def test_a_folder_takes_a_file_for_each_process(python, tmp_path):
    run = python(PROGRAM, **{**SILENT, "ASCEND_GLOBAL_LOG_LEVEL": 1, "ASCEND_PROCESS_LOG_PATH": tmp_path})
    assert (run.stdout, run.stderr) == ("too much\n", "")
    file, = tmp_path.glob("debug/plog/plog-*.log")
    assert {pid for _, _, pid, _, _ in lines(file.read_text())} == {file.stem.partition("-")[2]}


GROUP = """
import torch
import torch.distributed as dist
dist.init_process_group("hccl", init_method="file://STORE", rank=0, world_size=1)
x = torch.ones(3, device="npu")
dist.all_reduce(x)
torch.npu.synchronize()
dist.destroy_process_group()
"""


def test_modules_have_levels_of_their_own(python, tmp_path):
    run = python(GROUP.replace("STORE", f"{tmp_path}/one"), **{**SILENT, "ASCEND_MODULE_LOG_LEVEL": "HCCL=1:NOBODY=0:OP=x"})
    written = lines(run.stderr)
    assert {(level, module) for level, module, *_ in written} == {("INFO", "HCCL")}, run.stderr
    assert any(re.search(r"communicator \S+ was made: rank 0 of 1, device 0", text) for *_, text in written)
    quiet = python(GROUP.replace("STORE", f"{tmp_path}/two"),
                   **{**SILENT, "ASCEND_GLOBAL_LOG_LEVEL": 1, "ASCEND_MODULE_LOG_LEVEL": "RUNTIME=4:OP=4"})
    assert {module for _, module, *_ in lines(quiet.stderr)} == {"HCCL"}, quiet.stderr
