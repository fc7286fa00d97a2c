"""Caches of keys and values: writing tokens into them, reading sequences out. Caches: see _cache.py."""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._cache import write_slots
from torch_npu._cpu_ops._common import functional, out_of_place, unsupported, wide
from torch_npu._cpu_ops._int8 import as_int8


def npu_scatter_pa_kv_cache_functional(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, **options: Any
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_scatter_pa_kv_cache` that leaves the caches alone and returns new ones, (keys, values)."""
    caches = key_cache.clone(), value_cache.clone()
    torch.ops.npu.npu_scatter_pa_kv_cache(key, value, *caches, slot_mapping, **options)
    return caches


def npu_scatter_pa_cache_value(key: Tensor, slot_mapping: Tensor, *, key_cache: Tensor, **given: Any) -> Tensor:
    """Writes ``key`` [tokens, heads, size] into ``key_cache`` [pages, rows, heads, size] at the slots of ``slot_mapping``, int32
    [tokens]; negative slots are left out. Returns key_cache. Raises NotImplementedError for the compress arguments."""
    unsupported("npu_scatter_pa_cache", **given)
    write_slots(key_cache, slot_mapping, key, False)
    return key_cache


def _sequences(cache: Tensor, tables: Tensor, lengths: List[int], starts: List[int], width: int) -> Tensor:
    """The sequences' rows, one after the other, [tokens, width]."""
    tiled = cache.dim() == 4 and cache.shape[2] * cache.shape[3] != width  # NZ: [pages, width / 16, rows, 16]
    parts = []
    for table, length, start in zip(tables, lengths, starts):
        pages = cache[table.clamp(min=0).long()]
        pages = pages.transpose(1, 2) if tiled else pages
        parts.append(pages.reshape(-1, width)[start : start + length])
    return torch.cat(parts)


def npu_gather_pa_kv_cache(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    seq_offset: Optional[Tensor] = None,
    is_seq_lens_cumsum: bool = False,
) -> None:
    """Reads the sequences of a cache in pages, one after the other, into ``key`` and ``value`` [tokens, heads, size].

    ``key_cache``, ``value_cache``: [pages, rows, heads, size], or [pages, heads * size / 16, rows, 16]. ``block_tables``: int32
    [sequences, pages of each]; ``seq_lens``: [sequences], or their running sums from 0, [sequences + 1], with
    ``is_seq_lens_cumsum``; ``seq_offset``: the first row of each sequence that is read.
    """
    if key.device.type == "meta":
        return
    lengths = seq_lens.tolist()
    if is_seq_lens_cumsum:
        lengths = [end - start for start, end in zip(lengths, lengths[1:])]
    starts = [0] * len(lengths) if seq_offset is None else seq_offset.tolist()
    for cache, out in ((key_cache, key), (value_cache, value)):
        found = _sequences(cache, block_tables, lengths, starts, out.shape[1:].numel())
        out[: len(found)] = found.view(-1, *out.shape[1:]).to(out.dtype)


npu_gather_pa_kv_cache_functional = functional(npu_gather_pa_kv_cache, "key", "value")


def npu_scatter_list(
    self: List[Tensor], indices: Tensor, updates: Tensor, mask: Optional[Tensor] = None, reduce: str = "update", axis: int = -2
) -> List[Tensor]:
    """:func:`npu_scatter_list_` that leaves the tensors of the list alone and returns new ones."""
    found = [tensor.clone() for tensor in self]
    torch.ops.npu.npu_scatter_list_(found, indices, updates, mask, reduce, axis)
    return found


def npu_quant_scatter_(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Optional[Tensor] = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: Optional[int] = None,
    round_mode: Optional[str] = "rint",
) -> Tensor:
    """Writes ``updates``, quantised to int8 as ``round(updates / quant_scales + quant_zero_points)``, into the int8 tensor.

    ``indices``: int32 [batch], where along ``axis`` each batch's updates begin, or [batch, 2] with the batch to write to first.
    ``quant_scales``, ``quant_zero_points``: one for each element of dimension ``quant_axis`` (the last). Returns input.
    Raises NotImplementedError for another ``reduce``, ``round_mode`` or ``dst_type``.
    """
    if (
        reduce != "update"
        or dst_type not in (None, 1)
        or round_mode not in (None, "rint")
        or quant_axis not in (-1, updates.dim() - 1)
    ):
        raise NotImplementedError(
            "npu_quant_scatter: only reduce='update', int8, round_mode='rint' and the last quant_axis are supported"
        )
    value = wide(updates) / wide(quant_scales)
    value = as_int8(value if quant_zero_points is None else value + wide(quant_zero_points))
    axis = axis % self.dim()
    if self.device.type == "meta":
        return self
    places = indices.reshape(len(indices), -1).tolist()
    for i, place in enumerate(places):
        batch, start = (place[0], place[1]) if len(place) == 2 else (i, place[0])
        self[batch].narrow(axis - 1, start, value.shape[axis]).copy_(value[i])
    return self


npu_quant_scatter = out_of_place(npu_quant_scatter_)


def _advance_speculated(
    input_tokens: Tensor,
    spec_token: Tensor,
    accepted_num: Optional[Tensor],
    sampled: Tensor,
    input_positions: Tensor,
    seq_lens: Tensor,
    slot_mapping: Tensor,
    block_tables: Tensor,
    block_size: int,
) -> None:
    sequences, each = spec_token.shape[0], 1 + spec_token.shape[1]
    last = (sampled >= 0).sum(1, keepdim=True).clamp(min=1) - 1
    tokens = torch.cat([sampled.gather(1, last), spec_token.to(sampled.dtype)], 1)
    input_tokens.copy_(tokens.reshape(input_tokens.shape))
    positions = input_positions.view(sequences, each) + 1
    if accepted_num is not None:
        positions = positions + accepted_num.view(-1, 1)
    input_positions.copy_(positions.view(-1))
    seq_lens.copy_(positions.view(-1) + 1)
    page = block_tables.gather(1, (positions // block_size).long())
    slot_mapping.copy_((page * block_size + positions % block_size).view(-1))


def npu_advance_step_flashattn(
    input_tokens: Tensor,
    sampled_token_ids: Tensor,
    input_positions: Tensor,
    seq_lens: Tensor,
    slot_mapping: Tensor,
    block_tables: Tensor,
    num_seqs: int,
    num_queries: int,
    block_size: int,
    *,
    spec_token: Optional[Tensor] = None,
    accepted_num: Optional[Tensor] = None,
) -> None:
    """A step of decoding, in place: the first ``num_queries`` of ``input_tokens`` become the sampled ones,
    ``input_positions`` the lengths so far, ``seq_lens`` grow by one, and ``slot_mapping`` gets the slot of the new token out
    of ``block_tables`` [sequences, pages].

    With ``spec_token`` [sequences, s] each sequence has 1 + s tokens, and ``sampled_token_ids`` is [sequences, 1 + s], negative
    behind the last valid one: that is the first of the next tokens, ``spec_token`` the others. Positions grow by one and
    ``accepted_num`` [sequences] (0 without it), lengths are one more than positions. All are int32 or
    int64.
    """
    if spec_token is not None:
        speculated = (sampled_token_ids, input_positions, seq_lens, slot_mapping, block_tables, block_size)
        _advance_speculated(input_tokens, spec_token, accepted_num, *speculated)
        return
    position = seq_lens[:num_queries].clone()
    input_tokens[:num_queries] = sampled_token_ids.reshape(-1)[:num_queries].to(input_tokens.dtype)
    input_positions[:num_queries] = position.to(input_positions.dtype)
    seq_lens[:num_queries] = position + 1
    page = block_tables[:num_queries].gather(1, (position // block_size).long().unsqueeze(1)).squeeze(1)
    slot_mapping[:num_queries] = (page * block_size + position % block_size).to(slot_mapping.dtype)
