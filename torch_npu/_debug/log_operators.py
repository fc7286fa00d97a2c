"""The logs ``op``, ``memory`` and ``hccl``, as far as operators tell of them."""

import logging
from typing import Any, Dict, Set

import torch

from torch_npu import _C
from torch_npu._debug import observe

_op, _memory, _hccl = (logging.getLogger(f"torch_npu.{name}") for name in ("op", "memory", "hccl"))


def _shapes(named: Any) -> str:
    return ", ".join(f"{name} {str(tensor.dtype)[len('torch.'):]}{list(tensor.shape)}" for name, tensor in named) or "no tensors"


def _inputs(call: observe.Call) -> str:
    return _shapes((name, tensor) for name, tensor, _ in call.inputs())


def _where(call: observe.Call) -> str:
    stream = torch.npu.current_stream()
    return f"stream {stream.stream_id} of {stream.device}, {call.line()}"


class _Operators(observe.Observer):
    def __init__(self) -> None:
        self.seen: Set[Any] = set()
        self.on_cpu = {name: calls for name, calls, _, _ in _C._fallback_ledger()}

    def after(self, call: observe.Call, results: Any) -> None:
        if not call.is_on("npu") or call.func.namespace == "c10d":
            return
        if call.func not in self.seen:
            self.seen.add(call.func)
            made = _shapes(observe.named_results(call, results))
            _op.info("first use of %s: %s -> %s; %s", call.operator, _inputs(call), made, _where(call))
        elif _op.isEnabledFor(logging.DEBUG):
            _op.debug("%s #%d: %s; %s", call.operator, call.number, _inputs(call), _where(call))
        for name, calls, size, _ in _C._fallback_ledger():
            if calls > self.on_cpu.get(name, 0):
                if name not in self.on_cpu:
                    _op.info("%s runs on the CPU, for the NPU has no kernel for it: %d bytes copied; called at %s",
                             name, size, call.line())
                self.on_cpu[name] = calls

    def failed(self, call: observe.Call, error: BaseException) -> None:
        if call.is_on("npu") and call.func.namespace != "c10d":
            _op.error("%s failed: %s; %s; %s", call.operator, str(error).partition("\n")[0], _inputs(call), _where(call))


class _Collectives(observe.Observer):
    def __init__(self) -> None:
        self.seen: Set[Any] = set()

    def before(self, call: observe.Call) -> None:
        if call.func.namespace != "c10d" or not call.is_on("npu"):
            return
        first = call.func not in self.seen
        self.seen.add(call.func)
        level, word = (logging.INFO, "first ") if first else (logging.DEBUG, "")
        if _hccl.isEnabledFor(level):
            _hccl.log(level, "%s%s #%d: %s; %s", word, call.operator, call.number, _inputs(call), _where(call))

    def failed(self, call: observe.Call, error: BaseException) -> None:
        if call.func.namespace == "c10d" and call.is_on("npu"):
            _hccl.error("%s failed: %s; %s; %s", call.operator, str(error).partition("\n")[0], _inputs(call), _where(call))


_RESERVED, _ALLOCATED = "reserved_bytes.all.current", "allocated_bytes.all.current"
_COUNTS = {"num_alloc_retries": "an allocation was tried again after cached memory had been given back",
           "num_ooms": "the memory of the NPU ran out"}


class _Memory(observe.Observer):
    """Compares the allocator's figures after each operator with those before."""

    def __init__(self) -> None:
        self.last: Dict[int, Dict[str, int]] = {}

    def look(self, call: observe.Call) -> None:
        if not call.is_on("npu"):
            return
        device = torch.npu.current_device()
        figures = torch.npu.memory_stats(device)
        last = self.last.setdefault(device, dict.fromkeys((_RESERVED, _ALLOCATED, *_COUNTS), 0))
        before, now = last[_RESERVED], figures[_RESERVED]
        if now != before:
            _memory.info("npu:%d: reserved %.1f -> %.1f MiB, %.1f allocated, by %s, %s", device, before / 2**20, now / 2**20,
                         figures[_ALLOCATED] / 2**20, call.operator, call.line())
        if _memory.isEnabledFor(logging.DEBUG) and figures[_ALLOCATED] != last[_ALLOCATED]:
            _memory.debug("npu:%d: allocated %d -> %d bytes by %s, %s", device, last[_ALLOCATED], figures[_ALLOCATED],
                          call.operator, call.line())
        for name, text in _COUNTS.items():
            if figures[name] != last[name]:
                _memory.warning("npu:%d: %s: %s; %s", device, text, call.operator, _inputs(call))
        last.update((name, figures[name]) for name in last)

    def after(self, call: observe.Call, results: Any) -> None:
        self.look(call)

    def failed(self, call: observe.Call, error: BaseException) -> None:
        self.look(call)


def watch() -> None:
    """Adds the observers of the loggers that are on."""
    for logger, observer in ((_op, _Operators), (_hccl, _Collectives), (_memory, _Memory)):
        if logger.isEnabledFor(logging.INFO):
            observe.add(observer())
