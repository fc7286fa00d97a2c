"""The operators of serving against their definitions, written another way than in torch_npu/_cpu_ops."""

import pytest
import torch
import torch.nn.functional as F
from signatures import misfits

import torch_npu
from torch_npu import _cpu_ops
from torch_npu._ops import atb

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
CAUSAL = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def paged(rows, pages, table, heads):
    """Rows [tokens, heads, size] in pages [pages, 4, heads, size]."""
    cache = torch.randn(pages, 4, heads, rows.shape[-1])
    for i, row in enumerate(rows):
        cache[table[i // 4], i % 4] = row
    return cache


def last_causal(rows, columns):
    return torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)


@DEVICES
@pytest.mark.parametrize("inference", [False, True])
def test_lengths_may_be_tensors(device, inference):
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, heads, 8, device=device) for heads in (4, 2, 2))
    attend = lambda rows, columns: torch_npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=4, num_key_value_heads=2, input_layout="TND", actual_seq_lengths=rows, actual_seq_lengths_kv=columns)[0]
    expected = attend([1, 4], [2, 4])
    rows, columns = torch.tensor([1, 4]), torch.tensor([2, 4], dtype=torch.int32)
    with torch.inference_mode(inference):
        for ends in ((rows, columns), (rows.to(device), columns.to(device)), (rows, [2, 4]), ([1, 4], list(columns))):
            assert torch.equal(attend(*ends), expected)
        grad = lambda tokens: torch_npu.npu_moe_token_permute_grad_v2(
            torch.randn(4, 8, device=device), torch.arange(4, dtype=torch.int32, device=device), tokens, torch.float32, 2)
        assert grad(torch.tensor(2)).shape == grad(2).shape == (2, 8)


@DEVICES
def test_packed_attention_over_pages_is_torchs(device):
    torch.manual_seed(0)
    lengths, contexts, tables = [3, 1, 5], [6, 9, 5], [[3, 1], [0, 5, 2], [4, 6]]
    keys, values = ([torch.randn(n, 2, 8) for n in contexts] for _ in range(2))
    query = torch.randn(9, 4, 8)
    key_cache, value_cache = torch.zeros(7, 4, 2, 8), torch.zeros(7, 4, 2, 8)
    table = torch.zeros(3, 3, dtype=torch.int32)
    expected, start = [], 0
    for b, (length, context) in enumerate(zip(lengths, contexts)):
        table[b, :len(tables[b])] = torch.tensor(tables[b], dtype=torch.int32)
        for cache, rows in ((key_cache, keys[b]), (value_cache, values[b])):
            for i, row in enumerate(rows):
                cache[tables[b][i // 4], i % 4] = row
        q = query[start:start + length].transpose(0, 1)
        k, v = (t.transpose(0, 1).repeat_interleave(2, 0) for t in (keys[b], values[b]))
        expected.append(F.scaled_dot_product_attention(q, k, v, last_causal(length, context), scale=0.4).transpose(0, 1))
        start += length
    expected = torch.cat(expected)
    out, _ = torch_npu.npu_fused_infer_attention_score(
        query.to(device), key_cache.flatten(2).to(device), value_cache.flatten(2).to(device), num_heads=4, num_key_value_heads=2,
        input_layout="TND", atten_mask=CAUSAL.to(device), sparse_mode=3, actual_seq_lengths=[3, 4, 9], actual_seq_lengths_kv=contexts,
        block_table=table.to(device), block_size=4, scale=0.4)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    out = torch.empty_like(query).to(device)
    arguments = dict(
        key_cache=key_cache.to(device), value_cache=value_cache.to(device), block_table=table.to(device),
        context_lens=torch.tensor(contexts, dtype=torch.int32), mask=CAUSAL.to(device).float(), num_kv_heads=2, num_heads=4,
        seq_len=torch.tensor(lengths, dtype=torch.int32), scale_value=0.4)
    torch_npu._npu_paged_attention_splitfuse(query=query.to(device), out=out, **arguments)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    flat = torch.empty(9, 32, device=device)
    torch_npu._npu_flash_attention_qlens(query=query.flatten(1).to(device), out=flat, **arguments)
    torch.testing.assert_close(flat.cpu(), expected.flatten(1), rtol=1e-4, atol=1e-5)


@DEVICES
def test_one_token_over_pages_is_torchs(device):
    torch.manual_seed(1)
    keys, values, query = torch.randn(7, 2, 8), torch.randn(7, 2, 6), torch.randn(1, 4, 8)
    table = [2, 0]
    caches = [paged(t, 3, table, 2).to(device) for t in (keys, values)]
    out = torch.empty(1, 4, 6, device=device)
    arguments = dict(query=query.to(device), key_cache=caches[0], value_cache=caches[1], num_kv_heads=2, num_heads=4, scale_value=0.3,
                     block_table=torch.tensor([table], dtype=torch.int32, device=device), context_lens=torch.tensor([7], dtype=torch.int32))
    workspace = torch_npu._npu_paged_attention_get_workspace(out=out, **arguments)
    torch_npu._npu_paged_attention(out=out, workspace=workspace, **arguments)
    k, v = (t.transpose(0, 1).repeat_interleave(2, 0) for t in (keys, values))
    expected = F.scaled_dot_product_attention(query.transpose(0, 1), k, v, scale=0.3).transpose(0, 1)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    flat = torch.empty(1, 24, device=device)
    torch_npu._npu_paged_attention(out=flat, **{**arguments, "query": query.flatten(1).to(device)})
    torch.testing.assert_close(flat.cpu(), expected.flatten(1), rtol=1e-4, atol=1e-5)


@DEVICES
def test_a_sink_is_a_key_without_value(device):
    torch.manual_seed(2)
    q, k, v, sink = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(2)
    out, lse = torch_npu.npu_fused_infer_attention_score_v2(*(t.to(device) for t in (q, k, v)), num_query_heads=2, input_layout="BNSD",
                                                            softmax_scale=0.5, learnable_sink=sink.to(device), return_softmax_lse=True)
    scores = torch.cat([q @ k.transpose(2, 3) * 0.5, sink.view(1, 2, 1, 1).expand(1, 2, 3, 1)], -1)
    torch.testing.assert_close(out.cpu(), scores.softmax(-1)[..., :5] @ v, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse.squeeze(-1).cpu(), scores.logsumexp(-1), rtol=1e-4, atol=1e-5)


@DEVICES
def test_attention_into_given_tensors(device):
    q, k, v = (torch.randn(1, 2, 3, 8, device=device) for _ in range(3))
    options = dict(num_heads=2, input_layout="BNSD", scale=0.5, softmax_lse_flag=True)
    workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(q, k, v, **options)
    assert workspace.dtype == q.dtype   # as published
    out, lse = torch_npu._npu_fused_infer_attention_score_infer_output(q, v, num_heads=2, input_layout="BNSD", softmax_lse_flag=True)
    torch_npu.npu_fused_infer_attention_score.out(q, k, v, workspace=workspace, out=[out, lse], **options)
    expected = torch_npu.npu_fused_infer_attention_score(q, k, v, **options)
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])


@DEVICES
def test_flash_attention_of_packed_sequences(device):
    torch.manual_seed(3)
    q, k, v = torch.randn(7, 4, 8), torch.randn(7, 2, 8), torch.randn(7, 2, 8)
    causal, whole = torch.empty(7, 4, 8, device=device), torch.empty(7, 4, 8, device=device)
    lengths = torch.tensor([3, 4], dtype=torch.int32)
    own = [t.to(device) for t in (q, k, v)]
    torch_npu._npu_flash_attention(*own, CAUSAL[:16, :16].to(device).float(), lengths, 0.4, 4, 2, out=causal)
    torch_npu._npu_flash_attention_unpad(*own, lengths, 0.4, 4, 2, out=whole)
    for rows in (slice(0, 3), slice(3, 7)):
        heads = [t[rows].transpose(0, 1) for t in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
        for out, flag in ((causal, True), (whole, False)):
            expected = F.scaled_dot_product_attention(*heads, is_causal=flag, scale=0.4).transpose(0, 1)
            torch.testing.assert_close(out[rows].cpu(), expected, rtol=1e-4, atol=1e-5)


@DEVICES
def test_ring_attention_joins_parts(device):
    torch.manual_seed(4)
    qn, qr, kn, kr, v = torch.randn(5, 2, 8), torch.randn(5, 2, 4), torch.randn(9, 2, 8), torch.randn(9, 2, 4), torch.randn(9, 2, 6)
    own = [t.to(device) for t in (qn, qr, kn, kr, v)]

    def part(rows, count, **more):
        return torch_npu.atb.npu_ring_mla(own[0], own[1], *(t[rows] for t in own[2:]), torch.empty(0, device=device),
                                          torch.tensor([[5], [count]], dtype=torch.int32), 2, 2, qk_scale=0.3, mask_type="no_mask", **more)

    out, lse = part(slice(0, 4), 4, calc_type="calc_type_first_ring")
    out, lse = part(slice(4, 9), 5, pre_out=out, prev_lse=lse, calc_type="calc_type_default")
    q, k = torch.cat([qn, qr], -1).transpose(0, 1), torch.cat([kn, kr], -1).transpose(0, 1)
    torch.testing.assert_close(out.cpu(), F.scaled_dot_product_attention(q, k, v.transpose(0, 1), scale=0.3).transpose(0, 1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse.cpu(), (q @ k.transpose(1, 2) * 0.3).logsumexp(-1), rtol=1e-4, atol=1e-5)


@DEVICES
@pytest.mark.parametrize("neox", [True, False])
def test_rotary_embedding_in_place(device, neox):
    torch.manual_seed(5)
    angle = torch.rand(10, 2) * 3
    cache, positions = torch.cat([angle.cos(), angle.sin()], -1), torch.tensor([7, 0, 3])
    query, key = torch.randn(3, 2 * 6), torch.randn(3, 6)
    ours = [t.clone().to(device) for t in (query, key)]
    torch_npu._npu_rotary_embedding(positions.to(device), *ours, 6, cache.to(device), neox)
    turn = torch.polar(torch.ones(3, 1, 2), angle[positions].unsqueeze(1))
    for found, given in zip(ours, (query, key)):
        heads = given.view(3, -1, 6)
        pairs = (0, 2, 1, 3) if neox else (0, 1, 2, 3)  # where the two of a pair lie
        turned = torch.view_as_real(torch.view_as_complex(heads[..., list(pairs)].reshape(3, -1, 2, 2).contiguous()) * turn).flatten(-2)
        expected = heads.clone()
        expected[..., list(pairs)] = turned
        torch.testing.assert_close(found.cpu(), expected.view(given.shape))


@DEVICES
def test_cache_there_and_back(device):
    torch.manual_seed(6)
    key, value = torch.randn(9, 2, 8), torch.randn(9, 2, 6)
    key_cache, value_cache = torch.zeros(6, 4, 2, 8, device=device), torch.zeros(6, 4, 2, 6, device=device)
    table = torch.tensor([[4, 1], [0, 5]], dtype=torch.int32)
    slots = torch.tensor([16, 17, 18, 19, 4, 0, 1, 2, 3], dtype=torch.int32)  # 5 tokens and 4
    torch_npu._npu_reshape_and_cache(key=key.to(device), value=value.to(device), key_cache=key_cache, value_cache=value_cache,
                                     slot_indices=slots.to(device))
    found = torch.zeros_like(key, device=device), torch.zeros_like(value, device=device)
    torch_npu.npu_gather_pa_kv_cache(key_cache, value_cache, table.to(device), torch.tensor([5, 4], dtype=torch.int32, device=device), *found)
    assert torch.equal(found[0].cpu(), key) and torch.equal(found[1].cpu(), value)


@DEVICES
@pytest.mark.parametrize("slots", [[5, -1, 2, -1], [-1, 0, -1, 3], [5, 2, 5, -1], [-1, -1, -1, -1], []])
def test_negative_slots_write_nothing(device, slots):
    torch.manual_seed(8)
    before, key, value = torch.randn(2, 4, 2, 8), torch.randn(len(slots), 2, 8), torch.randn(len(slots), 2, 8)
    caches = [before.clone().to(device), before.clone().to(device)]
    torch_npu._npu_reshape_and_cache(key.to(device), value.to(device), *caches, torch.tensor(slots, dtype=torch.int32, device=device))
    for cache, rows in zip(caches, (key, value)):
        expected = before.clone()
        for slot, row in zip(slots, rows):
            if slot >= 0:
                expected[slot // 4, slot % 4] = row
        assert torch.equal(cache.cpu(), expected)


def test_a_row_behind_a_cache_is_not_written_to_the_next_one():
    """A cache in rows, one for each sequence: a row that it does not have is an error, not one of the next sequence's."""
    kv, gamma, turned = torch.randn(2, 1, 2, 24), torch.ones(16), torch.randn(2, 1, 2, 8)
    latent_cache, turned_cache = torch.zeros(2, 1, 4, 16), torch.zeros(2, 1, 4, 8)
    torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, turned, turned, torch.tensor([[3, -1], [-1, 0]]), turned_cache, latent_cache)
    written = [[False, False, False, True], [True, False, False, False]]
    assert latent_cache.ne(0).all(-1)[:, 0].tolist() == turned_cache.ne(0).all(-1)[:, 0].tolist() == written
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, turned, turned, torch.tensor([[4, 1], [0, 1]]), turned_cache, latent_cache)


def test_a_graph_writes_at_the_slots_of_its_replay():
    key, value = torch.randn(3, 2, 8, device="npu"), torch.randn(3, 2, 8, device="npu")
    key_cache, value_cache = torch.zeros(2, 4, 2, 8, device="npu"), torch.zeros(2, 4, 2, 8, device="npu")
    slots, graph = torch.tensor([0, 1, 2], dtype=torch.int32, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu._npu_reshape_and_cache(key, value, key_cache, value_cache, slots)
    slots.copy_(torch.tensor([-1, 7, 4]))
    key_cache.zero_(), value_cache.zero_()
    graph.replay()
    for cache, rows in ((key_cache, key), (value_cache, value)):
        expected = torch.zeros(8, 2, 8)
        expected[7], expected[4] = rows[1].cpu(), rows[2].cpu()
        assert torch.equal(cache.view(8, 2, 8).cpu(), expected)


@DEVICES
@pytest.mark.parametrize("kind,step", [(24, 2 ** -3), (23, 2 ** -2), (296, 2 ** -1)])
@pytest.mark.parametrize("alg", [0, 1])
def test_mx_quantization_comes_near(device, kind, step, alg):
    torch.manual_seed(7)
    x = torch.randn(3, 80) * torch.tensor([1.0, 1e-4, 300.0]).view(3, 1)
    y, scales = torch_npu.npu_dynamic_mx_quant(x.to(device), dst_type=kind, scale_alg=alg)
    assert scales.shape == (3, 2, 2) and scales.dtype == torch.uint8 and (scales[:, 1, 1] == 0).all()
    back = torch_npu.npu_anti_mx_quant(y, scales, src_type=kind, dst_type=6).cpu()
    blocks = F.pad(x, (0, 16)).view(3, 3, 32).abs().amax(-1).repeat_interleave(32, 1)[:, :80]
    assert ((back - x).abs() <= step * blocks).all()
    assert (back[x.abs() == blocks] - x[x.abs() == blocks]).abs().max() <= step * blocks.max()


@DEVICES
def test_gated_delta_rule_without_gates_is_a_sum(device):
    """With orthonormal keys and beta 1 each key keeps its value."""
    keys = torch.eye(4).view(4, 1, 4)
    value = torch.randn(4, 1, 3).bfloat16().float()   # the results' dtype
    out, state = torch_npu.npu_chunk_gated_delta_rule(keys.to(device), keys.to(device), value.to(device))
    torch.testing.assert_close(out.cpu(), value.bfloat16())
    torch.testing.assert_close(state.cpu()[0, 0], value[:, 0].t(), check_dtype=False)
    pool = torch.zeros(2, 1, 3, 4, device=device)
    slots = torch.tensor([1, 1, 1, 1], dtype=torch.int32, device=device)
    again = torch_npu.npu_recurrent_gated_delta_rule(keys.to(device), keys.to(device), value.to(device), pool, ssm_state_indices=slots,
                                                     actual_seq_lengths=torch.tensor([4], dtype=torch.int32, device=device))
    torch.testing.assert_close(again.cpu(), value.bfloat16())
    torch.testing.assert_close(pool[1].cpu(), state.cpu()[0], check_dtype=False)


@DEVICES
def test_causal_convolution_goes_on_from_its_cache(device):
    torch.manual_seed(8)
    x, weight = torch.randn(1, 9, 4), torch.randn(3, 4)
    expected = F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), weight.t().unsqueeze(1), groups=4).transpose(1, 2)
    states = torch.zeros(1, 2, 4, device=device)
    parts = [torch_npu.npu_fused_causal_conv1d(part.to(device), weight.to(device), states) for part in x.split([4, 1, 4], 1)]
    torch.testing.assert_close(torch.cat(parts, 1).cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(states[0].cpu(), x[0, -2:])


@DEVICES
def test_indexer_chooses_the_best(device):
    torch.manual_seed(9)
    query, key, weights = torch.randn(1, 3, 4, 8), torch.randn(1, 6, 1, 8), torch.rand(1, 3, 4)
    places, values = torch_npu.npu_lightning_indexer(query.to(device), key.to(device), weights.to(device), sparse_count=4, return_value=True)
    for row in range(3):
        scores = (weights[0, row].unsqueeze(1) * (query[0, row] @ key[0, :, 0].t()).relu()).sum(0)[:row + 4]
        best = scores.topk(4)
        assert places[0, row, 0].tolist() == best.indices.tolist()
        torch.testing.assert_close(values[0, row, 0].cpu(), best.values, rtol=1e-4, atol=1e-5)


def test_sampling_keeps_the_likeliest():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0, 3.0]]).npu()
    one = torch.ones(1, dtype=torch.int32)
    token, kept = torch_npu.npu_top_k_top_p_sample(logits, (one * 3).npu(), torch.tensor([1.0]).npu(), is_need_logits=True)
    assert token.tolist() == [4] and kept.isfinite().tolist() == [[True, True, False, False, True]]
    _, kept = torch_npu.npu_top_k_top_p_sample(logits, (one * 0).npu(), torch.tensor([0.7]).npu(), is_need_logits=True)
    assert kept.isfinite().tolist() == [[True, False, False, False, True]]  # 0.64 alone is not enough, 0.87 is
    torch.manual_seed(0)
    drawn = [torch_npu.npu_top_k_top_p_sample(logits, (one * 2).npu(), torch.tensor([1.0]).npu(), post_sample="multiNomial")[0].item()
             for _ in range(40)]
    assert set(drawn) == {0, 4}


def test_sampling_draws_out_of_the_sorted_probabilities():
    torch.manual_seed(0)
    logits, one = torch.randn(6, 50).npu(), torch.ones(6)
    seeded = lambda: torch.Generator(device="npu").manual_seed(7)
    token, kept = torch_npu.npu_top_k_top_p_sample(logits, (one * 9).int().npu(), one.npu(), post_sample="multiNomial", generator=seeded())
    assert kept.shape == logits.shape and kept.dtype == torch.float32
    likely, order = logits.softmax(-1).sort(-1, descending=True)
    likely[:, 9:] = 0
    place = torch.multinomial(likely, 1, replacement=True, generator=seeded())
    assert torch.equal(token, order.gather(-1, place).squeeze(-1))
    with pytest.raises(NotImplementedError, match="q of seeds and offsets is not supported"):
        torch_npu.npu_top_k_top_p_sample(logits, (one * 9).int().npu(), one.npu(), torch.ones(6, 2).long().npu(), post_sample="multiNomial")


def test_product_added_to_a_gradient():
    x, weight, total = torch.randn(7, 3).half(), torch.randn(7, 4).half(), torch.randn(3, 4)
    ours = total.npu()
    torch_npu._npu_matmul_add_fp32(x.npu(), weight.npu(), ours)
    torch.testing.assert_close(ours.cpu(), total + x.float().t() @ weight.float(), rtol=1e-4, atol=1e-4)


def test_names_of_the_transformer_library():
    assert torch.ops.atb._npu_paged_attention.default._schema.arguments[0].name == "query"
    assert "block_table" in torch_npu._npu_paged_attention.__doc__
    with pytest.raises(AttributeError, match="npu_ring_mla"):
        torch_npu.atb.nothing


@DEVICES
def test_overloads_that_write_into_given_tensors(device):
    x = torch.randn(2, 3, 4, device=device)
    out = torch.empty(4, 2, 3, device=device)
    assert torch_npu.npu_transpose(x, [2, 0, 1], out=out) is out and torch.equal(out, x.permute(2, 0, 1))
    out = torch.empty(0, device=device)
    torch.ops.npu.npu_sort_v2.out(x, -1, True, out=out)
    assert torch.equal(out, x.sort(-1, descending=True)[0])
    torch.ops.npu.npu_slice.out(x, [0, 1, 1], [2, 2, 2], out=out)
    assert torch.equal(out, x[:, 1:3, 1:3])
    codes = torch.empty(2, 3, 4, dtype=torch.int8, device=device)
    one, zero = torch.tensor([0.5], device=device), torch.tensor([1], dtype=torch.int32, device=device)
    torch.ops.npu._quantize_per_tensor_impl.out(x, one, zero, torch.qint8, result=codes)
    assert torch.equal(codes, ((x / 0.5).round() + 1).to(torch.int8))


@DEVICES
def test_scales_of_int8_caches(device):
    """Keys of latent attention are multiplied by their scales, those of plain attention divided."""
    torch.manual_seed(4)
    kv, gamma = torch.randn(1, 1, 2, 12), torch.ones(8)
    cos, sin, index = torch.ones(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), torch.tensor([[1, 0]])
    turned, latent = (torch.zeros(1, 1, 3, n, dtype=torch.int8) for n in (4, 8))
    scales = torch.tensor([20.0, 30.0, 40.0, 50.0]), torch.full((8,), 25.0)
    tensors = [t.to(device) for t in (kv, gamma, cos, sin, index, turned, latent)]
    torch_npu.npu_kv_rmsnorm_rope_cache(*tensors, k_rope_scale=scales[0].to(device), c_kv_scale=scales[1].to(device), epsilon=0.0)
    pairs = kv[0, 0, :, 8:].view(2, 2, 2).transpose(1, 2).reshape(2, 4)  # elements 2i, then 2i + 1
    normal = kv[0, 0, :, :8] / kv[0, 0, :, :8].square().mean(-1, keepdim=True).sqrt()
    for cache, rows, scale in ((tensors[5], pairs, scales[0]), (tensors[6], normal, scales[1])):
        expected = (rows * scale).round().clamp(-128, 127).flip(0)
        assert (cache[0, 0, :2].cpu() - expected).abs().max() <= 1
    x, one, none = torch.randn(1, 2, 12), torch.ones(1, 2, 1, 4), torch.zeros(1, 2, 1, 4)
    caches = [torch.zeros(1, 3, 1, 4, dtype=torch.int8).to(device) for _ in range(2)]
    steps = torch.full((4,), 0.05), torch.full((4,), 0.1)
    torch_npu.npu_rope_quant_kvcache(
        x.to(device), one.to(device), none.to(device), *caches, torch.tensor([1], dtype=torch.int32).to(device), *(s.to(device) for s in steps),
        [4, 4, 4])
    for cache, rows, step in zip(caches, (x[0, :, 4:8], x[0, :, 8:]), steps):
        assert (cache[0, 1:, 0].cpu() - (rows / step).round().clamp(-128, 127)).abs().max() <= 1


def test_functions_of_the_transformer_library_have_the_schemas_arguments():
    for text in atb.SCHEMAS:
        name = text.partition("(")[0]
        assert misfits(_cpu_ops.find(name), "atb::" + text) == [], name


@DEVICES
@pytest.mark.parametrize("kind,axis", [(24, -1), (296, -1), (23, 0)])
def test_rotation_to_blocks(device, kind, axis):
    """By a permutation, of which nothing is rounded, it is the quantization of what it permutes."""
    x, turn = torch.randn(64, 64).bfloat16(), torch.eye(8).flip(0).bfloat16()
    found = torch_npu.npu_rotate_quant(x.to(device), turn.to(device), dst_dtype=kind, axis=axis)
    expected = torch_npu.npu_dynamic_mx_quant(x.unflatten(1, (8, 8)).flip(2).flatten(1), dst_type=kind, axis=axis)
    assert (found[0].dtype, found[1].dtype) == (expected[0].dtype, torch.float8_e8m0fnu)
    for ours, reference in zip(found, expected):
        assert torch.equal(ours.cpu().view(torch.uint8), reference.view(torch.uint8))


def test_dispatch_says_that_there_are_no_ranks_for_shared_experts():
    x, ids = torch.randn(4, 8).half().npu(), torch.zeros(4, 2, dtype=torch.int32).npu()
    with pytest.raises(NotImplementedError, match="shared_expert_rank_num=2 is not supported: this chip has no ranks for shared experts"):
        torch_npu.npu_moe_distribute_dispatch(x, ids, "group", 16, 0, 14, shared_expert_rank_num=2)
    with pytest.raises(ValueError, match="moe_expert_num=14 does not divide evenly among ep_world_size=16 ranks"):
        torch_npu.npu_moe_distribute_dispatch(x, ids, "group", 16, 0, 14)


@pytest.mark.parametrize("mode, shared, shape", [("pertoken", -1, (2, 3)), ("perchannel", -2, (2, 6)), ("pertensor", (0, 1, 2), (1,))])
@pytest.mark.parametrize("greatest", [0.0, 15.0])
@DEVICES
def test_dynamic_quant_modes(mode, shared, shape, greatest, device):
    x = torch.randn(2, 3, 6)
    values, scales = torch_npu.npu_dynamic_quant(x.to(device), quant_mode=mode, dst_type_max=greatest)
    scale = x.abs().amax(shared, keepdim=True) / (greatest or 127)
    assert scales.shape == shape and values.dtype == torch.int8
    torch.testing.assert_close(scales.cpu(), scale.reshape(shape))
    torch.testing.assert_close(values.cpu().float(), (x / scale).round(), rtol=0, atol=1)
    assert values.abs().max() == (greatest or 127)


@DEVICES
def test_dynamic_quant_of_a_whole_tensor_with_an_offset(device):
    x = torch.randn(2, 3, 6)
    values, scales, offsets = torch_npu.npu_dynamic_quant_asymmetric(x.to(device), quant_mode="pertensor")
    assert scales.shape == offsets.shape == (1,)
    torch.testing.assert_close((values.cpu() - offsets.cpu()) * scales.cpu(), x, rtol=0, atol=scales.item())


@DEVICES
def test_dequant_swiglu_quant_takes_its_defaults_by_number(device):
    x, given = torch.arange(-20, 20, dtype=torch.int32).view(5, 8).to(device), {"quant_mode": 1}
    expected = torch_npu.npu_dequant_swiglu_quant(x, **given)
    for place in (-1, 1):
        torch.testing.assert_close(torch_npu.npu_dequant_swiglu_quant(x, round_mode=0, activate_dim=place, **given), expected)


@DEVICES
def test_attention_of_int8(device):
    torch.manual_seed(4)
    q, k, v = (torch.randint(-99, 99, (2, heads, rows, 32), dtype=torch.int8) for heads, rows in ((4, 5), (2, 9), (2, 9)))
    steps = [torch.tensor([step]) for step in (2e-4, 127.0, 1 / 127)]
    keys, values = (t.float().repeat_interleave(2, 1) for t in (k, v))
    scores = q.float() @ keys.mT * 2e-4 * 3
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    expected = (127 * weights).round() @ values / 127 / weights.sum(-1, keepdim=True)
    options = dict(zip(("dequant_scale1", "quant_scale1", "dequant_scale2"), (t.to(device) for t in steps)))
    q, k, v = (t.to(device) for t in (q, k, v))
    run = lambda **more: torch_npu.npu_fused_infer_attention_score(q, k, v, num_heads=4, num_key_value_heads=2, scale=3.0, input_layout="BNSD", **options, **more)[0].cpu()
    found = run()
    assert found.dtype == torch.float16 and (found - expected).abs().mean() < 0.03   # 0.15 were the weights not whole
    whole = run(quant_scale2=torch.tensor([2.0], device=device))
    assert whole.dtype == torch.int8 and (whole - (2 * expected).clamp(-128, 127)).abs().mean() < 0.4   # rounded: 0.25
    prompt = torch_npu.npu_prompt_flash_attention(q, k, v, num_heads=4, num_key_value_heads=2, scale_value=3.0, input_layout="BNSD", next_tokens=99,
                                                  deq_scale1=options["dequant_scale1"], quant_scale1=options["quant_scale1"], deq_scale2=options["dequant_scale2"],
                                                  quant_scale2=torch.tensor([2.0], device=device))
    assert torch.equal(prompt.cpu(), whole)
