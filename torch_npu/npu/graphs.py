"""Graphs: work that is captured once and then launched as a whole.

    graph, x = torch.npu.NPUGraph(), torch.zeros(8, device="npu")
    with torch.npu.graph(graph):
        y = model(x)            # taken, not run
    x.copy_(batch)
    graph.replay()              # y has the model's result for the batch

A replay reads and writes the very memory of the capture. So inputs are copied into the tensors that were captured, results are
read from those the capture made, and nothing captured may depend on values on the host: ``.item()``, printing and copies from
pageable memory are errors there. Random numbers are drawn anew by each replay, from the generator's state at that time.
"""
import gc
import logging
import weakref
from typing import Any, Callable, Dict, Sequence, Tuple

import torch

from torch_npu import _C, _options
from torch_npu._debug import logs
from torch_npu.npu import _graph_updates, device as _device, memory as _memory, streams as _streams
from torch_npu.npu._utils import InvalidTypeError, InvalidValueError

_log = logging.getLogger("torch_npu.graph")

__all__ = ["NPUGraph", "graph", "graph_pool_handle", "graph_task_group_begin", "graph_task_group_end", "graph_task_update_begin",
           "graph_task_update_end", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing() -> bool:
    """Whether the current stream is being captured into a graph."""
    return _C._is_current_stream_capturing()


def graph_pool_handle() -> Tuple[int, int]:
    """A memory pool, as an opaque pair, for graphs that are to share one: they must not be at work at the same time."""
    return _C._graph_pool_handle()


def _checked(stream: Any) -> Any:
    if not isinstance(stream, _streams.Stream):
        raise InvalidTypeError(f"a group of tasks is of a torch.npu.Stream, not of {type(stream).__name__}")
    return stream


def graph_task_group_begin(stream: Any) -> None:
    """What ``stream``, which is being captured, is given from here on is a group of tasks that can be replaced later."""
    _checked(stream)
    _C._graph_task_group_begin(stream.stream_id, stream.device_index)


def graph_task_group_end(stream: Any) -> int:
    """Ends the group; its handle, an int, holds as long as the graph."""
    _checked(stream)
    return _C._graph_task_group_end(stream.stream_id, stream.device_index)


def graph_task_update_begin(stream: Any, handle: int) -> None:
    """What ``stream`` is given from here on is not run: it will replace the tasks of the group, with other arguments.

    They must be the same operators in the same order, and their tensors must live as long as the graph. A replay that is under
    way may come to the group before or after them, unless it waits for a :class:`torch.npu.ExternalEvent` that ``stream`` records
    behind the update.
    """
    _checked(stream)
    _C._graph_task_update_begin(stream.stream_id, stream.device_index, handle)


def graph_task_update_end(stream: Any) -> None:
    """Ends the update, which takes place in the order of ``stream``. RuntimeError where the operators are not the group's."""
    _checked(stream)
    _C._graph_task_update_end(stream.stream_id, stream.device_index)


# Graphs by the number of their capture, which no stream has any more once it has ended.
_ERROR_MODES = ("global", "thread_local", "relaxed")
_captures: Any = weakref.WeakValueDictionary()


class NPUGraph(_C._NPUGraph):
    """Work of the NPU, captured between ``capture_begin`` and ``capture_end``; ``torch.npu.graph`` calls both.

    ``keep_graph`` is accepted for programs that give it; what was captured can be run as it is.
    """

    def __new__(cls, keep_graph: bool = False) -> Any:
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()
        self._updates: Any = None   # of a capture with auto_dispatch_capture

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Takes what is given to the current stream from here on, which must not be the default one.

        pool: that of another graph (``other.pool()``) or of ``graph_pool_handle()``; one of its own by default.
        capture_error_mode: whom calls that wait for the device are forbidden to: "global" everybody, "thread_local" this thread,
        "relaxed" nobody.
        """
        if capture_error_mode not in _ERROR_MODES:
            raise InvalidValueError(f"capture_error_mode is 'global', 'thread_local' or 'relaxed', got {capture_error_mode!r}")
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)
        _captures[_C._capture_number()] = self
        _log.info("capture begins on stream %d, %s", _streams.current_stream().stream_id, capture_error_mode)

    @staticmethod
    def get_currently_capturing_graph() -> Any:
        """The graph that the current stream is being captured into; RuntimeError where it is not being captured."""
        graph = _captures.get(_C._capture_number())
        if graph is None:
            raise RuntimeError("The current NPU stream is not currently capturing.")
        return graph

    def capture_end(self) -> None:
        """Ends the capture, on the stream on which it began. What made it fail is raised here: RuntimeError."""
        try:
            super().capture_end()
        except RuntimeError as error:
            _log.error("capture failed: %s", str(error).partition("\n")[0])
            raise
        _log.info("captured, memory pool %s", self.pool())

    def begin_capture_to_if_node(self, scalar_npu_pred_tensor: torch.Tensor) -> None:
        """What is given to the current stream until ``end_capture_to_conditional_node`` runs only in replays where the tensor,
        one element on the NPU, is true when they come there. It can be done within such a part again. The current stream is
        another one meanwhile; random numbers and collectives are not possible there.

        Raises ValueError for another tensor, RuntimeError outside of a capture.
        """
        predicate = scalar_npu_pred_tensor
        if predicate.numel() != 1 or predicate.device.type != "npu":
            raise ValueError(f"the condition is one element on the NPU, not {tuple(predicate.shape)} on {predicate.device}")
        super()._begin_branch((predicate != 0).to(torch.int64))
        _captures[_C._capture_number()] = self

    def end_capture_to_conditional_node(self) -> None:
        """Ends what ``begin_capture_to_if_node`` has begun."""
        super()._end_branch()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """For programs that call it: a generator whose numbers are drawn in the capture is known from then on."""
        if generator.device.type != "npu":
            raise ValueError(f"a generator of the NPU is needed, this one is of {generator.device}")

    def instantiate(self) -> None:
        """Nothing is left to be done: the graph is ready when its capture ends."""

    def replay(self) -> None:
        """Runs the work on the current stream."""
        _log.debug("replay of the graph with memory pool %s", logs.lazily(self.pool))
        super().replay()

    def update(self, cpu_update_input: Sequence[Dict[str, Any]]) -> None:
        """Gives the operators of the graph that take lengths from the host others, and lets a replay pass that waits for them.

        The graph was captured with ``auto_dispatch_capture=True``; each replay waits for its own update, which may come before
        or after ``replay()``. cpu_update_input: a dict of arguments by name for all such operators, or one for each in the order
        of their calls, such as ``[{"actual_seq_lengths_kv": [5, 7]}]``. Raises RuntimeError without such an operator, ValueError
        for another number of dicts and for unknown names.
        """
        if self._updates is None:
            raise RuntimeError("only a graph that was captured with auto_dispatch_capture=True can be updated")
        self._updates.update(cpu_update_input)

    def reset(self) -> None:
        """Waits for replays and lets go of the work and its memory; then the object can capture again."""
        super().reset()
        self._updates = None
        _log.info("a graph was reset")

    def pool(self) -> Tuple[int, int]:
        """The graph's memory pool, to be given to the capture of another graph."""
        return super().pool()

    def enable_debug_mode(self) -> None:
        """For programs that call it: ``debug_dump`` needs no mode."""

    def debug_dump(self, debug_path: Any) -> None:
        """Writes the captured tasks to a file, as JSON."""
        super().debug_dump(debug_path)


class graph:
    """Captures the work of the block into ``npu_graph``, on a stream of its own (or ``stream``).

    auto_dispatch_capture: the fused inference attention of the block can be given other lengths for each replay, by
    :meth:`NPUGraph.update`.
    """

    default_capture_stream = None

    def __init__(self, npu_graph: Any, pool: Any = None, stream: Any = None, auto_dispatch_capture: bool = False,
                 capture_error_mode: str = "global") -> None:
        if not isinstance(auto_dispatch_capture, bool):
            raise TypeError(f"auto_dispatch_capture is a bool, not {auto_dispatch_capture!r}; give capture_error_mode by name")
        if stream is None:
            if graph.default_capture_stream is None or graph.default_capture_stream.device_index != _device.current_device():
                graph.default_capture_stream = _streams.Stream()
            stream = graph.default_capture_stream
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode
        self.auto_dispatch_capture = auto_dispatch_capture
        self._stream_context = _streams.stream(stream)

    def __enter__(self) -> None:
        # What the capture does not own must not come back to the allocator while it may not ask for it.
        _device.synchronize()
        if _options.published_number("TORCH_NPUGRAPH_GC", 1):
            gc.collect()
        _memory.empty_cache()
        self._stream_context.__enter__()
        try:
            self.npu_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._stream_context.__exit__(None, None, None)
            raise
        if self.auto_dispatch_capture:
            self.npu_graph._updates = _graph_updates.Updates()
            self.npu_graph._updates.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.auto_dispatch_capture:
            self.npu_graph._updates.__exit__(kind, error, trace)
        try:
            self.npu_graph.capture_end()
        except RuntimeError:
            if error is None:  # else the block's own error tells more
                raise
        else:
            if error is not None:  # half of the work is not to be replayed
                self.npu_graph.reset()
        finally:
            self._stream_context.__exit__(kind, error, trace)


def make_graphed_callables(callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
                           pool: Any = None) -> Any:
    """Functions or modules whose forward and backward are one graph each, in the place of ``callables`` (one, or a tuple).

    sample_args: the arguments, a tuple of NPU tensors (for several callables a tuple of tuples), of the shapes, dtypes and
    ``requires_grad`` that all later calls have. Results are overwritten by the next call. Of a module, parameters must stay where
    they are, and buffers must not need gradients; called in the other mode than at the capture (train, eval) it runs
    ungraphed.
    Callables that are called in the order given share one memory pool.
    """
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"{len(callables)} callables and arguments for {len(sample_args)}")
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables under autocast needs autocast(..., cache_enabled=False)")
    for function, args in zip(callables, sample_args):
        if not all(isinstance(arg, torch.Tensor) and arg.device.type == "npu" for arg in args):
            raise InvalidValueError("sample_args are NPU tensors")
        if isinstance(function, torch.nn.Module):
            if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
                raise RuntimeError("modules with hooks cannot be graphed: add the hooks to what make_graphed_callables returns")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("a module whose buffers need gradients cannot be graphed")
    parts = [_Part(function, args, allow_unused_input) for function, args in zip(callables, sample_args)]
    _device.synchronize()
    with _streams.stream(_streams.Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.run()
    _device.synchronize()
    pool = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):   # the order in which the backwards will run
        part.capture_backward(pool)
    made = tuple(part.wrap() for part in parts)
    return made[0] if single else made


class _Part:
    """One callable on its way into two graphs."""

    def __init__(self, function: Callable[..., Any], args: Any, allow_unused_input: Any) -> None:
        self.function = function
        self.args = tuple(args)
        self.allow_unused = allow_unused_input
        self.parameters = tuple(function.parameters()) if isinstance(function, torch.nn.Module) else ()
        self.inputs = self.args + self.parameters
        self.wanted = tuple(x for x in self.inputs if x.requires_grad)
        self.forward, self.backward = NPUGraph(), NPUGraph()

    def gradients(self, outputs: Any, grads: Any) -> Any:
        differentiable = [output for output in outputs if output.requires_grad]
        if not differentiable or not self.wanted:
            return ()
        return torch.autograd.grad(differentiable, self.wanted, grads, allow_unused=self.allow_unused)

    def run(self) -> None:
        outputs, _ = torch.utils._pytree.tree_flatten(self.function(*self.args))
        self.gradients(outputs, [torch.empty_like(output) for output in outputs if output.requires_grad])

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward, pool=pool):
            results = self.function(*self.args)
        self.outputs, self.structure = torch.utils._pytree.tree_flatten(results)

    def capture_backward(self, pool: Any) -> None:
        self.grads = [torch.empty_like(output) if output.requires_grad else None for output in self.outputs]
        found = ()
        if self.wanted and any(grad is not None for grad in self.grads):
            with graph(self.backward, pool=pool):
                found = self.gradients(self.outputs, [grad for grad in self.grads if grad is not None])
        rest = iter(found)
        self.input_grads = [next(rest, None) if x.requires_grad else None for x in self.inputs]

    def wrap(self) -> Any:
        part = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Tuple[Any, ...]:
                for own, given in zip(part.args, inputs):
                    if own.data_ptr() != given.data_ptr():
                        own.copy_(given)
                part.forward.replay()
                return tuple(output.detach() for output in part.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx: Any, *grads: Any) -> Tuple[Any, ...]:
                for own, given in zip(part.grads, grads):
                    if own is not None and own.data_ptr() != given.data_ptr():
                        own.copy_(given)
                if any(grad is not None for grad in part.input_grads):
                    part.backward.replay()
                return tuple(grad.detach() if grad is not None else None for grad in part.input_grads)

        def call(*args: Any) -> Any:
            if len(args) != len(part.args):
                raise TypeError(f"the graph has {len(part.args)} arguments, {len(args)} were given")
            for own, given in zip(part.args, args):
                if own.shape != given.shape or own.dtype != given.dtype or given.device != own.device:
                    raise ValueError(f"the graph was captured for {own.dtype} of {tuple(own.shape)} on {own.device}, "
                                     f"got {given.dtype} of {tuple(given.shape)} on {given.device}")
            return torch.utils._pytree.tree_unflatten(Graphed.apply(*args, *part.parameters), part.structure)

        if not isinstance(part.function, torch.nn.Module):
            return call
        module, ungraphed, training = part.function, part.function.forward, part.function.training
        module.forward = lambda *args: call(*args) if module.training == training else ungraphed(*args)
        return module
