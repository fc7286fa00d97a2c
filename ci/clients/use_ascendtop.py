"""ascendtop and nputop, monitors for the terminal, beside a process that holds memory of two devices."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

from harness import case, main, run

import torch_npu.softcann

HELD = 64 << 20
HOLD = f"""
import sys, torch, torch_npu
held = [torch.empty({HELD}, dtype=torch.uint8, device=f"npu:{{i}}") for i in range(2)]
print("ready", flush=True)
sys.stdin.read()
"""


def monitored(*command: str) -> tuple[int, str]:
    """The process, and what a command tells of the machine while it holds its memory."""
    environment = {**os.environ, "SOFTCANN_DEVICE_COUNT": "2"}
    holder = subprocess.Popen([sys.executable, "-c", HOLD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        wanted = {name: value for name, value in torch_npu.softcann.environment().items() if value is not None}
        programs = Path(__file__).parents[2] / "bin"   # npu-smi, which the wheel installs
        os.environ["PATH"] += f"{os.pathsep}{programs}"
        return holder.pid, run(*command, devices=2, **wanted)
    finally:
        holder.communicate()


@functools.cache
def snapshot(backend: str) -> tuple[int, str]:
    return monitored("ascendtop", "--once", "--no-color", "--backend", backend)


def rows_of(pid: int, text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(rf"\b{pid}\b", line)]


@case("`ascendtop --once` by libdcmi: devices, their memory, the process on both")
def dcmi() -> None:
    pid, told = snapshot("dcmi")
    assert "Ascend" in told or "910B3" in told, told
    assert len(rows_of(pid, told)) == 2, told


@case("the same by npu-smi, with the memory of the process as npu-smi tells it")
def npu_smi() -> None:
    pid, told = snapshot("npu-smi")
    rows = rows_of(pid, told)
    assert len(rows) == 2, told
    for row in rows:
        memory, = re.findall(r"(\d+)MiB", row)[:1]
        assert HELD >> 20 <= int(memory) <= (HELD >> 20) + 64, row


@case("`nputop --once` of ascend-nputop: both devices and the process on them")
def nputop() -> None:
    pid, told = monitored("nputop", "--once")
    assert told.count("910B3") >= 2 and len(rows_of(pid, told)) == 2, told


if __name__ == "__main__":
    main("ascendtop", "ascend-nputop")
