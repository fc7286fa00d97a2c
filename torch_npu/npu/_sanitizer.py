"""The stream sanitizer: finds operators on different streams that use the same memory without an order between them.

``TORCH_NPU_SANITIZER=1``, or ``torch.npu._sanitizer.enable_npu_sanitizer()`` as early as possible: the counterpart of
torch.cuda._sanitizer. It raises NPUSanitizerErrors at the operator that comes later, with both stacks, also where memory was
freed while another stream still used it. torch_npu/_debug/races.py says how.

What it knows: operators, streams and events (torch.npu's, torch.Stream, torch.Event, torch.accelerator, those of PyTorch's C++),
waits of the host (also those inside copies and ``item()``), the order that autograd makes, and that collectives run beside the
current stream until they are waited for. What it does not see: replays of graphs, and kernels that other libraries launch.
"""

import contextlib
import functools
import re
import sys
import threading
import traceback
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torch_npu import _C
from torch_npu._debug import observe, races, sanitized_work
from torch_npu.npu import _sync_listener

# They read no more of their tensor argument than its shape and dtype.
_FACTORY = re.compile(r"new_\w+|\w+_like")
_WITH_MASKS = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")


class SanitizerMode:
    """What is looked for."""

    STREAM = 0
    KERNEL = 1


class SynchronizationError(Exception):
    """What the sanitizer finds."""


class UnsynchronizedAccessError(SynchronizationError):
    """Two accesses to the same memory without an order between them: ``race.now`` and ``race.before``."""

    def __init__(self, race: races.Race) -> None:
        super().__init__(race)
        self.race = race

    def __str__(self) -> str:
        race = self.race
        what = "use of memory that was freed while another stream may still use it" if race.freed else "possible data race"
        parts = [f"{what} at {race.now.region.start:#x}", _describe("", race.now), _describe("the earlier ", race.before)]
        if race.allocated:
            parts.append(f"allocated at {race.allocated}")
        if race.freed:
            parts.append("tensor.record_stream(stream) before the last reference goes, or an event, would have prevented it")
        else:
            parts.append("stream.wait_stream(), an event, or synchronize() between the two would order them")
        return "\n".join(parts)


class NPUSanitizerErrors(Exception):
    """Raised at the operator that makes them; ``errors`` has them all."""

    def __init__(self, errors: List[SynchronizationError]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        return f"{len(self.errors)} accesses are not synchronized\n" + "\n\n".join(map(str, self.errors))


def _describe(which: str, access: races.Access) -> str:
    kind = "writes" if access.write else "reads"
    device, stream = access.stream
    which_stream = f"stream {stream}" if stream >= 0 else "the stream of a group's collectives"
    where = f"on {which_stream} of npu:{device}, at {access.line}"
    return (f"{which}operator {access.operator} {kind} {', '.join(access.names)} {where}\n"
            f"{''.join(access.stack.format())}").rstrip()


def _region(tensor: torch.Tensor) -> Optional[races.Region]:
    """None where there is no memory to speak of."""
    if tensor.device.type != "npu" or tensor.layout != torch.strided or tensor.numel() == 0:
        return None
    sizes, strides, item = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides))
    start = tensor.data_ptr()
    if tensor.is_contiguous():  # as seen, whatever the strides of dimensions of one element are
        return races.Region(start, start + (last + 1) * item, (tensor.numel(),), (1,), item)
    return races.Region(start, start + (last + 1) * item, sizes, strides, item)


class _Storage:
    """A storage without a claim on its memory."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.reference = StorageWeakRef(storage)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Storage) and self.reference.cdata == other.reference.cdata

    def __hash__(self) -> int:
        return hash(self.reference.cdata)

    def alive(self) -> bool:
        """False once nothing refers to the storage."""
        return not self.reference.expired()


class _Pending:
    """The accesses of one call, by block and region."""

    def __init__(self) -> None:
        self.found: Dict[Tuple[int, races.Region], Tuple[int, bool, List[str]]] = {}
        self.owners: Dict[int, _Storage] = {}
        self.made: Dict[int, int] = {}  # address of a new block: its device
        self.devices: Set[int] = set()

    def add(self, name: str, tensor: torch.Tensor, write: bool) -> None:
        region = _region(tensor)
        if region is None:
            return
        device = tensor.device.index
        self.devices.add(device)
        storage = tensor.untyped_storage()
        key = storage.data_ptr(), region
        if key[0] not in self.owners:
            self.owners[key[0]] = _Storage(storage)
        _, written, names = self.found.get(key, (device, False, []))
        self.found[key] = device, written or write, [*names, name] if name not in names else names


    def add_results(self, call: observe.Call, results: Any) -> None:
        """The results that are no arguments are new memory, on the current stream."""
        known = set(self.owners) | {tensor.untyped_storage().data_ptr() for _, tensor, _ in call.inputs()
                                    if tensor.device.type == "npu" and tensor.layout == torch.strided}
        for name, tensor in observe.named_results(call, results):
            if _region(tensor) is None or tensor.untyped_storage().data_ptr() in known:
                continue
            storage = tensor.untyped_storage()
            self.made[storage.data_ptr()] = tensor.device.index
            if call.leaves_unwritten():
                self.owners[storage.data_ptr()] = _Storage(storage)
                self.devices.add(tensor.device.index)
            else:
                self.add(name, tensor, True)


class _Backward:
    """One pass of autograd, which orders what its nodes do across streams."""

    def __init__(self, clock: races.Clock) -> None:
        self.clock = clock
        self.nodes: Dict[int, Any] = {}  # thread: the node that it runs


class StreamSanitizer(observe.Observer):
    """Follows operators, events and memory; raises at the operator that makes a race."""

    def __init__(self) -> None:
        self.clocks = races.Clocks()
        self.ledger = races.Ledger(self.clocks)
        self.lock = threading.RLock()
        self.backwards: Dict[int, _Backward] = {}
        self.last: Optional[races.StreamKey] = None
        self.works = sanitized_work.Works(self.work_is_over)
        self.groups: Dict[str, int] = {}  # name: the number of its stream
        self.raw_events: Dict[int, races.Clock] = {}  # by the address of an event that C++ recorded

    # What streams and events tell (torch_npu.npu._sync_listener).
    def event_recorded(self, event: Any, stream: Any) -> None:
        with self.lock:
            event._clock = dict(self.clocks.of((stream.device_index, stream.stream_id)))

    def stream_waits(self, stream: Any, event: Any) -> None:
        with self.lock:
            self.clocks.wait((stream.device_index, stream.stream_id), getattr(event, "_clock", {}))

    def host_waits_event(self, event: Any) -> None:
        with self.lock:
            self.clocks.host_waits(getattr(event, "_clock", {}))

    def host_waits_stream(self, stream: Any) -> None:
        with self.lock:
            self.clocks.host_waits(self.clocks.of((stream.device_index, stream.stream_id)))

    def host_waits_device(self, device: int) -> None:
        with self.lock:
            self.clocks.host_waits_device(device)

    # The same from C++, where an event is an address and a stream (device, id): see csrc/core/sync_listener.h.
    def raw_event_recorded(self, event: int, stream: races.StreamKey) -> None:
        with self.lock:
            self.raw_events[event] = dict(self.clocks.of(stream))

    def raw_stream_waits(self, event: int, stream: races.StreamKey) -> None:
        with self.lock:
            self.clocks.wait(stream, self.raw_events.get(event, {}))

    def raw_host_waits_event(self, event: int) -> None:
        with self.lock:
            self.clocks.host_waits(self.raw_events.get(event, {}))

    def raw_host_waits_stream(self, stream: races.StreamKey) -> None:
        with self.lock:
            self.clocks.host_waits(self.clocks.of(stream))

    # What operators do.
    def before(self, call: observe.Call) -> None:
        pending = call.notes[self] = _Pending()
        if call.base_name() == "record_stream" or not _touches_memory(call):
            return
        reads = _FACTORY.fullmatch(call.base_name()) is None
        for name, tensor, written in call.inputs():
            if reads or written:
                pending.add(name, tensor, written)

    def after(self, call: observe.Call, results: Any) -> None:
        if call.base_name() == "record_stream":
            with self.lock:
                tensor, stream = call.args
                self.ledger.record_stream(tensor.untyped_storage().data_ptr(), (stream.device_index, stream.stream_id))
            return
        if not _touches_memory(call):
            return
        pending: _Pending = call.notes[self]
        pending.add_results(call, results)
        if not pending.devices:
            return
        with self.lock:
            work = self.works.find(call, results)
            found = self.note(call, pending) if work is None else self.note_collective(call, pending, work)
            if _host_waits(call, results):
                for device in pending.devices:
                    self.clocks.host_waits(self.clocks.of(_current_stream(device)))
        if found:
            errors: List[SynchronizationError] = [UnsynchronizedAccessError(race) for race in found]
            for error in errors:
                print(error, file=sys.stderr)
            raise NPUSanitizerErrors(errors)

    def note(self, call: observe.Call, pending: _Pending) -> List[races.Race]:
        """Puts a call into the order of the current streams, and its accesses into the ledger."""
        streams = {device: _current_stream(device) for device in pending.devices}
        backward = self.enter_backward(call, streams)
        for stream in streams.values():  # a copy between devices waits on both sides
            for other in streams.values():
                self.clocks.wait(stream, self.clocks.of(other))
        numbers = {device: self.clocks.launch(stream) for device, stream in streams.items()}
        for stream in streams.values():
            for other in streams.values():
                self.clocks.wait(stream, self.clocks.of(other))
            self.last = stream
            if backward is not None:
                races.join(backward.clock, self.clocks.of(stream))
        return self.note_accesses(call, pending, streams, numbers)

    def note_collective(self, call: observe.Call, pending: _Pending, work: Any) -> List[races.Race]:
        """A collective comes after the current stream, which comes after it when the work is waited for."""
        group = next(value for argument, value in call.arguments() if argument.name == "process_group")
        name = torch.distributed.ProcessGroup.unbox(group).group_name
        number = self.groups.setdefault(name, len(self.groups) + 1)
        streams = {device: (device, -number) for device in pending.devices}
        for device, stream in streams.items():
            self.ledger.keepers.add(stream)
            self.clocks.wait(stream, self.clocks.of(_current_stream(device)))
        numbers = {device: self.clocks.launch(stream) for device, stream in streams.items()}
        self.works.follow(work, {device: dict(self.clocks.of(stream)) for device, stream in streams.items()})
        return self.note_accesses(call, pending, streams, numbers)

    def work_is_over(self, clocks: Dict[int, races.Clock], on_host: bool) -> None:
        """The current stream, or the host, has waited for a collective."""
        with self.lock:
            for device, clock in clocks.items():
                if on_host:
                    self.clocks.host_waits(clock)
                else:
                    self.clocks.wait(_current_stream(device), clock)

    def note_accesses(self, call: observe.Call, pending: _Pending, streams: Dict[int, races.StreamKey],
                      numbers: Dict[int, int]) -> List[races.Race]:
        """Puts the accesses of a launch into the ledger."""
        stack = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe(1)), lookup_lines=False)
        stack.reverse()
        kept = traceback.StackSummary.from_list([frame for frame in stack if not frame.filename.startswith(observe._PACKAGES)])
        for address, owner in pending.owners.items():
            maker = pending.made.get(address)
            self.ledger.open(address, owner, None if maker is None else streams[maker], None if maker is None else call.line())
        found = []
        for (address, region), (device, write, names) in pending.found.items():
            access = races.Access(region, write, streams[device], numbers[device], call.operator, names, call.line(), kept)
            found += self.ledger.access(address, access)
        return found

    def enter_backward(self, call: observe.Call, streams: Dict[int, races.StreamKey]) -> Optional[_Backward]:
        """Autograd lets a node wait for those whose gradients it gets, and whoever called backward() for all of them."""
        task = torch._C._current_graph_task_id()
        if task == -1:
            return None
        backward = self.backwards.get(task)
        if backward is None:
            backward = self.backwards[task] = _Backward(dict(self.clocks.of(self.last)) if self.last else {})
            torch.autograd.Variable._execution_engine.queue_callback(
                functools.partial(self.leave_backward, task))
        node: Any = torch._C._current_autograd_node()
        # Sums of gradients run between two nodes, on the next one's stream.
        name = None if node is None or not node.next_functions else (node.name(), node._sequence_nr(), *streams.values())
        if name is None or backward.nodes.get(threading.get_ident()) != name:
            backward.nodes[threading.get_ident()] = name
            for stream in streams.values():
                self.clocks.wait(stream, backward.clock)
        return backward

    def leave_backward(self, task: int) -> None:
        with self.lock:
            backward = self.backwards.pop(task)
            for device in {stream[0] for stream in backward.clock}:
                self.clocks.wait(_current_stream(device), backward.clock)


def _current_stream(device: int) -> races.StreamKey:
    return device, _C._current_stream_id(device)


def _touches_memory(call: observe.Call) -> bool:
    if call.is_view() or not call.is_on("npu"):
        return False
    reads_values = torch.Tag.data_dependent_output in call.func.tags
    return reads_values or bool(call.schema.returns) and any(str(result.type) != "bool" for result in call.schema.returns) \
        or any(written for _, _, written in call.inputs())


def _host_waits(call: observe.Call, results: Any) -> bool:
    """True if the host goes on only when the operator is over: it needs a value, or copies memory that is not pinned."""
    if call.base_name() in _WITH_MASKS:
        return any(tensor.dtype in (torch.bool, torch.uint8) for name, tensor, _ in call.inputs() if name.startswith("indices"))
    tags = call.func.tags
    if torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags:
        return True
    tensors = [tensor for _, tensor, _ in call.inputs() if tensor.dim()]
    tensors += [tensor for _, tensor in observe.named_results(call, results)]
    host = [tensor for tensor in tensors if tensor.device.type == "cpu" and tensor.numel()]
    non_blocking = any(value is True for argument, value in call.arguments() if argument.name == "non_blocking")
    return bool(host) and not (non_blocking and all(tensor.is_pinned() for tensor in host))


class NPUSanitizer:
    """Switches the sanitizer on and off."""

    def __init__(self) -> None:
        self.enabled = False
        self._running: Optional[StreamSanitizer] = None

    def enable(self, mode: int = SanitizerMode.STREAM) -> None:
        """From now on races are errors. NotImplementedError for SanitizerMode.KERNEL."""
        if mode != SanitizerMode.STREAM:
            raise NotImplementedError("only races between streams are looked for; inside kernels CANN's mssanitizer looks")
        if self.enabled:
            return
        self._running = StreamSanitizer()
        _sync_listener.listener = self._running
        _C._listen_to_sync(self._running)
        self._running.works.start()
        observe.add(self._running)
        self.enabled = True

    def disable(self) -> None:
        """Nothing is looked for any more."""
        if self._running is not None:
            observe.remove(self._running)
            self._running.works.stop()
            _C._listen_to_sync(None)
            _sync_listener.listener = self._running = None
        self.enabled = False


npu_sanitizer = NPUSanitizer()


def enable_npu_sanitizer() -> None:
    """Finds races between streams from now on; do it before the first tensor of an NPU is made."""
    npu_sanitizer.enable()


@contextlib.contextmanager
def sanitized() -> Iterator[NPUSanitizer]:
    """``with sanitized():`` looks for races in the block."""
    npu_sanitizer.enable()
    try:
        yield npu_sanitizer
    finally:
        npu_sanitizer.disable()
