"""TORCH_HCCL_DEBUG_INFO_PIPE_FILE: a named pipe; whatever is written to it has the flight recorder written to its file."""

from __future__ import annotations

import atexit
import logging
import os
import select
import stat
import threading

from torch_npu import _C

_log = logging.getLogger("torch_npu.hccl")
_listening: set[str] = set()


def listen(start: str, rank: int) -> None:
    """Makes the pipe <start><rank>.pipe, of this rank of the default group, and listens to it, where nobody does already."""
    path = f"{start}{rank}.pipe"
    if path in _listening:
        return
    try:
        pipe = _open(path)
    except OSError as error:
        _log.warning("TORCH_HCCL_DEBUG_INFO_PIPE_FILE: no pipe %s: %s", path, error)
        return
    _listening.add(path)
    atexit.register(_remove, path)
    threading.Thread(target=_serve, args=(pipe, path, rank), name="hccl_pipe", daemon=True).start()


def _open(path: str) -> int:
    """A pipe of this user alone; one that an earlier process has left serves again. OSError where something else lies there."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        pass
    # Open for writing as well, so that the end of one writer is not the end of the pipe.
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    found = os.fstat(pipe)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
        return pipe
    os.close(pipe)
    raise FileExistsError(f"what lies at {path} is not a pipe of this user")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass   # somebody has done so


def _serve(pipe: int, path: str, rank: int) -> None:
    while True:
        select.select([pipe], [], [])
        os.read(pipe, 4096)
        written = _C._distributed_c10d._write_hccl_trace(rank)
        if written:
            _log.warning("the flight recorder was written to %s, as %s asked", written, path)
