"""Comparisons behind :class:`torch_npu.testing.testcase.TestCase`; each returns None or what is wrong."""

from typing import Any, Optional, Tuple

import numpy as np
import torch

# Relative and absolute tolerance of assertEqual by dtype, where the test names none.
TOLERANCES = {
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-3),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}
_LOW = (torch.float16, torch.bfloat16)


def tolerance_of(*dtypes: Any) -> Tuple[float, float]:
    """(rtol, atol) that suits all of ``dtypes``; (0, 0) when they are exact."""
    pairs = [TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def to_numpy(value: Any) -> Optional[Tuple[Any, Any]]:
    """(array, whether it held half precision); None when ``value`` is neither a tensor nor an array."""
    if isinstance(value, torch.Tensor):
        low = value.dtype in _LOW
        value = value.detach().cpu()
        value = value.to_dense() if value.layout != torch.strided else value
        value = value.resolve_conj().resolve_neg()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy(), low
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value), np.asarray(value).dtype == np.float16
    return None


def relative(x: Any, y: Any, prec: Any, minimum: Any) -> Optional[str]:
    """Judges two arrays of one shape as assertRtolEqual describes it."""
    x, y = (np.asarray(v, np.complex128 if np.iscomplexobj(v) else np.float64) for v in (x, y))
    if x.size == 0:
        return None
    nan = np.isnan(x)
    if (nan != np.isnan(y)).any():
        return f"NaN in {np.count_nonzero(nan != np.isnan(y))} places of one and not of the other"
    with np.errstate(invalid="ignore"):
        same = nan | (x == y)  # equal infinities too
        difference = np.where(same, 0.0, np.abs(x - y))
        ratio = difference / (np.where(same, 0.0, np.maximum(np.abs(x), np.abs(y))) + minimum)
    off_absolute = ~(difference <= prec)
    off_relative = ~(ratio <= prec)
    allowed = x.size * prec
    if off_absolute.sum() <= allowed or off_relative.sum() <= allowed:
        return None
    at = np.unravel_index(np.argmax(np.nan_to_num(difference, nan=np.inf)), x.shape)
    return (f"{off_relative.sum()} of {x.size} elements differ by more than {prec:g}; the largest difference is "
            f"{difference[at]:g} at {tuple(int(i) for i in at)}: {x[at]} and {y[at]}")
