"""msprof --type=db: a profile as the tables of SQLite that Ascend's tools query. Times are Unix nanoseconds, names are numbers of
STRING_IDS; a column for which nothing is recorded is NULL."""
import os
import socket
import sqlite3
import time
from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

from ._msprof_export import write_device_info
from ._msprof_spans import collectives, rank_of
from ._msprof_tables import SINGLE, Call, Mark, Profile, Task, read

# Numbers from 50001 on are of the frameworks', which add to this table.
API_TYPES = {"acl": 20000, "model": 15000, "node": 10000, "communication": 5500, "runtime": 5000}
HCCL_TYPES = {"int8": 0, "int16": 1, "int32": 2, "float16": 3, "float32": 4, "int64": 5, "uint64": 6, "uint8": 7, "uint16": 8,
              "uint32": 9, "float64": 10, "bfloat16": 11}
MARK_TYPES = {"marker": 0, "push_pop": 1, "start_end": 2, "mark_ex": 3}
FIRST_MARK = 4_000_000_000   # marks' connections with their tasks are numbered from here, beside those of calls
UNKNOWN = 2**32 - 1
COMPUTING = "AI_CORE", "AI_VECTOR_CORE"
DEFAULT_DOMAIN = 2**16 - 1
TABLES: Dict[str, Tuple[str, ...]] = {
    "STRING_IDS": ("id INTEGER PRIMARY KEY", "value TEXT"),
    "ENUM_API_TYPE": ("id INTEGER PRIMARY KEY", "name TEXT"),
    "ENUM_HCCL_DATA_TYPE": ("id INTEGER PRIMARY KEY", "name TEXT"),
    "ENUM_MSTX_EVENT_TYPE": ("id INTEGER PRIMARY KEY", "name TEXT"),
    "SESSION_TIME_INFO": ("startTimeNs INTEGER", "endTimeNs INTEGER"),
    "NPU_INFO": ("id INTEGER", "name TEXT"),
    "HOST_INFO": ("hostUid TEXT", "hostName TEXT"),
    "RANK_DEVICE_MAP": ("rankId INTEGER", "deviceId INTEGER"),
    "TASK": ("startNs INTEGER", "endNs INTEGER", "deviceId INTEGER", "connectionId INTEGER", "globalTaskId INTEGER",
             "globalPid INTEGER", "taskType INTEGER", "contextId INTEGER", "streamId INTEGER", "taskId INTEGER",
             "modelId INTEGER"),
    "COMPUTE_TASK_INFO": (
        "name INTEGER", "globalTaskId INTEGER PRIMARY KEY", "blockNum INTEGER", "mixBlockNum INTEGER", "taskType INTEGER",
        "opType INTEGER", "inputFormats INTEGER", "inputDataTypes INTEGER", "inputShapes INTEGER", "outputFormats INTEGER",
        "outputDataTypes INTEGER", "outputShapes INTEGER", "attrInfo INTEGER", "hf32Eligible INTEGER"),
    "COMMUNICATION_OP": (
        "opName INTEGER", "startNs INTEGER", "endNs INTEGER", "connectionId INTEGER", "groupName INTEGER",
        "opId INTEGER PRIMARY KEY", "relay INTEGER", "retry INTEGER", "dataType INTEGER", "algType INTEGER", "count NUMERIC",
        "opType INTEGER", "deviceId INTEGER"),
    "CANN_API": ("startNs INTEGER", "endNs INTEGER", "type INTEGER", "globalTid INTEGER", "connectionId INTEGER", "name INTEGER"),
    "MSTX_EVENTS": (
        "startNs INTEGER", "endNs INTEGER", "eventType INTEGER", "rangeId INTEGER", "category INTEGER", "message INTEGER",
        "globalTid INTEGER", "endGlobalTid INTEGER", "domainId INTEGER", "connectionId INTEGER"),
}


class _Strings(Dict[str, int]):
    """Numbers of texts, as they come."""

    def __call__(self, text: str) -> int:
        return self.setdefault(text, len(self))


def _task(number: int, task: Task, pid: int, strings: _Strings) -> Sequence[Any]:
    kind = strings("MEMCPY_ASYNC" if task.core == "SDMA" else task.core)
    return (task.begin, task.end, task.device, task.call or None, number, pid, kind, SINGLE, task.stream, task.number, task.model)


def _computed(number: int, task: Task, strings: _Strings) -> Sequence[Any]:
    shapes, types, formats, out_shapes, out_types, out_formats = map(strings, task.operands)
    return (strings(task.name), number, None, None, strings(task.core), strings(task.type), formats, types, shapes, out_formats,
            out_types, out_shapes, None, None)


def _mark(mark: Mark, connection: int, process: int, strings: _Strings) -> Sequence[Any]:
    domain = DEFAULT_DOMAIN if mark.domain == "default" else strings(mark.domain)
    return (mark.begin, mark.end, MARK_TYPES[mark.kind], UNKNOWN, UNKNOWN, strings(mark.message), process | mark.thread,
            process | mark.end_thread, domain, connection)


def _task_of(mark: Mark, connection: int, number: int, pid: int, strings: _Strings) -> Sequence[Any]:
    """What the device's stream did for a mark: it noted the time."""
    kind = strings("PROFILER_TRACE_EX")
    return (mark.device_begin, mark.device_end, mark.device, connection, number, pid, kind, SINGLE, mark.stream, None, None)


def _levels(call: Call, launches: Set[int]) -> Iterator[Tuple[str, str]]:
    """A call has a row; one that launched an operator another, of the node, by which frameworks find what theirs launched."""
    yield call.level, call.name
    if call.number in launches:
        yield "node", "launch"


def _rows(profile: Profile) -> Dict[str, List[Sequence[Any]]]:
    strings, pid = _Strings(), int(profile.info.get("pid", 0))
    process, host = pid << 32, socket.gethostname()
    devices = sorted({task.device for task in profile.tasks})
    numbered = list(enumerate(profile.tasks))
    marks = [(FIRST_MARK + number, mark) for number, mark in enumerate(profile.marks) if mark.kind in MARK_TYPES]
    on_device = enumerate([(connection, mark) for connection, mark in marks if mark.device_begin], len(numbered))
    tasks_of_marks = [_task_of(mark, connection, number, pid, strings) for number, (connection, mark) in on_device]
    launches = {task.call for task in profile.tasks if task.core in COMPUTING}
    ends = [task.end for task in profile.tasks] + [call.end for call in profile.calls]
    rows: Dict[str, List[Sequence[Any]]] = {
        "ENUM_API_TYPE": [(number, name) for name, number in API_TYPES.items()],
        "ENUM_HCCL_DATA_TYPE": [(number, name.upper()) for name, number in HCCL_TYPES.items()],
        "ENUM_MSTX_EVENT_TYPE": [(number, name) for name, number in MARK_TYPES.items()],
        # A program that was killed told no end.
        "SESSION_TIME_INFO": [(profile.info["begin_ns"], profile.info["end_ns"] or max(ends, default=profile.info["begin_ns"]))],
        "NPU_INFO": [(device, profile.info.get("soc", "")) for device in devices],
        "HOST_INFO": [(host, host)],
        "RANK_DEVICE_MAP": [(rank_of(profile), device) for device in devices],
        "TASK": [*(_task(number, task, pid, strings) for number, task in numbered), *tasks_of_marks],
        "COMPUTE_TASK_INFO": [_computed(number, task, strings) for number, task in numbered
                              if task.core in COMPUTING],
        "COMMUNICATION_OP": [
            (strings(one.name), one.task.begin, one.task.end, None, strings(one.group), number, 0, 0,
             HCCL_TYPES.get(one.dtype), None, one.elements, strings(one.name.partition("__")[0] + "_"), one.task.device)
            for number, one in enumerate(collectives(profile))],
        "CANN_API": [(call.begin, call.end, API_TYPES[level], process | call.thread, call.number, strings(name))
                     for call in profile.calls for level, name in _levels(call, launches)],
        "MSTX_EVENTS": [_mark(mark, connection, process, strings) for connection, mark in marks]}
    rows["STRING_IDS"] = [(number, text) for text, number in strings.items()]
    return rows


def save(path: str, tables: Dict[str, Tuple[Tuple[str, ...], List[Sequence[Any]]]]) -> None:
    """Writes a file of tables, by name their columns and rows; those without rows are left out."""
    partial = f"{path}.tmp"
    if os.path.exists(partial):
        os.unlink(partial)
    connection = sqlite3.connect(partial)
    try:
        with connection:
            for name, (columns, rows) in tables.items():
                if rows:
                    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    finally:
        connection.close()
    os.replace(partial, path)


def export_database(folder: str) -> str:
    """Writes msprof_<time>.db into a PROF_* folder, and returns its path."""
    profile = read(folder)
    rows = _rows(profile)
    path = os.path.join(folder, f"msprof_{time.strftime('%Y%m%d%H%M%S')}.db")
    save(path, {name: (columns, rows[name]) for name, columns in TABLES.items()})
    write_device_info(folder, profile)
    return path
