"""What a device did when, and its collectives, from a profile of softcann's collector. Times are nanoseconds."""
import collections
import re
from typing import Dict, Iterator, List, NamedTuple, Tuple

from ._msprof_tables import NA, Profile, Task

Span = Tuple[int, int]


def union(spans: List[Span]) -> List[Span]:
    """The same time without overlaps, in order."""
    merged: List[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def without(spans: List[Span], taken: List[Span]) -> List[Span]:
    """What of ``spans`` is not in ``taken``; both are unions."""
    left, index = [], 0
    for begin, end in spans:
        while index < len(taken) and taken[index][1] <= begin:
            index += 1
        at = index
        while at < len(taken) and taken[at][0] < end:
            if taken[at][0] > begin:
                left.append((begin, taken[at][0]))
            begin = max(begin, taken[at][1])
            at += 1
        if begin < end:
            left.append((begin, end))
    return left


def activity(profile: Profile, device: int) -> Dict[str, List[Span]]:
    """By the names of Ascend's tools, when a device computed, communicated, did only that, or nothing; copies do not count."""
    tasks = [task for task in profile.tasks if task.device == device and task.core not in ("SDMA", "MODEL_EXECUTE")]
    computing = union([(task.begin, task.end) for task in tasks if task.core != "COMMUNICATION"])
    communication = union([(task.begin, task.end) for task in tasks if task.core == "COMMUNICATION"])
    busy = union(computing + communication)
    whole = [(busy[0][0], busy[-1][1])] if busy else []
    return {"Computing": computing, "Communication": communication,
            "Communication(Not Overlapped)": without(communication, computing), "Free": without(whole, busy)}


class Collective(NamedTuple):
    """One that ran, and what the collector was told of it; ``sent`` and ``received`` are bytes."""

    task: Task
    name: str   # as Ascend's tools write it: hcom_allReduce__042_0_1
    group: str
    rank: int
    ranks: int
    sent: int
    received: int
    elements: int
    dtype: str  # HCCL's, in lower case: float32

    @property
    def operation(self) -> str:
        return self.task.name[len("Hccl"):]

    @property
    def kind(self) -> str:
        return "p2p" if self.operation in ("Send", "Recv", "BatchSendRecv") else "collective"

    @property
    def size(self) -> int:
        return max(self.sent, self.received)


def _bytes(count: str, dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return int(count) * int(digits.group()) // 8 if digits else 0


def collectives(profile: Profile) -> Iterator[Collective]:
    """In the order in which they ran. A profile of a collector that told nothing of them has none."""
    counts: Dict[Tuple[str, str], int] = collections.defaultdict(int)
    for task in profile.tasks:
        group, rank, ranks = task.communicator
        if task.core != "COMMUNICATION" or group == NA:
            continue
        operation = task.name[len("Hccl"):]
        spelled = "receive" if operation == "Recv" else operation[0].lower() + operation[1:]
        digest = sum(ord(letter) * (i + 1) for i, letter in enumerate(group)) % 1000
        number = counts[group, operation]
        counts[group, operation] += 1
        yield Collective(task, f"hcom_{spelled}__{digest:03d}_{number}_1", group, int(rank), int(ranks),
                         _bytes(task.operands[0], task.operands[1]), _bytes(task.operands[3], task.operands[4]),
                         max(int(task.operands[0]), int(task.operands[3])), task.operands[1])


def rank_of(profile: Profile) -> int:
    """The process's rank in its largest communicator; -1 where it had none."""
    return max(((one.ranks, one.rank) for one in collectives(profile)), default=(0, -1))[1]
