"""Collectives of tensors whose parts differ in size from rank to rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from torch_npu._ops.errors import both

if TYPE_CHECKING:
    from collections.abc import Sequence


def parts_of(name: str, tensor: torch.Tensor, sizes: Sequence[int] | None, ranks: int) -> list[torch.Tensor]:
    """Views of a tensor, one for each rank; equal ones where no sizes are given."""
    rows = tensor.size(0) if tensor.dim() else 0
    if sizes is None:
        if rows % ranks:
            raise both(ValueError)(f"{name}: {rows} rows cannot be split into {ranks} equal parts; give the sizes of the parts")
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows or min(sizes) < 0:
        raise both(ValueError)(f"{name}: split sizes {list(sizes)} for {ranks} ranks and {rows} rows")
    if not tensor.is_contiguous():
        raise both(ValueError)(f"{name}: the tensor to split must be contiguous")
    return list(tensor.split(list(sizes)))


def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """As torch.distributed.all_gather_into_tensor, with a part of another size from each rank.

    Args:
        output: contiguous, [sum(output_split_sizes), ...]: the ranks' inputs, one after the other.
        input: [output_split_sizes[own rank], ...], of the same dtype.
        output_split_sizes: the rows of each rank, the same list on all ranks; None: all have as many.
        group: the group; the default one if None.
        async_op: returns a handle instead of waiting.

    Raises:
        ValueError: the sizes do not fit the ranks or the tensors.
    """
    parts = parts_of("all_gather_into_tensor_uneven", output, output_split_sizes, dist.get_world_size(group))
    own = parts[dist.get_rank(group)]
    if own.shape != input.shape:
        raise both(ValueError)(
            f"all_gather_into_tensor_uneven: this rank's part is {list(own.shape)}, its input {list(input.shape)}"
        )
    return dist.all_gather(parts, input, group, async_op)


def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: Sequence[int] | None = None,
    op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """As torch.distributed.reduce_scatter_tensor, with a part of another size for each rank.

    Args:
        output: [input_split_sizes[own rank], ...]: this rank's part, reduced over all ranks.
        input: contiguous, [sum(input_split_sizes), ...], of the same dtype.
        input_split_sizes: the rows for each rank, the same list on all ranks; None: all get as many.
        op: how to reduce.
        group: the group; the default one if None.
        async_op: returns a handle instead of waiting.

    Raises:
        ValueError: the sizes do not fit the ranks or the tensors.
    """
    parts = parts_of("reduce_scatter_tensor_uneven", input, input_split_sizes, dist.get_world_size(group))
    own = parts[dist.get_rank(group)]
    if own.shape != output.shape:
        raise both(ValueError)(
            f"reduce_scatter_tensor_uneven: this rank's part is {list(own.shape)}, its output {list(output.shape)}"
        )
    return dist.reduce_scatter(output, parts, op, group, async_op)


def counts_of(send_count_matrix: Any, input: torch.Tensor, output: torch.Tensor, rank: int,
              ranks: int) -> tuple[list[int], list[int]]:
    """What this rank sends to each, and receives of each, checked against its tensors: see all_to_all_vc."""
    rows = send_count_matrix.tolist() if isinstance(send_count_matrix, torch.Tensor) else send_count_matrix
    counts = [[int(count) for count in row] if isinstance(row, (list, tuple, torch.Tensor)) else [] for row in rows]
    if len(counts) != ranks or any(len(row) != ranks for row in counts):
        raise both(ValueError)(f"all_to_all_vc: the matrix is not {ranks} by {ranks}")
    sends, receives = counts[rank], [row[rank] for row in counts]
    if not (input.is_contiguous() and output.is_contiguous()):
        raise both(ValueError)("all_to_all_vc: the tensors must be contiguous")
    if sum(sends) != input.numel() or sum(receives) != output.numel():
        raise both(ValueError)(
            f"all_to_all_vc: rank {rank} sends {sum(sends)} and receives {sum(receives)} elements by the matrix, "
            f"its input has {input.numel()} and its output {output.numel()}"
        )
    return sends, receives


def all_to_all_vc(
    output: torch.Tensor,
    input: torch.Tensor,
    send_count_matrix: Sequence[Sequence[int]] | torch.Tensor,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """As torch.distributed.all_to_all_single, with the sizes of all ranks in one matrix.

    Args:
        output: contiguous; as many elements as column `own rank` of the matrix adds up to.
        input: contiguous, of the same dtype; as many elements as row `own rank` adds up to.
        send_count_matrix: [ranks][ranks] numbers of elements, the same on all ranks: [i][j] is what rank i sends to rank j.
        group: the group; the default one if None.
        async_op: returns a handle instead of waiting.

    Raises:
        ValueError: the matrix is not of the group's size, or the tensors do not fit it.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    sends, receives = counts_of(send_count_matrix, input, output, rank, ranks)
    return dist.all_to_all_single(output.view(-1), input.view(-1), receives, sends, group, async_op)
