"""Python's garbage collections while a profile runs: the program stands still in them."""

import gc
import os
import threading
import time
from typing import Dict, List, Optional, Tuple

Record = Tuple[int, int, int]  # begin and end as Unix nanoseconds; the process above, the thread below 32 bits


class Collections:
    """Records those that last ``threshold`` milliseconds or longer, from ``start`` to ``stop``."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold * 1e6
        self._begun: Optional[int] = None
        self._records: List[Record] = []

    def start(self) -> None:
        gc.callbacks.append(self._told)

    def stop(self) -> List[Record]:
        gc.callbacks.remove(self._told)
        return self._records

    def _told(self, phase: str, info: Dict[str, int]) -> None:
        del info
        now = time.time_ns()
        if phase == "start":
            self._begun = now
        elif self._begun is not None and now - self._begun >= self._threshold:
            self._records.append((self._begun, now, os.getpid() << 32 | threading.get_native_id()))
