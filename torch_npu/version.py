"""Versions of this build. The module is callable: ``torch_npu.version()`` prints them."""

import sys
import types

__all__ = ["describe"]

try:
    from torch_npu._build_info import git_version, torch_version, version as __version__
except ImportError:  # a source tree that was not built by setup.py
    __version__, git_version, torch_version = "0+unbuilt", "unknown", ""


def describe() -> str:
    """Versions of torch_npu, its commit, torch and CANN in a few lines of text.

    Opens CANN if it is not open yet; where that fails, the line says why.
    """
    import torch

    from torch_npu._runtime import runtime_info

    info = runtime_info()
    cann = info["error"] or f"{info['cann_version']} ({info['runtime']}, {info['soc']})"
    return "\n".join(
        [
            f"torch_npu: {__version__} (built for torch {torch_version or 'unknown'})",
            f"commit: {git_version}",
            f"torch: {torch.__version__}",
            f"CANN: {cann}",
        ]
    )


class _CallableModule(types.ModuleType):
    def __call__(self) -> None:
        """Prints :func:`describe`."""
        print(describe())


sys.modules[__name__].__class__ = _CallableModule
