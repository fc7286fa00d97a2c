"""Backends of torch.compile for the NPU.

``npu``: the graphs of PyTorch's autograd, run operator by operator; it is also what the default backend, "inductor", becomes
while there are no generated kernels (in the mode "reduce-overhead": ``npugraphs``). ``npugraphs`` and ``npugraph_ex``: each such
graph is captured once and then launched as a whole (:mod:`torch_npu.npu.graphs`); one that cannot be captured runs operator by
operator.
"""

import contextlib
import functools
import threading
import warnings
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Set

import torch

from torch_npu import _C, _options


def npu(module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend ``npu``; ``options`` are accepted."""
    from torch._dynamo.backends.debugging import aot_eager

    with uncached():
        return aot_eager(module, list(inputs))


def npugraphs(module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend ``npugraphs``; ``options`` are accepted."""
    return through_autograd(capture_later, module, inputs)


def through_autograd(compiler: Callable[..., Any], module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """``compiler`` makes the forward and the backward graph; ``options`` are aot_autograd's."""
    from torch._dynamo.backends.common import aot_autograd

    with uncached():
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, **options)(module, inputs)


def uncached() -> ContextManager[Any]:
    """Where graphs go through aot_autograd: its cache takes what Inductor generates only, and fails on others where it is forced,
    as it is for all backends inside ``torch.compile(...).aot_compile``, which vLLM calls."""
    from torch._functorch import config

    return config.patch(force_autograd_cache=False) if hasattr(config, "force_autograd_cache") else contextlib.nullcontext()


def npugraph_ex(module: Any, inputs: Sequence[Any], options: Optional[Dict[str, Any]] = None,
                **others: Any) -> Callable[..., Any]:
    """The backend ``npugraph_ex``: as ``npugraphs``, and with the option ``force_eager`` operator by operator. The other options
    tune what CANN's captures need and are accepted; ValueError for one that there is not, or a value that it does not take."""
    from torch_npu._compile import npugraph_ex_options

    chosen: Any = npugraph_ex_options.read(options)
    return npu(module, inputs) if chosen.force_eager else npugraphs(module, inputs)


@functools.lru_cache(maxsize=None)
def replacements() -> Any:
    """What :func:`torch.npu.npugraph_ex.register_replacement` has registered; a pass of PyTorch's pattern matcher."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    return PatternMatcherPass(pass_name="npugraph_ex")


def _replace(module: Any) -> None:
    """Makes the registered replacements in a graph of ATen's operators."""
    if replacements.cache_info().currsize and replacements().patterns and replacements().apply(module.graph):
        module.graph.lint()
        module.recompile()


def _why_not(module: Any, inputs: Sequence[Any]) -> Optional[str]:
    """Why a graph cannot be captured; None if it seems to be."""
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            return f"an input is a {type(value).__name__}"
        if value.device.type != "npu":
            return f"an input is on {value.device}"
    refused = {torch.Tag.nondeterministic_seeded: "draws random numbers",
               torch.Tag.dynamic_output_shape: "has a result whose size depends on values",
               torch.Tag.data_dependent_output: "gives a value to the host"}
    for node in module.graph.nodes:
        for tag, what in refused.items():
            if tag in getattr(node.target, "tags", ()):
                return f"{node.target} {what}"
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "npu":
            return f"{node.target} has a result on {value.device}"
    if len(_devices(module, inputs)) > 1:
        return "it uses several devices"
    return None


def _devices(module: Any, inputs: Sequence[Any]) -> Set[int]:
    """The NPUs that a graph's tensors are on."""
    values = [*inputs, *(node.meta.get("val") for node in module.graph.nodes)]
    indices = [value.device.index for value in values if isinstance(value, torch.Tensor)]
    return {torch.npu.current_device() if index is None else index for index in indices}


def operator_by_operator(module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph of ATen's operators as it is."""
    from functorch.compile import make_boxed_func  # type: ignore[import-untyped]

    return make_boxed_func(module.forward)


def capture_later(module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph of ATen's operators that is captured at its first call, if it can be."""
    from functorch.compile import make_boxed_func

    _replace(module)
    if _why_not(module, inputs):
        return make_boxed_func(module.forward)
    return make_boxed_func(_Captured(module, min(_devices(module, inputs), default=torch.npu.current_device())))


class _Captured:
    """A graph that is captured at its first call, which runs operator by operator. Parameters are read where they are; other
    inputs are copied to where they were then. Results are copies. ``device``: the index of the NPU that all tensors are on."""

    def __init__(self, module: Any, device: int) -> None:
        self._module = module
        self._device = device
        self._stream: Optional[Any] = None  # of the last call, with its number
        self._number: Optional[int] = None
        self._turn = threading.RLock()  # inputs and results are in one place for all threads
        self._graph: Optional[Any] = None
        self._failed = False
        self._inputs: List[torch.Tensor] = []
        self._addresses: List[int] = []
        self._results: Sequence[Any] = ()

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if self._failed:
            return self._module(*inputs)
        with self._turn, torch.npu.device(self._device):
            number = _C._current_stream_id(self._device)
            if number != self._number:
                self._change_stream(number)
            return self._run(inputs)

    def _change_stream(self, number: int) -> None:
        """The last call's results are read where the next ones go, so that has to be over."""
        current = torch.npu.current_stream()
        if self._stream is not None:
            current.wait_stream(self._stream)
        self._number, self._stream = number, current

    def _run(self, inputs: Sequence[torch.Tensor]) -> Any:
        if self._graph is None or self._moved(inputs):
            self._graph = None  # of the former inputs, also where this call ends in an exception
            results = self._run_first(inputs)
            try:
                self._capture()
            except RuntimeError as error:
                self._failed = True
                warnings.warn(f"a compiled graph runs operator by operator, for it could not be captured: {error}",
                              RuntimeWarning, stacklevel=2)
            return results
        for mine, given in zip(self._inputs, inputs):
            if mine is not given:
                mine.copy_(given)
        self._graph.replay()
        return [result.clone() if isinstance(result, torch.Tensor) else result for result in self._results]

    def _moved(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether a parameter is elsewhere, or an input has another shape."""
        for mine, address, given in zip(self._inputs, self._addresses, inputs):
            if given.shape != mine.shape or isinstance(given, torch.nn.Parameter) and given.data_ptr() != address:
                return True
        return False

    def _run_first(self, inputs: Sequence[torch.Tensor]) -> Any:
        """The results of a first call. It is not part of the capture, for operators prepare themselves in it."""
        self._inputs = [given if isinstance(given, torch.nn.Parameter) else given.detach().clone() for given in inputs]
        self._addresses = [mine.data_ptr() for mine in self._inputs]
        side, current = torch.npu.Stream(), torch.npu.current_stream()
        side.wait_stream(current)
        with torch.npu.stream(side), torch.no_grad():
            results = [result.clone() if isinstance(result, torch.Tensor) else result for result in self._module(*self._inputs)]
        current.wait_stream(side)
        for result in results:
            if isinstance(result, torch.Tensor):
                result.record_stream(current)
        return results

    def _capture(self) -> None:
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph), torch.no_grad():
            self._results = self._module(*self._inputs)
        self._graph = graph


def register(registry: Any) -> None:
    """For torch._dynamo.backends.registry."""
    registry.register_backend(npu, name="npu")
    registry.register_backend(npugraphs, name="npugraphs")
    registry.register_backend(npugraph_ex, name="npugraph_ex")


def _touches_npu(module: Any, inputs: Sequence[Any]) -> bool:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    nodes = getattr(getattr(module, "graph", None), "nodes", ())
    tensors += [node.meta[key] for node in nodes for key in ("val", "example_value")
                if isinstance(node.meta.get(key), torch.Tensor)]
    return any(tensor.device.type == "npu" for tensor in tensors)


@functools.lru_cache(maxsize=None)
def _tell() -> None:
    warnings.warn(
        "torch.compile's default backend generates no kernels for the NPU yet: graphs run operator by operator "
        '(backend="npu"); backend="npugraphs" and mode="reduce-overhead" launch them as a whole, TORCHDYNAMO_NPU_DEFAULT=error '
        "makes this an error",
        RuntimeWarning, stacklevel=2)


def _wants_graphs(config_patches: Optional[Dict[str, Any]]) -> bool:
    """Whether Inductor would capture what it generates, as ``mode="reduce-overhead"`` asks."""
    from torch._inductor import config

    return bool((config_patches or {}).get("triton.cudagraphs", config.triton.cudagraphs))


def take_default(compile_fx: Any) -> None:
    """For torch._inductor.compile_fx: graphs of the NPU go to the backend ``npu``, or ``npugraphs`` where Inductor is to capture
    them, with one warning. There is no hook for the choice of a default backend by device."""
    from torch._inductor.virtualized import V

    original = compile_fx.compile_fx

    @functools.wraps(original)
    def chosen(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if V.aot_compilation is True and _touches_npu(model_, example_inputs_):
            raise NotImplementedError(
                "AOTInductor generates code, and there is none for the NPU: torch.export.save keeps an exported program, and "
                "torch.onnx.export with atc makes an offline model of it")
        if _options.published("TORCHDYNAMO_NPU_DEFAULT") != "error" and _touches_npu(model_, example_inputs_):
            _tell()
            return (npugraphs if _wants_graphs(kwargs.get("config_patches")) else npu)(model_, example_inputs_)
        return original(model_, example_inputs_, *args, **kwargs)

    compile_fx.compile_fx = chosen
