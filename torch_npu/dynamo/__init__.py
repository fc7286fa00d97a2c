"""``torch_npu.dynamo``: where programs for the published torch_npu find TorchAir and the backends of torch.compile."""

import importlib
from typing import Any, Callable

from torch_npu import _lazy
from torch_npu._compile import torchair

__all__ = ["NPUGRAPH_EX_BACKEND"]

NPUGRAPH_EX_BACKEND = "npugraph_ex"
_lazy.alias("torch_npu.dynamo", {name: name for name in torchair.MODULES})
_lazy.alias("torch_npu.dynamo", {name: f"torch_npu.npu.{name}"
                                 for name in ("npugraph_ex", "npugraph_ex.inference", "npugraph_ex.scope")})


def _get_default_backend(name: str = "npu") -> Callable[..., Any]:
    """The backend ``npu`` of torch.compile. ValueError for another name."""
    if name != "npu":
        raise ValueError(f"there is no default backend {name!r}; it is 'npu'")
    from torch_npu._compile import backends

    return backends.npu


def _get_global_npu_backend(name: str = "npu", config: Any = None) -> Callable[..., Any]:
    """The same; with a TorchAir CompilerConfig, the backend that it describes."""
    return _get_default_backend(name) if config is None else torchair.get_npu_backend(compiler_config=config)


def _get_npugraph_ex_backend() -> Callable[..., Any]:
    """The backend ``npugraph_ex``."""
    from torch_npu._compile import backends

    return backends.npugraph_ex


__dir__ = _lazy.listing("torch_npu.dynamo", ("torchair", "npugraph_ex"))


def __getattr__(name: str) -> Any:
    if name == "torchair":
        return importlib.import_module("torchair")
    if name == "npugraph_ex":
        return importlib.import_module("torch_npu.npu.npugraph_ex")
    raise AttributeError(f"module 'torch_npu.dynamo' has no attribute {name!r}")
