"""Recurrent networks of several layers and directions, with torch's weights: those of torch.nn.LSTM and torch.nn.GRU."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide

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

    def masked(value: Tensor, runs: Tensor) -> Tensor:
        return torch.where(runs, value, torch.zeros_like(value))

    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    given = torch.nn.functional.linear(x, w_ih, b_ih)
    rows: List[Any] = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        new, saved = step(given[t], w_hh, b_hh, states)
        if sizes is not None and sizes[t] < x.shape[1]:
            runs = (torch.arange(x.shape[1], device=x.device) < sizes[t]).unsqueeze(-1)
            new = tuple(torch.where(runs, a, b) for a, b in zip(new, states))
            rows[t] = (masked(new[0], runs), tuple(masked(a, runs) for a in saved))
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
    for the gradient i, j, f, o, the states h and c, and tanh(c), [layers * directions, time, batch, hidden] each, 0 where a
    sequence has ended). Has a
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


# Gradients, by what the forward kept ------------------------------------------------------------------------------------------


def _lstm_step_backward(
    dy: Tensor, by: States, kept: Sequence[Tensor], before: States, w_hh: Tensor
) -> Tuple[Tensor, Tensor, States]:
    """(gradient of the gates' parts from the input, and from the state, gradients of the states before) of a step."""
    i, j, f, o, _, _, tanh = kept
    dh = dy + by[0]
    dc = by[1] + dh * o * (1 - tanh.square())
    sums = torch.cat(
        [dc * j * i * (1 - i), dc * before[1] * f * (1 - f), dc * i * (1 - j.square()), dh * tanh * o * (1 - o)], -1
    )
    return sums, sums, (sums @ w_hh, dc * f)


def _gru_step_backward(
    dy: Tensor, by: States, kept: Sequence[Tensor], before: States, w_hh: Tensor
) -> Tuple[Tensor, Tensor, States]:
    """See :func:`_lstm_step_backward`."""
    reset, update, new, hidden_new, _ = kept
    dh = dy + by[0]
    d_new = dh * (1 - update) * (1 - new.square())
    d_update = dh * (before[0] - new) * update * (1 - update)
    d_reset = d_new * hidden_new * reset * (1 - reset)
    hidden = torch.cat([d_reset, d_update, d_new * reset], -1)
    return torch.cat([d_reset, d_update, d_new], -1), hidden, (dh * update + hidden @ w_hh,)


class _Kind(NamedTuple):
    step: Callable[..., Tuple[Tensor, Tensor, States]]
    states: Tuple[int, ...]  # which of what is kept are the states behind a step: the results first


_LSTM = _Kind(_lstm_step_backward, (4, 5))
_GRU = _Kind(_gru_step_backward, (4,))


def _layer_backward(
    kind: _Kind,
    x: Tensor,
    weights: Sequence[Tensor],
    first: States,
    kept: Sequence[Tensor],
    runs: Sequence[Tensor],
    backward: bool,
    dy: Tensor,
    by_last: States,
) -> Tuple[Tensor, States, List[Tensor]]:
    """Gradients of :func:`_layer` for x, the first states and the weights. ``runs``: which sequences have each step."""
    steps = list(reversed(range(x.shape[0])) if backward else range(x.shape[0]))
    before, states = {}, first
    for t in steps:
        before[t] = states
        states = tuple(torch.where(runs[t], kept[k][t], s) for k, s in zip(kind.states, states))
    by, rows = by_last, {}
    for t in reversed(steps):
        from_input, from_state, new = kind.step(dy[t], by, [k[t] for k in kept], before[t], weights[1])
        rows[t] = torch.where(runs[t], from_input, 0.0), torch.where(runs[t], from_state, 0.0)
        by = tuple(torch.where(runs[t], a, b) for a, b in zip(new, by))
    from_input, from_state = (torch.stack([rows[t][k] for t in range(x.shape[0])]) for k in range(2))
    h = torch.stack([before[t][0] for t in range(x.shape[0])])
    found = [torch.einsum("tbg,tbi->gi", from_input, x), torch.einsum("tbg,tbh->gh", from_state, h)]
    if len(weights) == 4:
        found += [from_input.sum((0, 1)), from_state.sum((0, 1))]
    return from_input @ weights[0], by, found


def _network_backward(
    kind: _Kind,
    grads: Sequence[Tensor],
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    kept: Sequence[Tensor],
    network: Network,
) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
    """Gradients for input, states and params. ``grads``: of the results and of each last state."""
    sizes = None
    if network.batch_sizes is not None and network.batch_sizes.numel() > 0:
        sizes = _sizes(network.batch_sizes, input.shape[0], hx[0].shape[1])

    def by_time(t: Tensor) -> Tensor:
        return _padded(wide(t), sizes) if sizes is not None else wide(t).transpose(0, 1) if network.batch_first else wide(t)

    x, dy, kept = by_time(input), by_time(grads[0]), [wide(k) for k in kept]
    count = torch.arange(x.shape[1], device=x.device).unsqueeze(-1)
    runs = [count < (x.shape[1] if sizes is None else sizes[t]) for t in range(x.shape[0])]
    each, directions = 4 if network.has_biases else 2, 2 if network.bidirectional else 1
    by_states: List[Any] = [None] * len(kept[0])
    by_params: List[Any] = [None] * len(params)
    for layer in reversed(range(network.num_layers)):
        lower = range((layer - 1) * directions, layer * directions)
        below = x if layer == 0 else torch.cat([kept[kind.states[0]][i] for i in lower], -1)
        dx = torch.zeros_like(below)
        for direction, part in enumerate(dy.chunk(directions, -1)):
            i = layer * directions + direction
            weights = [wide(w) for w in params[i * each : (i + 1) * each]]
            first, last = tuple(wide(h[i]) for h in hx), tuple(wide(g[i]) for g in grads[1:])
            saved = [k[i] for k in kept]
            of_x, by_states[i], found = _layer_backward(kind, below, weights, first, saved, runs, direction == 1, part, last)
            by_params[i * each : (i + 1) * each] = [g.to(w.dtype) for g, w in zip(found, params[i * each :])]
            dx = dx + of_x
        dy = dx
    if sizes is not None:
        dy = torch.cat([dy[t, :size] for t, size in enumerate(sizes)])
    elif network.batch_first:
        dy = dy.transpose(0, 1).contiguous()
    states = [torch.stack([by[k] for by in by_states]).to(h.dtype) for k, h in enumerate(hx)]
    return dy.to(input.dtype), states, by_params


def _lstm_npu_backward(
    grad_y: Tensor,
    grad_hy: Tensor,
    grad_cy: Tensor,
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    *kept_and_network: Any,
    **more: Any,
) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
    """Gradients of :func:`_lstm_npu` for input, (h, c) and params, by what it kept: i, j, f, o, h, c and tanh(c)."""
    network = Network(*kept_and_network[7:], **more)
    return _network_backward(_LSTM, (grad_y, grad_hy, grad_cy), input, hx, params, kept_and_network[:7], network)


def _gru_npu_backward(
    grad_y: Tensor, grad_h: Tensor, input: Tensor, hx: Tensor, params: Sequence[Tensor], *kept_and_network: Any, **more: Any
) -> Tuple[Tensor, Tensor, List[Tensor]]:
    """Gradients of :func:`_gru_npu` for input, hx and params, by what it kept: r, z, new content, the state's part of it, h."""
    network = Network(*kept_and_network[5:], **more)
    for_input, states, for_params = _network_backward(
        _GRU, (grad_y, grad_h), input, (hx,), params, kept_and_network[:5], network
    )
    return for_input, states[0], for_params
