"""One step of a training loop, recorded: ``profile.start()`` at the beginning of each step, ``profile.end()`` at its end."""

from typing import Any, Optional

__all__ = ["Profile"]


class Profile:
    """Records step ``start_step`` (from 1 on; by default 10) into ``path``.

    profile_type: None or "" records nothing; "TORCH" or "GE" takes ``torch_npu.profiler``. Other arguments are its own
    (``record_shapes``, ``profile_memory``, ``with_stack``, ``activities``, ``experimental_config``, ...).
    """

    def __init__(self, profile_type: Optional[str] = None, start_step: int = 10, path: str = "./profile_result",
                 **options: Any) -> None:
        if profile_type and str(profile_type).upper() not in ("TORCH", "GE", "OP_STACK"):
            raise ValueError(f"profile_type {profile_type!r}: expected TORCH, GE or OP_STACK")
        self.enabled = bool(profile_type)
        self.start_step = int(start_step)
        self._path = path
        self._options = options
        if profile_type and str(profile_type).upper() == "OP_STACK":
            self._options.setdefault("with_stack", True)
        self._step = 0
        self._profiled: Optional[Any] = None

    def start(self) -> None:
        """A step begins."""
        self._step += 1
        if self.enabled and self._step == self.start_step:
            from torch_npu import profiler

            self._profiled = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(self._path), **self._options)
            self._profiled.start()

    def end(self) -> None:
        """A step ends."""
        if self._profiled is not None:
            import torch

            torch.npu.synchronize()
            profiled, self._profiled = self._profiled, None
            profiled.stop()
