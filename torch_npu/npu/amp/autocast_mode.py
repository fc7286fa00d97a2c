"""torch.npu.amp.autocast and the decorators for custom autograd functions."""

import functools

import torch


class autocast(torch.amp.autocast_mode.autocast):
    """``torch.autocast("npu", ...)``."""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="npu")
