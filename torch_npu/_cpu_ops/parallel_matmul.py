"""Matrix products beside a collective, of the group whose communicator has the name ``hcom``.

``hcom`` is ``group._get_backend(torch.device("npu")).get_hccl_comm_name(rank)``. On tensors of meta no collective runs.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._int8 import exact, numbers_of_scale


def _group(hcom: str) -> dist.ProcessGroup:
    """The process group whose communicator on the current device is called ``hcom``; ValueError if there is none."""
    device = torch.npu.current_device()
    for group in dist.distributed_c10d._world.pg_map:
        types = group._device_types
        if torch.device("npu") not in types:
            continue
        backend = group._get_backend(torch.device("npu"))
        if getattr(backend, "get_hccl_comm_name", lambda *_: "")(device, False) == hcom:
            return group
    raise ValueError(
        f"no process group of this process has a communicator called {hcom!r}; the name comes from "
        "group._get_backend(torch.device('npu')).get_hccl_comm_name(rank)"
    )


def _collective(run: Callable[..., object], hcom: str, *tensors: Tensor, **options: object) -> None:
    if tensors[0].device.type != "meta":
        run(*tensors, group=_group(hcom), **options)


def _sum_only(name: str, reduce_op: str) -> None:
    if reduce_op != "sum":
        raise NotImplementedError(f"{name}: reduce_op is 'sum', not {reduce_op!r}")


def _without_gradient(name: str, *tensors: Optional[Tensor]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise NotImplementedError(
            f"{name} has no gradient: call it in the forward of a torch.autograd.Function, or under torch.no_grad()"
        )


def _bytes(tensor: Tensor) -> Tensor:
    """For collectives, which know no float8."""
    return tensor.contiguous().view(torch.uint8) if tensor.element_size() == 1 else tensor.contiguous()


def _gathered(x: Tensor, hcom: str, world_size: int) -> Tensor:
    out = x.new_empty(world_size * x.shape[0], *x.shape[1:])
    _collective(dist.all_gather_into_tensor, hcom, _bytes(out), _bytes(x))
    return out


def _columns_from_rows(x: Tensor, hcom: str, world_size: int) -> Tensor:
    """[rows, size, ...] of all ranks exchanged to [rows / world_size, world_size * size, ...]."""
    received = torch.empty_like(x, memory_format=torch.contiguous_format)
    _collective(dist.all_to_all_single, hcom, _bytes(received), _bytes(x))
    rows = x.shape[0] // world_size
    return received.view(world_size, rows, *x.shape[1:]).transpose(0, 1).reshape(rows, world_size * x.shape[1], *x.shape[2:])


def _rows_from_columns(out: Tensor, hcom: str, world_size: int) -> Tensor:
    """[rows, n] with its columns exchanged for rows: [world_size * rows, n / world_size]."""
    rows, columns = out.shape[0], out.shape[1] // world_size
    sent = out.view(rows, world_size, columns).transpose(0, 1).contiguous()
    received = torch.empty_like(sent)
    _collective(dist.all_to_all_single, hcom, _bytes(received), _bytes(sent))
    return received.view(world_size * rows, columns)


def _product(x1: Tensor, x2: Tensor, bias: Optional[Tensor]) -> Tensor:
    out = torch.matmul(x1, x2)
    return out if bias is None else out + bias


def _int8_product(x1: Tensor, x2: Tensor, bias: Optional[Tensor]) -> Tensor:
    """In float64, which holds every sum of products of int8 exactly, then float32."""
    out = exact(x1, x2)
    return (out if bias is None else out + bias.double()).float()


def _scaled_product(
    x1: Tensor, x2: Tensor, bias: Optional[Tensor], x1_scale: Optional[Tensor], x2_scale: Tensor, dtype: Optional[torch.dtype]
) -> Tensor:
    """``x1_scale * x2_scale * (x1 @ x2 + bias)`` of int8 tensors.

    Scales in int64 give float16, others bfloat16 unless ``dtype`` is given.
    """
    out = _int8_product(x1, x2, bias) * numbers_of_scale(x2_scale)
    out = out if x1_scale is None else out * x1_scale.reshape(-1, 1)
    return out.to(dtype or (torch.float16 if x2_scale.dtype == torch.int64 and x1_scale is None else torch.bfloat16))


def _anti_quantized(x2: Tensor, scale: Tensor, offset: Optional[Tensor], group_size: int) -> Tensor:
    """``(x2 + offset) * scale``, for the whole tensor, by columns, or by groups of ``group_size`` rows."""
    rows = x2.shape[0]
    spread = (lambda t: t.repeat_interleave(group_size, 0)[:rows]) if group_size else (lambda t: t)
    value = wide(x2) if offset is None else wide(x2) + wide(spread(offset))
    return (value * wide(spread(scale))).to(scale.dtype)


def npu_mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Optional[Tensor] = None,
    antiquant_scale: Optional[Tensor] = None,
    antiquant_offset: Optional[Tensor] = None,
    x3: Optional[Tensor] = None,
    dequant_scale: Optional[Tensor] = None,
    pertoken_scale: Optional[Tensor] = None,
    antiquant_group_size: int = 0,
    **given: Any,
) -> Tensor:
    """The sum over the ranks of ``x1 @ x2 + bias + x3``.

    ``x1``: [m, k] or [b, s, k]; ``x2``: [k, n]; ``bias``: [n]; ``x3``: like the result. int8 ``x2`` with ``antiquant_scale`` (and
    ``antiquant_offset``) [1], [n] or [groups, n] becomes ``(x2 + offset) * scale`` first. int8 ``x1`` and ``x2`` need
    ``dequant_scale`` [1] or [n], and may have ``pertoken_scale`` [rows]; their result is float16 for scales in int64, else
    bfloat16. ``comm_turn`` and ``comm_mode`` have no meaning here. Raises NotImplementedError for quantized communication and
    other formats.
    """
    name = "npu_mm_all_reduce_base"
    _sum_only(name, reduce_op)
    _without_gradient(name, x1, x2, bias, x3)
    unsupported(name, "comm_turn", "comm_quant_mode", "comm_mode", **given)
    if dequant_scale is not None:
        out = _scaled_product(x1.flatten(0, -2), x2, bias, pertoken_scale, dequant_scale, None)
        out = out.reshape(*x1.shape[:-1], x2.shape[-1])
    else:
        weight = x2 if antiquant_scale is None else _anti_quantized(x2, antiquant_scale, antiquant_offset, antiquant_group_size)
        out = _product(x1, weight, bias)
    out = out if x3 is None else out + x3
    _collective(dist.all_reduce, hcom, out)
    return out


def npu_all_gather_base_mm(
    input: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    gather_output: bool = True,
    output_dtype: Optional[torch.dtype] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """``all_gather(input) @ x2 + bias``: [world_size * m, n] of ``input`` [m, k] and ``x2`` [k, n].

    int8 tensors need ``x2_scale`` [1, n] and may have ``x1_scale`` [m, 1], which is gathered too; ``output_dtype`` then is
    bfloat16 by default. Returns (the product, the gathered input, empty unless ``gather_output``). Raises NotImplementedError
    unless ``gather_index`` is 0.
    """
    name = "npu_all_gather_base_mm"
    unsupported(name, "comm_turn", "comm_mode", **given)
    _without_gradient(name, input, x2, bias)
    gathered = _gathered(input, hcom, world_size)
    if x2_scale is None:
        out = _product(gathered, x2, bias)
    else:
        scales = None if x1_scale is None else _gathered(x1_scale, hcom, world_size)
        out = _scaled_product(gathered, x2, bias, scales, x2_scale, output_dtype)
    return out, gathered if gather_output else input.new_empty(0)


def npu_mm_reduce_scatter_base(
    input: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Optional[Tensor] = None,
    x1_scale: Optional[Tensor] = None,
    x2_scale: Optional[Tensor] = None,
    output_dtype: Optional[torch.dtype] = None,
    **_: Any,
) -> Tensor:
    """This rank's rows of the sum over the ranks of ``input @ x2 + bias``: [m / world_size, n] of [m, k] and [k, n].

    int8 tensors need ``x2_scale`` [1, n] and may have ``x1_scale`` [m, 1]; ``output_dtype`` then is bfloat16 by default.
    """
    name = "npu_mm_reduce_scatter_base"
    _sum_only(name, reduce_op)
    _without_gradient(name, input, x2, bias)
    if input.shape[0] % world_size:
        raise ValueError(f"{name}: {input.shape[0]} rows cannot be split among {world_size} ranks")
    if x2_scale is None:
        out = _product(input, x2, bias)
    else:
        out = _scaled_product(input, x2, bias, x1_scale, x2_scale, output_dtype)
    result = out.new_empty(out.shape[0] // world_size, out.shape[1])
    _collective(dist.reduce_scatter_tensor, hcom, result, out)
    return result


def npu_all_to_all_matmul(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Optional[Tensor] = None,
    all2all_axes: Optional[Sequence[int]] = None,
    all2all_out_flag: bool = True,
    comm_mode: Optional[str] = None,
) -> Tuple[Tensor, Tensor]:
    """``x1`` [rows, H] of all ranks, exchanged to [rows / world_size, world_size * H], times ``x2`` [world_size * H, n], plus
    ``bias``.

    Returns (the product, what was exchanged, empty unless ``all2all_out_flag``). All are float16 or bfloat16.
    """
    _without_gradient("npu_all_to_all_matmul", x1, x2, bias)
    exchanged = _columns_from_rows(x1, hcom, world_size)
    out = _product(exchanged, x2, None if bias is None else bias.to(x1.dtype))
    return out, exchanged if all2all_out_flag else x1.new_empty(0)


def npu_matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Optional[Tensor] = None,
    all2all_axes: Optional[Sequence[int]] = None,
    comm_mode: Optional[str] = None,
) -> Tensor:
    """``x1 @ x2 + bias`` [rows, n] with its columns exchanged for rows: [world_size * rows, n / world_size].

    All are float16 or bfloat16.
    """
    _without_gradient("npu_matmul_all_to_all", x1, x2, bias)
    out = _product(x1, x2, None if bias is None else bias.to(x1.dtype))
    return _rows_from_columns(out, hcom, world_size)


def _exchanged(rows: Tensor, hcom: str, sent: Sequence[int], received: Sequence[int], world_size: int) -> Tensor:
    """Rows by (rank, expert), ``sent[rank * experts + expert]`` each, as the others sent them to this rank."""
    experts = len(sent) // world_size
    totals: List[List[int]] = [[sum(c[r * experts : (r + 1) * experts]) for r in range(world_size)] for c in (received, sent)]
    out = rows.new_empty(sum(received), *rows.shape[1:])
    splits = dict(output_split_sizes=totals[0], input_split_sizes=totals[1])
    _collective(dist.all_to_all_single, hcom, out, rows.contiguous(), **splits)
    return out


def _by_expert(rows: Tensor, counts: Sequence[int], world_size: int) -> List[Tensor]:
    """Rows by (rank, expert) as one tensor for each expert, in the order of the ranks."""
    experts = len(counts) // world_size
    parts = rows.split(list(counts))
    return [torch.cat(parts[expert::experts]) for expert in range(experts)]


def _rows_of_experts(counts: Sequence[int], world_size: int) -> List[int]:
    """How many rows each expert has, out of those by (rank, expert)."""
    experts = len(counts) // world_size
    return [sum(counts[expert::experts]) for expert in range(experts)]


def _by_rank(products: Sequence[Tensor], counts: Sequence[int], world_size: int) -> Tensor:
    """Rows of each expert, in the order of the ranks, as one tensor by (rank, expert)."""
    experts = len(counts) // world_size
    pieces = [product.split(list(counts[expert::experts])) for expert, product in enumerate(products)]
    return torch.cat([pieces[expert][rank] for rank in range(world_size) for expert in range(experts)])


def _grouped(parts: Sequence[Tensor], weight: Tensor, transposed: bool) -> List[Tensor]:
    return [part @ (matrix.t() if transposed else matrix) for part, matrix in zip(parts, weight)]


def _shared(mm_x: Optional[Tensor], mm_weight: Optional[Tensor], transposed: bool) -> Optional[Tensor]:
    return None if mm_x is None or mm_weight is None else mm_x @ (mm_weight.t() if transposed else mm_weight)


def npu_alltoallv_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    *,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out_flag: bool = False,
    **given: Any,
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Sends tokens to the ranks of their experts, and multiplies what arrives by the experts' weights.

    ``gmm_x``: [tokens, H] by (rank, expert), ``send_counts[rank * experts + expert]`` each; ``recv_counts``: what arrives,
    likewise; ``gmm_weight``: [experts, H, n], with its last dimensions swapped if ``trans_gmm_weight``; ``mm_x`` and
    ``mm_weight``: another product, of the shared expert. Returns (products by (expert, rank) [arrived, n], ``mm_x @ mm_weight``
    or None, what was multiplied or None unless ``permute_out_flag``). Raises NotImplementedError for counts in tensors. All
    are float16 or bfloat16.
    """
    name = "npu_alltoallv_gmm"
    unsupported(name, "comm_mode", **given)
    _without_gradient(name, gmm_x, gmm_weight, mm_x, mm_weight)
    arrived = _exchanged(gmm_x, hcom, send_counts, recv_counts, ep_world_size)
    parts = _by_expert(arrived, recv_counts, ep_world_size)
    out = torch.cat(_grouped(parts, gmm_weight, trans_gmm_weight))
    return out, _shared(mm_x, mm_weight, trans_mm_weight), torch.cat(parts) if permute_out_flag else None


def npu_gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    *,
    mm_x: Optional[Tensor] = None,
    mm_weight: Optional[Tensor] = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    **given: Any,
) -> Tuple[Tensor, Optional[Tensor]]:
    """The way back of :func:`npu_alltoallv_gmm`: ``gmm_x`` by (expert, rank) times the experts' weights, sent to the tokens'
    ranks.

    ``send_counts[rank * experts + expert]`` and ``recv_counts``: rows that go and come. Returns (products by (rank, expert),
    ``mm_x @ mm_weight`` or None). Raises NotImplementedError for counts in tensors. All are float16 or bfloat16.
    """
    name = "npu_gmm_alltoallv"
    unsupported(name, "comm_mode", **given)
    _without_gradient(name, gmm_x, gmm_weight, mm_x, mm_weight)
    products = _grouped(gmm_x.split(_rows_of_experts(send_counts, ep_world_size)), gmm_weight, trans_gmm_weight)
    sent = _by_rank(products, send_counts, ep_world_size)
    return _exchanged(sent, hcom, send_counts, recv_counts, ep_world_size), _shared(mm_x, mm_weight, trans_mm_weight)
