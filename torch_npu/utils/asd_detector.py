"""Names of torch_npu.asd."""

from torch_npu.asd import register_asd_hook, set_asd_loss_scale

__all__ = ["register_asd_hook", "set_asd_loss_scale"]
