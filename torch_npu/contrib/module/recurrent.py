"""A bidirectional LSTM made of two."""

import torch
from torch import nn

__all__ = ["BiLSTM"]


class BiLSTM(nn.Module):
    """Two LSTMs of one layer, one over the sequence, one over its reverse: [T, B, input_size] gives [T, B, 2 * hidden_size]."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw_rnn = nn.LSTM(input_size, hidden_size)
        self.bw_rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(inputs.flip(0))
        return torch.cat([forward, backward.flip(0)], 2)
