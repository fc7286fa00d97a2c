"""Networks for text: encoders, decoders with and without a cache, mixtures of experts."""
import math

import torch
from parts import Attention, Mlp
from torch import nn
from torch.nn import functional as F


class PostNorm(nn.Module):
    """BERT's block: norms behind the sums."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), Mlp(width, 2 * width)
        self.first, self.second = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x, mask):
        x = self.first(x + self.attention(x, mask=mask))
        return self.second(x + self.mlp(x))


class Bert(nn.Module):
    """Tokens, their mask and segments (where `segments` > 0) to hidden states and, with a pooler, a vector of each text."""

    def __init__(self, segments=2, pooled=True, padding=None, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(60, width), nn.Embedding(20, width)
        self.kinds = nn.Embedding(segments, width) if segments else None
        self.norm, self.layers = nn.LayerNorm(width), nn.ModuleList(PostNorm(width, 4) for _ in range(2))
        self.pooler, self.padding = nn.Linear(width, width) if pooled else None, padding

    def positions(self, ids):
        if self.padding is None:
            return torch.arange(ids.shape[1], device=ids.device)
        kept = (ids != self.padding).int()   # RoBERTa counts from behind the padding's number, and only tokens
        return (torch.cumsum(kept, 1) * kept).long() + self.padding

    def forward(self, ids, mask, segments=None):
        x = self.words(ids) + self.places(self.positions(ids))
        x = self.norm(x if segments is None else x + self.kinds(segments))
        mask = (1.0 - mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.pooler is None else (x, torch.tanh(self.pooler(x[:, 0])))


def text(high=60, low=2):
    ids, mask = torch.randint(low, high, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return ids, mask


def bert_pooled():
    return Bert(), (*text(), torch.tensor([[0] * 4 + [1] * 5] * 2))


def distilbert():
    return Bert(0, False), text()


def roberta():
    ids, mask = text()
    return Bert(0, False, 1), (torch.where(mask == 0, 1, ids), mask)


class Causal(nn.Module):
    """GPT-2's block. With a cache it takes the keys and values [N, heads, S, d] of before, and gives those with the new ones."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Mlp(width, 4 * width, nn.GELU("tanh"))

    def attend(self, x, past):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        before = 0
        if past is not None:
            k, v, before = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2), past[0].shape[2]
        seen = torch.ones(length, before + length, dtype=torch.bool, device=x.device).tril(before)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)).masked_fill(~seen, torch.finfo(x.dtype).min)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)), (k, v)

    def forward(self, x, past=None):
        y, present = self.attend(self.first(x), past)
        x = x + y
        return x + self.mlp(self.second(x)), present


class Gpt2(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(60, width), nn.Embedding(32, width)
        self.layers, self.norm = nn.ModuleList(Causal(width, 4) for _ in range(2)), nn.LayerNorm(width)

    def forward(self, ids, *past):
        before = past[0].shape[2] if past else 0
        x = self.words(ids) + self.places(torch.arange(before, before + ids.shape[1], device=ids.device))
        presents = []
        for index, layer in enumerate(self.layers):
            x, present = layer(x, past[2 * index:2 * index + 2] or None)
            presents += present
        logits = self.norm(x) @ self.words.weight.t()
        return (logits, *presents) if past else logits


def gpt2():
    return Gpt2(), (text()[0],)


def gpt2_with_cache():
    return Gpt2(), (text()[0][:, :1], *(torch.randn(2, 4, 6, 8) for _ in range(4)))


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Relative(nn.Module):
    """T5's attention: no scale, and a bias by how far apart two tokens are, in buckets that grow with the distance."""

    def __init__(self, width, heads, both, biased=True):
        super().__init__()
        self.heads, self.both = heads, both
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, False) for _ in range(4))
        self.bias = nn.Embedding(8, heads) if biased else None

    def bucket(self, apart, count=8, farthest=16):
        start = 0
        if self.both:
            count //= 2
            start, apart = (apart > 0).long() * count, apart.abs()
        else:
            apart = -torch.minimum(apart, torch.zeros_like(apart))
        exact = count // 2
        far = exact + (torch.log(apart.float() / exact) / math.log(farthest / exact) * (count - exact)).long()
        return start + torch.where(apart < exact, apart, torch.minimum(far, torch.full_like(far, count - 1)))

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = (part.view(part.shape[0], part.shape[1], self.heads, -1).transpose(1, 2) for part in (self.q(x), self.k(memory), self.v(memory)))
        scores = q @ k.transpose(-1, -2)
        if self.bias is not None:
            apart = torch.arange(k.shape[2], device=x.device)[None] - torch.arange(q.shape[2], device=x.device)[:, None]
            scores = scores + self.bias(self.bucket(apart)).permute(2, 0, 1)
            if not self.both:
                scores = scores.masked_fill(apart > 0, torch.finfo(x.dtype).min)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class T5Block(nn.Module):
    def __init__(self, width, decoder):
        super().__init__()
        self.attention, self.norms = Relative(width, 4, not decoder), nn.ModuleList(Rms(width) for _ in range(3))
        self.cross = Relative(width, 4, False, False) if decoder else None
        self.gate, self.up, self.down = nn.Linear(width, 64, False), nn.Linear(width, 64, False), nn.Linear(64, width, False)

    def forward(self, x, memory=None):
        x = x + self.attention(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        y = self.norms[2](x)
        return x + self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))


class T5(nn.Module):
    def __init__(self, decoder, width=32):
        super().__init__()
        self.words, self.norm = nn.Embedding(60, width), Rms(width)
        self.layers = nn.ModuleList(T5Block(width, decoder) for _ in range(2))

    def forward(self, ids, memory=None):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, memory)
        return self.norm(x)


def t5_encoder():
    return T5(False), (text()[0],)


def t5_decoder():
    return T5(True), (text()[0], torch.randn(2, 5, 32))


def rotated(x, places):
    """Rotary positions: pairs of numbers (one from each half) turned by an angle that grows with the place."""
    half = x.shape[-1] // 2
    angles = places[:, None].to(x.dtype) / 10000 ** (torch.arange(half, device=x.device, dtype=x.dtype) / half)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Grouped(nn.Module):
    """Llama's attention: rotary positions, and fewer heads of keys and values than of queries."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, count * self.size, False) for count in (heads, groups, groups, heads))

    def forward(self, x, past=None):
        before = 0 if past is None else past[0].shape[2]
        places = torch.arange(before, before + x.shape[1], device=x.device)
        q, k, v = (part.view(x.shape[0], x.shape[1], -1, self.size).transpose(1, 2) for part in (self.q(x), self.k(x), self.v(x)))
        q, k = rotated(q, places), rotated(k, places)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        wide = [part[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(x.shape[0], self.heads, -1, self.size) for part in (k, v)]
        y = F.scaled_dot_product_attention(q, *wide, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(x.shape)), (k, v)


class Swiglu(nn.Module):
    def __init__(self, width, inside):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, inside, False), nn.Linear(width, inside, False), nn.Linear(inside, width, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    def __init__(self, width, mlp):
        super().__init__()
        self.first, self.second, self.attention, self.mlp = Rms(width), Rms(width), Grouped(width, 4, 2), mlp

    def forward(self, x, past=None):
        y, present = self.attention(self.first(x), past)
        x = x + y
        return x + self.mlp(self.second(x)), present


class Llama(nn.Module):
    def __init__(self, mlp=lambda: Swiglu(32, 64)):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(60, 32), Rms(32), nn.Linear(32, 60, False)
        self.layers = nn.ModuleList(LlamaBlock(32, mlp()) for _ in range(2))

    def forward(self, ids, *past):
        x, presents = self.words(ids), []
        for index, layer in enumerate(self.layers):
            x, present = layer(x, past[2 * index:2 * index + 2] or None)
            presents += present
        return (self.head(self.norm(x)), *presents)


def llama_prefill():
    return Llama(), (text()[0],)


def llama_decode():
    return Llama(), (text()[0][:, :1], *(torch.randn(2, 2, 6, 8) for _ in range(4)))


class Experts(nn.Module):
    """A mixture of experts, two a token, each computed for all tokens and weighted (an exported graph cannot send tokens away)."""

    def __init__(self, width, inside, count):
        super().__init__()
        self.router, self.count = nn.Linear(width, count, False), count
        self.up, self.down = nn.Parameter(torch.randn(count, width, inside) / 6), nn.Parameter(torch.randn(count, inside, width) / 6)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weight, chosen = self.router(flat).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        share = torch.zeros(flat.shape[0], self.count, device=x.device, dtype=x.dtype).scatter(1, chosen, weight)
        made = torch.einsum("eth,ehw->etw", F.silu(torch.einsum("tw,ewh->eth", flat, self.up)), self.down)
        return torch.einsum("etw,te->tw", made, share).view(x.shape)


def mixture_of_experts():
    return Llama(lambda: Experts(32, 48, 4)), (text()[0],)


class ClipText(nn.Module):
    """Causal, and the vector is that of the end of the text: where the highest number stands."""

    def __init__(self):
        super().__init__()
        self.body, self.head = Gpt2(), nn.Linear(32, 16, False)

    def forward(self, ids):
        x = self.body.words(ids) + self.body.places.weight[:ids.shape[1]]
        for layer in self.body.layers:
            x = layer(x)[0]
        x = self.body.norm(x)
        return F.normalize(self.head(x[torch.arange(x.shape[0], device=x.device), ids.argmax(-1)]), dim=-1)


def clip_text():
    return ClipText(), (text()[0],)


class Disentangled(nn.Module):
    """DeBERTa's attention: scores of contents, of contents with places, and of places with contents."""

    def __init__(self, width=32, heads=4, far=4):
        super().__init__()
        self.heads, self.far, self.words = heads, far, nn.Embedding(60, width)
        self.q, self.k, self.v, self.pq, self.pk = (nn.Linear(width, width) for _ in range(5))
        self.places = nn.Parameter(torch.randn(2 * far, width))

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-3, -2)

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        line = torch.arange(ids.shape[1], device=ids.device)
        index = (line[:, None] - line + self.far).clamp(0, 2 * self.far - 1).expand(q.shape[0], self.heads, -1, -1)
        to_place = torch.gather(q @ self.split(self.pk(self.places)).transpose(-1, -2), -1, index)
        from_place = torch.gather(k @ self.split(self.pq(self.places)).transpose(-1, -2), -1, index).transpose(-1, -2)
        scores = (q @ k.transpose(-1, -2) + to_place + from_place) / math.sqrt(3 * q.shape[-1])
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def deberta():
    return Disentangled(), (text()[0],)


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.convs = nn.Embedding(60, 16), nn.ModuleList(nn.Conv1d(16, 8, size) for size in (2, 3, 4))
        self.head = nn.Linear(24, 5)

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        return self.head(torch.cat([F.relu(one(x)).amax(-1) for one in self.convs], 1))


def text_cnn():
    return TextCnn(), (text()[0],)


class Bag(nn.Module):
    """fastText: the mean of a bag of words."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(60, 16, mode="mean"), nn.Linear(16, 5)

    def forward(self, ids, offsets):
        return self.head(self.words(ids, offsets))


def fast_text():
    return Bag(), (torch.randint(0, 60, (12,)), torch.tensor([0, 4, 9]))


MODELS = (bert_pooled, distilbert, roberta, gpt2, gpt2_with_cache, t5_encoder, t5_decoder, llama_prefill, llama_decode, mixture_of_experts, clip_text,
          deberta, text_cnn, fast_text)
