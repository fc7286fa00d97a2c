"""TORCH_NPU_LOGS: what the adapter says of itself, by component, in the syntax of TORCH_LOGS.

``op,memory`` lets components tell what happens (info), ``+hccl`` everything (debug), ``-graph`` errors alone; ``all`` is every
component. A level alone (debug, info, warning, error) is that of all. They are Python's loggers ``torch_npu.<component>``, and
write to stderr. A component that is off costs nothing: what watches operators is there only where one asks for it.
"""

import logging
import os
from typing import Any, Dict, List, Tuple

COMPONENTS: Dict[str, str] = {
    "device": "opening the device: runtime, chip, version, why that one",
    "op": "the first use of each operator, with dtypes, shapes and line; those that run on the CPU; failures; debug: each call",
    "memory": "reserved memory as it grows, retries, out of memory; debug: each operator that changes what is allocated",
    "hccl": "process groups; the first collective of each kind; failures; debug: each collective",
    "graph": "captures and what they take; debug: each replay",
    "profiler": "what a profile cannot have, errors of its configuration",
    "asd": "suspicions of silent faults of the hardware",
}
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORMAT = "[%(asctime)s] [%(process)d{rank}] %(levelname)s %(name)s: %(message)s"


def parse(text: str) -> Tuple[Dict[str, int], List[str]]:
    """(component, or "" for all of them -> level, what cannot be read)."""
    levels: Dict[str, int] = {}
    unknown = []
    for item in filter(None, (part.strip().lower() for part in text.split(","))):
        sign, name = (item[0], item[1:]) if item[0] in "+-" else ("", item)
        level = {"+": logging.DEBUG, "-": logging.ERROR, "": logging.INFO}[sign]
        if name == "all":
            levels[""] = level
        elif name in COMPONENTS:
            levels[name] = level
        elif name in _LEVELS and not sign:
            levels[""] = _LEVELS[name]
        else:
            unknown.append(item)
    return levels, unknown


def apply(text: str) -> None:
    """Sets the levels, and lets the loggers write to stderr. What cannot be read is told and changes nothing."""
    levels, unknown = parse(text)
    top = logging.getLogger("torch_npu")
    if not any(isinstance(handler, _Handler) for handler in top.handlers):
        top.addHandler(_Handler())
    top.setLevel(levels.pop("", logging.NOTSET) or top.level)
    for name, level in levels.items():
        logging.getLogger(f"torch_npu.{name}").setLevel(level)
    if unknown:
        top.warning("TORCH_NPU_LOGS=%s: %s: expected any of %s, components with + or - before them", text, ", ".join(unknown),
                    ", ".join((*COMPONENTS, "all", *_LEVELS)))


class _Handler(logging.StreamHandler):
    """To stderr, with the rank where there are several."""

    def __init__(self) -> None:
        super().__init__()
        rank = os.environ.get("RANK")
        self.setFormatter(logging.Formatter(_FORMAT.format(rank=f", rank {rank}" if rank else "")))


def watch() -> None:
    """Watches operators for the components that TORCH_NPU_LOGS asked for; without it programs have their own loggers."""
    if not any(isinstance(handler, _Handler) for handler in logging.getLogger("torch_npu").handlers):
        return
    if any(logging.getLogger(f"torch_npu.{name}").isEnabledFor(logging.INFO) for name in ("op", "memory", "hccl")):
        from torch_npu._debug import log_operators

        log_operators.watch()


def lazily(function: Any) -> Any:
    """A value of a log line that is computed only if the line is written: ``log.info("%s", lazily(describe))``."""
    return _Lazy(function)


class _Lazy:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __str__(self) -> str:
        return str(self.function())
