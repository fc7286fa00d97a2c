"""What caches of keys and values share: norms, turns, and writing rows at their slots.

A cache in pages is [pages, rows, heads, size], or ("NZ") [pages, heads * size / 16, rows, 16], 32 for int8. Slot s is row
s % rows of page s // rows.
"""

from typing import Callable

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension, in float32."""
    x = wide(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * wide(gamma)


def half_turned(x: Tensor) -> Tensor:
    """(-second half, first half) of the last dimension."""
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rope(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x turned, in float32. ``interleaved``: elements 2i and 2i + 1 belong together, and come apart into the two halves."""
    x = wide(x)
    if interleaved:
        x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return x * wide(cos) + half_turned(x) * wide(sin)


def _write(cache: Tensor, at: Callable[[Tensor], tuple], slots: Tensor, rows: Tensor) -> None:
    """cache[at(slots)] = rows but where a slot is negative; of rows with one slot the last stays. A row that is left out is put
    at the largest slot and is the one that belongs there, or what is there already where all are negative: taking it out would
    make the host wait, which a graph cannot have."""
    if not slots.numel():
        return
    last = slots.numel() - 1 - slots.flip(0).argmax().view(1)
    largest = slots.index_select(0, last)
    slot, kept = largest.clamp(min=0), slots >= 0
    shape = (-1, *[1] * (rows.dim() - 1))
    row = torch.where((largest >= 0).view(shape), rows.index_select(0, last), cache[at(slot)])
    cache[at(torch.where(kept, slots, slot))] = torch.where(kept.view(shape), rows, row)


def write_slots(cache: Tensor, slots: Tensor, rows: Tensor, nz: bool) -> None:
    """Writes rows [tokens, heads, size] into a cache in pages; negative slots are left out."""
    slots = slots.reshape(-1).long()
    if cache.device.type == "meta":
        return
    rows = rows.reshape(slots.numel(), *rows.shape[-2:]).to(cache.dtype)
    if not nz:
        _write(cache.view(-1, *cache.shape[2:]), lambda s: (s,), slots, rows.view(-1, *cache.shape[2:]))
        return
    lanes = 32 if cache.element_size() == 1 else 16
    length = (
        cache.shape[2]
        if cache.shape[-1] == lanes and cache.dim() == 4 and cache.shape[1] * lanes == rows.shape[1:].numel()
        else cache.shape[1]
    )
    tiles = cache.view(cache.shape[0], -1, length, lanes)
    _write(tiles, lambda s: (s // length, slice(None), s % length), slots, rows.reshape(len(rows), tiles.shape[1], lanes))


def write_cache(cache: Tensor, index: Tensor, rows: Tensor, mode: str) -> None:
    """Writes rows [batch, length, size] into a cache with one head. ``mode``: "Norm": [batch, 1, rows, size], ``index`` [batch,
    length] the row of each; "PA", "PA_BNSD", "PA_BSND": pages [pages, rows, 1, size], a slot of each; "PA_NZ": the same with its
    elements in tiles; "PA_BLK_*": ``index`` has the first slot of each page that is filled."""
    if cache.device.type == "meta":
        return
    batch, length, size = rows.shape
    if mode in ("Norm", ""):
        places, per = index.reshape(batch, length).long(), 1 << 32  # a place behind a cache's end is none of the next one
        slots = torch.where(places < 0, -1, places + torch.arange(batch, device=cache.device).unsqueeze(1) * per)
        _write(cache, lambda s: (s // per, 0, s % per), slots.view(-1), rows.reshape(-1, size).to(cache.dtype))
        return
    if mode not in ("PA", "PA_BNSD", "PA_BSND", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_BSND", "PA_BLK_NZ"):
        raise ValueError(f"cache_mode {mode!r} is not one of Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD, PA_BLK_NZ")
    slots = index
    if mode.startswith("PA_BLK"):
        page = cache.shape[1]
        first = index.reshape(batch, -1).long()
        row = torch.arange(length, device=cache.device)
        slots = first[:, row // page] + row % page
        slots = torch.where(first[:, row // page] < 0, -1, slots)
    write_slots(cache, slots, rows.reshape(batch * length, 1, size), mode.endswith("NZ"))
