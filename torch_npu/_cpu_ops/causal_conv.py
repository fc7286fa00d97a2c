"""Causal convolution along a sequence, channel by channel."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import wide_gradients


def npu_masked_causal_conv1d(input: Tensor, weight: Tensor, *, mask: Optional[Tensor] = None) -> Tensor:
    """``out[s] = sum over k of weight[k] * input[s - (W - 1 - k)]``, zeros before the start, 0 where ``mask`` is false.

    ``input``: [steps, batch, channels]; ``weight``: [W, channels]; ``mask``: bool [batch, steps].
    """
    steps, batch, channels = input.shape
    sequence = F.pad(wide(input).permute(1, 2, 0), (weight.shape[0] - 1, 0))
    out = F.conv1d(sequence, wide(weight).t().unsqueeze(1), groups=channels).permute(2, 0, 1)
    if mask is not None:
        out = out * mask.t().unsqueeze(-1).to(out.dtype)
    return out.to(input.dtype).contiguous()


def npu_masked_causal_conv1d_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, *, mask: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor]:
    """Gradients of :func:`npu_masked_causal_conv1d` for input and weight."""
    first, second = wide_gradients(lambda x, w: npu_masked_causal_conv1d(x, w, mask=mask), (input, weight), grad_output)
    return first, second


def _sequences(x: Tensor, starts: Optional[Tensor]) -> List[Tensor]:
    if x.dim() == 3:
        return list(x)
    if starts is None:
        raise ValueError("npu_fused_causal_conv1d: x of [tokens, size] needs query_start_loc")
    places = starts.tolist()
    return [x[start:end] for start, end in zip(places, places[1:])]


class _BlockCache:
    """Where a sequence's inputs are kept when it has a slot for each block of ``size`` tokens."""

    def __init__(self, slots: Tensor, computed: Tensor, first: Tensor, last: Tensor, initial: Tensor, size: int) -> None:
        self.slots, self.computed = slots.tolist(), computed.tolist()
        self.first, self.last, self.initial, self.size = first.tolist(), last.tolist(), initial.tolist(), size

    def ends(self, b: int, length: int) -> List[Tuple[int, int]]:
        """(slot, number of the sequence's new tokens before its end) of each block that becomes full."""
        left = self.size - self.computed[b] % self.size
        behind = (length - left) % self.size
        full = length - (behind or self.size)
        count = self.last[b] - self.first[b]
        return [(self.slots[b][self.first[b] + i], full - (count - i - 1) * self.size) for i in range(count)]


def _block_cache(indices: Optional[Tensor], computed: Optional[Tensor], places: Sequence[Optional[Tensor]],
                 size: Optional[int]) -> Optional[_BlockCache]:
    if all(place is None for place in places):
        return None
    if indices is None or indices.dim() != 2 or computed is None or any(place is None for place in places):
        raise ValueError("npu_fused_causal_conv1d: a cache in blocks needs cache_indices [sequences, blocks], "
                         "num_computed_tokens, block_idx_first_scheduled_token, block_idx_last_scheduled_token and "
                         "initial_state_idx")
    first, last, initial = (place for place in places if place is not None)
    return _BlockCache(indices, computed, first, last, initial, size or 128)


def npu_fused_causal_conv1d(
    x: Tensor,
    weight: Tensor,
    conv_states: Tensor,
    *,
    query_start_loc: Optional[Tensor] = None,
    cache_indices: Optional[Tensor] = None,
    initial_state_mode: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    num_accepted_tokens: Optional[Tensor] = None,
    activation: Optional[str] = "None",
    pad_slot_id: Optional[int] = -1,
    run_mode: Optional[int] = 0,
    residual_connection: Optional[int] = 0,
    max_query_len: Optional[int] = -1,
    num_computed_tokens: Optional[Tensor] = None,
    block_idx_first_scheduled_token: Optional[Tensor] = None,
    block_idx_last_scheduled_token: Optional[Tensor] = None,
    initial_state_idx: Optional[Tensor] = None,
    block_size: Optional[int] = 128,
    conv_mode: Optional[str] = "default",
) -> Tensor:
    """A convolution of k taps along each sequence, ``y[i] = sum_j weight[j] * x[i + j - k + 1]``, with what came before in a
    cache.

    ``x`` [tokens, size] with ``query_start_loc`` int32 [sequences + 1], or [sequences, length, size]; ``weight`` [k, size];
    ``conv_states`` [slots, rows, size], rows >= k - 1, gets each sequence's last inputs; ``cache_indices`` its slot
    (``pad_slot_id``: the sequence is left out). ``initial_state_mode`` 0, or ``num_computed_tokens`` 0: a sequence begins with
    zeros; ``initial_state_mode`` 2: with the cache, and its first k - 1 outputs are 0. ``num_accepted_tokens``: the cache counts
    from there. ``bias`` [size]; ``activation`` "None", "silu" or "swish"; ``residual_connection`` 1 adds x. ``conv_mode``
    "pangu": outputs that the sequence's own tokens do not fill are 0.

    With ``cache_indices`` [sequences, blocks] a sequence has a slot for each ``block_size`` tokens: it goes on from block
    ``initial_state_idx``, ends in ``block_idx_last_scheduled_token``, and leaves its inputs in those from
    ``block_idx_first_scheduled_token`` on. Returns x's shape. ValueError for arguments that lack others.
    """
    name = "npu_fused_causal_conv1d"
    if conv_mode not in (None, "default", "pangu"):
        raise ValueError(f"{name}: conv_mode {conv_mode!r} is neither 'default' nor 'pangu'")
    if conv_mode == "pangu" and num_computed_tokens is None:
        raise ValueError(f"{name}: conv_mode 'pangu' needs num_computed_tokens")
    places = (block_idx_first_scheduled_token, block_idx_last_scheduled_token, initial_state_idx)
    if activation not in (None, "None", "none", "", "silu", "swish"):
        raise NotImplementedError(f"{name}: activation {activation!r} is not supported; None, silu and swish are")
    out = torch.zeros_like(x)
    if x.device.type == "meta":
        return out
    taps, rows = weight.shape[0], conv_states.shape[1]
    blocks = _block_cache(cache_indices, num_computed_tokens, places, block_size)
    slots = None if cache_indices is None else cache_indices.reshape(cache_indices.shape[0], -1).tolist()
    targets = _sequences(out, query_start_loc)
    for b, (part, target) in enumerate(zip(_sequences(x, query_start_loc), targets)):
        length = part.shape[0]
        slot = b if slots is None else slots[b][blocks.initial[b] if blocks else 0]
        if (slots is not None and slot == pad_slot_id) or length == 0:
            continue
        computed = None if num_computed_tokens is None else int(num_computed_tokens[b])
        offset = rows - (taps - 1) if num_accepted_tokens is None else int(num_accepted_tokens[b]) - 1
        before = conv_states[slot, : offset + taps - 1].clone()
        if computed == 0:
            offset, before = 0, part.new_zeros(taps - 1, part.shape[1])
        initial = 1 if initial_state_mode is None else int(initial_state_mode[b])
        if initial == 0:
            before.zero_()
        padded = torch.cat([before, part])
        kept = min(rows, padded.shape[0])
        conv_states[slots[b][blocks.last[b]] if blocks and slots else slot, rows - kept :] = padded[padded.shape[0] - kept :]
        inputs = padded[offset:]
        for full, end in blocks.ends(b, length) if blocks else ():
            conv_states[full, rows - (taps - 1) :] = inputs[end : end + taps - 1]
        y = (wide(inputs).unfold(0, taps, 1) * wide(weight).t()).sum(-1)  # over windows [length, size, taps]
        if conv_mode == "pangu" and computed is not None:
            y[: min(max(taps - 1 - computed, 0), length)] = 0
        if initial == 2:
            y[: taps - 1] = 0
        y = y if bias is None else y + wide(bias)
        y = F.silu(y) if activation in ("silu", "swish") else y
        target.copy_((y + wide(part) if residual_connection else y).to(out.dtype))
    return out


def npu_fused_causal_conv1d_v2(x: Tensor, weight: Tensor, conv_states: Tensor, **options: Any) -> None:
    """:func:`npu_fused_causal_conv1d` that writes its result into ``x``."""
    x.copy_(npu_fused_causal_conv1d(x, weight, conv_states, **options))
