"""Tokens in the order of their experts, by a map [tokens, experts] of which expert takes which token, and back.

A row of the permuted tokens is called slot. Without ``drop_and_pad`` every token has the same number k of experts, and
``sorted_indices`` has, token by token, the slots of its copies. With it every expert has the same number of slots, its
capacity, and ``sorted_indices`` has the token of each slot.
"""

from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def _experts_of_slots(tokens: Tensor, experts: int, routing_map: Optional[Tensor], drop_and_pad: bool) -> Tensor:
    """[slots]: the expert of each slot."""
    if drop_and_pad:
        return torch.arange(experts, device=tokens.device).repeat_interleave(tokens.numel() // max(1, experts))
    if routing_map is None:
        raise ValueError("routing_map is needed where there are probs")
    return routing_map.bool().t().nonzero()[: tokens.numel(), 0]


def _tokens_of_slots(sorted_indices: Tensor, count: int, drop_and_pad: bool) -> Tensor:
    """[slots]: the token of each slot, of ``count`` tokens."""
    if drop_and_pad:
        return sorted_indices.long()
    copies = sorted_indices.numel() // max(1, count)
    tokens = torch.arange(sorted_indices.numel(), device=sorted_indices.device) // max(1, copies)
    return torch.empty_like(tokens).scatter(0, sorted_indices.long(), tokens)


def npu_moe_token_permute_with_routing_map(
    tokens: Tensor,
    routing_map: Tensor,
    *,
    probs: Optional[Tensor] = None,
    num_out_tokens: Optional[int] = None,
    drop_and_pad: bool = False,
) -> Tuple[Tensor, Optional[Tensor], Tensor]:
    """Copies ``tokens`` [n, H] into the order of the experts that ``routing_map`` (bool or int8 [n, experts]) gives them to.

    ``num_out_tokens``: the number of slots, n by default, rounded down to a multiple of n, or of the experts with
    ``drop_and_pad``. Returns (rows [slots, H], ``probs`` [n, experts] of the slots (None without them), ``sorted_indices``
    int32 [slots]).
    """
    chosen = routing_map.bool().t()
    count, experts = routing_map.shape
    wanted = count if num_out_tokens is None else num_out_tokens
    if drop_and_pad:
        capacity = wanted // experts
        order = (~chosen).to(torch.int8).argsort(dim=1, stable=True)[:, :capacity]
        indices = token = order.reshape(-1)
        expert = torch.arange(experts, device=tokens.device).repeat_interleave(capacity)
    else:
        expert, token = chosen.nonzero()[: wanted // count * count].unbind(1)
        indices = token.argsort(stable=True)
    permuted_probs = None if probs is None else probs[token, expert]
    return tokens[token], permuted_probs, indices.int()


def npu_moe_token_permute_with_routing_map_grad(
    permuted_token_out_grad: Tensor,
    probs_grad: Optional[Tensor],
    sorted_indices: Tensor,
    routing_map: Tensor,
    experts_num: int,
    tokens_num: int,
    drop_and_pad: bool,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Gradients of :func:`npu_moe_token_permute_with_routing_map` for tokens [tokens_num, H] and probs.

    The second is None without ``probs_grad``.
    """
    token = _tokens_of_slots(sorted_indices, tokens_num, drop_and_pad)
    rows = wide(permuted_token_out_grad)
    grad = rows.new_zeros(tokens_num, rows.shape[1]).index_add(0, token, rows).to(permuted_token_out_grad.dtype)
    if probs_grad is None:
        return grad, None
    expert = _experts_of_slots(token, experts_num, routing_map, drop_and_pad)
    return grad, probs_grad.new_zeros(tokens_num, experts_num).index_put((token, expert), probs_grad, accumulate=True)


def _npu_moe_token_unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: Sequence[int],
    *,
    probs: Optional[Tensor] = None,
    routing_map: Optional[Tensor] = None,
    drop_and_pad: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
    """As :func:`npu_moe_token_unpermute_with_routing_map`, with what its gradient needs.

    Returns (tokens, slots int32 and their tokens int32, [slots] both and in the order of the tokens, and ``probs`` of the slots).
    """
    token = _tokens_of_slots(sorted_indices, restore_shape[0], drop_and_pad)
    rows = wide(permuted_tokens)
    permuted_probs = None
    if probs is not None:
        expert = _experts_of_slots(token, probs.shape[1], routing_map, drop_and_pad)
        permuted_probs = probs[token, expert]
        rows = rows * wide(permuted_probs).unsqueeze(1)
    out = rows.new_zeros(tuple(restore_shape)).index_add(0, token, rows).to(permuted_tokens.dtype)
    if drop_and_pad:
        owner, slot = token.sort(stable=True)
    else:
        slot = sorted_indices
        owner = token[slot.long()]
    return out, slot.int(), owner.int(), permuted_probs


def npu_moe_token_unpermute_with_routing_map(*args: Any, **options: Any) -> Tensor:
    """Adds up the slots of each token, times ``probs`` [n, experts]: [n, H], which is ``restore_shape``.

    ``sorted_indices``: of :func:`npu_moe_token_permute_with_routing_map`; ``routing_map``: needed with probs, unless
    ``drop_and_pad``.
    """
    return torch.ops.npu._npu_moe_token_unpermute_with_routing_map(*args, **options)[0]


def npu_moe_token_unpermute_with_routing_map_grad(
    unpermuted_tokens_grad: Tensor,
    out_index: Tensor,
    permuted_token_id: Tensor,
    routing_map: Optional[Tensor],
    permuted_tokens: Optional[Tensor],
    probs: Optional[Tensor],
    drop_and_pad: bool,
    restore_shape: Sequence[int],
) -> Tuple[Tensor, Optional[Tensor]]:
    """Gradients of :func:`npu_moe_token_unpermute_with_routing_map` for permuted_tokens and probs (None without probs).

    ``out_index`` and ``permuted_token_id``: the second and third result of :func:`_npu_moe_token_unpermute_with_routing_map`.
    """
    owner = permuted_token_id.long()
    token = torch.empty_like(owner).scatter(0, out_index.long(), owner)
    rows = wide(unpermuted_tokens_grad)[token]
    if probs is None:
        return rows.to(unpermuted_tokens_grad.dtype), None
    expert = _experts_of_slots(token, probs.shape[1], routing_map, drop_and_pad)
    by_slot = (rows * wide(permuted_tokens)).sum(1).to(probs.dtype)
    grad_probs = torch.zeros_like(probs).index_put((token, expert), by_slot, accumulate=True)
    return (rows * wide(probs[token, expert]).unsqueeze(1)).to(unpermuted_tokens_grad.dtype), grad_probs
