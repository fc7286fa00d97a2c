"""LeNet-5 (LeCun et al., 1998), with the ReLU and max pooling of today."""
import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """Images [N, 1, 28, 28] or [N, 1, 32, 32] to the logits of `classes`."""

    def __init__(self, classes: int = 10, image_size: int = 28):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=(32 - image_size) // 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)
