"""Where a program's time went, operator by operator: :func:`perf_table` of a profile."""

import collections
import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from torch.autograd import DeviceType

from torch_npu.profiler import _spans

__all__ = ["PerfRow", "PerfTable", "perf_table"]


class PerfRow(NamedTuple):
    """All calls of an operator with the same shapes and dtypes. Times are microseconds.

    A total contains what the operator's own operators took, a self time does not; shares are of the sum of all self times.
    """

    name: str
    shapes: str
    dtypes: str
    calls: int
    host_total: float
    host_avg: float
    host_self: float
    host_percent: float
    device_total: float
    device_avg: float
    device_self: float
    device_percent: float


_TITLES = ("Operator", "Input Shapes", "Input Types", "Calls", "Host Total(us)", "Host Avg(us)", "Host Self(us)", "Host %",
           "Device Total(us)", "Device Avg(us)", "Device Self(us)", "Device %")
_WIDEST = 48
_ORDERS = ("device_total", "device_avg", "device_self", "host_total", "host_avg", "host_self", "calls")


def _cell(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDEST else text[:_WIDEST - 3] + "..."


class PerfTable:
    """The rows, the longest on the device first, and what the whole took.

    ``end_to_end``: from the begin of the first operator to the end of the last, on the host or the device. ``device_busy``: how
    much of it some stream of a device was busy. ``steps``: how many the profile has (``profile.step()``). Microseconds.
    """

    def __init__(self, rows: List[PerfRow], end_to_end: float, device_busy: float, steps: int) -> None:
        self.rows = rows
        self.end_to_end = end_to_end
        self.device_busy = device_busy
        self.steps = steps

    def sorted_by(self, order: str) -> "PerfTable":
        """The rows, largest first by one of device_total, device_avg, device_self, host_total, host_avg, host_self, calls."""
        if order not in _ORDERS:
            raise ValueError(f"sorted_by({order!r}): expected one of {', '.join(_ORDERS)}")
        return PerfTable(sorted(self.rows, key=lambda row: -getattr(row, order)), self.end_to_end, self.device_busy, self.steps)

    def table(self, row_limit: int = 100) -> str:
        """As text; ``row_limit`` 0 or less: all rows."""
        shown = self.rows[:row_limit] if row_limit > 0 else self.rows
        lines = [_TITLES, *(tuple(map(_cell, row)) for row in shown)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_TITLES))]
        text = ["  ".join(cell.ljust(width) if i < 3 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths)))
                for line in lines]
        text.insert(1, "  ".join("-" * width for width in widths))
        if len(shown) < len(self.rows):
            text.append(f"... and {len(self.rows) - len(shown)} more")
        share = 100 * self.device_busy / self.end_to_end if self.end_to_end else 0.0
        text.append(f"End to end: {self.end_to_end:.3f} us; the device was busy for {self.device_busy:.3f} us ({share:.1f} %)")
        if self.steps:
            text.append(f"{self.steps} steps of {self.end_to_end / self.steps:.3f} us")
        return "\n".join(text)

    __str__ = table

    def to_dict(self) -> Dict[str, Any]:
        """What :meth:`export_json` writes."""
        return {"end_to_end_us": self.end_to_end, "device_busy_us": self.device_busy, "steps": self.steps,
                "operators": [row._asdict() for row in self.rows]}

    def export_json(self, path: str) -> None:
        """Writes all rows to a file. OSError where it cannot be written."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_dict(), file, indent=1)


def _is_launch(event: Any) -> bool:
    """A call of CANN beneath an operator, not an operator."""
    kind = getattr(event, "activity_type", None)
    return kind is not None and str(kind).endswith("runtime")


def _dtypes_by_event(profiled: Any) -> Dict[int, str]:
    results = getattr(profiled, "kineto_results", None)
    if results is None:
        return {}
    return {event.correlation_id(): ";".join(kind for kind in event.dtypes() if kind) for event in results.events()}


def _shapes(event: Any) -> str:
    return ";".join(",".join(map(str, sizes)) if isinstance(sizes, (list, tuple)) else str(sizes)
                    for sizes in event.input_shapes or () if sizes)


def _events(prof: Any) -> Tuple[Any, List[Any]]:
    """The profile of torch.autograd within ``prof``, and its events."""
    inner: Optional[Any] = getattr(prof, "profiler", prof)
    events = getattr(inner, "function_events", None)
    if not events and getattr(inner, "kineto_results", None) is None:
        raise RuntimeError("perf_table takes a profile that has run: leave its block, or call stop(), first")
    return inner, [event for event in events or () if not event.is_async]


def perf_table(prof: Any) -> PerfTable:
    """The table of a profile that has run: ``torch.profiler.profile``, that of ``torch_npu.profiler``, or
    ``torch.autograd.profiler.profile``. With ``record_shapes=True`` it has shapes and dtypes. RuntimeError before it has run."""
    inner, events = _events(prof)
    dtypes = _dtypes_by_event(inner)
    groups: Dict[Tuple[str, str, str], List[Any]] = collections.defaultdict(list)
    device_spans, every_span, steps = [], [], 0
    for event in events:
        span = (event.time_range.start, event.time_range.end)
        if event.device_type != DeviceType.CPU:
            if not event.name.startswith("ProfilerStep"):
                device_spans.append(span)
                every_span.append(span)
        elif event.name.startswith("ProfilerStep"):
            steps += 1
        elif not _is_launch(event) and not getattr(event, "is_user_annotation", False):
            every_span.append(span)
            groups[event.name, _shapes(event), dtypes.get(event.id, "")].append(event)
    host_sum = sum(event.self_cpu_time_total for group in groups.values() for event in group) or 1.0
    device_sum = sum(event.self_device_time_total for group in groups.values() for event in group) or 1.0
    rows = []
    for key, group in groups.items():
        host, host_self, device, own = (float(sum(getattr(event, name) for event in group)) for name in (
            "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total"))
        rows.append(PerfRow(*key, len(group), host, host / len(group), host_self, 100 * host_self / host_sum, device,
                            device / len(group), own, 100 * own / device_sum))
    rows.sort(key=lambda row: (-row.device_self, -row.host_self, row.name))
    end_to_end = max(end for _, end in every_span) - min(begin for begin, _ in every_span) if every_span else 0.0
    if not device_spans:  # without activities of the device, as in torch before 2.12: the sum of what events measured
        return PerfTable(rows, end_to_end, sum(row.device_self for row in rows), steps)
    return PerfTable(rows, end_to_end, _spans.length(_spans.union(device_spans)), steps)
