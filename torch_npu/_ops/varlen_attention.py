"""Kernels of torch.nn.attention.varlen for the NPU: attention over packed sequences of different lengths.

PyTorch's own kernels call FlashAttention of CUDA. CANN's takes the lengths as numbers of the host, so that a call waits for
the tensors that hold them, and cannot be captured into a graph.
"""

import itertools
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor

import torch_npu
from torch_npu._ops.signature import by_name

_ALL = 2147483647   # tokens before or behind one, without a limit
_LANES = 8          # the kernel keeps each row's number so many times
_NO_MASK, _CAUSAL, _BAND = 0, 3, 4


class _Packed(NamedTuple):
    """Sequences one behind the other: what of the tensors they take, and how CANN is told of them."""

    queries: int
    keys: int
    masked: List[slice]   # rows of queries that see no key
    options: Dict[str, Any]


def _window(given: Dict[str, Any]) -> Tuple[int, int]:
    """Tokens to the left and to the right of the last key's diagonal; negative: all."""
    left, right = given.get("window_size") or (-1, -1)
    return left, 0 if given["is_causal"] else right


def _packed(given: Dict[str, Any], query_ends: List[int], key_ends: List[int]) -> _Packed:
    query = given["query"]
    left, right = _window(given)
    mode = _NO_MASK if left < 0 and right < 0 else _CAUSAL if left < 0 and right == 0 else _BAND
    masked, first = [], 0
    for i, end in enumerate(query_ends):
        rows, columns = end - first, key_ends[i] - (key_ends[i - 1] if i else 0)
        unseen = rows if columns == 0 else min(rows, max(0, rows - columns - right)) if right >= 0 else 0
        if unseen:
            masked.append(slice(first, first + unseen))
        first = end
    options = {
        "actual_seq_qlen": query_ends, "actual_seq_kvlen": key_ends, "softmax_layout": "TND", "sparse_mode": mode,
        "atten_mask": None if mode == _NO_MASK else torch_npu._C._compressed_causal_mask(query.device),
        "pre_tockens": _ALL if left < 0 else left, "next_tockens": _ALL if right < 0 else right,
    }
    return _Packed(query_ends[-1] if query_ends else 0, key_ends[-1] if key_ends else 0, masked, options)


def _scale(given: Dict[str, Any]) -> float:
    scale = given["scale"]
    return given["query"].shape[-1] ** -0.5 if scale is None else scale


def _ends(starts: Tensor) -> List[int]:
    return starts.tolist()[1:]


def _used(given: Dict[str, Any]) -> Tuple[Tensor, Tensor, List[int]]:
    """The keys and values [T, heads, size] of a cache that take part, and where each sequence ends in them."""
    lengths, pages, caches = given["seqused_k"].tolist(), given.get("block_table"), (given["key"], given["value"])
    if pages is not None:
        cut = [torch.cat([cache[pages[i]].flatten(0, 1)[:length] for i, length in enumerate(lengths)]) for cache in caches]
    elif given["cu_seq_k"] is not None:
        spans = [slice(start, start + length) for start, length in zip(given["cu_seq_k"].tolist(), lengths)]
        cut = [torch.cat([cache[span] for span in spans]) for cache in caches]
    else:
        raise ValueError("varlen_attn: cu_seq_k may be None with block_table alone")
    return cut[0], cut[1], list(itertools.accumulate(lengths))


def _attend(given: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    """The output [T, heads, size] and the logsumexp [heads, T], float32."""
    query, key, value, starts = (given[name] for name in ("query", "key", "value", "cu_seq_k"))
    if given.get("seqused_k") is not None:
        key, value, key_ends = _used(given)
    elif given.get("block_table") is not None or starts is None:
        raise ValueError("varlen_attn: block_table needs seqused_k, and without it cu_seq_k is needed")
    else:
        key_ends = _ends(starts)
    packed = _packed(given, _ends(given["cu_seq_q"]), key_ends)
    out = torch.zeros_like(query)
    logsumexp = torch.full((query.shape[1], query.shape[0]), float("inf"), device=query.device)
    if packed.queries and packed.keys:
        result, largest, total, *_ = torch.ops.npu.npu_fusion_attention(
            query[:packed.queries], key[:packed.keys], value[:packed.keys], query.shape[1], "TND", scale=_scale(given),
            **packed.options)
        out[:packed.queries] = result
        logsumexp[:, :packed.queries] = (largest + total.log())[..., 0].t()
    for rows in packed.masked:
        out[rows] = 0
        logsumexp[:, rows] = float("inf")   # as FlashAttention has it: no exponent counts in the gradient
    return out, logsumexp


def _gradients(given: Dict[str, Any]) -> Tuple[Tensor, Tensor, Tensor]:
    query, key, value, out, grad_out = (given[name] for name in ("query", "key", "value", "out", "grad_out"))
    packed = _packed(given, _ends(given["cu_seq_q"]), _ends(given["cu_seq_k"]))
    gradients = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    if packed.queries and packed.keys:
        # Relative to the logsumexp, exponents have the sum one.
        rows = given["lse"][:, :packed.queries].t().unsqueeze(-1).expand(-1, -1, _LANES).contiguous()
        of_query, of_key, of_value, *_ = torch.ops.npu.npu_fusion_attention_grad(
            query[:packed.queries], key[:packed.keys], value[:packed.keys], grad_out[:packed.queries].contiguous(),
            query.shape[1], "TND", softmax_max=rows, softmax_sum=torch.ones_like(rows), attention_in=out[:packed.queries],
            scale_value=_scale(given), **packed.options)
        for gradient, part in zip(gradients, (of_query, of_key, of_value)):
            gradient[:part.shape[0]] = part
    return gradients


def register(varlen: Any) -> None:
    """``varlen``: torch.nn.attention.varlen, of any version that has these operators."""
    operators = {name: getattr(varlen, name) for name in ("_varlen_attn", "_varlen_attn_out", "_varlen_attn_backward")
                 if hasattr(varlen, name)}

    def given(name: str, args: Any, kwargs: Any) -> Dict[str, Any]:
        return by_name(operators[name]._opoverload, args, kwargs)

    def forward(*args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor, Tensor]:
        arguments = given("_varlen_attn", args, kwargs)
        # No dropout, which the state of random numbers would be for.
        return (*_attend(arguments), torch.zeros(2, dtype=torch.uint64, device=arguments["query"].device))

    def forward_out(*args: Any, **kwargs: Any) -> Tensor:
        arguments = given("_varlen_attn_out", args, kwargs)
        out, logsumexp = _attend(arguments)
        arguments["out"].copy_(out)
        return logsumexp

    def backward(*args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor, Tensor]:
        return _gradients(given("_varlen_attn_backward", args, kwargs))

    for name, kernel in (("_varlen_attn", forward), ("_varlen_attn_out", forward_out), ("_varlen_attn_backward", backward)):
        if name in operators:
            operators[name].register_kernel("npu", kernel)
