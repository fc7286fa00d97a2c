"""Storage formats. Tensors keep base formats: torch.npu.config.allow_internal_format is False."""

import warnings

import torch

__all__ = ["npu_format_cast", "npu_format_cast_Tensor", "npu_format_cast_", "npu_format_cast__acl_format", "get_npu_format"]

_BASE = (2, 0, 1, 16, 27, 30, 47)
_INTERNAL = {3: (2, 4), 4: (2, 4), 12: (2, 4), 29: range(2, 65), 32: (5,), 33: (5,)}  # format: numbers of dimensions


def _check(self, acl_format):
    if acl_format in _BASE:
        return
    if acl_format not in _INTERNAL:
        raise ValueError(f"storage format {acl_format} is not known: it is one of {sorted([*_BASE, *_INTERNAL])}")
    if self.dim() not in _INTERNAL[acl_format]:
        raise ValueError(f"storage format {acl_format} is not for tensors of {self.dim()} dimensions")
    warnings.warn("npu_format_cast: the tensor keeps its base format, because torch.npu.config.allow_internal_format is False")


def npu_format_cast(self, acl_format, *, customize_dtype=None, input_dtype=None):
    """A copy of self. ``acl_format`` is a base format: ND 2, NCHW 0, NHWC 1, HWCN 16, NDHWC 27, NCDHW 30, NCL 47.

    For an internal one (NC1HWC0 3, FRACTAL_Z 4, NC1HWC0_C04 12, FRACTAL_NZ 29, NDC1HWC0 32, FRACTAL_Z_3D 33) it warns and
    keeps the base format, for ``torch.npu.config.allow_internal_format`` is False. Sizes, strides and values are the same in
    all formats. Raises ValueError for a format that is unknown or does not suit the number of dimensions.
    """
    _check(self, acl_format)
    return self.clone(memory_format=torch.contiguous_format)


def npu_format_cast_Tensor(self, dst, *, customize_dtype=None, input_dtype=None):
    """A copy of self in the storage format of ``dst``."""
    return npu_format_cast(self, get_npu_format(dst))


def npu_format_cast_(self, src, *, customize_dtype=None, input_dtype=None):
    """Changes self's storage to the format of ``src``."""
    return self


def npu_format_cast__acl_format(self, acl_format, *, customize_dtype=None, input_dtype=None):
    """Changes self's storage to another format; see :func:`npu_format_cast`."""
    _check(self, acl_format)
    return self


def get_npu_format(self):
    """The number of self's storage format: NCHW 0 for 4 dimensions, NCDHW 30 for 5, else ND 2."""
    return {4: 0, 5: 30}.get(self.dim(), 2)
