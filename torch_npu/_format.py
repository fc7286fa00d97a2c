"""Storage formats by name."""

import enum
from typing import Union

import torch


class Format(enum.IntEnum):
    """The storage formats of tensors, with CANN's numbers; ``torch_npu.npu_format_cast`` takes either."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    def __str__(self) -> str:
        return self.name


def get_npu_format(tensor: torch.Tensor) -> Union[Format, int]:
    """The :class:`Format` of the memory of a tensor of any shape and dtype; the plain number where it has no name here."""
    number = torch.ops.npu.get_npu_format(tensor)
    return Format(number) if number in set(Format) else number
