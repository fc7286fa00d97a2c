"""Runs programs for CUDA, unmodified, by TORCH_TRANSFER_TO_NPU=1: losses must be on the NPU, no operator on the CPU.

EXAMPLES names the folder with their trees; ci/clients.sh clones them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from harness import run

TREES = Path(os.environ.get("EXAMPLES", "."))
# Runs the program in its folder, then tells where its losses were. With STEPS it ends after so many backward passes.
WATCH = """
import os, runpy, sys, torch
seen = []
class Enough(Exception): pass
backward = torch.Tensor.backward
def watch(self, *arguments, **options):
    seen.append(self.device.type)
    backward(self, *arguments, **options)
    if len(seen) == int(os.environ.get("STEPS", 0)):
        raise Enough
torch.Tensor.backward = watch
sys.argv = sys.argv[1:]
sys.path.insert(0, ".")
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Enough:
    pass
import torch_npu
print("trained on", *sorted(set(seen)), "fell back:", *sorted(torch_npu.fallbacks()))
"""


def program(tree: str, folder: str, *command: str, steps: int = 0, **files: bytes) -> str:
    """Runs a program in a copy of its folder, with files beside it ("__" for "/", "_DOT_" for "."); what it printed."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place) / "copy" / Path(folder).name
        shutil.copytree(TREES / tree / folder, here)
        write(here, files)
        return watched(here, *command, steps=steps)


def write(here: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = here / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def watched(here: Path, *command: str, steps: int = 0) -> str:
    """Runs a program in the folder `here`; what it printed."""
    before = os.getcwd()
    os.chdir(here)
    try:
        said = run(sys.executable, "-c", WATCH, *command, TORCH_TRANSFER_TO_NPU="1", STEPS=str(steps))
    finally:
        os.chdir(before)
    assert "trained on npu fell back:\n" in said + "\n", said[-3000:]
    return said
