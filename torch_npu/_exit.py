"""What has to be over before Python ends.

The first backward starts a thread of autograd for each NPU, used or not, and each takes the GIL once before it first sleeps.
One that has not come to that when the interpreter ends, on a loaded machine, is ended by Python in the middle of C++: the
process aborts with "terminate called without an active exception", though the program was successful.
"""
import atexit
import os
import time

_PATIENCE = 10.0   # seconds
_NAME = "pt_autograd_"   # the name each of these threads has once it is past its start, and its NPU's number


def _thread_names():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read().rstrip("\n"))
        except OSError:
            pass   # it has ended
    return names


def _wait_for_autograd():
    import torch

    try:
        names = _thread_names()
        if len(names) == 1:
            return
        if not any(name.startswith(_NAME) for name in names):
            time.sleep(0.002)   # perhaps none of them has had the GIL yet
            names = _thread_names()
        if not any(name.startswith(_NAME) for name in names):
            return
        wanted = {f"{_NAME}{index}" for index in range(torch.npu.device_count())}
        until = time.monotonic() + _PATIENCE
        while not wanted.issubset(names) and time.monotonic() < until:
            time.sleep(0.001)   # without the GIL
            names = _thread_names()
    except OSError:
        pass   # no /proc here


def register():
    atexit.register(_wait_for_autograd)
