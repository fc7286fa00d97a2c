"""Operators of Ascend's transformer library (torch_npu._npu_*, torch_npu.atb.*) against the same arithmetic on the CPU.

Run by test_published_client.py: python transformer_boost.py. Knows nothing of this repository; test/npu_ops/test_transformer_boost.py
calls its functions with this project's adapter.
"""
import warnings

import torch

import torch_npu

warnings.simplefilter("ignore")
TYPES = (torch.float16, torch.bfloat16)
PAGE = 16


def same(actual, expected, tolerance=2e-2):
    torch.testing.assert_close(actual.float().cpu(), expected.float(), rtol=tolerance, atol=tolerance)


def on_npu(*tensors):
    return [t.npu() for t in tensors]


def causal(rows, columns):
    return torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)


def attend(q, k, v, scale, hidden=None, bias=None):
    """[rows, heads, size] each; keys may have fewer heads. Returns the result and the logsumexp [heads, rows]."""
    shared = q.shape[1] // k.shape[1]
    q, k, v = (x.float().transpose(0, 1) for x in (q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)))
    scores = q @ k.mT * scale
    if bias is not None:
        scores = scores + bias.float()
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(0, 1), scores.logsumexp(-1)


def pages(dtype, sequences, heads, size, pages_each=3):
    """A cache in pages, and the table that gives each sequence its own."""
    cache = torch.randn(sequences * pages_each + 2, PAGE, heads, size).to(dtype)
    return cache, torch.randperm(len(cache))[:sequences * pages_each].view(sequences, pages_each).int()


def rows(cache, table, length):
    return cache[table.long()].flatten(0, 1)[:length]


def each(lengths, *packed):
    """The packed rows of each sequence."""
    start = 0
    for b, length in enumerate(lengths):
        yield (b, *(x[start:start + length] for x in packed))
        start += length


def paged_attention(dtype):
    lengths, heads, kv_heads, size, scale = [20, 33, 7], 4, 2, 32, 0.2
    query = torch.randn(len(lengths), heads, size).to(dtype)
    keys, table = pages(dtype, len(lengths), kv_heads, size)
    values = torch.randn_like(keys)
    expected = torch.cat([attend(query[b:b + 1], rows(keys, table[b], n), rows(values, table[b], n), scale)[0]
                          for b, n in enumerate(lengths)])
    q, k, v, t, out = on_npu(query, keys, values, table, torch.zeros_like(query))
    contexts = torch.tensor(lengths, dtype=torch.int32)
    torch_npu._npu_paged_attention(q, k, v, kv_heads, heads, scale, t, contexts, out)
    same(out, expected)
    workspace = torch_npu._npu_paged_attention_get_workspace(q, k, v, kv_heads, heads, scale, t, contexts, out)
    torch_npu._npu_paged_attention(q, k, v, kv_heads, heads, scale, t, contexts, out.zero_(), workspace=workspace)
    same(out, expected)
    flat = torch.zeros_like(out.flatten(1))
    torch_npu._npu_paged_attention(q.flatten(1), k, v, kv_heads, heads, scale, t, contexts, flat)
    same(flat, expected.flatten(1))
    torch_npu.atb._npu_paged_attention_v2(q, k, t, lengths, value_cache=v, num_kv_heads=kv_heads, num_heads=heads,
                                          scale_value=scale, out=out.zero_())
    same(out, expected)
    bias = torch.randn(heads, 1, 64).to(dtype)
    torch_npu.atb._npu_paged_attention_v2(q, k, t, lengths, value_cache=v, mask=bias.npu(), num_kv_heads=kv_heads,
                                          num_heads=heads, scale_value=scale, mask_type=2, out=out.zero_())
    same(out, torch.cat([attend(query[b:b + 1], rows(keys, table[b], n), rows(values, table[b], n), scale, None, bias[..., :n])[0]
                         for b, n in enumerate(lengths)]))
    wide = torch.zeros(len(lengths), heads, 24, dtype=dtype).npu()
    torch_npu._npu_paged_attention_mla(q, k, kv_heads, heads, scale, t, contexts, 24, wide)
    same(wide, torch.cat([attend(query[b:b + 1], rows(keys, table[b], n), rows(keys, table[b], n)[..., :24], scale)[0]
                          for b, n in enumerate(lengths)]))


def int8_pages(dtype):
    lengths, heads, size, scale = [20, 9], 2, 16, 0.25
    query = torch.randn(len(lengths), heads, size).to(dtype)
    keys, values = (torch.randint(-100, 100, (4, PAGE, heads, size), dtype=torch.int8) for _ in range(2))
    table = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)
    key_scale, value_scale = (torch.rand(heads * size) * 0.02 for _ in range(2))
    k, v = (x.float() * s.view(heads, size) for x, s in ((keys, key_scale), (values, value_scale)))
    expected = torch.cat([attend(query[b:b + 1], rows(k, table[b], n), rows(v, table[b], n), scale)[0] for b, n in enumerate(lengths)])
    out = torch.zeros_like(query).npu()
    torch_npu._npu_paged_attention_quant(*on_npu(query, keys, values), heads, heads, scale, table.npu(),
                                         torch.tensor(lengths, dtype=torch.int32), 1, -1, key_scale.npu(), value_scale.npu(), out)
    same(out, expected)


def new_tokens_over_pages(dtype, size=32):
    lengths, contexts, heads, kv_heads, scale = [5, 1, 9], [21, 17, 9], 4, 2, size ** -0.5
    query = torch.randn(sum(lengths), heads, size).to(dtype)
    keys, table = pages(dtype, len(lengths), kv_heads, size)
    values = torch.randn_like(keys)
    expected = torch.cat([attend(q, rows(keys, table[b], contexts[b]), rows(values, table[b], contexts[b]), scale,
                                 causal(len(q), contexts[b]))[0] for b, q in each(lengths, query)])
    mask = torch.cat([torch.nn.functional.pad(causal(n, c), (0, max(contexts) - c)) for n, c in zip(lengths, contexts)]).to(dtype)
    q, k, v, t, out = on_npu(query, keys, values, table, torch.zeros_like(query))
    number, context = (torch.tensor(x, dtype=torch.int32) for x in (lengths, contexts))
    square = torch.ones(128, 128).triu(1).to(dtype).npu()
    for compute in (
        lambda: torch_npu._npu_paged_attention_splitfuse(q, k, v, t, context, mask.npu(), number, kv_heads, heads, scale, out),
        lambda: torch_npu._npu_paged_attention_splitfuse_v2(q, k, v, t, context, square, number, kv_heads, heads, scale, out=out),
        lambda: torch_npu._npu_flash_attention_qlens(q, k, v, t, square, number, context, kv_heads, heads, scale, out),
        lambda: torch_npu.atb._npu_flash_attention_prefix_v2(q, k, v, t, square, lengths, contexts, num_kv_heads=kv_heads,
                                                             num_heads=heads, scale_value=scale, out=out),
        lambda: torch_npu.atb.npu_self_attention_prefix_encoder(q, k, v, t, lengths, contexts, heads, scale, kv_heads, output=out),
    ):
        out.zero_()
        compute()
        same(out, expected)
    flat = torch.zeros_like(out.flatten(1))
    torch_npu._npu_flash_attention_qlens(q.flatten(1), k, v, t, square, number, context, kv_heads, heads, scale, flat)
    same(flat, expected.flatten(1))
    made = torch_npu.atb.npu_self_attention_prefix_encoder(q, k, v, t, lengths, contexts, heads, scale, kv_heads)
    same(made, expected)


def packed_attention(dtype, size=32):
    lengths, heads, kv_heads, scale = [7, 12], 4, 2, size ** -0.5
    query, key, value = (torch.randn(sum(lengths), n, size).to(dtype) for n in (heads, kv_heads, kv_heads))
    whole = torch.cat([attend(q, k, v, scale)[0] for _, q, k, v in each(lengths, query, key, value)])
    masked = torch.cat([attend(q, k, v, scale, causal(len(q), len(q)))[0] for _, q, k, v in each(lengths, query, key, value)])
    q, k, v, out = on_npu(query, key, value, torch.zeros_like(query))
    number = torch.tensor(lengths, dtype=torch.int32)
    mask = causal(16, 16).to(dtype).npu()
    call = (q, k, v)
    for expected, compute in (
        (masked, lambda: torch_npu._npu_flash_attention(*call, mask, number, scale, heads, kv_heads, out)),
        (masked, lambda: torch_npu._npu_flash_attention_v3(*call, mask, number, scale, heads, kv_heads, out=out)),
        (whole, lambda: torch_npu._npu_flash_attention_unpad(*call, number, scale, heads, kv_heads, out)),
        (whole, lambda: torch_npu._npu_flash_attention_unpad_v2(*call, number, scale, heads, kv_heads, out=out)),
        (masked, lambda: torch_npu.atb._npu_flash_attention_v2(*call, lengths, mask=mask, mask_type=1, scale_value=scale,
                                                               num_heads=heads, num_kv_heads=kv_heads, out=out)),
    ):
        out.zero_()
        compute()
        same(out, expected)
    bias = torch.randn(len(lengths), heads, 16, 16).to(dtype)
    torch_npu.atb._npu_flash_attention_v2(*call, lengths, mask=bias.npu(), mask_type=2, scale_value=scale, num_heads=heads,
                                          num_kv_heads=kv_heads, out=out)
    same(out, torch.cat([attend(a, b, c, scale, causal(len(a), len(a)), bias[i, :, :len(a), :len(a)])[0]
                         for i, a, b, c in each(lengths, query, key, value)]))


def heads_of_128(dtype):
    new_tokens_over_pages(dtype, 128)
    packed_attention(dtype, 128)


def latent_attention(dtype):
    lengths, heads, scale = [19, 40], 8, 0.05
    nope, turned = (torch.randn(len(lengths), heads, n).to(dtype) for n in (512, 64))
    latent, table = pages(dtype, len(lengths), 1, 512)
    rope = torch.randn(*latent.shape[:-1], 64).to(dtype)
    results = [attend(torch.cat([nope, turned], -1)[b:b + 1], torch.cat([rows(latent, table[b], n), rows(rope, table[b], n)], -1),
                      rows(latent, table[b], n), scale) for b, n in enumerate(lengths)]
    call = *on_npu(nope, turned, latent, rope, table), lengths, heads, scale, 1
    expected = torch.cat([out for out, _ in results])
    same(torch_npu.atb.npu_multi_head_latent_attention(*call), expected)
    out = torch.zeros_like(nope).npu()
    torch_npu.atb.npu_multi_head_latent_attention(*call, output=out)
    same(out, expected)
    tiles = [x.flatten(2).unflatten(-1, (-1, 16)).transpose(1, 2).contiguous() for x in (latent, rope)]
    in_tiles = (*call[:2], *on_npu(*tiles), *call[4:])
    same(torch_npu.atb.npu_multi_head_latent_attention(*in_tiles, cache_mode="nzcache"), expected)
    out, sums = torch_npu.atb.npu_multi_head_latent_attention(*call, True, calc_type="calc_type_ring")
    same(out, expected)
    same(sums.squeeze(-1), torch.stack([lse.squeeze(-1) for _, lse in results]))


def ring_attention(dtype):
    lengths, heads, kv_heads, scale = [6, 11], 4, 2, 0.1
    nope, turned = (torch.randn(sum(lengths), heads, n).to(dtype) for n in (128, 64))
    parts = [[torch.randn(sum(lengths), kv_heads, n).to(dtype) for n in (128, 64, 128)] for _ in range(2)]
    seqlen = torch.tensor(lengths, dtype=torch.int32)
    mask = causal(512, 512).to(dtype).npu()
    call = *on_npu(nope, turned), *on_npu(*parts[0]), mask, seqlen, heads, kv_heads
    first = torch_npu.atb.npu_ring_mla(*call, qk_scale=scale, mask_type="mask_type_triu")
    query = torch.cat([nope, turned], -1)
    keys = [torch.cat(part[:2], -1) for part in parts]
    alone = [attend(q, k, v, scale, causal(len(q), len(q))) for _, q, k, v in each(lengths, query, keys[0], parts[0][2])]
    same(first[0], torch.cat([out for out, _ in alone]))
    same(first[1], torch.cat([lse for _, lse in alone], 1))
    call = *on_npu(nope, turned), *on_npu(*parts[1]), mask, seqlen, heads, kv_heads
    both = torch_npu.atb.npu_ring_mla(*call, pre_out=first[0], prev_lse=first[1], qk_scale=scale, calc_type="calc_type_default")
    joined = [attend(q, torch.cat([a, b]), torch.cat([c, d]), scale,
                     torch.cat([causal(len(q), len(q)), torch.zeros(len(q), len(q), dtype=torch.bool)], 1))
              for _, q, a, b, c, d in each(lengths, query, keys[0], keys[1], parts[0][2], parts[1][2])]
    same(both[0], torch.cat([out for out, _ in joined]))
    same(both[1], torch.cat([lse for _, lse in joined], 1))


def caches(dtype):
    key, value = (torch.randn(5, 2, 32).to(dtype) for _ in range(2))
    slots = torch.tensor([33, 0, 17, 16, 40], dtype=torch.int32)
    expected = [torch.zeros(3, PAGE, 2, 32, dtype=dtype) for _ in range(2)]
    for cache, new in zip(expected, (key, value)):
        cache.view(-1, 2, 32)[slots.long()] = new
    keys, values = (torch.zeros(3, PAGE, 2, 32, dtype=dtype).npu() for _ in range(2))
    torch_npu._npu_reshape_and_cache(*on_npu(key, value), keys, values, slots.npu())
    assert torch.equal(keys.cpu(), expected[0]) and torch.equal(values.cpu(), expected[1])
    torch_npu._npu_reshape_and_cache_siso(key.npu(), keys.zero_(), slots.npu())
    assert torch.equal(keys.cpu(), expected[0])
    table, lengths = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32), torch.tensor([18, 3], dtype=torch.int32)
    loaded = torch_npu.atb.npu_paged_cache_load(keys, values, table.npu(), lengths.npu())
    for found, cache in zip(loaded, expected):
        assert torch.equal(found.cpu(), torch.cat([rows(cache, t, n) for t, n in zip(table, lengths)]))


def rotary_embedding(dtype, neox):
    """Of one table of angles in a process: the published client keeps the first."""
    heads, size = 2, 32
    positions = torch.tensor([3, 0, 7, 5])
    table = torch.cat([f(torch.arange(8).unsqueeze(1) * 0.1 ** torch.arange(0, 1, 2 / size)) for f in (torch.cos, torch.sin)], -1)
    cos, sin = table.to(dtype).float()[positions].unsqueeze(1).chunk(2, -1)
    query, key = (torch.randn(len(positions), heads * size).to(dtype) for _ in range(2))
    q, k = on_npu(query, key)
    torch_npu._npu_rotary_embedding(positions.npu(), q, k, size, table.to(dtype).npu(), neox)
    for found, x in ((q, query), (k, key)):
        x = x.float().view(-1, heads, size)
        a, b = x.chunk(2, -1) if neox else (x[..., ::2], x[..., 1::2])
        turned = a * cos - b * sin, b * cos + a * sin
        same(found, (torch.cat(turned, -1) if neox else torch.stack(turned, -1).flatten(-2)).flatten(1))


def experts(dtype):
    scores = torch.rand(6, 32).to(dtype)
    for best in (1, 2):
        groups = scores.float().view(6, 8, 4)
        kept = groups.topk(best, -1)[0].sum(-1).topk(3, -1)[1]
        mask = torch.zeros(6, 8).scatter_(1, kept, 1).unsqueeze(-1)
        found = scores.npu()
        torch_npu._npu_group_topk(found, k=3, group_num=8, n=best)
        same(found, (groups * mask).flatten(1))
    x, bias = torch.randn(6, 32).to(dtype), torch.randn(32).to(dtype)
    score = x.float().sigmoid()
    biased = (score + bias.float()).view(6, 8, 4)
    mask = torch.zeros(6, 8).scatter_(1, biased.topk(2, -1)[0].sum(-1).topk(4, -1)[1], 1).unsqueeze(-1)
    chosen = biased.masked_fill(mask == 0, float("-inf")).flatten(1).topk(6, -1)[1]
    weight = score.gather(1, chosen)
    y, indices = torch_npu.atb.npu_fused_add_topk_div(*on_npu(x, bias), group_num=8, group_topk=4, n=2, k=6, scale=2.5)
    assert torch.equal(indices.cpu().long(), chosen) and y.dtype == torch.float32
    same(y, weight / weight.sum(-1, True) * 2.5)


def few_bits(dtype):
    x, weight = torch.randn(8, 6).to(dtype), torch.randn(8, 5).to(dtype)
    total = torch.randn(6, 5)
    found = total.npu()
    torch_npu._npu_matmul_add_fp32(*on_npu(x, weight), found)
    same(found, total + x.float().t() @ weight.float())
    x, gamma, beta = (torch.randn(*shape).to(dtype) for shape in ((4, 64), (64,), (64,)))
    scale, offset = torch.tensor([0.05]).to(dtype), torch.tensor([3], dtype=torch.int8)
    found = torch.zeros(4, 64, dtype=torch.int8).npu()
    torch_npu._npu_quantize_per_tensor(*on_npu(x, scale, offset), found)
    near(found, (x.float() / scale.float()).round() + offset)
    torch_npu._npu_quant_rms_norm(*on_npu(x, gamma, beta, scale, offset), found, 1e-5)
    normal = x.float() * (x.float().square().mean(-1, True) + 1e-5).rsqrt() * gamma.float() + beta.float()
    near(found, normal / scale.float() + offset)


def near(found, expected):
    """int8 numbers, but for ties."""
    assert (found.cpu().float() - expected.round().clamp(-128, 127)).abs().max() <= 1


def before_latent_attention(dtype, per_token):
    tokens, heads = 3, 2
    x = torch.randn(tokens, 7168).to(dtype)
    gamma = [torch.rand(n).to(dtype) for n in (7168, 1536, 512)]
    beta = [torch.randn(n).to(dtype) for n in (7168, 1536)]
    down, up = (torch.randint(-5, 6, shape, dtype=torch.int8) for shape in ((2112, 7168), (heads * 192, 1536)))
    absorb = (torch.randn(heads, 128, 512) / 16).to(dtype)
    descale = [torch.rand(n) * 1e-4 for n in (2112, heads * 192)]
    bias = [torch.randint(-50, 50, (n,), dtype=torch.int32) for n in (2112, heads * 192)]
    scale, offset = torch.tensor([0.05]).to(dtype), torch.tensor([2], dtype=torch.int8)
    cos, sin = torch.randn(tokens, 64).to(dtype), torch.randn(tokens, 64).to(dtype)
    slots = torch.tensor([20, 3, 9], dtype=torch.int32)

    def norm(x, gamma):
        return x.float() * (x.float().square().mean(-1, True) + 1e-5).rsqrt() * gamma.float()

    def linear(x, i, weight):
        normal = norm(x, gamma[i]) + beta[i].float()
        by = normal.abs().amax(-1, True) / 127 if per_token else scale.float()
        whole = (normal / by + (0 if per_token else offset)).round().clamp(-128, 127).double() @ weight.double().t()
        return ((whole.float() + (0 if per_token else bias[i])) * descale[i] * (by if per_token else 1)).to(dtype)

    def rope(x, cos, sin):
        a, b = x.float().chunk(2, -1)
        return x.float() * cos.float() + torch.cat([-b, a], -1) * sin.float()

    hidden = linear(x, 0, down)
    queries = linear(hidden[:, 576:], 1, up).view(tokens, heads, 192)
    caches = [torch.zeros(2, PAGE, 1, n, dtype=dtype) for n in (512, 64)]
    written = [norm(hidden[:, :512], gamma[2]), rope(hidden[:, 512:576], cos, sin)]
    for cache, new in zip(caches, written):
        cache.view(2 * PAGE, -1)[slots.long()] = new.to(dtype)
    expected = (torch.einsum("thn,hnl->thl", queries[..., :128].float(), absorb.float()), caches[0],
                rope(queries[..., 128:], cos.unsqueeze(1), sin.unsqueeze(1)), caches[1])
    packed = [d.view(torch.int32).long() for d in descale] if dtype == torch.float16 else descale
    kv, turned = (torch.zeros(2, PAGE, 1, n, dtype=dtype).npu() for n in (512, 64))
    given = {"bias0": bias[0].npu(), "bias1": bias[1].npu()}
    if not per_token:
        given.update({f"quant_{what}{i}": t.npu() for what, t in (("scale", scale), ("offset", offset)) for i in range(2)})
    outputs = {"q_out0": torch.zeros(tokens, heads, 512, dtype=dtype).npu(), "kv_cache_out0": kv,
               "q_out1": torch.zeros(tokens, heads, 64, dtype=dtype).npu(), "kv_cache_out1": turned}
    torch_npu.atb.npu_mla_preprocess(
        *on_npu(x, gamma[0], beta[0], down, packed[0], gamma[1], beta[1], up, packed[1], gamma[2], cos, sin, absorb), kv, turned,
        slots.npu(), **given, **outputs, cache_mode="krope_ctkv",
        quant_mode="per_token_quant_symm" if per_token else "per_tensor_quant_asymm")
    for found, wanted in zip(outputs.values(), expected):
        same(found, wanted, 6e-2)


SUBJECTS = (paged_attention, int8_pages, new_tokens_over_pages, packed_attention, heads_of_128, latent_attention,
            ring_attention, caches, experts, few_bits)

if __name__ == "__main__":
    torch.manual_seed(0)
    for subject in SUBJECTS:
        for kind in TYPES:
            subject(kind)
    for is_neox in (True, False):
        rotary_embedding(torch.float16, is_neox)
    for alone in (False, True):
        before_latent_attention(torch.bfloat16, alone)
    before_latent_attention(torch.float16, False)
    print("passed")
