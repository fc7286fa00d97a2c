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


if __name__ == "__main__":
    for case in (attention, norms_and_activations, shapes_and_formats, experts_and_quantization):
        print("case", case.__name__, flush=True)
        torch.manual_seed(0)
        case()
        torch.npu.synchronize()
    print("passed")
