"""A client of libopapi in a page of ctypes: calls any operator of the contract with torch CPU tensors.

Tensors are described with their own host memory, which softcann's kernels take as it is where SOFTCANN_HOST_TENSORS says so;
so arithmetic is tested without copies.
"""
import ctypes
import os
import pathlib
import sys
from typing import NamedTuple

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "third_party" / "cann"))
from gen_aclnn import parse  # noqa: E402

OPS = {op.name: op for op in parse(ROOT / "third_party" / "cann" / "aclnn_ops.txt")}
VENDOR_OPS = {op.name: op for op in parse(ROOT / "third_party" / "softcann" / "src" / "op" / "vendor_ops.txt")}
CALLED = {**OPS, **VENDOR_OPS}
ACL_TYPES = {torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6,
             torch.uint16: 7, torch.uint32: 8, torch.int64: 9, torch.uint64: 10, torch.float64: 11, torch.bool: 12, torch.complex64: 16,
             torch.complex128: 17, torch.bfloat16: 27, torch.float8_e5m2: 35, torch.float8_e4m3fn: 36, torch.float8_e8m0fnu: 37}
ABSENT = {"bool": False, "double": 0.0, "float": 0.0, "int": 0, "i8": 0, "i32": 0, "i64": 0, "u32": 0, "u64": 0,
          "dtype": torch.float32}
C_NUMBERS = {"bool": ctypes.c_bool, "double": ctypes.c_double, "float": ctypes.c_float, "int": ctypes.c_int,
             "i8": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u32": ctypes.c_uint32,
             "u64": ctypes.c_uint64}


class FourBits(NamedTuple):
    """Numbers of four bits, two in each byte, along the dimension that is dense in memory."""
    bytes: torch.Tensor
    acl_type: int

    def described(self):
        """(sizes, strides) of the numbers."""
        sizes, strides = list(self.bytes.shape), list(self.bytes.stride())
        dense = strides.index(1)
        sizes[dense] *= 2
        return sizes, [stride if i == dense else 2 * stride for i, stride in enumerate(strides)]


FLOAT4_E2M1, FLOAT4_E1M2, INT4 = 40, 41, 29


class Client:
    """libopapi of `folder` (where the libraries were built)."""

    def __init__(self, folder):
        os.environ.setdefault("SOFTCANN_HOST_TENSORS", "1")
        self.acl = ctypes.CDLL(str(pathlib.Path(folder) / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(pathlib.Path(folder) / "libopapi.so"))
        for name in ("Tensor", "Scalar", "IntArray", "BoolArray", "FloatArray", "TensorList", "ScalarList"):
            getattr(self.lib, "aclCreate" + name).restype = ctypes.c_void_p
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.acl.aclInit(None)
        self.check(self.acl.aclrtSetDevice(0), "aclrtSetDevice")
        self.stream = ctypes.c_void_p()
        self.check(self.acl.aclrtCreateStream(ctypes.byref(self.stream)), "aclrtCreateStream")
        self.keep = []

    def check(self, code, what):
        if code:
            text = self.acl.aclGetRecentErrMsg()
            raise RuntimeError(f"{what}: {code}: {text.decode() if text else ''}")

    def tensor(self, value):
        if value is None:
            return None
        if isinstance(value, FourBits):
            return self.four_bits(value)
        rank = value.dim()
        longs = ctypes.c_int64 * max(rank, 1)
        storage = value.untyped_storage()
        elements = ctypes.c_int64(storage.nbytes() // value.element_size())
        return ctypes.c_void_p(self.lib.aclCreateTensor(
            longs(*value.shape), ctypes.c_uint64(rank), ACL_TYPES[value.dtype], longs(*value.stride()),
            ctypes.c_int64(value.storage_offset()), 2, ctypes.byref(elements), ctypes.c_uint64(1),
            ctypes.c_void_p(storage.data_ptr())))

    def four_bits(self, value, format=2, storage=None):
        sizes, strides = value.described()
        longs = ctypes.c_int64 * len(sizes)
        storage = storage or [2 * value.bytes.untyped_storage().nbytes()]
        return ctypes.c_void_p(self.lib.aclCreateTensor(
            longs(*sizes), ctypes.c_uint64(len(sizes)), value.acl_type, longs(*strides), ctypes.c_int64(0), format,
            (ctypes.c_int64 * len(storage))(*storage), ctypes.c_uint64(len(storage)),
            ctypes.c_void_p(value.bytes.untyped_storage().data_ptr())))

    def scalar(self, value):
        if value is None:
            return None
        kind = {bool: (ctypes.c_bool, 12), int: (ctypes.c_int64, 9), float: (ctypes.c_double, 11)}[type(value)]
        holder = kind[0](value)
        return ctypes.c_void_p(self.lib.aclCreateScalar(ctypes.byref(holder), kind[1]))

    def array(self, create, ctype, values):
        if values is None:
            return None
        made = (ctype * max(len(values), 1))(*values)
        return ctypes.c_void_p(getattr(self.lib, create)(made, ctypes.c_uint64(len(values))))

    def argument(self, kind, value):
        kind = kind.rstrip("!")
        if kind == "T":
            return value if isinstance(value, ctypes.c_void_p) else self.tensor(value)
        if kind == "S":
            return self.scalar(value)
        if kind == "int[]":
            return self.array("aclCreateIntArray", ctypes.c_int64, value)
        if kind == "bool[]":
            return self.array("aclCreateBoolArray", ctypes.c_bool, value)
        if kind == "float[]":
            return self.array("aclCreateFloatArray", ctypes.c_float, value)
        if kind == "T[]":
            handles = [t if t is None else self.tensor(t).value for t in value or []]
            return self.array("aclCreateTensorList", ctypes.c_void_p, handles)
        if kind == "S[]":
            return self.array("aclCreateScalarList", ctypes.c_void_p, [self.scalar(s).value for s in value or []])
        if kind == "dtype":
            return ctypes.c_int(ACL_TYPES[value])
        if kind == "char*":
            return ctypes.c_char_p(value.encode() if value is not None else None)
        return C_NUMBERS[kind](value)

    def view_shape(self, descriptor):
        dims, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        self.check(self.lib.aclGetViewShape(descriptor, ctypes.byref(dims), ctypes.byref(count)), "aclGetViewShape")
        return [dims[i] for i in range(count.value)]

    def named(self, name, /, **values):
        """The operator with arguments by name; those not given are null, 0 or false."""
        params = {p.name: p.kind for p in CALLED[name].params}
        assert values.keys() <= params.keys(), f"{name} takes {list(params)}, not {values.keys() - params.keys()}"
        return self(name, *(values[p] if p in values else ABSENT.get(kind.rstrip("!"), None) for p, kind in params.items()))

    def __call__(self, name, *values, phase1="GetWorkspaceSize"):
        """Runs the operator; results appear in the tensors given. Returns the outputs' view shapes afterwards."""
        op = CALLED[name]
        assert len(values) == len(op.params), f"{name} takes {[p.name for p in op.params]}"
        arguments = [self.argument(p.kind, v) for p, v in zip(op.params, values)]
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        self.check(getattr(self.lib, name + phase1)(*arguments, ctypes.byref(size), ctypes.byref(executor)), name + phase1)
        workspace = ctypes.c_void_p()
        if size.value:
            self.check(self.acl.aclrtMalloc(ctypes.byref(workspace), size, 0), "aclrtMalloc")
        self.check(getattr(self.lib, name)(workspace, size, executor, self.stream), name)
        self.check(self.acl.aclrtSynchronizeStream(self.stream), name)
        if size.value:
            self.check(self.acl.aclrtFree(workspace), "aclrtFree")
        return [self.view_shape(a) for p, a in zip(op.params, arguments) if p.kind == "T!" and a]


HALVES = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual.float() if actual.is_floating_point() else actual,
                               expected.float() if expected.is_floating_point() else expected,
                               rtol=tolerance, atol=tolerance)


NIBBLES = torch.arange(0, 32, 4)


def int4_of(packed):
    """The numbers of int4 that lie eight in an int32."""
    nibbles = packed.long().unsqueeze(-1) >> NIBBLES & 15
    return torch.where(nibbles > 7, nibbles - 16, nibbles).flatten(-2)


def packed(numbers):
    words = ((numbers.long() & 15).unflatten(-1, (-1, 8)) << NIBBLES).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()
