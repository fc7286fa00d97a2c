"""msprof --analyze: the times, bytes and links of collectives. How long one waited for the others is in its time: one rank cannot
tell it apart. Over a link goes what a direct exchange sends there; of collectives with a root none, for it is not recorded."""
import json
import os
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

from ._msprof_database import save
from ._msprof_spans import Collective, collectives
from ._msprof_tables import NoProfile, read

RULES = ("communication", "communication_matrix")
_TRANSPORT, _OWN = "SDMA", "LOCAL"
_LARGE_PACKET = 32 << 20


def _ratio(size: float, milliseconds: float) -> float:
    return round(size / milliseconds, 4) if milliseconds else 0.0  # megabytes a millisecond are gigabytes a second


def _milliseconds(one: Collective) -> float:
    return (one.task.end - one.task.begin) / 1e6


def _told(members: List[Collective]) -> Dict[str, Any]:
    time, size = sum(map(_milliseconds, members)), sum(one.size for one in members) / 1e6
    sizes: Dict[str, List[float]] = {}
    for one in members:
        entry = sizes.setdefault(str(one.size / 1e6), [0, 0.0])
        entry[0] += 1
        entry[1] += _milliseconds(one)
    return {"Communication Time Info": {"Elapse Time(ms)": time, "Transit Time(ms)": time},
            "Communication Bandwidth Info": {_TRANSPORT: {
                "Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": _ratio(size, time),
                "Large Packet Ratio": sum(one.size >= _LARGE_PACKET for one in members) / len(members),
                "Size Distribution": sizes}}}


def _links(one: Collective) -> Dict[str, Dict[str, Any]]:
    each = {"AllReduce": 2 * one.sent / one.ranks, "AllGather": one.sent, "ReduceScatter": one.received,
            "AlltoAll": one.sent / one.ranks, "AlltoAllV": one.sent / one.ranks}.get(one.operation, 0.0) / 1e6
    time = _milliseconds(one)
    return {f"{one.rank}-{rank}": {
        "Transport Type": _OWN if rank == one.rank else _TRANSPORT, "Transit Time(ms)": 0.0 if rank == one.rank else time,
        "Transit Size(MB)": 0.0 if rank == one.rank else each,
        "Bandwidth(GB/s)": 0.0 if rank == one.rank else _ratio(each, time), "Op Name": one.name} for rank in range(one.ranks)}


def _tables(found: List[Collective]) -> Dict[str, Dict[str, Any]]:
    """By rule: what is told of each collective, and the sum of all."""
    times: Dict[str, Any] = {}
    for one in found:
        told = _told([one])
        told["Communication Time Info"] = {"Start Timestamp(us)": one.task.begin / 1e3, **told["Communication Time Info"]}
        times[f"{one.name}@{one.group}"] = told
    times["Total Op Info"] = _told(found)
    return {"communication": times, "communication_matrix": {f"{one.name}@{one.group}": _links(one) for one in found}}


def _time_rows(one: Collective) -> List[Sequence[Any]]:
    return [(one.name, one.group, one.task.begin / 1e3, _milliseconds(one), _milliseconds(one), None, None, None)]


def _band_rows(one: Collective) -> List[Sequence[Any]]:
    size, time = one.size / 1e6, _milliseconds(one)
    return [(one.name, one.group, _TRANSPORT, size, time, _ratio(size, time), float(one.size >= _LARGE_PACKET), size, 1, time)]


def _matrix_rows(one: Collective) -> List[Sequence[Any]]:
    return [(one.name, one.group, *link.split("-"), told["Transport Type"], told["Transit Size(MB)"], told["Transit Time(ms)"],
             told["Bandwidth(GB/s)"]) for link, told in _links(one).items()]


# By rule the tables of communication_analyzer.db: columns, and the rows of a collective.
_COMMON = ("hccl_op_name TEXT", "group_name TEXT")
_DATABASE: Dict[str, Dict[str, Tuple[Tuple[str, ...], Callable[[Collective], List[Sequence[Any]]]]]] = {
    "communication": {
        "CommAnalyzerTime": ((*_COMMON, "start_timestamp NUMERIC", "elapse_time NUMERIC", "transit_time NUMERIC",
                              "wait_time NUMERIC", "synchronization_time NUMERIC", "idle_time NUMERIC"), _time_rows),
        "CommAnalyzerBandwidth": ((*_COMMON, "transport_type TEXT", "transit_size NUMERIC", "transit_time NUMERIC",
                                   "bandwidth NUMERIC", "large_packet_ratio NUMERIC", "package_size NUMERIC", "count NUMERIC",
                                   "total_duration NUMERIC"), _band_rows)},
    "communication_matrix": {
        "CommAnalyzerMatrix": ((*_COMMON, "src_rank TEXT", "dst_rank TEXT", "transport_type TEXT", "transit_size NUMERIC",
                                "transit_time NUMERIC", "bandwidth NUMERIC"), _matrix_rows)}}


def analyze(folder: str, rules: Iterable[str], form: str) -> str:
    """Writes what the rules say to the folder's analyze/, whose path is returned: communication.json and
    communication_matrix.json where the form is text, communication_analyzer.db where it is db.

    NoProfile where there are no collectives to analyze.
    """
    found = list(collectives(read(folder)))
    if not found:
        raise NoProfile("it has no collectives to analyze")
    output = os.path.join(folder, "analyze")
    os.makedirs(output, exist_ok=True)
    if form == "db":
        made = {name: (columns, [row for one in found for row in rows(one)])
                for rule in rules for name, (columns, rows) in _DATABASE[rule].items()}
        save(os.path.join(output, "communication_analyzer.db"), made)
        return output
    tables = _tables(found)
    for rule in rules:
        with open(os.path.join(output, f"{rule}.json"), "w", encoding="utf-8") as file:
            json.dump(tables[rule], file)
    return output
