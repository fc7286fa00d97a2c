"""Recurrent layers: one layer, one direction, time first."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported


def _one_layer(name: str, num_layers: Any, dropout: Any, bidirectional: Any) -> None:
    unsupported(name, num_layers=None if num_layers == 1 else num_layers, dropout=dropout or None,
                bidirectional=bidirectional or None)


def _running(step: Any, lengths: Any, like: Any) -> Any:
    """[batch, 1]: which sequences have this step. ``lengths``: one of each, or [time, batch, hidden], 1 at the steps it has;
    fewer numbers say nothing."""
    if lengths is None or lengths.numel() < like.shape[1]:
        return None
    return (lengths[step, :, :1] != 0 if lengths.dim() == 3 else step < lengths.reshape(-1, 1)).to(like.dtype)


def _kept(new: Any, old: Any, running: Any) -> Any:
    return new if running is None else torch.where(running.bool(), new, old)


def _stacked(rows: Any, reverse: Any) -> Tuple[Tensor, ...]:
    """The values of each step, [time, batch, size] each."""
    return tuple(torch.stack(column[::-1] if reverse else column) for column in (list(column) for column in zip(*rows)))


def npu_lstm(input: Tensor, weight: Tensor, bias: Tensor, seq_mask: Tensor, h: Tensor, c: Tensor, has_biases: bool,
             num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool, flag_seq: bool,
             direction: bool) -> Tuple[Tensor, ...]:
    """A layer of LSTM over ``input`` [time, batch, size], [batch, time, size] with ``batch_first``.

    ``weight``: [size + hidden, 4 * hidden], for the input and the state, with columns for the gates i, f, j, o as
    torch.nn.LSTM has them, j being the new content; ``bias``: [4 * hidden], not used unless ``has_biases``;
    ``h`` and ``c``: [1, batch, hidden], the states before.
    ``seq_mask``: int32 [batch], the lengths of the sequences, or floating point [time, batch, hidden], 1 at the steps that they
    have, used with ``flag_seq``; a sequence that has ended keeps its state and has the result 0. Fewer numbers than sequences say
    nothing. ``direction``: from the last step to the first. Returns (results, states h, states c, i, j, f, o, tanh(c)), [time,
    batch, hidden] each; the results have the batch first with ``batch_first``. Raises NotImplementedError for other than one
    layer, ``dropout`` and ``bidirectional``.
    """
    _one_layer("npu_lstm", num_layers, dropout, bidirectional)
    x = input.transpose(0, 1) if batch_first else input
    size, state, cell, rows = x.shape[-1], h[0], c[0], []
    given = torch.matmul(x, weight[:size])
    given = given + bias if has_biases else given
    steps = range(x.shape[0])
    for step in reversed(steps) if direction else steps:
        i, f, j, o = (given[step] + torch.matmul(state, weight[size:])).chunk(4, -1)
        i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f), torch.sigmoid(o)
        running = _running(step, seq_mask if flag_seq else None, x)
        cell = _kept(f * cell + i * j, cell, running)
        tanh = torch.tanh(cell)
        state = _kept(o * tanh, state, running)
        rows.append((state if running is None else state * running, state, cell, i, j, f, o, tanh))
    y, *others = _stacked(rows, direction)
    return (y.transpose(0, 1).contiguous() if batch_first else y, *others)


def npu_lstm_data(input: Tensor, batch_sizes: Tensor, weight: Tensor, bias: Tensor, seq_mask: Tensor, h: Tensor, c: Tensor,
                  has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
                  flag_seq: bool, direction: bool) -> Tuple[Tensor, ...]:
    """:func:`npu_lstm` of sequences that are padded to the longest, the longest first: ``batch_sizes`` int64 [time] are those
    that have each step, as in a PackedSequence. ``seq_mask`` and ``flag_seq`` say the same and are not needed."""
    rows = torch.arange(input.shape[0 if batch_first else 1], device=input.device).unsqueeze(1)
    lengths = (batch_sizes.to(input.device) > rows).sum(1).int()
    return npu_lstm(input, weight, bias, lengths, h, c, has_biases, num_layers, dropout, train, bidirectional, batch_first, True,
                    direction)


def npu_lstm_cell(input: Tensor, w_ih: Tensor, w_hh: Tensor, h: Tensor, c: Tensor, b_ih: Optional[Tensor] = None,
                  b_hh: Optional[Tensor] = None
                  ) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A step of LSTM: ``c' = f * c + i * j`` and ``h' = o * tanh(c')``.

    ``input``: [batch, size]; ``w_ih``: [size, 4 * hidden] and ``w_hh``: [hidden, 4 * hidden], those of torch.nn.LSTMCell
    transposed, with columns for the gates i, f, j, o, j being the new content; ``h`` and ``c``: [batch, hidden], the states
    before; biases: [4 * hidden]. Returns (h', h', c', i, j, f, o, tanh(c')): the second and third [batch, hidden], the next
    step's states, the others [1, batch, hidden]. Has a gradient. All are
    floating point.
    """
    gates = torch.matmul(input, w_ih) + torch.matmul(h, w_hh)
    gates = gates if b_ih is None else gates + b_ih
    gates = gates if b_hh is None else gates + b_hh
    i, f, j, o = (gate.unsqueeze(0) for gate in gates.chunk(4, -1))
    i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f), torch.sigmoid(o)
    cell = f * c + i * j
    tanh = torch.tanh(cell)
    state = o * tanh
    return state, state[0].clone(), cell[0], i, j, f, o, tanh


def npu_gru(input: Tensor, hx: Tensor, weight_input: Tensor, weight_hidden: Tensor, bias_input: Tensor, bias_hidden: Tensor,
            seq_length: Tensor, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
            batch_first: bool) -> Tuple[Tensor, ...]:
    """A layer of GRU over ``input`` [time, batch, size], [batch, time, size] with ``batch_first``.

    ``weight_input``: [size, 3 * hidden] and ``weight_hidden``: [hidden, 3 * hidden], with columns for the gates r, z and the new
    content; biases [3 * hidden], not used unless ``has_biases``; ``hx``: [1, batch, hidden], the state before; ``seq_length``:
    int32 [batch], the lengths of the sequences: one that has ended keeps its state and has the result 0; fewer numbers say
    nothing. Returns (results, states, z, r, new content, its part of the state before the gate r), [time, batch, hidden] each;
    the results have the batch first with ``batch_first``. Raises NotImplementedError for other than one layer, ``dropout`` and
    ``bidirectional``.
    """
    _one_layer("npu_gru", num_layers, dropout, bidirectional)
    x = input.transpose(0, 1) if batch_first else input
    state, rows = hx[0], []
    given = torch.matmul(x, weight_input)
    given = given + bias_input if has_biases else given
    for step in range(x.shape[0]):
        own = torch.matmul(state, weight_hidden)
        own = own + bias_hidden if has_biases else own
        (r, z, new), (own_r, own_z, hidden_new) = given[step].chunk(3, -1), own.chunk(3, -1)
        reset, update = torch.sigmoid(r + own_r), torch.sigmoid(z + own_z)
        content = torch.tanh(new + reset * hidden_new)
        running = _running(step, seq_length, x)
        state = _kept((1 - update) * content + update * state, state, running)
        rows.append((state if running is None else state * running, state, update, reset, content, hidden_new))
    y, *others = _stacked(rows, False)
    return (y.transpose(0, 1).contiguous() if batch_first else y, *others)
