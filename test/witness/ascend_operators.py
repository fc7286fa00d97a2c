"""Operators of Ascend's own (torch_npu.npu_*) through the published client, against the same arithmetic on the CPU.

Run by test_published_client.py: python ascend_operators.py. Knows nothing of this repository.
"""
import warnings

import torch
import torch.nn.functional as F

import torch_npu

warnings.simplefilter("ignore")
DEVICE = torch.device("npu:0")


def same(actual, expected, tolerance=1e-3):
    torch.testing.assert_close(actual.detach().float().cpu(), expected.detach().float(), rtol=tolerance, atol=tolerance)


def compare(on_npu, on_cpu, *inputs, tolerance=1e-3):
    """Results and gradients."""
    given = [x.to(DEVICE).requires_grad_() for x in inputs]
    wanted = [x.float().requires_grad_() for x in inputs]
    actual, expected = on_npu(*given), on_cpu(*wanted)
    same(actual, expected, tolerance)
    grad = torch.randn(expected.shape)
    for a, e in zip(torch.autograd.grad(actual, given, grad.to(DEVICE, actual.dtype)), torch.autograd.grad(expected, wanted, grad)):
        same(a, e, tolerance)


def attended(q, k, v, scale, hidden=None):
    scores = (q.float() @ k.float().mT) * scale
    return (scores if hidden is None else scores.masked_fill(hidden, -1e4)).softmax(-1) @ v.float()


def attention():
    batch, heads, length, size = 2, 4, 64, 32
    scale = size ** -0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    layouts = {"BNSD": lambda x: x, "BSND": lambda x: x.transpose(1, 2), "BSH": lambda x: x.transpose(1, 2).flatten(2),
               "SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2), "TND": lambda x: x.transpose(1, 2).flatten(0, 1)}
    for layout, laid in layouts.items():
        for mask, mode in ((None, 0), (future, 0), (torch.ones(2048, 2048, dtype=torch.bool).triu(1), 2)):
            q, k, v, grad = (torch.randn(batch, heads, length, size).half() for _ in range(4))
            settings = {} if mask is None else {"atten_mask": mask.to(DEVICE), "sparse_mode": mode}
            if layout == "TND":
                settings.update(actual_seq_qlen=[length, 2 * length], actual_seq_kvlen=[length, 2 * length])
            given = [laid(x).contiguous().to(DEVICE).requires_grad_() for x in (q, k, v)]
            wanted = [x.float().requires_grad_() for x in (q, k, v)]
            actual = torch_npu.npu_fusion_attention(*given, heads, layout, scale=scale, **settings)[0]
            expected = attended(*wanted, scale, None if mask is None else future)
            same(actual, laid(expected), 2e-2)
            for a, e in zip(torch.autograd.grad(actual, given, laid(grad).contiguous().to(DEVICE)),
                            torch.autograd.grad(expected, wanted, grad.float())):
                same(a, laid(e), 2e-2)
    q, k, v = (torch.randn(2, 4, 16, 32).half() for _ in range(3))
    on_npu, expected = [x.to(DEVICE) for x in (q, k, v)], attended(q, k, v, 0.2)
    same(torch_npu.npu_prompt_flash_attention(*on_npu, num_heads=4, input_layout="BNSD", scale_value=0.2), expected, 1e-2)
    same(torch_npu.npu_fused_infer_attention_score(*on_npu, num_heads=4, input_layout="BNSD", scale=0.2)[0], expected, 1e-2)
    same(torch_npu.npu_fused_infer_attention_score_v2(*on_npu, num_query_heads=4, input_layout="BNSD", softmax_scale=0.2)[0],
         expected, 1e-2)


def norms_and_activations():
    x, y, weight = torch.randn(3, 4, 16), torch.randn(3, 4, 16), torch.randn(16)
    compare(lambda x, w: torch_npu.npu_rms_norm(x, w, epsilon=1e-6)[0], lambda x, w: F.rms_norm(x, (16,), w, 1e-6), x, weight)
    same(torch_npu.npu_add_rms_norm(x.to(DEVICE), y.to(DEVICE), weight.to(DEVICE))[0], F.rms_norm(x + y, (16,), weight, 1e-6))
    compare(lambda x: torch_npu.npu_swiglu(x, dim=-1), lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], x)
    compare(lambda x: torch_npu.npu_gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), x)
    compare(torch_npu.npu_mish, F.mish, x)
    compare(torch_npu.npu_silu, F.silu, x)
    compare(torch_npu.npu_linear, F.linear, torch.randn(4, 8), torch.randn(6, 8), torch.randn(6))
    compare(lambda x: torch_npu.npu_dtype_cast(x, torch.float16), lambda x: x, x)
    mask = torch.rand(2, 1, 32, 32) > 0.5
    compare(lambda x: torch_npu.npu_scaled_masked_softmax(x, mask.to(DEVICE), 0.5, False),
            lambda x: (x * 0.5).masked_fill(mask, -10000.0).softmax(-1), torch.randn(2, 4, 32, 32).half(), tolerance=1e-2)
    cos, sin = torch.randn(1, 8, 1, 16), torch.randn(1, 8, 1, 16)

    def rotated(x):
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin
    compare(lambda x: torch_npu.npu_rotary_mul(x, cos.to(DEVICE), sin.to(DEVICE)), rotated, torch.randn(2, 8, 4, 16))


def shapes_and_formats():
    x = torch.randn(4, 6)
    y = x.to(DEVICE)
    for actual, expected in ((torch_npu.npu_transpose(y, (1, 0)), x.t()), (torch_npu.npu_broadcast(y[:1], (4, 6)), x[:1].expand(4, 6)),
                             (torch_npu.npu_slice(y, [0, 1], [2, 3]), x[:2, 1:4]),
                             (torch_npu.npu_pad(y, [1, 1, 0, 0]), F.pad(x, (0, 0, 1, 1))),
                             (torch_npu.npu_max(y, 1)[0], x.max(1)[0]), (torch_npu.npu_min(y, 1)[0], x.min(1)[0]),
                             (torch_npu.npu_confusion_transpose(y, (1, 0), (6, 4), True), x.t()), (torch_npu.npu_format_cast(y, 2), x)):
        same(actual, expected)


def experts_and_quantization():
    tokens, chosen = torch.randn(6, 8), torch.randint(4, (6, 2))
    sorted_tokens, places = torch_npu.npu_moe_token_permute(tokens.to(DEVICE), chosen.to(DEVICE))
    same(sorted_tokens, tokens[chosen.flatten().argsort(stable=True) // 2])
    weights = torch.rand(6, 2)
    same(torch_npu.npu_moe_token_unpermute(sorted_tokens, places, weights.to(DEVICE)), tokens * weights.sum(1, keepdim=True))
    x, w, ends = torch.randn(10, 8).half(), torch.randn(3, 8, 5).half(), [3, 7, 10]
    made, = torch_npu.npu_grouped_matmul([x.to(DEVICE)], [w.to(DEVICE)], group_list=torch.tensor(ends).to(DEVICE),
                                         split_item=3, group_type=0, group_list_type=0)
    same(made, torch.cat([part.float() @ one.float() for part, one in zip(x.tensor_split(ends[:-1]), w)]), 1e-2)
    a, b = (torch.randint(-5, 5, shape).char() for shape in ((16, 32), (32, 16)))
    scale, token_scale = torch.rand(16), torch.rand(16)
    exact = a.float() @ b.float() * scale
    a, b, on_npu = a.to(DEVICE), b.to(DEVICE), scale.to(DEVICE)
    same(torch_npu.npu_quant_matmul(a, b, on_npu, output_dtype=torch.bfloat16), exact, 2e-2)
    same(torch_npu.npu_quant_matmul(a, b, on_npu, pertoken_scale=token_scale.to(DEVICE), output_dtype=torch.bfloat16),
         exact * token_scale[:, None], 2e-2)
    x = torch.randn(4, 16).half()
    quantized, scales = torch_npu.npu_dynamic_quant(x.to(DEVICE))
    same(quantized.cpu().float() * scales.cpu()[:, None], x, 2e-2)


def windows(x, ends, block, stride):
    """[windows of all sequences, block, heads, size]"""
    return torch.stack([x[i:i + block] for start, end in zip([0, *ends], ends) for i in range(start, end - block + 1, stride)])


def of_heads(q, k, v, scale, hidden=None):
    """[rows, heads, size] each, keys with fewer heads."""
    repeats = q.shape[1] // k.shape[1]
    q, k, v = (t.float().transpose(0, 1) for t in (q, k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)))
    scores = q @ k.mT * scale
    return ((scores if hidden is None else scores.masked_fill(hidden, float("-inf"))).softmax(-1) @ v).transpose(0, 1)


def sparse_attention():
    ends = [32, 96]
    compare(lambda x, w: torch_npu.npu_nsa_compress(x, w, 16, 16, actual_seq_len=ends),
            lambda x, w: (windows(x, ends, 16, 16) * w.unsqueeze(-1)).sum(1), torch.randn(96, 2, 16).half(), torch.rand(16, 2).half(),
            tolerance=2e-2)
    q, k, v = torch.randn(96, 4, 16).half(), torch.randn(6, 2, 16).half(), torch.randn(6, 2, 16).half()
    out, places, _, _ = torch_npu.npu_nsa_compress_attention(
        q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), 0.25, 4, 16, 16, 32, 1, actual_seq_qlen=ends, actual_cmp_seq_kvlen=[2, 6],
        actual_sel_seq_kvlen=[1, 3])
    same(out, torch.cat([of_heads(q[:32], k[:2], v[:2], 0.25), of_heads(q[32:], k[2:], v[2:], 0.25)]), 1e-2)
    assert places.shape == (96, 2, 1) and places[:32].eq(0).all()
    k, v, chosen = torch.randn(96, 2, 16).half(), torch.randn(96, 2, 16).half(), torch.zeros(96, 2, 1, dtype=torch.int32)
    seen = torch.arange(64) >= 32  # of the longer sequence; the first block of 32 is chosen
    compare(lambda q, k, v: torch_npu.npu_nsa_select_attention(
        q, k, v, chosen.to(DEVICE), 0.25, 4, 32, 1, actual_seq_qlen=ends, actual_seq_kvlen=ends)[0],
        lambda q, k, v: torch.cat([of_heads(q[:32], k[:32], v[:32], 0.25), of_heads(q[32:], k[32:], v[32:], 0.25, seen)]), q, k, v,
        tolerance=2e-2)
    mask = torch.tensor([[1, 0], [1, 1]]).expand(1, 4, 2, 2).to(torch.int8).contiguous()
    q, k, v = torch.randn(1, 4, 16, 64).half(), torch.randn(1, 2, 256, 64).half(), torch.randn(1, 2, 256, 64).half()
    hidden = mask[0, 0].eq(0).repeat_interleave(8, 0).repeat_interleave(128, 1)
    out, _ = torch_npu.npu_block_sparse_attention(
        q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), mask.to(DEVICE), [8, 128], q_input_layout="BNSD", kv_input_layout="BNSD",
        num_key_value_heads=2, scale_value=0.125)
    same(out, attended(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), 0.125, hidden), 1e-2)
    shapes = ((1, 1, 16, 4, 16), (1, 1, 16, 8, 16), (1, 1, 16, 8, 16), (1, 1, 8, 4, 16), (1, 1, 8, 4, 16))

    def from_pairs(q, k1, v1, k2, v2):
        keys, values = (a.unsqueeze(3) + b.transpose(2, 3).unsqueeze(2) for a, b in ((k1, k2), (v1, v2)))
        return ((q.unsqueeze(4) * keys).sum(-1) * 0.25).softmax(-1).unsqueeze(4).matmul(values).squeeze(4)
    compare(lambda *t: torch_npu.npu_fused_floyd_attention(*t, scale_value=0.25)[2], from_pairs,
            *(torch.randn(*shape).half() for shape in shapes), tolerance=2e-2)


def gating_by_a_table():
    if "input_ids" not in str(torch.ops.npu.npu_moe_gating_top_k.default._schema):
        return   # of later versions
    x, ids, table = torch.randn(5, 8), torch.tensor([1, 0, 1, 2, 2]), torch.tensor([[3, 1], [7, 0], [2, 5]], dtype=torch.int32)
    weights, experts, _ = torch_npu.npu_moe_gating_top_k(x.to(DEVICE), 2, input_ids=ids.to(DEVICE), tid2eid=table.to(DEVICE), norm_type=1)
    assert torch.equal(experts.cpu(), table[ids])
    chosen = x.sigmoid().gather(1, table[ids].long())
    same(weights, chosen / chosen.sum(1, keepdim=True))


if __name__ == "__main__":
    for case in (attention, norms_and_activations, shapes_and_formats, experts_and_quantization, sparse_attention, gating_by_a_table):
        print("case", case.__name__, flush=True)
        torch.manual_seed(0)
        case()
        torch.npu.synchronize()
    print("passed")
