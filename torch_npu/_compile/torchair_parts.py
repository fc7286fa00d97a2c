"""What programs call of ``torchair.scope``, ``torchair.ops``, ``torchair.inference``, ``torchair.llm_datadist`` and
``torchair.experimental.inference``.

Scopes tell GE, CANN's graph compiler, how to run a part of a graph. There is none here, so what stands in them runs in the order
in which it is written; results are the same.
"""

import contextlib
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence

import torch

from torch_npu._compile.torchair_options import CompilerConfig
from torch_npu._cpu_ops.graph_tensors import with_values


def npu_stream_switch(stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True) -> ContextManager[Any]:
    """A scope whose operators GE may put on another stream; they stay on this one."""
    return contextlib.nullcontext()


def super_kernel(scope: str, options: str = "") -> ContextManager[Any]:
    """A scope whose operators GE may make one kernel of; nothing follows."""
    return contextlib.nullcontext()


def limit_core_num(op_aicore_num: int, op_vectorcore_num: int) -> ContextManager[Any]:
    """A scope whose kernels have so many cores; nothing follows (:func:`torch.npu.set_stream_limit` limits a stream)."""
    return contextlib.nullcontext()


def deterministic(level: int) -> ContextManager[Any]:
    """A scope of deterministic operators; nothing follows (:func:`torch.use_deterministic_algorithms` is for all)."""
    return contextlib.nullcontext()


def op_never_timeout(enable: bool = True) -> ContextManager[Any]:
    """A scope whose operators may take any time, as all may."""
    return contextlib.nullcontext()


def data_dump() -> ContextManager[Any]:
    """A scope whose operators GE dumps; nothing follows (docs/observability.md has dumps)."""
    return contextlib.nullcontext()


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """``self``, once ``dependency`` is computed: it is, for it was launched before."""
    return self


def npu_create_tagged_event(tag: str) -> Any:
    """A :class:`torch.npu.Event`, for :func:`npu_tagged_event_record` and :func:`npu_tagged_event_wait`."""
    return torch.npu.Event()


def npu_tagged_event_record(event: Any) -> None:
    """Records the event on the current stream."""
    event.record()


def npu_tagged_event_wait(event: Any) -> None:
    """Lets the current stream wait for the event."""
    event.wait()


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """Keeps the memory of ``input`` from being used anew before the stream has run: there is one stream, so it is."""


_library = torch.library.Library("torchair", "FRAGMENT")
_library.define("print(Tensor[] tensors, str[] texts, int[] places, int summarize_size, bool tensor_detail) -> ()")
torch.fx.node.has_side_effect(torch.ops.torchair.print.default)


def _print(tensors: List[torch.Tensor], texts: List[str], places: List[int], summarize_size: int, tensor_detail: bool) -> None:
    """Prints ``texts``, a line each, with the values of the tensors at ``places``. Within a captured graph, at each replay."""
    about = [f" (shape={tuple(value.shape)}, dtype={value.dtype}, device={value.device})" for value in tensors]

    def show(values: List[torch.Tensor]) -> None:
        before = torch._tensor_str.PRINT_OPTS
        kept = {name: getattr(before, name) for name in ("edgeitems", "threshold")}
        torch.set_printoptions(edgeitems=summarize_size, threshold=0)
        lines = list(texts)
        try:
            for place, value, rest in zip(places, values, about):
                lines[place] = f"{value}{rest}" if tensor_detail else str(value)
        finally:
            torch.set_printoptions(**kept)
        print("\n".join(lines), flush=True)

    if tensors:
        with_values(tensors, show)
    else:
        show([])


_library.impl("print", _print, "CompositeExplicitAutograd")
torch.library.register_fake("torchair::print", lambda *args: None, lib=_library)


def npu_print(*args: Any, summarize_size: int = 3, tensor_detail: bool = False) -> None:
    """Prints the values, a line or more for each; of each dimension of a tensor that is longer, the first and last
    ``summarize_size``. ``tensor_detail``: also shape, dtype and device. In a compiled function each time it runs; numbers and
    texts are then those of the compilation."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    texts = ["" if isinstance(value, torch.Tensor) else str(value) for value in args]
    places = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor)]
    torch.ops.torchair.print(tensors, texts, places, summarize_size, tensor_detail)


def _lists(kwargs: Dict[str, Any]) -> Dict[str, Any]:
    lengths = ("actual_seq_lengths", "actual_seq_lengths_kv", "actual_seq_qlen", "actual_seq_kvlen", "actual_shared_prefix_len")
    return {name: value.tolist() if name in lengths and isinstance(value, torch.Tensor) else value
            for name, value in kwargs.items()}


def npu_fused_infer_attention_score(*args: Any, **kwargs: Any) -> Any:
    """:func:`torch_npu.npu_fused_infer_attention_score` whose lengths may be tensors. The host waits for them."""
    return torch.ops.npu.npu_fused_infer_attention_score(*args, **_lists(kwargs))


def npu_fused_infer_attention_score_v2(*args: Any, **kwargs: Any) -> Any:
    """:func:`torch_npu.npu_fused_infer_attention_score_v2` whose lengths may be tensors. The host waits for them."""
    return torch.ops.npu.npu_fused_infer_attention_score_v2(*args, **_lists(kwargs))


def cache_compile(func: Callable[..., Any], *, config: Optional[CompilerConfig] = None, dynamic: bool = True,
                  cache_dir: Optional[str] = None, global_rank: Optional[int] = None, tp_rank: Optional[int] = None,
                  pp_rank: Optional[int] = None, **kwargs: Any) -> Callable[..., Any]:
    """``func``, compiled as a whole as ``config`` says. Nothing is kept on disk: what would be is GE's graph."""
    from torch_npu._compile import torchair

    backend = torchair.get_npu_backend(compiler_config=config, **kwargs)
    return torch.compile(func, backend=backend, dynamic=dynamic, fullgraph=True)


def set_dim_gears(t: torch.Tensor, dim_gears: Dict[int, List[int]]) -> None:
    """The sizes that a dimension of an input will have ({dimension: sizes}), for which GE compiles at once; here each size is
    compiled for once it comes. ValueError for a dimension that ``t`` does not have, or sizes that are none."""
    if not isinstance(t, torch.Tensor):
        raise ValueError(f"set_dim_gears: expected a tensor, not {type(t).__name__}")
    for dim, sizes in dim_gears.items():
        if not isinstance(dim, int) or not -t.dim() <= dim < t.dim():
            raise ValueError(f"set_dim_gears: a tensor of {t.dim()} dimensions has no dimension {dim!r}")
        if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(f"set_dim_gears: dimension {dim} cannot have the sizes {sizes!r}")


def create_npu_tensors(shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]) -> List[torch.Tensor]:
    """Contiguous tensors of one shape on memory of the current device that somebody else owns, one for each address."""
    device, count = torch.device("npu", torch.npu.current_device()), torch.Size(shape).numel()
    storages = [torch._C._construct_storage_from_data_pointer(address, device, count * dtype.itemsize) for address in addresses]
    return [torch.empty(0, dtype=dtype, device=device).set_(storage).view(torch.Size(shape)) for storage in storages]


def use_internal_format_weight(model: torch.nn.Module) -> None:
    """Brings the weights of linear layers to FRACTAL_NZ, where internal formats are allowed
    (:func:`torch_npu.npu_format_cast`)."""
    from torch_npu.contrib import module as layers
    from torch_npu.npu._weights import bring_to_nz

    kinds = (torch.nn.Linear, layers.LinearQuant, layers.LinearA8W8Quant, layers.LinearWeightQuant)
    bring_to_nz(model, {kind: ("weight",) for kind in kinds})
