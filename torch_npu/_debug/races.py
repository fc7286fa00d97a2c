"""Finds accesses to memory that nothing orders: vector clocks of streams, and what was done to each piece of memory.

Note [Happens before]
Each launch gets a number. A stream's clock says, of each stream, up to which number its work is over before the stream goes on:
a recorded event keeps the clock of its stream, and who waits for the event takes it over. What the host waits for is over for
all streams. Two accesses to the same bytes, one of them a write, race if the later one's clock does not have the earlier one's
number. When an access is known to come before a new one that covers it, the new one stands for both.

Note [Freed too early]
Memory goes back to the stream it was allocated for. What another stream did with it, and that stream does not know to be over,
races with whoever gets the memory next, unless record_stream() told the allocator.
"""

import math
import traceback
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Protocol, Set, Tuple

StreamKey = Tuple[int, int]  # device, stream id
Clock = Dict[StreamKey, int]
_MOST_ACCESSES, _MOST_FREED, _MOST_ELEMENTS, _ROUND = 256, 1000, 1 << 20, 1000


@dataclass(frozen=True)
class Region:
    """The bytes of a tensor: from ``start`` to before ``end``, ``sizes`` and ``strides`` (in elements) between."""

    start: int
    end: int
    sizes: Tuple[int, ...]
    strides: Tuple[int, ...]
    item: int

    @property
    def dense(self) -> bool:
        """No byte between start and end is left out."""
        return self.item * math.prod(self.sizes) == self.end - self.start

    def covers(self, other: "Region") -> bool:
        """True if each byte of ``other`` is one of these."""
        return self == other or (self.dense and self.start <= other.start and other.end <= self.end)

    def meets(self, other: "Region") -> bool:
        """True if they share a byte; where that takes long to tell, also if they may."""
        if self.end <= other.start or other.end <= self.start:
            return False
        if (self.dense and other.dense) or self == other or self.item != other.item:
            return True
        mine, theirs = self._elements(), other._elements()
        return mine is None or theirs is None or not mine.isdisjoint(theirs)

    def _elements(self) -> Optional[Set[int]]:
        places = [self.start]
        for size, stride in zip(self.sizes, self.strides):
            if len(places) * size > _MOST_ELEMENTS:
                return None
            places = [place + index * stride * self.item for place in places for index in range(size if stride else 1)]
        return set(places)


@dataclass
class Access:
    """What one operator did to one tensor."""

    region: Region
    write: bool
    stream: StreamKey
    number: int
    operator: str
    names: List[str]
    line: str
    stack: traceback.StackSummary


class Owner(Protocol):
    """A storage, known without keeping it alive; equal to another of the same storage."""

    def alive(self) -> bool:
        """False once the storage's memory has been given back."""


@dataclass
class Memory:
    """One block: whose it is, the stream it was allocated for (None if that was before), where, and who used it."""

    owner: Owner
    stream: Optional[StreamKey]
    line: Optional[str]
    accesses: List[Access] = field(default_factory=list)
    recorded: Set[StreamKey] = field(default_factory=set)


@dataclass
class Race:
    """Two accesses without an order. ``freed``: the memory of the earlier one was freed in between."""

    now: Access
    before: Access
    freed: bool
    allocated: Optional[str]


class Clocks:
    """Who is known to come after whom."""

    def __init__(self) -> None:
        self.streams: Dict[StreamKey, Clock] = {}
        self.host: Clock = {}
        self.number = 0

    def of(self, stream: StreamKey) -> Clock:
        """The stream's clock; a stream that was not seen yet comes after what the host has waited for."""
        if stream not in self.streams:
            self.streams[stream] = dict(self.host)
        return self.streams[stream]

    def launch(self, stream: StreamKey) -> int:
        """The number of a new launch."""
        self.number += 1
        self.of(stream)[stream] = self.number
        return self.number

    def wait(self, stream: StreamKey, clock: Clock) -> None:
        """The stream's later work comes after all that ``clock`` knows."""
        join(self.of(stream), clock)

    def host_waits(self, clock: Clock) -> None:
        """All later work comes after it."""
        clock = dict(clock)
        join(self.host, clock)
        for own in self.streams.values():
            join(own, clock)

    def host_waits_device(self, device: int) -> None:
        """As :meth:`host_waits`, for all streams of a device."""
        for stream in list(self.streams):
            if stream[0] == device:
                self.host_waits(self.streams[stream])

    def knows(self, stream: StreamKey, access: Access) -> bool:
        """True if the stream's later work comes after the access."""
        return access.stream == stream or access.number <= self.of(stream).get(access.stream, 0)


def join(clock: Clock, other: Clock) -> None:
    """``clock`` then knows what either knew."""
    for stream, number in other.items():
        if clock.get(stream, 0) < number:
            clock[stream] = number


class Ledger:
    """The memory of all devices, by address of its block."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.blocks: Dict[int, Memory] = {}
        self.shared: Set[int] = set()  # the blocks that another stream than their own has used
        self.freed: List[Tuple[Access, Optional[str]]] = []
        self.opened = 0
        self.keepers: Set[StreamKey] = set()  # streams whose work keeps its memory until it is over

    def open(self, address: int, owner: Owner, stream: Optional[StreamKey], line: Optional[str]) -> None:
        """Before an access: the block belongs to ``owner``. If it did not before, it is new: the earlier ones are freed.

        ``stream``: whose memory it is, None if it was made before anybody looked; ``line`` made it.
        """
        memory = self.blocks.get(address)
        if memory is not None and memory.owner == owner and owner.alive():
            return
        if memory is not None:
            self.free(address)
        self.opened += 1
        for other in list(self.blocks if self.opened % _ROUND == 0 else self.shared):
            if not self.blocks[other].owner.alive():
                self.free(other)
        self.blocks[address] = Memory(owner, stream, line)

    def free(self, address: int) -> None:
        """See Note [Freed too early]."""
        memory = self.blocks.pop(address)
        self.shared.discard(address)
        if memory.stream is None:
            return
        known = self.clocks.host
        self.freed = [entry for entry in self.freed if entry[0].number > known.get(entry[0].stream, 0)]
        self.freed += [(access, memory.line) for access in memory.accesses
                       if access.stream not in memory.recorded | self.keepers and not self.clocks.knows(memory.stream, access)]
        del self.freed[:-_MOST_FREED]

    def record_stream(self, address: int, stream: StreamKey) -> None:
        if address in self.blocks:
            self.blocks[address].recorded.add(stream)

    def access(self, address: int, access: Access) -> List[Race]:
        """Notes an access to the block at ``address``, which is open; the races that it makes."""
        memory = self.blocks[address]
        if memory.stream != access.stream:
            self.shared.add(address)
        races = [Race(access, old, False, memory.line) for old in memory.accesses
                 if (old.write or access.write) and not self.clocks.knows(access.stream, old) and old.region.meets(access.region)]
        late = [entry for entry in self.freed
                if not self.clocks.knows(access.stream, entry[0]) and entry[0].region.meets(access.region)
                and (entry[0].write or access.write)]
        for entry in late:
            self.freed.remove(entry)
            races.append(Race(access, entry[0], True, entry[1]))
        memory.accesses = [old for old in memory.accesses if not self._stands_for(access, old)]
        memory.accesses.append(access)
        del memory.accesses[:-_MOST_ACCESSES]
        return races

    def _stands_for(self, new: Access, old: Access) -> bool:
        return (new.write or not old.write) and self.clocks.knows(new.stream, old) and new.region.covers(old.region)
