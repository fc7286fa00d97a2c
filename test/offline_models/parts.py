"""What models of several families are built of."""
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, kernel, stride=1, groups=1, act=True):
    """Convolution that keeps the size (but for the stride), batch norm, activation: ReLU, another module, or None."""
    pad = tuple(size // 2 for size in kernel) if isinstance(kernel, tuple) else kernel // 2
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act is True else [] if act is None else [act]))



class Mlp(nn.Module):
    def __init__(self, width, inside, act=F.gelu):
        super().__init__()
        self.up, self.down, self.act = nn.Linear(width, inside), nn.Linear(inside, width), act

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Attention(nn.Module):
    """Multi-head attention of x [N, T, width] with itself, or with `memory` [N, S, width]; the mask is added to the scores."""

    def __init__(self, width, heads, bias=True):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias) for _ in range(4))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None, mask=None, causal=False):
        memory = x if memory is None else memory
        y = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory)), mask, is_causal=causal)
        return self.out(y.transpose(1, 2).contiguous().view(x.shape))   # a reshape may be a view in eager and none when it is exported
