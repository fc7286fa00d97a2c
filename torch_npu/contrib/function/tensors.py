"""Functions of tensors under the names of the published torch_npu."""

import math
from typing import List, Optional, Union

import torch
from torch import nn

__all__ = [
    "dropout_with_byte_mask", "fuse_add_softmax_dropout", "matmul_transpose", "npu_fast_condition_index_put",
    "npu_fused_attention", "npu_fused_attention_with_layernorm", "roll",
]


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: Union[float, torch.Tensor]) -> torch.Tensor:
    """``x`` with ``value`` where ``condition`` (bool, of x's shape or of its first dimensions) holds, as a new tensor."""
    if condition.dtype != torch.bool:
        raise TypeError(f"condition is bool, not {condition.dtype}")
    if condition.shape != x.shape[:condition.dim()]:
        raise ValueError(f"condition {tuple(condition.shape)} does not cover the first dimensions of {tuple(x.shape)}")
    wide = condition.reshape(condition.shape + (1,) * (x.dim() - condition.dim()))
    return torch.where(wide, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)


def roll(x: torch.Tensor, shifts: Union[int, List[int]], dims: Union[int, List[int]]) -> torch.Tensor:
    """``torch.roll`` of [N, H, W, C] along two dimensions; ValueError for other numbers of them."""
    if x.dim() != 4:
        raise ValueError(f"expected a tensor of 4 dimensions, but got {x.dim()}")
    for what, values in (("shifts", shifts), ("dims", dims)):
        if isinstance(values, int) or len(values) != 2:
            raise ValueError(f"expected two {what}, but got {values}")
    return torch.roll(x, shifts, dims)


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """``tensor1 @ tensor2.transpose(-2, -1)``."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def dropout_with_byte_mask(input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """``torch.nn.functional.dropout``."""
    return nn.functional.dropout(input1, p, training, inplace)


def fuse_add_softmax_dropout(training: bool, dropout: nn.Module, attn_mask: torch.Tensor, attn_scores: torch.Tensor,
                             attn_head_size: float, p: float = 0.5, dim: int = -1) -> torch.Tensor:
    """``dropout(softmax(attn_scores / sqrt(attn_head_size) + attn_mask, dim))`` of scores [N, C, H, W].

    One operator, whose dropout has probability ``p`` in training and else 0, where H is 128, 256, 384 or 512 and N * C a multiple
    of 32.
    """
    import torch_npu

    alpha = 1 / math.sqrt(attn_head_size)
    batches, heads, rows, _ = attn_scores.shape
    if rows in (128, 256, 384, 512) and batches * heads % 32 == 0:
        return torch_npu.npu_dropout_with_add_softmax(attn_scores, attn_mask, alpha, p if training else 0.0, dim)[2]
    return dropout(torch.softmax(attn_scores * alpha + attn_mask, dim))


def npu_fused_attention(hidden_states: torch.Tensor, attention_mask: torch.Tensor, query_kernel: torch.Tensor,
                        key_kernel: torch.Tensor, value_kernel: torch.Tensor, query_bias: Optional[torch.Tensor],
                        key_bias: Optional[torch.Tensor], value_bias: Optional[torch.Tensor], scale: float = 1,
                        keep_prob: float = 0) -> torch.Tensor:
    """BERT's attention of rows [batch * length, hidden], in as many heads as the mask [batch, heads, length, length] has.

    ``*_kernel``: [hidden, hidden], multiplied from the right. ``scale`` is the factor of the scores, to which the mask is added.
    ``keep_prob``: of the dropout; 0 is none. Result: [batch * length, hidden].
    """
    batch, heads, length, _ = attention_mask.shape

    def project(kernel: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
        rows = hidden_states @ kernel
        rows = rows if bias is None else rows + bias
        return rows.view(batch, length, heads, -1).transpose(1, 2)

    query, key, value = project(query_kernel, query_bias), project(key_kernel, key_bias), project(value_kernel, value_bias)
    weights = torch.softmax(query @ key.transpose(-1, -2) * scale + attention_mask, -1)
    if 0 < keep_prob < 1:
        weights = nn.functional.dropout(weights, 1 - keep_prob)
    return (weights @ value).transpose(1, 2).reshape(batch * length, -1)


def npu_fused_attention_with_layernorm(hidden_states: torch.Tensor, attention_mask: torch.Tensor, query_kernel: torch.Tensor,
                                       key_kernel: torch.Tensor, value_kernel: torch.Tensor, query_bias: Optional[torch.Tensor],
                                       key_bias: Optional[torch.Tensor], value_bias: Optional[torch.Tensor], gamma: torch.Tensor,
                                       beta: torch.Tensor, scale: float = 1, keep_prob: float = 0) -> List[torch.Tensor]:
    """[the layer norm of the rows, :func:`npu_fused_attention` of it]."""
    normal = nn.functional.layer_norm(hidden_states, hidden_states.shape[-1:], gamma, beta)
    return [normal, npu_fused_attention(normal, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias,
                                        value_bias, scale, keep_prob)]
