"""Arithmetic with spans of time, (begin, end), and what a device did in one."""

from dataclasses import dataclass
from typing import Iterable, List, Tuple

from torch_npu.profiler._trace import Kernel

Span = Tuple[float, float]


def union(spans: Iterable[Span]) -> List[Span]:
    """The same time without overlaps, in order."""
    merged: List[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)


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


@dataclass
class Activity:
    """What a device did between ``begin`` and ``end``, each kind a union of spans."""

    begin: float
    end: float
    computing: List[Span]
    communication: List[Span]
    receiving: List[Span]

    @property
    def exposed(self) -> List[Span]:
        """Communication while nothing is computed."""
        return without(self.communication, self.computing)

    @property
    def free(self) -> List[Span]:
        return without([(self.begin, self.end)] if self.end > self.begin else [], union(self.computing + self.communication))


def activity(kernels: Iterable[Kernel], begin: float, end: float) -> Activity:
    """Of one device's kernels; copies do not count."""
    inside = [kernel for kernel in kernels if not kernel.is_copy and kernel.begin < end and kernel.end > begin]

    def clipped(chosen: Iterable[Kernel]) -> List[Span]:
        return union((max(kernel.begin, begin), min(kernel.end, end)) for kernel in chosen)

    return Activity(begin, end, clipped(kernel for kernel in inside if not kernel.is_communication),
                    clipped(kernel for kernel in inside if kernel.is_communication),
                    clipped(kernel for kernel in inside if kernel.name == "HcclRecv"))
