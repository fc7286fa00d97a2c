"""A page on profiles: ``python -m torch_npu.profiler.report DIR [-o FILE]``.

DIR is a folder of ``torch_npu.profiler`` (``*_ascend_pt``) or of msprof (``PROF_*``), or holds such folders, one for each rank.
The page is one HTML file that needs no network: times of steps, the timeline of the host and of each stream, tables of operators,
kernels and calls, and the memory of PyTorch's allocator.
"""

import argparse
import json
import os
import sys
import time
from typing import Optional, Sequence

from torch_npu.profiler import _report_data

__all__ = ["write"]

_PLACE = "/*data*/"
_MOST_EVENTS = 300_000


def write(folder: str, file: Optional[str] = None, events: int = _MOST_EVENTS) -> str:
    """Writes the page on the profiles in ``folder`` to ``file`` (``folder``/report.html by default), and returns its path.

    events: the most that the timeline shows of one profile; of more, the longest. FileNotFoundError where there is no profile.
    """
    if events < 1:
        raise ValueError(f"events {events}: expected a positive number")
    data = {"made": time.strftime("%Y-%m-%d %H:%M:%S"), **_report_data.collect(folder, events)}
    with open(os.path.join(os.path.dirname(__file__), "report.html"), encoding="utf-8") as template:
        page = template.read()
    # No "<" can end the script that the data are in.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    path = os.path.join(folder, "report.html") if file is None else file
    partial = f"{path}.{os.getpid()}.tmp"
    try:
        with open(partial, "w", encoding="utf-8") as target:
            target.write(page.replace(_PLACE, text, 1))
        os.replace(partial, path)
    except OSError:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    return path


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m torch_npu.profiler.report", description="Makes an HTML page of profiles.")
    parser.add_argument("folder", help="of *_ascend_pt or PROF_*, or one of them")
    parser.add_argument("-o", "--output", help="the page (report.html in the folder)")
    parser.add_argument("--events", type=int, default=_MOST_EVENTS,
                        help=f"most events of one profile in the timeline ({_MOST_EVENTS})")
    options = parser.parse_args(arguments)
    try:
        print(write(options.folder, options.output, options.events))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
