"""Networks for pictures: classifiers built of convolutions, of attention, and of products alone."""
import torch
from parts import Attention, Mlp, conv
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """A body and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, body, inputs, outputs, stride=1, act=F.relu):
        super().__init__()
        self.body, self.act = body, act
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x):
        return self.act(self.body(x) + self.short(x))


def basic(inputs, width, stride):
    return Residual(nn.Sequential(conv(inputs, width, 3, stride), conv(width, width, 3, act=None)), inputs, width, stride)


def bottleneck(inputs, width, stride):
    body = nn.Sequential(conv(inputs, width, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, act=None))
    return Residual(body, inputs, 4 * width, stride)


def head(width, classes=10):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def resnet(block, counts, growth=1, width=8):
    """The stages of a ResNet; `growth` is how much wider a block's output is than its inside."""
    layers, inputs = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)], width
    for stage, count in enumerate(counts):
        inside = width << stage
        for index in range(count):
            layers.append(block(inputs, inside, 2 if stage and not index else 1))
            inputs = inside * growth
    return nn.Sequential(*layers, *head(inputs)), (torch.randn(2, 3, 64, 64),)


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                    nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)), (torch.randn(2, 1, 28, 28),)


def alexnet():
    return nn.Sequential(nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2), nn.Conv2d(8, 12, 5, 1, 2), nn.ReLU(),
                    nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(12, 16),
                    nn.ReLU(), nn.Linear(16, 10)), (torch.randn(2, 3, 96, 96),)


def vgg():
    layers, inputs = [], 3
    for width, count in ((8, 2), (16, 2), (32, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, 1, 1), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 16, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10)), (torch.randn(2, 3, 32, 32),)


def resnet18():
    return resnet(basic, (2, 2, 2, 2))


def resnet34():
    return resnet(basic, (3, 4, 6, 3))


def resnet50():
    return resnet(bottleneck, (3, 4, 6, 3), 4, 4)


class Squeeze(nn.Module):
    """Squeeze and excitation: channels weighted by what they hold on average."""

    def __init__(self, width, inside, gate, act):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inside, 1), act(), nn.Conv2d(inside, width, 1), gate())

    def forward(self, x):
        return x * self.body(x)


class Inverted(nn.Module):
    """An inverted residual: wider, by channel, and narrow again."""

    def __init__(self, inputs, outputs, expand, kernel=3, stride=1, act=nn.ReLU6, squeeze=None):
        super().__init__()
        wide = inputs * expand
        layers = [conv(inputs, wide, 1, act=act())] if expand > 1 else []
        layers.append(conv(wide, wide, kernel, stride, groups=wide, act=act()))
        if squeeze is not None:
            layers.append(Squeeze(wide, max(1, inputs // 4), *squeeze))
        self.body, self.same = nn.Sequential(*layers, conv(wide, outputs, 1, act=None)), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v2():
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.ReLU6()), Inverted(8, 8, 1), Inverted(8, 12, 6, stride=2), Inverted(12, 12, 6), Inverted(12, 16, 6, stride=2),
                    Inverted(16, 16, 6), conv(16, 32, 1, act=nn.ReLU6()), *head(32)), (torch.randn(2, 3, 32, 32),)


def mobilenet_v3():
    gate = (nn.Hardsigmoid, nn.ReLU)
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.Hardswish()), Inverted(8, 8, 1, act=nn.ReLU, squeeze=gate), Inverted(8, 12, 4, stride=2, act=nn.ReLU),
                    Inverted(12, 12, 3, act=nn.ReLU), Inverted(12, 16, 4, 5, 2, nn.Hardswish, gate), Inverted(16, 16, 6, 5, 1, nn.Hardswish, gate),
                    conv(16, 32, 1, act=nn.Hardswish()), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 48), nn.Hardswish(),
                    nn.Linear(48, 10)), (torch.randn(2, 3, 32, 32),)


def efficientnet_b0():
    gate = (nn.Sigmoid, nn.SiLU)
    blocks = [Inverted(inputs, outputs, expand, kernel, stride, nn.SiLU, gate) for inputs, outputs, expand, kernel, stride in
              ((8, 4, 1, 3, 1), (4, 6, 6, 3, 2), (6, 6, 6, 3, 1), (6, 10, 6, 5, 2), (10, 10, 6, 5, 1), (10, 14, 6, 3, 2), (14, 14, 6, 3, 1))]
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU()), *blocks, conv(14, 32, 1, act=nn.SiLU()), *head(32)), (torch.randn(2, 3, 64, 64),)


class Dense(nn.Module):
    """Each layer sees what all before it made."""

    def __init__(self, inputs, growth, count):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, 4 * growth, 1, bias=False), nn.BatchNorm2d(4 * growth), nn.ReLU(),
                          nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)) for wide in range(inputs, inputs + growth * count, growth))

    def forward(self, x):
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


def densenet():
    between = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1, bias=False), nn.AvgPool2d(2, 2))
    return nn.Sequential(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), Dense(8, 4, 3), between, Dense(10, 4, 3), nn.BatchNorm2d(22), nn.ReLU(),
                    *head(22)), (torch.randn(2, 3, 32, 32),)


class Branches(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception():
    """The block of GoogLeNet, then the one of version 3 with its 1x7 and 7x1 convolutions."""
    first = Branches(conv(8, 4, 1), nn.Sequential(conv(8, 4, 1), conv(4, 8, 3)), nn.Sequential(conv(8, 2, 1), conv(2, 4, 5)),
                     nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(8, 4, 1)))
    second = Branches(conv(20, 6, 1), nn.Sequential(conv(20, 4, 1), conv(4, 4, (1, 7)), conv(4, 6, (7, 1))),
                      nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(20, 6, 1)))
    return nn.Sequential(conv(3, 8, 3, 2), first, nn.MaxPool2d(3, 2, ceil_mode=True), second, *head(18)), (torch.randn(2, 3, 32, 32),)


class Shuffled(nn.Module):
    """ShuffleNetV2's unit: half of the channels pass, then both halves are interleaved."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(conv(half, half, 1), conv(half, half, 3, groups=half, act=None), conv(half, half, 1))

    def forward(self, x):
        left, right = x.chunk(2, 1)
        x = torch.cat([left, self.body(right)], 1)
        batch, width, height, wide = x.shape
        return x.view(batch, 2, width // 2, height, wide).transpose(1, 2).reshape(batch, width, height, wide)


def shufflenet():
    return nn.Sequential(conv(3, 12, 3, 2), nn.MaxPool2d(3, 2, 1), Shuffled(12), Shuffled(12), *head(12)), (torch.randn(2, 3, 32, 32),)


def squeezenet():
    fire = [nn.Sequential(conv(inputs, 4, 1), Branches(conv(4, 8, 1), conv(4, 8, 3))) for inputs in (8, 16)]
    return nn.Sequential(conv(3, 8, 3, 2), nn.MaxPool2d(3, 2, ceil_mode=True), *fire, nn.Dropout(), nn.Conv2d(16, 10, 1), nn.ReLU(),
                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(1)), (torch.randn(2, 3, 32, 32),)


class Patches(nn.Module):
    """A picture as tokens: a convolution of the patch's size, a class token, positions."""

    def __init__(self, size, patch, width, token=True):
        super().__init__()
        self.conv = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width)) if token else None
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + token, width))

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return x + self.places


class PreNorm(nn.Module):
    """A transformer's block whose norms come first."""

    def __init__(self, width, heads, act=F.gelu):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads), Mlp(width, 2 * width, act)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Picked(nn.Module):
    """One row of what another makes."""

    def __init__(self, body, width, classes):
        super().__init__()
        self.body, self.norm, self.head = body, nn.LayerNorm(width), nn.Linear(width, classes, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.body(x)[:, 0]))


def vit_classifier():
    return Picked(nn.Sequential(Patches(32, 8, 32), PreNorm(32, 4), PreNorm(32, 4)), 32, 10), (torch.randn(2, 3, 32, 32),)


def clip_image():
    class Quick(nn.Module):
        def forward(self, x):
            return x * torch.sigmoid(1.702 * x)

    body = nn.Sequential(Patches(32, 8, 32), nn.LayerNorm(32), PreNorm(32, 4, Quick()), PreNorm(32, 4, Quick()))

    class Normal(Picked):
        def forward(self, x):
            return F.normalize(super().forward(x), dim=-1)

    return Normal(body, 32, 16), (torch.randn(2, 3, 32, 32),)


class Window(nn.Module):
    """Swin's attention: in windows, each with positions relative to one another, every other block shifted by half of one."""

    def __init__(self, width, heads, size, window, shift):
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm, self.norm2, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Mlp(width, 2 * width)
        self.attention = Attention(width, heads)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        self.register_buffer("mask", self.masked(self.areas()))

    def areas(self):
        area = torch.zeros(1, self.size, self.size, 1)
        if self.shift:
            parts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
            for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
                area[:, rows, columns] = number
        return area

    def masked(self, area):
        area = self.windows(area).squeeze(-1)
        return torch.where(area[:, None] == area[:, :, None], 0.0, -100.0)[:, None]

    def windows(self, x):
        count = self.size // self.window
        x = x.view(-1, count, self.window, count, self.window, x.shape[-1])
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.window ** 2, x.shape[-1])

    def forward(self, x):
        batch, size, _, width = x.shape
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = self.windows(y)
        bias = self.bias[self.index.view(-1)].view(*self.index.shape, -1).permute(2, 0, 1)
        y = self.attention(y, mask=bias + self.mask.repeat(batch, 1, 1, 1))
        count = size // self.window
        y = y.view(batch, count, count, self.window, self.window, width).permute(0, 1, 3, 2, 4, 5).reshape(batch, size, size, width)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norm2(x))


class Merge(nn.Module):
    """Swin's downsampling: four neighbours beside one another, then a product."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.down = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        return self.down(self.norm(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.stages = nn.Sequential(Window(16, 2, 8, 4, 0), Window(16, 2, 8, 4, 2), Merge(16), Window(32, 4, 4, 4, 0))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.stages(self.stem(x).permute(0, 2, 3, 1))
        return self.head(self.norm(x).mean((1, 2)))


def swin():
    return Swin(), (torch.randn(2, 3, 32, 32),)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth, self.norm, self.mlp = nn.Conv2d(width, width, 7, 1, 3, groups=width), nn.LayerNorm(width, eps=1e-6), Mlp(width, 4 * width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return x + (self.scale * self.mlp(self.norm(self.depth(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of a picture."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext():
    return nn.Sequential(nn.Conv2d(3, 12, 4, 4), ChannelNorm(12), ConvNeXtBlock(12), ConvNeXtBlock(12), ChannelNorm(12), nn.Conv2d(12, 24, 2, 2),
                    ConvNeXtBlock(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(24), nn.Linear(24, 10)), (torch.randn(2, 3, 32, 32),)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = Mlp(tokens, 2 * tokens), Mlp(width, 2 * width)

    def forward(self, x):
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


def mlp_mixer():
    return Picked(nn.Sequential(Patches(32, 8, 24, False), MixerBlock(16, 24), MixerBlock(16, 24)), 24, 10), (torch.randn(2, 3, 32, 32),)


MODELS = (lenet5, alexnet, vgg, resnet18, resnet34, resnet50, mobilenet_v2, mobilenet_v3, efficientnet_b0, densenet, inception, shufflenet,
          squeezenet, vit_classifier, clip_image, swin, convnext, mlp_mixer)
