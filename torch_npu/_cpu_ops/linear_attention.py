"""Linear attention with a state: the gated delta rule, and the short causal convolution in front of it."""

from typing import Optional, Tuple

import torch
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
    ``num_accepted_tokens - 1`` (its first by default). Returns bfloat16 [tokens, value heads, dv]; writes ``state``.
    """
    out = torch.zeros_like(value, dtype=torch.bfloat16)
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
    sequence without it. Returns (outputs bfloat16 [tokens, value heads, dv], the states after the last tokens, in initial_state's
    dtype).
    """
    batches = 1 if actual_seq_lengths is None else actual_seq_lengths.numel()
    shape = (batches, value.shape[1], value.shape[2], key.shape[2])
    states = torch.zeros(shape, dtype=value.dtype, device=value.device) if initial_state is None else initial_state.clone()
    out = torch.zeros_like(value, dtype=torch.bfloat16)
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
