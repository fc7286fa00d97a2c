"""The files that msprof makes of a PROF_* folder in mindstudio_profiler_output: tables, and a timeline."""
import csv
import json
import os
import socket
import time
from typing import Any, Callable, Dict, Iterable, List, Sequence

from ._msprof_spans import activity, collectives, rank_of
from ._msprof_tables import MAKERS, TABLES, Profile, of_domains, read

_FIRST_PROCESS = 1 << 30  # no process has it, or a number above


def _add_analysis(profile: Profile, device: int, pid: int, name_track: Callable[..., None], add: Callable[..., None]) -> None:
    """The tracks Communication and Overlap Analysis of a device, as processes after ``pid``."""
    own = [one for one in collectives(profile) if one.task.device == device]
    groups = sorted({one.group for one in own})
    if groups:
        name_track("process_name", pid + 1, f"Communication (NPU {device})", label=f"NPU {device}")
        for number, group in enumerate(groups):
            name_track("thread_name", pid + 1, f"Group {group} Communication", number)
        for one in own:
            add(one.name, pid + 1, groups.index(one.group), one.task.begin, one.task.end, bytes=one.size, ranks=one.ranks)
    name_track("process_name", pid + 2, f"Overlap Analysis (NPU {device})", label=f"NPU {device}")
    for number, (name, spans) in enumerate(activity(profile, device).items()):
        name_track("thread_name", pid + 2, name, number)
        for begin, end in spans:
            add(name, pid + 2, number, begin, end)


def timeline(profile: Profile) -> List[Dict[str, Any]]:
    """Chrome's trace: the host's calls and marks under CANN, what each device ran under Ascend Hardware, a track a
    stream, with an arrow from the call that submitted it, its collectives under Communication, and under Overlap Analysis when
    it did what."""
    host = int(profile.info.get("pid", 0))
    events: List[Dict[str, Any]] = []

    def name_track(kind: str, pid: int, name: str, tid: int = 0, label: str = "") -> None:
        events.append({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})
        if label:
            events.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": tid, "args": {"labels": label}})

    def add(name: str, pid: int, tid: int, begin: int, end: int, **args: Any) -> None:
        events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": time_text(begin), "dur": (end - begin) / 1000,
                       "args": args})

    def time_text(nanoseconds: int) -> str:
        return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"

    def add_arrow(kind: str, number: int, pid: int, tid: int, at: int) -> None:
        events.append({"ph": kind, "bp": "e", "cat": "HostToDevice", "name": "HostToDevice", "id": str(number), "pid": pid,
                       "tid": tid, "ts": time_text(at)})

    submitted = {task.call for task in profile.tasks}
    name_track("process_name", host, "CANN", label="CPU")
    for call in profile.calls:
        add(f"{call.level.capitalize()}@{call.name}", host, call.thread, call.begin, call.end, level=call.level)
        if call.number in submitted:
            add_arrow("s", call.number, host, call.thread, call.begin)
    for mark in profile.marks:
        add(mark.message, host, mark.thread, mark.begin, mark.end, event_type=mark.kind, domain=mark.domain)
    for device in sorted({task.device for task in profile.tasks}):
        pid = _FIRST_PROCESS + 3 * device
        name_track("process_name", pid, f"Ascend Hardware (NPU {device})", label=f"NPU {device}")
        for stream in sorted({task.stream for task in profile.tasks if task.device == device}):
            name_track("thread_name", pid, f"Stream {stream}", stream)
        for task in profile.tasks:
            if task.device == device:
                add(task.name, pid, task.stream, task.begin, task.end, **{
                    "Task Type": task.core, "Task Id": task.number, "Stream Id": task.stream, "Input Shapes": task.operands[0]})
                if task.call:
                    add_arrow("f", task.call, pid, task.stream, task.begin)
        _add_analysis(profile, device, pid, name_track, add)
    return events


def _write(path: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> None:
    with open(f"{path}.{form}", "w", encoding="utf-8", newline="") as file:
        if form == "json":
            json.dump([dict(zip(columns, row)) for row in rows], file)
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)


def write_device_info(folder: str, profile: Profile) -> None:
    """device_<n>/info.json.<n>, by which Ascend's tools tell ranks apart."""
    for device in sorted({task.device for task in profile.tasks}):
        path = os.path.join(folder, f"device_{device}", f"info.json.{device}")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rank_id": rank_of(profile), "devices": str(device), "hostUid": socket.gethostname(),
                       "pid": profile.info.get("pid"), "platform_version": profile.info.get("soc")}, file)


def export(folder: str, tables: Iterable[str], form: str = "csv", include: Sequence[str] = (),
           exclude: Sequence[str] = ()) -> str:
    """Writes the tables and the timeline of a PROF_* folder to its mindstudio_profiler_output, whose path is returned.

    ``include``, ``exclude``: domains of the program's marks, as of :func:`of_domains`.
    """
    profile = of_domains(read(folder), include, exclude)
    output = os.path.join(folder, "mindstudio_profiler_output")
    os.makedirs(output, exist_ok=True)
    suffix = time.strftime("%Y%m%d%H%M%S")
    with open(os.path.join(output, f"msprof_{suffix}.json"), "w", encoding="utf-8") as file:
        json.dump(timeline(profile), file)
    # Who polls for the first of the tables reads the timeline then.
    for name in tables:
        rows = list(MAKERS[name](profile))
        if rows:
            _write(os.path.join(output, f"{name}_{suffix}"), TABLES[name], rows, form)
    write_device_info(folder, profile)
    return output
