"""Compiled functions of inference."""

from typing import Any, Callable, NoReturn

__all__ = ["cache_compile", "readable_cache"]


def cache_compile(func: Callable[..., Any], *, dynamic: bool = True, cache_dir: Any = None, global_rank: Any = None,
                  tp_rank: Any = None, pp_rank: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """``torch.compile(func, backend="npugraph_ex", dynamic=dynamic)``.

    A graph is captured anew by each process, for it holds addresses, so nothing is written to ``cache_dir``; the ranks, which
    name files there, and other options are accepted.
    """
    import torch

    return torch.compile(func, backend="npugraph_ex", dynamic=dynamic)


def readable_cache(cache_bin: Any, print_output: bool = True, file: Any = None) -> NoReturn:
    """Raises NotImplementedError: there are no files of compiled functions."""
    raise NotImplementedError(f"{cache_bin} was not written here: graphs are captured anew by each process and not kept in "
                              "files; TORCH_LOGS=graph_code shows what is compiled")
