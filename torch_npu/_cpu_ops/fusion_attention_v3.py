"""The third version of fused attention, for graphs: lengths, seeds and workspaces are tensors."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import with_arguments_of
from torch_npu._cpu_ops.into_given import into

_UNLIMITED = 2147483647


def _numbers(ends: Optional[Tensor]) -> Optional[List[int]]:
    return None if ends is None else ends.tolist()


def npu_fusion_attention_v3(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Optional[Tensor] = None,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _UNLIMITED,
    next_tockens: int = _UNLIMITED,
    inner_precise: int = 0,
    prefix: Optional[Sequence[int]] = None,
    actual_seq_qlen: Optional[Tensor] = None,
    actual_seq_kvlen: Optional[Tensor] = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`npu_fusion_attention` whose lengths are int64 tensors, and which returns the dropout's seed and offset as int64
    tensors of one element, without the size. The host waits for the lengths."""
    if query.device.type == "meta" and actual_seq_qlen is not None:  # lengths without content
        out, top, total = _npu_fusion_attention_v3_infer_output(query, key, value, head_num, input_layout)
        return out, top, total, query.new_empty(0), *(query.new_empty(1, dtype=torch.int64) for _ in range(2))
    *results, seed, offset, _ = torch.ops.npu.npu_fusion_attention(
        query,
        key,
        value,
        head_num,
        input_layout,
        pse,
        padding_mask,
        atten_mask,
        scale,
        keep_prob,
        pre_tockens,
        next_tockens,
        inner_precise,
        prefix,
        _numbers(actual_seq_qlen),
        _numbers(actual_seq_kvlen),
        sparse_mode,
        gen_mask_parallel,
        sync,
        softmax_layout,
        sink,
    )
    return (*results, torch.tensor([seed], device=query.device), torch.tensor([offset], device=query.device))


def _into_all(out: Sequence[Tensor], results: Tuple[Tensor, ...]) -> Tuple[Tensor, ...]:
    """The results, as many of them in ``out`` as it has."""
    return (*(into(given, result) for given, result in zip(out, results)), *results[len(out) :])


_WITH_WORKSPACE = 22  # arguments of the overload that may come by position


@with_arguments_of(npu_fusion_attention_v3, "workspace?", "out")
def npu_fusion_attention_v3_out(*args: object, out: Sequence[Tensor], **options: object) -> Tuple[Tensor, ...]:
    """:func:`npu_fusion_attention_v3` into ``out``, its first results: attention, maximum and sum of the softmax.

    ``workspace`` is not needed: operators take their memory from the caching allocator. Returns all six results.
    """
    options.pop("workspace", None)
    return _into_all(out, npu_fusion_attention_v3(*args[: _WITH_WORKSPACE - 1], **options))


@with_arguments_of(npu_fusion_attention_v3)
def _npu_fusion_attention_v3_get_max_workspace(query: Tensor, *args: object, **options: object) -> Tensor:
    """The workspace for :func:`npu_fusion_attention_v3`: empty, since operators take their memory from the caching allocator."""
    return query.new_empty(0, dtype=torch.uint8)


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
    return torch.zeros_like(query), maximum, total


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
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    softmax_max: Optional[Tensor] = None,
    softmax_sum: Optional[Tensor] = None,
    softmax_in: Optional[Tensor] = None,
    attention_in: Optional[Tensor] = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _UNLIMITED,
    next_tockens: int = _UNLIMITED,
    inner_precise: int = 0,
    seed: Optional[Tensor] = None,
    offset: Optional[Tensor] = None,
    prefix: Optional[Sequence[int]] = None,
    actual_seq_qlen: Optional[Tensor] = None,
    actual_seq_kvlen: Optional[Tensor] = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
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
        padding_mask=padding_mask,
        atten_mask=atten_mask,
        softmax_max=softmax_max,
        softmax_sum=softmax_sum,
        softmax_in=softmax_in,
        attention_in=attention_in,
        scale_value=scale_value,
        keep_prob=keep_prob,
        pre_tockens=pre_tockens,
        next_tockens=next_tockens,
        inner_precise=inner_precise,
        seed=int(seed) if dropped and seed is not None else 0,
        offset=int(offset) if dropped and offset is not None else 0,
        numels=_weights(query, key, head_num, input_layout) if dropped else 0,
        prefix=prefix,
        actual_seq_qlen=_numbers(actual_seq_qlen),
        actual_seq_kvlen=_numbers(actual_seq_kvlen),
        sparse_mode=sparse_mode,
        gen_mask_parallel=gen_mask_parallel,
        sync=sync,
        softmax_layout=softmax_layout,
        sink=sink,
    )


@with_arguments_of(npu_fusion_attention_grad_v3, "workspace?", "out")
def npu_fusion_attention_grad_v3_out(
    *args: object, workspace: Optional[Tensor] = None, out: Sequence[Tensor], **options: object
) -> Tuple[Tensor, ...]:
    """:func:`npu_fusion_attention_grad_v3` into ``out``, its first results. ``workspace`` is not needed. Returns all five."""
    return _into_all(out, npu_fusion_attention_grad_v3(*args, **options))


@with_arguments_of(npu_fusion_attention_grad_v3)
def _npu_fusion_attention_grad_v3_get_max_workspace(query: Tensor, *args: object, **options: object) -> Tensor:
    """The workspace for :func:`npu_fusion_attention_grad_v3`: empty, as that of :func:`npu_fusion_attention_v3`."""
    return query.new_empty(0, dtype=torch.uint8)


def _npu_fusion_attention_grad_v3_infer_output(
    query: Tensor, key: Tensor, value: Tensor, pse: Optional[Tensor] = None, sink: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tensors for the results of :func:`npu_fusion_attention_grad_v3`: gradients of query, key, value, pse and sink."""
    given = (query, key, value, pse, sink)
    return tuple(query.new_empty(0) if t is None else torch.zeros_like(t) for t in given)
