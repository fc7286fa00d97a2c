"""Networks whose output is a picture, a map or boxes: segmentation, detection, generation, super-resolution."""
import math

import torch
from parts import Attention, conv
from torch import nn
from torch.nn import functional as F


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8, 3), conv(8, 16, 3), conv(16, 32, 3)])
        self.wide, self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)]), nn.ModuleList([conv(32, 16, 3), conv(16, 8, 3)])
        self.last = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        seen = []
        for index, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if index else x)
            seen.append(x)
        for wide, up, beside in zip(self.wide, self.up, seen[-2::-1]):
            x = up(torch.cat([beside, wide(x)], 1))
        return self.last(x)


def unet_segmentation():
    return UNet(), (torch.randn(1, 3, 24, 24),)


class DeepLab(nn.Module):
    """Dilated convolutions of several reaches beside one another, and the mean of the picture."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 8, 3, 2), conv(8, 16, 3, 2))
        self.reach = nn.ModuleList([conv(16, 8, 1), *(nn.Sequential(nn.Conv2d(16, 8, 3, padding=rate, dilation=rate), nn.ReLU()) for rate in (2, 4, 6))])
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(16, 8, 1))
        self.head = nn.Sequential(conv(40, 16, 1), nn.Conv2d(16, 5, 1))

    def forward(self, x):
        low = self.body(x)
        whole = F.interpolate(self.whole(low), size=low.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([*(layer(low) for layer in self.reach), whole], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False).argmax(1), y


def deeplab():
    return DeepLab(), (torch.randn(1, 3, 32, 32),)


class Pyramid(nn.Module):
    """A feature pyramid: each level wider by the one above it."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([conv(3, 8, 3, 2), conv(8, 16, 3, 2), conv(16, 32, 3, 2)])
        self.sides, self.smooth = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (8, 16, 32)), nn.ModuleList(nn.Conv2d(8, 8, 3, 1, 1) for _ in range(3))

    def forward(self, x):
        found = []
        for level, side in zip(self.levels, self.sides):
            x = level(x)
            found.append(side(x))
        for index in (1, 0):
            found[index] = found[index] + F.interpolate(found[index + 1], scale_factor=2.0, mode="nearest")
        return tuple(smooth(level) for smooth, level in zip(self.smooth, found))


def feature_pyramid():
    return Pyramid(), (torch.randn(1, 3, 32, 32),)


def fast_nms(boxes, scores, limit):
    """Scores [N, K] of boxes [N, K, 4] in falling order: 0 where a better box covers too much of one."""
    low, high = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2]), torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)
    covered = (shared / (area[:, :, None] + area[:, None] - shared + 1e-6)).triu(1).amax(1)
    return torch.where(covered > limit, torch.zeros_like(scores), scores)


class Yolo(nn.Module):
    """Three anchors a cell: centre, size, confidence, classes; the best twenty, without those that others cover."""

    def __init__(self, classes=4):
        super().__init__()
        self.body, self.head = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU()), conv(8, 16, 3, 2, act=nn.SiLU()), nn.Upsample(scale_factor=2)), nn.Conv2d(16, 3 * (5 + classes), 1)
        self.register_buffer("anchors", torch.tensor([[4.0, 6.0], [9.0, 7.0], [12.0, 14.0]]).view(1, 3, 1, 1, 2))

    def forward(self, x):
        y = self.head(self.body(x))
        batch, _, rows, columns = y.shape
        y = y.view(batch, 3, -1, rows, columns).permute(0, 1, 3, 4, 2)
        line, column = torch.meshgrid(torch.arange(rows, device=x.device), torch.arange(columns, device=x.device), indexing="ij")
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + torch.stack([column, line], -1)) * 2.0
        half = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors / 2
        scores, label = (y[..., 4:5].sigmoid() * y[..., 5:].sigmoid()).flatten(1, 3).max(-1)
        boxes = torch.cat([centre - half, centre + half], -1).flatten(1, 3)
        best, place = scores.topk(20)
        boxes = boxes.gather(1, place.unsqueeze(-1).expand(-1, -1, 4))
        return boxes, fast_nms(boxes, best, 0.5), label.gather(1, place)


def yolo():
    return Yolo(), (torch.randn(2, 3, 16, 16),)


class Suppress(torch.autograd.Function):
    """ONNX's NonMaxSuppression, as torchvision's exporter writes it; what it computes stands for eager's."""

    @staticmethod
    def forward(ctx, boxes, scores, most, limit, least):
        from softcann.atc.kernels import nms

        return nms(boxes.cpu(), scores.cpu(), int(most), float(limit), float(least), False).to(boxes.device)

    @staticmethod
    def symbolic(graph, boxes, scores, most, limit, least):
        return graph.op("NonMaxSuppression", boxes, scores, most, limit, least)


class Ssd(nn.Module):
    """Two levels of default boxes, classes by softmax, and as many boxes as are left."""

    def __init__(self, classes=3):
        super().__init__()
        self.first, self.second, self.classes = conv(3, 8, 3, 4), conv(8, 8, 3, 2), classes
        self.places, self.kinds = nn.ModuleList(nn.Conv2d(8, 8, 3, 1, 1) for _ in range(2)), nn.ModuleList(nn.Conv2d(8, 2 * (classes + 1), 3, 1, 1) for _ in range(2))
        boxes = [[(column + 0.5) / size, (row + 0.5) / size, 1.5 / size * wide, 1.5 / size / wide]
                 for size in (8, 4) for row in range(size) for column in range(size) for wide in (1.0, 1.4)]
        self.register_buffer("defaults", torch.tensor(boxes))

    def forward(self, x):
        levels = [self.first(x)]
        levels.append(self.second(levels[0]))
        places = torch.cat([layer(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4) for layer, level in zip(self.places, levels)], 1)
        kinds = torch.cat([layer(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes + 1) for layer, level in zip(self.kinds, levels)], 1)
        centre = self.defaults[:, :2] + places[..., :2] * 0.1 * self.defaults[:, 2:]
        half = self.defaults[:, 2:] * torch.exp(places[..., 2:] * 0.2) / 2
        return torch.cat([centre - half, centre + half], -1), kinds.softmax(-1)[..., 1:].transpose(1, 2)


class SsdWithNms(Ssd):
    def forward(self, x):
        boxes, scores = super().forward(x)
        number = lambda value, dtype=torch.float32: torch.tensor([value], dtype=dtype)
        kept = Suppress.apply(boxes, scores, number(5, torch.int64), number(0.45), number(0.2))
        return boxes[kept[:, 0], kept[:, 2]], scores[kept[:, 0], kept[:, 1], kept[:, 2]], kept[:, 1]


def ssd():
    return Ssd(), (torch.randn(2, 3, 32, 32),)


def ssd_with_nms():
    return SsdWithNms(), (torch.randn(1, 3, 32, 32),)


class Detr(nn.Module):
    """Queries that look at all of the picture, and no suppression."""

    def __init__(self, width=32):
        super().__init__()
        self.body, self.queries = nn.Sequential(conv(3, 16, 3, 4), nn.Conv2d(16, width, 1)), nn.Parameter(torch.randn(6, width))
        self.rows, self.columns = nn.Parameter(torch.rand(8, width // 2)), nn.Parameter(torch.rand(8, width // 2))
        self.attention, self.cross, self.norm = Attention(width, 4), Attention(width, 4), nn.LayerNorm(width)
        self.kinds, self.boxes = nn.Linear(width, 5), nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        y = self.body(x)
        height, width = y.shape[-2:]
        places = torch.cat([self.columns[:width].unsqueeze(0).repeat(height, 1, 1), self.rows[:height].unsqueeze(1).repeat(1, width, 1)], -1)
        memory = y.flatten(2).transpose(1, 2) + places.flatten(0, 1)
        memory = memory + self.attention(memory)
        found = self.norm(self.cross(self.queries.expand(x.shape[0], -1, -1), memory))
        return self.kinds(found), self.boxes(found).sigmoid()


def detr():
    return Detr(), (torch.randn(2, 3, 32, 32),)


def super_resolution():
    body = [nn.Conv2d(1, 16, 5, 1, 2), nn.Tanh(), nn.Conv2d(16, 16, 3, 1, 1), nn.PReLU(16), nn.Conv2d(16, 9, 3, 1, 1), nn.PixelShuffle(3)]
    return nn.Sequential(*body), (torch.rand(1, 1, 12, 12),)


class Generator(nn.Module):
    """Style transfer: mirrored borders, instance norms, residual blocks, upsampling before the convolution."""

    def __init__(self, width=8):
        super().__init__()
        layer = lambda inputs, outputs, size, stride=1: nn.Sequential(
            nn.ReflectionPad2d(size // 2), nn.Conv2d(inputs, outputs, size, stride), nn.InstanceNorm2d(outputs, affine=True), nn.ReLU())
        self.down = nn.Sequential(layer(3, width, 9), layer(width, 2 * width, 3, 2))
        self.middle = nn.ModuleList(nn.Sequential(layer(2 * width, 2 * width, 3), layer(2 * width, 2 * width, 3)[:-1]) for _ in range(2))
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), layer(2 * width, width, 3), nn.ReflectionPad2d(4), nn.Conv2d(width, 3, 9))

    def forward(self, x):
        x = self.down(x)
        for block in self.middle:
            x = x + block(x)
        return torch.tanh(self.up(x))


def style_transfer():
    return Generator(), (torch.rand(1, 3, 24, 24),)


class Vae(nn.Module):
    """A variational autoencoder; the noise is an input, so that the model has one answer."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 3, 2, 1), nn.ELU(), nn.Flatten())
        self.mean, self.log = nn.Linear(16 * 49, 6), nn.Linear(16 * 49, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 16 * 49), nn.Unflatten(1, (16, 7, 7)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.SELU(),
                                     nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid())

    def forward(self, x, noise):
        y = self.encoder(x)
        mean, log = self.mean(y), self.log(y).clamp(-4, 4)
        return self.decoder(mean + noise * torch.exp(0.5 * log)), mean, log


def vae():
    return Vae(), (torch.rand(2, 1, 28, 28), torch.randn(2, 6))


def dcgan():
    up = lambda inputs, outputs, stride, pad: [nn.ConvTranspose2d(inputs, outputs, 4, stride, pad, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*up(16, 16, 1, 0), *up(16, 8, 2, 1), nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh()), (torch.randn(2, 16, 1, 1),)


class Timed(nn.Module):
    """A residual block of a diffusion model, told the time."""

    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 1, 1))
        self.time, self.second = nn.Linear(time, 2 * outputs), nn.Sequential(nn.SiLU(), nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.norm, self.short = nn.GroupNorm(4, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        return self.short(x) + self.second(self.norm(self.first(x)) * (1 + scale) + shift)


class Diffusion(nn.Module):
    """A step of the U-Net: sinusoids of the time, a block down, attention to a text, a block up."""

    def __init__(self, width=16):
        super().__init__()
        self.width, self.time = width, nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first, self.down, self.up, self.last = nn.Conv2d(4, width, 3, 1, 1), Timed(width, width, 32), Timed(2 * width, width, 32), nn.Conv2d(width, 4, 3, 1, 1)
        self.narrow, self.wide = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.norm, self.itself, self.cross = nn.GroupNorm(4, width), Attention(width, 2), Attention(width, 2)

    def forward(self, x, step, words):
        angles = step[:, None].float() * torch.exp(-math.log(10000) * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        seen = self.down(self.first(x), time)
        y = self.narrow(seen)
        flat = self.norm(y).flatten(2).transpose(1, 2)
        flat = flat + self.itself(flat)
        flat = flat + self.cross(flat, words)
        y = y + flat.transpose(1, 2).reshape(y.shape)
        y = self.wide(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.up(torch.cat([y, seen], 1), time)))


def diffusion_unet():
    return Diffusion(), (torch.randn(2, 4, 8, 8), torch.tensor([3, 500]), torch.randn(2, 5, 16))


class Straighten(nn.Module):
    """A spatial transformer: the picture is sampled where an affine map of its own says."""

    def __init__(self):
        super().__init__()
        self.where, self.body = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(36, 6)), conv(1, 8, 3)
        self.where[-1].bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])

    def forward(self, x):
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return self.body(F.grid_sample(x, grid, align_corners=False, padding_mode="border"))


def spatial_transformer():
    return Straighten(), (torch.randn(2, 1, 16, 16),)


class Pose(nn.Module):
    """Heat maps of joints, and where each has its centre of mass."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 8, 3, 2), nn.Conv2d(8, 8, 3, 1, 1), nn.Upsample(scale_factor=2, mode="bicubic", align_corners=False), nn.Conv2d(8, 5, 1))

    def forward(self, x):
        maps = self.body(x)
        share = maps.flatten(2).softmax(-1).view(maps.shape)
        line = torch.linspace(0, 1, maps.shape[-1], device=x.device)
        return maps, torch.stack([(share.sum(-2) * line).sum(-1), (share.sum(-1) * line).sum(-1)], -1)


def pose():
    return Pose(), (torch.randn(1, 3, 16, 16),)


class Flow(nn.Module):
    """The shift between two pictures, by how well each place fits its neighbours in the other; unfold gathers them."""

    def __init__(self):
        super().__init__()
        self.body, self.head = conv(3, 8, 3), nn.Conv2d(9, 2, 3, 1, 1)

    def forward(self, left, right):
        left, right = F.normalize(self.body(left), dim=1), self.body(right)
        around = F.unfold(right, 3, padding=1).view(right.shape[0], right.shape[1], 9, *right.shape[-2:])
        return self.head((left.unsqueeze(2) * around).sum(1))


def optical_flow():
    return Flow(), (torch.randn(1, 3, 12, 12), torch.randn(1, 3, 12, 12))


def video():
    """3-D convolutions over a clip."""
    return nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 12, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU(),
                         nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 5)), (torch.randn(1, 3, 4, 16, 16),)


MODELS = (unet_segmentation, deeplab, feature_pyramid, yolo, ssd, ssd_with_nms, detr, super_resolution, style_transfer, vae, dcgan, diffusion_unet,
          spatial_transformer, pose, optical_flow, video)
