"""Networks for sequences: recurrent, convolutional, state spaces, speech, translation."""
import torch
from parts import Attention, Mlp
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    """A recurrent network over tokens, with the states it ends in."""

    def __init__(self, kind, both=False, layers=1):
        super().__init__()
        self.words, self.net = nn.Embedding(30, 12), kind(12, 16, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(32 if both else 16, 5)

    def forward(self, ids):
        y, state = self.net(self.words(ids))
        return (self.head(y), *state) if isinstance(state, tuple) else (self.head(y), state)


def tokens():
    return (torch.randint(0, 30, (2, 7)),)


def lstm_tagger():
    return Tagger(nn.LSTM), tokens()


def gru_tagger():
    return Tagger(nn.GRU, layers=2), tokens()


def rnn_tagger():
    return Tagger(nn.RNN), tokens()


def bidirectional_lstm():
    return Tagger(nn.LSTM, True, 2), tokens()


class Given(nn.Module):
    """A step of a streaming recogniser: the state comes in and goes out."""

    def __init__(self):
        super().__init__()
        self.net, self.head = nn.GRU(10, 16), nn.Linear(16, 4)

    def forward(self, x, state):
        y, state = self.net(x, state)
        return self.head(y), state


def streaming_gru():
    return Given(), (torch.randn(3, 2, 10), torch.randn(1, 2, 16))


class Dilated(nn.Module):
    """A residual block of a temporal network: what comes later is not seen."""

    def __init__(self, inputs, outputs, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.first = nn.utils.parametrizations.weight_norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))
        self.second = nn.Conv1d(outputs, outputs, 3, dilation=dilation)
        self.short = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x):
        y = F.relu(self.first(F.pad(x, (self.pad, 0))))
        return F.relu(F.relu(self.second(F.pad(y, (self.pad, 0)))) + self.short(x))


def tcn():
    return nn.Sequential(Dilated(3, 8, 1), Dilated(8, 8, 2), Dilated(8, 8, 4), nn.Conv1d(8, 2, 1)), (torch.randn(2, 3, 24),)


class WaveNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first, self.last = nn.Conv1d(1, width, 1), nn.Conv1d(width, 4, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** index) for index in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))

    def forward(self, x):
        x, total = self.first(x), 0
        for layer, skip in zip(self.layers, self.skips):
            filtered, gate = layer(F.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            y = skip(torch.tanh(filtered) * torch.sigmoid(gate))
            x, total = x + y, total + y
        return self.last(F.relu(total))


def wavenet():
    return WaveNet(), (torch.randn(2, 1, 20),)


class Translator(nn.Module):
    """Bahdanau's: a bidirectional encoder, a decoder of cells that attends at each step; greedy, so a loop on argmax."""

    def __init__(self, steps=4, width=16):
        super().__init__()
        self.steps, self.words, self.target = steps, nn.Embedding(30, width), nn.Embedding(20, width)
        self.encoder, self.cell = nn.GRU(width, width, batch_first=True, bidirectional=True), nn.LSTMCell(3 * width, width)
        self.score, self.key, self.query = nn.Linear(width, 1, False), nn.Linear(2 * width, width), nn.Linear(width, width)
        self.start, self.head = nn.Linear(2 * width, width), nn.Linear(width, 20)

    def forward(self, ids):
        memory, _ = self.encoder(self.words(ids))
        hidden = torch.tanh(self.start(memory.mean(1)))
        cell, word, found = torch.zeros_like(hidden), torch.zeros_like(ids[:, 0]), []
        for _ in range(self.steps):
            weights = self.score(torch.tanh(self.key(memory) + self.query(hidden)[:, None])).softmax(1)
            hidden, cell = self.cell(torch.cat([self.target(word), (weights * memory).sum(1)], -1), (hidden, cell))
            found.append(self.head(hidden))
            word = found[-1].argmax(-1)
        return torch.stack(found, 1)


def seq2seq_attention():
    return Translator(), tokens()


class Cells(nn.Module):
    """Cells of all kinds, one above the other."""

    def __init__(self, width=8):
        super().__init__()
        self.lstm, self.plain = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
        self.gru, self.bare, self.rnn = nn.GRUCell(width, width), nn.GRUCell(width, width, bias=False), nn.RNNCell(width, width)

    def forward(self, x):
        top = low = first = second = last = cell = memory = torch.zeros_like(x[0])
        for step in x:
            low, cell = self.lstm(step, (low, cell))
            top, memory = self.plain(low, (top, memory))
            first = self.gru(top, first)
            second = self.bare(first, second)
            last = self.rnn(second, last)
        return last, cell, memory


def cells():
    return Cells(), (torch.randn(3, 2, 8),)


class Transformer(nn.Module):
    """nn.Transformer as it is, with a causal mask on the target."""

    def __init__(self, width=32):
        super().__init__()
        self.source, self.target = nn.Embedding(30, width), nn.Embedding(30, width)
        self.body, self.head = nn.Transformer(width, 4, 1, 1, 64, 0.0, batch_first=True), nn.Linear(width, 30)

    def forward(self, source, target):
        length = target.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf"), device=source.device), 1)
        return self.head(self.body(self.source(source), self.target(target), tgt_mask=mask, tgt_is_causal=True))


def translation_transformer():
    return Transformer(), (*tokens(), torch.randint(0, 30, (2, 5)))


class Mamba(nn.Module):
    """A selective state space: the state decays by what is read; the scan is a loop over the places."""

    def __init__(self, width=16, inside=24, states=4):
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(width), nn.Linear(width, 2 * inside, False), nn.Linear(inside, width, False)
        self.conv = nn.Conv1d(inside, inside, 4, groups=inside, padding=3)
        self.select, self.step = nn.Linear(inside, 2 * states + 2, False), nn.Linear(2, inside)
        self.rate, self.direct = nn.Parameter(torch.log(torch.arange(1.0, states + 1).repeat(inside, 1))), nn.Parameter(torch.ones(inside))
        self.states = states

    def forward(self, x):
        y, gate = self.into(self.norm(x)).chunk(2, -1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        write, read, step = self.select(y).split([self.states, self.states, 2], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.rate))
        fresh = (step * y).unsqueeze(-1) * write.unsqueeze(2)
        state, made = torch.zeros_like(fresh[:, 0]), []
        for place in range(x.shape[1]):
            state = decay[:, place] * state + fresh[:, place]
            made.append((state * read[:, place, None]).sum(-1))
        return x + self.out((torch.stack(made, 1) + y * self.direct) * F.silu(gate))


def mamba():
    return nn.Sequential(Mamba(), Mamba()), (torch.randn(2, 6, 16),)


class Shift(nn.Module):
    """RWKV's mixing over time, in the form of a decaying sum that is kept stable by its maximum."""

    def __init__(self, width=12):
        super().__init__()
        self.k, self.v, self.r, self.out = (nn.Linear(width, width, False) for _ in range(4))
        self.mix, self.decay, self.first = (nn.Parameter(torch.rand(width)) for _ in range(3))

    def forward(self, x):
        before = F.pad(x, (0, 0, 1, -1))
        mixed = x * self.mix + before * (1 - self.mix)
        k, v, r = self.k(mixed), self.v(mixed), torch.sigmoid(self.r(mixed))
        top, bottom, peak, made = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e4), []
        for place in range(x.shape[1]):
            now = self.first + k[:, place]
            high = torch.maximum(peak, now)
            old, new = torch.exp(peak - high), torch.exp(now - high)
            made.append((old * top + new * v[:, place]) / (old * bottom + new))
            high = torch.maximum(peak - self.decay, k[:, place])
            old, new = torch.exp(peak - self.decay - high), torch.exp(k[:, place] - high)
            top, bottom, peak = old * top + new * v[:, place], old * bottom + new, high
        return self.out(r * torch.stack(made, 1))


def rwkv():
    return Shift(), (torch.randn(2, 5, 12),)


class Conformer(nn.Module):
    """Half a feed-forward network, attention, a convolution with a gate, and the other half."""

    def __init__(self, width=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.halves = nn.ModuleList(Mlp(width, 48, F.silu) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.gated, self.depth, self.point = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 5, 1, 2, groups=width), nn.Conv1d(width, width, 1)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x + 0.5 * self.halves[0](self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.gated(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.point(F.silu(self.norm(self.depth(y)))).transpose(1, 2)
        return self.norms[4](x + 0.5 * self.halves[1](self.norms[3](x)))


def conformer():
    return nn.Sequential(Conformer(), Conformer()), (torch.randn(2, 9, 24),)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.attention, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, 4), Mlp(width, 2 * width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Wave(nn.Module):
    """wav2vec 2.0: raw sound through strided convolutions, positions by a grouped convolution, then a transformer."""

    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, width, 10, 5, bias=False), nn.GroupNorm(width, width), nn.GELU(), nn.Conv1d(width, width, 3, 2), nn.GELU())
        self.norm, self.places = nn.LayerNorm(width), nn.Conv1d(width, width, 8, padding=4, groups=4)
        self.layer = Layer(width)

    def forward(self, sound):
        sound = (sound - sound.mean(-1, keepdim=True)) / torch.sqrt(sound.var(-1, keepdim=True) + 1e-7)
        x = self.norm(self.stem(sound[:, None]).transpose(1, 2))
        x = x + F.gelu(self.places(x.transpose(1, 2))[..., :-1]).transpose(1, 2)
        return self.layer(x)


def wav2vec():
    return Wave(), (torch.randn(2, 200),)


class Whisper(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.first, self.second = nn.Conv1d(8, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        angles = torch.arange(20)[:, None] * torch.exp(-9.21 / (width // 2 - 1) * torch.arange(width // 2))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers, self.norm = nn.Sequential(Layer(width), Layer(width)), nn.LayerNorm(width)

    def forward(self, mel):
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2)
        return self.norm(self.layers(x + self.places))


def whisper_encoder():
    return Whisper(), (torch.randn(2, 8, 40),)


class Reader(nn.Module):
    """CRNN: a line of writing, by convolutions and a recurrent network, to log-probabilities of letters."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, 1, 1), nn.BatchNorm2d(12), nn.ReLU(),
                                  nn.MaxPool2d((2, 1)), nn.Conv2d(12, 16, (4, 3), padding=(0, 1)))
        self.net, self.head = nn.LSTM(16, 12, bidirectional=True), nn.Linear(24, 11)

    def forward(self, x):
        y, _ = self.net(self.body(x).squeeze(2).permute(2, 0, 1))
        return self.head(y).log_softmax(-1)


def crnn():
    return Reader(), (torch.randn(2, 1, 16, 24),)


class Spectrum(nn.Module):
    """FNet: a Fourier transform in the place of attention, written as products with cosines and sines."""

    def __init__(self, length=8, width=16):
        super().__init__()
        for name, size in (("over_time", length), ("over_width", width)):
            angles = 2 * torch.pi * torch.outer(torch.arange(size), torch.arange(size)) / size
            self.register_buffer(f"cos_{name}", angles.cos())
            self.register_buffer(f"sin_{name}", angles.sin())
        self.first, self.second, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Mlp(width, 32)

    def forward(self, x):
        mixed = self.cos_over_time @ (x @ self.cos_over_width) - self.sin_over_time @ (x @ self.sin_over_width)
        x = self.first(x + mixed)
        return self.second(x + self.mlp(x))


def fnet():
    return nn.Sequential(Spectrum(), Spectrum()), (torch.randn(2, 8, 16),)


MODELS = (lstm_tagger, gru_tagger, rnn_tagger, bidirectional_lstm, streaming_gru, cells, tcn, wavenet, seq2seq_attention, translation_transformer, mamba, rwkv,
          conformer, wav2vec, whisper_encoder, crnn, fnet)
