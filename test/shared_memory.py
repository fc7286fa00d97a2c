"""Which files of ours in /dev/shm nobody needs any more: what a test looks for that wants to see nothing left behind.

Ours are those whose names say so, as those of all memory files of softcann and the adapter do. What Python's multiprocessing and torch
make there (`sem.mp-*`, `torch_*`) is left by any of their processes that is killed.
"""
import os
import pathlib
import re
import time

FOLDER = pathlib.Path("/dev/shm")
OURS = re.compile("softcann|torch_npu|hccl", re.IGNORECASE)


def _in_use():
    """Names of the files there that a living process has open or mapped, as far as this user may see."""
    names = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            names.update(re.findall(r"/dev/shm/(\S+)", (process / "maps").read_text()))
            for entry in (process / "fd").iterdir():
                target = os.readlink(entry)
                if target.startswith("/dev/shm/"):
                    names.add(target.split()[0][len("/dev/shm/"):])
        except OSError:
            pass   # it has ended, or is another user's
    return names


def left_over():
    """Names of this user's files there that are ours and that no process uses."""
    found = set()
    for path in FOLDER.iterdir():
        try:
            if OURS.search(path.name) and path.stat().st_uid == os.getuid():
                found.add(path.name)
        except OSError:
            pass
    return found - _in_use() if found else found


def new_left_over(before, seconds=10):
    """What is left over now and was not in `before`. Another program may be about to open what it made: what stays, counts."""
    end = time.monotonic() + seconds
    while True:
        found = left_over() - before
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)
