"""Cross entropy with smoothed labels, as ``apex.contrib.xentropy`` calls it."""

import torch
from torch import Tensor

from torch_npu.contrib.apex._lists import HALF

__all__ = ["SoftmaxCrossEntropyLoss"]


class SoftmaxCrossEntropyLoss:
    """Called by ``apply``.

    For a row x of ``logits`` [rows, classes] and its label y in ``labels`` [rows] (int64), with s = ``smoothing``:

        loss = log(sum(exp(x))) - (1 - s) * x[y] - s * mean(x)

    and 0, without a gradient, where the label is ``padding_idx``. The result [rows] is computed in float32 and has the type of
    ``logits``, or is float32 if ``half_to_float``. Raises RuntimeError or IndexError for other shapes and labels, as torch does.
    """

    @staticmethod
    def apply(logits: Tensor, labels: Tensor, smoothing: float = 0.0, padding_idx: int = 0,
              half_to_float: bool = False) -> Tensor:
        wide = logits.float() if logits.dtype in HALF else logits
        losses = torch.nn.functional.cross_entropy(wide, labels, reduction="none", ignore_index=padding_idx,
                                                   label_smoothing=smoothing)
        return losses if half_to_float else losses.to(logits.dtype)
