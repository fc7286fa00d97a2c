"""Calls of the C interface for :mod:`softcann.replay`: device memory at other addresses, and operators by their records."""
import bisect
import ctypes
import hashlib
import os
from typing import Any, Dict, List, Sequence, Tuple

import torch

from . import library_path

_INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
# ACL's data types, for people and for figures.
_TYPES: Dict[int, Tuple[str, Any]] = {
    0: ("float32", torch.float32), 1: ("float16", torch.float16), 2: ("int8", torch.int8), 3: ("int32", torch.int32),
    4: ("uint8", torch.uint8), 6: ("int16", torch.int16), 9: ("int64", torch.int64), 11: ("float64", torch.float64),
    12: ("bool", torch.bool), 16: ("complex64", torch.complex64), 17: ("complex128", torch.complex128),
    7: ("uint16", torch.uint16), 8: ("uint32", torch.uint32), 10: ("uint64", torch.uint64), 27: ("bfloat16", torch.bfloat16),
    33: ("complex32", torch.complex32), 35: ("float8_e5m2", torch.float8_e5m2), 36: ("float8_e4m3fn", torch.float8_e4m3fn),
    37: ("float8_e8m0", torch.float8_e8m0fnu)}
# PyTorch's names of dtypes, as records have them, to ACL's numbers.
_BY_NAME = {"Float": 0, "Half": 1, "Char": 2, "Int": 3, "Byte": 4, "Short": 6, "Long": 9, "Double": 11, "Bool": 12,
            "ComplexFloat": 16, "ComplexDouble": 17, "BFloat16": 27, "UInt16": 7, "UInt32": 8, "UInt64": 10, "ComplexHalf": 33,
            "Float8_e5m2": 35, "Float8_e4m3fn": 36, "Float8_e8m0fnu": 37, "Float4_e2m1fn_x2": 40}
_TO_DEVICE, _TO_HOST, _BETWEEN = 1, 2, 3


class CallFailed(RuntimeError):
    """A call returned an error."""


class Machine:
    """Devices with memory at the places of a record. Everything waits until it is done."""

    def __init__(self, places: Sequence[Tuple[int, int, int]]) -> None:
        self._acl, self._operators = (
            ctypes.CDLL(os.path.join(library_path(), f"lib{name}.so")) for name in ("ascendcl", "opapi"))
        self._acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        for name in ("Tensor", "TensorList", "IntArray", "FloatArray", "BoolArray", "Scalar", "ScalarList"):
            getattr(self._operators, f"aclCreate{name}").restype = ctypes.c_void_p
        self._check("aclInit", self._acl.aclInit(None))
        self._device = -1
        self._begins: List[Tuple[int, int]] = []
        self._memory: List[Tuple[int, int]] = []  # end and address of what begins there
        for device, begin, end in places:
            self._use(device)
            address = ctypes.c_void_p()
            size = ctypes.c_size_t(end - begin)
            self._check("aclrtMalloc", self._acl.aclrtMalloc(ctypes.byref(address), size, 0))
            self._check("aclrtMemset", self._acl.aclrtMemset(address, size, 0, size))
            self._begins.append((begin, device))
            self._memory.append((end, address.value or 0))
        order = sorted(range(len(self._begins)), key=lambda i: self._begins[i])
        self._begins = [self._begins[i] for i in order]
        self._memory = [self._memory[i] for i in order]
        self._use(places[0][0] if places else 0)

    def _check(self, what: str, code: int) -> None:
        if code != 0:
            text = self._acl.aclGetRecentErrMsg()
            raise CallFailed(f"{what} fails with {code}: {(text or b'').decode(errors='replace').strip()}")

    def _use(self, device: int) -> None:
        if device != self._device:
            self._check("aclrtSetDevice", self._acl.aclrtSetDevice(device))
            self._device = device

    def address(self, place: int) -> int:
        """Where a place of the record is here."""
        index = bisect.bisect_right(self._begins, (place, 1 << 30)) - 1
        begin, (_, address) = self._begins[index][0], self._memory[index]
        return address + place - begin

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        self._check("aclrtMemcpy", self._acl.aclrtMemcpy(
            ctypes.c_void_p(to), ctypes.c_size_t(size), ctypes.c_void_p(source), ctypes.c_size_t(size), kind))

    def _bytes(self, address: int, size: int) -> bytearray:
        data = bytearray(size)
        if size:
            self._copy(ctypes.addressof((ctypes.c_char * size).from_buffer(data)), address, size, _TO_HOST)
        return data

    @staticmethod
    def described(tensor: Dict[str, Any]) -> str:
        """dtype and shape."""
        name = _TYPES.get(tensor["dtype"], (f"type {tensor['dtype']}", None))[0]
        return f"{name}{tensor['shape']}"

    def move(self, fields: Dict[str, Any], payload: bytes) -> str:
        """A copy, a fill, or what came from outside; which bytes differ of what was copied to the host."""
        size = fields["bytes"]
        self._use(max(fields.get("to_device", fields.get("from_device", 0)), 0))
        if fields["kind"] == "fill":
            self._check("aclrtMemset", self._acl.aclrtMemset(
                ctypes.c_void_p(self.address(fields["to"])), ctypes.c_size_t(size), fields["value"], ctypes.c_size_t(size)))
        elif "payload" in fields:
            data = ctypes.create_string_buffer(payload, len(payload))
            self._copy(self.address(fields["to"]), ctypes.addressof(data), size, _TO_DEVICE)
        elif "to" in fields:
            self._copy(self.address(fields["to"]), self.address(fields["from"]), size, _BETWEEN)
        else:
            found = hashlib.sha256(self._bytes(self.address(fields["from"]), size)).hexdigest()[:16]
            if found != fields["digest"]:
                return f"other bytes are copied to the host: {found}, recorded {fields['digest']}"
        return ""

    def tensor(self, tensor: Dict[str, Any]) -> Any:
        """Its elements, as a tensor of integers of their width, on the host."""
        item = tensor["item"]
        if 0 in tensor["shape"]:
            return torch.empty(tensor["shape"], dtype=_INTS[item])
        reached = sum((size - 1) * stride for size, stride in zip(tensor["shape"], tensor["strides"])) + 1
        data = self._bytes(self.address(tensor["at"]) + tensor["offset"] * item, reached * item)
        return torch.frombuffer(data, dtype=_INTS[item]).as_strided(tensor["shape"], tensor["strides"]).contiguous()

    def contents(self, tensor: Dict[str, Any]) -> bytes:
        """The bytes of its elements, in the view's order."""
        return bytes(self.tensor(tensor).reshape(-1).view(torch.uint8).numpy()) if 0 not in tensor["shape"] else b""

    def _typed(self, tensor: Dict[str, Any]) -> Any:
        dtype = _TYPES.get(tensor["dtype"], ("", None))[1]
        values = self.tensor(tensor)
        return values if dtype is None else values.view(dtype) if values.numel() else values.to(dtype)

    def figures(self, tensor: Dict[str, Any]) -> str:
        """Least, largest and mean of its elements, and how many are NaN."""
        values = self._typed(tensor)
        if values.numel() == 0 or values.is_complex():
            return ""
        values = values.double()
        nans = int(values.isnan().sum())
        finite = values[~values.isnan()]
        if finite.numel() == 0:
            return f"nan {nans}"
        return f"min {finite.min():.6g} max {finite.max():.6g} mean {finite.mean():.6g}" + (f" nan {nans}" if nans else "")

    def save(self, tensor: Dict[str, Any], path: str) -> None:
        """Writes it for numpy.load; bfloat16 as float32."""
        import numpy

        values = self._typed(tensor)
        numpy.save(f"{path}.npy", (values.float() if values.dtype == torch.bfloat16 else values).numpy())

    def call(self, fields: Dict[str, Any]) -> None:
        """The operator, to its end. CallFailed where CANN refuses it or it fails."""
        self._use(max(fields["device"], 0))
        keep: List[Any] = []
        values = [self._argument(value, keep) for value in fields["args"].values()]
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        name = fields["op"]
        first = getattr(self._operators, f"{name}GetWorkspaceSize", None)
        if first is None:
            raise CallFailed(f"there is no {name} here")
        self._check(name, first(*values, ctypes.byref(size), ctypes.byref(executor)))
        self._check(name, getattr(self._operators, name)(None, size, executor, None))
        self._check(name, self._acl.aclrtSynchronizeDevice())
        for destroy, handle in keep:
            if destroy is not None:
                getattr(self._operators, destroy)(handle)

    def _made(self, keep: List[Any], kind: str, owned: bool, *arguments: Any) -> Any:
        handle = ctypes.c_void_p(getattr(self._operators, f"aclCreate{kind}")(*arguments))
        if not handle.value:
            self._check(f"aclCreate{kind}", -1)
        if not owned:
            keep.append((f"aclDestroy{kind}", handle))
        return handle

    def _argument(self, value: Any, keep: List[Any], owned: bool = False) -> Any:
        if value is None:
            return None
        if isinstance(value, (bool, int)):
            return ctypes.c_int64(value)
        for key, kind in (("double", ctypes.c_double), ("float", ctypes.c_float)):
            if key in value:
                return kind(float(value[key]))
        if "type" in value:
            return ctypes.c_int(_BY_NAME[value["type"]])
        if "text" in value:
            return ctypes.c_char_p(value["text"].encode())
        if "at" in value:
            return self._tensor_argument(value, keep, owned)
        if "scalar" in value:
            return self._scalar_argument(value, keep, owned)
        for key, kind, width in (("ints", "IntArray", ctypes.c_int64), ("floats", "FloatArray", ctypes.c_float),
                                 ("bools", "BoolArray", ctypes.c_bool)):
            if key in value:
                numbers = [float(one) if key == "floats" else one for one in value[key]]
                return self._made(keep, kind, owned, (width * len(numbers))(*numbers), ctypes.c_uint64(len(numbers)))
        key, kind = ("tensors", "TensorList") if "tensors" in value else ("scalars", "ScalarList")
        handles = [self._argument(one, keep, owned=True) for one in value[key]]  # destroyed with the list
        array = (ctypes.c_void_p * len(handles))(*(handle.value if handle is not None else None for handle in handles))
        return self._made(keep, kind, owned, array, ctypes.c_uint64(len(handles)))

    def _tensor_argument(self, value: Dict[str, Any], keep: List[Any], owned: bool) -> Any:
        rank, storage = len(value["shape"]), value["storage"]
        array = ctypes.c_int64
        address = self.address(value["at"]) if value["at"] >= 0 else 0
        return self._made(
            keep, "Tensor", owned, (array * rank)(*value["shape"]), ctypes.c_uint64(rank), value["dtype"],
            (array * rank)(*value["strides"]), array(value["offset"]), value["format"], (array * len(storage))(*storage),
            ctypes.c_uint64(len(storage)), ctypes.c_void_p(address))

    def _scalar_argument(self, value: Dict[str, Any], keep: List[Any], owned: bool) -> Any:
        dtype = _TYPES[value["scalar"]][1]
        number = complex(*map(float, value["value"])) if isinstance(value["value"], list) else value["value"]
        made = torch.tensor([float(number) if isinstance(number, str) else number], dtype=dtype)
        keep.append((None, made))
        return self._made(keep, "Scalar", owned, ctypes.c_void_p(made.data_ptr()), value["scalar"])
