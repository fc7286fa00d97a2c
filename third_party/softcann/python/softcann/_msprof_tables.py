"""What softcann's collector recorded in a PROF_* folder, and Ascend's tables of it. Times in tables are microseconds."""
import glob
import json
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

__all__ = ["MAKERS", "TABLES", "NoProfile", "read"]

NA = "N/A"
SINGLE = 4294967295   # the model of operators that are called one by one
# Operators that the cube unit computes; all others are the vector unit's.
CUBE = ("Mm", "Matmul", "MatMul", "Addmm", "Addmv", "Mv", "BatchMatMul", "Bmm", "Baddbmm", "Addbmm", "Convolution", "Conv",
        "FlashAttention", "FusedInferAttention", "IncreFlashAttention", "PromptFlashAttention", "Grouped", "Linear", "Gemm")
PIPE_UTILIZATION = (
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)", "aic_scalar_ratio",
    "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)",
    "aiv_scalar_ratio", "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate",
    "cube_utilization(%)")
STATISTIC = ("Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)")
TABLES: Dict[str, Tuple[str, ...]] = {
    "op_summary": (
        "Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type", "Task Start Time(us)",
        "Task Duration(us)", "Task Wait Time(us)", "Block Num", "Mix Block Num", "HF32 Eligible", "Input Shapes",
        "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID",
        *PIPE_UTILIZATION),
    "op_statistic": ("Device_id", "OP Type", "Core Type", *STATISTIC),
    "api_statistic": ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"),
    "communication_statistic": ("Device_id", "OP Type", *STATISTIC),
    "task_time": (
        "Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)", "task_stop(us)"),
    "msprof_tx": (
        "Device_id", "pid", "tid", "category", "event_type", "payload_type", "payload_value", "Start_time(us)", "End_time(us)",
        "message_type", "message", "domain", "Device Start_time(us)", "Device End_time(us)"),
}


class NoProfile(ValueError):
    """The folder is none of softcann's collector, or its files are damaged."""


class Task(NamedTuple):
    """What a stream ran; times are nanoseconds here."""

    device: int
    stream: int
    number: int
    begin: int
    end: int
    name: str
    operands: Tuple[str, ...]   # shapes, types and formats of what was read; the same of what was written
    type: str                   # of a model's operator the one that the model's file has
    model: int                  # SINGLE: none
    call: int                   # the number of the call that submitted it; 0: unknown
    communicator: Tuple[str, ...] = (NA, NA, NA)  # of a collective: name, this rank, number of ranks
    wait: int = 0               # since the end of the one before on the stream

    @property
    def core(self) -> str:
        if self.name.startswith("Hccl"):
            return "COMMUNICATION"
        if self.name.startswith("aclmdl"):
            return "MODEL_EXECUTE"
        if self.model == SINGLE and not self.name.startswith("aclnn"):
            return "SDMA"
        return "AI_CORE" if self.type.startswith(CUBE) else "AI_VECTOR_CORE"

    @property
    def kernel_type(self) -> str:
        return {"AI_CORE": "KERNEL_AICORE", "AI_VECTOR_CORE": "KERNEL_AIVEC", "SDMA": "MEMCPY_ASYNC"}.get(self.core, self.core)


class Call(NamedTuple):
    """A call of an entry point."""

    thread: int
    begin: int
    end: int
    level: str
    name: str
    number: int


class Mark(NamedTuple):
    """A mark or range of the program's own."""

    thread: int
    end_thread: int
    device: int      # with its stream; -1: it has none
    stream: int
    begin: int
    end: int
    device_begin: int
    device_end: int
    kind: str
    domain: str
    message: str


class Profile(NamedTuple):
    """All of a folder."""

    info: Dict[str, Any]
    tasks: List[Task]
    calls: List[Call]
    marks: List[Mark]


def _lines(path: str, fields: int) -> Iterator[List[str]]:
    """The fields of each line; the last line may be cut where the process was killed."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            values = line.rstrip("\n").split("\t")
            if line.endswith("\n") and len(values) == fields:
                yield values
            elif line.endswith("\n"):
                raise NoProfile(f"{path}: {len(values)} fields where there should be {fields}: {line[:80]!r}")


def _with_waits(tasks: Iterable[Task]) -> List[Task]:
    ends: Dict[Tuple[int, int], int] = {}
    result = []
    for task in sorted(tasks, key=lambda task: (task.begin, task.number)):
        stream = (task.device, task.stream)
        result.append(task._replace(wait=max(task.begin - ends.get(stream, task.begin), 0)))
        ends[stream] = max(ends.get(stream, 0), task.end)
    return result


def read(folder: str) -> Profile:
    """What was recorded in a folder. NoProfile where that was another collector."""
    try:
        with open(os.path.join(folder, "host", "info.json"), encoding="utf-8") as file:
            info = json.load(file)
    except (OSError, ValueError) as error:
        raise NoProfile(f"it has no readable host/info.json: {error}") from None
    if info.get("collector") != "softcann":
        raise NoProfile("softcann's collector did not record it")
    tasks = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "device_*", "data", "softcann.tasks"))):
        device = int(path.split(os.sep)[-3].partition("_")[2])
        for stream, number, begin, end, model, call, kind, name, *operands in _lines(path, 17):
            tasks.append(Task(device, int(stream), int(number), int(begin), int(end), name, tuple(operands[:6]), kind,
                              int(model), int(call), tuple(operands[6:])))
    data = os.path.join(folder, "host", "data")
    calls, marks = os.path.join(data, "softcann.calls"), os.path.join(data, "softcann.marks")
    return Profile(
        info, _with_waits(tasks),
        [Call(int(t), int(b), int(e), level, name, int(n)) for t, b, e, n, level, name in _lines(calls, 6)]
        if os.path.exists(calls) else [],
        [Mark(int(t), int(et), int(d), int(s), int(b), int(e), int(db), int(de), kind, domain, message)
         for t, et, d, s, b, e, db, de, kind, domain, message in _lines(marks, 11)] if os.path.exists(marks) else [])


def of_domains(profile: Profile, include: Iterable[str], exclude: Iterable[str]) -> Profile:
    """With the marks of some domains only: those of ``include``, all if that is empty, less those of ``exclude``."""
    included, excluded = set(include), set(exclude)
    marks = [mark for mark in profile.marks if (not included or mark.domain in included) and mark.domain not in excluded]
    return profile._replace(marks=marks)


def us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3f}"


def stamp(nanoseconds: int) -> str:
    """A point of time; the tab keeps spreadsheets from rounding it."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}\t"


def op_summary(profile: Profile) -> Iterator[Sequence[Any]]:
    for task in profile.tasks:
        if task.core in ("SDMA", "MODEL_EXECUTE"):
            continue   # copies, and models as wholes, are in task_time
        read_, written = task.operands[:3], task.operands[3:]
        quoted = [f'"{shapes}"' if shapes != NA else NA for shapes in (read_[0], written[0])]
        yield (task.device, task.model, task.number, task.stream, task.name, task.type, "dynamic", task.core, stamp(task.begin),
               us(task.end - task.begin), us(task.wait), NA, NA, NA, quoted[0], *read_[1:], quoted[1], *written[1:], NA,
               *[NA] * len(PIPE_UTILIZATION))


def _statistic(groups: Dict[Tuple[Any, ...], List[int]]) -> Iterator[Sequence[Any]]:
    """One line a group, the longest first; its share is of its device's time."""
    totals: Dict[Any, int] = {}
    for key, durations in groups.items():
        totals[key[0]] = totals.get(key[0], 0) + sum(durations)
    for key, durations in sorted(groups.items(), key=lambda item: (item[0][0], -sum(item[1]))):
        total = sum(durations)
        yield (*key, len(durations), us(total), us(min(durations)), us(total / len(durations)), us(max(durations)),
               f"{100 * total / totals[key[0]] if totals[key[0]] else 0:.3f}")


def _grouped(tasks: Iterable[Task], *fields: str) -> Dict[Tuple[Any, ...], List[int]]:
    groups: Dict[Tuple[Any, ...], List[int]] = {}
    for task in tasks:
        groups.setdefault(tuple(getattr(task, field) for field in fields), []).append(task.end - task.begin)
    return groups


def op_statistic(profile: Profile) -> Iterator[Sequence[Any]]:
    operators = (task for task in profile.tasks if task.core in ("AI_CORE", "AI_VECTOR_CORE"))
    return _statistic(_grouped(operators, "device", "type", "core"))


def communication_statistic(profile: Profile) -> Iterator[Sequence[Any]]:
    return _statistic(_grouped((task for task in profile.tasks if task.core == "COMMUNICATION"), "device", "type"))


def api_statistic(profile: Profile) -> Iterator[Sequence[Any]]:
    groups: Dict[Tuple[str, str], List[int]] = {}
    for call in profile.calls:
        groups.setdefault((call.level, call.name), []).append(call.end - call.begin)
    for (level, name), durations in sorted(groups.items(), key=lambda item: -sum(item[1])):
        total = sum(durations)
        mean = total / len(durations)
        variance = sum((duration - mean) ** 2 for duration in durations) / len(durations) / 1e6
        yield ("host", level, name, us(total), len(durations), us(mean), us(min(durations)), us(max(durations)),
               f"{variance:.3f}")


def task_time(profile: Profile) -> Iterator[Sequence[Any]]:
    for task in profile.tasks:
        yield (task.device, task.name, task.kernel_type, task.stream, task.number, us(task.end - task.begin), stamp(task.begin),
               stamp(task.end))


def msprof_tx(profile: Profile) -> Iterator[Sequence[Any]]:
    for mark in profile.marks:
        device = [stamp(time) if time else NA for time in (mark.device_begin, mark.device_end)]
        yield ("host", profile.info.get("pid", NA), mark.thread, NA, mark.kind, NA, NA, stamp(mark.begin), stamp(mark.end),
               NA, mark.message, mark.domain, *device)


MAKERS = {"op_summary": op_summary, "op_statistic": op_statistic, "api_statistic": api_statistic, "task_time": task_time,
          "communication_statistic": communication_statistic, "msprof_tx": msprof_tx}
