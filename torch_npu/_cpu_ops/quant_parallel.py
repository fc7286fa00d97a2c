"""Products of quantised matrices beside a collective of the process group ``hcom`` names; they run one after the other.

Matrices are int8 or float8. Their scales, which the products are multiplied by: one for the whole ([1]), one for each row of
the left or column of the right matrix, one for each 128 by 128 elements ([ceil(rows / 128), ceil(columns / 128)]), or MX scales
in pairs along the dimension that is summed over (uint8, see _blocks.py).
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from torch_npu._cpu_ops._blocks import format_of, unscaled
from torch_npu._cpu_ops._common import as_dtype, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8, by_token, numbers_of_scale
from torch_npu._cpu_ops.parallel_matmul import (
    _by_expert,
    _by_rank,
    _bytes,
    _collective,
    _columns_from_rows,
    _exchanged,
    _gathered,
    _rows_from_columns,
    _rows_of_experts,
    _sum_only,
)

_BLOCK = 128
_TYPES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
_DYNAMIC = 7  # a quantisation mode: floating point rows are quantised, each by itself


def _matrix(name: str, x: Tensor, scale: Optional[Tensor], left: bool) -> Tensor:
    """What ``x`` [rows, columns] stands for, in float32."""
    if x.dtype not in _TYPES:
        raise NotImplementedError(f"{name}: matrices of {x.dtype} are not supported; int8, float8_e4m3fn and float8_e5m2 are")
    if scale is None:
        return x.float()
    if scale.dim() == 3:
        return unscaled(x, scale.view(torch.uint8), -1 if left else 0, format_of(name, x.dtype))
    factor, rows, columns = numbers_of_scale(scale), x.shape[0], x.shape[1]
    if factor.numel() == 1:
        return x.float() * factor.reshape(())
    if factor.numel() == (rows if left else columns):
        return x.float() * factor.reshape((-1, 1) if left else (1, -1))
    if tuple(factor.shape) == (-(-rows // _BLOCK), -(-columns // _BLOCK)):
        spread = factor.repeat_interleave(_BLOCK, 0)[:rows].repeat_interleave(_BLOCK, 1)[:, :columns]
        return x.float() * spread
    raise ValueError(
        f"{name}: scales {list(scale.shape)} do not fit a matrix {list(x.shape)}: one, one for each "
        f"{'row' if left else 'column'}, or one for each {_BLOCK} by {_BLOCK}"
    )


def _product(
    name: str, x1: Tensor, x2: Tensor, scale1: Optional[Tensor], scale2: Optional[Tensor], bias: Optional[Tensor]
) -> Tensor:
    out = torch.matmul(_matrix(name, x1, scale1, True), _matrix(name, x2, scale2, False))
    return out if bias is None else out + wide(bias)


def _as(value: Tensor, number: Optional[int], default: torch.dtype) -> Tensor:
    """``value`` in a dtype given by number, within its range."""
    dtype = default if number is None else as_dtype(number)
    if dtype == torch.int8:
        return as_int8(value)
    if dtype in _TYPES:
        return value.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
    return value.to(dtype)


# What has no meaning here.
_IGNORED = ("block_size", "comm_turn", "comm_mode", "common_quant_mode", "all2all_axes", "output_scale_dtype", "comm_scale_dtype",
            *(f"{matrix}_quant_mode" for matrix in ("x1", "x2", "gmm_x", "gmm_weight", "mm_x", "mm_weight")),
            *(f"{matrix}_scale_dtype" for matrix in ("gmm_x", "gmm_weight", "mm_x", "mm_weight")))
_KNOWN = (None, 1, 2, 23, 24, 257, 258, 291, 292, 37, 44, 293)  # numbers of dtypes that torch has, which need none


def _only_these(name: str, given: Dict[str, Any], *ignored: str, group_sizes: Optional[Sequence[int]] = None) -> None:
    """Refuses what is given but not supported: dtypes that torch does not have, other groups, and all that has a meaning."""
    refused = {key: value for key, value in given.items() if not key.endswith("_dtype") or value not in _KNOWN or "comm" in key}
    unsupported(name, *_IGNORED, *ignored, **refused)
    if group_sizes is not None and any(group_sizes) and list(group_sizes) not in ([_BLOCK] * 3, [1, _BLOCK, _BLOCK], [1, 1, 32]):
        raise NotImplementedError(
            f"{name}: group_sizes {list(group_sizes)} are not supported; [128, 128, 128] and [1, 1, 32] are"
        )


def npu_all_gather_quant_mm(
    input: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    quant_scale: Optional[Tensor] = None,
    gather_output: bool = True,
    group_sizes: Optional[Sequence[int]] = None,
    y_dtype: Optional[int] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor, Tensor]:
    """``all_gather(input) @ x2 + bias`` of quantised matrices: [world_size * m, n] of ``input`` [m, k] and ``x2`` [k, n].

    Scales: see the module; those of rows and blocks of ``input`` are gathered too. ``quant_scale`` [1] multiplies the result.
    ``y_dtype``: the number of the result's dtype, by default that of ``input``. Returns (the product, the gathered input, empty
    unless ``gather_output``, an empty tensor). Raises NotImplementedError for ``amax_output`` and ``gather_index`` 1.
    """
    name = "npu_all_gather_quant_mm"
    _only_these(name, given, group_sizes=group_sizes)
    gathered = _gathered(input, hcom, world_size)
    scale = x1_scale
    if scale is not None and scale.numel() > 1:  # scales of rows go where those go
        if scale.dim() == 2 and scale.shape[1] > 1 and input.shape[0] % _BLOCK:
            raise ValueError(f"{name}: with scales of blocks input must have a multiple of {_BLOCK} rows, not {input.shape[0]}")
        scale = _gathered(scale, hcom, world_size)
    out = _product(name, gathered, x2, scale, x2_scale, bias)
    out = out if quant_scale is None else out * wide(quant_scale).reshape(())
    none = input.new_empty(0, dtype=torch.float32)
    return _as(out, y_dtype, input.dtype), gathered if gather_output else input.new_empty(0), none


def npu_quant_mm_reduce_scatter(
    input: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    quant_scale: Optional[Tensor] = None,
    group_sizes: Optional[Sequence[int]] = None,
    y_dtype: Optional[int] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """This rank's rows of the sum over the ranks of ``input @ x2 + bias``, quantised: [m / world_size, n] of [m, k] and [k, n].

    Scales: see the module; ``quant_scale`` [1] multiplies the result. ``y_dtype``: the number of the result's dtype, by default
    that of ``input``; the ranks' products are added in float32. Returns (the rows, an empty tensor). Raises NotImplementedError
    for ``amax_output``, ValueError for rows that cannot be split.
    """
    name = "npu_quant_mm_reduce_scatter"
    _sum_only(name, reduce_op)
    _only_these(name, given, group_sizes=group_sizes)
    if input.shape[0] % world_size:
        raise ValueError(f"{name}: {input.shape[0]} rows cannot be split among {world_size} ranks")
    out = _product(name, input, x2, x1_scale, x2_scale, bias)
    result = out.new_empty(out.shape[0] // world_size, out.shape[1])
    _collective(dist.reduce_scatter_tensor, hcom, result, out)
    result = result if quant_scale is None else result * wide(quant_scale).reshape(())
    return _as(result, y_dtype, input.dtype), input.new_empty(0, dtype=torch.float32)


def npu_all_to_all_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    all2all_out_flag: bool = True,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    x1_quant_mode: Optional[int] = None,
    group_sizes: Optional[Sequence[int]] = None,
    y_dtype: Optional[int] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """``x1`` [rows, H] of all ranks, exchanged to [rows / world_size, world_size * H], times ``x2`` [world_size * H, n], plus
    ``bias``.

    ``x1`` is float16, bfloat16 or float32 with ``x1_quant_mode`` 7: its exchanged rows, times ``x1_scale`` [world_size * H]
    where it is given, are quantised to int8 each by itself; or it is quantised, with one scale or with MX scales, which are
    exchanged too. ``x2_scale``: see the module. ``y_dtype``: the number of the result's dtype, float32 by default. Returns (the
    product, what was exchanged, empty unless ``all2all_out_flag``). Raises NotImplementedError for offsets and quantised
    communication.
    """
    name = "npu_all_to_all_quant_matmul"
    ignored = ("x1_scale_dtype", "x2_scale_dtype", *(() if x1.dtype in _TYPES else ("x1_dtype",)))
    _only_these(name, given, *ignored, group_sizes=group_sizes)
    exchanged = _columns_from_rows(x1, hcom, world_size)
    rows, scale = exchanged, x1_scale
    if x1.dtype not in _TYPES:
        if x1_quant_mode not in (None, _DYNAMIC) or x2.dtype != torch.int8:
            raise NotImplementedError(
                f"{name}: x1_quant_mode {x1_quant_mode} of {x1.dtype} beside {x2.dtype}; 7 beside int8 is supported"
            )
        rows, scale = by_token(wide(exchanged) if x1_scale is None else wide(exchanged) * wide(x1_scale))
    elif scale is not None and scale.dim() == 3:
        scale = _columns_from_rows(scale, hcom, world_size)
    elif scale is not None and scale.numel() > 1:
        raise NotImplementedError(
            f"{name}: scales of x1 are one, or MX scales: the parts of an exchanged row come from several ranks"
        )
    out = _as(_product(name, rows, x2, scale, x2_scale, bias), y_dtype, torch.float32)
    return out, exchanged if all2all_out_flag else x1.new_empty(0)


def npu_quant_matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    common_scale: Optional[Tensor] = None,
    x1_offset: Optional[Tensor] = None,
    x2_offset: Optional[Tensor] = None,
    x1_quant_mode: Optional[int] = None,
    x2_quant_mode: Optional[int] = None,
    common_quant_mode: Optional[int] = None,
    group_sizes: Optional[Sequence[int]] = None,
    all2all_axes: Optional[Sequence[int]] = None,
    comm_quant_dtype: Optional[int] = None,
    x1_dtype: Optional[int] = None,
    x2_dtype: Optional[int] = None,
    x1_scale_dtype: Optional[int] = None,
    x2_scale_dtype: Optional[int] = None,
    output_scale_dtype: Optional[int] = None,
    comm_scale_dtype: Optional[int] = None,
    y_dtype: Optional[int] = None,
    comm_mode: Optional[str] = None,
) -> Tensor:
    """``x1 @ x2 + bias`` [rows, n] of quantised matrices with its columns exchanged for rows: [world_size * rows, n /
    world_size].

    Scales: see the module. ``y_dtype``: the number of the result's dtype, float32 by default. Raises NotImplementedError for
    offsets and quantised communication.
    """
    name = "npu_quant_matmul_all_to_all"
    given = dict(common_scale=common_scale, x1_offset=x1_offset, x2_offset=x2_offset, comm_quant_dtype=comm_quant_dtype)
    types = dict(x1_dtype=x1_dtype, x2_dtype=x2_dtype, x1_scale_dtype=x1_scale_dtype, x2_scale_dtype=x2_scale_dtype)
    _only_these(name, {**given, **types}, group_sizes=group_sizes)
    out = _as(_product(name, x1, x2, x1_scale, x2_scale, bias), y_dtype, torch.float32)
    return _rows_from_columns(out, hcom, world_size)


# Experts --------------------------------------------------------------------------------------------------------------------


def _grouped(
    name: str, parts: Sequence[Tensor], scales: Sequence[Optional[Tensor]], weight: Tensor, weight_scale: Tensor
) -> List[Tensor]:
    """The product of each part and its matrix; MX scales of the weights are [experts, ceil(H / 64), n, 2], others one for all."""
    of = [weight_scale[i] if weight_scale.dim() == 4 else weight_scale for i in range(weight.shape[0])]
    return [_product(name, part, w, s, ws, None) for part, w, s, ws in zip(parts, weight, scales, of)]


def _shared(
    name: str,
    x: Optional[Tensor],
    weight: Optional[Tensor],
    scale: Optional[Tensor],
    weight_scale: Optional[Tensor],
    dtype: Optional[int],
) -> Optional[Tensor]:
    if x is None or weight is None:
        return None
    return _as(_product(name, x, weight, scale, weight_scale, None), dtype, torch.bfloat16)


def _moved(rows: Tensor, hcom: str, sent: Sequence[int], received: Sequence[int], world_size: int) -> Tensor:
    moved = _exchanged(_bytes(rows), hcom, sent, received, world_size)
    return moved if rows.element_size() > 1 else moved.view(rows.dtype)


def npu_alltoallv_quant_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    gmm_x_scale: Tensor,
    gmm_weight_scale: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    gmm_y_dtype: int,
    *,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    mm_x_scale: Optional[Tensor] = None,
    mm_weight_scale: Optional[Tensor] = None,
    permute_out_flag: bool = False,
    group_size: Optional[Sequence[int]] = None,
    mm_y_dtype: Optional[int] = None,
    **given: Any,
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """:func:`npu_alltoallv_gmm` of quantised tokens and weights: sends tokens to their experts' ranks, and multiplies what
    arrives.

    ``gmm_x``: [tokens, H] by (rank, expert), ``gmm_weight``: [experts, H, n]; scales: one for all, or MX scales [tokens, ceil(H
    / 64), 2], which travel with the tokens, and [experts, ceil(H / 64), n, 2]. ``mm_x`` and ``mm_weight``: another product, of
    the shared expert. ``gmm_y_dtype`` and ``mm_y_dtype``: the numbers of the results' dtypes. Returns (products by (expert,
    rank), ``mm_x @ mm_weight`` or None, what was multiplied or None unless ``permute_out_flag``). Raises NotImplementedError
    for counts in tensors.
    """
    name = "npu_alltoallv_quant_gmm"
    _only_these(name, given, group_sizes=group_size)
    move = (hcom, send_counts, recv_counts, ep_world_size)
    parts = _by_expert(_moved(gmm_x, *move), recv_counts, ep_world_size)
    scales: List[Optional[Tensor]] = [gmm_x_scale] * len(parts)
    if gmm_x_scale.dim() == 3:
        scales = list(_by_expert(_moved(gmm_x_scale, *move), recv_counts, ep_world_size))
    out = torch.cat(_grouped(name, parts, scales, gmm_weight, gmm_weight_scale))
    shared = _shared(name, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype)
    return _as(out, gmm_y_dtype, torch.bfloat16), shared, torch.cat(parts) if permute_out_flag else None


def npu_quant_gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    gmm_x_scale: Tensor,
    gmm_weight_scale: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    gmm_y_dtype: int,
    *,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    mm_x_scale: Optional[Tensor] = None,
    mm_weight_scale: Optional[Tensor] = None,
    group_size: Optional[Sequence[int]] = None,
    mm_y_dtype: Optional[int] = None,
    **given: Any,
) -> Tuple[Tensor, Optional[Tensor]]:
    """The way back of :func:`npu_alltoallv_quant_gmm`: ``gmm_x`` by (expert, rank) times the experts' weights, sent to the
    tokens' ranks.

    Arguments as there. Returns (products by (rank, expert), ``mm_x @ mm_weight`` or None). Raises NotImplementedError for
    counts in tensors and for quantised communication.
    """
    name = "npu_quant_gmm_alltoallv"
    _only_these(name, given, group_sizes=group_size)
    sizes = _rows_of_experts(send_counts, ep_world_size)
    scales: List[Optional[Tensor]] = [gmm_x_scale] * len(sizes)
    if gmm_x_scale.dim() == 3:
        scales = list(gmm_x_scale.split(sizes))
    products = [_as(product, gmm_y_dtype, torch.bfloat16)
                for product in _grouped(name, gmm_x.split(sizes), scales, gmm_weight, gmm_weight_scale)]  # fmt: skip
    out = _exchanged(_by_rank(products, send_counts, ep_world_size), hcom, send_counts, recv_counts, ep_world_size)
    return out, _shared(name, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype)
