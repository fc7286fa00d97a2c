"""The recurrent layers against torch.nn, in float64 on the CPU; cases.py compares the NPU with it."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import torch_npu

BATCH, SIZE, HIDDEN, TIME = 3, 4, 5, 6


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def gradients_of(results, leaves):
    """With fixed gradients, as a list."""
    torch.manual_seed(8)
    grads = [torch.randn(r.shape, dtype=r.dtype) for r in results]
    return grads, torch.autograd.grad(results, leaves, grads, allow_unused=True)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("layers,both,biases,batch_first", [(1, False, True, True), (2, True, True, False), (2, False, False, False)])
def test_whole_network(kind, packed, layers, both, biases, batch_first):
    torch.manual_seed(0)
    cell = torch.nn.LSTM if kind == "lstm" else torch.nn.GRU
    network = cell(SIZE, HIDDEN, layers, biases, batch_first, 0.0, both).double()
    params = [p for weights in network.all_weights for p in weights]
    states = [randn(layers * (1 + both), BATCH, HIDDEN).requires_grad_() for _ in range(2 if kind == "lstm" else 1)]
    x = randn(BATCH, TIME, SIZE) if batch_first else randn(TIME, BATCH, SIZE)
    options = {"batch_first": batch_first}
    if packed:
        sequences = pack_sequence([randn(n, SIZE) for n in (6, 4, 1)])
        x, options = sequences.data, {"batch_sizes": sequences.batch_sizes}
    x.requires_grad_()
    expected, ends = network(PackedSequence(x, options["batch_sizes"]) if packed else x, tuple(states) if kind == "lstm" else states[0])
    wanted = [expected.data if packed else expected, *(ends if kind == "lstm" else [ends])]
    given = states if kind == "lstm" else states[0]
    settings = (biases, layers, 0.0, True, both)
    results = getattr(torch_npu, f"_{kind}_npu")(x, given, params, *settings, **options)
    count = len(wanted)
    for ours, reference in zip(results[:count], wanted):
        torch.testing.assert_close(ours, reference)
    leaves = [x, *states, *params]
    grads, reference = gradients_of(wanted, leaves)
    for ours, theirs in zip(gradients_of(results[:count], leaves)[1], reference):
        torch.testing.assert_close(ours, theirs)
    saved = [r.detach() for r in results[count:]]
    plain = [s.detach() for s in states]
    found = getattr(torch_npu, f"_{kind}_npu_backward")(
        *grads, x.detach(), plain if kind == "lstm" else plain[0], [p.detach() for p in params], *saved, *settings, **options)
    flat = [found[0], *(found[1] if kind == "lstm" else [found[1]]), *found[2]]
    for ours, theirs in zip(flat, reference):
        torch.testing.assert_close(ours, theirs)


def test_dropout_between_layers_is_refused():
    x, state = randn(TIME, BATCH, SIZE), randn(2, BATCH, HIDDEN)
    with pytest.raises(NotImplementedError, match="dropout"):
        torch_npu._gru_npu(x, state, [], False, 2, 0.5, True, False)


def test_cell():
    torch.manual_seed(1)
    cell = torch.nn.LSTMCell(SIZE, HIDDEN).double()
    x, h, c = randn(BATCH, SIZE).requires_grad_(), randn(BATCH, HIDDEN).requires_grad_(), randn(BATCH, HIDDEN).requires_grad_()
    leaves = [x, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh, h, c]
    state, content = cell(x, (h, c))
    weights = [cell.weight_ih.t(), cell.weight_hh.t()]
    results = torch_npu.npu_lstm_cell(x, *weights, h, c, cell.bias_ih, cell.bias_hh)
    assert [r.dim() for r in results] == [3, 2, 2, 3, 3, 3, 3, 3] and all(r.shape[-2:] == (BATCH, HIDDEN) for r in results)
    torch.testing.assert_close(results[0][0], state)
    torch.testing.assert_close(results[2], content)
    grad_y, grad_h, grad_c = (randn(*r.shape) for r in results[:3])
    expected = torch.autograd.grad([state, content], leaves, [grad_y[0] + grad_h, grad_c])
    with_autograd = torch.autograd.grad(results[:3], leaves, [grad_y, grad_h, grad_c])
    plain = [t.detach() for t in (x, *weights, h, c)]
    found = torch_npu.npu_lstm_cell_backward(grad_y, grad_h, grad_c, *plain, *(r.detach() for r in results))
    for k, (ours, other, reference) in enumerate(zip(found, with_autograd, expected)):
        torch.testing.assert_close(other, reference)
        torch.testing.assert_close(ours, reference.t() if k in (1, 2) else reference)
    torch.testing.assert_close(torch_npu.npu_lstm_cell_backward(None, None, None, *plain, *(r.detach() for r in results))[0], torch.zeros_like(x))


def test_layer_of_padded_sequences():
    torch.manual_seed(2)
    sequences = pack_sequence([randn(n, SIZE) for n in (6, 4, 1)])
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(sequences)
    weight, bias, h, c = randn(SIZE + HIDDEN, 4 * HIDDEN), randn(4 * HIDDEN), randn(1, BATCH, HIDDEN), randn(1, BATCH, HIDDEN)
    for direction in (False, True):
        common = (True, 1, 0.0, True, False, False, True, direction)
        leaves = [t.requires_grad_() for t in (padded, weight, bias, h, c)]
        results = torch_npu.npu_lstm_data(padded, sequences.batch_sizes, weight, bias, torch.empty(0), h, c, *common)
        expected = torch_npu.npu_lstm(padded, weight, bias, lengths.int(), h, c, *common)
        for ours, reference in zip(results, expected):
            torch.testing.assert_close(ours, reference)
        grads, reference = gradients_of(expected[:3], leaves)
        found = torch_npu.npu_lstm_data_backward(
            *grads, padded.detach(), sequences.batch_sizes, *(t.detach() for t in (weight, bias, h, c, *results)), direction)
        for ours, theirs in zip(found, reference):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_lengths_of_a_layer_are_numbers_or_a_mask_and_one_number_says_nothing(device):
    torch.manual_seed(4)
    tensors = [t.float().to(device) for t in (randn(TIME, BATCH, SIZE), randn(SIZE + HIDDEN, 4 * HIDDEN), randn(4 * HIDDEN),
                                              randn(1, BATCH, HIDDEN), randn(1, BATCH, HIDDEN))]
    lengths = torch.arange(1, BATCH + 1, dtype=torch.int32).to(device)
    mask = (torch.arange(TIME).to(device).unsqueeze(1) < lengths).half().unsqueeze(-1).repeat(1, 1, HIDDEN)

    def lstm(lengths):
        return torch_npu.npu_lstm(*tensors[:3], lengths, *tensors[3:], True, 1, 0.0, True, False, False, True, False)

    def gru(lengths):
        x, weight, bias, h, _ = tensors
        weights = [w[:, :3 * HIDDEN].contiguous() for w in (weight[:SIZE], weight[SIZE:])]
        return torch_npu.npu_gru(x, h, *weights, *[bias[:3 * HIDDEN]] * 2, lengths, True, 1, 0.0, True, False, False)

    for ours, theirs in zip(lstm(mask), lstm(lengths)):
        assert torch.equal(ours, theirs)
    for layer in (lstm, gru):
        whole = layer(torch.full((BATCH,), TIME, dtype=torch.int32, device=device))
        assert not torch.equal(layer(lengths)[0], whole[0])
        for ours, theirs in zip(layer(lengths[:1]), whole):
            assert torch.equal(ours, theirs)


def test_gradients_of_one_layer():
    torch.manual_seed(3)
    x, weight, bias, h, c = (t.requires_grad_() for t in (
        randn(TIME, BATCH, SIZE), randn(SIZE + HIDDEN, 4 * HIDDEN), randn(4 * HIDDEN), randn(1, BATCH, HIDDEN), randn(1, BATCH, HIDDEN)))
    results = torch_npu.npu_lstm(x, weight, bias, torch.empty(0), h, c, True, 1, 0.0, True, False, False, False, False)
    grads, reference = gradients_of(results[:3], [x, weight, bias, h, c])
    found = torch_npu.npu_lstm_backward(*grads, *(t.detach() for t in (x, weight, bias, h, c, *results)))
    for ours, theirs in zip(found, reference):
        torch.testing.assert_close(ours, theirs)
    w, u, b, d = (t.requires_grad_() for t in (randn(SIZE, 3 * HIDDEN), randn(HIDDEN, 3 * HIDDEN), randn(3 * HIDDEN), randn(3 * HIDDEN)))
    lengths = torch.tensor([6, 2, 4], dtype=torch.int32)
    results = torch_npu.npu_gru(x, h, w, u, b, d, lengths, True, 1, 0.0, True, False, False)
    grads, reference = gradients_of(results[:2], [w, u, x, b, d, h])
    found = torch_npu.npu_gru_backward(*grads, *(t.detach() for t in (x, w, u, b, d)), lengths, *(t.detach() for t in (h, *results)))
    for ours, theirs in zip(found, reference):
        torch.testing.assert_close(ours, theirs)
