"""A trace of PyTorch's profiler, taken apart for the files of :mod:`torch_npu.profiler._files`. Times are microseconds."""

import bisect
import collections
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from torch_npu.profiler._garbage import Record

_DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
# PyTorch's names of C++ types, in a trace, and Ascend's of dtypes.
_DTYPES = {
    "float": "FLOAT", "double": "DOUBLE", "c10::Half": "FLOAT16", "c10::BFloat16": "DT_BF16", "int": "INT32", "long int": "INT64",
    "long": "INT64", "short": "INT16", "short int": "INT16", "signed char": "INT8", "unsigned char": "UINT8", "bool": "BOOL",
    "c10::complex<float>": "COMPLEX64", "c10::complex<double>": "COMPLEX128",
}
_UNKNOWN_DTYPE = "UNDEFINED"
_OPERANDS = tuple(f"{side} {what}" for side in ("Input", "Output") for what in ("Shapes", "Data Types", "Formats"))
_COMMUNICATION = "record_param_comms"
COLLECTIONS = "python_gc"  # the garbage collections, among a trace's metadata
# Operators that the cube unit computes; all others are the vector unit's.
CUBE = ("Mm", "Matmul", "MatMul", "Addmm", "Addmv", "Mv", "BatchMatMul", "Bmm", "Baddbmm", "Addbmm", "Convolution", "Conv",
        "FlashAttention", "FusedInferAttention", "IncreFlashAttention", "PromptFlashAttention", "Grouped", "Linear", "Gemm")


@dataclass
class Operator:
    """An operator of PyTorch, on the host."""

    name: str
    begin: float
    duration: float
    shapes: str
    external: Optional[int]
    stack: str = ""
    dtypes: str = ""
    collective: Dict[str, Any] = field(default_factory=dict)  # what record_param_comms tells of one
    thread: int = 0  # the process above, the thread below 32 bits
    sequence: Optional[int] = None
    forward_thread: Optional[int] = None
    self_duration: float = 0.0
    children: List["Operator"] = field(default_factory=list)


@dataclass
class Kernel:
    """What ran on the device."""

    name: str
    begin: float
    duration: float
    device: int
    stream: int
    external: Optional[int]
    is_copy: bool
    correlation: Optional[int] = None
    wait: float = 0.0
    launched: Optional[float] = None  # when the host put it into the stream
    operands: Tuple[str, ...] = ()  # shapes, dtypes, formats of what it reads; the same of what it writes; () where not recorded

    @property
    def end(self) -> float:
        return self.begin + self.duration

    @property
    def type(self) -> str:
        return self.name[len("aclnn"):] if self.name.startswith("aclnn") else self.name

    @property
    def is_communication(self) -> bool:
        return self.name.lower().startswith("hccl")

    @property
    def core(self) -> str:
        if self.is_communication:
            return "COMMUNICATION"
        return "AI_CORE" if self.type.startswith(CUBE) else "AI_VECTOR_CORE"


@dataclass
class Call:
    """A call of CANN that the host made."""

    level: str
    name: str
    begin: float
    duration: float
    thread: int
    correlation: Optional[int]


@dataclass
class Group:
    """A process group: its name and description in PyTorch, and the global ranks in it."""

    name: str
    description: str
    ranks: List[int]


@dataclass
class Trace:
    """The parts of a trace, each in the order of time."""

    events: List[Dict[str, Any]]
    operators: List[Operator]
    kernels: List[Kernel]
    calls: List[Call]
    steps: List[Tuple[int, float, float]]        # number, begin, end
    memory: List[Dict[str, Any]]
    collections: List[Record] = field(default_factory=list)
    groups: Dict[str, Group] = field(default_factory=dict)
    rank: int = 0
    is_ranked: bool = False  # of a program that had torch.distributed
    host: str = ""
    origin_ns: int = 0  # Unix time at which the trace's begin to count

    def nanoseconds(self, time: float) -> int:
        """A time of the trace as Unix time."""
        return self.origin_ns + round(time * 1000)

    def unix(self, time: float) -> str:
        """A time of the trace as Unix microseconds, with three digits behind the point, which a float has no room for."""
        nanoseconds = self.nanoseconds(time)
        return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"

    def step_of(self, kernel: Kernel) -> Optional[int]:
        """The number of the step that launched a kernel; None before all. The device runs it then or later."""
        time = kernel.begin if kernel.launched is None else kernel.launched
        index = bisect.bisect_right([begin for _, begin, _ in self.steps], time) - 1
        return self.steps[index][0] if index >= 0 else None

    def device_steps(self, device: int) -> List[Tuple[int, float, float]]:
        """(number, begin, end) of the steps: each lasts until the device has run what it launched, and the next begins there."""
        ends: Dict[Optional[int], float] = {}
        for kernel in self.kernels:
            if kernel.device == device and not kernel.is_copy:
                step = self.step_of(kernel)
                ends[step] = max(ends.get(step, 0.0), kernel.end)
        steps, before = [], 0.0
        for number, begin, end in self.steps:
            steps.append((number, max(begin, before), max(end, before, ends.get(number, 0.0))))
            before = steps[-1][2]
        return steps


def read(path: str) -> Trace:
    """The trace of a file that ``export_chrome_trace`` wrote. ValueError where it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except ValueError as error:
        raise ValueError(f"{path} is no whole trace; was the disk full, or the program killed? {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        raise ValueError(f"{path} is no trace of PyTorch's profiler")
    events = content["traceEvents"]
    trace = Trace(events, [], [], [], [], [])
    world = content.get("distributedInfo", {})
    trace.rank, trace.is_ranked = int(world.get("rank", 0)), "rank" in world
    trace.host, trace.origin_ns = str(content.get("host_name", "")), int(content.get("baseTimeNanoseconds", 0))
    trace.collections = [(begin, end, thread) for begin, end, thread in content.get(COLLECTIONS, [])]
    for group in world.get("pg_config", []):
        trace.groups[str(group["pg_name"])] = Group(str(group["pg_name"]), str(group.get("pg_desc", "")), list(group["ranks"]))
    by_thread: Dict[Any, List[Operator]] = collections.defaultdict(list)
    for event in events:
        _sort_in(trace, by_thread, event)
    launches = {call.correlation: call.begin for call in trace.calls if call.correlation is not None}
    for kernel in trace.kernels:
        kernel.launched = launches.get(kernel.correlation) if kernel.correlation is not None else None
    for operators in by_thread.values():
        _nest(operators)
    _trace_backward_to_forward(trace)
    trace.operators.sort(key=lambda operator: operator.begin)
    trace.kernels.sort(key=lambda kernel: kernel.begin)
    trace.steps.sort(key=lambda step: step[1])
    _measure_waits(trace.kernels)
    return trace


def _dtypes(sizes: List[Any], types: List[Any]) -> str:
    """Of the inputs whose shapes are told."""
    return ";".join(_DTYPES.get(str(kind), _UNKNOWN_DTYPE) for size, kind in zip(sizes, types) if size)


def _thread(event: Dict[str, Any]) -> int:
    return int(event["pid"]) << 32 | int(event["tid"])


def _sort_in(trace: Trace, by_thread: Dict[Any, List[Operator]], event: Dict[str, Any]) -> None:
    kind, args = event.get("cat"), event.get("args", {})
    if event.get("ph") == "X":
        name, begin, duration = event["name"], float(event["ts"]), float(event["dur"])
        if kind in _DEVICE_KINDS:
            trace.kernels.append(Kernel(name, begin, duration, int(args.get("device", 0)), int(args.get("stream", 0)),
                                        args.get("External id"), kind != "kernel", args.get("correlation"),
                                        operands=tuple(args[name] for name in _OPERANDS) if _OPERANDS[0] in args else ()))
        elif kind == "cpu_op":
            shapes = ";".join(",".join(map(str, sizes)) for sizes in args.get("Input Dims", []) if sizes)
            operator = Operator(name, begin, duration, shapes, args.get("External id"), str(args.get("Call stack", "")),
                                _dtypes(args.get("Input Dims", []), args.get("Input type", [])),
                                args if name == _COMMUNICATION else {}, _thread(event), args.get("Sequence number"),
                                args.get("Fwd thread id"))
            trace.operators.append(operator)
            by_thread[event["tid"]].append(operator)
        elif kind in ("privateuse1_runtime", "cuda_runtime"):
            trace.calls.append(Call("acl", str(args.get("launches") or name), begin, duration, _thread(event),
                                    args.get("correlation")))
        elif kind == "user_annotation" and name.startswith("ProfilerStep#"):
            trace.steps.append((int(name.partition("#")[2]), begin, begin + duration))
    elif event.get("name") == "[memory]" and args.get("Device Type") not in (0, None):
        trace.memory.append({"time": float(event["ts"]), **args})


def _nest(operators: List[Operator]) -> None:
    """Finds whose children they are; an operator's own time is what its children leave of it."""
    operators.sort(key=lambda operator: (operator.begin, -operator.duration))
    open_ones: List[Operator] = []
    for operator in operators:
        while open_ones and operator.begin >= open_ones[-1].begin + open_ones[-1].duration:
            open_ones.pop()
        operator.self_duration = operator.duration
        if open_ones:
            open_ones[-1].self_duration -= operator.duration
            open_ones[-1].children.append(operator)
        open_ones.append(operator)


def _trace_backward_to_forward(trace: Trace) -> None:
    """Gives the operators of backward passes the stack of the forward call whose gradient they compute, before their own, which
    ends at ``backward()``."""
    places = {(operator.thread, operator.begin): operator for operator in trace.operators}
    forward: Dict[Any, Operator] = {}
    backward: Dict[Any, Operator] = {}
    for event in trace.events:
        if event.get("cat") == "fwdbwd":
            operator = places.get((_thread(event), float(event["ts"])))
            if operator is not None:
                (forward if event["ph"] == "s" else backward)[event["id"]] = operator
    for link in forward.keys() & backward.keys():
        if forward[link].stack:
            _prepend_stack(backward[link], f"{forward[link].stack};(backward)")


def _prepend_stack(operator: Operator, stack: str) -> None:
    operator.stack = f"{stack};{operator.stack}" if operator.stack else stack
    for child in operator.children:
        _prepend_stack(child, stack)


def _measure_waits(kernels: List[Kernel]) -> None:
    """The time between a kernel and the one before it on its stream."""
    ends: Dict[Tuple[int, int], float] = {}
    for kernel in kernels:
        stream = (kernel.device, kernel.stream)
        kernel.wait = max(kernel.begin - ends[stream], 0.0) if stream in ends else 0.0
        ends[stream] = max(ends.get(stream, 0.0), kernel.begin + kernel.duration)
