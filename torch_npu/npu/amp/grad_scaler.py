"""torch.npu.amp.GradScaler."""

import torch


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("npu", ...)``."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True, **kwargs
    ):
        dynamic = kwargs.pop("dynamic", True)
        if kwargs:
            raise TypeError(f"unexpected arguments {', '.join(kwargs)}")
        if not dynamic:
            raise NotImplementedError("a fixed loss scale: pass growth_interval=2**31 instead of dynamic=False")
        super().__init__(
            "npu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
