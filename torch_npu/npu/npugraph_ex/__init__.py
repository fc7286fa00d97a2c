"""``torch.npu.npugraph_ex``: the backend of torch.compile that captures graphs, and what can be said to it.

``torch.compile(f, backend="npugraph_ex")`` captures each graph of ATen's operators once and launches it as a whole; replacements
registered here are made in it before.
"""

from typing import Any, Callable, Optional, Sequence

from torch_npu.npu.npugraph_ex import inference, scope

__all__ = ["compile_fx", "inference", "register_replacement", "scope"]


def compile_fx(gm: Any, example_inputs: Optional[Sequence[Any]] = None, options: Any = None) -> Callable[..., Any]:
    """The graph ``gm`` (torch.fx) of the inputs, compiled as ``torch.compile(backend="npugraph_ex")`` does with ``options``; for
    backends of one's own."""
    from torch_npu._compile import backends

    return backends.npugraph_ex(gm, list(example_inputs or ()), options)


def register_replacement(search_fn: Callable[..., Any], replace_fn: Callable[..., Any], example_inputs: Sequence[Any],
                         trace_fn: Optional[Callable[..., Any]] = None, extra_check: Callable[[Any], bool] = lambda match: True,
                         search_fn_pattern: Any = None, scalar_workaround: Any = None, skip_duplicates: bool = False) -> Any:
    """Lets graphs that are compiled from now on have ``replace_fn`` where they have what ``search_fn`` does.

    Both are functions of the same tensors, traced with ``example_inputs`` (only shapes, dtypes and devices count);
    ``extra_check(match)`` may refuse a place. The arguments are those of PyTorch's
    ``torch._inductor.pattern_matcher.register_replacement``.
    """
    from torch._inductor import pattern_matcher

    from torch_npu._compile import backends

    return pattern_matcher.register_replacement(
        search_fn, replace_fn, list(example_inputs), trace_fn or pattern_matcher.fwd_only, backends.replacements(),
        extra_check=extra_check, search_fn_pattern=search_fn_pattern, scalar_workaround=scalar_workaround,
        skip_duplicates=skip_duplicates)
