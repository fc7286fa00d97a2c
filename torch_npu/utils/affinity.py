"""The CPU cores that this process runs on."""

import os
import re
import warnings
from typing import Any, List, Optional, Set, Union

__all__ = ["apply_configuration", "reset_thread_affinity", "set_thread_affinity"]

_original: Optional[Set[int]] = None


def _cores(ranges: Union[List[int], List[List[int]]]) -> Set[int]:
    """Those of this machine; the others are told of."""
    count = os.cpu_count() or 1
    pairs: List[Any] = [ranges] if ranges and isinstance(ranges[0], int) else list(ranges)
    for pair in pairs:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(core, int) for core in pair)
        if not is_pair or not 0 <= pair[0] <= pair[1]:
            raise ValueError(f"a range of cores is [first, last], not {pair}")
    beyond = [f"{first}-{last}" for first, last in pairs if last >= count]
    if beyond:
        warnings.warn(f"cores {', '.join(beyond)}: this machine has {count}", stacklevel=3)
    return {core for first, last in pairs for core in range(first, min(last + 1, count))}


def _share(device: int) -> Set[int]:
    """The cores of a device: as many for each, in order."""
    import torch

    cores = sorted(_original or os.sched_getaffinity(0))
    each = max(len(cores) // max(torch.npu.device_count(), 1), 1)
    return set(cores[device * each:(device + 1) * each] or cores)


def set_thread_affinity(core_range: Optional[Union[List[int], List[List[int]]]] = None) -> None:
    """Keeps this thread, and those it starts from now on, on cores [first, last] or several such ranges; by default on the
    share of the current device. Cores that are not there are left out, with a warning; where none is left nothing changes.
    ValueError for what is no range."""
    global _original
    if _original is None:
        _original = os.sched_getaffinity(0)
    if core_range is None:
        import torch

        cores = _share(torch.npu.current_device())
    else:
        cores = _cores(core_range)
    if cores:
        os.sched_setaffinity(0, cores)


def reset_thread_affinity() -> None:
    """Takes back :func:`set_thread_affinity` for this thread."""
    if _original is not None:
        os.sched_setaffinity(0, _original)


def apply_configuration(text: str, device: int) -> None:
    """What CPU_AFFINITY_CONF asks for: ``mode:0`` nothing, ``mode:1`` or ``mode:2`` the device's share, with ``npu0:0-3`` (for
    any device) those cores. The mode may be the first field without its name. Other fields (``lazy_bind:0``) are passed over:
    they say when threads are bound, and which others. ValueError for another text."""
    first, *others = (field.strip() for field in text.split(","))
    fields = dict(field.split(":", 1) for field in (first, *others) if ":" in field)
    mode = fields.get("mode", first)
    if mode not in ("0", "1", "2"):
        raise ValueError(f"CPU_AFFINITY_CONF={text}: expected mode:0, mode:1 or mode:2, and npu0:0-3 for a device's cores")
    if mode == "0":
        return
    own = fields.get(f"npu{device}")
    if own is None:
        set_thread_affinity()
        return
    match = re.fullmatch(r"(\d+)-(\d+)", own.strip())
    if match is None:
        raise ValueError(f"CPU_AFFINITY_CONF={text}: npu{device} has the cores {own!r}, expected such as 0-3")
    set_thread_affinity([int(match[1]), int(match[2])])
