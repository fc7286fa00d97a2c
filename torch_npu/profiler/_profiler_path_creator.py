"""Where profiles write: folders ``<worker>_<process>_<time>_ascend_pt``."""

import os
import socket
import time
from typing import Any, Optional

from torch_npu import _options
from torch_npu.profiler.experimental_config import reset

SUFFIX = "_ascend_pt"


def worker(name: Any) -> Optional[str]:
    """``name``; None, the host's name, with a warning in the log where it cannot be part of a folder's."""
    if name is not None and (not isinstance(name, str) or not name or os.sep in name):
        return reset("worker_name", name, None)
    return name


def new_path(dir_name: Optional[str] = None, worker_name: Optional[str] = None) -> str:
    """The path of a new folder, in ``dir_name``; without one in ``$ASCEND_WORK_PATH/profiling_data``, or the current folder."""
    work = _options.published("ASCEND_WORK_PATH")
    folder = dir_name or (os.path.join(work, "profiling_data") if work else os.curdir)
    now = time.time()
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03d}"
    return os.path.join(os.path.abspath(folder), f"{worker_name or socket.gethostname()}_{os.getpid()}_{stamp}{SUFFIX}")


class ProfPathCreator:
    """The published way to say where profiles write whose ``on_trace_ready`` is a program's own function. One for the process."""

    _one: Optional["ProfPathCreator"] = None
    dir_name: Optional[str]
    worker_name: Optional[str]

    def __new__(cls) -> "ProfPathCreator":
        if cls._one is None:
            cls._one = super().__new__(cls)
            cls._one.dir_name = cls._one.worker_name = None
        return cls._one

    def init(self, worker_name: Optional[str] = None, dir_name: Optional[str] = None) -> None:
        """From now on traces go to ``dir_name/<worker_name>_<process>_<time>_ascend_pt``, and are written as they end."""
        self.worker_name = worker(worker_name)
        self.dir_name = None if dir_name is None else os.path.abspath(dir_name)

    def is_told(self) -> bool:
        """Whether a program or ``ASCEND_WORK_PATH`` says where traces go."""
        return self.dir_name is not None or bool(_options.published("ASCEND_WORK_PATH"))

    def new_path(self) -> str:
        return new_path(self.dir_name, self.worker_name)
