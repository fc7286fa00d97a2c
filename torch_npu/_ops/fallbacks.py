"""The ledger of operators that ran on the CPU because the NPU has no kernel for them."""

from typing import Dict

from torch_npu import _C


def fallbacks() -> Dict[str, Dict[str, float]]:
    """Operators that fell back to the CPU since the start or the last reset.

    A dict from operator name to a dict with ``calls``, ``bytes`` (copied between device and host) and
    ``seconds`` (in the fallback, copies included). Empty when everything ran on the NPU.
    """
    return {name: {"calls": c, "bytes": b, "seconds": s} for name, c, b, s in _C._fallback_ledger()}


def reset_fallbacks() -> None:
    """Empties the ledger."""
    _C._reset_fallback_ledger()
