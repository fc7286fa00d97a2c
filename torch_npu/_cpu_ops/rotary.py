"""Rotary position embeddings."""

from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops._gradient import gradient_of


def _rotated(x: Any, mode: Any) -> Tensor:
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat([-b, a], -1)
    if mode == "interleave":
        return torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    if mode == "quarter":
        return torch.cat([_rotated(part, "half") for part in x.chunk(2, -1)], -1)
    raise ValueError(f"rotary_mode {mode!r} is not one of 'half', 'interleave', 'quarter', 'interleave-half'")


def _embedded(x: Any, cos: Any, sin: Any, mode: str = "half") -> Any:
    if mode == "interleave-half":
        x, mode = torch.cat([x[..., 0::2], x[..., 1::2]], -1), "half"
    return wide(x) * wide(cos) + _rotated(wide(x), mode) * wide(sin)


def npu_rotary_mul(self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None) -> Tensor:
    """``self * r1 + rotated(self) * r2``: r1 holds cosines, r2 sines, both broadcastable to self.

    ``rotary_mode`` says what is turned in the last dimension: "half" (-second half, first half), "interleave"
    (neighbours as pairs), "quarter" ("half" in each half), "interleave-half" (neighbours, taken apart into halves
    first). Raises ValueError for another, NotImplementedError when a matrix ``rotate`` is given. The result has ``self``'s
    shape and dtype, a floating point one.
    """
    unsupported("npu_rotary_mul", rotate=rotate)
    return _embedded(self, r1, r2, rotary_mode).to(self.dtype).contiguous()


npu_rotary_mul_backward = gradient_of("npu_rotary_mul", _embedded, "self, r1 and r2", of=(0, 1, 2), in_float32=True)


def npu_apply_rotary_pos_emb(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND",
                             rotary_mode: str = "half") -> Tuple[Tensor, Tensor]:
    """:func:`npu_rotary_mul` of query and key. ``layout``: "BSND", "SBND", "BNSD" or "TND"; cos and sin broadcast.

    Query and key have four dimensions, three in "TND", and the results have their shapes and dtypes.
    """
    return (_embedded(query, cos, sin, rotary_mode).to(query.dtype).contiguous(),
            _embedded(key, cos, sin, rotary_mode).to(key.dtype).contiguous())


def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """:func:`npu_rotary_mul` in mode "interleave-half". ``x``: [B, N, S, D]; cos and sin: [B, 1 or N, S, D]."""
    return _embedded(x, cos, sin, "interleave-half").to(x.dtype).contiguous()


def npu_mrope(positions: Tensor, query: Tensor, key: Tensor, cos_sin_cache: Tensor, head_size: int, *,
              mrope_section: Optional[Sequence[int]] = None, rotary_mode: Optional[str] = "half",
              cache_mode: Optional[str] = "default") -> Tuple[Tensor, Tensor]:
    """Turns each head of query and key [tokens, heads * head_size] by its token's position.

    ``cos_sin_cache``: [positions, size], cosines in its first half, sines in its second; the first ``size`` numbers of a head
    turn. ``positions``: [tokens], or [sections, tokens]: then cosines and sines are cut into ``mrope_section`` pieces, each
    taken at its section's position. ``rotary_mode``: "half" or "interleave", as in :func:`npu_rotary_mul`. Returns (query,
    key). Raises NotImplementedError for another ``cache_mode``.
    """
    unsupported("npu_mrope", cache_mode=None if cache_mode in (None, "default") else cache_mode)
    mode = rotary_mode or "half"
    if mode not in ("half", "interleave"):
        raise ValueError(f"rotary_mode {mode!r} is not one of 'half', 'interleave'")
    parts: Sequence[Tensor] = wide(cos_sin_cache)[positions.long()].chunk(2, -1)
    if positions.dim() == 2:
        parts = [torch.cat([piece[i] for i, piece in enumerate(part.split(list(mrope_section or ()), -1))], -1) for part in parts]
    cos, sin = ((torch.cat([part, part], -1) if mode == "half" else part.repeat_interleave(2, -1)).unsqueeze(1)
                for part in parts)

    def turned(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (-1, head_size))
        size = cos.shape[-1]
        out = torch.cat([_embedded(heads[..., :size], cos, sin, mode), wide(heads[..., size:])], -1)
        return out.flatten(-2).to(x.dtype).contiguous()

    return turned(query), turned(key)
