"""A trace of PyTorch's profiler, taken apart for the files of :mod:`torch_npu.profiler._files`. Times are microseconds."""

import bisect
import collections
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

_DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
# Operators that the cube unit computes; all others are the vector unit's.
_CUBE = ("Mm", "Matmul", "Addmm", "BatchMatMul", "Bmm", "Baddbmm", "Addbmm", "Convolution", "Conv", "FlashAttention",
         "Grouped", "Linear")


@dataclass
class Operator:
    """An operator of PyTorch, on the host."""

    name: str
    begin: float
    duration: float
    shapes: str
    external: Optional[int]
    stack: str = ""
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
    wait: float = 0.0

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
        return "AI_CORE" if self.type.startswith(_CUBE) else "AI_VECTOR_CORE"


@dataclass
class Trace:
    """The parts of a trace, each in the order of time."""

    events: List[Dict[str, Any]]
    operators: List[Operator]
    kernels: List[Kernel]
    calls: List[Tuple[str, str, float]]          # level, name, duration
    steps: List[Tuple[int, float, float]]        # number, begin, end
    memory: List[Dict[str, Any]]

    def step_of(self, time: float) -> Optional[int]:
        """The number of the step in which a time is; None outside of all."""
        index = bisect.bisect_right([begin for _, begin, _ in self.steps], time) - 1
        return self.steps[index][0] if index >= 0 else None


def read(path: str) -> Trace:
    """The trace of a file that ``export_chrome_trace`` wrote. ValueError where it is none."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        raise ValueError(f"{path} is no trace of PyTorch's profiler")
    events = content["traceEvents"]
    trace = Trace(events, [], [], [], [], [])
    by_thread: Dict[Any, List[Operator]] = collections.defaultdict(list)
    for event in events:
        _sort_in(trace, by_thread, event)
    for operators in by_thread.values():
        _nest(operators)
    trace.operators.sort(key=lambda operator: operator.begin)
    trace.kernels.sort(key=lambda kernel: kernel.begin)
    trace.steps.sort(key=lambda step: step[1])
    _measure_waits(trace.kernels)
    return trace


def _sort_in(trace: Trace, by_thread: Dict[Any, List[Operator]], event: Dict[str, Any]) -> None:
    kind, args = event.get("cat"), event.get("args", {})
    if event.get("ph") == "X":
        name, begin, duration = event["name"], float(event["ts"]), float(event["dur"])
        if kind in _DEVICE_KINDS:
            trace.kernels.append(Kernel(name, begin, duration, int(args.get("device", 0)), int(args.get("stream", 0)),
                                        args.get("External id"), kind != "kernel"))
        elif kind == "cpu_op":
            shapes = ";".join(",".join(map(str, sizes)) for sizes in args.get("Input Dims", []) if sizes)
            operator = Operator(name, begin, duration, shapes, args.get("External id"), str(args.get("Call stack", "")))
            trace.operators.append(operator)
            by_thread[event["tid"]].append(operator)
        elif kind in ("privateuse1_runtime", "cuda_runtime"):
            trace.calls.append(("acl", str(args.get("launches") or name), duration))
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


def _measure_waits(kernels: List[Kernel]) -> None:
    """The time between a kernel and the one before it on its stream."""
    ends: Dict[Tuple[int, int], float] = {}
    for kernel in kernels:
        stream = (kernel.device, kernel.stream)
        kernel.wait = max(kernel.begin - ends[stream], 0.0) if stream in ends else 0.0
        ends[stream] = max(ends.get(stream, 0.0), kernel.begin + kernel.duration)
