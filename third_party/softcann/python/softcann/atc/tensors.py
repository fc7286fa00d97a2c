"""Tensors and types of ONNX as torch's."""

import numpy
import onnx
import torch

from .errors import Unsupported

_P = onnx.TensorProto
TORCH_DTYPES = {
    _P.FLOAT: torch.float32,
    _P.FLOAT16: torch.float16,
    _P.DOUBLE: torch.float64,
    _P.BFLOAT16: torch.bfloat16,
    _P.FLOAT8E4M3FN: torch.float8_e4m3fn,
    _P.FLOAT8E5M2: torch.float8_e5m2,
    _P.INT8: torch.int8,
    _P.INT16: torch.int16,
    _P.INT32: torch.int32,
    _P.INT64: torch.int64,
    _P.UINT8: torch.uint8,
    _P.UINT16: torch.uint16,
    _P.UINT32: torch.uint32,
    _P.UINT64: torch.uint64,
    _P.BOOL: torch.bool,
}
# Integers of 4 bits, of which constants may be (quantised weights): what holds them here, the least and the greatest.
NARROW = {_P.INT4: (torch.int8, -8, 7), _P.UINT4: (torch.uint8, 0, 15)}
ONNX_DTYPES = {dtype: number for number, dtype in TORCH_DTYPES.items()}
# Types that NumPy has from ml_dtypes and torch does not read: as integers of their width.
BITS = {
    "bfloat16": (numpy.int16, torch.bfloat16),
    "float8_e4m3fn": (numpy.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (numpy.uint8, torch.float8_e5m2),
}


def torch_dtype(number):
    """torch's type for an ONNX type number; refuses those that no chip of the range computes in here."""
    if number not in TORCH_DTYPES:
        names = {value: name for name, value in onnx.TensorProto.DataType.items()}
        raise Unsupported(
            f"data type {names.get(number, number)} is not served",
            "Use float32, float16, bfloat16, double, float8 (E4M3FN, E5M2), an integer type of 8 to 64 bits, or bool.",
            "E10501",
        )
    return TORCH_DTYPES[number]


def to_torch(proto, folder=""):
    """The tensor of a TensorProto, external data read from `folder`; of NARROW types one of the type that holds them."""
    if proto.data_type in NARROW:
        array = onnx.numpy_helper.to_array(proto, base_dir=folder)
        return torch.from_numpy(array.astype(numpy.int8)).to(NARROW[proto.data_type][0])
    torch_dtype(proto.data_type)
    return from_numpy(onnx.numpy_helper.to_array(proto, base_dir=folder))


def limits_of(proto):
    """(least, greatest) of a TensorProto of NARROW type, None of another."""
    return NARROW[proto.data_type][1:] if proto.data_type in NARROW else None


def from_numpy(array):
    """A tensor with a copy of the array's data; keeps 0-d arrays 0-d."""
    if array.dtype == object or array.dtype.kind in "SU":
        raise Unsupported("text tensors are not served", "Leave the text's processing out of the model.", "E10501")
    if array.dtype.name in BITS:
        bits, dtype = BITS[array.dtype.name]
        return torch.from_numpy(numpy.array(array, order="C").view(bits)).view(dtype).reshape(array.shape)
    return torch.from_numpy(numpy.array(array, order="C")).reshape(array.shape)
