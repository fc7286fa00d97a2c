"""Layers whose weights are integers. Their parameters are to be filled in: they begin as zeros and ones and are not trained."""

from typing import Any, Optional, Tuple, Union

import torch
from torch import nn
from torch.nn.modules.utils import _pair

__all__ = ["LinearA8W8Quant", "LinearQuant", "LinearWeightQuant", "QuantConv2d"]

_Pair = Union[int, Tuple[int, int]]


def _fixed(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


class LinearQuant(nn.Module):
    """int8 [..., in_features] by an int8 weight [out_features, in_features], times ``scale`` (plus ``offset``), by
    ``torch_npu.npu_quant_matmul``.

    ``bias``: int32 [out_features], added to the integer product. ``offset``: the result is int8 and shifted. ``pertoken_scale``:
    a float32 factor of each row as well. ``output_dtype``: int8 where None (float16 with ``pertoken_scale``).
    """

    offset: Optional[nn.Parameter]
    pertoken_scale: Optional[nn.Parameter]
    bias: Optional[nn.Parameter]

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, offset: bool = False,
                 pertoken_scale: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None,
                 output_dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.output_dtype = output_dtype
        self.weight = _fixed(torch.zeros(out_features, in_features, dtype=dtype, device=device))
        self.scale = _fixed(torch.ones(out_features, device=device))
        for name, wanted, values in (("offset", offset, torch.zeros(out_features, device=device)),
                                     ("pertoken_scale", pertoken_scale, torch.ones(out_features, device=device)),
                                     ("bias", bias, torch.zeros(out_features, dtype=torch.int32, device=device))):
            self.register_parameter(name, _fixed(values) if wanted else None)

    def forward(self, linear_quant_input: torch.Tensor) -> torch.Tensor:
        import torch_npu

        scale: torch.Tensor = self.scale
        offset = self.offset
        takes_floats = self.pertoken_scale is not None or self.output_dtype in (torch.bfloat16, torch.int32)
        if scale.dtype == torch.float32 and not takes_floats:
            scale = torch_npu.npu_trans_quant_param(scale, offset if self.output_dtype in (None, torch.int8) else None)
        return torch_npu.npu_quant_matmul(
            linear_quant_input, self.weight.transpose(-1, -2), scale, offset=offset, pertoken_scale=self.pertoken_scale,
            bias=self.bias, output_dtype=self.output_dtype)


class LinearA8W8Quant(LinearQuant):
    """:class:`LinearQuant` by its first name."""


class LinearWeightQuant(nn.Module):
    """float16 or bfloat16 [..., in_features] by an int8 weight [out_features, in_features] that ``antiquant_scale`` (and
    ``antiquant_offset``) make floating point, by ``torch_npu.npu_weight_quant_batchmatmul``.

    ``antiquant_group_size``: 0, a factor for each output; else one for each group of so many inputs, [out_features, groups].
    ``quant_scale``, ``quant_offset``: the result becomes int8.
    """

    antiquant_offset: Optional[nn.Parameter]
    quant_scale: Optional[nn.Parameter]
    quant_offset: Optional[nn.Parameter]
    bias: Optional[nn.Parameter]

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: Optional[torch.dtype] = None, antiquant_offset: bool = False, quant_scale: bool = False,
                 quant_offset: bool = False, antiquant_group_size: int = 0, inner_precise: int = 0,
                 weight_dtype: Optional[int] = None) -> None:
        super().__init__()
        self.antiquant_group_size = antiquant_group_size
        self.inner_precise = inner_precise
        self.weight_dtype = weight_dtype
        groups = -(-in_features // antiquant_group_size) if antiquant_group_size else 0
        factors = (out_features, groups) if groups else (out_features,)
        self.weight = _fixed(torch.zeros(out_features, in_features, dtype=dtype, device=device))
        self.antiquant_scale = _fixed(torch.ones(factors, device=device))
        for name, wanted, values in (("antiquant_offset", antiquant_offset, torch.zeros(factors, device=device)),
                                     ("quant_scale", quant_scale, torch.ones(out_features, device=device)),
                                     ("quant_offset", quant_offset, torch.zeros(out_features, device=device)),
                                     ("bias", bias, torch.zeros(out_features, device=device))):
            self.register_parameter(name, _fixed(values) if wanted else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import torch_npu

        def across(factors: torch.Tensor) -> torch.Tensor:
            return factors.transpose(-1, -2) if factors.dim() == 2 else factors

        offset = None if self.antiquant_offset is None else across(self.antiquant_offset)
        return torch_npu.npu_weight_quant_batchmatmul(
            x, self.weight.transpose(-1, -2), across(self.antiquant_scale), offset, self.quant_scale, self.quant_offset,
            self.bias, self.antiquant_group_size, self.inner_precise, self.weight_dtype)


class QuantConv2d(nn.Module):
    """A convolution of int8 images by an int8 weight, times ``scale`` (int64 numbers of ``torch_npu.npu_trans_quant_param``), by
    ``torch_npu.npu_quant_conv2d``. ``output_dtype``: a number of torch_npu's dtypes."""

    bias: Optional[nn.Parameter]
    offset: Optional[nn.Parameter]

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _Pair, output_dtype: int, stride: _Pair = 1,
                 padding: _Pair = 0, dilation: _Pair = 1, groups: int = 1, bias: bool = True, offset: bool = False,
                 offset_x: int = 0, round_mode: str = "rint", input_dtype: Optional[int] = None,
                 weight_dtype: Optional[int] = None, device: Any = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation = _pair(stride), _pair(padding), _pair(dilation)
        self.groups, self.offset_x, self.round_mode = groups, offset_x, round_mode
        self.output_dtype, self.input_dtype, self.weight_dtype = output_dtype, input_dtype, weight_dtype
        shape = (out_channels, in_channels // groups, *_pair(kernel_size))
        self.weight = _fixed(torch.zeros(shape, dtype=dtype or torch.int8, device=device))
        self.scale = _fixed(torch.ones(out_channels, dtype=torch.int64, device=device))
        self.register_parameter("bias", _fixed(torch.zeros(out_channels, dtype=torch.int32, device=device)) if bias else None)
        self.register_parameter("offset", _fixed(torch.zeros(out_channels, device=device)) if offset else None)

    def forward(self, quant_conv2d_input: torch.Tensor) -> torch.Tensor:
        import torch_npu

        return torch_npu.npu_quant_conv2d(
            quant_conv2d_input, self.weight, self.scale, self.stride, self.padding, self.dilation, self.groups, self.offset_x,
            self.round_mode, self.output_dtype, self.bias, self.offset, self.input_dtype, self.weight_dtype)
