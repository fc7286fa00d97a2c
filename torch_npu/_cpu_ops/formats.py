"""Storage formats. CPU and meta tensors have base formats only."""

from typing import Optional

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import as_dtype


def npu_format_cast(self: Tensor, acl_format: int, **_: int) -> Tensor:
    """A copy of self in another storage format.

    Base formats: ND 2, NCHW 0, NHWC 1, HWCN 16, NDHWC 27, NCDHW 30, NCL 47. Internal ones, in blocks of 16 (of bytes: 32)
    elements: NC1HWC0 3, FRACTAL_Z 4 and NC1HWC0_C04 12 for 2 or 4 dimensions, FRACTAL_NZ 29 for 2 or more, NDC1HWC0 32 and
    FRACTAL_Z_3D 33 for 5. Sizes, strides and values are the same in all. Operators take any: what they read in an internal
    format is converted for them, what they write gets the base format. With ``torch.npu.config.allow_internal_format`` False,
    as it is from Ascend910B on, the tensor gets a base format instead, with a warning. Has a gradient. Raises ValueError for
    a format that is unknown or does not suit the number of dimensions.
    """
    return self.clone(memory_format=torch.contiguous_format)


def npu_format_cast_Tensor(self: Tensor, dst: Tensor, **_: int) -> Tensor:
    """A copy of self in the storage format of ``dst``."""
    return self.clone(memory_format=torch.contiguous_format)


def npu_format_cast_(self: Tensor, src: Tensor, **_: int) -> Tensor:
    """Changes self's storage to the format of ``src``. Of any shape and dtype; ``src`` only says which format."""
    return self


def npu_format_cast__acl_format(self: Tensor, acl_format: int, **_: int) -> Tensor:
    """Changes self's storage to another format."""
    return self


def _npu_format_cast_backward(grad: Tensor) -> Tensor:
    """Gradient of :func:`npu_format_cast`: the same values."""
    return grad.clone()


def _npu_format_cast(input: Tensor, acl_format: int) -> Tensor:
    """:func:`npu_format_cast`."""
    return torch.ops.npu.npu_format_cast(input, acl_format)


def _other_dtype(tensor: Tensor, number: int) -> Optional[int]:
    """The number of a dtype unless it is the tensor's."""
    return None if as_dtype(number) == tensor.dtype else number


def _npu_format_cast_aclnn(input: Tensor, acl_format: int, customize_dtype: int) -> Tensor:
    """:func:`npu_format_cast`. ``customize_dtype``: the number of ``input``'s dtype; another raises NotImplementedError."""
    return torch.ops.npu.npu_format_cast(input, acl_format, customize_dtype=_other_dtype(input, customize_dtype))


def _npu_format_cast_input_dtype(input: Tensor, acl_format: int, customize_dtype: int, input_dtype: int) -> Tensor:
    """:func:`npu_format_cast`. Both dtypes: the number of ``input``'s; another raises NotImplementedError."""
    return torch.ops.npu.npu_format_cast(
        input, acl_format, customize_dtype=_other_dtype(input, customize_dtype), input_dtype=_other_dtype(input, input_dtype)
    )


def get_npu_format(self: Tensor) -> int:
    """The number of self's storage format; see :func:`npu_format_cast`. Of any shape and dtype."""
    return {4: 0, 5: 30}.get(self.dim(), 2)
