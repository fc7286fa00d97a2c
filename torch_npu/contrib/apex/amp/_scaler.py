"""The scale of a loss."""

from typing import Any, Dict

import torch

from torch_npu.npu import overflow
from torch_npu.npu.amp.grad_scaler import all_reduce_found_inf

_FIRST_SCALE = 2.0**16
_FACTOR = 2.0
_WINDOW = 2000


class LossScaler:
    """A loss scale, fixed or dynamic: halved after an overflow, doubled after 2000 steps without one, unless told otherwise."""

    def __init__(self, loss_scale: Any, min_loss_scale: Any = None, max_loss_scale: Any = 2.0**24,
                 init_scale: float = _FIRST_SCALE, scale_factor: float = _FACTOR, scale_window: int = _WINDOW) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._min, self._max = min_loss_scale, max_loss_scale
        self._factor, self.window = scale_factor, scale_window
        self.loss_scale = min(max_loss_scale, init_scale) if self.dynamic else loss_scale
        self.unskipped = 0
        self._found_inf: Dict[torch.device, torch.Tensor] = {}

    @property
    def scales(self) -> Any:
        """False where the scale is 1 for good: then gradients are neither changed nor looked at."""
        return self.dynamic or self.loss_scale != 1.0

    def unscale_(self, grads: Any) -> None:
        """Divides gradients by the scale in place and notes whether there was an inf or nan, without waiting."""
        grads = [grad._values() if grad.is_sparse else grad for grad in grads]
        for device in {grad.device for grad in grads}:
            if device not in self._found_inf:
                self._found_inf[device] = torch.zeros((), device=device)
            inverse = torch.full((), 1.0 / self.loss_scale, device=device)
            for dtype in {grad.dtype for grad in grads}:
                some = [grad for grad in grads if grad.device == device and grad.dtype == dtype]
                torch._amp_foreach_non_finite_check_and_unscale_(some, self._found_inf[device], inverse)

    def update(self) -> bool:
        """Adjusts the scale to what was found since the last call; True if the step is to be skipped. Waits."""
        all_reduce_found_inf(self._found_inf)
        overflowed = any([bool(found.item()) for found in self._found_inf.values()])
        overflow.clear_overflow_flags(self._found_inf)
        self._found_inf = {}
        if not self.dynamic:
            return overflowed
        if overflowed:
            self.loss_scale /= self._factor
            if self._min is not None:
                self.loss_scale = max(self._min, self.loss_scale)
            self.unskipped = 0
        else:
            self.unskipped += 1
            if self.unskipped >= self.window:   # the window may have been made shorter
                self.loss_scale = min(self._max, self.loss_scale * self._factor)
                self.unskipped = 0
        return overflowed
