"""Storages, elements by index, and marks that change no value."""

import math
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

import torch_npu

# Storages -------------------------------------------------------------------------------------------------------------------


def get_storage_size(input: Tensor) -> int:
    """Elements of ``input``'s dtype that its storage holds, which is more than it has where an internal format pads.

    Of any shape and dtype.
    """
    return input.untyped_storage().nbytes() // input.element_size()


def unsafe_empty_with_format(size: Sequence[int], *, keep_format: bool = False, **options: Any) -> Tensor:
    """An uninitialized tensor of shape ``size`` in the storage format ``acl_format``, on the current NPU unless ``device`` says
    otherwise.

    ``keep_format`` has no meaning here. Raises RuntimeError for ``pin_memory``. The dtype is torch's default unless given.
    """
    return empty_with_format(size, **options)


def empty_with_format(
    size: Sequence[int],
    *,
    dtype: Optional[torch.dtype] = None,
    layout: Optional[torch.layout] = None,
    device: Optional[torch.device] = None,
    pin_memory: Optional[bool] = None,
    acl_format: int = 2,
    base_addr_aligned_kb: Optional[int] = None,
) -> Tensor:
    """An uninitialized tensor of shape ``size`` in the storage format ``acl_format``, on the current NPU unless ``device`` says
    otherwise.

    Raises RuntimeError for ``pin_memory`` and NotImplementedError for ``base_addr_aligned_kb``. The dtype is torch's
    default unless given.
    """
    if pin_memory:
        raise RuntimeError("empty_with_format: only tensors of the CPU can be pinned")
    if base_addr_aligned_kb is not None:
        raise NotImplementedError("empty_with_format: base_addr_aligned_kb is not supported; memory is aligned to 512 bytes")
    tensor = torch.empty(size, dtype=dtype, layout=layout, device="npu" if device is None else device)
    return tensor if tensor.device.type != "npu" else torch.ops.npu.npu_format_cast(tensor, acl_format)


def empty_with_swapped_memory(size: Sequence[int], *, dtype: Optional[torch.dtype] = None,
                              device: Optional[torch.device] = None) -> Tensor:
    """An uninitialized tensor of shape ``size`` for the NPU, whose memory is on the host: it takes no room on the device, and
    every operator that uses it moves its bytes between the two. On the current NPU unless ``device`` says otherwise.

    The dtype is torch's default unless given. Freeing it waits for the device. Raises ValueError for a device that is neither
    an NPU nor meta, and CANN's error where the host has not so much memory.
    """
    where = torch.device("npu" if device is None else device)
    if where.type == "meta":
        return torch.empty(size, dtype=dtype, device=where)
    if where.type != "npu":
        raise ValueError(f"empty_with_swapped_memory: the device is an NPU, not {where}")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    count = math.prod(size)
    if not count:
        return torch.empty(size, dtype=dtype, device=where)
    torch.npu.init()
    index = torch.npu.current_device() if where.index is None else where.index
    return torch_npu._C._swapped_memory(count * dtype.itemsize, index).view(dtype).view(size)


def npu_change_data_ptr(dst: Tensor, src: Tensor, index: int) -> int:
    """Lets ``dst`` use the memory of ``src`` from element ``index`` on, keeping its shape. Returns 0.

    Raises ValueError unless the dtypes are the same and ``dst`` fits.
    """
    needed = 1 + sum((n - 1) * step for n, step in zip(dst.shape, dst.stride())) if dst.numel() else 0
    start = src.storage_offset() + index
    if dst.dtype != src.dtype or index < 0 or start + needed > get_storage_size(src):
        raise ValueError(
            f"npu_change_data_ptr: {needed} elements of {dst.dtype} from {start} on do not lie within the "
            f"{get_storage_size(src)} elements of {src.dtype} of src"
        )
    dst.set_(src.untyped_storage(), start, dst.shape, dst.stride())
    return 0


# Elements -------------------------------------------------------------------------------------------------------------------


def _npu_index_add(input: Tensor, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """``input`` with ``alpha * source[i]`` added to row ``index[i]``. ``index``: int32 or int64 [n]; ``source``: [n, ...]."""
    return input.index_add(0, index, source, alpha=alpha)


def _npu_index_add_(input: Tensor, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """:func:`_npu_index_add` in place."""
    return input.index_add_(0, index, source, alpha=alpha)


def npu_masked_fill_range(input: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int = -1) -> Tensor:
    """``input`` with ``value[i]`` at ``start[i, n]`` to ``end[i, n]`` (exclusive) along ``axis``, in row n of the first
    dimension.

    ``start`` and ``end``: int32 [ranges, rows], or [ranges, 1] for a vector; ``value``: [ranges]. Later ranges win.
    """
    dim = axis % input.dim()
    place = torch.arange(input.shape[dim], device=input.device)
    result = input
    for first, last, number in zip(start, end, value):
        hit = (place >= first.unsqueeze(1)) & (place < last.unsqueeze(1))
        shape = [1] * input.dim()
        shape[dim] = input.shape[dim]
        if input.dim() > 1:
            shape[0] = hit.shape[0]
        result = torch.where(hit.reshape(shape), number.to(input.dtype), result)
    return result


def npu_stride_add(input: Tensor, other: Tensor, offset1: float, offset2: float, c1_len: float) -> Tensor:
    """Sums of parts of the channels: ``16 * c1_len`` of ``input`` from ``16 * offset1`` on, and of ``other`` from ``16 *
    offset2`` on.

    ``input`` and ``other``: [N, C, ...]; channels beyond C are 0. Both are floating point, as the result [N, 16 * c1_len,
    ...].
    """

    def part(tensor: Tensor, offset: float) -> Tensor:
        first, count = 16 * int(offset), 16 * int(c1_len)
        found = tensor[:, first : first + count]
        missing = tensor.new_zeros(tensor.shape[0], count - found.shape[1], *tensor.shape[2:])
        return torch.cat([found, missing], 1)

    return part(input, offset1) + part(other, offset2)


def npu_attn_softmax_(input: Tensor) -> Tensor:
    """The softmax of the last dimension, in place. ``input`` has any shape and a floating point dtype."""
    return input.copy_(torch.softmax(input, -1))


def npu_attn_softmax_backward_(input: Tensor, grad_output: Tensor, values: Tensor) -> Tensor:
    """Gradient of a softmax in place: ``input`` is its result and becomes the gradient of scores whose product with ``values``
    was taken.

    ``grad_output``: the product's gradient [..., rows, n]; ``values``: [..., keys, n]; ``input``: [..., rows, keys]. Scores
    and gradient are floating point; the result is in place, of their dtype.
    """
    grad = torch.matmul(grad_output, values.transpose(-2, -1))
    return input.copy_(input * (grad - (grad * input).sum(-1, keepdim=True)))


# Marks ----------------------------------------------------------------------------------------------------------------------


def npu_prefetch(input: Tensor, dependency: Optional[Tensor], max_size: int, offset: int = 0) -> None:
    """Asks for ``max_size`` bytes of ``input`` from byte ``offset`` on in the NPU's cache. Changes no value, and no time here.

    Raises ValueError unless ``max_size`` is positive and ``offset`` lies in the tensor. Of any shape and dtype.
    """
    size = input.numel() * input.element_size()
    if max_size <= 0 or not 0 <= offset < max(size, 1):
        raise ValueError(f"npu_prefetch: max_size {max_size} must be positive and offset {offset} within {size} bytes")


def super_kernel_scope_begin(scope_name: Optional[str] = None) -> None:
    """Begins a part of a graph that a compiler may fuse. No compiler here reads the mark."""


def super_kernel_scope_end(scope_name: Optional[str] = None) -> None:
    """Ends what :func:`super_kernel_scope_begin` began."""


def set_op_timeout_ms(timeout: int) -> None:
    """:func:`torch_npu.npu.set_op_timeout_ms`: the longest run of one operator in milliseconds."""
    from torch_npu.npu.limits import set_op_timeout_ms as limit

    limit(timeout)
