"""Does again what SOFTCANN_RECORD recorded, operator by operator on one stream, and compares the results.

    SOFTCANN_RECORD=calls.rec python train.py
    python -m softcann replay calls.rec                    which operator's results differ, here and now
    python -m softcann replay calls.rec --stop-at 120      up to record 120, and what that one reads and writes; --save DIR
    python -m softcann replay calls.rec --bisect           the first record at which the replay differs, fails or dies

A replay needs no client and no other ranks: what collectives received is in the file. Operators that share their work with other
ranks, models and pictures are not done again; they are counted, and what depends on them differs.
"""
import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

__all__ = ["Record", "main", "read"]


class BadRecord(ValueError):
    """The file is none of SOFTCANN_RECORD."""


class Record(NamedTuple):
    """A record: its number, its fields, and the bytes behind it."""

    number: int
    fields: Dict[str, Any]
    payload: bytes

    def __str__(self) -> str:
        name = self.fields.get("op") or self.fields.get("entry")
        size = f", {self.fields['bytes']} bytes" if "bytes" in self.fields else ""
        return f"#{self.number} {name} ({self.fields['kind']}{size})"


def read(path: str) -> Iterator[Record]:
    """The records of a file, in order. The last may be cut where the process was killed; BadRecord for another file."""
    with open(path, "rb") as file:
        _header(path, file)
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                fields = json.loads(line)
                payload = file.read(fields.get("payload", 0))
                record = Record(fields["n"], fields, payload)
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                raise BadRecord(f"{path}: damaged near byte {file.tell()}: {error}") from None
            if len(payload) < fields.get("payload", 0):
                return
            yield record


def _header(path: str, file: BinaryIO) -> Dict[str, Any]:
    try:
        header = json.loads(file.readline(4096))
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("softcann_record") != 1:
        raise BadRecord(f"{path} was not written by SOFTCANN_RECORD")
    return header


def _tensors(value: Any) -> Iterator[Dict[str, Any]]:
    """The tensors of an operator's argument."""
    if isinstance(value, dict) and "at" in value:
        yield value
    elif isinstance(value, dict) and "tensors" in value:
        for one in value["tensors"]:
            if one is not None:
                yield one


def _extent(tensor: Dict[str, Any]) -> Tuple[int, int]:
    """Where its storage is, from the first byte to behind the last."""
    elements = math.prod(tensor["storage"])
    reached = tensor["offset"] + sum((size - 1) * stride for size, stride in zip(tensor["shape"], tensor["strides"])) + 1
    return tensor["at"], tensor["at"] + max(elements, reached) * tensor["item"]


def places(records: Sequence[Record]) -> List[Tuple[int, int, int]]:
    """(device, begin, end) of all memory that is used, without overlaps."""
    spans = set()
    for record in records:
        fields = record.fields
        for key in ("to", "from"):
            if fields.get(key, -1) >= 0:
                spans.add((max(fields[f"{key}_device"], 0), fields[key], fields[key] + fields["bytes"]))
        for value in fields.get("args", {}).values():
            spans.update((max(fields["device"], 0), *_extent(tensor)) for tensor in _tensors(value) if tensor["at"] >= 0)
    merged: List[Tuple[int, int, int]] = []
    for device, begin, end in sorted(spans):
        if merged and merged[-1][0] == device and begin <= merged[-1][2]:
            merged[-1] = (device, merged[-1][1], max(merged[-1][2], end))
        else:
            merged.append((device, begin, end))
    return merged


class Outcome(NamedTuple):
    """What became of a replay: its first difference or failure, how many operators were compared, and what was not done."""

    wrong: Optional[Record]
    reason: str
    operators: int
    skipped: Dict[str, int]


def _compare(record: Record, machine: Any) -> str:
    """Which result differs; empty: none."""
    names = list(record.fields["args"])
    for index, expected in record.fields["results"].items():
        value = record.fields["args"][names[int(index)]]
        tensors = value["tensors"] if "tensors" in value else [value]
        digests = expected if isinstance(expected, list) else [expected]
        for tensor, digest in zip(tensors, digests):
            if tensor is not None and digest is not None:
                found = hashlib.sha256(machine.contents(tensor)).hexdigest()[:16]
                if found != digest:
                    return f"{names[int(index)]} {machine.described(tensor)} has other bytes: {found}, recorded {digest}"
    return ""


def replay(records: Sequence[Record], stop_at: Optional[int] = None, progress: Callable[[int], None] = lambda number: None,
           at_end: Optional[Callable[[Record, Any], None]] = None) -> Outcome:
    """Does records again, to ``stop_at`` if given, and stops at the first that differs or fails."""
    from . import _replay_calls  # loads torch and the libraries

    machine = _replay_calls.Machine(places(records))
    operators, skipped = 0, {}  # type: ignore[var-annotated]
    for record in records:
        if stop_at is not None and record.number > stop_at:
            break
        progress(record.number)
        kind = record.fields["kind"]
        reason = ""
        try:
            if kind == "operator":
                machine.call(record.fields)
                operators += 1
                reason = _compare(record, machine)
            elif kind == "unknown":
                skipped[record.fields["entry"]] = skipped.get(record.fields["entry"], 0) + 1
            else:
                reason = machine.move(record.fields, record.payload)
        except _replay_calls.CallFailed as error:
            reason = str(error)
        if at_end is not None and (reason or record.number == stop_at):
            at_end(record, machine)
        if reason:
            return Outcome(record, reason, operators, skipped)
    return Outcome(None, "", operators, skipped)


def _show(record: Record, machine: Any, folder: Optional[str]) -> None:
    """The arguments of an operator, with figures of its tensors; their contents to ``folder``."""
    print(record)
    for name, value in record.fields.get("args", {}).items():
        tensors = list(_tensors(value))
        if not tensors:
            print(f"    {name} = {json.dumps(value)}")
        for i, tensor in enumerate(tensors):
            label = name if len(tensors) == 1 and "tensors" not in value else f"{name}[{i}]"
            print(f"    {label}: {machine.described(tensor)} {machine.figures(tensor)}")
            if folder is not None:
                machine.save(tensor, os.path.join(folder, f"{record.number}.{label}"))


def _child(path: str, stop_at: int) -> bool:
    """Whether a replay up to there is good, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "softcann", "replay", path, "--stop-at", str(stop_at), "--quiet"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def bisect(path: str, records: Sequence[Record], good: Callable[[str, int], bool] = _child) -> Optional[Record]:
    """The first record at which a replay in a process of its own is not good; None: there is none."""
    if not records or good(path, records[-1].number):
        return None
    low, high = 0, len(records) - 1   # all before low are good, high is not
    while low < high:
        middle = (low + high) // 2
        if good(path, records[middle].number):
            low = middle + 1
        else:
            high = middle
    return records[high]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m softcann replay", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("file", help="what SOFTCANN_RECORD wrote")
    parser.add_argument("--stop-at", type=int, metavar="N", help="end after record N, and show it")
    parser.add_argument("--bisect", action="store_true",
                        help="find the first record that is not as it was, also where it crashes")
    parser.add_argument("--save", metavar="DIR", help="with --stop-at or a difference: the tensors' contents, for numpy.load")
    parser.add_argument("--list", action="store_true", help="the records, without a replay")
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Status 0: all as recorded; 1: something differs or fails; 2: the file cannot be read."""
    options = _parser().parse_args(arguments)
    os.environ.pop("SOFTCANN_RECORD", None)  # what is recorded is the program, not this
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    try:
        records = list(read(options.file))
    except (OSError, BadRecord) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(map(str, records)))
        return 0
    if options.bisect:
        first = bisect(options.file, records)
        print("every record is as it was" if first is None else f"the first record that is not as it was: {first}")
        return 0 if first is None else 1
    if options.save:
        os.makedirs(options.save, exist_ok=True)
    outcome = replay(records, options.stop_at,
                     at_end=None if options.quiet else lambda record, machine: _show(record, machine, options.save))
    for name, count in outcome.skipped.items():
        print(f"not done again: {count} x {name}", file=sys.stderr)
    if outcome.wrong is not None:
        print(f"{outcome.wrong}: {outcome.reason}")
        return 1
    print(f"{outcome.operators} operators: all results as recorded")
    return 0
