"""Where the published torch_npu keeps its operators; here they are ``torch_npu.npu_*`` and ``torch.ops.npu``."""

from torch_npu.op_plugin import atb

__all__ = ["atb"]
