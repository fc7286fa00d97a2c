"""Causal convolution along a sequence, channel by channel."""

from typing import Optional, Tuple

import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import wide_gradients


def npu_masked_causal_conv1d(input: Tensor, weight: Tensor, *, mask: Optional[Tensor] = None) -> Tensor:
    """``out[s] = sum over k of weight[k] * input[s - (W - 1 - k)]``, zeros before the start, 0 where ``mask`` is false.

    ``input``: [steps, batch, channels]; ``weight``: [W, channels]; ``mask``: bool [batch, steps].
    """
    steps, batch, channels = input.shape
    sequence = F.pad(wide(input).permute(1, 2, 0), (weight.shape[0] - 1, 0))
    out = F.conv1d(sequence, wide(weight).t().unsqueeze(1), groups=channels).permute(2, 0, 1)
    if mask is not None:
        out = out * mask.t().unsqueeze(-1).to(out.dtype)
    return out.to(input.dtype).contiguous()


def npu_masked_causal_conv1d_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, *, mask: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor]:
    """Gradients of :func:`npu_masked_causal_conv1d` for input and weight."""
    first, second = wide_gradients(lambda x, w: npu_masked_causal_conv1d(x, w, mask=mask), (input, weight), grad_output)
    return first, second
