"""What the stream sanitizer knows of collectives: they run on a stream of their group's, and Work.wait() orders what follows.

Only those that Python calls through torch.distributed are followed, for Python waits for them, too. Those of
DistributedDataParallel and of coalesced calls are waited for in C++, unseen: they count as work of the current stream.

torch has no hook for a Work that is waited for, so the methods of its class are wrapped while the sanitizer is on.
"""

import functools
import sys
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from torch_npu._debug import observe

_FOLLOWED = frozenset(("allgather_", "_allgather_base_", "allreduce_", "alltoall_", "alltoall_base_", "broadcast_", "gather_",
                       "reduce_", "reduce_scatter_", "_reduce_scatter_base_", "scatter_"))
_MOST = 1000
# The modules whose frames stand between a call of an operator and what observes it.
_BETWEEN = ("torch_npu.", "torch._ops", "torch._compile", "torch._dynamo", "torch.utils.")
_METHODS: Dict[str, Callable[[Any], bool]] = {  # and whether their result says that the collective is over
    "wait": lambda result: True, "synchronize": lambda result: True, "get_future": lambda result: True,
    "block_current_stream": lambda result: True, "is_completed": bool, "result": lambda result: True,
}


class Works:
    """The collectives that nobody has waited for yet; ``waited(value, on_host)`` is called with what they were followed with."""

    def __init__(self, waited: Callable[[Any, bool], None]) -> None:
        self.waited = waited
        self.pending: "OrderedDict[int, Tuple[Any, Any]]" = OrderedDict()
        self.originals: List[Tuple[str, Any]] = []

    def find(self, call: observe.Call, results: Any) -> Optional[Any]:
        """The Work of a collective that Python called and will wait for; None for other calls."""
        if call.func.namespace != "c10d" or call.base_name() not in _FOLLOWED or torch._C._current_graph_task_id() != -1:
            return None
        from torch.distributed import distributed_c10d

        if distributed_c10d._world.pg_coalesce_state or _caller() != distributed_c10d.__file__:
            return None
        for result in results if isinstance(results, (list, tuple)) else [results]:
            if isinstance(result, torch.ScriptObject):
                return distributed_c10d.Work.unbox(result)
        return None

    def follow(self, work: Any, value: Any) -> None:
        """Remembers ``value`` until the work is waited for."""
        self.pending[id(work)] = work, value
        if len(self.pending) > _MOST:
            self.pending.popitem(last=False)

    def start(self) -> None:
        if not torch.distributed.is_available():
            return
        from torch.distributed.distributed_c10d import Work

        for name, says_over in _METHODS.items():
            if hasattr(Work, name):
                self.originals.append((name, getattr(Work, name)))
                setattr(Work, name, self.wrapped(getattr(Work, name), says_over, name == "is_completed"))

    def stop(self) -> None:
        if self.originals:
            from torch.distributed.distributed_c10d import Work

            for name, original in self.originals:
                setattr(Work, name, original)

    def wrapped(self, original: Any, says_over: Callable[[Any], bool], on_host: bool) -> Any:
        @functools.wraps(original)
        def method(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            if id(work) in self.pending and says_over(result):
                self.waited(self.pending.pop(id(work))[1], on_host)
            return result
        return method


def _caller() -> str:
    """The file of the Python function that called the operator."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_BETWEEN):
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""
