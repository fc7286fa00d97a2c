"""Networks for points, graphs, tables and rays."""
import torch
from torch import nn
from torch.nn import functional as F


class PointNet(nn.Module):
    """Points in any order: turned by a matrix of their own, a maximum over all of them."""

    def __init__(self):
        super().__init__()
        layers = lambda *sizes: nn.Sequential(*(layer for inputs, outputs in zip(sizes, sizes[1:])
                                                for layer in (nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU())))
        self.turn, self.matrix, self.body = layers(3, 8, 16), nn.Linear(16, 9), layers(3, 16, 32)
        self.head = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, points):
        matrix = self.matrix(self.turn(points).amax(-1)).view(-1, 3, 3) + torch.eye(3, device=points.device)
        turned = torch.bmm(points.transpose(1, 2), matrix).transpose(1, 2)
        return self.head(self.body(turned).max(-1)[0]).log_softmax(-1)


def pointnet():
    return PointNet(), (torch.randn(2, 3, 20),)


class EdgeConv(nn.Module):
    """DGCNN: each point with its nearest ones, found as the model runs."""

    def __init__(self, near=4):
        super().__init__()
        self.near, self.body, self.head = near, nn.Sequential(nn.Conv2d(6, 12, 1), nn.LeakyReLU(0.2)), nn.Linear(12, 4)

    def forward(self, points):
        apart = (points.unsqueeze(2) - points.unsqueeze(1)).square().sum(-1)
        index = apart.topk(self.near, -1, largest=False)[1]
        around = torch.stack([one[places] for one, places in zip(points, index)])
        centre = points.unsqueeze(2).expand_as(around)
        y = self.body(torch.cat([centre, around - centre], -1).permute(0, 3, 1, 2))
        return self.head(y.amax(-1).mean(-1))


def edge_conv():
    return EdgeConv(), (torch.randn(2, 10, 3),)


class Dlrm(nn.Module):
    """Numbers and categories, and the products of each pair of them."""

    def __init__(self, width=8):
        super().__init__()
        self.below, self.tables = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU()), nn.ModuleList(nn.Embedding(20, width) for _ in range(3))
        rows, columns = torch.tril_indices(4, 4, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.above = nn.Sequential(nn.Linear(width + 6, 12), nn.ReLU(), nn.Linear(12, 1), nn.Sigmoid())

    def forward(self, numbers, kinds):
        x = self.below(numbers)
        all_of_them = torch.stack([x, *(table(kinds[:, index]) for index, table in enumerate(self.tables))], 1)
        products = torch.bmm(all_of_them, all_of_them.transpose(1, 2))[:, self.rows, self.columns]
        return self.above(torch.cat([x, products], 1))


def dlrm():
    return Dlrm(), (torch.randn(3, 5), torch.randint(0, 20, (3, 3)))


class WideAndDeep(nn.Module):
    """A factorisation machine beside a deep network (DeepFM)."""

    def __init__(self):
        super().__init__()
        self.weights, self.vectors = nn.Embedding(40, 1), nn.Embedding(40, 6)
        self.deep = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 1))

    def forward(self, ids):
        vectors = self.vectors(ids)
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.weights(ids).sum(1) + pairs + self.deep(vectors.flatten(1)))


def deep_fm():
    return WideAndDeep(), (torch.randint(0, 40, (3, 5)),)


class GraphConv(nn.Module):
    """Two layers over edges [2, E]: messages are added where they arrive, and weighted by the degrees of both ends."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 8, False), nn.Linear(8, 3, False)])

    def forward(self, x, edges):
        start, end = edges[0], edges[1]
        ones = torch.ones(edges.shape[1], device=x.device)
        scale = torch.ones(x.shape[0], device=x.device).scatter_add(0, end, ones).rsqrt()
        for index, layer in enumerate(self.layers):
            y = layer(x)
            messages = y[start] * (scale[start] * scale[end]).unsqueeze(-1)
            y = y * scale.square().unsqueeze(-1) + torch.zeros_like(y).scatter_add(0, end.unsqueeze(-1).expand_as(messages), messages)
            x = y if index else F.relu(y)
        return x.log_softmax(-1)


def graph_convolution():
    return GraphConv(), (torch.randn(7, 6), torch.randint(0, 7, (2, 15)))


class GraphAttention(nn.Module):
    """GAT with a matrix of neighbours."""

    def __init__(self, heads=2, width=6):
        super().__init__()
        self.heads, self.into = heads, nn.Linear(5, heads * width, False)
        self.left, self.right = nn.Parameter(torch.randn(heads, width)), nn.Parameter(torch.randn(heads, width))

    def forward(self, x, near):
        y = self.into(x).view(x.shape[0], self.heads, -1)
        scores = F.leaky_relu((y * self.left).sum(-1)[:, None] + (y * self.right).sum(-1)[None], 0.2)
        share = scores.masked_fill(~near.unsqueeze(-1), float("-inf")).softmax(1)
        return F.elu(torch.einsum("ijh,jhw->ihw", share, y).flatten(1))


def graph_attention():
    return GraphAttention(), (torch.randn(6, 5), torch.rand(6, 6).gt(0.5) | torch.eye(6, dtype=torch.bool))


class Radiance(nn.Module):
    """NeRF: places as sinusoids to colour and density, gathered along a ray."""

    def __init__(self):
        super().__init__()
        self.register_buffer("powers", 2.0 ** torch.arange(4) * torch.pi)
        self.body = nn.Sequential(nn.Linear(27, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, origin, direction):
        depth = torch.linspace(0.5, 2.5, 8, device=origin.device)
        points = origin[:, None] + direction[:, None] * depth[None, :, None]
        angles = (points[..., None] * self.powers).flatten(2)
        y = self.body(torch.cat([points, angles.sin(), angles.cos()], -1))
        alpha = 1 - torch.exp(-F.softplus(y[..., 3]) * 0.3)
        left = torch.exp(F.pad(torch.cumsum(torch.log(1 - alpha + 1e-10), -1), (1, -1)))
        weights = alpha * left
        return (weights[..., None] * torch.sigmoid(y[..., :3])).sum(1), (weights * depth).sum(1)


def nerf():
    return Radiance(), (torch.randn(5, 3), F.normalize(torch.randn(5, 3), dim=-1))


class Autoencoder(nn.Module):
    """A denoising autoencoder with the error by which anomalies are found."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 8), nn.Softplus(), nn.Linear(8, 3), nn.Softsign(), nn.Linear(3, 8), nn.Mish(), nn.Linear(8, 12))

    def forward(self, x):
        y = self.body(x)
        return y, ((x - y) ** 2).mean(-1), torch.linalg.vector_norm(x - y, dim=-1)


def autoencoder():
    return Autoencoder(), (torch.randn(4, 12),)


class Policy(nn.Module):
    """A duelling network of reinforcement learning, and the action it takes."""

    def __init__(self):
        super().__init__()
        self.body, self.value, self.gain = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16)), nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, x):
        y = self.body(x)
        gain = self.gain(y)
        q = self.value(y) + gain - gain.mean(-1, keepdim=True)
        return q, q.argmax(-1), torch.where(q > q.sort(-1)[0][:, 1:2], q, torch.zeros_like(q)).logsumexp(-1)


def duelling():
    return Policy(), (torch.randn(3, 6),)


class Siamese(nn.Module):
    """One network for both inputs, compared by their angle and their distance."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, left, right):
        left, right = self.body(left), self.body(right)
        return F.cosine_similarity(left, right), F.pairwise_distance(left, right)


def siamese():
    return Siamese(), (torch.randn(4, 8), torch.randn(4, 8))


MODELS = (pointnet, edge_conv, dlrm, deep_fm, graph_convolution, graph_attention, nerf, autoencoder, duelling, siamese)
