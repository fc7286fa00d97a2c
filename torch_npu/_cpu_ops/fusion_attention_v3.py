"""The third version of fused attention, for graphs: lengths, seeds and workspaces are tensors."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import no_workspace
from torch_npu._cpu_ops.into_given import into

_LENGTHS = (9, 10)  # the places of actual_seq_qlen and actual_seq_kvlen behind input_layout
_WITH_WORKSPACE = 22  # arguments of the overload with out that may come by position


def _numbers(ends: Optional[Tensor]) -> Optional[List[int]]:
    return None if ends is None else ends.tolist()


def npu_fusion_attention_v3(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, *args: Any
) -> Tuple[Tensor, ...]:
    """:func:`npu_fusion_attention` whose lengths are int64 tensors, and which returns the dropout's seed and offset as int64
    tensors of one element on the CPU, without the size. The host waits for the lengths."""
    if query.device.type == "meta" and len(args) > _LENGTHS[0] and args[_LENGTHS[0]] is not None:  # lengths without content
        out, top, total = _npu_fusion_attention_v3_infer_output(query, key, value, head_num, input_layout)
        return out, top, total, query.new_empty(0), *(torch.empty(1, dtype=torch.int64) for _ in range(2))
    given = [_numbers(argument) if place in _LENGTHS else argument for place, argument in enumerate(args)]
    *results, seed, offset, _ = torch.ops.npu.npu_fusion_attention(query, key, value, head_num, input_layout, *given)
    return (*results, torch.tensor([seed]), torch.tensor([offset]))


def _into_all(out: Sequence[Tensor], results: Tuple[Tensor, ...]) -> Tuple[Tensor, ...]:
    """The results, as many of them in ``out`` as it has."""
    return (*(into(given, result) for given, result in zip(out, results)), *results[len(out) :])


def npu_fusion_attention_v3_out(*args: Any, out: Sequence[Tensor]) -> Tuple[Tensor, ...]:
    """:func:`npu_fusion_attention_v3` into ``out``, its first results: attention, maximum and sum of the softmax.

    ``workspace`` is not needed: operators take their memory from the caching allocator. Returns all six results.
    """
    return _into_all(out, npu_fusion_attention_v3(*args[: _WITH_WORKSPACE - 1]))


_npu_fusion_attention_v3_get_max_workspace = no_workspace("npu_fusion_attention_v3")


def _npu_fusion_attention_v3_infer_output(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str
) -> Tuple[Tensor, Tensor, Tensor]:
    """Tensors for the results of :func:`npu_fusion_attention_v3`: (attention, maximum, sum of the softmax)."""
    if input_layout == "TND":
        sizes = [query.shape[0], head_num, 8]
    else:
        batch, rows = {"BNSD": (0, 2), "SBH": (1, 0)}.get(input_layout, (0, 1))
        sizes = [query.shape[batch], head_num, query.shape[rows], 8]
    maximum, total = (query.new_zeros(sizes, dtype=torch.float32) for _ in range(2))
    width = query.shape[-1] * value.shape[-1] // key.shape[-1]   # of one head, or of all
    return query.new_zeros([*query.shape[:-1], width]), maximum, total


def _weights(query: Tensor, key: Tensor, heads: int, layout: str) -> int:
    """How many weights the attention has, each with an element of the dropout's mask."""
    batch, rows = {"BNSD": (0, 2), "SBH": (1, 0)}.get(layout, (0, 1))
    return query.shape[batch] * heads * query.shape[rows] * key.shape[rows]


def npu_fusion_attention_grad_v3(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: Optional[Tensor] = None,
    keep_prob: float = 1.0,
    seed: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    actual_seq_qlen: Optional[Tensor] = None,
    actual_seq_kvlen: Optional[Tensor] = None,
    **options: Any,
) -> Tuple[Tensor, ...]:
    """Gradients of :func:`npu_fusion_attention_v3` for query, key, value and pse (empty without pse), and an empty tensor.

    ``softmax_max``, ``softmax_sum``, ``attention_in``, ``seed`` and ``offset``: its results. The host waits for lengths and
    seeds.
    """
    if query.device.type == "meta":
        return _npu_fusion_attention_grad_v3_infer_output(query, key, value, pse)
    dropped = keep_prob < 1
    return torch.ops.npu.npu_fusion_attention_grad(
        query,
        key,
        value,
        dy,
        head_num,
        input_layout,
        pse=pse,
        keep_prob=keep_prob,
        seed=int(seed) if dropped and seed is not None else 0,
        offset=int(offset) if dropped and offset is not None else 0,
        numels=_weights(query, key, head_num, input_layout) if dropped else 0,
        actual_seq_qlen=_numbers(actual_seq_qlen),
        actual_seq_kvlen=_numbers(actual_seq_kvlen),
        **options,
    )


def npu_fusion_attention_grad_v3_out(
    *args: Any, workspace: Optional[Tensor] = None, out: Sequence[Tensor], **options: Any
) -> Tuple[Tensor, ...]:
    """:func:`npu_fusion_attention_grad_v3` into ``out``, its first results. ``workspace`` is not needed. Returns all five."""
    return _into_all(out, npu_fusion_attention_grad_v3(*args, **options))


_npu_fusion_attention_grad_v3_get_max_workspace = no_workspace("npu_fusion_attention_grad_v3")


def _npu_fusion_attention_grad_v3_infer_output(
    query: Tensor, key: Tensor, value: Tensor, pse: Optional[Tensor] = None, sink: Optional[Tensor] = None
) -> Tuple[Tensor, ...]:
    """Tensors for the results of :func:`npu_fusion_attention_grad_v3`: gradients of query, key, value, pse and sink."""
    given = (query, key, value, pse, sink)
    return tuple(query.new_empty(0) if t is None else torch.zeros_like(t) for t in given)
