"""Small tensors take ways of their own through softcann's kernels (op/fast_path.h and the like): the results are the CPU's."""
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

NAN, INF = float("nan"), float("inf")


def both(call, *tensors):
    """The call's results on the CPU and on the NPU, for copies of the tensors."""
    on_cpu = call(*[t.clone() for t in tensors])
    on_npu = call(*[t.npu() for t in tensors])
    return on_cpu, on_npu.cpu()


def same(call, *tensors):
    expected, got = both(call, *tensors)
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("shape, row", [((5, 7), (7,)), ((2, 3, 5), (3, 5)), ((2, 3, 5), (1, 3, 5)), ((4, 1), (1,)), ((0, 3), (3,)), ((3, 0), (0,))])
def test_rows(dtype, shape, row):
    x = torch.arange(35).reshape(-1)[: torch.Size(shape).numel()].reshape(shape).to(dtype)
    v = torch.arange(1, 36).reshape(-1)[: torch.Size(row).numel()].reshape(row).to(dtype)
    for call in (torch.add, torch.sub, torch.mul, torch.lt, lambda a, b: a.clone().sub_(b)):
        same(call, x, v)
    same(torch.div, x, v)


def test_a_row_of_the_result_itself():
    x = torch.arange(12.0).reshape(3, 4)
    same(lambda t: t.sub_(t[0].clone()), x)

    for device in ("cpu", "npu"):
        own = x.to(device)
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.sub(own, own[0], out=own)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64], ids=str)
def test_clamp(dtype):
    values = [-3, -1, 0, 1, 3] + ([NAN, INF, -INF, -0.0] if dtype.is_floating_point else [])
    x = torch.tensor(values, dtype=dtype)
    for low, high in itertools.product([-1, 0, 2, NAN, -INF], [1, 0, -2, NAN, INF]):
        if dtype.is_floating_point or all(abs(bound) < 10 for bound in (low, high)):
            expected, got = both(lambda t: t.clamp(low, high), x)
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            if dtype.is_floating_point:
                assert torch.equal(torch.signbit(got[~got.isnan()]), torch.signbit(expected[~expected.isnan()]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64, torch.uint8], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dtype, dim):
    parts = [torch.arange(6).reshape(2, 3).to(dtype), torch.ones(2, 3).to(dtype), torch.zeros(2, 3).to(dtype)]
    same(lambda *t: torch.cat(t, dim), *parts)
    same(lambda *t: torch.cat([p.t() for p in t], dim), *parts)
    same(lambda *t: torch.cat([torch.empty(0, dtype=dtype, device=t[0].device), *t], dim), *parts)
    same(lambda a, b, c: torch.cat([a, b.to(torch.complex64)], dim), *parts)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64], ids=str)
def test_bits(dtype):
    x, y = torch.randint(2 if dtype == torch.bool else 100, (2, 7, 9)).to(dtype)
    for call in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor):
        same(call, x, y)
        same(lambda a, b: call(a, b[0]), x, y)
        same(lambda a, b: call(a.t(), b.t()), x, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_nll_loss(weighted, reduction):
    scores, target = torch.randn(9, 5).log_softmax(1), torch.tensor([0, 4, 2, -100, 3, 1, 1, -100, 0])
    weight = torch.rand(5) if weighted else None

    def loss(scores, target):
        return F.nll_loss(scores, target, weight.to(scores.device) if weighted else None, reduction=reduction)

    torch.testing.assert_close(*both(loss, scores, target))
    torch.testing.assert_close(*both(loss, scores, torch.full((9,), -100)), equal_nan=True)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_batch_norm(affine, shape):
    x = torch.randn(shape) * 3 + 1
    results = []
    for device in ("cpu", "npu"):
        layer = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}[len(shape)](
            shape[1], affine=affine).to(device)
        given = x.clone().to(device).requires_grad_()
        for _ in range(2):
            y = layer(given)
        (y * torch.arange(y.numel(), device=device).view_as(y)).sum().backward()
        results.append([y, given.grad, layer.running_mean, layer.running_var])
    for got, expected in zip(results[1], results[0]):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("operator", ["native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_batch_norm_saves_as_many_statistics_as_its_shape_function_says(operator, training, dtype):
    call = getattr(torch.ops.aten, operator)
    numbers = (0.1, 1e-5) if operator.endswith("training") else (training, 0.1, 1e-5)
    x, weight, var = torch.randn(2, 3, 4, dtype=dtype), torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([3, 2, 1], dtype=dtype)
    given = [x.npu(), weight.npu(), weight.npu(), weight.npu(), var.npu()]
    with FakeTensorMode() as mode:
        fake = call(*map(mode.from_tensor, given), *numbers)
    found = call(*given, *numbers)
    assert [y.shape for y in found] == [y.shape for y in fake]
    expected = call(x, weight, weight, weight.clone(), var.clone(), *numbers)
    torch.testing.assert_close(found[0].cpu(), expected[0], rtol=2e-3, atol=2e-3)
    if training and not operator.endswith("training"):
        for ours, theirs in zip(found[1:], expected[1:]):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=2e-3, atol=2e-3, check_dtype=False)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)])
def test_batch_norm_of_a_transposed_tensor_is_contiguous_as_on_the_cpu(shape, training):
    x = torch.randn(shape).mT.contiguous().mT
    zero, one = torch.zeros(3), torch.ones(3)
    expected, found = both(lambda x, mean, var: F.batch_norm(x, mean, var, training=training), x, zero, one)
    assert found.stride() == expected.stride() and found.is_contiguous()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("size", [1, 5, 8, 19, 32, 64])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 37), (6, 6), (3, 11)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(size, rows, columns, causal):
    q, k, v = torch.randn(2, 3, rows, size), torch.randn(2, 3, columns, size), torch.randn(2, 3, columns, size)
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal).float()
    got = F.scaled_dot_product_attention(q.npu(), k.npu(), v.npu(), is_causal=causal)
    torch.testing.assert_close(got.cpu(), expected)
    # heads beside each other, as a layer's projections leave them
    spread = [t.transpose(1, 2).contiguous().npu().transpose(1, 2).requires_grad_() for t in (q, k, v)]
    torch.testing.assert_close(F.scaled_dot_product_attention(*spread, is_causal=causal).cpu(), expected)
    F.scaled_dot_product_attention(*spread, is_causal=causal).square().sum().backward()
    wide = [t.double().requires_grad_() for t in (q, k, v)]  # the CPU's own float32 is off by up to 2e-5
    F.scaled_dot_product_attention(*wide, is_causal=causal).square().sum().backward()
    for got, wanted in zip(spread, wide):
        torch.testing.assert_close(got.grad.cpu().double(), wanted.grad, rtol=1e-4, atol=1e-5)


def test_attention_keeps_nan_and_survives_infinity():
    q, k, v = torch.randn(3, 1, 2, 4, 16)
    bad = k.clone()
    bad[0, 0, 1] = NAN
    got = F.scaled_dot_product_attention(q.npu(), bad.npu(), v.npu()).cpu()
    assert got[0, 0].isnan().all() and not got[0, 1].isnan().any()
    large = F.scaled_dot_product_attention(q.npu() * 1e4, k.npu() * 1e4, v.npu()).cpu()
    torch.testing.assert_close(large, F.scaled_dot_product_attention(q * 1e4, k * 1e4, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64], ids=str)
def test_matrix_times_vector(dtype):
    a, v = (torch.randn(5, 7) * 4).to(dtype), (torch.randn(7) * 4).to(dtype)
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(dtype, 1e-5)
    for call in (torch.mv, lambda a, v: torch.mv(a.t().contiguous().t(), v), lambda a, v: torch.mv(a[:, ::2], v[::2]),
                 lambda a, v: torch.mv(a[:, :0], v[:0]), lambda a, v: torch.mv(a[:0], v), torch.matmul):
        expected, got = both(call, a, v)
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    room = torch.zeros(10, dtype=dtype, device="npu")
    torch.mv(a.npu(), v.npu(), out=room[::2])
    torch.testing.assert_close(room[::2].cpu(), torch.mv(a, v), rtol=tolerance, atol=tolerance)
    for wrong in ((a, v[:3]), (a, a), (v, v)):
        with pytest.raises(RuntimeError) as on_cpu:
            torch.mv(*wrong)
        with pytest.raises(RuntimeError, match="size mismatch|@ vector expected") as on_npu:
            torch.mv(*[t.npu() for t in wrong])
        assert str(on_npu.value).split(",")[0][:20] == str(on_cpu.value).split(",")[0][:20]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("bias", [(5,), (1, 5), (1,), (7, 1), (7, 5), ()], ids=str)
def test_product_with_bias(dtype, bias):
    """A row of the product's size is put into the result first; others are not. Whole numbers: sums are exact in any order."""
    a, b = torch.randint(-4, 5, (7, 3)).to(dtype), torch.randint(-4, 5, (3, 5)).to(dtype)
    c = torch.randint(-4, 5, bias).to(dtype)
    for beta, alpha in ((1, 1), (1, 2), (2, 1), (0, 1)):
        same(lambda *t: torch.addmm(*t, beta=beta, alpha=alpha), c, a, b)
    same(lambda *t: torch.addmm(t[0], t[1][:, :0], t[2][:0]), c, a, b)
    same(lambda *t: torch.addmm(*t, out=torch.zeros(5, 7, dtype=dtype, device=t[0].device).t()), c, a, b)
    if dtype.is_floating_point:
        same(lambda *t: torch.addmm(*t), torch.where(torch.arange(c.numel()).reshape(bias) % 2 == 0, NAN, INF).to(dtype), a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_numbers_are_rounded_as_by_torch(dtype):
    """A number that is added is rounded to the tensor's type first, one that multiplies is not; whatever the size."""
    for count in (1, 31, 64, 65, 200):
        x = (torch.rand(count) * 8 + 0.5).to(dtype)
        for call in (lambda t: t + 1.3, lambda t: t - 1.3, lambda t: 1.3 - t, lambda t: t * 1.3, lambda t: t / 1.3,
                     lambda t: t.clone().add_(1.3), lambda t: t.clone().sub_(1.3), lambda t: torch._foreach_add([t], 1.3)[0],
                     lambda t: torch._foreach_sub([t], [1.3])[0], lambda t: torch._foreach_mul([t], 1.3)[0]):
            assert torch.equal(call(x.npu()).cpu(), call(x))
