"""Cross entropy over a vocabulary that is split among ranks, in the order in which it is computed: the logits' statistics of this
rank, then (after the ranks have agreed on maxima and sums) the loss, then the gradients."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide


def _bits(mask: Tensor) -> Tensor:
    """uint8 [ceil(n / 8)]: the first element in the highest bit; missing ones are 1."""
    padded = torch.cat([mask, mask.new_ones(-mask.numel() % 8)]).view(-1, 8)
    weights = 2 ** torch.arange(7, -1, -1, dtype=torch.int32, device=mask.device)
    return (padded.int() * weights).sum(1).to(torch.uint8)


def _from_bits(bits: Tensor, count: int) -> Tensor:
    shifts = torch.arange(7, -1, -1, dtype=torch.int32, device=bits.device)
    return ((bits.int().unsqueeze(1) >> shifts) & 1).flatten()[:count].bool()


def npu_fused_linear_online_max_sum(
    input: Tensor, weight: Tensor, target: Tensor, vocab_start_index: int, vocab_end_index: int, return_logits: bool = False
) -> Tuple[Optional[Tensor], ...]:
    """Statistics of the logits ``input @ weight.T`` of this rank's words, ``vocab_start_index`` to ``vocab_end_index`` inclusive.

    ``input``: [tokens, H]; ``weight``: [words, H]; ``target``: int32 or int64 [tokens].

    Returns (maxima, float32 [tokens]; sums of exp(logit - maximum), float32 [tokens]; logit - maximum of the target, 0 where it
    is another rank's, float32 [tokens]; uint8 [ceil(tokens / 8)], a bit for each token, 1 where its target is another rank's,
    first in the highest bit; target less ``vocab_start_index``, 0 where it is another rank's; the logits [tokens, words] with
    ``return_logits``, else None).
    """
    logits = wide(input) @ wide(weight).t()
    highest = logits.amax(1)
    shifted = logits - highest.unsqueeze(1)
    other = (target < vocab_start_index) | (target > vocab_end_index)
    place = torch.where(other, torch.zeros_like(target), target - vocab_start_index)
    predicted = shifted.gather(1, place.long().unsqueeze(1)).squeeze(1).masked_fill(other, 0)
    returned = logits.to(input.dtype) if return_logits else None
    return highest, shifted.exp().sum(1), predicted, _bits(other), place, returned


def npu_fused_cross_entropy_loss_with_max_sum(
    logits_max: Tensor,
    sum_exp_logits: Tensor,
    predicted_logits: Tensor,
    *,
    label_smoothing: Optional[float] = 0.0,
    input: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    vocab_parallel_logits: Optional[Tensor] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """The loss ``log(sum_exp_logits) - predicted_logits`` [tokens], float32, of statistics that all ranks have agreed on.

    ``vocab_parallel_logits``: this rank's logits [tokens, words] or None. Returns (loss, their softmax in float32, None
    without them). Raises NotImplementedError for ``label_smoothing``, ``input`` and ``weight``.
    """
    unsupported("npu_fused_cross_entropy_loss_with_max_sum", label_smoothing=label_smoothing or None, input=input, weight=weight)
    loss = sum_exp_logits.log() - predicted_logits
    if vocab_parallel_logits is None:
        return loss, None
    softmax = (wide(vocab_parallel_logits) - logits_max.unsqueeze(1)).exp() / sum_exp_logits.unsqueeze(1)
    return loss, softmax


def npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    label_smoothing: float = 0.0,
    logits_max: Optional[Tensor] = None,
    sum_exp_logits: Optional[Tensor] = None,
    softmax: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """Gradients of the loss for ``input`` [tokens, H] and ``weight`` [words, H]; ``grad``: the loss's, float32 [tokens].

    ``target_mask`` and ``masked_target``: results of :func:`npu_fused_linear_online_max_sum`. ``softmax``: of this rank's
    words; without it, ``logits_max`` and ``sum_exp_logits``, and it is computed again. Raises NotImplementedError for
    ``label_smoothing``.
    """
    name = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
    unsupported(name, label_smoothing=label_smoothing or None)
    probabilities: Optional[Tensor] = softmax
    if probabilities is None:
        if logits_max is None or sum_exp_logits is None:
            raise ValueError(f"{name}: needs softmax, or both logits_max and sum_exp_logits")
        logits = wide(input) @ wide(weight).t()
        probabilities = (logits - logits_max.unsqueeze(1)).exp() / sum_exp_logits.unsqueeze(1)
    own = (~_from_bits(target_mask, grad.numel())).to(probabilities.dtype)
    hit = torch.zeros_like(probabilities).scatter(1, masked_target.long().unsqueeze(1), own.unsqueeze(1))
    grad_logits = (probabilities - hit) * grad.unsqueeze(1)
    return (grad_logits @ wide(weight)).to(input.dtype), (grad_logits.t() @ wide(input)).to(weight.dtype)
