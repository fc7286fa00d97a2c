"""What a report shows of profiles, as plain data: read from the files of Ascend's tools, whoever wrote them.

A file that is missing or damaged costs its part of the report, and a note that says so. Times are microseconds; until they are
told from the first one of the report they are whole nanoseconds, for a float has no room for Unix time with so many digits.
"""

import collections
import csv
import glob
import json
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from torch_npu.profiler import _spans

_OUTPUTS = {"_ascend_pt": "ASCEND_PROFILER_OUTPUT", "PROF_": "mindstudio_profiler_output"}
# Kinds of tracks by the process that Ascend's tools put them in; every other process is the host's.
_KINDS = {"Ascend Hardware": "device", "Communication": "communication", "HCCL": "communication", "Overlap Analysis": "overlap"}
_ORDER = ("host", "device", "communication", "overlap", "python")
_PYTHON = "python_function"
_STEP_COLUMNS = ("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free",
                 "Stage", "Bubble")
_OPERATOR_TIMES = ("Host Self Duration(us)", "Host Total Duration(us)", "Device Self Duration(us)", "Device Total Duration(us)")
_KERNEL_COLUMNS = ("Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)",
                   "Ratio(%)")
_MEMORY_COLUMNS = ("Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)")
_CALL_COLUMNS = ("Level", "API Name", "Count", "Time(us)", "Avg(us)", "Min(us)", "Max(us)")

Row = Dict[str, str]


@dataclass
class Source:
    """One folder, of one process: ``*_ascend_pt`` of torch_npu.profiler, or ``PROF_*`` of msprof."""

    folder: str
    output: str
    notes: List[str] = field(default_factory=list)

    @property
    def is_msprof(self) -> bool:
        return os.path.basename(self.folder).startswith("PROF_")

    def newest(self, name: str, ending: str) -> Optional[str]:
        """A file's path: of msprof's, whose names end in the time of the export, the last."""
        pattern = f"{name}_[0-9]*.{ending}" if self.is_msprof else f"{name}.{ending}"
        found = sorted(glob.glob(os.path.join(glob.escape(self.output), pattern)))
        return found[-1] if found else None

    def read(self, name: str, ending: str, parse: Callable[[Any], Any], nothing: Any) -> Any:
        """What ``parse`` makes of a file, or ``nothing`` and a note."""
        path = self.newest(name, ending)
        if path is None:
            self.notes.append(f"{name}.{ending} is not there")
            return nothing
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return parse(csv.DictReader(file) if ending == "csv" else json.load(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
            self.notes.append(f"{os.path.basename(path)} cannot be read: {type(error).__name__}: {error}")
            return nothing


def find(path: str) -> List[Source]:
    """The folders of profiles in a folder, at any depth, or the folder itself. FileNotFoundError where there are none."""
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path} is no folder")
    found = [Source(folder, os.path.join(folder, output)) for folder, _, _ in os.walk(os.path.abspath(path))
             for mark, output in _OUTPUTS.items()
             if (os.path.basename(folder).startswith(mark) if mark.endswith("_") else folder.endswith(mark))]
    inside = tuple(source.folder + os.sep for source in found if not source.is_msprof)
    found = [source for source in found if not (source.is_msprof and source.folder.startswith(inside))]
    if not found:
        raise FileNotFoundError(f"{path} has no folder *_ascend_pt (of torch_npu.profiler) or PROF_* (of msprof)")
    return sorted(found, key=lambda source: (_rank(source) is None, _rank(source) or 0, source.folder))


def _rank(source: Source) -> Optional[int]:
    names = glob.glob(os.path.join(glob.escape(source.folder), "profiler_info_*.json"))
    match = re.search(r"profiler_info_(\d+)\.json$", names[0]) if names else None
    return int(match.group(1)) if match else None


def _number(text: Optional[str]) -> Optional[float]:
    """A cell's number; None for N/A and what is not there."""
    try:
        value = float((text or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _nanoseconds(value: Any) -> int:
    """Of microseconds: a number, or a text with digits behind the point."""
    whole, _, digits = str(value).strip().partition(".")
    if whole.isdigit() and digits[:3].isdigit() or whole.isdigit() and not digits:
        return int(whole) * 1000 + int((digits + "000")[:3])
    return round(float(value) * 1000)


def _cell(row: Row, column: str) -> Any:
    number = _number(row.get(column))
    return (row.get(column) or "").strip() if number is None else number


def _picked(*columns: str) -> Callable[[Any], List[List[Any]]]:
    return lambda rows: [[_cell(row, column) for column in columns] for row in rows]


def _operators(rows: Any) -> List[List[Any]]:
    """[name, count, and the sums of the host's and the device's times], the longest on the device and the host first."""
    sums: Dict[str, List[float]] = collections.defaultdict(lambda: [0.0] * (1 + len(_OPERATOR_TIMES)))
    for row in rows:
        entry = sums[row["Name"]]
        entry[0] += 1
        for i, column in enumerate(_OPERATOR_TIMES, 1):
            entry[i] += _number(row[column]) or 0.0
    ordered = sorted(sums.items(), key=lambda item: (-item[1][3], -item[1][1]))
    return [[name, int(times[0]), *(round(time, 3) for time in times[1:])] for name, times in ordered]


def _memory(rows: Any) -> Dict[str, List[List[float]]]:
    """By device [times, allocated, reserved], MiB, of PyTorch's allocator."""
    curves: Dict[str, List[List[float]]] = {}
    for row in rows:
        time, allocated, reserved = (_number(row[name]) for name in _MEMORY_COLUMNS)
        if row["Component"] != "PTA" or time is None or allocated is None:
            continue
        curve = curves.setdefault(row["Device Type"], [[], [], []])
        for values, value in zip(curve, (_nanoseconds(row[_MEMORY_COLUMNS[0]]), allocated, reserved or 0.0)):
            values.append(value)
    return curves


@dataclass
class _Event:
    begin: int  # nanoseconds
    duration: int
    name: str


@dataclass
class _Track:
    kind: str
    process: str
    thread: str
    events: List[_Event] = field(default_factory=list)

    def rows(self, names: Dict[str, int], origin: int) -> List[List[List[float]]]:
        """[begins, durations, names] by depth: what begins within another event lies below it; in a row nothing overlaps."""
        rows: List[List[List[float]]] = []
        ends: List[int] = []
        for event in sorted(self.events, key=lambda event: (event.begin, -event.duration)):
            depth = next((i for i, end in enumerate(ends) if end <= event.begin), len(ends))
            if depth == len(ends):
                ends.append(0)
                rows.append([[], [], []])
            ends[depth] = event.begin + event.duration
            values = ((event.begin - origin) / 1000, event.duration / 1000, names.setdefault(event.name, len(names)))
            for column, value in zip(rows[depth], values):
                column.append(value)
        return rows


def _labels(events: List[Dict[str, Any]], kind: str) -> Dict[Any, str]:
    """Names of processes or threads; of a process that Ascend's tools know, theirs."""
    labels: Dict[Any, str] = {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == kind:
            key = event.get("pid") if kind == "process_name" else (event.get("pid"), event.get("tid"))
            if _kind(labels.get(key, "")) == "host":
                labels[key] = str(event["args"]["name"])
    return labels


def _kind(process: str) -> str:
    return next((kind for name, kind in _KINDS.items() if process.startswith(name)), "host")


def _tracks(events: Any) -> List[_Track]:
    """The tracks of a chrome trace. Calls of Python are on tracks of their own, below all others."""
    events = events["traceEvents"] if isinstance(events, dict) else events
    processes, threads = _labels(events, "process_name"), _labels(events, "thread_name")
    tracks: Dict[Tuple[Any, Any, bool], _Track] = {}
    for event in events:
        if event.get("ph") != "X" or event.get("cat") == "Trace":
            continue
        pid, tid, is_python = event.get("pid"), event.get("tid"), event.get("cat") == _PYTHON
        if (pid, tid, is_python) not in tracks:
            process = processes.get(pid, f"process {pid}")
            tracks[pid, tid, is_python] = _Track("python" if is_python else _kind(process), process,
                                                 threads.get((pid, tid), f"thread {tid}") + (": Python" if is_python else ""))
        duration = round(float(event.get("dur", 0)) * 1000)
        tracks[pid, tid, is_python].events.append(_Event(_nanoseconds(event["ts"]), duration, str(event["name"])))
    return sorted(tracks.values(), key=lambda track: _ORDER.index(track.kind))


def _shorten(tracks: List[_Track], limit: int, notes: List[str]) -> None:
    """Leaves the ``limit`` longest events."""
    longest = sorted((event for track in tracks for event in track.events), key=lambda event: -event.duration)
    if len(longest) <= limit:
        return
    kept = {id(event) for event in longest[:limit]}
    for track in tracks:
        track.events = [event for event in track.events if id(event) in kept]
    notes.append(f"the timeline shows the {limit} longest of {len(longest)} events (--events), none below "
                 f"{longest[limit - 1].duration / 1000:.3f} us")


def _whole(tracks: List[_Track]) -> List[List[Any]]:
    """Step times of a profile without steps: of all that the device ran."""
    own = [event for track in tracks if track.kind == "device" for event in track.events]
    if not own:
        return []

    def spans(communicating: bool) -> List[_spans.Span]:
        return _spans.union((event.begin, event.begin + event.duration) for event in own
                            if event.name.lower().startswith(("hccl", "hcom")) == communicating)

    computing, communication = spans(False), spans(True)
    exposed = _spans.length(_spans.without(communication, computing))
    begin, end = min(event.begin for event in own), max(event.begin + event.duration for event in own)
    busy, whole = _spans.length(_spans.union(computing + communication)), _spans.length(communication)
    times = (_spans.length(computing), exposed, whole - exposed, whole, end - begin - busy, end - begin, 0.0)
    return [["", "", *(round(time / 1000, 3) for time in times)]]


def _read(source: Source, limit: int) -> Tuple[Dict[str, Any], List[_Track]]:
    if not os.path.isdir(source.output):
        todo = "msprof --export=on --output=..." if source.is_msprof else "torch_npu.profiler.analyse(...)"
        source.notes.append(f"it has no {os.path.basename(source.output)}: it was not analysed, or the program was killed; "
                            f"{todo} makes it")
        tracks: List[_Track] = []
        part: Dict[str, Any] = {"steps": [], "operators": [], "kernels": [], "calls": [], "memory": {}}
    else:
        tracks = source.read("msprof" if source.is_msprof else "trace_view", "json", _tracks, [])
        part = {"kernels": source.read("op_statistic", "csv", _picked(*_KERNEL_COLUMNS), []),
                "calls": source.read("api_statistic", "csv", _picked(*_CALL_COLUMNS), [])}
        if source.is_msprof:
            part.update(steps=_whole(tracks), operators=[], memory={})
        else:
            part.update(steps=source.read("step_trace_time", "csv", _picked(*_STEP_COLUMNS), []),
                        operators=source.read("operator_details", "csv", _operators, []),
                        memory=source.read("memory_record", "csv", _memory, {}) if source.newest("memory_record", "csv") else {})
    _shorten(tracks, limit, source.notes)
    rank = _rank(source)
    name = os.path.basename(source.folder) if rank is None else f"rank {rank}"
    return {"name": name, "rank": rank, "folder": os.path.basename(source.folder), "notes": source.notes, **part}, tracks


def _times(part: Dict[str, Any], tracks: List[_Track]) -> List[int]:
    return [event.begin for track in tracks for event in track.events] + [
        time for curve in part["memory"].values() for time in curve[0]]


def collect(path: str, limit: int) -> Dict[str, Any]:
    """The data of a report on all profiles below ``path``, with at most ``limit`` events a profile in the timeline.

    ``origin`` is the first time of all; those in ``tracks`` and ``memory`` count from it. FileNotFoundError where there is no
    profile.
    """
    read = [_read(source, limit) for source in find(path)]
    origin = min((min(times) for times in (_times(*one) for one in read) if times), default=0)
    ranks = []
    for part, tracks in read:
        names: Dict[str, int] = {}
        part["tracks"] = [{"kind": track.kind, "process": track.process, "thread": track.thread,
                           "rows": track.rows(names, origin)} for track in tracks]
        part["names"] = list(names)
        for curve in part["memory"].values():
            curve[0] = [(time - origin) / 1000 for time in curve[0]]
        ranks.append(part)
    return {"folder": os.path.abspath(path), "origin": origin / 1000, "ranks": ranks,
            "columns": {"steps": _STEP_COLUMNS, "operators": ("Name", "Count", *_OPERATOR_TIMES), "kernels": _KERNEL_COLUMNS,
                        "calls": _CALL_COLUMNS}}
