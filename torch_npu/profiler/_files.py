"""The folder ``*_ascend_pt/ASCEND_PROFILER_OUTPUT`` that Ascend's tools read, written from a trace."""

import collections
import csv
import json
import os
import statistics
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from torch_npu.profiler import _columns, _communication, _spans, _timeline
from torch_npu.profiler._trace import Kernel, Operator, Trace

_NONE = "N/A"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _unix(trace: Trace, time: float) -> str:
    """A point of time; the tab keeps spreadsheets from rounding it."""
    return trace.unix(time) + "\t"


def _write(folder: str, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def write(trace: Trace, folder: str, with_counters: bool) -> None:
    """All files of a trace. ``with_counters``: kernel_details.csv has the columns of the hardware's counters, N/A."""
    os.makedirs(folder, exist_ok=True)
    kernel_details(trace, folder, with_counters)
    operator_details(trace, folder)
    op_statistic(trace, folder)
    api_statistic(trace, folder)
    step_trace_time(trace, folder)
    if trace.memory:
        memory_record(trace, folder)
        operator_memory(trace, folder)
    found = _communication.collectives(trace)
    if found:
        _write_json(folder, "communication.json", _communication.times(trace, found))
        _write_json(folder, "communication_matrix.json", _communication.matrix(trace, found))
    _write_json(folder, "trace_view.json", _timeline.events(trace, found))


def kernel_details(trace: Trace, folder: str, with_counters: bool) -> None:
    """One line a kernel. Where its own operands were not recorded, shapes and dtypes are those of the operator it belongs to."""
    inputs: Dict[Optional[int], Operator] = {
        operator.external: operator for operator in trace.operators if operator.external is not None}
    counters = _columns.PIPE_UTILIZATION if with_counters else ()
    columns = _columns.KERNEL_DETAILS if trace.steps else _columns.KERNEL_DETAILS[1:]
    rows = []
    for kernel in trace.kernels:
        if kernel.is_copy:
            continue
        step = trace.step_of(kernel)
        row: List[Any] = [_NONE if step is None else step] if trace.steps else []
        row += [kernel.device, kernel.name, kernel.type, kernel.core, _unix(trace, kernel.begin), _number(kernel.duration),
                _number(kernel.wait), _NONE, _NONE, _NONE, *(kernel.operands or _described(inputs.get(kernel.external)))]
        rows.append(row + [_NONE] * (len(columns) + len(counters) - len(row)))
    _write(folder, "kernel_details.csv", (*columns, *counters), rows)


def _described(operator: Optional[Operator]) -> List[str]:
    """Shapes and dtypes of an operator's inputs."""
    return [operator.shapes, operator.dtypes] if operator and operator.shapes else [_NONE] * 2


def operator_details(trace: Trace, folder: str) -> None:
    """One line an operator of PyTorch, with the device's time of what it and its children launched."""
    own: Dict[Any, List[Kernel]] = collections.defaultdict(list)
    for kernel in trace.kernels:
        own[kernel.external].append(kernel)

    def device_time(operator: Operator, cube: bool, children: bool) -> float:
        kernels = own.get(operator.external, []) if operator.external is not None else []
        total = sum(kernel.duration for kernel in kernels if not cube or kernel.core == "AI_CORE")
        return total + (sum(device_time(child, cube, True) for child in operator.children) if children else 0.0)

    rows = [[operator.name, operator.shapes, operator.stack, _number(operator.self_duration), _number(operator.duration),
             *(_number(device_time(operator, cube, children)) for cube in (False, True) for children in (False, True))]
            for operator in trace.operators]
    _write(folder, "operator_details.csv", _columns.OPERATOR_DETAILS, rows)


def op_statistic(trace: Trace, folder: str) -> None:
    """Sums by kind of kernel, the longest first."""
    groups: Dict[Tuple[int, str, str], List[float]] = collections.defaultdict(list)
    for kernel in trace.kernels:
        if not kernel.is_copy:
            groups[kernel.device, kernel.type, kernel.core].append(kernel.duration)
    total = sum(map(sum, groups.values())) or 1.0
    rows = [[*key, len(times), *map(_number, (
        sum(times), min(times), sum(times) / len(times), max(times), 100 * sum(times) / total))]
            for key, times in sorted(groups.items(), key=lambda item: -sum(item[1]))]
    _write(folder, "op_statistic.csv", _columns.OP_STATISTIC, rows)


def api_statistic(trace: Trace, folder: str) -> None:
    """Sums by the call of CANN that the host made."""
    device = trace.kernels[0].device if trace.kernels else 0
    groups: Dict[Tuple[str, str], List[float]] = collections.defaultdict(list)
    for call in trace.calls:
        groups[call.level, call.name].append(call.duration)
    rows = [[device, *key, _number(sum(times)), len(times), *map(_number, (
        sum(times) / len(times), min(times), max(times), statistics.pvariance(times)))]
        for key, times in sorted(groups.items(), key=lambda item: -sum(item[1]))]
    _write(folder, "api_statistic.csv", _columns.API_STATISTIC, rows)


def _step_times(kernels: List[Kernel], begin: float, end: float) -> Tuple[float, ...]:
    activity = _spans.activity(kernels, begin, end)
    exposed, communication = _spans.length(activity.exposed), _spans.length(activity.communication)
    sends = _spans.without(activity.communication, activity.receiving)
    exposed_sends = _spans.length(_spans.without(sends, activity.computing))
    bubble = exposed - exposed_sends
    busy = activity.computing + activity.communication
    first = min((start for start, _ in busy), default=end)
    return (_spans.length(activity.computing), exposed, communication - exposed, communication, _spans.length(activity.free),
            end - begin - bubble, bubble, exposed_sends, first - begin)


def step_times(trace: Trace) -> List[Tuple[int, Any, Tuple[float, ...]]]:
    """(device, step, times): what a device did in each step, as the columns of step_trace_time.csv tell. Stage is without Bubble,
    the time in which it did nothing but wait for a message."""
    rows = []
    for device in sorted({kernel.device for kernel in trace.kernels if not kernel.is_copy}):
        kernels = [kernel for kernel in trace.kernels if kernel.device == device and not kernel.is_copy]
        steps: List[Tuple[Any, float, float]] = list(trace.device_steps(device)) or [
            ("", kernels[0].begin, max(kernel.end for kernel in kernels))]
        rows += [(device, number, _step_times(kernels, begin, end)) for number, begin, end in steps]
    return rows


def step_trace_time(trace: Trace, folder: str) -> None:
    """The times of each step: computing, communication, their overlap, nothing."""
    rows = [[device, step, *map(_number, times)] for device, step, times in step_times(trace)]
    _write(folder, "step_trace_time.csv", _columns.STEP_TRACE_TIME, rows)


def _mega(value: float) -> str:
    return _number(value / 2**20)


def memory_record(trace: Trace, folder: str) -> None:
    """The allocator's sums after each allocation and release."""
    rows = [["PTA", _unix(trace, entry["time"]), _mega(entry.get("Total Allocated", 0)), _mega(entry.get("Total Reserved", 0)),
             _mega(entry.get("Total Allocated", 0)), _NONE, f"NPU:{entry.get('Device Id', 0)}"] for entry in trace.memory]
    _write(folder, "memory_record.csv", _columns.MEMORY_RECORD, rows)


def _owners(operators: List[Operator], times: List[float]) -> Dict[float, str]:
    """By time, the name of the shortest operator that runs then, of any thread."""
    owners: Dict[float, str] = {}
    running: List[Operator] = []
    pending = iter(operators)  # in the order of their begins
    following = next(pending, None)
    for time in sorted(set(times)):
        while following is not None and following.begin <= time:
            running.append(following)
            following = next(pending, None)
        running = [operator for operator in running if time <= operator.begin + operator.duration]
        if running:
            owners[time] = min(running, key=lambda operator: (operator.duration, operator.name)).name
    return owners


def blocks(trace: Trace) -> Iterator[Tuple[str, Dict[str, Any], Optional[Dict[str, Any]]]]:
    """Each block of memory: the operator that took it, its entry in the trace, and that of its release, None if it was kept."""
    owners = _owners(trace.operators, [entry["time"] for entry in trace.memory])
    open_blocks: Dict[Any, Dict[str, Any]] = {}
    for entry in trace.memory:
        if entry.get("Bytes", 0) >= 0:
            open_blocks[entry.get("Addr")] = entry
        elif entry.get("Addr") in open_blocks:
            taken = open_blocks.pop(entry["Addr"])
            yield owners.get(taken["time"], _NONE), taken, entry
    for taken in open_blocks.values():
        yield owners.get(taken["time"], _NONE), taken, None


def operator_memory(trace: Trace, folder: str) -> None:
    """Each block of memory: when it was taken, by which operator, and when it was given back."""

    def sums(entry: Dict[str, Any]) -> List[str]:
        return [_mega(entry.get(key, 0)) for key in ("Total Allocated", "Total Reserved", "Total Allocated")]

    rows = []
    for owner, taken, given in blocks(trace):
        end = [_NONE] * 4 if given is None else [
            *[_unix(trace, given["time"])] * 2, *[_number(given["time"] - taken["time"])] * 2]
        rows.append([owner, _number(taken["Bytes"] / 1024), _unix(trace, taken["time"]), *end, *sums(taken),
                     *(sums(given) if given else [_NONE] * 3), _NONE, f"NPU:{taken.get('Device Id', 0)}"])
    _write(folder, "operator_memory.csv", _columns.OPERATOR_MEMORY, rows)


def _write_json(folder: str, name: str, content: Any) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file)
