"""softcann's kernels of recurrent networks against torch."""

import pytest
import torch
from nn_client import close


def test_lstm_cell(call):
    gates = [torch.randn(3, 20).requires_grad_() for _ in range(2)]
    cell = torch.randn(3, 5).requires_grad_()
    parts = (gates[0] + gates[1]).chunk(4, 1)
    new_cell = torch.sigmoid(parts[1]) * cell + torch.sigmoid(parts[0]) * torch.tanh(parts[2])
    hidden = torch.sigmoid(parts[3]) * torch.tanh(new_cell)
    hy, cy, storage = torch.empty(3, 5), torch.empty(3, 5), torch.empty(3, 20)
    call("aclnnThnnFusedLstmCell", gates[0].detach(), gates[1].detach(), cell.detach(), None, None, hy, cy, storage)
    close(hy, hidden)
    close(cy, new_cell)
    grad_h, grad_c = torch.randn(3, 5), torch.randn(3, 5)
    torch.autograd.backward([hidden, new_cell], [grad_h, grad_c])
    by_gates, by_cell = torch.empty(3, 20), torch.empty(3, 5)
    call("aclnnThnnFusedLstmCellBackward", grad_h, grad_c, cell.detach(), cy, storage, False, by_gates, by_cell, None)
    close(by_gates, gates[0].grad)
    close(by_cell, cell.grad)
    for wrong in (torch.empty(1, 1), torch.empty(60), torch.empty(3, 15)):
        with pytest.raises(RuntimeError, match="161002"):
            call("aclnnThnnFusedLstmCellBackward", grad_h, grad_c, cell.detach(), cy, wrong, False, by_gates, by_cell, None)


def kept(count, cells, rows, size):
    """What a recurrent operator keeps for its gradient: so many lists."""
    return [[torch.empty(*rows, size) for _ in range(cells)] for _ in range(count)]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False,
                                                                                         "bidirectional": True}])
def test_recurrent_network(call, kind, settings):
    module = getattr(torch.nn, kind)(6, 5, **settings)
    layers, ways = settings.get("num_layers", 1), 1 + settings.get("bidirectional", False)
    bias, first, both = settings.get("bias", True), settings.get("batch_first", False), settings.get("bidirectional", False)
    cells, rows = layers * ways, (3, 4) if first else (4, 3)
    x = torch.randn(*rows, 6, requires_grad=True)
    states = [torch.randn(cells, 3, 5, requires_grad=True) for _ in range(2 if kind == "LSTM" else 1)]
    expected, last = module(x, tuple(states) if kind == "LSTM" else states[0])
    last = last if kind == "LSTM" else (last,)
    params = [p.detach() for p in module._flat_weights]
    start = [s.detach() for s in states]
    output, finals = torch.empty_like(expected), [torch.empty_like(s) for s in start]
    lists = kept(7 if kind == "LSTM" else 5, cells, rows, 5)
    call("aclnn" + kind, x.detach(), params, start if kind == "LSTM" else start[0], None, bias, layers, 0.0, True, both, first,
         output, *finals, *lists)
    close(output, expected)
    for actual, wanted in zip(finals, last):
        close(actual, wanted)
    grads = [torch.randn_like(t) for t in (expected, *last)]
    torch.autograd.backward([expected, *last], grads)
    by_x, by_start, by_params = torch.empty_like(x), [torch.empty_like(s) for s in start], [torch.empty_like(p) for p in params]
    if kind == "LSTM":
        call("aclnnLstmBackward", x.detach(), start, params, *grads, *lists, None, bias, layers, 0.0, True, both, first, None,
             by_x, *by_start, by_params)
    else:
        call("aclnnGRUBackward", x.detach(), params, start[0], *grads, *lists, None, bias, layers, both, first, by_x, *by_start, by_params)
    close(by_x, x.grad)
    for actual, wanted in zip([*by_start, *by_params], [*(s.grad for s in states), *(p.grad for p in module._flat_weights)]):
        close(actual, wanted)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_networks_begin_with_zeros(call, kind):
    module, x = getattr(torch.nn, kind)(6, 5, bidirectional=True), torch.randn(4, 3, 6)
    expected, last = module(x)
    last = last if kind == "LSTM" else (last,)
    output, finals = torch.empty_like(expected), [torch.empty_like(s) for s in last]
    call("aclnn" + kind, x, [p.detach() for p in module._flat_weights], None, None, True, 1, 0.0, False, True, False, output, *finals,
         *([[]] * (7 if kind == "LSTM" else 5)))
    for actual, wanted in zip((output, *finals), (expected, *last)):
        close(actual, wanted)


def test_sequences_of_several_lengths(call):
    """batchSizes: how many of the sequences go on at each step; the rows are there for all of them."""
    module, lengths = torch.nn.LSTM(6, 5), [4, 2, 1]
    x = torch.randn(4, 3, 6)
    expected, last = module(torch.nn.utils.rnn.pack_padded_sequence(x, lengths))
    expected = torch.nn.utils.rnn.pad_packed_sequence(expected)[0]
    output, finals = torch.empty(4, 3, 5), [torch.empty(1, 3, 5) for _ in range(2)]
    params = [p.detach() for p in module._flat_weights]
    start = [torch.zeros(1, 3, 5) for _ in range(2)]
    call("aclnnLSTM", x.reshape(12, 6), params, start, torch.tensor([3, 2, 1, 1]), True, 1, 0.0, True, False, False, output, *finals,
         *kept(7, 1, (4, 3), 5))
    close(output, expected)
    for actual, wanted in zip(finals, last):
        close(actual, wanted)


def test_dropout_between_layers_is_refused(call):
    params = [p.detach() for p in torch.nn.GRU(6, 5, 2)._flat_weights]
    with pytest.raises(RuntimeError, match="dropout between layers"):
        call("aclnnGRU", torch.randn(4, 3, 6), params, torch.zeros(2, 3, 5), None, True, 2, 0.5, True, False, False, torch.empty(4, 3, 5),
             torch.empty(2, 3, 5), *kept(5, 2, (4, 3), 5))
