"""Turns dumps of the flight recorder into pickles, for PyTorch's own analyser.

``python -m torch_npu.distributed.flight_recorder FOLDER [--prefix hccl_trace_rank_]`` reads FOLDER/hccl_trace_rank_0.json,
..._1.json and so on, and writes each beside itself without ``.json``. Then
``python -m torch.distributed.flight_recorder.fr_trace FOLDER -p hccl_trace_rank_ -j`` analyses them. The dumps are JSON
because reading a pickle can run code that somebody has put there.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import pickle
from typing import Any

__all__ = ["export", "load", "main"]


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The dump in a JSON file, with the types that PyTorch's recorder has.

    Raises ValueError if the file is not such a dump.
    """
    try:
        dump = json.loads(pathlib.Path(path).read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(dump, dict) or "version" not in dump:
        raise ValueError(f"{path} is not a dump of the flight recorder: it has no version")
    try:
        for entry in dump.get("entries", ()):
            entry["process_group"] = tuple(entry["process_group"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a dump of the flight recorder: an entry has no process_group") from error
    return dump


def export(folder: str | os.PathLike[str], prefix: str) -> list[pathlib.Path]:
    """Writes a pickle beside each dump of the folder; returns their paths. Raises FileNotFoundError if there is none."""
    dumps = sorted(pathlib.Path(folder).glob(f"{prefix}*.json"))
    if not dumps:
        raise FileNotFoundError(f"{folder} has no {prefix}*.json; the log of each rank names its dump")
    written = []
    for dump in dumps:
        data = pickle.dumps(load(dump))
        target = dump.with_suffix("")
        target.unlink(missing_ok=True)
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        written.append(target)
    return written


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Turns dumps of the flight recorder into pickles, for PyTorch's own analyser.")
    parser.add_argument("folder")
    parser.add_argument("--prefix", default="hccl_trace_rank_", help="what the names of the dumps begin with")
    options = parser.parse_args()
    try:
        for path in export(options.folder, options.prefix):
            print(path)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
