"""The caller of Apex's CUDA kernels, as it is in an Apex that was built without them."""

from typing import Any

__all__ = ["MultiTensorApply", "multi_tensor_applier"]


class MultiTensorApply:
    """Programs ask ``available`` and go another way: the kernels (``amp_C``) are CUDA's. A call is a RuntimeError."""

    available = False
    warned = False
    import_err = ModuleNotFoundError("amp_C, Apex's kernels for CUDA, is not there: torch._foreach_* operators run on the NPU",
                                     name="amp_C")

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def check_avail(self) -> None:
        """Raises RuntimeError."""
        raise RuntimeError(str(self.import_err)) from self.import_err

    def __call__(self, op: Any, noop_flag_buffer: Any, tensor_lists: Any, *args: Any) -> Any:
        self.check_avail()


multi_tensor_applier = MultiTensorApply(2048 * 32)
