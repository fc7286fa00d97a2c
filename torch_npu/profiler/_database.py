"""The SQLite files of a profile, in the tables that Ascend's tools query: ascend_pytorch_profiler_<rank>.db, and analysis.db with
the times of steps and collectives. Times are Unix nanoseconds, sizes bytes; names are numbers of STRING_IDS. A column for which
there is nothing is NULL.
"""

import collections
import json
import os
import sqlite3
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from torch_npu.profiler import _communication, _files
from torch_npu.profiler._communication import Collective
from torch_npu.profiler._trace import Kernel, Operator, Trace

_API_TYPES = {"acl": 20000, "model": 15000, "node": 10000, "communication": 5500, "runtime": 5000, "op": 50001, "queue": 50002,
              "trace": 50003, "mstx": 50004}
# Numbers of dtypes in HCCL, by PyTorch's names.
_HCCL_TYPES = {"Char": 0, "Short": 1, "Int": 2, "Half": 3, "Float": 4, "Long": 5, "Byte": 7, "Double": 10, "BFloat16": 11}
_HCCL_TYPE_NAMES = {0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32", 5: "INT64", 7: "UINT8", 10: "FP64", 11: "BFP16",
                    65534: "N/A"}
_UNKNOWN_TYPE = 65534
_NO_MODEL = _NO_CONTEXT = 4294967295
_COPY = "MEMCPY_ASYNC"

_PROFILER_TABLES = {
    "STRING_IDS": ("id INTEGER PRIMARY KEY", "value TEXT"),
    "ENUM_API_TYPE": ("id INTEGER PRIMARY KEY", "name TEXT"),
    "ENUM_HCCL_DATA_TYPE": ("id INTEGER PRIMARY KEY", "name TEXT"),
    "META_DATA": ("name TEXT", "value TEXT"),
    "SESSION_TIME_INFO": ("startTimeNs INTEGER", "endTimeNs INTEGER"),
    "HOST_INFO": ("hostUid TEXT", "hostName TEXT"),
    "RANK_DEVICE_MAP": ("rankId INTEGER", "deviceId INTEGER"),
    "STEP_TIME": ("id INTEGER", "startNs INTEGER", "endNs INTEGER"),
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
    "PYTORCH_API": (
        "startNs INTEGER", "endNs INTEGER", "globalTid INTEGER", "connectionId INTEGER", "name INTEGER", "sequenceNumber INTEGER",
        "fwdThreadId INTEGER", "inputDtypes INTEGER", "inputShapes INTEGER", "callchainId INTEGER", "type INTEGER"),
    "PYTORCH_CALLCHAINS": ("id INTEGER", "stack INTEGER", "stackDepth INTEGER"),
    "GC_RECORD": ("startNs INTEGER", "endNs INTEGER", "globalTid INTEGER"),
    "CONNECTION_IDS": ("id INTEGER", "connectionId INTEGER"),
    "MEMORY_RECORD": ("component INTEGER", "timestamp INTEGER", "totalAllocated INTEGER", "totalReserved INTEGER",
                      "totalActive INTEGER", "streamPtr INTEGER", "deviceId INTEGER"),
    "OP_MEMORY": (
        "name INTEGER", "size INTEGER", "allocationTime INTEGER", "releaseTime INTEGER", "activeReleaseTime INTEGER",
        "duration INTEGER", "activeDuration INTEGER", "allocationTotalAllocated INTEGER", "allocationTotalReserved INTEGER",
        "allocationTotalActive INTEGER", "releaseTotalAllocated INTEGER", "releaseTotalReserved INTEGER",
        "releaseTotalActive INTEGER", "streamPtr INTEGER", "deviceId INTEGER"),
}
_ANALYSIS_TABLES = {
    "StepTraceTime": (
        "deviceId INTEGER", "step TEXT", "computing NUMERIC", "communication_not_overlapped NUMERIC", "overlapped NUMERIC",
        "communication NUMERIC", "free NUMERIC", "stage NUMERIC", "bubble NUMERIC",
        "communication_not_overlapped_and_exclude_receive NUMERIC", "preparing NUMERIC"),
    "CommAnalyzerTime": (
        "hccl_op_name TEXT", "group_name TEXT", "start_timestamp NUMERIC", "elapse_time NUMERIC", "transit_time NUMERIC",
        "wait_time NUMERIC", "synchronization_time NUMERIC", "idle_time NUMERIC", "step TEXT", "type TEXT"),
    "CommAnalyzerBandwidth": (
        "hccl_op_name TEXT", "group_name TEXT", "transport_type TEXT", "transit_size NUMERIC", "transit_time NUMERIC",
        "bandwidth NUMERIC", "large_packet_ratio NUMERIC", "package_size NUMERIC", "count NUMERIC", "total_duration NUMERIC",
        "step TEXT", "type TEXT"),
    "CommAnalyzerMatrix": (
        "hccl_op_name TEXT", "group_name TEXT", "src_rank TEXT", "dst_rank TEXT", "transport_type TEXT", "transit_size NUMERIC",
        "transit_time NUMERIC", "bandwidth NUMERIC", "step TEXT", "type TEXT", "op_name TEXT"),
}

Rows = Dict[str, List[Sequence[Any]]]


class _Strings:
    """Numbers of texts, as they come."""

    def __init__(self) -> None:
        self.numbers: Dict[str, int] = {}

    def __call__(self, text: Optional[str]) -> int:
        return self.numbers.setdefault(text or "N/A", len(self.numbers))


def write(trace: Trace, folder: str, metadata: Dict[str, Any]) -> None:
    """Both files of a trace, over those that were there. ``metadata``: what profiler_metadata.json has."""
    suffix = f"_{trace.rank}" if trace.is_ranked else ""
    found = _communication.collectives(trace)
    strings = _Strings()
    rows: Rows = {"META_DATA": [(name, json.dumps(value)) for name, value in metadata.items()],
                  "GC_RECORD": list(trace.collections),
                  "ENUM_API_TYPE": [(number, name) for name, number in _API_TYPES.items()],
                  "ENUM_HCCL_DATA_TYPE": list(_HCCL_TYPE_NAMES.items()),
                  "HOST_INFO": [(_communication.hashed(trace.host), trace.host)]}
    rows.update(_session(trace))
    rows.update(_device(trace, found, strings))
    rows.update(_host(trace, strings))
    rows.update(_memory(trace, strings))
    rows["STRING_IDS"] = [(number, text) for text, number in strings.numbers.items()]
    _save(os.path.join(folder, f"ascend_pytorch_profiler{suffix}.db"), _PROFILER_TABLES, rows)
    _save(os.path.join(folder, "analysis.db"), _ANALYSIS_TABLES, _analysis(trace, found))


def _save(path: str, tables: Dict[str, Tuple[str, ...]], rows: Rows) -> None:
    """A table without rows is left out, as Ascend's tools expect."""
    partial = f"{path}.tmp"
    if os.path.exists(partial):
        os.unlink(partial)
    connection = sqlite3.connect(partial)
    try:
        with connection:
            for name, columns in tables.items():
                if rows.get(name):
                    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows[name])
    finally:
        connection.close()
    os.replace(partial, path)


def _session(trace: Trace) -> Rows:
    times = [(operator.begin, operator.begin + operator.duration) for operator in trace.operators] + [
        (kernel.begin, kernel.end) for kernel in trace.kernels]
    devices = sorted({kernel.device for kernel in trace.kernels})
    return {"SESSION_TIME_INFO": [(trace.nanoseconds(min(begin for begin, _ in times)),
                                   trace.nanoseconds(max(end for _, end in times)))] if times else [],
            "RANK_DEVICE_MAP": [(trace.rank if trace.is_ranked else -1, device) for device in devices],
            "STEP_TIME": [(number, trace.nanoseconds(begin), trace.nanoseconds(end)) for number, begin, end in trace.steps]}


def _device(trace: Trace, found: List[Collective], strings: _Strings) -> Rows:
    process = trace.operators[0].thread >> 32 if trace.operators else 0
    inputs: Dict[Optional[int], Operator] = {
        operator.external: operator for operator in trace.operators if operator.external is not None}
    tasks: List[Sequence[Any]] = []
    computed: List[Sequence[Any]] = []

    def spans(kernel: Kernel) -> Tuple[int, int]:
        return trace.nanoseconds(kernel.begin), trace.nanoseconds(kernel.end)

    for number, kernel in enumerate(trace.kernels):
        kind = strings(_COPY if kernel.is_copy else kernel.core)
        tasks.append((*spans(kernel), kernel.device, kernel.correlation, number, process, kind, _NO_CONTEXT, kernel.stream,
                      number, _NO_MODEL))
        if not kernel.is_copy and not kernel.is_communication:
            operator = inputs.get(kernel.external)
            known = (operator.shapes, operator.dtypes, None, *[None] * 3) if operator else (None,) * 6
            shapes, dtypes, formats, *written = map(strings, kernel.operands or known)
            computed.append((strings(kernel.name), number, None, None, kind, strings(kernel.type), formats, dtypes, shapes,
                             *reversed(written), *[strings(None)] * 2))
    messages: List[Sequence[Any]] = [
        (strings(one.name), *spans(one.kernel), one.kernel.correlation, strings(one.group), number, 0, 0,
         _HCCL_TYPES.get(one.dtype, _UNKNOWN_TYPE), strings(None), one.elements, strings(one.name.partition("__")[0] + "_"),
         one.kernel.device) for number, one in enumerate(found)]
    return {"TASK": tasks, "COMPUTE_TASK_INFO": computed, "COMMUNICATION_OP": messages}


def _host(trace: Trace, strings: _Strings) -> Rows:
    launched: Dict[int, List[int]] = collections.defaultdict(list)
    for kernel in trace.kernels:
        if kernel.external is not None and kernel.correlation is not None:
            launched[kernel.external].append(kernel.correlation)
    operators: List[Sequence[Any]] = []
    connections: List[Sequence[Any]] = []
    chains: Dict[str, int] = {}
    for operator in trace.operators:
        own = launched.get(operator.external, []) if operator.external is not None else []
        number = len(operators) if own else None
        connections += [(number, one) for one in own]
        operators.append((trace.nanoseconds(operator.begin), trace.nanoseconds(operator.begin + operator.duration),
                          operator.thread, number, strings(operator.name), operator.sequence, operator.forward_thread,
                          strings(operator.dtypes) if operator.dtypes else None,
                          strings(operator.shapes) if operator.shapes else None,
                          chains.setdefault(operator.stack, len(chains)) if operator.stack else None, _API_TYPES["op"]))
    thread = trace.operators[0].thread if trace.operators else 0
    # Ascend's tools look for the operators of a step below one of its name.
    operators += [(trace.nanoseconds(begin), trace.nanoseconds(end), thread, None, strings(f"ProfilerStep#{number}"), None, None,
                   None, None, None, _API_TYPES["op"]) for number, begin, end in trace.steps]
    calls: List[Sequence[Any]] = [
        (trace.nanoseconds(call.begin), trace.nanoseconds(call.begin + call.duration), _API_TYPES[call.level], call.thread,
         call.correlation, strings(call.name)) for call in trace.calls]
    frames: List[Sequence[Any]] = [
        (number, strings(frame), depth) for stack, number in chains.items()
        for depth, frame in enumerate(part for part in stack.split(";") if part)]
    return {"PYTORCH_API": operators, "PYTORCH_CALLCHAINS": frames, "CONNECTION_IDS": connections, "CANN_API": calls}


def _sums(entry: Optional[Dict[str, Any]]) -> Iterable[Optional[int]]:
    return [None if entry is None else entry.get(key, 0) for key in ("Total Allocated", "Total Reserved", "Total Allocated")]


def _memory(trace: Trace, strings: _Strings) -> Rows:
    records: List[Sequence[Any]] = [
        (strings("PTA"), trace.nanoseconds(entry["time"]), *_sums(entry), None, entry.get("Device Id", 0))
        for entry in trace.memory]
    taken_blocks: List[Sequence[Any]] = []
    for owner, taken, given in _files.blocks(trace):
        begin, end = trace.nanoseconds(taken["time"]), None if given is None else trace.nanoseconds(given["time"])
        lasted = None if end is None else end - begin
        taken_blocks.append((strings(owner), taken["Bytes"], begin, end, end, lasted, lasted, *_sums(taken), *_sums(given), None,
                             taken.get("Device Id", 0)))
    return {"MEMORY_RECORD": records, "OP_MEMORY": taken_blocks}


def _analysis(trace: Trace, found: List[Collective]) -> Rows:
    """Of analysis.db: what communication.json, communication_matrix.json and step_trace_time.csv have, in their units."""
    rows: Rows = {"StepTraceTime": [(device, str(step), *times) for device, step, times in _files.step_times(trace)],
                  "CommAnalyzerTime": [], "CommAnalyzerBandwidth": [], "CommAnalyzerMatrix": []}
    for step, kind, name, group, told in _entries(_communication.times(trace, found)):
        time = told["Communication Time Info"]
        rows["CommAnalyzerTime"].append((name, group, time["Start Timestamp(us)"], time["Elapse Time(ms)"],
                                         time["Transit Time(ms)"], None, None, None, step, kind))
        for transport, band in told["Communication Bandwidth Info"].items():
            for size, (count, duration) in band["Size Distribution"].items():
                rows["CommAnalyzerBandwidth"].append((
                    name, group, transport, band["Transit Size(MB)"], band["Transit Time(ms)"], band["Bandwidth(GB/s)"],
                    band["Large Packet Ratio"], float(size), count, duration, step, kind))
    for step, kind, name, group, links in _entries(_communication.matrix(trace, found)):
        for link, told in links.items():
            source, _, target = link.partition("-")
            rows["CommAnalyzerMatrix"].append((
                name, group, source, target, told["Transport Type"], told["Transit Size(MB)"], told["Transit Time(ms)"],
                told["Bandwidth(GB/s)"], step, kind, told["Op Name"]))
    return rows


def _entries(tables: Dict[str, Any]) -> Iterable[Tuple[str, str, str, str, Dict[str, Any]]]:
    """(step, kind, name, group, what is told) of each collective of a table by step and kind."""
    for step, kinds in tables.items():
        for kind, collectives in kinds.items():
            for name, told in collectives.items():
                operation, mark, group = name.partition("@")
                if mark:
                    yield step, kind, operation, group, told
