"""Numbers of dtypes for the arguments of Ascend's operators (``dst_type``, ``x_dtype``, ...), many of which torch lacks.

They are CANN's own numbers plus 256, so that they differ from those of torch's dtypes.
"""

import torch

_OFFSET = 256
_CANN = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9, "uint64": 10,
    "float64": 11, "bool": 12, "string": 13, "complex64": 16, "complex128": 17, "bfloat16": 27, "int4": 29, "uint1": 30,
    "complex32": 33, "hifloat8": 34, "float8_e5m2": 35, "float8_e4m3fn": 36, "float8_e8m0fnu": 37, "float6_e3m2": 38,
    "float6_e2m3": 39, "float4_e2m1fn_x2": 40, "float4_e1m2fn_x2": 41,
}
NUMBERS = {name: number + _OFFSET for name, number in _CANN.items()}

# Dtypes of torch that no operator of the NPU takes.
unsupported_dtype = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]


def __getattr__(name: str) -> int:
    if name in NUMBERS:
        return NUMBERS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
