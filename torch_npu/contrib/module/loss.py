"""Cross entropy with smoothed labels."""

import torch
from torch import nn

__all__ = ["LabelSmoothingCrossEntropy"]


class LabelSmoothingCrossEntropy(nn.Module):
    """Mean cross entropy of [N, num_classes] against labels [N] that have ``1 - smooth_factor`` at their class and the rest
    shared by the other classes."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logs = torch.log_softmax(pred, -1)
        chosen = logs.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        loss = -(self.on_value - self.off_value) * chosen - self.off_value * logs.sum(-1)
        return loss.mean()
