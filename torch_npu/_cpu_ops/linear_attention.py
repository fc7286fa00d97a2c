"""Linear attention with a state: the gated delta rule, and the short causal convolution in front of it."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import functional, wide


class _Steps:
    """The gated delta rule, token by token. States: [value heads, value size, key size]; key heads serve several of them."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Optional[Tensor],
        scale: float,
        g: Optional[Tensor],
        gk: Optional[Tensor],
    ) -> None:
        repeats = value.shape[1] // key.shape[1]
        self.query, self.key = (wide(t).repeat_interleave(repeats, 1) for t in (query, key))
        self.query = self.query * scale
        self.value, self.beta = wide(value), None if beta is None else wide(beta)
        self.decay = None if g is None else wide(g).exp()
        self.key_decay = None if gk is None else wide(gk).exp()

    def step(self, state: Tensor, t: int) -> Tuple[Tensor, Tensor]:
        """(the state after token t, its output [value heads, value size])."""
        if self.decay is not None:
            state = state * self.decay[t].view(-1, 1, 1)
        if self.key_decay is not None:
            state = state * self.key_decay[t].unsqueeze(1)
        key = self.key[t].unsqueeze(-1)
        error = self.value[t] - torch.matmul(state, key).squeeze(-1)
        error = error if self.beta is None else error * self.beta[t].unsqueeze(-1)
        state = state + error.unsqueeze(-1) * self.key[t].unsqueeze(1)
        return state, torch.matmul(state, self.query[t].unsqueeze(-1)).squeeze(-1)


def npu_recurrent_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    *,
    beta: Optional[Tensor] = None,
    scale: Optional[float] = None,
    actual_seq_lengths: Optional[Tensor] = None,
    ssm_state_indices: Optional[Tensor] = None,
    num_accepted_tokens: Optional[Tensor] = None,
    g: Optional[Tensor] = None,
    gk: Optional[Tensor] = None,
) -> Tensor:
    """A few steps of the gated delta rule for each sequence, from states that are kept and brought up to date.

    For each token, ``S = S * exp(g) * exp(gk)``, ``S += beta (v - S k) k^T``, output ``S q * scale``. ``query``, ``key``
    [tokens, key heads, dk], ``value`` [tokens, value heads, dv], ``state`` [slots, value heads, dv, dk], ``beta`` and ``g``
    [tokens, value heads], ``gk`` [tokens, value heads, dk]. ``actual_seq_lengths``: int32 [sequences]; ``ssm_state_indices``:
    int32 [tokens], the slot that the state after each token goes to; a sequence starts from the slot of its token
    ``num_accepted_tokens - 1`` (its first by default). Returns [tokens, value heads, dv] in value's dtype; writes ``state``.
    """
    out = torch.zeros_like(value)
    if value.device.type == "meta":
        return out
    count = value.shape[0]
    lengths = [1] * count if actual_seq_lengths is None else actual_seq_lengths.tolist()
    slots = list(range(count)) if ssm_state_indices is None else ssm_state_indices.reshape(-1).tolist()
    accepted = [1] * len(lengths) if num_accepted_tokens is None else num_accepted_tokens.tolist()
    steps = _Steps(query, key, value, beta, 1.0 if scale is None else scale, g, gk)
    start = 0
    for length, kept in zip(lengths, accepted):
        current = wide(state[slots[start + kept - 1]])
        for t in range(start, start + length):
            current, y = steps.step(current, t)
            state[slots[t]] = current.to(state.dtype)
            out[t] = y.to(out.dtype)
        start += length
    return out


npu_recurrent_gated_delta_rule_functional = functional(npu_recurrent_gated_delta_rule, "state")


def npu_chunk_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    beta: Optional[Tensor] = None,
    initial_state: Optional[Tensor] = None,
    actual_seq_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None,
    g: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """The gated delta rule over whole sequences: see :func:`npu_recurrent_gated_delta_rule` for the formula and the shapes.

    ``initial_state`` [sequences, value heads, dv, dk], 0 without it; ``actual_seq_lengths`` int32 [sequences], all tokens one
    sequence without it. Returns (outputs [tokens, value heads, dv], the states after the last tokens, in initial_state's
    dtype).
    """
    batches = 1 if actual_seq_lengths is None else actual_seq_lengths.numel()
    shape = (batches, value.shape[1], value.shape[2], key.shape[2])
    states = torch.zeros(shape, dtype=value.dtype, device=value.device) if initial_state is None else initial_state.clone()
    out = torch.zeros_like(value)
    if value.device.type == "meta":
        return out, states
    lengths = [value.shape[0]] if actual_seq_lengths is None else actual_seq_lengths.tolist()
    steps = _Steps(query, key, value, beta, 1.0 if scale is None else scale, g, None)
    start = 0
    for b, length in enumerate(lengths):
        current = wide(states[b])
        for t in range(start, start + length):
            current, y = steps.step(current, t)
            out[t] = y.to(out.dtype)
        start += length
        states[b] = current.to(states.dtype)
    return out, states


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
    zeros. ``num_accepted_tokens``: the cache counts from there. ``bias`` [size]; ``activation`` "None", "silu" or "swish";
    ``residual_connection`` 1 adds x. ``conv_mode`` "pangu": outputs that the sequence's own tokens do not fill are 0.

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
        if initial_state_mode is not None and int(initial_state_mode[b]) == 0:
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
        y = y if bias is None else y + wide(bias)
        y = F.silu(y) if activation in ("silu", "swish") else y
        target.copy_((y + wide(part) if residual_connection else y).to(out.dtype))
    return out


def npu_fused_causal_conv1d_v2(x: Tensor, weight: Tensor, conv_states: Tensor, **options: Any) -> None:
    """:func:`npu_fused_causal_conv1d` that writes its result into ``x``."""
    x.copy_(npu_fused_causal_conv1d(x, weight, conv_states, **options))
