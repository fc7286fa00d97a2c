"""Products of groups of rows with a weight each, and the feed-forward layers made of them."""

import itertools
from typing import Any, List, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import as_dtype, ends_of, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, bias_parts, exact, numbers_of_scale, unpacked

_ACTIVATIONS = {0: lambda y: y, 1: F.relu, 2: lambda y: F.gelu(y, approximate="tanh"),
                4: lambda y: y * torch.sigmoid(1.702 * y), 5: F.silu}


def _part(tensors: Any, i: Any, dims: Any) -> Optional[Tensor]:
    """Of group i: the list's tensor i, or slice i of its only one where that has a dimension more."""
    if not tensors:
        return None
    return tensors[0][i] if len(tensors) == 1 and tensors[0].dim() > dims else tensors[0 if len(tensors) == 1 else i]


def npu_grouped_matmul(x: Sequence[Tensor], weight: Sequence[Tensor], *, bias: Optional[Sequence[Tensor]] = None,
                       scale: Optional[Sequence[Tensor]] = None, offset: Optional[Sequence[Tensor]] = None,
                       antiquant_scale: Optional[Sequence[Tensor]] = None, antiquant_offset: Optional[Sequence[Tensor]] = None,
                       per_token_scale: Optional[Sequence[Tensor]] = None, group_list: Optional[Tensor] = None,
                       split_item: Optional[int] = 0, group_type: Optional[int] = None, group_list_type: Optional[int] = 0,
                       act_type: Optional[int] = 0, output_dtype: Optional[int] = None, **_: Any) -> List[Tensor]:
    """Matrix products of groups, ``x_i @ weight_i + bias_i``, as a list.

    Without ``group_list`` (``group_type`` -1): one for each x and weight. ``group_type`` 0: the rows of the one x in groups,
    each with its weight; or a group in each of several x, which need no ``group_list``. ``split_item``: 0 or 1 for a result of
    each group, 2 or 3 for one with the groups below one another, zero behind the last. ``group_type`` 2: the columns of x and the
    rows of the weight in groups; the result is [groups, rows, columns]. ``group_list``: where the groups end
    (``group_list_type`` 0) or how long they are (1). Groups of weight, bias and scales are a list, or the first dimension of
    its one tensor. ``scale`` and ``per_token_scale`` multiply
    the product, ``antiquant_*`` the weight; ``offset`` shifts results in int8, which are rounded. ``act_type``: 0 none, 1
    relu, 2 gelu (tanh), 4 fast gelu, 5 silu. ``output_dtype``: x's dtype by default. int32 are eight int4 each.
    """
    name = "npu_grouped_matmul"
    kind = group_type if group_type is not None else (-1 if group_list is None else 0)
    several = kind == 0 and len(x) > 1
    if (group_list is None) != (kind == -1) and not several:
        raise ValueError(f"{name}: group_type={kind} does not suit group_list={group_list!r}")
    dtype = as_dtype(x[0].dtype if output_dtype is None else output_dtype)
    activation = _ACTIVATIONS[act_type or 0]
    x, weight = [unpacked(t) for t in x], [unpacked(t) for t in weight]

    def product(rows: Any, i: Any, tokens: Any) -> Any:
        w = wide(_part(weight, i, 2))
        if antiquant_scale:
            w = (w if not antiquant_offset else w + wide(_part(antiquant_offset, i, 1))) * wide(_part(antiquant_scale, i, 1))
        y, (before, behind), s = torch.matmul(wide(rows), w), bias_parts(_part(bias, i, 1)), _part(scale, i, 1)
        y = y if before is None else y + wide(before)
        y = y if s is None else y * numbers_of_scale(s)
        y = y if tokens is None else y * wide(tokens).unsqueeze(-1)
        y, shift = activation(y if behind is None else y + wide(behind)), _part(offset, i, 1)
        return as_int8(y if shift is None else y + wide(shift)) if dtype == torch.int8 else y.to(dtype)

    if group_list is None or several:
        ends = [sum(len(part) for part in x[:i + 1]) for i in range(len(x))]
        given = ends if group_list is None or group_list.device.type == "meta" else ends_of(group_list, group_list_type)
        if several and given != ends:
            raise ValueError(f"{name}: group_list is not that of inputs which end at {ends}")
        found = [product(part, i, per_token_scale[i] if per_token_scale else None) for i, part in enumerate(x)]
        return [torch.cat(found)] if split_item in (2, 3) else found
    separate = kind == 0 and split_item in (0, 1)
    if x[0].device.type == "meta" and separate:
        raise NotImplementedError(f"{name}: how many rows each result has is known only when group_list is")
    if x[0].device.type == "meta":
        columns = weight[0].shape[-1]
        shape = (*x[0].shape[:-1], columns) if kind == 0 else (group_list.numel(), x[0].shape[0], columns)
        return [x[0].new_empty(shape, dtype=dtype)]
    ends = ends_of(group_list, group_list_type)
    starts = [0, *ends[:-1]]
    if kind == 2:
        return [torch.stack([torch.matmul(wide(x[0][:, a:b]), wide(weight[0][a:b])).to(dtype) for a, b in zip(starts, ends)])]
    if separate:
        return [product(x[0][a:b], i, per_token_scale[0][a:b] if per_token_scale else None)
                for i, (a, b) in enumerate(zip(starts, ends))]
    out = torch.zeros(*x[0].shape[:-1], weight[0].shape[-1], dtype=dtype, device=x[0].device)
    for i, (a, b) in enumerate(zip(starts, ends)):
        out[a:b] = product(x[0][a:b], i, per_token_scale[0][a:b] if per_token_scale else None)
    return [out]


def npu_grouped_matmul_add_(self: Tensor, x: Tensor, weight: Tensor, group_list: Tensor, *, transpose_x: bool = True,
                            transpose_weight: bool = False, group_type: int = 2, group_list_type: Optional[int] = 0) -> Tensor:
    """Adds ``x_i.T @ weight_i`` to ``self[i]``, where x [rows, m] and weight [rows, n] are cut into groups of rows: the gradients
    of the weights of :func:`npu_grouped_matmul`, added up.

    ``self``: float32 [groups, m, n], or [groups * m, n]; ``group_list``: where the groups end (``group_list_type`` 0) or how long
    they are (1). Raises NotImplementedError for other transpositions and group types.
    """
    unsupported("npu_grouped_matmul_add", transpose_x=None if transpose_x else transpose_x,
                transpose_weight=transpose_weight or None, group_type=None if group_type == 2 else group_type)
    if self.device.type == "meta":
        return self
    ends = ends_of(group_list, group_list_type)
    sums = self.view(len(ends), x.shape[1], weight.shape[1])
    for y, start, end in zip(sums, [0, *ends[:-1]], ends):
        y.copy_(wide(y) + wide(x[start:end]).t() @ wide(weight[start:end]))
    return self



def npu_grouped_matmul_add(self: Tensor, x: Tensor, weight: Tensor, group_list: Tensor, **options: Any) -> Tensor:
    """:func:`npu_grouped_matmul_add_`, which writes ``self`` too, and then a copy of it as the result: float32 in its shape."""
    return npu_grouped_matmul_add_(self, x, weight, group_list, **options).clone()


_BETWEEN = {"relu": 1, "gelu": 2, "fastgelu": 4, "silu": 5}
_GATED = {"reglu": 1, "geglu": 2, "swiglu": 5}


def _between(x: Tensor, activation: str) -> Tensor:
    if activation in _GATED:
        gate, value = x.chunk(2, -1)
        return _ACTIVATIONS[_GATED[activation]](gate) * value
    return _ACTIVATIONS[_BETWEEN[activation]](x)


def _real_weight(weight: Tensor, scale: Tensor, offset: Optional[Tensor]) -> Tensor:
    """Of few bits, with numbers for each column, [N], or for groups of its rows, [groups, N]."""

    def spread(t: Tensor) -> Tensor:
        return wide(t).repeat_interleave(weight.shape[0] // t.shape[0], 0) if t.dim() > 1 else wide(t)

    shifted = wide(weight) if offset is None else wide(weight) + spread(offset)
    return (shifted * spread(scale)).to(scale.dtype)


def npu_ffn(x: Tensor, weight1: Tensor, weight2: Tensor, activation: str, *, expert_tokens: Optional[Sequence[int]] = None,
            expert_tokens_index: Optional[Sequence[int]] = None, bias1: Optional[Tensor] = None, bias2: Optional[Tensor] = None,
            scale: Optional[Tensor] = None, offset: Optional[Tensor] = None, deq_scale1: Optional[Tensor] = None,
            deq_scale2: Optional[Tensor] = None, antiquant_scale1: Optional[Tensor] = None,
            antiquant_scale2: Optional[Tensor] = None, antiquant_offset1: Optional[Tensor] = None,
            antiquant_offset2: Optional[Tensor] = None, inner_precise: Optional[int] = None,
            output_dtype: Optional[torch.dtype] = None) -> Tensor:
    """``activation(x @ weight1 + bias1) @ weight2 + bias2``.

    ``expert_tokens``: how many rows each expert has, or ``expert_tokens_index``: where its rows end; then weights, biases and
    scales have the experts as first dimension, and rows behind the last are zero. ``activation``: "gelu" (tanh), "fastgelu",
    "relu" or "silu"; "geglu", "swiglu" and "reglu" are gelu, silu and relu of the first half of the columns times the other half.
    ``x``: [..., K], weights: [K, N] and [N, M] (half as many rows after a gated activation), or [experts, K, N] and
    [experts, N, M]; biases: [N] and [M], or of each expert; the result: [..., M] in x's dtype.

    int8 x and weights: the products plus int32 biases are multiplied by ``deq_scale1`` and ``deq_scale2``, for each column,
    float32, bfloat16, or int64 from npu_trans_quant_param; between the layers ``scale``, [1] or [N], and ``offset`` make int8;
    the result is ``output_dtype``, float16 by default, which has no meaning for other x. int8 weights for floating point x:
    each is ``(weight + antiquant_offset) * antiquant_scale``, of columns, [N], or groups of rows, [groups, N].
    ``inner_precise`` has no meaning.
    """
    if activation not in _BETWEEN and activation not in _GATED:
        raise ValueError(f"npu_ffn: activation {activation!r} is not one of {', '.join([*_BETWEEN, *_GATED])}")
    if expert_tokens is not None and expert_tokens_index is not None:
        raise ValueError("npu_ffn: give expert_tokens or expert_tokens_index, not both")
    quantized = x.dtype == torch.int8

    def part(t: Optional[Tensor], group: int) -> Any:
        return t[group] if t is not None and weight1.dim() > 2 and t.dim() > 1 else t

    def layer(rows: Tensor, weight: Any, bias: Any, deq_scale: Any, antiquant_scale: Any, antiquant_offset: Any) -> Tensor:
        weight = weight if antiquant_scale is None else _real_weight(weight, antiquant_scale, antiquant_offset)
        product = exact(rows, weight).float() if quantized else wide(rows) @ wide(weight)
        product = product if bias is None else product + wide(bias)
        return product if deq_scale is None else product * numbers_of_scale(deq_scale)

    def layers(rows: Tensor, group: int) -> Tensor:
        first, second = ([part(t, group) for t in tensors] for tensors in (
            (weight1, bias1, deq_scale1, antiquant_scale1, antiquant_offset1),
            (weight2, bias2, deq_scale2, antiquant_scale2, antiquant_offset2)))
        between = _between(layer(rows, *first), activation)
        if quantized:
            factor, shift = (t if t is None or weight1.dim() == 2 else t[group] for t in (scale, offset))
            between = as_int8(between * wide(factor) if shift is None else between * wide(factor) + wide(shift))
        return layer(between, *second)

    if quantized and (scale is None or deq_scale1 is None or deq_scale2 is None):
        raise ValueError("npu_ffn: int8 x needs scale, deq_scale1 and deq_scale2")
    rows = x.reshape(-1, x.shape[-1])
    shape, dtype = (*x.shape[:-1], weight2.shape[-1]), (output_dtype or torch.float16) if quantized else x.dtype
    ends = expert_tokens_index if expert_tokens is None else list(itertools.accumulate(expert_tokens))
    if ends is None:
        return layers(rows, 0).to(dtype).reshape(shape)
    parts = [layers(rows[start:end], i) for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends))]
    parts.append(parts[0].new_zeros(rows.shape[0] - ends[-1], weight2.shape[-1]))
    return torch.cat(parts).to(dtype).reshape(shape)
