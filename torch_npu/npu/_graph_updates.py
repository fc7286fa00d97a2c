"""Operators of a graph whose arguments on the host change from replay to replay: lengths of sequences, for one.

In a capture each call of such an operator becomes a task group behind a wait for an external event; an update replaces the
group's task by one with the new arguments and raises the event.
"""
from typing import Any, Dict, List, Sequence, Tuple

from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import _C
from torch_npu.npu import streams as _streams

# Published operators with lengths among their arguments; each has an overload that writes into given tensors.
UPDATABLE = ("npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2")


class _Call:
    """One captured call."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any], event: Any) -> None:
        self.packet, self.args, self.kwargs, self.event = func.overloadpacket, args, kwargs, event
        self.names = {argument.name for argument in func._schema.arguments}
        self.results: Tuple[Any, ...] = ()
        self.group = 0

    def update(self, changed: Dict[str, Any], stream: Any) -> None:
        unknown = sorted(set(changed) - self.names)
        if unknown:
            raise ValueError(f"{self.packet.__name__} has no argument {', '.join(unknown)}; "
                             f"it has {', '.join(sorted(self.names))}")
        kwargs = {**self.kwargs, **changed, "out": self.results}
        _C._graph_task_update_begin(stream.stream_id, stream.device_index, self.group)
        try:
            self.packet.out(*self.args, **kwargs)
        finally:
            _C._graph_task_update_end(stream.stream_id, stream.device_index)
        self.kwargs = {**self.kwargs, **changed}   # keeps the tensors that the graph reads now
        self.event.record(stream)


class Updates(TorchDispatchMode):
    """Around a capture: notes the calls that can be updated."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: List[_Call] = []
        self._stream: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func.namespace != "npu" or func.overloadpacket.__name__ not in UPDATABLE:
            return func(*args, **kwargs)
        stream, event = _streams.current_stream(), _streams.ExternalEvent()
        event.wait(stream)
        event.reset(stream)
        call = _Call(func, args, {name: value for name, value in kwargs.items() if name != "out"}, event)
        _C._graph_task_group_begin(stream.stream_id, stream.device_index)
        try:
            results = func(*args, **kwargs)
        finally:
            call.group = _C._graph_task_group_end(stream.stream_id, stream.device_index)
        call.results = tuple(results)
        self.calls.append(call)
        return results

    def update(self, inputs: Sequence[Dict[str, Any]]) -> None:
        if not self.calls:
            raise RuntimeError(f"the graph has no operator to update; there are {', '.join(UPDATABLE)}")
        if len(inputs) not in (1, len(self.calls)):
            raise ValueError(f"arguments for {len(inputs)} calls; the graph has {len(self.calls)}: "
                             "give one dict for all, or one for each")
        if self._stream is None:
            self._stream = _streams.Stream()
        with _streams.stream(self._stream):
            for number, call in enumerate(self.calls):
                call.update(inputs[0] if len(inputs) == 1 else inputs[number], self._stream)
