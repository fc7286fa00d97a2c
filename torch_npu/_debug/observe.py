"""Sees every operator that Python's side of PyTorch calls: the one place that dumps, shadow mode, checks and logs hook into.

Note [Observing operators]
One TorchDispatchMode stands at the bottom of the stack of modes, so that the program's own modes work as without it, and what
they turn a call into is what is seen. It is below autograd: operators of a backward pass are seen too, for autograd takes the
stack of modes along to its threads. Threads of ``threading`` get it when they start, by their profile hook, which it gives back
at once. Inside an observer nothing is observed. While a graph is captured nothing is: copies to the host cannot be captured.
"""

import os
import sys
import threading
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

_OURS = (os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, os.path.dirname(__file__)))
_PACKAGES = (*_OURS, threading.__file__, "<frozen")
_MOST_LINES = 200_000
# Their results hold whatever was in the memory.
_UNWRITTEN = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"))


class Call:
    """One call of an operator.

    ``operator`` is its full name (aten.add.Tensor), ``number`` counts the calls of this operator from 0, ``serial`` those of all.
    """

    def __init__(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], number: int, serial: int) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.operator = str(func)
        self.number, self.serial = number, serial
        self.notes: Dict[Any, Any] = {}  # what an observer keeps between before() and after()

    @property
    def schema(self) -> Any:
        return self.func._schema

    def arguments(self) -> Iterator[Tuple[Any, Any]]:
        """(argument of the schema, its value), for those that were given."""
        declared = self.schema.arguments
        yield from zip(declared, self.args)
        for argument in declared[len(self.args):]:
            if argument.name in self.kwargs:
                yield argument, self.kwargs[argument.name]

    def inputs(self) -> Iterator[Tuple[str, torch.Tensor, bool]]:
        """(name, tensor, whether it is written) of all tensors among the arguments."""
        for argument, value in self.arguments():
            written = argument.alias_info is not None and argument.alias_info.is_write
            for name, tensor in named_tensors(argument.name, value):
                yield name, tensor, written

    def is_view(self) -> bool:
        """True if the results are views of arguments and nothing is computed."""
        aliases = [result.alias_info for result in self.schema.returns]
        return any(alias is not None for alias in aliases) and not any(alias is not None and alias.is_write for alias in aliases)

    def leaves_unwritten(self) -> bool:
        """True if the results hold whatever was in the memory."""
        return self.base_name() in _UNWRITTEN

    def base_name(self) -> str:
        """The name alone: add of aten.add.Tensor."""
        return self.schema.name.rpartition("::")[2]

    def is_on(self, device: str) -> bool:
        """True if a tensor among the arguments is on a device of this type, or the result is to be."""
        if any(tensor.device.type == device for _, tensor, _ in self.inputs()):
            return True
        wanted = self.kwargs.get("device")
        return wanted is not None and torch.device(wanted).type == device

    def line(self) -> str:
        """"file:line" of the program that made the call; of a backward pass, of the forward call (then with "(backward)")."""
        if "line" not in self.notes:
            self.notes["line"] = _lines.of_this_call()
        return self.notes["line"]


class Observer:
    """What is told of each operator; before() and after() may raise, which ends the call."""

    def before(self, call: Call) -> None:
        """The operator is about to be called; its arguments still have their old values."""

    def after(self, call: Call, results: Any) -> None:
        """The operator was called. The device may still be at work; a copy to the host waits for it."""

    def failed(self, call: Call, error: BaseException) -> None:
        """The operator raised ``error``, which goes on its way."""


def named_tensors(name: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """(name, tensor) of the tensors in an argument or result: name, or name[0], name[1]... for those of a list.

    Not of those that stand for others (DTensor, AsyncCollectiveTensor): these have no memory of their own.
    """
    if isinstance(value, torch.Tensor):
        if type(value).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl:
            yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from named_tensors(f"{name}[{index}]", item)


def named_results(call: Call, results: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """(name, tensor) of an operator's results: by the schema, else out, out1..."""
    declared = call.schema.returns
    values = results if len(declared) > 1 and isinstance(results, (list, tuple)) else [results]
    for index, (value, result) in enumerate(zip(values, declared)):
        yield from named_tensors(result.name or ("out" if len(declared) == 1 else f"out{index}"), value)


def results_can_be_read(call: Call, results: Any) -> bool:
    """True if what an operator writes may be copied to the host now. A collective's results are waited for.

    False for those of send and recv, which wait for what the other rank may do only after our next call, and for coalesced
    calls, which have not begun.
    """
    if call.func.namespace != "c10d":
        return True
    from torch.distributed import distributed_c10d

    if call.base_name() in ("send", "recv_", "recv_any_source_"):
        return False
    for result in results if isinstance(results, (list, tuple)) else [results]:
        if isinstance(result, torch.ScriptObject):
            work = distributed_c10d.Work.unbox(result)
            if work is None:
                return False
            work.wait()
    return True


def user_line(frame: Any = None) -> Optional[str]:
    """"file:line" of the innermost frame outside torch and torch_npu; None where there is none, as on autograd's threads."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_PACKAGES):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


class _Lines:
    """Which Python line made an operator, and with it the node of autograd that has the backward pass's calls."""

    def __init__(self) -> None:
        self.by_sequence: "OrderedDict[int, str]" = OrderedDict()

    def of_this_call(self) -> str:
        node = torch._C._current_autograd_node() if torch._C._current_graph_task_id() != -1 else None
        if node is not None:
            line = self.by_sequence.get(node._sequence_nr())
            return f"{line} (backward)" if line else f"{node.name()} (backward)"
        return user_line() or "unknown"

    def remember(self, call: Call) -> None:
        """Autograd numbers its nodes one after the other, and the last one is this call's, if it has one."""
        self.by_sequence[torch._C._autograd._get_sequence_nr() - 1] = call.line()
        if len(self.by_sequence) > _MOST_LINES:
            self.by_sequence.popitem(last=False)


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _observers or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if _is_tracing():  # first of all: fake tensors leave a call to no other mode
            return func(*args, **kwargs)
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented  # a subclass first: what it makes of the call comes here again
        if _is_capturing():
            return func(*args, **kwargs)
        with _lock:
            number = _numbers[func] = _numbers.get(func, -1) + 1
            serial = _numbers[None] = _numbers.get(None, -1) + 1
        call = Call(func, args, kwargs, number, serial)
        if torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            _lines.remember(call)
        observers = list(_observers)
        with torch.no_grad():
            for observer in observers:
                observer.before(call)
        try:
            results = func(*args, **kwargs)
        except BaseException as error:
            for observer in observers:
                observer.failed(call, error)
            raise
        with torch.no_grad():
            for observer in observers:
                observer.after(call, results)
        return results


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_observers: List[Observer] = []
_numbers: Dict[Any, int] = {}
_lines = _Lines()
_mode = _Mode()
_lock = threading.Lock()
_profile_before: Any = None


_TRACERS = tuple(getattr(torch._C._TorchDispatchModeKey, name) for name in ("FAKE", "PROXY", "FUNCTIONAL"))


def _is_tracing() -> bool:
    """torch.compile and torch.export ask what would be: nothing is computed."""
    return any(torch._C._get_dispatch_mode(key) is not None for key in _TRACERS)


def _is_capturing() -> Any:
    from torch_npu import _C

    return torch.npu.is_initialized() and _C._is_current_stream_capturing()


def _stack_of_users() -> List[Any]:
    return [mode for mode in _get_current_dispatch_mode_stack() if getattr(mode, "_mode_key", None) is None]


def _replace_stack(before: List[Any], after: List[Any]) -> None:
    for _ in before:
        torch._C._pop_torch_dispatch_stack(None)
    for mode in after:
        torch._C._push_on_torch_dispatch_stack(mode)


def _enter_this_thread() -> None:
    stack = _stack_of_users()
    if _mode not in stack:
        _replace_stack(stack, [_mode, *stack])


def _leave_this_thread() -> None:
    stack = _stack_of_users()
    if _mode in stack:
        _replace_stack(stack, [mode for mode in stack if mode is not _mode])


def _at_a_threads_start(frame: Any, event: str, argument: Any) -> None:
    sys.setprofile(_profile_before)
    if _observers:
        _enter_this_thread()


def add(observer: Observer) -> None:
    """Tells ``observer`` of every operator from now on: of this thread, of autograd's, and of threads that start later."""
    global _profile_before
    if not _observers:
        _profile_before = threading._profile_hook  # getprofile() is Python 3.10's
        threading.setprofile(_at_a_threads_start)
    _observers.append(observer)
    _enter_this_thread()


def remove(observer: Observer) -> None:
    """Ends :func:`add`. Other threads keep a mode that does nothing."""
    if observer in _observers:
        _observers.remove(observer)
    if not _observers:
        if threading._profile_hook is _at_a_threads_start:
            threading.setprofile(_profile_before)
        _leave_this_thread()


def restart_numbers() -> None:
    """The calls are numbered from 0 again."""
    with _lock:
        _numbers.clear()
