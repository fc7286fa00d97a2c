"""Tensors whose numbers are HiFloat8, 8 bits each, in a tensor of uint8.

The format (Y. Luo et al., "Ascend HiFloat8 Format for Deep Learning", 2024): a sign, a prefix for the number of bits of the
exponent, the exponent in sign and magnitude without its leading 1, and what is left of the 8 bits for the mantissa: 3 bits
near 1, 1 bit from 2**8 on. The greatest number is 2**15, the least 2**-22; 0x80 is NaN, 0x6F and 0xEF are the infinities, 0 has
no sign.
"""

import functools
import math
from typing import Any, List, Optional, Tuple

import torch
from torch.utils._pytree import tree_map_only

__all__: List[str] = []
_NAN, _INFINITY = 0x80, 0x6F
# Bits of the exponent -> the prefix, its bits.
_PREFIXES = {4: (0b11, 2), 3: (0b10, 2), 2: (0b01, 2), 1: (0b001, 3), 0: (0b0001, 4)}
_aten = torch.ops.aten
# Operators that move numbers and compute nothing: on the bytes as on what they stand for.
_MOVES = {_aten.alias.default, _aten.as_strided.default, _aten.clone.default, _aten.detach.default, _aten.expand.default,
          _aten.permute.default, _aten.select.int, _aten.slice.Tensor, _aten.squeeze.dim, _aten.t.default,
          _aten.transpose.int, _aten.unsqueeze.default, _aten.view.default,
          _aten._unsafe_view.default, _aten._reshape_alias.default}


def _positive() -> List[Tuple[float, int]]:
    """The numbers from 0 on with their codes, and what would follow the greatest with that of infinity, in order."""
    numbers = [(0.0, 0)] + [(2.0 ** (mantissa - 23), mantissa) for mantissa in range(1, 8)]
    for bits, (prefix, length) in _PREFIXES.items():
        width = 7 - length - bits
        for field in range(2 ** bits):
            magnitude = (field & (2 ** (bits - 1) - 1)) + 2 ** (bits - 1) if bits else 0
            exponent = -magnitude if bits and field >> (bits - 1) else magnitude
            for mantissa in range(2 ** width):
                code = prefix << (7 - length) | field << width | mantissa
                numbers.append(((1 + mantissa / 2 ** width) * 2.0 ** exponent, code))
    return sorted(numbers)


@functools.lru_cache(maxsize=None)
def _numbers() -> List[float]:
    """What each of the 256 codes stands for."""
    table = [math.nan] * 256
    for number, code in _positive():
        table[code], table[code | 0x80] = number, -number
    table[_NAN], table[_INFINITY], table[_INFINITY | 0x80] = math.nan, math.inf, -math.inf
    return table


@functools.lru_cache(maxsize=None)
def _steps() -> Tuple[List[float], List[int]]:
    """The numbers half way between two neighbours from 0 on, and the codes of those neighbours."""
    numbers, codes = zip(*_positive())
    return [(low + high) / 2 for low, high in zip(numbers, numbers[1:])], list(codes)


def _decoded(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(_numbers(), device=codes.device)[codes.long()].to(dtype)


def _encoded(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to the nearest; half way, away from zero."""
    between, codes = (torch.tensor(values, device=tensor.device) for values in _steps())
    value = tensor.float()
    code = codes[torch.bucketize(value.abs(), between, right=True)]
    code = torch.where((value < 0) & (code != 0), code + 0x80, code)
    return torch.where(value.isnan(), _NAN, code).to(torch.uint8)


class _Encode(torch.autograd.Function):
    """Gradients go through as they are, here and back."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> "_HiFloat8Tensor":
        tensor = tensor.detach().npu()
        dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.bfloat16, torch.float16) else torch.float32
        return _HiFloat8Tensor(data=_encoded(tensor), dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class _Decode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: "_HiFloat8Tensor", dtype: torch.dtype) -> torch.Tensor:
        return _decoded(tensor._data, dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


class _HiFloat8Tensor(torch.Tensor):
    """``torch_npu.HiFloat8Tensor``: looks like a tensor of ``dtype`` (float32 by default), and holds its numbers as HiFloat8 in
    ``data``, one byte each on the NPU. ``to_hifloat8(tensor)`` makes one, ``from_hifloat8(dtype)`` the numbers again.

    Operators compute with the numbers in ``dtype`` and give ordinary tensors; those that only move numbers (views, clone, slices)
    give tensors of this class; those that write to one round the result. Gradients pass both conversions unchanged.

    ValueError for ``data`` whose elements are not bytes, or that needs a gradient.
    """

    _data: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: Any, *, data: torch.Tensor, dtype: torch.dtype = torch.float32) -> Any:
        if data.element_size() != 1:
            raise ValueError(f"HiFloat8Tensor holds bytes, not {data.dtype}")
        if data.requires_grad:
            raise ValueError("HiFloat8Tensor: bytes have no gradient")
        data = data.npu()
        self = torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride(), storage_offset=data.storage_offset(),
                                                   dtype=dtype, layout=data.layout, device=data.device, requires_grad=False)
        self._data = data
        return self

    @classmethod
    def make_like(cls, tensor: "_HiFloat8Tensor", *, data: torch.Tensor, **kwargs: Any) -> "_HiFloat8Tensor":
        """One of other bytes and the dtype of ``tensor``."""
        return cls(data=data, **{"dtype": tensor.dtype, **kwargs})

    @classmethod
    def to_hifloat8(cls, tensor: torch.Tensor) -> "_HiFloat8Tensor":
        """The numbers of ``tensor``, rounded to the nearest HiFloat8 (half way away from 0; infinite from 40960 on)."""
        return _Encode.apply(tensor)

    def from_hifloat8(self, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
        """An ordinary tensor of the numbers, of the dtype that this one shows by default."""
        return _Decode.apply(self, dtype or self.dtype)

    def to_dtype(self, dtype: torch.dtype) -> "_HiFloat8Tensor":
        """The same bytes, shown as another dtype."""
        return self.make_like(self, data=self._data, dtype=dtype)

    def float(self) -> torch.Tensor:
        return self.from_hifloat8(torch.float32)

    def half(self) -> torch.Tensor:
        return self.from_hifloat8(torch.float16)

    def bfloat16(self) -> torch.Tensor:
        return self.from_hifloat8(torch.bfloat16)

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.from_hifloat8().cpu()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"HiFloat8Tensor(data={self.from_hifloat8()})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self._data, self.dtype)

    def _get_data(self) -> Any:
        return torch.Tensor.data.__get__(self)

    def _set_data(self, tensor: torch.Tensor) -> None:
        with torch.no_grad():
            self.copy_(tensor)

    data = property(_get_data, _set_data)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        if func in _MOVES:
            return cls.make_like(args[0], data=func(args[0]._data, *args[1:], **kwargs))
        if func is _aten.copy_.default and all(isinstance(one, cls) for one in args[:2]):
            args[0]._data.copy_(args[1]._data)
            return args[0]
        numbers, named = tree_map_only(cls, lambda one: _decoded(one._data, one.dtype), (args, kwargs))
        result = func(*numbers, **named)
        written = None
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            by_place = index < len(args)
            given, now = (args[index], numbers[index]) if by_place else (kwargs.get(argument.name), named.get(argument.name))
            if isinstance(given, cls):
                given._data.copy_(_encoded(now))
                written = given
        return result if written is None else written


def _rebuilt(data: torch.Tensor, dtype: torch.dtype) -> _HiFloat8Tensor:
    return _HiFloat8Tensor(data=data, dtype=dtype)
