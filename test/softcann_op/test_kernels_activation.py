"""softcann's kernels of activations and their gradients against torch."""

import pytest
import torch
import torch.nn.functional as F
from nn_client import close


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_swiglu_is_rounded_once(call, dtype):
    x, grad = torch.randn(30, 40).to(dtype), torch.randn(30, 20).to(dtype)
    out, dx = torch.empty_like(grad), torch.empty_like(x)
    leaf = x.float().requires_grad_()
    y = F.silu(leaf[:, :20]) * leaf[:, 20:]
    y.backward(grad.float())
    call("aclnnSwiGlu", x, -1, out)
    call("aclnnSwiGluGrad", grad, x, -1, dx)
    assert out.equal(y.detach().to(dtype))
    torch.testing.assert_close(dx.float(), leaf.grad, rtol=torch.finfo(dtype).eps / 2 + 1e-6, atol=1e-7)   # half a unit of the last place


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_soft_signs_and_shrinking(call, dtype):
    x, y, out = torch.randn(5, 7).to(dtype), torch.randn(5, 7).to(dtype), torch.empty(5, 7, dtype=dtype)
    for name, arguments, expected in (
            ("aclnnSoftsign", {"x": x, "yOut": out}, torch.nn.functional.softsign(x.float())),
            ("aclnnSoftsignBackward", {"gradients": y, "features": x, "out": out}, y.float() / (1 + x.float().abs()) ** 2),
            ("aclnnHardShrink", {"self": x, "lambdOptional": 0.5, "outOut": out}, torch.nn.functional.hardshrink(x.float(), 0.5)),
            ("aclnnSiluMul", {"x": x, "y": y, "out": out}, torch.nn.functional.silu(x.float()) * y.float())):
        call.named(name, **arguments)
        rounding = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]   # one of the result
        torch.testing.assert_close(out.float(), expected, rtol=rounding, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("interleaved", [True, False])
def test_clipped_swiglu(call, dtype, interleaved):
    x = torch.randn(5, 12).to(dtype)
    leaf = x.float().requires_grad_()
    a, b = (leaf[:, ::2], leaf[:, 1::2]) if interleaved else leaf.chunk(2, -1)
    inner, b = a.clamp(max=0.7), b.clamp(-0.7, 0.7)
    before, after = inner * torch.sigmoid(1.5 * inner) * (b + 0.5), (a * torch.sigmoid(a)).clamp(max=0.7) * b
    counted = (torch.arange(5) < 4).unsqueeze(1)
    groups, out, grad = torch.tensor([1, 3]), torch.empty(5, 6).to(dtype), torch.randn(5, 6).to(dtype)
    given = dict(x=x, groupIndexOptional=groups, dim=-1, alpha=1.5, limit=0.7, bias=0.5, interleaved=interleaved)
    for mode, wanted in enumerate((before, after)):
        call.named("aclnnClippedSwigluV2", clampMode=mode, out=out, **given)
        close(out, (wanted * counted).to(dtype), 2e-2 if dtype != torch.float32 else 1e-5)
    (before * counted).backward(grad.float())
    by_x = torch.empty_like(x)
    call.named("aclnnClippedSwigluGrad", gradY=grad, gradXOut=by_x, **given)
    close(by_x, leaf.grad.to(dtype), 2e-2 if dtype != torch.float32 else 1e-5)
    with pytest.raises(RuntimeError, match="161002.*clampMode 2"):
        call.named("aclnnClippedSwigluV2", clampMode=2, out=out, **given)


def test_halves_above_a_threshold(call):
    x, out = torch.randn(4, 10), torch.empty(4, 5)
    call.named("aclnnFatreluMul", input=x, threshold=torch.tensor([0.3]), out=out)
    close(out, F.threshold(x[:, :5], 0.3, 0.0) * x[:, 5:])


@pytest.mark.parametrize("linear", [0.0, 1.3])
@pytest.mark.parametrize("left", [True, False])
def test_situ(call, linear, left):
    x, grad = torch.randn(4, 6, 3, requires_grad=True), torch.randn(4, 3, 3)
    gate, up = x.chunk(2, 1) if left else x.chunk(2, 1)[::-1]
    wanted = 0.8 * torch.tanh(gate / 0.8) * torch.sigmoid(gate) * (linear * torch.tanh(up / linear) if linear else up)
    wanted.backward(grad)
    out, by_x = torch.empty(4, 3, 3), torch.empty(4, 6, 3)
    call.named("aclnnSituGlu", x=x.detach(), dim=1, beta=0.8, linearBeta=linear, activateLeft=left, out=out)
    close(out, wanted.detach(), 1e-5)
    call.named("aclnnSituGluGrad", gradY=grad, x=x.detach(), dim=1, beta=0.8, linearBeta=linear, activateLeft=left, out=by_x)
    close(by_x, x.grad, 1e-5)


@pytest.mark.parametrize("name", ["aclnnRReluWithNoise", "aclnnInplaceRReluWithNoise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_random_slopes(call, name, dtype):
    """The noise is what each element was multiplied by, also where it lies in another order than the input."""
    x, noise = torch.linspace(-3, 3, 35).reshape(5, 7).to(dtype), torch.zeros(7, 5, dtype=dtype).t()
    given, out = x.clone(), torch.empty_like(x)
    call(name, x, noise, 0.25, 0.5, True, 7, 0, *([] if "Inplace" in name else [out]))
    out = x if "Inplace" in name else out
    assert out.equal(given * noise)
    slopes = noise[given <= 0]
    assert noise[given > 0].eq(1).all() and slopes.min() >= 0.25 and slopes.max() <= 0.5 and slopes.unique().numel() > 10
    call("aclnnRReluWithNoise", given, noise, 0.25, 0.5, False, 7, 0, out)
    close(out, F.leaky_relu(given, 0.375))
