"""Inputs of the operators of torch_npu/_ops/composed.py: CASES, as in cases.py."""
import torch
from case_inputs import call as _call, randn


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


# Attention to some keys: two sequences of 3 and 4 tokens, of 6 and 9 keys.
def _causal_places(d, count=4):
    """Places for 3 tokens of 6 keys and 4 of 9, some not seen, -1 behind the others."""
    rows = []
    for tokens, keys in ((3, 6), (4, 9)):
        for i in range(tokens):
            seen = torch.randperm(keys - tokens + i + 1)[:count]
            rows.append(torch.nn.functional.pad(seen, (0, count - len(seen)), value=-1))
    rows[1][-1] = -1
    return torch.stack(rows).int().unsqueeze(1)


_PACKED = dict(actual_seq_lengths_query=torch.tensor([3, 7], dtype=torch.int32), actual_seq_lengths_kv=torch.tensor([6, 15], dtype=torch.int32))


def _latent(d, value=True):
    """Query, key, value and places, packed; ropes."""
    q, k, v = randn(7, 4, 8, dtype=d), randn(15, 1, 8, dtype=d), randn(15, 1, 8, dtype=d) if value else None
    return (q, k, v, _causal_places(d)), dict(query_rope=randn(7, 4, 4, dtype=d), key_rope=randn(15, 1, 4, dtype=d))


def _sparse_flash(d, value=True, **more):
    args, ropes = _latent(d, value)
    return _call(*args, 0.4, layout_query="TND", layout_kv="TND", **_PACKED, **ropes, **more)


def _block_mask():
    mask = (torch.rand(2, 4, 3, 3) < 0.6).to(torch.int8)
    mask[:, :, 1] = torch.tensor([1, 0, 1])
    mask[0, 0, 0] = 0
    return mask


_BLOCKS = dict(num_key_value_heads=2, scale_value=0.4)


def _indexer(d, batch=True):
    """Query, key and weights of the indexer: 2 sequences of 4 tokens and 6 keys, or packed ones of 3 and 4, 6 and 9."""
    lead = ((2, 4), (2, 6)) if batch else ((7,), (15,))
    return randn(*lead[0], 3, 8, dtype=d), randn(*lead[1], 1, 8, dtype=d), randn(*lead[0], 3, dtype=d)


def _statistics(scores):
    top = scores.amax(-1)
    return top, torch.exp(scores - top.unsqueeze(-1)).sum(-1)


def _dense_loss(d):
    query, key, rope, key_rope = randn(2, 4, 2, 8, dtype=d), randn(2, 6, 2, 8, dtype=d), randn(2, 4, 2, 4, dtype=d), randn(2, 6, 2, 4, dtype=d)
    index = _indexer(d)
    later = torch.ones(4, 6, dtype=torch.bool).triu(3)
    scores = torch.einsum("bsnd,bknd->bnsk", torch.cat([query, rope], -1).float(), torch.cat([key, key_rope], -1).float()) * 0.3
    top, total = _statistics(scores.masked_fill(later, float("-inf")))
    found = (torch.einsum("bsnd,bkd->bsnk", index[0].float(), index[1].float()[:, :, 0]).relu() * index[2].float().unsqueeze(-1)).sum(2)
    own = _statistics(found.masked_fill(later, float("-inf")))
    return _call(query, key, *index, top.unsqueeze(-1), total.unsqueeze(-1), *(t.unsqueeze(1) for t in own), 0.3, query_rope=rope, key_rope=key_rope)


def _sparse_loss(d):
    (query, key, _, places), ropes = _latent(d)
    top, total = torch.randn(1, 7, 4), torch.rand(1, 7, 4) + 1
    return _call(query, key, *_indexer(d, False), places, top, total, 0.4, layout="TND", actual_seq_qlen=[3, 7], actual_seq_klen=[6, 15], **ropes)


def _network(d, gates, layers=2, states=1):
    """Arguments of a whole network of two directions: input, states, weights."""
    hidden, weights = 3, []
    for layer in range(layers):
        for _ in range(2):
            weights += [randn(gates * hidden, 2 * hidden if layer else 4, dtype=d), randn(gates * hidden, hidden, dtype=d)]
            weights += [randn(gates * hidden, dtype=d) for _ in range(2)]
    h = [randn(2 * layers, 2, hidden, dtype=d) for _ in range(states)]
    return [randn(5, 2, 4, dtype=d), h if states > 1 else h[0], weights]


_NETWORK = (True, 2, 0.0, True, True)


def _with_kept(name, network, results):
    """A network's arguments and, behind them, what its forward keeps for the gradient, behind so many results."""
    return (*network, *getattr(torch.ops.npu, name)(*network, *_NETWORK)[results:])


def _many(d, count, *shape):
    return [randn(*shape, dtype=d) for _ in range(count)]


def _attention(d, count=3):
    return [randn(2, 4, 6, 8, dtype=d) for _ in range(count)]


def _step(*numbers, **more):
    return lambda d: _call(*numbers[:4], randn(3, 5, dtype=d), *numbers[4:], out=[randn(3, 5, dtype=d), randn(3, 5, dtype=d), torch.rand(3, 5).to(d)], **more)


def _float8(*shape):
    return torch.randn(shape).to(torch.float8_e4m3fn)


def _quant_attention(count=3):
    """Query, key, value of 130, 300 and 300 tokens: two blocks of queries and of keys, one of values."""
    sizes = [(1, 130, 4, 8), (1, 300, 2, 8), (1, 300, 2, 8), (1, 130, 4, 8)][:count]
    blocks = [(1, 4, 2, 1), (1, 2, 2, 1), (1, 2, 1, 1), (1, 4, 2, 1)][:count]
    return [_float8(*s) for s in sizes], [torch.rand(b) * 0.5 + 0.5 for b in blocks]


def _packed_weight(d):
    """float4 weights [n, k / 2] and their scales [n, k / 64, 2], seen transposed."""
    weight = torch.randint(0, 256, (16, 32), dtype=torch.uint8).t()
    return weight, torch.randint(120, 130, (16, 1, 2), dtype=torch.uint8).transpose(0, 1)


CASES = {
    "npu_weight_quant_preprocess": [lambda d: _call(*_packed_weight(d), 292, 296, 293, bias=randn(16, dtype=d), x_scale_dtype=293)],
    "_npu_silent_check": [
        lambda d: _call(randn(3, 4, dtype=d), torch.tensor(v).to(d), *(torch.tensor([x]) for x in (1.0, 0.5, 2.0)), torch.tensor([9]), 7, 1e4, 100.0,
                        1e2, 10.0) for v in (1.5, 50.0, 1e9, float("nan"))],
    "_npu_silent_check_v2": [
        lambda d: _call(torch.tensor(v).to(d), randn(3, 4, dtype=d), torch.tensor([1.0, 0.5, 2.0]), torch.tensor([9]), 7, 1e4, 100.0, 1e2, 10.0, m)
        for v, m in ((1.5, 1), (50.0, 2), (20000.0, 1), (20000.0, 2))],
    "_npu_silent_check_v3": [
        lambda d: _call(torch.tensor([v]).to(d), randn(3, 4, dtype=d), torch.tensor([s]), torch.tensor([2.0]), torch.tensor([0.5]), 1e4, 10.0, 0.5, m)
        for v, s, m in ((1.5, 0, 1), (8.0, 3, 2), (20000.0, 3, 1), (20000.0, 3, 2))],
    "_npu_matmul_abft_verify": [
        lambda d: _call(*(lambda a, b: (a, b, a.float() @ b.float()))(randn(11, 6, dtype=d), randn(6, 300, dtype=d)), torch.rand(300).to(d), e_max=0.01)],
    "npu_bert_apply_adam": [
        _step(0.1, 0.9, 0.99, 1e-6, 1.0, 4.0, 0.01), _step(0.1, 0.9, 0.99, 1e-6, 1.0, 4.0, 0.01, step_size=0.05, adam_mode=1)],
    "_npu_format_cast": [lambda d: _call(randn(3, 4, dtype=d), 2)],
    "npu_moe_gating_top_k_backward": [
        lambda d: _call(torch.rand(5, 8), randn(5, 2, dtype=d), torch.tensor([[0, 3], [1, 7], [2, 4], [5, 0], [6, 3]], dtype=torch.int32), norm_type=n,
                        routed_scaling_factor=1.5) for n in (0, 1)],
    "npu_multi_head_attention_backward": [
        lambda d: _call(*_many(d, 1, 6, 8), *_many(d, 2, 8, 8), *_many(d, 4, 8, 8), *_many(d, 4, 8), *_many(d, 1, 2, 2, 3, 4), *_many(d, 2, 2, 2, 4, 4),
                        *_many(d, 2, 2, 2, 3, 4), *_many(d, 2, 6, 8), torch.ones(2, 2, 3, 4, dtype=torch.uint8), 2, 4, 4, 3, 0.25, True)],
    "npu_fused_attention_layernorm_qkv_fwd": [
        lambda d: _call(randn(6, 8, dtype=d), *_many(d, 3, 8, 8), *_many(d, 2, 8), *_many(d, 3, 8), 3, 2),
        lambda d: _call(randn(6, 8, dtype=d), *_many(d, 3, 8, 8), *_many(d, 2, 8), seq_len=2, num_heads=4)],
    "npu_fused_attention_qkv_grad": [lambda d: _call(*_many(d, 3, 6, 8), *_many(d, 3, 8, 8), *_many(d, 2, 6, 8))],
    "_npu_rms_norm_backward_quant": [
        lambda d: _call(randn(3, 4, 8, dtype=d), randn(3, 4, 8, dtype=d), torch.rand(3, 4) + 0.5, randn(8, dtype=d), torch.tensor([0.05])),
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), torch.rand(3, 1) + 0.5, randn(8, dtype=d), torch.tensor([20.0]),
                        offset_x=torch.tensor([3], dtype=torch.int32), div_mode=False)],
    "_npu_swiglu_backward_mx_quant_with_dual_axis": [
        lambda d: _call(randn(40, 128, dtype=d), randn(40, 64, dtype=d)),
        lambda d: _call(randn(2, 6, 64, dtype=d), randn(2, 6, 32, dtype=d), activate_left=False, dst_type=23)],
    "npu_swiglu_group_quant": [
        lambda d: _call(randn(5, 400, dtype=d), output_origin=True),
        lambda d: _call(randn(5, 160, dtype=d), weight=torch.rand(5, 1), group_index=torch.tensor([1, 2]), dst_type=292, quant_mode=1, clamp_limit=1.0)],
    "npu_swiglu_group_quant_backward": [
        lambda d: _call(randn(5, 20, dtype=d), randn(5, 40, dtype=d), clamp_limit=0.7),
        lambda d: _call(randn(5, 20, dtype=d), randn(5, 40, dtype=d), weight=torch.rand(5, 1), y_origin=randn(5, 20, dtype=d),
                        group_index=torch.tensor([1, 2]))],
    "npu_ifmr": [
        lambda d: _call(x := torch.rand(2, 3, 40) * 5 - 1, x.min(), x.max(), torch.histc(x, 128).cumsum(0).int(), 0.999, 0.999, 0.7, 1.3, 0.05, offset)
        for offset in (False, True)],
    "npu_hans_encode": [
        lambda d: _call(randn(256, dtype=d), True, out=[
            torch.zeros(1, 256, dtype=torch.int32), torch.zeros(256 - 256 // d.itemsize, dtype=d), torch.zeros(1024 // d.itemsize, dtype=d),
            torch.zeros(64 // d.itemsize, dtype=d)])],
    "npu_quant_fusion_attention": [
        lambda d: (lambda t, s: _call(*t, 4, "BSND", d_scale_q=s[0], d_scale_k=s[1], d_scale_v=s[2], p_scale=torch.tensor([100.0]), scale=0.3))(
            *_quant_attention()),
        lambda d: _call(_float8(1, 2, 5, 8), _float8(1, 2, 5, 8), _float8(1, 2, 5, 8), 2, "BNSD", d_scale_q=torch.rand(1, 2, 1, 1),
                        d_scale_k=torch.rand(1, 2, 1, 1), d_scale_v=torch.rand(1, 2, 1, 1))],
    "npu_quant_fusion_attention_backward": [
        lambda d: (lambda t, s: _call(*t, 4, "BSND", *s, scale_value=0.3))(*_quant_attention(4))],
    "_npu_fusion_attention_grad_v3_get_max_workspace": [lambda d: _call(*_attention(d, 4), 4, "BNSD")],
    "_npu_fusion_attention_grad_v3_infer_output": [
        lambda d: _call(*_attention(d)), lambda d: _call(*_attention(d), randn(1, 4, 6, 6, dtype=d), torch.rand(4))],
    "npu_lstm_cell": [lambda d: _call(*_many(d, 1, 3, 4), *_many(d, 1, 4, 8), *_many(d, 1, 2, 8), *_many(d, 2, 3, 2), *_many(d, 2, 8))],
    "npu_lstm_cell_backward": [
        lambda d: _call(randn(1, 3, 2, dtype=d), None, randn(1, 3, 2, dtype=d), randn(3, 4, dtype=d), randn(4, 8, dtype=d), randn(2, 8, dtype=d),
                        *_many(d, 2, 3, 2), *_many(d, 3, 1, 3, 2), *(torch.rand(1, 3, 2).to(d) for _ in range(5)))],
    "npu_lstm_data": [
        lambda d: _call(randn(4, 3, 2, dtype=d), torch.tensor([3, 2, 1, 1]), randn(5, 12, dtype=d), randn(12, dtype=d), torch.zeros(1), *_many(d, 2, 1, 3, 3),
                        True, 1, 0.0, True, False, False, True, True)],
    "npu_lstm_data_backward": [
        lambda d: _call(*_many(d, 3, 4, 3, 3), randn(4, 3, 2, dtype=d), torch.tensor([3, 2, 1, 1]), randn(5, 12, dtype=d), randn(12, dtype=d),
                        *_many(d, 2, 1, 3, 3), *_many(d, 8, 4, 3, 3), False)],
    "npu_lstm_backward": [
        lambda d: _call(randn(4, 3, 3, dtype=d), None, None, randn(4, 3, 2, dtype=d), randn(5, 12, dtype=d), randn(12, dtype=d), *_many(d, 2, 1, 3, 3),
                        *_many(d, 8, 4, 3, 3))],
    "npu_gru_backward": [
        lambda d: _call(*_many(d, 2, 4, 3, 3), randn(4, 3, 2, dtype=d), randn(2, 9, dtype=d), randn(3, 9, dtype=d), *_many(d, 2, 9),
                        torch.tensor([4, 2, 3], dtype=torch.int32), randn(1, 3, 3, dtype=d), *_many(d, 6, 4, 3, 3))],
    "_lstm_npu": [
        lambda d: _call(*_network(d, 4, states=2), *_NETWORK),
        lambda d: _call(randn(5, 4, dtype=d), *_network(d, 4, states=2)[1:], *_NETWORK, batch_sizes=torch.tensor([2, 2, 1]))],
    "_lstm_npu_backward": [
        lambda d: _call(randn(5, 2, 6, dtype=d), *_many(d, 2, 4, 2, 3), *_with_kept("_lstm_npu", _network(d, 4, states=2), 3), *_NETWORK)],
    "_gru_npu": [lambda d: _call(*_network(d, 3), *_NETWORK)],
    "_gru_npu_backward": [
        lambda d: _call(randn(5, 2, 6, dtype=d), randn(4, 2, 3, dtype=d), *_with_kept("_gru_npu", _network(d, 3), 2), *_NETWORK)],
    "npu_sparse_flash_attention": [
        lambda d: _sparse_flash(d, return_softmax_lse=True),
        lambda d: _sparse_flash(d, False, sinks=torch.randn(4)),
        lambda d: _call(randn(2, 3, 4, 8, dtype=d), randn(6, 4, 1, 8, dtype=d), randn(6, 4, 1, 6, dtype=d),
                        torch.randint(0, 4, (2, 3, 1, 2), dtype=torch.int32), 0.4, block_table=_TABLE, sparse_block_size=2,
                        actual_seq_lengths_query=torch.tensor([3, 2]), actual_seq_lengths_kv=torch.tensor([9, 7]), layout_kv="PA_BSND",
                        sparse_mode=0)],
    "npu_sparse_flash_attention_grad": [
        lambda d: _call(*_latent(d)[0], *(randn(7, 4, 8, dtype=d) for _ in range(2)), torch.zeros(1, 7, 4), torch.zeros(1, 7, 4), 0.4, 1,
                        **_latent(d)[1], actual_seq_qlen=torch.tensor([3, 7]), actual_seq_kvlen=torch.tensor([6, 15]), layout="TND"),
        lambda d: _call(*_latent(d, False)[0], *(randn(7, 4, 8, dtype=d) for _ in range(2)), torch.zeros(1, 7, 4), torch.zeros(1, 7, 4), 0.4, 1,
                        actual_seq_qlen=torch.tensor([3, 7]), actual_seq_kvlen=torch.tensor([6, 15]), layout="TND")],
    "npu_block_sparse_attention": [
        lambda d: _call(randn(2, 4, 5, 8, dtype=d), randn(2, 2, 7, 8, dtype=d), randn(2, 2, 7, 8, dtype=d), _block_mask(), [2, 3],
                        q_input_layout="BNSD", kv_input_layout="BNSD", softmax_lse_flag=1, **_BLOCKS),
        lambda d: _call(randn(8, 4, 8, dtype=d), randn(13, 2, 8, dtype=d), randn(13, 2, 8, dtype=d), _block_mask(), [2, 3],
                        actual_seq_lengths=[5, 3], actual_seq_lengths_kv=[7, 6], **_BLOCKS)],
    "npu_block_sparse_attention_backward": [
        lambda d: _call(*(randn(8, 4, 8, dtype=d) for _ in range(2)), randn(13, 2, 8, dtype=d), randn(13, 2, 8, dtype=d), randn(8, 4, 8, dtype=d),
                        torch.zeros(8, 4, 1), _block_mask(), [2, 3], [5, 3], [7, 6], "TND", "TND", 2, 0.4)],
    "npu_lightning_indexer_grad": [
        lambda d: _call(*_indexer(d, False)[:2], randn(7, 1, 4, dtype=d), _causal_places(d), _indexer(d, False)[2],
                        torch.tensor([3, 7]), torch.tensor([6, 15]), "TND")],
    "npu_dense_lightning_indexer_softmax_lse": [
        lambda d: _call(*_indexer(d)),
        lambda d: _call(*_indexer(d, False), actual_seq_qlen=[3, 7], actual_seq_klen=[6, 15], layout="TND")],
    "npu_dense_lightning_indexer_grad_kl_loss": [_dense_loss],
    "npu_sparse_lightning_indexer_grad_kl_loss": [_sparse_loss],
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
