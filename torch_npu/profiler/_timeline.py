"""The events of trace_view.json: those of the trace, and the tracks that Ascend's tools look for beside them."""

import bisect
import collections
from typing import Any, Dict, List, Set, Tuple

from torch_npu.profiler import _spans
from torch_npu.profiler._communication import Collective
from torch_npu.profiler._trace import Trace

# Numbers of processes of a device's further tracks, above those of a system.
_FIRST_PROCESS = 1 << 30
_HARDWARE = "Ascend Hardware"
_KINDS = (("Computing", "computing"), ("Communication", "communication"), ("Communication(Not Overlapped)", "exposed"),
          ("Free", "free"))


def _named(process: int, name: str, label: str, threads: List[str]) -> List[Dict[str, Any]]:
    def meta(kind: str, thread: int, **args: Any) -> Dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}

    events = [meta("process_name", 0, name=name), meta("process_labels", 0, labels=label),
              meta("process_sort_index", 0, sort_index=process)]
    for number, thread in enumerate(threads):
        events += [meta("thread_name", number, name=thread), meta("thread_sort_index", number, sort_index=number)]
    return events


def _communication(found: List[Collective], device: int, process: int) -> List[Dict[str, Any]]:
    own = [one for one in found if one.kernel.device == device]
    groups = sorted({one.group for one in own})
    if not groups:
        return []
    events = _named(process, "Communication", f"NPU {device}", [f"Group {group} Communication" for group in groups])
    for one in own:
        kernel = one.kernel
        events.append({"ph": "X", "name": one.name, "pid": process, "tid": groups.index(one.group), "ts": kernel.begin,
                       "dur": kernel.duration, "args": {"connection_id": kernel.correlation, "stream": kernel.stream,
                                                        "bytes": one.size, "ranks": one.ranks}})
    return events


def _overlap(trace: Trace, device: int, process: int) -> List[Dict[str, Any]]:
    kernels = [kernel for kernel in trace.kernels if kernel.device == device and not kernel.is_copy]
    if not kernels:
        return []
    activity = _spans.activity(kernels, kernels[0].begin, max(kernel.end for kernel in kernels))
    events = _named(process, "Overlap Analysis", f"NPU {device}", [name for name, _ in _KINDS])
    for number, (name, attribute) in enumerate(_KINDS):
        events += [{"ph": "X", "name": name, "pid": process, "tid": number, "ts": begin, "dur": end - begin, "args": {}}
                   for begin, end in getattr(activity, attribute)]
    return events


def _collections(trace: Trace) -> List[Dict[str, Any]]:
    """Python's garbage collections, on a track of their own."""
    if not trace.collections:
        return []
    return _named(_FIRST_PROCESS - 1, "Python GC", "CPU", ["Python GC"]) + [
        {"ph": "X", "name": "GC", "pid": _FIRST_PROCESS - 1, "tid": 0, "ts": (begin - trace.origin_ns) / 1000,
         "dur": (end - begin) / 1000, "args": {"Thread Id": thread & 0xFFFFFFFF}} for begin, end, thread in trace.collections]


def _hardware(event: Dict[str, Any], cores: Dict[Any, str]) -> Dict[str, Any]:
    """An event of the trace with the names and arguments that Ascend's tools look for."""
    args = event.get("args", {})
    if event.get("name") == "process_name" and args.get("name") == "NPU":
        return {**event, "args": {"name": _HARDWARE}}
    if event.get("cat") == "ac2g":
        return {**event, "cat": "async_npu", "name": "async_npu"}
    if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#"):
        return {**event, "cat": "cpu_op"}
    core = cores.get(args.get("correlation")) if event.get("ph") == "X" and "stream" in args else None
    if core is None:
        return event
    return {**event, "args": {**args, "Task Type": core, "Stream Id": args["stream"], "Task Id": args["correlation"],
                              "Device Id": args.get("device", 0)}}


def _is_placeholder(event: Dict[str, Any], devices: Set[int], busy: Set[Any]) -> bool:
    """PyTorch names tracks of sixteen GPUs, whatever there is; a later name would hide that of a device here."""
    if event.get("ph") != "M" or not str(event.get("name")).startswith("process_"):
        return False
    pid, args = event.get("pid"), event.get("args", {})
    told = args.get("name") or args.get("labels")
    return pid not in busy or (pid in devices and told is not None and not str(told).startswith("NPU"))


def _is_annotation(event: Dict[str, Any]) -> bool:
    return event.get("ph") == "X" and (event.get("cat") == "user_annotation" or event["name"].startswith("ProfilerStep#"))


def _lasts(event: Dict[str, Any]) -> Tuple[int, int]:
    """Begin and end in nanoseconds: sums of fractions of microseconds would differ in the last digit."""
    begin = round(float(event["ts"]) * 1000)
    return begin, begin + round(float(event["dur"]) * 1000)


def _nested(events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The events with the frames of Python cut at the annotations whose borders they cross.

    An annotation begins within the frame of the function that begins it, and ends after it; its end is the same with another
    function. On one track events must lie within each other: viewers leave out those that do not, and that would be the steps.
    """
    borders: Dict[Any, List[Tuple[int, int]]] = collections.defaultdict(list)  # by track: (border, the other border), nanoseconds
    for event in filter(_is_annotation, events):
        begin, end = _lasts(event)
        borders[event["pid"], event["tid"]] += [(begin, end), (end, begin)]
    for found in borders.values():
        found.sort()
    made = []
    for event in events:
        crossed = borders.get((event.get("pid"), event.get("tid"))) if event.get("cat") == "python_function" else None
        if crossed:
            begin, end = _lasts(event)
            first, last = bisect.bisect_left(crossed, (begin + 1, 0)), bisect.bisect_left(crossed, (end, 0))
            within = crossed[first:last]
            ends = [border for border, other in within if other < begin]
            begins = [border for border, other in within if other > end]
            if ends or begins:
                begin, end = max([begin, *ends]), min([end, *begins])
                event = {**event, "ts": begin / 1000, "dur": max(end - begin, 0) / 1000}
        made.append(event)
    return made


def _forward(events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The events with no arrow from a launch to its kernel that goes back in time.

    The host's clock and the device's are converted to one with an error of some 100 ns, so that a kernel which starts at once can
    seem to begin before its launch: the arrow then ends within the kernel, not at its begin.
    """
    launched = {event["id"]: float(event["ts"]) for event in events if event.get("ph") == "s" and event.get("cat") == "ac2g"}
    ends = {(event["pid"], event["tid"], event["ts"]): float(event["ts"]) + float(event["dur"])
            for event in events if event.get("ph") == "X" and "stream" in event.get("args", {})}
    made = []
    for event in events:
        if event.get("ph") == "f" and event.get("cat") == "ac2g":
            begin = float(event["ts"])
            end = ends.get((event["pid"], event["tid"], event["ts"]), begin)
            event = {**event, "ts": max(begin, min(launched.get(event["id"], begin), end))}
        made.append(event)
    return made


def events(trace: Trace, found: List[Collective]) -> List[Dict[str, Any]]:
    """All events, with "Communication" (a track a group) and "Overlap Analysis" for each device. Times are Unix microseconds, as
    in the tables."""
    cores = {kernel.correlation: "SDMA_SQE" if kernel.is_copy else kernel.core for kernel in trace.kernels}
    devices = {kernel.device for kernel in trace.kernels}
    busy = {event.get("pid") for event in trace.events if event.get("ph") != "M"}
    made = [_hardware(event, cores) for event in _forward(_nested(trace.events)) if not _is_placeholder(event, devices, busy)]
    for device in sorted({kernel.device for kernel in trace.kernels}):
        process = _FIRST_PROCESS + 2 * device
        made += _communication(found, device, process) + _overlap(trace, device, process + 1)
    made += _collections(trace)
    return [{**event, "ts": trace.unix(float(event["ts"]))} if "ts" in event else event for event in made]
