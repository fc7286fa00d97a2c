"""Moving elements, types, selections."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import as_dtype, unsupported


def npu_confusion_transpose(self: Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Tensor:
    """``self.permute(perm).reshape(shape)``, or in the other order unless ``transpose_first``. Of any dtype."""
    moved = self.permute(tuple(perm)).reshape(shape) if transpose_first else self.reshape(shape).permute(tuple(perm))
    return moved.clone(memory_format=torch.contiguous_format)


def npu_transpose(self: Tensor, perm: Sequence[int], require_contiguous: bool = True) -> Tensor:
    """``self.permute(perm)``, contiguous. Of any shape and dtype."""
    return self.permute(tuple(perm)).clone(memory_format=torch.contiguous_format)


def npu_broadcast(self: Tensor, size: Sequence[int]) -> Tensor:
    """``self.expand(size)``, contiguous. Of any dtype."""
    return self.expand(size).clone(memory_format=torch.contiguous_format)


def npu_reshape(self: Tensor, shape: Sequence[int], can_refresh: bool = False) -> Tensor:
    """``self.reshape(shape)``, a copy. ``can_refresh`` has no meaning. Of any dtype."""
    return self.reshape(shape).clone(memory_format=torch.contiguous_format)


def npu_slice(self: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Tensor:
    """``size`` elements of each dimension from ``offsets`` on; a size of -1 is all that follow. Of any dtype."""
    for dim, (offset, count) in enumerate(zip(offsets, size)):
        self = self.narrow(dim, offset, self.shape[dim] - offset if count == -1 else count)
    return self.clone(memory_format=torch.contiguous_format)


def npu_stride_copy(self: Tensor, shape: Sequence[int], stride: Sequence[int], storage_offset: float) -> Tensor:
    """A contiguous copy of the view of self's storage with ``shape``, ``stride`` and ``storage_offset``.

    Of any dtype.
    """
    return self.as_strided(shape, stride, int(storage_offset)).clone(memory_format=torch.contiguous_format)


def npu_indexing(self: Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], begin_mask: int = 0,
                 end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0) -> Tensor:
    """``self[begin:end:strides]`` in each dimension. Bit i of a mask: begin_mask and end_mask leave out the bound,
    ellipsis_mask makes entry i an ellipsis, new_axis_mask a new axis, shrink_axis_mask an index.

    Of any dtype.
    """
    index: List[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides)):
        def bit(mask: Any, i: Any = i) -> Any:
            return mask >> i & 1
        if bit(ellipsis_mask):
            index.append(Ellipsis)
        elif bit(new_axis_mask):
            index.append(None)
        elif bit(shrink_axis_mask):
            index.append(first)
        else:
            index.append(slice(None if bit(begin_mask) else first, None if bit(end_mask) else last, step))
    return self[tuple(index)].clone(memory_format=torch.contiguous_format)


def npu_pad(self: Tensor, paddings: Sequence[int]) -> Tensor:
    """Zeros around self: ``paddings`` is (before, after) for each dimension, from the first. Of any shape and dtype."""
    pairs = [paddings[i:i + 2] for i in range(0, len(paddings), 2)]
    return F.pad(self, [n for pair in reversed(pairs) for n in pair])


def npu_one_hot(self: Tensor, num_classes: int = -1, depth: int = 1, on_value: float = 1, off_value: float = 0) -> Tensor:
    """float32, with a new dimension of size ``depth``: ``on_value`` where its index is the element of self.

    ``num_classes``, in spite of its name, is the place of the new dimension.
    """
    dim = num_classes % (self.dim() + 1)
    classes = torch.arange(depth, device=self.device).reshape([-1 if i == dim else 1 for i in range(self.dim() + 1)])
    hit = self.unsqueeze(dim) == classes
    return torch.where(hit, float(on_value), float(off_value)).float()


def npu_dtype_cast(self: Tensor, dtype: int, input_dtype: Optional[int] = None) -> Tensor:
    """self in another dtype, a copy. Raises NotImplementedError for ``input_dtype``, another reading of self's bytes.

    The copy has the shape of ``input`` and is contiguous.
    """
    unsupported("npu_dtype_cast", input_dtype=input_dtype)
    return self.to(as_dtype(dtype), copy=True, memory_format=torch.contiguous_format)


def npu_dtype_cast_(self: Tensor, src: Tensor) -> Tensor:
    """Copies ``src`` into self, in self's dtype. ``src`` has self's shape, or one that broadcasts to it."""
    return self.copy_(src)


def npu_max_dim(self: Tensor, dim: int, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """(maxima over ``dim``, their indices as int32). ``input`` and the maxima have one dtype; any shape."""
    values, indices = self.max(dim, keepdim)
    return values, indices.to(torch.int32)


def npu_min_dim(self: Tensor, dim: int, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """(minima over ``dim``, their indices as int32). ``input`` and the minima have one dtype; any shape."""
    values, indices = self.min(dim, keepdim)
    return values, indices.to(torch.int32)


def npu_sort_v2(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """self sorted along ``dim``, without indices. The result has self's shape and dtype."""
    return self.sort(dim=dim, descending=descending).values


def npu_scatter(self: Tensor, indices: Tensor, updates: Tensor, dim: int) -> Tensor:
    """self with ``updates`` at ``indices`` along ``dim``: a dimension of size 1, as maxima leave it.

    ``indices`` are integers; updates and result have self's dtype.
    """
    if indices.dim() < self.dim():
        indices, updates = indices.unsqueeze(dim), updates.unsqueeze(dim)
    return self.scatter(dim, indices.long(), updates)


def npu_scatter_nd_update(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """self with ``updates`` at ``indices``: the last dimension of ``indices`` indexes the first dimensions of self.

    ``updates``: [*indices.shape[:-1], ...] with self's other dimensions, in its dtype; ``indices``: int32 or int64.
    """
    return npu_scatter_nd_update_(self.clone(memory_format=torch.contiguous_format), indices, updates)


def npu_scatter_nd_update_(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """:func:`npu_scatter_nd_update` in place."""
    self[tuple(indices.long().unbind(-1))] = updates
    return self


def scatter_update(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """self with ``updates[i]`` written into ``self[i]`` from ``indices[i]`` on, along dimension ``axis``.

    ``indices``: int32 or int64 [tensors]; updates have self's dtype.
    """
    return scatter_update_(self.clone(memory_format=torch.contiguous_format), indices, updates, axis)


def scatter_update_(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """:func:`scatter_update` in place."""
    if self.device.type != "meta":
        dim = axis % self.dim() - 1
        for target, start, update in zip(self, indices.reshape(-1).tolist(), updates):
            target.narrow(dim, start, update.shape[dim]).copy_(update)
    return self


def npu_scatter_list_(self: Sequence[Tensor], indices: Tensor, updates: Tensor, mask: Optional[Tensor] = None,
                      reduce: str = "update", axis: int = -2) -> None:
    """Writes ``updates[i]`` into tensor i of the list self from ``indices[i]`` on, along dimension ``axis``.

    ``indices``: [tensors], or [tensors, 2] with how much of the update to write; ``mask``: which of the tensors to write into,
    all by default. Raises NotImplementedError unless ``reduce`` is "update". Tensors and updates have one dtype, indices
    are integers, ``mask`` uint8.
    """
    if reduce != "update":
        raise NotImplementedError(f"npu_scatter_list_: reduce {reduce!r} is not supported")
    if indices.device.type == "meta":
        return
    chosen = [True] * len(self) if mask is None else mask.bool().tolist()
    for target, place, update, wanted in zip(self, indices.tolist(), updates, chosen):
        dim = axis % target.dim()
        start, length = place if isinstance(place, list) else (place, update.shape[dim])
        if wanted:
            target.narrow(dim, start, length).copy_(update.narrow(dim, 0, length))


def npu_scatter_pa_kv_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *,
                            compress_lens: Optional[Tensor] = None, compress_seq_offsets: Optional[Tensor] = None,
                            seq_lens: Optional[Tensor] = None, cache_mode: Optional[str] = "PA_NZ") -> None:
    """Writes keys and values [tokens, heads, size] into the slots of paged caches, none where a slot is negative.

    ``cache_mode``: "Norm", caches of [blocks, block_size, heads, size], or "PA_NZ", [blocks, heads * size / 16, block_size, 16]
    (32 instead of 16 for int8; heads may be a dimension of their own). Raises NotImplementedError for compression.
    """
    unsupported("npu_scatter_pa_kv_cache", compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets,
                seq_lens=seq_lens)
    if cache_mode not in (None, "", "Norm", "PA_NZ"):
        raise NotImplementedError(f"npu_scatter_pa_kv_cache: cache_mode {cache_mode!r} is not supported")
    if key.device.type == "meta":
        return
    kept = slot_mapping.reshape(-1) >= 0
    slots = slot_mapping.reshape(-1)[kept].long()
    for rows, cache in ((key, key_cache), (value, value_cache)):
        if cache_mode in ("", "Norm"):
            block = cache.shape[1]
            cache[slots // block, slots % block] = rows.reshape(-1, *cache.shape[2:])[kept]
        else:
            tiled = cache.view(cache.shape[0], -1, *cache.shape[3:]) if cache.dim() == 5 else cache
            block = tiled.shape[2]
            tiled[slots // block, :, slots % block] = rows.reshape(-1, tiled.shape[1], tiled.shape[3])[kept]


def npu_gather_sparse_index(self: Tensor, index: Tensor) -> Tensor:
    """``self[index]``: rows of self, in the shape of ``index``. ``index`` is an integer tensor; self of any dtype."""
    return self[index.long()]


def npu_view_copy(self: Tensor, other: Tensor, non_blocking: bool) -> Tensor:
    """Copies ``other`` into self. Of any shape and dtype; ``src``'s broadcasts to self's."""
    return self.copy_(other, non_blocking)


def copy_memory_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copies ``src`` into self, which must have its shape and dtype (ValueError)."""
    if self.shape != src.shape or self.dtype != src.dtype:
        raise ValueError(f"copy_memory_: {tuple(src.shape)} of {src.dtype} into {tuple(self.shape)} of {self.dtype}")
    return self.copy_(src, non_blocking)


def one_(self: Tensor) -> Tensor:
    """Fills self with ones. Of any shape and dtype."""
    return self.fill_(1)
