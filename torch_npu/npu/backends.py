"""Choices that torch.backends has for CUDA: they are remembered, and answered by what runs here."""

import contextlib
import warnings
from typing import Any, Dict, Iterator, Optional

import torch

__all__ = [
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "fft_plan_cache", "flash_sdp_enabled",
    "math_sdp_enabled", "mem_efficient_sdp_enabled", "preferred_linalg_library", "sdp_kernel",
]


def flash_sdp_enabled() -> bool:
    """Whether scaled_dot_product_attention may use the fused operator; PyTorch's own switch of the same meaning."""
    return torch.backends.cuda.flash_sdp_enabled()


def enable_flash_sdp(enabled: bool) -> None:
    """Lets scaled_dot_product_attention use the fused operator, or not."""
    torch.backends.cuda.enable_flash_sdp(enabled)


def math_sdp_enabled() -> bool:
    """Whether scaled_dot_product_attention may be made of single operators."""
    return torch.backends.cuda.math_sdp_enabled()


def enable_math_sdp(enabled: bool) -> None:
    """Lets scaled_dot_product_attention be made of single operators, or not."""
    torch.backends.cuda.enable_math_sdp(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether scaled_dot_product_attention may use the memory-efficient operator."""
    return torch.backends.cuda.mem_efficient_sdp_enabled()


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Lets scaled_dot_product_attention use the memory-efficient operator, or not."""
    torch.backends.cuda.enable_mem_efficient_sdp(enabled)


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True,
               enable_mem_efficient: bool = True) -> Iterator[Dict[str, Any]]:
    """The three switches within a block; what ``as`` names is empty, as with torch.backends.cuda's."""
    before = flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled()
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    try:
        yield {}
    finally:
        enable_flash_sdp(before[0])
        enable_math_sdp(before[1])
        enable_mem_efficient_sdp(before[2])


def preferred_linalg_library(backend: Optional[Any] = None) -> Any:
    """The choice among CUDA's libraries of linear algebra, which the NPU does not have: always the default, with a warning where
    another is preferred. RuntimeError for a library that torch does not know."""
    kind = torch._C._LinalgBackend
    names: Dict[Any, Any] = {"default": kind.Default, "cusolver": kind.Cusolver, "magma": kind.Magma}
    if backend is not None and not isinstance(backend, kind) and not (isinstance(backend, str) and backend in names):
        raise RuntimeError(f"unknown library of linear algebra {backend!r}: torch knows {', '.join(names)}")
    if names.get(backend, backend) not in (None, kind.Default):
        warnings.warn("torch.npu.preferred_linalg_library isn't implemented: CANN's operators compute", stacklevel=2)
    return kind.Default


class _FftPlanCache:
    """``torch.npu.backends.fft_plan_cache``: CANN plans each transform by itself; nothing is kept, nothing to clear."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Nothing is kept."""


fft_plan_cache = _FftPlanCache()
