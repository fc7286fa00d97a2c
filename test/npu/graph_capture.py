"""What the tests of graphs have in common."""
import torch
import torch.nn.functional as F
from torch import nn

import torch_npu  # noqa: F401

NPU = torch.device("npu")


def captured(function, **options):
    """(graph, what the function returned while it was captured)"""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        result = function()
    return graph, result


class Block(nn.Module):
    """A little of everything that a transformer has."""

    def __init__(self, width=16, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, None, self.dropout, is_causal=True).transpose(1, 2).flatten(2))
        return x + F.dropout(self.down(F.gelu(self.up(x))), self.dropout)
