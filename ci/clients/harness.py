"""What the scripts here share: cases that are run one after another, each of which must have computed on the NPU.

A script defines functions with @case and ends with main(). `python use_x.py` runs all, `python use_x.py NAME...` some. With
CLIENTS_RESULT=<file> the results go there as JSON, from which docs/gen_clients.py makes docs/clients.md.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

import torch_npu

CASES: dict[str, tuple[Callable[[], object], str, str, str]] = {}


def case(what: str, theirs: str = "", error: str = "") -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Registers a function as a case. `theirs` is why it fails today for a reason outside torch_npu: it must then raise an error
    whose name and text have `error` in them."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        CASES[function.__name__] = (function, what, theirs, error)
        return function

    return register


def on_npu(*things: object) -> None:
    """Every tensor, and every parameter and buffer of every module among these must be on the NPU; at least one must be there."""
    seen = 0
    for thing in things:
        for tensor in _tensors(thing):
            seen += 1
            assert tensor.device.type == "npu", f"a tensor {tuple(tensor.shape)} is on {tensor.device}"
    assert seen, "nothing to look at"


def _tensors(thing: object) -> Iterable[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, torch.nn.Module):
        yield from thing.parameters()
        yield from thing.buffers()
    elif isinstance(thing, (list, tuple)):
        for item in thing:
            yield from _tensors(item)
    elif hasattr(thing, "values"):
        for item in thing.values():
            yield from _tensors(item)


def close(npu: torch.Tensor, cpu: torch.Tensor, tolerance: float = 1e-4) -> None:
    """The NPU's result, and it is on the NPU, against the CPU's."""
    on_npu(npu)
    torch.testing.assert_close(npu.detach().cpu().float(), cpu.detach().float(), rtol=tolerance, atol=tolerance)


def run(*command: str, devices: int = 1, **environment: str) -> str:
    """Runs a command of the same environment, with its programs on PATH; what it printed. An error if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "SOFTCANN_DEVICE_COUNT": str(devices), **environment}
    env.pop("CLIENTS_RESULT", None)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def ranks(script: str, *arguments: str, nproc: int = 2) -> str:
    """Runs a script of this folder by torchrun, a device for each process; what it printed."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={nproc}")
    return run(*launcher, str(Path(__file__).parent / script), *arguments, devices=nproc)


def installation(folder: Path) -> dict[str, str]:
    """The environment of programs that are built and run with an installation of softcann, which is made in ``folder``."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "third_party/softcann/python"))
    import softcann
    from softcann import sdk

    sdk.make(folder)
    settings = {name: value for name, value in softcann.environment().items() if value is not None}
    return {**os.environ, **settings, "ASCEND_TOOLKIT_HOME": str(folder), "OMP_NUM_THREADS": "1"}


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def main(*distributions: str) -> None:
    """Runs the cases that the command line names, or all. `distributions` are the libraries whose versions are told."""
    results = []
    for name in sys.argv[1:] or CASES:
        function, what, theirs, expected = CASES[name]
        torch_npu.reset_fallbacks()
        start = time.monotonic()
        error = _error_of(function)
        fallbacks = sorted(torch_npu.fallbacks())
        ok = expected in error if theirs and error else bool(error) == bool(theirs)
        results.append({"case": name, "what": what, "ok": ok, "error": error.strip().splitlines()[:1], "theirs": theirs, "cpu": fallbacks})
        told = "ok" if ok and not theirs else "theirs" if ok else "FAILED"
        print(f"{told:6} {name} ({time.monotonic() - start:.0f} s) {error.splitlines()[0] if error else ''} {fallbacks or ''}", flush=True)
    if where := os.environ.get("CLIENTS_RESULT"):
        versions = {name: importlib.metadata.version(name) for name in distributions}
        versions["torch"] = torch.__version__
        Path(where).write_text(json.dumps({"versions": versions, "cases": results}, indent=1) + "\n")
    sys.exit(any(not result["ok"] for result in results))


def _error_of(function: Callable[[], object]) -> str:
    try:
        function()
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""
