"""Recurrent networks of several layers and directions, with torch's weights: those of torch.nn.LSTM and torch.nn.GRU."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops.recurrent_gradients import found

States = Tuple[Tensor, ...]
# (gates from the input, weights and bias of the state, states before) -> (states behind, what is saved of the step)
Step = Callable[[Tensor, Tensor, Optional[Tensor], States], Tuple[States, Tuple[Tensor, ...]]]


class Network(NamedTuple):
    """What both have besides tensors, in the order and by the names of the operators' arguments."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: Optional[bool] = False
    batch_sizes: Optional[Tensor] = None

    def check(self, name: str) -> None:
        if self.dropout and self.train and self.num_layers > 1:
            raise NotImplementedError(
                f"{name}: dropout between layers is not supported; torch.nn has it, or put it between calls"
            )


def _lstm_step(given: Tensor, weight: Tensor, bias: Optional[Tensor], states: States) -> Tuple[States, Tuple[Tensor, ...]]:
    gates = given + torch.nn.functional.linear(states[0], weight, bias)
    i, f, j, o = gates.chunk(4, -1)
    i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f), torch.sigmoid(o)
    cell = f * states[1] + i * j
    tanh = torch.tanh(cell)
    state = o * tanh
    return (state, cell), (i, j, f, o, state, cell, tanh)


def _gru_step(given: Tensor, weight: Tensor, bias: Optional[Tensor], states: States) -> Tuple[States, Tuple[Tensor, ...]]:
    own = torch.nn.functional.linear(states[0], weight, bias)
    (r, z, new), (own_r, own_z, hidden_new) = given.chunk(3, -1), own.chunk(3, -1)
    reset, update = torch.sigmoid(r + own_r), torch.sigmoid(z + own_z)
    content = torch.tanh(new + reset * hidden_new)
    state = (1 - update) * content + update * states[0]
    return (state,), (reset, update, content, hidden_new, state)


def _layer(
    step: Step, x: Tensor, weights: Sequence[Tensor], states: States, sizes: Optional[List[int]], backward: bool
) -> Tuple[Tensor, States, Tuple[Tensor, ...]]:
    """(results [time, batch, hidden], last states [batch, hidden], what is saved [time, batch, hidden] each) of one direction.

    ``sizes``: how many sequences have each step; the results of the others are 0 and their states stay.
    """
    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    given = torch.nn.functional.linear(x, w_ih, b_ih)
    rows: List[Any] = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        new, saved = step(given[t], w_hh, b_hh, states)
        if sizes is not None and sizes[t] < x.shape[1]:
            runs = (torch.arange(x.shape[1], device=x.device) < sizes[t]).unsqueeze(-1)
            new = tuple(torch.where(runs, a, b) for a, b in zip(new, states))
            rows[t] = (torch.where(runs, new[0], torch.zeros_like(new[0])), saved)
        else:
            rows[t] = (new[0], saved)
        states = new
    saved_rows = tuple(torch.stack(column) for column in zip(*(saved for _, saved in rows)))
    return torch.stack([y for y, _ in rows]), states, saved_rows


def _sizes(batch_sizes: Tensor, tokens: int, batch: int) -> List[int]:
    """``batch_sizes`` as a list; of a tensor without content, one that has its length and its sum."""
    if batch_sizes.device.type != "meta":
        return batch_sizes.tolist()
    rest = tokens - batch_sizes.numel()  # each step has one sequence at least, the first ones as many as there are
    sizes = []
    for _ in range(batch_sizes.numel()):
        sizes.append(1 + min(rest, batch - 1))
        rest -= sizes[-1] - 1
    return sizes


def _padded(data: Tensor, sizes: List[int]) -> Tensor:
    """[tokens, size] of a PackedSequence as [time, batch, size]."""
    parts = data.split(sizes)
    return torch.stack([torch.nn.functional.pad(part, (0, 0, 0, sizes[0] - part.shape[0])) for part in parts])


def _network(
    step: Step, count: int, input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], network: Network
) -> Tuple[Tensor, ...]:
    """(results, each state of all layers, what is saved of all layers stacked)."""
    sizes = None
    if network.batch_sizes is not None and network.batch_sizes.numel() > 0:
        sizes = _sizes(network.batch_sizes, input.shape[0], hx[0].shape[1])
    x = _padded(input, sizes) if sizes is not None else input.transpose(0, 1) if network.batch_first else input
    each, directions = 4 if network.has_biases else 2, 2 if network.bidirectional else 1
    last: List[States] = []
    saved: List[Tuple[Tensor, ...]] = []
    for layer in range(network.num_layers):
        parts = []
        for direction in range(directions):
            i = layer * directions + direction
            weights = params[i * each : (i + 1) * each]
            y, states, rows = _layer(step, x, weights, tuple(h[i] for h in hx), sizes, direction == 1)
            parts.append(y)
            last.append(states)
            saved.append(rows)
        x = torch.cat(parts, -1)
    if sizes is not None:
        x = torch.cat([x[t, :size] for t, size in enumerate(sizes)])
    elif network.batch_first:
        x = x.transpose(0, 1).contiguous()
    ends = tuple(torch.stack([states[k] for states in last]) for k in range(count))
    return (x, *ends, *(torch.stack(column) for column in zip(*saved)))


def _lstm_npu(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *network: Any, **more: Any) -> Tuple[Tensor, ...]:
    """A whole LSTM, as torch.nn.LSTM computes it.

    ``input``: [time, batch, size], [batch, time, size] with ``batch_first``, or the data [tokens, size] of a PackedSequence
    with its ``batch_sizes`` int64 [time]; ``hx``: (h, c), [layers * directions, batch, hidden] each; ``params``: torch's
    weights w_ih, w_hh and, with ``has_biases``, b_ih, b_hh of each layer and direction. Returns (results, last h, last c, and
    for the gradient i, j, f, o, the states h and c, and tanh(c), [layers * directions, time, batch, hidden] each). Has a
    gradient. Raises NotImplementedError for dropout between layers.
    """
    settings = Network(*network, **more)
    settings.check("_lstm_npu")
    return _network(_lstm_step, 2, input, hx, params, settings)


def _gru_npu(input: Tensor, hx: Tensor, params: Sequence[Tensor], *network: Any, **more: Any) -> Tuple[Tensor, ...]:
    """A whole GRU, as torch.nn.GRU computes it; arguments as of :func:`_lstm_npu`, with one state ``hx``.

    Returns (results, last h, and for the gradient r, z, the new content, its part of the state before the gate r, and the states,
    [layers * directions, time, batch, hidden] each). Has a gradient. Raises NotImplementedError for dropout between layers.
    """
    settings = Network(*network, **more)
    settings.check("_gru_npu")
    return _network(_gru_step, 1, input, (hx,), params, settings)


def _lstm_npu_backward(
    grad_y: Tensor,
    grad_hy: Tensor,
    grad_cy: Tensor,
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    *saved_and_network: Any,
    **more: Any,
) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
    """Gradients of :func:`_lstm_npu` for input, (h, c) and params. What it saved is not needed: it is found again."""
    network = Network(*saved_and_network[7:], **more)

    def forward(x: Tensor, h0: Tensor, c0: Tensor, *weights: Tensor) -> Tuple[Tensor, ...]:
        return _network(_lstm_step, 2, x, (h0, c0), weights, network)

    for_input, for_h, for_c, *for_params = found(forward, (input, *hx, *params), (grad_y, grad_hy, grad_cy))
    return for_input, [for_h, for_c], for_params


def _gru_npu_backward(
    grad_y: Tensor, grad_h: Tensor, input: Tensor, hx: Tensor, params: Sequence[Tensor], *saved_and_network: Any, **more: Any
) -> Tuple[Tensor, Tensor, List[Tensor]]:
    """Gradients of :func:`_gru_npu` for input, hx and params. What it saved is not needed: it is found again."""
    network = Network(*saved_and_network[5:], **more)

    def forward(x: Tensor, h0: Tensor, *weights: Tensor) -> Tuple[Tensor, ...]:
        return _network(_gru_step, 1, x, (h0,), weights, network)

    for_input, for_h, *for_params = found(forward, (input, hx, *params), (grad_y, grad_h))
    return for_input, for_h, for_params
