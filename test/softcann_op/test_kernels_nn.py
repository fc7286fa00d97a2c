"""softcann's kernels of networks against torch: one case an operator, in float32 and where it matters in halves."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, OPS, close


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m,n,k", [(3, 5, 7), (200, 190, 210)])
def test_products(call, dtype, m, n, k):
    a, b = torch.randn(m, k).to(dtype) / math.sqrt(k), torch.randn(k, n).to(dtype)
    expected = a.float() @ b.float()
    out = torch.empty(m, n, dtype=dtype)
    for name in ("aclnnMm", "aclnnMatmul"):
        out.fill_(9)
        call(name, a, b, out, 0)
        close(out, expected, HALVES[dtype])
    call("aclnnMm", a.t().contiguous().t(), b.t().contiguous().t(), out, 0)
    close(out, expected, HALVES[dtype])
    bias = torch.randn(n).to(dtype)
    call("aclnnAddmm", bias, a, b, 1.0, 2.0, out, 0)
    close(out, bias.float() + 2 * expected, 2 * HALVES[dtype])
    batch_out = torch.empty(3, m, n, dtype=dtype)
    call("aclnnBatchMatMul", a.expand(3, m, k), b.expand(3, k, n), batch_out, 0)
    close(batch_out, expected.expand(3, m, n), HALVES[dtype])
    folded = torch.empty(2, 3, n, dtype=dtype)
    rows = a[:1].expand(6, k).reshape(2, 3, k).contiguous()
    call("aclnnMatmul", rows, b, folded, 0)
    close(folded, rows.float() @ b.float(), HALVES[dtype])
    vector = torch.empty(m, dtype=dtype)
    call("aclnnMv", a, b[:, 0].contiguous(), vector, 0)
    close(vector, expected[:, 0], HALVES[dtype])


def test_product_variants(call):
    a, b, self = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    out = torch.empty(2, 3, 5)
    call("aclnnBaddbmm", self, a, b, 0.5, 2.0, out, 0)
    close(out, torch.baddbmm(self, a, b, beta=0.5, alpha=2))
    flat = torch.empty(3, 5)
    call("aclnnAddbmm", self[0], a, b, 1.0, 1.0, flat, 0)
    close(flat, torch.addbmm(self[0], a, b))
    broadcast = torch.empty(6, 2, 3, 5)
    call("aclnnMatmul", a, b.expand(6, 2, 4, 5), broadcast, 0)
    close(broadcast, (a @ b).expand(6, 2, 3, 5))
    column = torch.empty(3)
    call("aclnnAddmv", torch.ones(3), a[0], torch.ones(4), 2.0, 3.0, column, 0)
    close(column, torch.addmv(torch.ones(3), a[0], torch.ones(4), alpha=2, beta=3))
    dot = torch.empty(())
    call("aclnnDot", torch.arange(4.0), torch.arange(4.0), dot)
    assert dot.item() == 14


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm(call, dtype):
    x = torch.randn(5, 3, 4, 4).to(dtype)
    weight, bias = torch.rand(3) + 0.5, torch.randn(3)
    mean, var = torch.zeros(3), torch.ones(3)
    reference_mean, reference_var = mean.clone(), var.clone()
    leaf, w, b = x.float().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()
    expected = F.batch_norm(leaf, reference_mean, reference_var, w, b, True, 0.1, 1e-5)
    out, save_mean, saved = torch.empty_like(x), torch.empty(3), torch.empty(3)
    call("aclnnBatchNorm", x, weight, bias, mean, var, True, 0.1, 1e-5, out, save_mean, saved)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    close(out, expected, tolerance)
    close(mean, reference_mean)
    close(var, reference_var)
    close(saved, x.float().var((0, 2, 3), unbiased=False))  # Ascend910B saves the variance under this name
    grad = torch.randn(x.shape).to(dtype)
    expected.backward(grad.float())
    dx, dw, db = torch.empty_like(x), torch.empty(3), torch.empty(3)
    call("aclnnBatchNormBackward", grad, x, weight, mean, var, save_mean, saved, True, 1e-5, [True, True, True], dx, dw,
         db)
    close(dx, leaf.grad, 10 * tolerance)
    close(dw, w.grad, 10 * tolerance)
    close(db, b.grad, 10 * tolerance)
    call("aclnnBatchNorm", x, weight, bias, mean, var, False, 0.1, 1e-5, out, torch.empty(3), torch.empty(3))
    close(out, F.batch_norm(x.float(), mean, var, weight, bias), tolerance)


@pytest.mark.parametrize("shape", [(32, 3, 20, 20), (40, 513, 2, 2), (5000, 7), (2, 3, 4, 5, 6), (1, 2, 33)])
@pytest.mark.parametrize("mean,spread", [(0, 1), (1000, 1), (-5e4, 10), (1e-3, 1e-5)])
def test_batch_statistics_are_exact(call, shape, mean, spread):
    """Far from zero too, where a sum in float32 would lose the variance."""
    x, channels = torch.randn(shape) * spread + mean, shape[1]
    weight, bias = torch.rand(channels) + 0.5, torch.randn(channels)
    running = [torch.zeros(channels), torch.zeros(channels)]
    out, saved = torch.empty(shape), [torch.empty(channels), torch.empty(channels)]
    call("aclnnBatchNorm", x, weight, bias, *running, True, 1.0, 1e-5, out, *saved)
    wide, dims = x.double(), [d for d in range(x.dim()) if d != 1]
    var, average = torch.var_mean(wide, dims, correction=0)
    for got, expected in ((saved[0], average), (saved[1], var), (running[0], average), (running[1], wide.var(dims))):
        torch.testing.assert_close(got, expected.float(), rtol=1e-6, atol=0 if got is not saved[0] else 1e-6)
    close(out, F.batch_norm(wide, None, None, weight.double(), bias.double(), True), 2e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 7])
def test_batch_norm_keeps_what_is_not_a_number(call, bad, place):
    x = torch.randn(2, 3, 6, 6)
    x[0, 1].view(-1)[place] = bad
    out, mean, saved, running = torch.empty(x.shape), torch.empty(3), torch.empty(3), [torch.zeros(3), torch.ones(3)]
    call("aclnnBatchNorm", x, None, None, *running, True, 0.1, 1e-5, out, mean, saved)
    wanted = [torch.zeros(3), torch.ones(3)]
    torch.testing.assert_close(out, F.batch_norm(x, *wanted, training=True), equal_nan=True)
    torch.testing.assert_close(running, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm(call, dtype):
    x, weight, bias = torch.randn(6, 7, 10).to(dtype), torch.randn(10).to(dtype), torch.randn(10).to(dtype)
    leaves = [t.float().requires_grad_() for t in (x, weight, bias)]
    expected = F.layer_norm(leaves[0], [10], leaves[1], leaves[2])
    out, mean, rstd = torch.empty_like(x), torch.empty(6, 7, 1), torch.empty(6, 7, 1)
    call("aclnnLayerNorm", x, [10], weight, bias, 1e-5, out, mean, rstd)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    close(out, expected, tolerance)
    close(mean, x.float().mean(-1, keepdim=True), tolerance)
    grad = torch.randn(x.shape).to(dtype)
    expected.backward(grad.float())
    dx, dw, db = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
    call("aclnnLayerNormBackward", grad, x, [10], mean, rstd, weight, bias, [True, True, True], dx, dw, db)
    for got, leaf in zip((dx, dw, db), leaves):
        close(got, leaf.grad, 10 * tolerance)
    call("aclnnLayerNorm", x, [10], None, None, 1e-5, out, None, None)
    close(out, F.layer_norm(x.float(), [10]), tolerance)


def test_group_norm(call):
    x, weight, bias = torch.randn(2, 6, 5), torch.randn(6), torch.randn(6)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    expected = F.group_norm(leaves[0], 3, leaves[1], leaves[2])
    out, mean, rstd = torch.empty_like(x), torch.empty(2, 3), torch.empty(2, 3)
    call("aclnnGroupNorm", x, weight, bias, 2, 6, 5, 3, 1e-5, out, mean, rstd)
    close(out, expected)
    grad = torch.randn(x.shape)
    expected.backward(grad)
    dx, dw, db = torch.empty_like(x), torch.empty(6), torch.empty(6)
    call("aclnnGroupNormBackward", grad, x, mean, rstd, weight, 2, 6, 5, 3, [True, True, True], dx, dw, db)
    for got, leaf in zip((dx, dw, db), leaves):
        close(got, leaf.grad, 1e-4)

def test_gradient_of_group_norm_and_swish(call):
    x, gamma, beta = torch.randn(3, 8, 5, requires_grad=True), torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
    dy = torch.randn(3, 8, 5)
    y = torch.nn.functional.group_norm(x, 4, gamma, beta)
    (y * torch.sigmoid(1.5 * y)).backward(dy)
    groups = x.detach().view(3, 4, -1)
    mean, rstd = groups.mean(-1), torch.rsqrt(groups.var(-1, correction=0) + 1e-5)
    dx, dgamma, dbeta = torch.empty(3, 8, 5), torch.empty(8), torch.empty(8)
    call.named("aclnnGroupNormSwishGrad", dy=dy, mean=mean, rstd=rstd, x=x.detach(), gamma=gamma.detach(), beta=beta.detach(), numGroups=4,
               dataFormatOptional="NCHW", swishScale=1.5, dgammaIsRequire=True, dbetaIsRequire=True, dxOut=dx, dgammaOut=dgamma, dbetaOut=dbeta)
    for found, wanted in ((dx, x), (dgamma, gamma), (dbeta, beta)):
        close(found, wanted.grad, 1e-4)


def test_rms_norm(call):
    x, gamma = torch.randn(4, 6, 8), torch.randn(8)
    leaf, g = x.clone().requires_grad_(), gamma.clone().requires_grad_()
    expected = F.rms_norm(leaf, [8], g, 1e-6)
    out, rstd = torch.empty_like(x), torch.empty(4, 6, 1)
    call("aclnnRmsNorm", x, gamma, 1e-6, out, rstd)
    close(out, expected)
    grad = torch.randn(x.shape)
    expected.backward(grad)
    dx, dg = torch.empty_like(x), torch.empty(8)
    call("aclnnRmsNormGrad", grad, x, rstd, gamma, dx, dg)
    close(dx, leaf.grad, 1e-4)
    close(dg, g.grad, 1e-4)


@pytest.mark.parametrize("name,function", [("aclnnSoftmax", torch.softmax), ("aclnnLogSoftmax", torch.log_softmax)])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax(call, name, function, dim):
    x = torch.randn(5, 9).requires_grad_()
    expected, out, grad = function(x, dim), torch.empty(5, 9), torch.randn(5, 9)
    call(name, x.detach(), dim, out)
    close(out, expected)
    expected.backward(grad)
    dx = torch.empty(5, 9)
    call(name + "Backward", grad, out, dim, dx)
    close(dx, x.grad)
    wide = torch.empty(5, 9)
    call(name, x.detach().half(), dim, wide)
    close(wide, function(x, dim), 5e-3)


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_nll_loss(call, reduction, number):
    for shape, suffix in (((6, 4), ""), ((2, 4, 3, 3), "2d")):
        x = torch.log_softmax(torch.randn(shape), 1).requires_grad_()
        target = torch.randint(4, (shape[0], *shape[2:]))
        target.view(-1)[0] = 2
        weight = torch.rand(4)
        expected = F.nll_loss(x, target, weight, reduction=reduction, ignore_index=2)
        out, total = torch.empty(expected.shape), torch.empty(())
        call(f"aclnnNLLLoss{suffix}", x.detach(), target, weight, number, 2, out, total)
        close(out, expected)
        grad, dx = torch.randn(expected.shape), torch.full(shape, 9.0)
        expected.backward(grad)
        call(f"aclnnNLLLoss{suffix}Backward", grad, x.detach(), target, weight, number, 2, total, dx)
        close(dx, x.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(call, reduction, smoothing):
    x, target, weight = torch.randn(6, 4).requires_grad_(), torch.tensor([0, 1, 2, 3, 1, 0]), torch.rand(4)
    expected = F.cross_entropy(x, target, weight, reduction=reduction, ignore_index=3, label_smoothing=smoothing)
    loss, log_prob = torch.empty(expected.shape), torch.empty(6, 4)
    z, lse = torch.empty(expected.shape), torch.empty(6)
    call("aclnnCrossEntropyLoss", x.detach(), target, weight, reduction, 3, smoothing, 0.0, False, loss, log_prob, z, lse)
    close(loss, expected)
    grad, dx = torch.randn(expected.shape), torch.empty(6, 4)
    expected.backward(grad)
    call("aclnnCrossEntropyLossGrad", grad, log_prob, target, weight, None, None, reduction, 3, smoothing, 0.0, dx)
    close(dx, x.grad)


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_elementwise_losses(call, reduction, number):
    target, x = torch.rand(3, 4), torch.rand(3, 4).requires_grad_()
    cases = [
        ("aclnnMseLoss", lambda: F.mse_loss(x, target, reduction=reduction), ()),
        ("aclnnL1Loss", lambda: F.l1_loss(x, target, reduction=reduction), ()),
        ("aclnnSoftMarginLoss", lambda: F.soft_margin_loss(x, target, reduction=reduction), ()),
        ("aclnnSmoothL1Loss", lambda: F.smooth_l1_loss(x, target, reduction=reduction, beta=0.3), (0.3,)),
        ("aclnnKlDiv", lambda: F.kl_div(x, target, reduction=reduction), (False,)),
    ]
    for name, reference, extra in cases:
        x.grad = None
        expected = reference()
        out = torch.empty(expected.shape)
        call(name, x.detach(), target, number, *extra, out)
        close(out, expected)
        grad, dx = torch.randn(expected.shape), torch.empty(3, 4)
        expected.backward(grad)
        call(name + "Backward", grad, x.detach(), target, number, *extra, dx)
        close(dx, x.grad)


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_binary_cross_entropy(call, reduction, number):
    target, weight, positive = torch.rand(3, 4), torch.rand(4), torch.rand(4)
    x = torch.rand(3, 4).requires_grad_()
    expected = F.binary_cross_entropy(x, target, weight.expand(3, 4), reduction=reduction)
    out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(3, 4)
    call("aclnnBinaryCrossEntropy", x.detach(), target, weight.expand(3, 4).contiguous(), number, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnBinaryCrossEntropyBackward", grad, x.detach(), target, weight.expand(3, 4).contiguous(), number, dx)
    close(dx, x.grad)
    x.grad = None
    expected = F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=positive, reduction=reduction)
    call("aclnnBinaryCrossEntropyWithLogits", x.detach(), target, weight, positive, number, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnBinaryCrossEntropyWithLogitsBackward", grad, x.detach(), target, weight, positive, number, dx)
    close(dx, x.grad)


@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
def test_max_pool(call, index_type):
    x = torch.randn(2, 3, 9, 8).requires_grad_()
    expected, index = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    out, indices = torch.empty(expected.shape), torch.empty(expected.shape, dtype=index_type)
    window = ([3, 3], [2, 2], [1, 1], [1, 1], False)
    call("aclnnMaxPool2dWithIndices", x.detach(), *window, out, indices)
    close(out, expected)
    assert torch.equal(indices.long(), index)
    grad, dx = torch.randn(expected.shape), torch.empty(x.shape)
    expected.backward(grad)
    call("aclnnMaxPool2dWithIndicesBackward", grad, x.detach(), indices, *window, dx)
    close(dx, x.grad)
    pixels = expected.shape[2] * expected.shape[3]
    mask = torch.empty(2, 3, 9, (math.ceil(pixels / 16) + 1) * 32, dtype=torch.int8)
    call("aclnnMaxPool2dWithMask", x.detach(), *window, out.zero_(), mask)
    close(out, expected)
    call("aclnnMaxPool2dWithMaskBackward", grad, x.detach(), mask, *window, dx.zero_())
    close(dx, x.grad)


def test_average_pools(call):
    x = torch.randn(2, 3, 8, 8).requires_grad_()
    expected = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(x.shape)
    call("aclnnAvgPool2d", x.detach(), [3, 3], [2, 2], [1, 1], False, False, 0, 0, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnAvgPool2dBackward", grad, x.detach(), [3, 3], [2, 2], [1, 1], False, False, 0, 0, dx)
    close(dx, x.grad)
    x.grad = None
    expected = F.adaptive_avg_pool2d(x, (1, 1))
    out, grad = torch.empty(expected.shape), torch.randn(expected.shape)
    call("aclnnAdaptiveAvgPool2d", x.detach(), [1, 1], out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnAdaptiveAvgPool2dBackward", grad, x.detach(), dx)
    close(dx, x.grad)


def activations():
    scalar = {
        "aclnnRelu": (torch.relu, ()), "aclnnSigmoid": (torch.sigmoid, ()), "aclnnTanh": (torch.tanh, ()),
        "aclnnGelu": (F.gelu, ()), "aclnnGeluV2": (lambda x: F.gelu(x, approximate="tanh"), (1,)),
        "aclnnSilu": (F.silu, ()), "aclnnMish": (F.mish, ()), "aclnnHardswish": (F.hardswish, ()),
        "aclnnHardsigmoid": (F.hardsigmoid, ()), "aclnnElu": (lambda x: F.elu(x, 0.7), (0.7, 1.0, 1.0)),
        "aclnnCelu": (lambda x: F.celu(x, 0.7), (0.7,)), "aclnnSelu": (F.selu, ()),
        "aclnnLeakyRelu": (lambda x: F.leaky_relu(x, 0.2), (0.2,)), "aclnnLogSigmoid": (F.logsigmoid, ()),
        "aclnnSoftplus": (F.softplus, (1.0, 20.0)), "aclnnHardtanh": (F.hardtanh, (-1.0, 1.0)),
        "aclnnHardshrink": (F.hardshrink, (0.5,)), "aclnnSoftshrink": (F.softshrink, (0.5,)),
        "aclnnThreshold": (lambda x: F.threshold(x, 0.1, 2.0), (0.1, 2.0)),
        "aclnnFastGelu": (lambda x: x * torch.sigmoid(1.702 * x), ()),
        "aclnnSwish": (lambda x: x * torch.sigmoid(0.5 * x), (0.5,)),
    }
    return sorted(scalar.items())


@pytest.mark.parametrize("name,case", activations())
def test_activation(call, name, case):
    function, extra = case
    x, out = torch.randn(40), torch.empty(40)
    call(name, x, *extra, out)
    close(out, function(x))


@pytest.mark.parametrize("name,function,arguments", [
    ("aclnnSigmoidBackward", torch.sigmoid, lambda g, x, y: (g, y)),
    ("aclnnTanhBackward", torch.tanh, lambda g, x, y: (g, y)),
    ("aclnnGeluBackward", F.gelu, lambda g, x, y: (g, x)),
    ("aclnnGeluBackwardV2", lambda x: F.gelu(x, approximate="tanh"), lambda g, x, y: (g, x, "tanh")),
    ("aclnnSiluBackward", F.silu, lambda g, x, y: (g, x)),
    ("aclnnThresholdBackward", torch.relu, lambda g, x, y: (g, x, 0.0)),
    ("aclnnLeakyReluBackward", lambda x: F.leaky_relu(x, 0.2), lambda g, x, y: (g, x, 0.2, False)),
    ("aclnnEluBackward", F.elu, lambda g, x, y: (g, 1.0, 1.0, 1.0, False, x)),
    ("aclnnHardtanhBackward", F.hardtanh, lambda g, x, y: (g, x, -1.0, 1.0)),
    ("aclnnHardswishBackward", F.hardswish, lambda g, x, y: (g, x)),
    ("aclnnSoftplusBackward", F.softplus, lambda g, x, y: (g, x, 1.0, 20.0)),
    ("aclnnMishBackward", F.mish, lambda g, x, y: (g, x)),
    ("aclnnLogSigmoidBackward", F.logsigmoid, lambda g, x, y: (g, x, torch.empty(0))),
    ("aclnnFastGeluBackward", lambda x: x * torch.sigmoid(1.702 * x), lambda g, x, y: (g, x)),
    ("aclnnSwishBackward", lambda x: x * torch.sigmoid(0.5 * x), lambda g, x, y: (g, x, 0.5)),
    ("aclnnGluBackward", F.glu, lambda g, x, y: (g, x, -1)),
    ("aclnnSwiGluGrad", lambda x: F.silu(x[..., :20]) * x[..., 20:], lambda g, x, y: (g, x, -1)),
])
def test_activation_gradient(call, name, function, arguments):
    x = torch.randn(3, 40).requires_grad_()
    y = function(x)
    grad, dx = torch.randn(y.shape), torch.empty(3, 40)
    y.backward(grad)
    call(name, *arguments(grad, x.detach(), y.detach()), dx)
    close(dx, x.grad)


# More than the caches hold: 16 MiB.
@pytest.mark.parametrize("order", ["plain", "unaligned", "channels_last", "mixed", "transposed", "in place"])
def test_large_relu_and_its_gradient(call, order):
    shape = (7, 5, 331, 365)
    strange = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
    x, grad = torch.randn(shape), torch.randn(shape)
    x.view(-1)[:5], grad.view(-1)[2:7] = strange, strange
    out = torch.full(shape, 9.0)
    if order == "unaligned":
        out = torch.full((out.numel() + 3,), 9.0)[3:].view(shape)
    elif order == "transposed":
        x, grad, out = (t.transpose(2, 3) for t in (x, grad, out))
    elif order in ("channels_last", "mixed"):
        x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
        out = out.contiguous(memory_format=torch.channels_last) if order == "channels_last" else out
    relu, gradient = torch.relu(x), torch.where(x <= 0.25, 0, grad)
    call("aclnnThresholdBackward", grad, x, 0.25, out)
    torch.testing.assert_close(out, gradient, rtol=0, atol=0, equal_nan=True)
    out = x if order == "in place" else out
    call("aclnnRelu", x, out)
    torch.testing.assert_close(out, relu, rtol=0, atol=0, equal_nan=True)


def test_prelu(call):
    x, weight = torch.randn(2, 3, 4).requires_grad_(), torch.rand(3).requires_grad_()
    expected, out, grad = F.prelu(x, weight), torch.empty(2, 3, 4), torch.randn(2, 3, 4)
    call("aclnnPrelu", x.detach(), weight.detach(), out)
    close(out, expected)
    expected.backward(grad)
    dx, dw = torch.empty(2, 3, 4), torch.empty(3)
    call("aclnnPreluBackward", grad, x.detach(), weight.detach(), dx, dw)
    close(dx, x.grad)
    close(dw, weight.grad)


def test_embedding(call):
    weight, index = torch.randn(10, 6), torch.tensor([[1, 3, 3], [9, 0, 1]])
    out = torch.empty(2, 3, 6)
    call("aclnnEmbedding", weight, index, out)
    close(out, weight[index])
    grad, dw = torch.randn(2, 3, 6), torch.full((10, 6), 9.0)
    call("aclnnEmbeddingDenseBackward", grad, index, 10, 2**64 - 1, False, dw)
    close(dw, torch.zeros(10, 6).index_put_((index,), grad, accumulate=True))
    with pytest.raises(RuntimeError, match="index out of range|out of bounds"):
        call("aclnnEmbedding", weight, torch.tensor([10]), torch.empty(1, 6))


def test_index(call):
    x, rows = torch.randn(5, 6), torch.tensor([4, 0, 0])
    absent = torch.empty(0, dtype=torch.int64)
    out = torch.empty(5, 3)
    call("aclnnIndex", x, [absent, rows], out)
    close(out, x[:, rows])
    target = x.clone()
    call("aclnnIndexPutImpl", target, [rows, rows], torch.ones(3), True, False)
    close(target, x.index_put((rows, rows), torch.ones(3), accumulate=True))
    unchanged = x.clone()
    call("aclnnIndexPutImpl", unchanged, [absent], torch.ones(()), False, False)
    close(unchanged, x)
    out = torch.empty(3, 6)
    call("aclnnIndexSelect", x, 0, rows, out)
    close(out, x[rows])
    index = torch.randint(5, (2, 6))
    out = torch.empty(2, 6)
    call("aclnnGather", x, 0, index, out)
    close(out, x.gather(0, index))


def test_scatter(call):
    x, source, index = torch.zeros(4, 5), torch.randn(2, 5), torch.tensor([[0, 1, 2, 3, 0], [3, 2, 1, 0, 2]])
    out = torch.empty(4, 5)
    call("aclnnScatter", x, 0, index, source, 0, out)
    close(out, x.scatter(0, index, source))
    call("aclnnScatterAdd", x, 0, index, source, out)
    close(out, x.scatter_add(0, index, source))
    call("aclnnScatterValue", x, 0, index, 3.0, 0, out)
    close(out, x.scatter(0, index, 3.0))
    call("aclnnScatterReduce", x, 0, index, source, 3, True, out)
    close(out, x.scatter_reduce(0, index, source, "amax"))
    call("aclnnIndexAdd", torch.ones(4, 5), 0, torch.tensor([1, 1]), source, 2.0, out)
    close(out, torch.ones(4, 5).index_add(0, torch.tensor([1, 1]), source, alpha=2))


def test_results_of_unknown_size(call):
    x = torch.tensor([[0.0, 2.0, 2.0], [5.0, 0.0, 1.0]])
    out = torch.full((6, 2), -1)
    assert call("aclnnNonzero", x, out) == [[4, 2]]
    assert torch.equal(out.view(-1)[:8].view(4, 2), x.nonzero())
    picked = torch.empty(6)
    assert call("aclnnMaskedSelect", x, x > 1, picked) == [[3]]
    close(picked[:3], torch.tensor([2.0, 2.0, 5.0]))
    values, inverse, counts = torch.empty(6), torch.empty(2, 3, dtype=torch.int64), torch.empty(6, dtype=torch.int64)
    shapes = call("aclnnUnique2", x, True, True, True, values, inverse, counts)
    assert shapes == [[4], [2, 3], [4]]
    close(values[:4][inverse], x)
    assert counts[:4].tolist() == [2, 1, 2, 1]


def test_order(call):
    x = torch.randn(4, 9)
    values, indices = torch.empty(4, 9), torch.empty(4, 9, dtype=torch.int64)
    call("aclnnSort", x, False, -1, True, values, indices)
    close(values, x.sort(descending=True).values)
    close(x.gather(1, indices), values)
    values, indices = torch.empty(4, 3), torch.empty(4, 3, dtype=torch.int64)
    call("aclnnTopk", x, 3, 1, True, True, values, indices)
    close(values, x.topk(3).values)
    places = torch.empty(4, 9, dtype=torch.int64)
    call("aclnnSearchSorted", torch.arange(5.0), x, False, False, None, places)
    assert torch.equal(places, torch.searchsorted(torch.arange(5.0), x))


def test_shapes(call):
    a, b = torch.randn(2, 3), torch.randn(2, 5)
    out = torch.empty(2, 8)
    call("aclnnCat", [a, b], 1, out)
    close(out, torch.cat([a, b], 1))
    parts = [torch.empty(2, 1), torch.empty(2, 4)]
    call("aclnnSplitWithSize", b, [1, 4], 1, parts)
    close(parts[1], b[:, 1:])
    stacked = torch.empty(2, 2, 3)
    call("aclnnStack", [a, a + 1], 1, stacked)
    close(stacked, torch.stack([a, a + 1], 1))
    for name, extra, expected in [
            ("aclnnPermute", ([1, 0],), a.t()), ("aclnnFlip", ([0, 1],), a.flip(0, 1)),
            ("aclnnRoll", ([1], [1]), a.roll(1, 1)), ("aclnnRepeat", ([2, 2],), a.repeat(2, 2)),
            ("aclnnTril", (0,), a.tril()), ("aclnnTriu", (1,), a.triu(1)),
            ("aclnnSlice", (1, 0, 3, 2), a[:, ::2]), ("aclnnConstantPadNd", ([1, 2], 7.0), F.pad(a, (1, 2), value=7)),
            ("aclnnRepeatInterleaveIntWithDim", (2, 1, 6), a.repeat_interleave(2, 1))]:
        out = torch.empty(expected.shape)
        call(name, a, *extra, out)
        close(out, expected)
    hot = torch.empty(3, 4, dtype=torch.int64)
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    call("aclnnOneHot", torch.tensor([1, 3, 0]), 4, one, zero, -1, hot)
    assert torch.equal(hot, F.one_hot(torch.tensor([1, 3, 0]), 4))


def attention_case(dtype, layout):
    q, k, v = (torch.randn(2, 3, 9, 8).to(dtype) for _ in range(3))
    turn = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2).contiguous(),
            "BSH": lambda t: t.transpose(1, 2).flatten(2).contiguous(),
            "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2).contiguous()}[layout]
    return q, k, v, turn


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "dropout"])
def test_attention(call, dtype, layout, mask):
    q, k, v, turn = attention_case(dtype, layout)
    leaves = [t.float().requires_grad_() for t in (q, k, v)]
    hidden, drop, keep, mode = None, None, 1.0, 0
    if mask == "causal":
        mode, hidden = 2, torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    elif mask == "bool":
        hidden = torch.rand(2, 1, 9, 9) < 0.3
        hidden[..., 0] = False
    elif mask == "dropout":
        drop, keep = torch.randint(0, 256, (math.ceil(2 * 3 * 81 / 128) * 16,), dtype=torch.uint8), 0.5
    scores = leaves[0] @ leaves[1].transpose(-1, -2) * 0.3
    if mask == "causal":
        scores = scores.masked_fill(hidden[:9, :9], -math.inf)
    elif mask == "bool":
        scores = scores.masked_fill(hidden, -math.inf)
    p = scores.softmax(-1)
    if mask == "dropout":
        bits = (drop[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).view(-1)[:2 * 3 * 81].view(2, 3, 9, 9)
        p = p * bits / keep
    expected = p @ leaves[2]
    out, top, total = torch.empty_like(turn(q)), torch.empty(2, 3, 9, 8), torch.empty(2, 3, 9, 8)
    tail = (None, 0.3, keep, 2147483647, 2147483647, 3, layout, 0, mode)
    call("aclnnFlashAttentionScore", turn(q), turn(k), turn(v), None, drop, None, hidden, *tail, top, total,
         torch.empty(0), out)
    close(out, turn(expected), HALVES[dtype])
    close(top[..., 0] + total[..., 0].log(), scores.logsumexp(-1), HALVES[dtype])
    grad = torch.randn(expected.shape).to(dtype)
    expected.backward(grad.float())
    grads = [torch.empty_like(turn(t)) for t in (q, k, v)]
    call("aclnnFlashAttentionScoreGrad", turn(q), turn(k), turn(v), turn(grad), None, drop, None, hidden, top, total,
         None, out, *tail, *grads, None)
    for got, leaf in zip(grads, leaves):
        close(got, turn(leaf.grad), 5 * HALVES[dtype])


def test_attention_shares_key_heads(call):
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    expected = F.scaled_dot_product_attention(*leaves, enable_gqa=True)
    out, top, total = torch.empty_like(q), torch.empty(2, 6, 5, 8), torch.empty(2, 6, 5, 8)
    tail = (None, 8 ** -0.5, 1.0, 65536, 65536, 6, "BNSD", 0, 0)
    call("aclnnFlashAttentionScore", q, k, v, None, None, None, None, *tail, top, total, torch.empty(0), out)
    close(out, expected)
    grad = torch.randn(q.shape)
    expected.backward(grad)
    grads = [torch.empty_like(t) for t in (q, k, v)]
    call("aclnnFlashAttentionScoreGrad", q, k, v, grad, None, None, None, None, top, total, None, out, *tail, *grads,
         None)
    for got, leaf in zip(grads, leaves):
        close(got, leaf.grad, 1e-4)


def test_upsample(call):
    x = torch.randn(1, 2, 4, 5).requires_grad_()
    for name, mode, align in (("Bilinear2d", "bilinear", True), ("Bicubic2d", "bicubic", False)):
        x.grad = None
        expected = F.interpolate(x, (7, 9), mode=mode, align_corners=align)
        out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(x.shape)
        call("aclnnUpsample" + name, x.detach(), [7, 9], align, 0.0, 0.0, out)
        close(out, expected)
        expected.backward(grad)
        call(f"aclnnUpsample{name}Backward", grad, [7, 9], list(x.shape), align, 0.0, 0.0, dx)
        close(dx, x.grad)


def test_loss_scaling(call):
    grads, found = [torch.full((3,), 8.0), torch.tensor([math.inf])], torch.zeros(1)
    call("aclnnForeachNonFiniteCheckAndUnscale", grads, found, torch.tensor([0.25]))
    assert found.item() == 1 and grads[0].tolist() == [2.0, 2.0, 2.0]
    scale, steps = torch.tensor([8.0]), torch.zeros(1, dtype=torch.int32)
    call("aclnnAmpUpdateScale", scale, steps, found, 2.0, 0.5, 3, scale, steps)
    assert scale.item() == 4 and steps.item() == 0


def test_lstm_cell(call):
    gates = [torch.randn(3, 20).requires_grad_() for _ in range(2)]
    cell = torch.randn(3, 5).requires_grad_()
    parts = (gates[0] + gates[1]).chunk(4, 1)
    new_cell = torch.sigmoid(parts[1]) * cell + torch.sigmoid(parts[0]) * torch.tanh(parts[2])
    hidden = torch.sigmoid(parts[3]) * torch.tanh(new_cell)
    hy, cy, storage = torch.empty(3, 5), torch.empty(3, 5), torch.empty(3, 20)
    call("aclnnThnnFusedLstmCell", gates[0].detach(), gates[1].detach(), cell.detach(), None, None, hy, cy, storage)
    close(hy, hidden)
    close(cy, new_cell)
    grad_h, grad_c = torch.randn(3, 5), torch.randn(3, 5)
    torch.autograd.backward([hidden, new_cell], [grad_h, grad_c])
    by_gates, by_cell = torch.empty(3, 20), torch.empty(3, 5)
    call("aclnnThnnFusedLstmCellBackward", grad_h, grad_c, cell.detach(), cy, storage, False, by_gates, by_cell, None)
    close(by_gates, gates[0].grad)
    close(by_cell, cell.grad)


@pytest.mark.parametrize("mode", [0, 1])
def test_rotary_embedding(call, mode):
    x = torch.randn(2, 3, 4, 8).requires_grad_()
    cos, sin = torch.randn(1, 1, 4, 8).requires_grad_(), torch.randn(1, 1, 4, 8).requires_grad_()
    if mode == 0:
        turned = torch.cat([-x[..., 4:], x[..., :4]], -1)
    else:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    expected, out = x * cos + turned * sin, torch.empty(x.shape)
    arguments = [t.detach() for t in (x, cos, sin)]
    call("aclnnRotaryPositionEmbedding", *arguments, mode, out)
    close(out, expected)
    grad = torch.randn(x.shape)
    expected.backward(grad)
    results = [torch.empty(t.shape) for t in (x, cos, sin)]
    call("aclnnRotaryPositionEmbeddingGrad", grad, arguments[1], arguments[2], arguments[0], mode, *results)
    for got, leaf in zip(results, (x, cos, sin)):
        close(got, leaf.grad)


def test_product_over_nothing_is_zero(call):
    for a, b in (((2, 5, 0), (0, 4)), ((5, 0), (0, 4)), ((2, 5, 0), (2, 0, 4)), ((0, 3, 5), (5, 4))):
        a, b = torch.empty(a), torch.empty(b)
        out = torch.full((a @ b).shape, 7.0)
        call("aclnnMatmul", a, b, out, 0)
        close(out, a @ b)


def test_dynamic_quantization_without_offset(call):
    x, out, scale = torch.randn(4, 16), torch.empty(4, 16, dtype=torch.int8), torch.empty(4)
    call("aclnnDynamicQuantV2", x, None, None, 2, out, scale, None)
    close(scale, x.abs().amax(1) / 127)
    close(out, torch.round(x / scale[:, None]).to(torch.int8))


def test_quantized_product(call):
    a, b = (torch.randint(-100, 100, shape).to(torch.int8) for shape in ((3, 32), (5, 32)))
    scale, token_scale, bias = torch.rand(5), torch.rand(3), torch.randn(5)
    expected = (a.double() @ b.double().t()).float() * scale * token_scale[:, None] + bias
    for name, arguments in (("aclnnQuantMatmulV4", (a, b, scale, None, token_scale, bias)),
                            ("aclnnQuantMatmulV5", (a, b, token_scale, scale, None, None, None, None, bias))):
        out = torch.empty(3, 5)
        call(name, *arguments, False, True, *([0] if name.endswith("5") else []), out)
        close(out, expected)
    with pytest.raises(RuntimeError, match="yScale is not supported"):
        call("aclnnQuantMatmulV5", a, b, None, scale, scale, None, None, None, None, False, True, 0, out)


@pytest.mark.parametrize("version, phase1", [(1, "GetWorkspaceSize"), (3, "GetWorkspaceSize"), (4, "GetWorkspaceSize"),
                                             *((version, "GetMaxWorkspaceSize") for version in (2, 3, 4, 5))])
def test_fused_infer_attention(call, version, phase1):
    q, k, v = (torch.randn(2, 4, 6, 16) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(2, 4, 6, 1)
    name = "aclnnFusedInferAttentionScore" + (f"V{version}" if version > 1 else "")
    values = {"query": q, "key": [k], "value": [v], "numHeads": 4, "scaleValue": 0.25, "preTokens": 2**31 - 1, "nextTokens": 2**31 - 1,
              "inputLayout": "BNSD", "softmaxLseFlag": True, "attentionOut": out, "softmaxLse": lse}
    others = {"T": None, "T!": None, "int[]": None, "i64": 0}
    call(name, *[values.get(p.name, others.get(p.kind)) for p in OPS[name].params], phase1=phase1)
    scores = q @ k.transpose(2, 3) * 0.25
    close(out, scores.softmax(3) @ v)
    close(lse, scores.logsumexp(3, keepdim=True))


def kept(count, cells, rows, size):
    """What a recurrent operator keeps for its gradient: so many lists."""
    return [[torch.empty(*rows, size) for _ in range(cells)] for _ in range(count)]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False,
                                                                                         "bidirectional": True}])
def test_recurrent_network(call, kind, settings):
    module = getattr(torch.nn, kind)(6, 5, **settings)
    layers, ways = settings.get("num_layers", 1), 1 + settings.get("bidirectional", False)
    bias, first, both = settings.get("bias", True), settings.get("batch_first", False), settings.get("bidirectional", False)
    cells, rows = layers * ways, (3, 4) if first else (4, 3)
    x = torch.randn(*rows, 6, requires_grad=True)
    states = [torch.randn(cells, 3, 5, requires_grad=True) for _ in range(2 if kind == "LSTM" else 1)]
    expected, last = module(x, tuple(states) if kind == "LSTM" else states[0])
    last = last if kind == "LSTM" else (last,)
    params = [p.detach() for p in module._flat_weights]
    start = [s.detach() for s in states]
    output, finals = torch.empty_like(expected), [torch.empty_like(s) for s in start]
    lists = kept(7 if kind == "LSTM" else 5, cells, rows, 5)
    call("aclnn" + kind, x.detach(), params, start if kind == "LSTM" else start[0], None, bias, layers, 0.0, True, both, first,
         output, *finals, *lists)
    close(output, expected)
    for actual, wanted in zip(finals, last):
        close(actual, wanted)
    grads = [torch.randn_like(t) for t in (expected, *last)]
    torch.autograd.backward([expected, *last], grads)
    by_x, by_start, by_params = torch.empty_like(x), [torch.empty_like(s) for s in start], [torch.empty_like(p) for p in params]
    if kind == "LSTM":
        call("aclnnLstmBackward", x.detach(), start, params, *grads, *lists, None, bias, layers, 0.0, True, both, first, None,
             by_x, *by_start, by_params)
    else:
        call("aclnnGRUBackward", x.detach(), params, start[0], *grads, *lists, None, bias, layers, both, first, by_x, *by_start, by_params)
    close(by_x, x.grad)
    for actual, wanted in zip([*by_start, *by_params], [*(s.grad for s in states), *(p.grad for p in module._flat_weights)]):
        close(actual, wanted)


def test_sequences_of_several_lengths(call):
    """batchSizes: how many of the sequences go on at each step; the rows are there for all of them."""
    module, lengths = torch.nn.LSTM(6, 5), [4, 2, 1]
    x = torch.randn(4, 3, 6)
    expected, last = module(torch.nn.utils.rnn.pack_padded_sequence(x, lengths))
    expected = torch.nn.utils.rnn.pad_packed_sequence(expected)[0]
    output, finals = torch.empty(4, 3, 5), [torch.empty(1, 3, 5) for _ in range(2)]
    params = [p.detach() for p in module._flat_weights]
    start = [torch.zeros(1, 3, 5) for _ in range(2)]
    call("aclnnLSTM", x.reshape(12, 6), params, start, torch.tensor([3, 2, 1, 1]), True, 1, 0.0, True, False, False, output, *finals,
         *kept(7, 1, (4, 3), 5))
    close(output, expected)
    for actual, wanted in zip(finals, last):
        close(actual, wanted)


def test_dropout_between_layers_is_refused(call):
    params = [p.detach() for p in torch.nn.GRU(6, 5, 2)._flat_weights]
    with pytest.raises(RuntimeError, match="dropout between layers"):
        call("aclnnGRU", torch.randn(4, 3, 6), params, torch.zeros(2, 3, 5), None, True, 2, 0.5, True, False, False, torch.empty(4, 3, 5),
             torch.empty(2, 3, 5), *kept(5, 2, (4, 3), 5))
