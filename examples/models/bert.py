"""BERT's encoder (Devlin et al., 2018), of base size by default."""
import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (linear(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for linear in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Word indices [N, L] int64 and a mask [N, L] of 0 and 1, to [N, L, width]."""

    def __init__(self, words: int = 30522, width: int = 768, layers: int = 12, heads: int = 12, longest: int = 512):
        super().__init__()
        self.words, self.positions, self.types = nn.Embedding(words, width), nn.Embedding(longest, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(words.size(1), device=words.device)
        x = self.norm(self.words(words) + self.positions(positions) + self.types(torch.zeros_like(words)))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x
