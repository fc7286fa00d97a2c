"""Experts on several ranks: tokens go to the ranks of their experts and come back. On torch.distributed's collectives."""

from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._int8 import by_token


def group_named(name: str, device: torch.device) -> "dist.ProcessGroup":
    """The process group whose communicator on ``device`` (``get_hccl_comm_name``), or which itself, is called ``name``."""
    if not dist.is_initialized():
        raise RuntimeError(f"group {name!r}: call torch.distributed.init_process_group first")
    for group in list(dist.distributed_c10d._world.pg_map):
        if group.group_name == name:
            return group
        if device.type == "npu":
            backend = group._get_backend(device)
            if backend.get_hccl_comm_name(device.index or 0) == name:
                return group
    raise ValueError(f"no process group has a communicator {name!r}; the name is backend.get_hccl_comm_name(rank)")


class _Route:
    """Which copies of tokens go where: those of ``expert_ids`` [tokens, k] that are active and belong to a real expert, by
    expert."""

    def __init__(self, expert_ids: Tensor, active: Optional[Tensor], experts: int, world: int) -> None:
        self.k, self.world, self.local = expert_ids.shape[1], world, experts // world
        ids = expert_ids.reshape(-1).long()
        sent = (ids >= 0) & (ids < experts)
        if active is not None:
            sent = sent & active.bool().reshape(expert_ids.shape[0], -1).expand(expert_ids.shape).reshape(-1)
        order = torch.argsort(torch.where(sent, ids, experts), stable=True)
        self.copies = order[: int(sent.sum())]
        self.counts = torch.bincount(ids[self.copies], minlength=experts)  # that this rank sends, by expert

    def splits(self, received: Tensor) -> Tuple[List[int], List[int]]:
        """(rows sent to, rows received from) each rank; ``received`` [world, local experts]."""
        return self.counts.view(self.world, self.local).sum(1).tolist(), received.sum(1).tolist()


def _exchange(group: "dist.ProcessGroup", rows: Tensor, sent: List[int], received: List[int]) -> Tensor:
    out = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(out, rows.contiguous(), received, sent, group=group)
    return out


def _by_expert(received: Tensor) -> Tensor:
    """For rows that came [rank, expert], the places that sort them [expert, rank]."""
    world, local = received.shape
    expert = torch.arange(local, device=received.device).repeat(world).repeat_interleave(received.reshape(-1))
    return torch.argsort(expert, stable=True)


def _padded(rows: Tensor, count: int) -> Tensor:
    out = rows.new_zeros(count, *rows.shape[1:])
    out[: rows.shape[0]] = rows
    return out


def _check(name: str, world: int, experts: int, shared_ranks: int, tp_world: int) -> None:
    if shared_ranks or tp_world > 1 or experts % world:
        raise NotImplementedError(
            f"{name}: shared_expert_rank_num={shared_ranks}, tp_world_size={tp_world} and {experts} experts on {world} "
            "ranks are not supported; experts must divide evenly, without shared ranks and without TP"
        )


# Arguments that have no meaning here.
_IGNORED = (
    *("group_tp", "tp_rank_id", "tp_send_counts", "expand_scales", "expert_shard_type", "shared_expert_num", "comm_alg"),
    *("zero_expert_num", "copy_expert_num", "const_expert_num", "global_bs", "group_list_type"),
)


def _dispatch(
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,
    world: int,
    experts: int,
    *,
    scales: Optional[Tensor] = None,
    x_active_mask: Optional[Tensor] = None,
    expert_scales: Optional[Tensor] = None,
    tp_world_size: int = 0,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
    **given: Any,
) -> Tuple[Tensor, ...]:
    name = "npu_moe_distribute_dispatch"
    unsupported(name, *_IGNORED, **given)
    _check(name, world, experts, shared_expert_rank_num, tp_world_size)
    if quant_mode not in (0, 2):
        raise NotImplementedError(f"{name}: quant_mode {quant_mode} is not supported; 0 and 2, dynamic, are")
    tokens, k = expert_ids.shape
    local = experts // world
    rows = (global_bs or tokens * world) * min(local, k)
    index = x.new_zeros(rows * 128, dtype=torch.int32)
    none, dtype = x.new_empty(0, dtype=torch.float32), torch.int8 if quant_mode else x.dtype
    if x.device.type == "meta":
        return (
            x.new_empty(rows, x.shape[1], dtype=dtype),
            x.new_empty(rows if quant_mode else 0, dtype=torch.float32),
            index,
            x.new_empty(local, dtype=torch.int64),
            x.new_empty(experts, dtype=torch.int32),
            x.new_empty(1, dtype=torch.int32),
            none if expert_scales is None else x.new_empty(rows, dtype=torch.float32),
        )
    group = group_named(group_ep, x.device)
    route = _Route(expert_ids, x_active_mask, experts, world)
    received = torch.empty_like(route.counts)
    dist.all_to_all_single(received, route.counts, group=group)
    received = received.view(world, local)
    sent, got = route.splits(received)
    values, dynamic = x[route.copies // k], None
    if quant_mode:
        wide_values = wide(values)
        if scales is not None:
            wide_values = wide_values * wide(scales)[expert_ids.reshape(-1).long()[route.copies]]
        values, dynamic = by_token(wide_values)
    order = _by_expert(received)
    expand_x = _padded(_exchange(group, values, sent, got)[order], rows)
    dynamic = none if dynamic is None else _padded(_exchange(group, dynamic, sent, got)[order], rows)
    weights = none
    if expert_scales is not None:
        weights = _padded(_exchange(group, expert_scales.reshape(-1)[route.copies].float(), sent, got)[order], rows)
    each = received.sum(0)
    return (
        expand_x,
        dynamic,
        index,
        each if expert_token_nums_type else each.cumsum(0),
        received.t().reshape(-1).cumsum(0).int(),
        x.new_zeros(1, dtype=torch.int32),
        weights,
    )


def npu_moe_distribute_dispatch_v2(
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    **options: Any,
) -> Tuple[Tensor, ...]:
    """Sends tokens to the ranks of their experts: rank r has experts [r, r + 1) * moe_expert_num / ep_world_size.

    ``x`` [tokens, size], ``expert_ids`` int32 [tokens, k]; ``group_ep``: the name of the communicator,
    ``pg._get_backend(device).get_hccl_comm_name(rank)``. ``x_active_mask`` bool [tokens] or [tokens, k]: which
    go. Numbered behind the experts are those that are no networks: zero, copy and constant ones, whose tokens stay.
    ``quant_mode`` 2: rows go as int8 with a scale for each of ``x * scales[expert]``; 0: as they are. Returns (rows received,
    sorted by expert and by rank, [A, size], A = max(global_bs, tokens * ranks) * min(local experts, k); their float32 scales
    [A] or empty; int32 [A * 128] without content; int64 [local experts], how many rows each has, or with
    ``expert_token_nums_type`` 0 where they end; running sums of the rows by expert and rank, int32; int32 [1];
    ``expert_scales`` of the rows [A], or empty). What is passed to :func:`npu_moe_distribute_combine_v2` has meaning only for
    that. Ranks of shared experts and TP are refused: NotImplementedError here, RuntimeError from CANN.
    """
    return _dispatch(x, expert_ids, group_ep, ep_world_size, moe_expert_num, **options)


def npu_moe_distribute_dispatch(x: Tensor, expert_ids: Tensor, *args: Any, **options: Any) -> Tuple[Tensor, ...]:
    """:func:`npu_moe_distribute_dispatch_v2` without experts that are no networks. The third result is int32 [tokens * k]."""
    rows, scales, index, *others = npu_moe_distribute_dispatch_v2(x, expert_ids, *args, **options)
    return (rows, scales, index.new_zeros(expert_ids.numel()), *others)


def _combine(
    expand_x: Tensor,
    expert_ids: Tensor,
    ends: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    world: int,
    experts: int,
    active: Optional[Tensor],
    shared: Optional[Tensor],
    quantized: bool,
) -> Tensor:
    """The weighted sums of what came back, float32 [tokens, size]."""
    tokens, k = expert_ids.shape
    out = torch.zeros(tokens, expand_x.shape[1], device=expand_x.device)
    if expand_x.device.type == "meta":
        return out
    group = group_named(group_ep, expand_x.device)
    route = _Route(expert_ids, active, experts, world)
    sums = ends[:experts].long()
    counts = torch.diff(sums, prepend=sums.new_zeros(1)).view(route.local, world)  # [expert, rank]
    got, sent = route.splits(counts.t())
    sorted_places = _by_expert(counts.t())
    order = torch.empty_like(sorted_places)
    order[sorted_places] = torch.arange(order.numel(), device=order.device)
    rows = expand_x[: order.numel()][order]
    if quantized:
        rows, scale = by_token(wide(rows))
        back = _exchange(group, rows, sent, got).float() * _exchange(group, scale, sent, got).unsqueeze(-1)
    else:
        back = wide(_exchange(group, rows, sent, got))
    out.index_add_(0, route.copies // k, back * wide(expert_scales).reshape(-1)[route.copies].unsqueeze(-1))
    return out if shared is None else out + wide(shared)


def npu_moe_distribute_combine(
    *args: Any,
    activation_scale: Optional[Tensor] = None,
    weight_scale: Optional[Tensor] = None,
    group_list: Optional[Tensor] = None,
    out_dtype: int = 0,
    **options: Any,
) -> Tensor:
    """The way back of :func:`npu_moe_distribute_dispatch`: each token's results times ``expert_scales`` [tokens, k], added up.

    ``expand_x`` [A, size]: the experts' results in the order in which the rows came; ``ep_send_counts``: the fifth result of the
    dispatch. ``shared_expert_x`` [tokens, size] is added. ``comm_quant_mode`` 2: rows go as int8 with a scale each. Returns
    [tokens, size] in expand_x's dtype.
    """
    refused = {"activation_scale": activation_scale, "weight_scale": weight_scale, "group_list": group_list}
    unsupported("npu_moe_distribute_combine", **refused, out_dtype=out_dtype or None)
    return npu_moe_distribute_combine_v2(*args, **options)


def npu_moe_distribute_combine_v2(
    expand_x: Tensor,
    expert_ids: Tensor,
    assist_info_for_combine: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    x_active_mask: Optional[Tensor] = None,
    shared_expert_x: Optional[Tensor] = None,
    ori_x: Optional[Tensor] = None,
    const_expert_alpha_1: Optional[Tensor] = None,
    const_expert_alpha_2: Optional[Tensor] = None,
    const_expert_v: Optional[Tensor] = None,
    tp_world_size: int = 0,
    shared_expert_rank_num: int = 0,
    comm_quant_mode: int = 0,
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
    **given: Any,
) -> Tensor:
    """:func:`npu_moe_distribute_combine` with experts that are no networks: of a token ``ori_x`` zero experts make 0, copy
    experts itself, constant experts ``const_expert_alpha_1 * ori_x + const_expert_alpha_2 * const_expert_v`` (one row of each
    an expert)."""
    name = "npu_moe_distribute_combine"
    unsupported(name, *_IGNORED, **given)
    _check(name, ep_world_size, moe_expert_num, shared_expert_rank_num, tp_world_size)
    out = _combine(
        expand_x,
        expert_ids,
        ep_send_counts,
        expert_scales,
        group_ep,
        ep_world_size,
        moe_expert_num,
        x_active_mask,
        shared_expert_x,
        comm_quant_mode == 2,
    )
    first, weights = moe_expert_num + zero_expert_num, wide(expert_scales)
    if copy_expert_num:
        copied = (expert_ids >= first) & (expert_ids < first + copy_expert_num)
        out = out + wide(ori_x) * (weights * copied).sum(1, keepdim=True)
    first += copy_expert_num
    for i in range(const_expert_num):
        weight = (weights * (expert_ids == first + i)).sum(1, keepdim=True)
        made = wide(const_expert_alpha_1)[i] * wide(ori_x) + wide(const_expert_alpha_2)[i] * wide(const_expert_v)[i]
        out = out + made * weight
    return out.to(expand_x.dtype)


def npu_moe_distribute_combine_add_rms_norm(
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    residual_x: Tensor,
    gamma: Tensor,
    *group: Any,
    activation_scale: Optional[Tensor] = None,
    weight_scale: Optional[Tensor] = None,
    group_list: Optional[Tensor] = None,
    out_dtype: int = 0,
    norm_eps: float = 1e-6,
    **options: Any,
) -> Tuple[Tensor, Tensor, Tensor]:
    """:func:`npu_moe_distribute_combine_v2`, then :func:`npu_add_rms_norm` of it and ``residual_x``: (y, 1 / rms as float32,
    the sum)."""
    refused = {"activation_scale": activation_scale, "weight_scale": weight_scale, "group_list": group_list}
    unsupported("npu_moe_distribute_combine_add_rms_norm", **refused, out_dtype=out_dtype or None)
    x = npu_moe_distribute_combine_v2(*[expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales, *group], **options)
    y, rstd, total = torch.ops.npu.npu_add_rms_norm(x.reshape(residual_x.shape), residual_x, gamma, norm_eps)
    return y, rstd, total


def _npu_distribute_barrier(x_ref: Tensor, group: str, world_size: int, **given: Any) -> Tensor:
    """Waits for all ranks of ``group`` (a communicator's name, as :func:`npu_moe_distribute_dispatch` takes) and returns
    ``x_ref``."""
    unsupported("_npu_distribute_barrier", **given)
    if x_ref.device.type != "meta":
        dist.barrier(group=group_named(group, x_ref.device))
    return x_ref
