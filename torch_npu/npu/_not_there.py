"""Names that programs ask torch.npu for and that are not there yet, with what to tell them.

They are absent for ``hasattr`` and ``getattr`` with a default, for that is how programs find out what there is: a stub that
fails at the call would send them there. Whoever uses such a name without asking gets one sentence.
"""
from typing import Any

_REASONS = {
    "current_solver_handle": "CANN has no solver handle: linear algebra is operators (torch.linalg)",
}


class NotThereError(AttributeError, NotImplementedError):
    """An attribute that is missing because the feature is."""


def error(name: str) -> Any:
    """The exception for a name that torch.npu lacks."""
    if name in _REASONS:
        return NotThereError(f"torch.npu.{name}: {_REASONS[name]}")
    return AttributeError(f"module 'torch.npu' has no attribute {name!r}")
