"""A text classifier: embedding, LSTM, linear head on the last state."""
import torch
from torch import nn


class LSTMClassifier(nn.Module):
    """Tokens [N, T] to the logits of `classes`."""

    def __init__(self, vocabulary: int, classes: int = 2, width: int = 64, hidden: int = 64, layers: int = 1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        _, (last, _) = self.lstm(self.embedding(tokens))
        return self.head(last[-1])
