"""Scaled dot-product attention on the fused kernel, against the CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile


def make(batch=2, heads=4, rows=9, columns=9, size=16, kv_heads=None):
    torch.manual_seed(0)
    kv_heads = kv_heads or heads
    return (torch.randn(batch, heads, rows, size), torch.randn(batch, kv_heads, columns, size),
            torch.randn(batch, kv_heads, columns, size))


def result_and_gradients(device, inputs, **options):
    inputs = [t.detach().to(device).requires_grad_() for t in inputs]
    options = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    out = F.scaled_dot_product_attention(*inputs, **options)
    (out * torch.arange(out.numel(), device=device).reshape(out.shape).cos()).sum().backward()
    return [out.detach().cpu()] + [t.grad.cpu() for t in inputs]


MASKS = {
    "none": dict,
    "causal": lambda: {"is_causal": True},
    "scale": lambda: {"scale": 0.5},
    "bool": lambda: {"attn_mask": torch.rand(2, 1, 9, 9) > 0.3},
    "bool 2-D": lambda: {"attn_mask": torch.ones(9, 9).tril().bool()},
    "added": lambda: {"attn_mask": torch.randn(2, 1, 9, 9)},
    "added 2-D": lambda: {"attn_mask": torch.randn(9, 9)},
}


@pytest.mark.parametrize("kind", MASKS)
def test_equals_cpu(kind):
    torch.manual_seed(1)
    options, inputs = MASKS[kind](), make()
    # float32 sums in another order
    torch.testing.assert_close(result_and_gradients("npu", inputs, **options), result_and_gradients("cpu", inputs, **options),
                               rtol=1e-4, atol=1e-5)


def test_cross_attention_of_other_length():
    inputs = make(rows=5, columns=12)
    torch.testing.assert_close(result_and_gradients("npu", inputs), result_and_gradients("cpu", inputs), rtol=1e-4, atol=1e-5)


def test_grouped_heads():
    inputs = make(heads=4, kv_heads=2)
    torch.testing.assert_close(result_and_gradients("npu", inputs, enable_gqa=True),
                               result_and_gradients("cpu", inputs, enable_gqa=True), rtol=1e-4, atol=1e-5)


def test_dropout_keeps_the_mean_and_repeats():
    q, k, v = make(batch=8, heads=8, rows=64, columns=64)
    v = torch.ones_like(v).npu()
    torch.npu.manual_seed(3)
    first = F.scaled_dot_product_attention(q.npu(), k.npu(), v, dropout_p=0.3)
    torch.npu.manual_seed(3)
    second = F.scaled_dot_product_attention(q.npu(), k.npu(), v, dropout_p=0.3)
    assert torch.equal(first, second)
    assert first.std() > 0.01
    assert abs(first.mean().item() - 1) < 0.02


@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 24, 33, 64])
@pytest.mark.parametrize("rows,columns", [(1, 1), (1, 1000), (3, 17), (4, 15), (5, 16), (16, 16), (17, 33), (4, 1024)])
def test_few_keys(size, rows, columns):
    """The sizes around those that softcann computes row by row, with and without packed keys, from views."""
    q, k, v = (torch.randn(2, length, 3, size).transpose(1, 2) for length in (rows, columns, columns))
    for causal in (False, rows == columns):
        expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
        got = torch.nn.functional.scaled_dot_product_attention(q.npu(), k.npu(), v.npu(), is_causal=causal)
        torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-5, atol=1e-5)
        wide, narrow = ([t.detach().to(device).requires_grad_() for t in (q, k, v)] for device in (torch.float64, "npu"))
        weight = torch.randn(2, rows, 3, size).transpose(1, 2)
        (F.scaled_dot_product_attention(*wide, is_causal=causal) * weight.double()).sum().backward()
        (F.scaled_dot_product_attention(*narrow, is_causal=causal) * weight.npu()).sum().backward()
        for by_cpu, by_npu in zip(wide, narrow):
            torch.testing.assert_close(by_npu.grad.cpu().double(), by_cpu.grad, rtol=2e-5, atol=2e-5)
    k[0, 1, columns // 2, 0] = float("nan")
    got = torch.nn.functional.scaled_dot_product_attention(q.npu(), k.npu(), v.npu()).cpu()
    assert got[0, 1].isnan().all() and not got[1].isnan().any() and not got[0, ::2].isnan().any()


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_flex_attention(backend):
    """A window of the past, farther keys counting less; against the same mask written out."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    torch._dynamo.reset()
    attend = torch.compile(flex.flex_attention, backend=backend) if backend else flex.flex_attention
    inputs = make(rows=130, columns=130)
    slopes = torch.tensor([0.1, 0.2, 0.3, 0.4])
    distance = torch.arange(130) - torch.arange(130)[:, None]
    bias = (distance * slopes[:, None, None]).masked_fill((distance > 0) | (distance <= -50), float("-inf"))
    expected = result_and_gradients("cpu", inputs, attn_mask=bias.expand(2, 4, 130, 130))

    on_npu = [t.npu().requires_grad_() for t in inputs]
    slopes = slopes.npu()
    window = flex.create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 50), None, None, 130, 130, device="npu")
    out = attend(*on_npu, score_mod=lambda score, b, h, q, k: score + (k - q) * slopes[h], block_mask=window)
    (out * torch.arange(out.numel(), device="npu").reshape(out.shape).cos()).sum().backward()
    for ours, theirs in zip([out, *(t.grad for t in on_npu)], expected):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


SHAPES = {  # query, key, value: what CPU computes by broadcasting, or refuses
    "key's head size": ((2, 3, 4, 8), (2, 3, 4, 7), (2, 3, 4, 7)),
    "batch": ((2, 3, 4, 8), (3, 3, 4, 8), (3, 3, 4, 8)),
    "value's batch": ((2, 3, 4, 8), (2, 3, 4, 8), (3, 3, 4, 8)),
    "heads": ((2, 3, 4, 8), (2, 2, 4, 8), (2, 2, 4, 8)),
    "heads that would group": ((2, 4, 4, 8), (2, 2, 4, 8), (2, 2, 4, 8)),
    "value's heads": ((2, 4, 4, 8), (2, 4, 4, 8), (2, 2, 4, 8)),
    "one batch for all": ((2, 3, 4, 8), (1, 3, 4, 8), (1, 3, 4, 8)),
    "one head for all": ((2, 3, 4, 8), (2, 1, 4, 8), (2, 1, 4, 8)),
    "value's head size": ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes_are_taken_and_refused_as_on_the_cpu(shapes):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    try:
        expected = F.scaled_dot_product_attention(*inputs)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            F.scaled_dot_product_attention(*[t.npu() for t in inputs])
    else:
        torch.testing.assert_close(F.scaled_dot_product_attention(*[t.npu() for t in inputs]).cpu(), expected)


def test_values_of_other_tokens_are_refused():
    """Which the CPU's fused kernel does not see."""
    query, key, value = (torch.randn(2, 3, n, 8, device="npu") for n in (4, 5, 6))
    with pytest.raises(RuntimeError, match="Expected size"):
        F.scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize("size", [16, 64], ids=["few keys", "many"])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_a_part_of_the_keys(size, masked):
    """As in a ring of ranks: each part is given the output and the statistics of all keys, and the parts' gradients add up."""
    operators = torch.ops.aten
    torch.manual_seed(0)
    query, key, value, gradient = (torch.randn(1, 2, 4 * size, size, device="npu") for _ in range(4))
    bias = torch.zeros(1, 2, 4 * size, 4 * size, device="npu") if masked else None
    if masked:
        bias[..., 0] = -torch.inf
    out, logsumexp, largest, total, *rest = operators._scaled_dot_product_fused_attention_overrideable(query, key, value, bias)

    def differentiate(part):
        some = None if bias is None else bias[..., part].contiguous()
        return operators._scaled_dot_product_fused_attention_overrideable_backward(
            gradient, query, key[:, :, part].contiguous(), value[:, :, part].contiguous(), some, [True, True, True, False], out,
            logsumexp, largest, total, *rest[:2], 0.0, False, rest[2], rest[3])[:3]

    whole = differentiate(slice(0, 4 * size))
    first, second = differentiate(slice(0, size)), differentiate(slice(size, 4 * size))
    torch.testing.assert_close(first[0] + second[0], whole[0], rtol=1e-4, atol=1e-5)
    for one, two, both in zip(first[1:], second[1:], whole[1:]):
        torch.testing.assert_close(torch.cat([one, two], 2), both, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", [backend for backend in SDPBackend.__members__.values() if backend is not SDPBackend.ERROR], ids=str)
def test_kernels_that_a_program_names(backend):
    """The NPU's kernel stands for each fused one of CUDA; whoever asks for MATH alone gets it."""
    query = torch.randn(1, 2, 8, 16, dtype=torch.float16, device="npu")
    with sdpa_kernel(backend), profile(activities=[ProfilerActivity.CPU]) as seen:
        F.scaled_dot_product_attention(query, query, query, is_causal=True)
    called = {event.name for event in seen.events()}
    assert ("aten::_scaled_dot_product_fused_attention_overrideable" in called) == (backend is not SDPBackend.MATH)
    assert ("aten::_scaled_dot_product_attention_math" in called) == (backend is SDPBackend.MATH)
