"""Native sparse attention of new tokens, with keys in pages."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import unsupported, wide
from torch_npu._cpu_ops.inference_attention import pages_of
from torch_npu._cpu_ops.native_sparse import (
    _best_blocks,
    _heads_first,
    _importance,
    _in_blocks,
    _shared_strides,
    _softmax,
)


def _tokens_of(name: str, query: Tensor, layout: str, heads: int, batch: int) -> Tensor:
    """A query as [batch, tokens of each, heads, size]."""
    dims = {"TND": 3, "BSH": 3, "BSND": 4}.get(layout)
    if dims is None or query.dim() != dims:
        raise NotImplementedError(
            f"{name}: a query of {query.dim()} dimensions in the layout {layout!r}; BSND, BSH and TND are supported"
        )
    if layout == "BSH":
        return query.unflatten(-1, (heads, -1))
    if layout == "TND":
        if query.shape[0] % batch:
            raise NotImplementedError(f"{name}: {query.shape[0]} tokens of {batch} sequences; each must have the same number")
        return query.unflatten(0, (batch, -1))
    return query


def _paged(name: str, block_table: Optional[Tensor], lengths: Optional[Sequence[int]], argument: str) -> Tuple[Tensor, List[int]]:
    if block_table is None or lengths is None:
        raise ValueError(f"{name}: block_table and {argument} must be given")
    return block_table, list(lengths)


def _pages(cache: Tensor, table: Tensor, heads: int, length: int) -> Tensor:
    """The keys of one sequence, [heads, length, size]; pages are [rows, heads * size] or [rows, heads, size]."""
    return wide(pages_of(cache.flatten(2), table, heads, length))


def _width(value: Tensor, heads: int) -> int:
    return value.flatten(2).shape[-1] // heads


def npu_nsa_compress_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    compress_block_size: int,
    compress_stride: int,
    *,
    layout: str = "TND",
    block_table: Optional[Tensor] = None,
    actual_cmp_seq_kvlen: Optional[Sequence[int]] = None,
    **given: Any,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_nsa_compress_attention` of one new token of each sequence, with compressed keys in pages.

    ``query``: [batch, head_num, size] ("TND") or [batch, 1, head_num, size] ("BSND"); ``key`` and ``value``: [pages,
    page_block_size, kv heads * size] or [pages, page_block_size, kv heads, size]; ``block_table``: int32 [batch, pages of a
    sequence]; ``actual_cmp_seq_kvlen``: the compressed keys of each sequence. Returns (attention in the query's layout, places
    int32 [..., kv heads, select_block_count]). Raises NotImplementedError for masks and for several tokens.
    """
    name = "npu_nsa_compress_attention_infer"
    unsupported(name, "actual_seq_qlen", "actual_sel_seq_kvlen", **given)
    table, lengths = _paged(name, block_table, actual_cmp_seq_kvlen, "actual_cmp_seq_kvlen")
    tokens = _tokens_of(name, query, layout, head_num, len(lengths))
    if tokens.shape[1] != 1:
        raise NotImplementedError(f"{name}: {tokens.shape[1]} tokens of each sequence are not supported, one is")
    lead, width = query.shape[:-2] if layout != "BSH" else query.shape[:-1], _width(value, key_value_head_num)
    if query.device.type == "meta":
        places = query.new_empty(*lead, key_value_head_num, select_block_count, dtype=torch.int32)
        return query.new_empty(*lead, *((head_num, width) if layout != "BSH" else (head_num * width,))), places
    out, chosen, groups = [], [], head_num // key_value_head_num
    for b, length in enumerate(lengths):
        keys, values = (_pages(t, table[b], key_value_head_num, length).repeat_interleave(groups, 0) for t in (key, value))
        weights, _, _ = _softmax(_heads_first(tokens[b]), keys, scale_value, None)
        blocks = -(-length // (select_block_size // compress_stride))
        shared = _shared_strides(length, blocks, compress_block_size, compress_stride, select_block_size, query.device)
        out.append(torch.matmul(weights, values).transpose(0, 1))
        chosen.append(_best_blocks(_importance(weights, key_value_head_num, shared), select_block_count))
    result = torch.stack(out).to(query.dtype)
    result = result.reshape(*lead, *(result.shape[-2:] if layout != "BSH" else (-1,)))
    return result, torch.stack(chosen).reshape(*lead, key_value_head_num, select_block_count)


def npu_nsa_select_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    *,
    layout: str = "BSND",
    block_table: Optional[Tensor] = None,
    actual_seq_kvlen: Optional[Sequence[int]] = None,
    **given: Any,
) -> Tensor:
    """:func:`npu_nsa_select_attention` of the newest tokens of each sequence, with keys in pages.

    ``query``: [batch, tokens, head_num, size] ("BSND"), [batch, tokens, head_num * size] ("BSH") or [batch * tokens, head_num,
    size] ("TND"); ``key`` and ``value``: [pages, page_block_size, kv heads * size] or [pages, page_block_size, kv heads, size];
    ``topk_indices``: int32 [batch, kv heads, select_block_count], with tokens behind batch where there are several;
    ``actual_seq_kvlen``: the keys of each sequence, of which a token sees those up to its own. Returns the attention in the
    query's layout. Raises NotImplementedError for ``atten_mask``.
    """
    name = "npu_nsa_select_attention_infer"
    unsupported(name, "actual_seq_qlen", **given)
    table, lengths = _paged(name, block_table, actual_seq_kvlen, "actual_seq_kvlen")
    tokens = _tokens_of(name, query, layout, head_num, len(lengths))
    batch, rows = tokens.shape[:2]
    width, groups = _width(value, key_value_head_num), head_num // key_value_head_num
    shape = (*query.shape[:2], head_num * width) if layout == "BSH" else (*query.shape[:-1], width)
    if query.device.type == "meta":
        return query.new_empty(shape)
    places = topk_indices.reshape(batch, rows, key_value_head_num, select_block_count)
    out = []
    for b, length in enumerate(lengths):
        keys, values = (_pages(t, table[b], key_value_head_num, length).repeat_interleave(groups, 0) for t in (key, value))
        hidden = ~_in_blocks(places[b], select_block_size, length).repeat_interleave(groups, 0)
        later = torch.ones(rows, length, dtype=torch.bool, device=query.device).triu(length - rows + 1)
        weights, _, _ = _softmax(_heads_first(tokens[b]), keys, scale_value, hidden | later)
        out.append(torch.matmul(weights, values).transpose(0, 1))
    return torch.stack(out).to(query.dtype).reshape(shape)
