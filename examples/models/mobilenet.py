"""MobileNetV2 (Sandler et al., 2018)."""
import torch
from torch import nn

# Of each stage: expansion, channels, blocks, stride of the first.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list:
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6()]


class InvertedResidual(nn.Module):
    """A 1x1 convolution to `expansion` times the channels, a depthwise 3x3 one, a 1x1 one without activation."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
        super().__init__()
        wide = inputs * expansion
        layers = convolution(inputs, wide, 1) if expansion != 1 else []
        layers += convolution(wide, wide, 3, stride, groups=wide)
        layers += convolution(wide, outputs, 1)[:2]
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


class MobileNetV2(nn.Module):
    """Images [N, 3, H, W], H and W from 32 up, to the logits of `classes`."""

    def __init__(self, classes: int = 1000):
        super().__init__()
        layers, inputs = convolution(3, 32, 3, 2), 32
        for expansion, outputs, blocks, stride in STAGES:
            for index in range(blocks):
                layers.append(InvertedResidual(inputs, outputs, stride if index == 0 else 1, expansion))
                inputs = outputs
        self.features = nn.Sequential(*layers, *convolution(inputs, 1280, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(1280, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.pool(self.features(images)), 1))
