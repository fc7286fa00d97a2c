"""How far results of one operator may be apart: by dtype, relative to the largest magnitude."""

from typing import Any, Dict, Optional, Tuple

# Sums in another order, and one rounding more: some tens of the dtype's own steps.
LIMITS: Dict[str, float] = {
    "float64": 1e-10, "complex128": 1e-10, "float32": 1e-4, "complex64": 1e-4, "float16": 4e-3, "complex32": 4e-3,
    "bfloat16": 3e-2, "float8_e4m3fn": 0.13, "float8_e4m3fnuz": 0.13, "float8_e5m2": 0.26, "float8_e5m2fnuz": 0.26,
}


def limit(*dtypes: str) -> float:
    """The limit for values of these dtypes, by the coarsest; 0 where all are integers or bools, which are to be equal."""
    return max(LIMITS.get(dtype, 0.0) for dtype in dtypes)


def measure(a: Any, b: Any) -> Tuple[float, float, Optional[float], int]:
    """(max absolute difference, max relative one, cosine, elements where only one is finite) of two arrays of one shape.

    Elements that are NaN, or the same infinity, in both count as equal. Relative: to b's element, or to a thousandth of b's
    largest magnitude where that is more. The cosine is None where one is all zeros.
    """
    import numpy

    kind = numpy.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else numpy.float64
    a, b = a.astype(kind).ravel(), b.astype(kind).ravel()
    same = (numpy.isnan(a) & numpy.isnan(b)) | (a == b)
    finite = numpy.isfinite(a) & numpy.isfinite(b)
    unlike = int((~finite & ~same).sum())
    a, b = a[finite], b[finite]
    if a.size == 0:
        return 0.0, 0.0, None, unlike
    difference, size = numpy.abs(a - b), numpy.abs(b)
    floor = numpy.maximum(size, max(1e-3 * float(size.max()), numpy.finfo(numpy.float64).tiny))
    norms = float(numpy.linalg.norm(a)) * float(numpy.linalg.norm(b))
    cosine = float(numpy.vdot(a, b).real) / norms if norms else None
    return float(difference.max()), float((difference / floor).max()), cosine, unlike
