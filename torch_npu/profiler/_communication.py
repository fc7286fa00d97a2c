"""What a trace knows of collectives, for communication.json and communication_matrix.json.

How long a collective took is measured, on its stream: from its begin there to its end, the wait for other ranks included, which
one rank cannot tell apart. What it carried is PyTorch's message, and over each link what a direct exchange of it needs.
"""

import collections
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from torch_npu.profiler._trace import Group, Kernel, Operator, Trace

# Bytes of an element, by PyTorch's names.
_ITEM_SIZES = {"Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8,
               "Double": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Float8_e5m2": 1, "Float8_e4m3fn": 1}
_MESSAGES = ("Send", "Recv", "BatchSendRecv")
_TRANSPORT, _OWN = "SDMA", "LOCAL"
_MEGA = 1e6
_LARGE_PACKET = 32 * 2**20  # bytes: from here on a packet counts as large
_TOTAL = "Total Op Info"


def group_identity(group: Group) -> str:
    """The name under which profiler_metadata.json has a group."""
    return f"group_{group.name}"


def hashed(identity: str) -> str:
    """The number by which Ascend's tools call a group: two hashes of 32 bits, one above the other."""
    high = low = 0
    for character in identity:
        high, low = (high * 29 + ord(character)) & 0xFFFFFFFF, (low * 131 + ord(character)) & 0xFFFFFFFF
    return str(high << 32 | low)


@dataclass
class Collective:
    """One collective, or message, that ran. ``rank`` and ``peer`` count within the group."""

    kernel: Kernel
    operation: str  # HCCL's: AllReduce
    name: str       # as Ascend's tools write it: hcom_allReduce__042_0_1
    group: str      # hashed
    ranks: List[int]
    rank: int
    peer: Optional[int]
    sent: Optional[float]  # bytes; None where the trace does not tell
    received: Optional[float]
    dtype: str = ""  # PyTorch's name, empty where the trace does not tell
    elements: Optional[int] = None

    @property
    def kind(self) -> str:
        return "p2p" if self.operation in _MESSAGES else "collective"

    @property
    def size(self) -> float:
        """Bytes of the message: the larger of what goes in and comes out."""
        return max(self.sent or 0.0, self.received or 0.0)

    def links(self) -> Dict[int, float]:
        """Bytes to each rank of the group in a direct exchange; none to itself."""
        count, sent, received = len(self.ranks), self.sent or 0.0, self.received or 0.0
        if self.operation in _MESSAGES:
            to_others = {} if self.peer is None or self.operation == "Recv" else {self.peer: sent}
            return {self.rank: 0.0, **to_others}
        if self.operation in ("Broadcast", "Scatter", "Reduce", "Gather"):
            return {self.rank: 0.0}  # the trace does not tell the root
        each = {"AllReduce": 2 * sent / count, "AllGather": sent, "ReduceScatter": received}.get(self.operation, sent / count)
        return {rank: 0.0 if rank == self.rank else each for rank in range(count)}


def _spelled(operation: str) -> str:
    return "receive" if operation == "Recv" else operation[0].lower() + operation[1:]


def _ranks_of(trace: Trace, told: Dict[str, Any]) -> List[int]:
    group = trace.groups.get(str(told.get("Process Group Name", "")))
    return group.ranks if group else list(range(int(told.get("Group size", 1))))


def _bytes(told: Dict[str, Any], key: str) -> Optional[float]:
    size = _ITEM_SIZES.get(str(told.get("dtype")))
    return None if size is None or key not in told else float(told[key]) * size


def collectives(trace: Trace) -> List[Collective]:
    """The collectives of a trace, in the order in which they ran."""
    by_external: Dict[Optional[int], Operator] = {
        operator.external: operator for operator in trace.operators if operator.collective}
    counts: Dict[Tuple[str, str], int] = collections.defaultdict(int)
    found = []
    for kernel in trace.kernels:
        if not kernel.is_communication:
            continue
        operator = by_external.get(kernel.external) if kernel.external is not None else None
        told = operator.collective if operator else {}
        ranks = _ranks_of(trace, told)
        group = trace.groups.get(str(told.get("Process Group Name", ""))) or Group("unknown", "", ranks)
        identity = hashed(group_identity(group))
        operation = kernel.name[len("Hccl"):]
        number = counts[identity, operation]
        counts[identity, operation] += 1
        other = told.get("Dst Rank", told.get("Src Rank"))
        found.append(Collective(
            kernel, operation, f"hcom_{_spelled(operation)}__{identity[-3:]}_{number}_1", identity, ranks,
            ranks.index(trace.rank) if trace.rank in ranks else 0, ranks.index(other) if other in ranks else None,
            _bytes(told, "In msg nelems"), _bytes(told, "Out msg nelems"), str(told.get("dtype", "")),
            max(told["In msg nelems"], told["Out msg nelems"]) if {"In msg nelems", "Out msg nelems"} <= told.keys() else None))
    return found


def _by_step(trace: Trace, found: List[Collective]) -> Iterator[Tuple[str, str, List[Collective]]]:
    """("step3", "collective" or "p2p", what ran in it); "step" where the trace has no steps."""
    groups: Dict[Tuple[str, str], List[Collective]] = collections.defaultdict(list)
    for one in found:
        step = trace.step_of(one.kernel)
        groups["step" if step is None else f"step{step}", one.kind].append(one)
    for (step_name, kind), members in groups.items():
        yield step_name, kind, members


def _ratio(size: float, milliseconds: float) -> float:
    return round(size / milliseconds, 4) if milliseconds else 0.0  # megabytes a millisecond are gigabytes a second


def _bandwidth(members: List[Collective]) -> Dict[str, Any]:
    told = [one for one in members if one.sent is not None or one.received is not None]
    if not told:
        return {}
    sizes: Dict[str, List[float]] = {}
    for one in told:
        entry = sizes.setdefault(str(one.size / _MEGA), [0, 0.0])
        entry[0] += 1
        entry[1] += one.kernel.duration / 1e3
    size, time = sum(one.size for one in told), sum(one.kernel.duration for one in told) / 1e3
    large = sum(one.size >= _LARGE_PACKET for one in told) / len(told)
    return {_TRANSPORT: {"Transit Size(MB)": size / _MEGA, "Transit Time(ms)": time,
                         "Bandwidth(GB/s)": _ratio(size / _MEGA, time), "Large Packet Ratio": large, "Size Distribution": sizes}}


def _times(members: List[Collective]) -> Dict[str, float]:
    elapsed = sum(one.kernel.duration for one in members) / 1e3
    return {"Elapse Time(ms)": elapsed, "Transit Time(ms)": elapsed}


def times(trace: Trace, found: List[Collective]) -> Dict[str, Any]:
    """communication.json: by step, kind and collective its time, bytes and bandwidth; how long it waited is not known."""
    tables: Dict[str, Any] = {}
    for step, kind, members in _by_step(trace, found):
        table = tables.setdefault(step, {"p2p": {}, "collective": {}})[kind]
        for one in members:
            table[f"{one.name}@{one.group}"] = {
                "Communication Time Info": {"Start Timestamp(us)": one.kernel.begin, **_times([one])},
                "Communication Bandwidth Info": _bandwidth([one])}
        table[_TOTAL] = {"Communication Time Info": _times(members), "Communication Bandwidth Info": _bandwidth(members)}
    return tables


def _link(one: Collective, rank: int, size: float) -> Dict[str, Any]:
    time = one.kernel.duration / 1e3 if size else 0.0
    return {"Transport Type": _OWN if rank == one.rank else _TRANSPORT, "Transit Time(ms)": time,
            "Transit Size(MB)": size / _MEGA, "Bandwidth(GB/s)": _ratio(size / _MEGA, time), "Op Name": one.name}


def matrix(trace: Trace, found: List[Collective]) -> Dict[str, Any]:
    """communication_matrix.json: by step, kind and collective the bytes from this rank to each of the group."""
    tables: Dict[str, Any] = {}
    for step, kind, members in _by_step(trace, found):
        table = tables.setdefault(step, {"p2p": {}, "collective": {}})[kind]
        for one in members:
            links = {f"{one.rank}-{rank}": _link(one, rank, size) for rank, size in one.links().items()}
            table[f"{one.name}@{one.group}"] = links
    return tables


def parallel_groups(trace: Trace) -> Dict[str, Any]:
    """``parallel_group_info`` of profiler_metadata.json."""
    return {group_identity(group): {"group_name": group.description or group.name,
                                    "group_rank": group.ranks.index(trace.rank) if trace.rank in group.ranks else -1,
                                    "global_ranks": group.ranks} for group in trace.groups.values()}
