"""``torch.npu.aclnn``: what programs ask about CANN's operator library."""

from typing import Optional

__all__ = ["version"]


def version() -> Optional[str]:
    """Version of CANN, whose operators they are."""
    from torch_npu.npu.utils import get_cann_version

    return get_cann_version()


def __getattr__(name: str) -> bool:
    if name == "allow_hf32":
        from torch_npu import npu

        return npu.conv.allow_hf32
    raise AttributeError(f"module 'torch.npu.aclnn' has no attribute {name!r}")
