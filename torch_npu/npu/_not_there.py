"""Names that programs ask torch.npu for and that are not there yet, with what to tell them.

They are absent for ``hasattr`` and ``getattr`` with a default, for that is how programs find out whether graphs can be
captured (``hasattr(torch.npu, "NPUGraph")``): a stub that fails at the call would send them there. Whoever uses such a
name without asking gets one sentence. ``is_current_stream_capturing`` is there, for its answer is true: False.
"""

_GRAPHS = "graph capture is not there yet: run the operators as they come"
_DUMPS = "operators' tensors are not dumped to files: TORCH_NPU_CHECK_NAN_INF=1 finds the operator that goes wrong"

_REASONS = {
    "ExternalEvent": _GRAPHS,
    "NPUGraph": _GRAPHS,
    "graph": _GRAPHS,
    "graph_pool_handle": _GRAPHS,
    "graphs": _GRAPHS,
    "make_graphed_callables": _GRAPHS,
    "finalize_dump": _DUMPS,
    "init_dump": _DUMPS,
    "set_dump": _DUMPS,
    "current_solver_handle": "CANN has no solver handle: linear algebra is operators (torch.linalg)",
}


class NotThereError(AttributeError, NotImplementedError):
    """An attribute that is missing because the feature is."""


def error(name):
    """The exception for a name that torch.npu lacks."""
    if name in _REASONS:
        return NotThereError(f"torch.npu.{name}: {_REASONS[name]}")
    return AttributeError(f"module 'torch.npu' has no attribute {name!r}")
