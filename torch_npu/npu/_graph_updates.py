"""Operators of a graph whose arguments on the host change from replay to replay: lengths of sequences, for one.

In a capture each call of such an operator becomes a task group behind a wait for an external event; an update replaces the
group's task by one with the new arguments and raises the event. Which arguments those are says the operator's handler.
"""
import copy
import logging
from typing import Any, Callable, Dict, List, Sequence, Tuple, Type, Union

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import _C
from torch_npu.npu import streams as _streams

_log = logging.getLogger("torch_npu.graph")

# Published operators with lengths among their arguments; each has an overload that writes into given tensors.
UPDATABLE = ("npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2")


class NpuGraphOpHandler:
    """How calls of an operator are captured and updated in graphs with ``auto_dispatch_capture``; a subclass for each kind.

    All methods are class methods, for what :func:`register_npu_graph_handler` keeps is the class. An update runs the operator
    again with the arguments of its capture, of which it has changed some, so what is captured must write into tensors that it is
    given: ``prepare_capture`` can see to that.
    """

    # Operator, such as "my_op.out" -> (where, place, name in NPUGraph.update) of each argument that updates change: where is
    # "arg" and place a number, or "kwarg" and its name.
    UPDATE_SPECS: Dict[str, List[Tuple[str, Union[int, str], str]]] = {}

    @classmethod
    def prepare_capture(cls, func: Any, args: Any, kwargs: Any) -> Tuple[Any, Any, Any]:
        """The call that is captured in place of ``func(*args, **kwargs)``, before it is."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: Any) -> Any:
        """What the program gets for the result of the captured call."""
        return result

    @classmethod
    def get_update_specs(cls, op_name: str) -> List[Tuple[str, Union[int, str], str]]:
        """The entry of UPDATE_SPECS; empty where there is none."""
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def update_args(cls, dispatch_record: Any, update_input: Dict[str, Any]) -> None:
        """Changes ``dispatch_record.args`` (a list) and ``.kwargs`` by what ``update_input`` has of the UPDATE_SPECS of
        ``dispatch_record.op_cache_entry``, the operator. An argument by position that the call did not give is left alone.
        """
        for where, place, name in cls.get_update_specs(dispatch_record.op_cache_entry.__name__):
            if name not in update_input:
                continue
            if where == "kwarg":
                dispatch_record.kwargs[place] = update_input[name]
            elif isinstance(place, int) and place < len(dispatch_record.args):
                dispatch_record.args[place] = update_input[name]

    @classmethod
    def record_wrap_kwarg(cls, key: str, value: Any, tensor_param_names: Sequence[str]) -> Any:
        """How an argument by name is kept for updates: tensors as they are, for the graph needs them, the rest copied."""
        if isinstance(value, (list, tuple)):
            return type(value)(cls.record_wrap_kwarg(key, item, tensor_param_names) for item in value)
        return value if isinstance(value, torch.Tensor) else copy.deepcopy(value)


_handlers: Dict[str, Type[NpuGraphOpHandler]] = {}


def register_npu_graph_handler(op_names: Union[str, Sequence[str]]) -> Callable[[Any], Any]:
    """Class decorator: the :class:`NpuGraphOpHandler` of operators, by names such as ``"my_op.default"``.

    The last one of a name counts, and a warning is logged.
    """

    def register(handler: Any) -> Any:
        for name in [op_names] if isinstance(op_names, str) else op_names:
            if name in _handlers:
                _log.warning("%s handles %s in place of %s", handler.__name__, name, _handlers[name].__name__)
            _handlers[name] = handler
        return handler

    return register


class _HandledCall:
    """One captured call of an operator with a handler, which sees it as its dispatch record."""

    def __init__(self, handler: Type[NpuGraphOpHandler], func: Any, args: Sequence[Any], kwargs: Dict[str, Any],
                 event: Any) -> None:
        tensors = [argument.name for argument in func._schema.arguments if isinstance(argument.type, torch.TensorType)]
        self.handler, self.op_cache_entry, self.event, self.group = handler, func, event, 0
        self.args = [value if isinstance(value, torch.Tensor) else copy.copy(value) for value in args]
        self.kwargs = {name: handler.record_wrap_kwarg(name, value, tensors) for name, value in kwargs.items()}

    def update(self, changed: Dict[str, Any], stream: Any) -> None:
        self.handler.update_args(self, changed)
        _C._graph_task_update_begin(stream.stream_id, stream.device_index, self.group)
        try:
            self.op_cache_entry(*self.args, **self.kwargs)
        finally:
            _C._graph_task_update_end(stream.stream_id, stream.device_index)
        self.event.record(stream)


class _Call:
    """One captured call of an operator of UPDATABLE."""

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
        self.calls: List[Any] = []
        self._stream: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        handler = _handlers.get(func.__name__)
        if handler is None and (func.namespace != "npu" or func.overloadpacket.__name__ not in UPDATABLE):
            return func(*args, **kwargs)
        if handler is not None:
            func, args, kwargs = handler.prepare_capture(func, args, kwargs)
        stream, event = _streams.current_stream(), _streams.ExternalEvent()
        event.wait(stream)
        event.reset(stream)
        call: Any = (_HandledCall(handler, func, args, kwargs, event) if handler is not None else
                     _Call(func, args, {name: value for name, value in kwargs.items() if name != "out"}, event))
        _C._graph_task_group_begin(stream.stream_id, stream.device_index)
        try:
            results = func(*args, **kwargs)
        finally:
            call.group = _C._graph_task_group_end(stream.stream_id, stream.device_index)
        self.calls.append(call)
        if handler is not None:
            return handler.postprocess_result(results, kwargs)
        call.results = tuple(results)
        return results

    def update(self, inputs: Sequence[Dict[str, Any]]) -> None:
        if not self.calls:
            raise RuntimeError("the graph has no operator to update; there are "
                               + ", ".join([*UPDATABLE, *sorted(_handlers)]))
        if len(inputs) not in (1, len(self.calls)):
            raise ValueError(f"arguments for {len(inputs)} calls; the graph has {len(self.calls)}: "
                             "give one dict for all, or one for each")
        if self._stream is None:
            self._stream = _streams.Stream()
        with _streams.stream(self._stream):
            for number, call in enumerate(self.calls):
                call.update(inputs[0] if len(inputs) == 1 else inputs[number], self._stream)
