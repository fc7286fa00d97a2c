"""What has to be over before Python ends.

The first backward starts a thread of autograd for each NPU, used or not. Each takes the GIL once as it starts, and the one
that finished a backward once more, to let go of the context that PyTorch keeps for it (torch/autograd/graph.py), which may
be after backward() has returned. One that asks for the GIL when the interpreter ends, on a loaded machine, is ended by
Python in the middle of C++: the process aborts with "terminate called without an active exception", though the program was
successful.

Nor may kernels compute, or host functions ask for the GIL, when it ends: what was submitted comes to its end first.
"""
import atexit
import os
import time
from typing import Dict

from torch_npu import _C

_PATIENCE = 10.0         # seconds
_WORK_PATIENCE = 10000   # milliseconds for the work of each NPU
_PAUSE = 0.002           # seconds without the GIL, in which whoever waits for it gets it
_NAME = "pt_autograd_"   # and the number of an NPU: what such a thread is called once it has started


def _autograd_threads() -> Dict[str, str]:
    """Name -> state of each thread of autograd, "S" where it sleeps."""
    states = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue   # it has ended
        if name.startswith(_NAME):
            states[name] = rest.split()[0]
    return states


def _wait_for_autograd() -> None:
    import torch

    try:
        if len(os.listdir("/proc/self/task")) == 1:
            return
        states = _autograd_threads()
        if not states:
            time.sleep(_PAUSE)   # perhaps none of them has had the GIL yet
            states = _autograd_threads()
        if not states:
            return
        wanted = {f"{_NAME}{index}" for index in range(torch.npu.device_count())}
        until, asleep = time.monotonic() + _PATIENCE, 0
        # One that waits for the GIL sleeps too, but not any more after a pause.
        while asleep < 2 and time.monotonic() < until:
            asleep = asleep + 1 if wanted.issubset(states) and all(state == "S" for state in states.values()) else 0
            time.sleep(_PAUSE)
            states = _autograd_threads()
    except (OSError, RuntimeError):
        pass   # no /proc here, or a device that cannot be asked any more


def _finish() -> None:
    _wait_for_autograd()
    _C._finish_work(_WORK_PATIENCE)


def register() -> None:
    atexit.register(_finish)
