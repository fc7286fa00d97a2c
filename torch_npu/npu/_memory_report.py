"""The allocator's statistics as flat names and as a table."""

import collections
from typing import Any, Dict

from torch.types import Device


def flatten(nested: Any) -> Any:
    """{"a": {"b": 1}} as {"a.b": 1}, sorted by name."""
    flat = {}

    def visit(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, item in value.items():
            visit(f"{prefix}.{key}" if prefix else str(key), item)

    visit("", nested)
    flat.pop("", None)
    return collections.OrderedDict(sorted(flat.items()))


_FIGURES = ("current", "peak", "allocated", "freed")
_BYTE_UNITS = ("B  ", "KiB", "MiB", "GiB", "TiB")
_COUNT_UNITS = (" ", "K", "M", "G")
_BY_POOL = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "NPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "NPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
_OVERSIZE = (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize NPU segments"))
_WIDTH = 75


def _scaled(value: Any, reference: Any, is_bytes: bool) -> str:
    """``value`` in the unit that suits ``reference``, so that the rows of one block compare at a glance."""
    base, units = (1024, _BYTE_UNITS) if is_bytes else (1000, _COUNT_UNITS)
    unit = 0
    while reference >= 750 * base and unit + 1 < len(units):
        reference //= base
        value //= base
        unit += 1
    return f"{value:6d} {units[unit]}" if is_bytes else f"{value:7d} {units[unit]} "


def _row(title: Any, stats: Dict[str, Any], prefix: str, references: Any, is_bytes: bool) -> str:
    cells = [_scaled(stats[f"{prefix}.{figure}"], references[figure], is_bytes) for figure in _FIGURES]
    return f" {title:<21} | " + " | ".join(cells) + " "


def summary(device: Device, stats: Dict[str, Any], abbreviated: Any) -> str:
    if not stats:
        return f"npu:{device}: no statistics, as its caching allocator has not been used\n"
    double, single = "=" * _WIDTH, "-" * _WIDTH
    lines = [
        double,
        f"PyTorch NPU memory summary, device ID {device}".center(_WIDTH),
        single,
        f"NPU OOMs: {stats['num_ooms']}  |  npuMalloc retries: {stats['num_alloc_retries']}".center(_WIDTH),
        double,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    pools = [("all", None)] if abbreviated else [("all", None), ("large_pool", "large"), ("small_pool", "small")]
    for key, title, is_bytes in _BY_POOL:
        lines.append(single)
        references = {figure: stats[f"{key}.all.{figure}"] for figure in _FIGURES}
        for pool, name in pools:
            row_title = title if name is None else f"      from {name} pool"
            lines.append(_row(row_title, stats, f"{key}.{pool}", references, is_bytes))
    for key, title in _OVERSIZE:
        references = {figure: stats[f"{key}.{figure}"] for figure in _FIGURES}
        lines += [single, _row(title, stats, key, references, False)]
    lines.append(double)
    return "".join(f"|{line}|\n" for line in lines)
