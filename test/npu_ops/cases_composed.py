"""Inputs of the operators of torch_npu/_composed.py: CASES, as in cases.py."""

import torch


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def _call(*args, **kwargs):
    return args, kwargs


# Native sparse attention: windows of 4 tokens every 2, blocks of 4; sequences of 9 and 12 tokens have 3 and 5 windows.
def _compressed(d):
    return randn(21, 4, 8, dtype=d), randn(8, 2, 8, dtype=d), randn(8, 2, 6, dtype=d)


_NSA = dict(actual_seq_qlen=[9, 21], actual_cmp_seq_kvlen=[3, 8])
_SEEN = (torch.arange(5) * 2 + 3) > torch.arange(12).unsqueeze(1)
_OWN_BLOCK = torch.arange(12).unsqueeze(1) // 4 == torch.arange(3)


def _chosen(d):
    places = torch.stack([torch.randperm(3)[:2] for _ in range(42)]).view(21, 2, 2).int()
    places[0, 0, 1] = -1
    return randn(21, 4, 8, dtype=d), randn(21, 2, 8, dtype=d), randn(21, 2, 6, dtype=d), places


_TABLE = torch.tensor([[4, 1, 0], [2, 5, 3]], dtype=torch.int32)


def _paged(d, tokens=1, flat=True):
    query, key, value = randn(2, tokens, 4, 8, dtype=d), randn(6, 4, 2, 8, dtype=d), randn(6, 4, 2, 6, dtype=d)
    return (query, key.flatten(2), value.flatten(2)) if flat else (query, key, value)


CASES = {
    "npu_nsa_compress": [lambda d: _call(randn(21, 3, 8, dtype=d), randn(4, 3, dtype=d), 4, 2, actual_seq_len=[9, 12, 21])],
    "npu_nsa_compress_grad": [
        lambda d: _call(randn(6, 3, 8, dtype=d), randn(21, 3, 8, dtype=d), randn(4, 3, dtype=d), 4, 2, actual_seq_len=[9, 12, 21])],
    "npu_nsa_compress_infer": [
        lambda d: _call(randn(6, 4, 3, 8, dtype=d), randn(4, 3, dtype=d), torch.tensor([5, 2], dtype=torch.int32), 4, 2, 4,
                        block_table=_TABLE, actual_seq_len=[n, 10], cache=randn(7, 3, 8, dtype=d)) for n in (8, 7)],
    "npu_nsa_compress_attention": [
        lambda d: _call(*_compressed(d), 0.4, 4, 4, 2, 4, 2, **_NSA),
        lambda d: _call(*_compressed(d), 0.4, 4, 4, 2, 4, 3, topk_mask=_OWN_BLOCK, atten_mask=_SEEN, actual_sel_seq_kvlen=[2, 5], **_NSA)],
    "npu_nsa_compress_attention_infer": [
        lambda d: _call(_paged(d)[0].squeeze(1), *_paged(d)[1:], 0.4, 4, 2, 4, 2, 4, 4, 2, block_table=_TABLE, actual_cmp_seq_kvlen=[9, 4]),
        lambda d: _call(*_paged(d, flat=False), 0.4, 4, 2, 4, 6, 4, 4, 2, layout="BSND", block_table=_TABLE, actual_cmp_seq_kvlen=[9, 4])],
    "npu_nsa_select_attention": [
        lambda d: _call(*_chosen(d), 0.4, 4, 4, 2, actual_seq_qlen=[9, 21], actual_seq_kvlen=[9, 21]),
        lambda d: _call(*_chosen(d), 0.4, 4, 4, 2, atten_mask=torch.ones(2048, 2048, dtype=torch.bool).triu(1),
                        actual_seq_qlen=[9, 21], actual_seq_kvlen=[9, 21])],
    "npu_nsa_select_attention_grad": [
        lambda d: _call(randn(21, 4, 6, dtype=d), *_chosen(d)[:3], randn(21, 4, 6, dtype=d), torch.zeros(21, 4, 8), torch.zeros(21, 4, 8),
                        _chosen(d)[3], 0.4, 4, 4, 2, actual_seq_qlen=[9, 21], actual_seq_kvlen=[9, 21])],
    "npu_nsa_select_attention_infer": [
        lambda d: _call(*_paged(d), torch.tensor([[[1, 0], [0, 2]], [[1, -1], [0, 1]]], dtype=torch.int32), 0.4, 4, 2, 4, 2, 4,
                        block_table=_TABLE, actual_seq_kvlen=[9, 7]),
        lambda d: _call(_paged(d, 2)[0].flatten(2), *_paged(d, 2, False)[1:], torch.randint(0, 2, (2, 2, 2, 2), dtype=torch.int32), 0.4, 4, 2, 4,
                        2, 4, layout="BSH", block_table=_TABLE, actual_seq_kvlen=[9, 7])],
}
