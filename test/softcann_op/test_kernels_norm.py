"""softcann's kernels of normalization against torch: one case an operator, in float32 and where it matters in halves."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import close


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


def test_group_norm_of_no_elements(call):
    """Its statistics are those of torch, not what lay in the memory before."""
    x, stats = torch.empty(2, 6, 0), [torch.full((2, 3), 7.0) for _ in range(2)]
    call("aclnnGroupNorm", x, None, None, 2, 6, 0, 3, 1e-5, torch.empty_like(x), *stats)
    wanted = torch.native_group_norm(x, None, None, 2, 6, 0, 3, 1e-5)[1:]
    assert all(torch.allclose(*pair, equal_nan=True) for pair in zip(stats, wanted))


def test_layer_norm_of_no_elements(call):
    x, stats = torch.empty(3, 0), [torch.full((3, 1), 7.0) for _ in range(2)]
    call("aclnnLayerNorm", x, [0], None, None, 1e-5, torch.empty_like(x), *stats)
    wanted = torch.native_layer_norm(x, [0], None, None, 1e-5)[1:]
    assert all(torch.allclose(*pair, equal_nan=True) for pair in zip(stats, wanted))


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


# Between float32's values: what is normalized tells a sum that was rounded first.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["aclnnAddRmsNorm", "aclnnAddRmsNormCast", "aclnnInplaceAddRmsNorm"])
def test_sums_are_rounded_before_the_norm_in_float16_alone(call, name, dtype):
    x1, x2, gamma = (torch.randn(*shape).to(dtype) for shape in ((30, 16), (30, 16), (16,)))
    total = x1.float() + x2.float()
    wanted = F.rms_norm(total.half().float() if dtype == torch.float16 else total, [16], gamma.float(), 1e-6).to(dtype)
    y, x, rstd = torch.empty_like(x1), torch.empty_like(x1), torch.empty(30, 1)
    given = {"x1": x1, "x2": x2, "gamma": gamma, "epsilon": 1e-6, "rstdOut": rstd}
    if name == "aclnnInplaceAddRmsNorm":
        call.named(name, x1Ref=(y := x1), x2Ref=(x := x2), gamma=gamma, epsilon=1e-6, rstdOut=rstd)
    elif name == "aclnnAddRmsNormCast":
        call.named(name, y1Out=torch.empty(30, 16), y2Out=y, xOut=x, **given)
    else:
        call.named(name, yOut=y, xOut=x, **given)
    assert x.equal(total.to(dtype))
    torch.testing.assert_close(y.float(), wanted.float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("sum_wanted", [False, True])
def test_a_sum_and_its_norm_without_statistics(call, sum_wanted):
    """CANN's page: gamma is a matrix of one row then."""
    x1, x2, gamma = (torch.randn(*shape).half() for shape in ((3, 5, 16), (3, 5, 16), (1, 16)))
    total, y, x = x1 + x2, torch.empty_like(x1), torch.empty_like(x1)
    given = dict(x1=x1, x2=x2, gamma=gamma, epsilon=1e-6, yOut=y)
    call.named("aclnnAddRmsNorm", **given, **({"xOut": x} if sum_wanted else {}))
    assert y.equal(F.rms_norm(total.float(), [16], gamma[0].float(), 1e-6).half()) and (not sum_wanted or x.equal(total))
    with pytest.raises(RuntimeError, match="161001.*xOut is null, which is needed with rstdOut"):
        call.named("aclnnAddRmsNorm", **given, rstdOut=torch.empty(3, 5, 1))


@pytest.mark.parametrize("training", [False, True])
def test_fast_gradient_of_batches(call, training):
    x, grad, weight, mean, var = torch.randn(3, 4, 5), torch.randn(3, 4, 5), torch.rand(4), torch.randn(4), torch.rand(4) + 0.5
    arguments = dict(gradOut=grad, input=x, weight=weight, runningMean=mean, runningVar=var, saveMean=x.mean((0, 2)),
                     saveInvstd=x.var((0, 2), unbiased=False), training=training, eps=1e-3, outputMask=[True] * 3)
    outs = [[torch.empty(3, 4, 5), torch.empty(4), torch.empty(4)] for _ in range(2)]
    for name, out in zip(("aclnnBatchNormBackward", "aclnnFastBatchNormBackward"), outs):
        call.named(name, **arguments, **dict(zip(("gradInput", "gradWeight", "gradBias"), out)))
    assert all(a.equal(b) for a, b in zip(*outs))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_whole_numbers_normalized(call, dtype):
    x = torch.randint(0 if dtype == torch.uint8 else -99, 99, (2, 3, 4, 5)).to(dtype)
    mean, var, weight, bias = torch.randn(3), torch.rand(3) + 0.5, torch.rand(3), torch.randn(3)
    out, each = torch.empty_like(x), (1, 3, 1, 1)
    for factor, shift in ((weight, bias), (None, None)):
        call.named("aclnnQuantizedBatchNorm", input=x, mean=mean, var=var, inputScale=0.1, inputZeroPoint=3, outputScale=0.05,
                   outputZeroPoint=7, weight=factor, bias=shift, epsilon=1e-3, output=out)
        y = ((x.double() - 3) * 0.1 - mean.view(each)) / (var.view(each) + 1e-3).sqrt()
        if factor is not None:
            y = y * factor.view(each) + shift.view(each)
        limits = torch.iinfo(dtype)
        assert (out.double() - (y / 0.05 + 7).clamp(limits.min, limits.max)).abs().max() <= 0.501


def ada(x, scale, shift, weight, bias, eps=1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps) * (1 + scale[:, None]) + shift[:, None]


def test_adaptive_norm_and_its_gradient(call):
    x, scale, shift, weight, bias = (torch.randn(shape).requires_grad_() for shape in ((2, 3, 8), (2, 8), (2, 8), (8,), (8,)))
    inputs = dict(scale=scale.detach(), shift=shift.detach(), weightOptional=weight.detach(), biasOptional=bias.detach())
    out, mean, rstd = torch.empty(2, 3, 8), torch.empty(2, 3, 1), torch.empty(2, 3, 1)
    call.named("aclnnAdaLayerNormV2", x=x.detach(), **inputs, epsilon=1e-5, out=out, meanOutOptional=mean, rstdOutOptional=rstd)
    expected = ada(x, scale, shift, weight, bias)
    close(out, expected.detach())
    close(mean, x.detach().mean(-1, keepdim=True))
    close(rstd, (x.detach().var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt())
    grad, outs = torch.randn(2, 3, 8), [torch.empty(t.shape) for t in (x, scale, shift, weight, bias)]
    call.named("aclnnAdaLayerNormBackward", gradOut=grad, input=x.detach(), normalizedShape=[8], rstd=rstd, mean=mean, **inputs,
               **dict(zip(("gradInputOut", "gradScaleOut", "gradShiftOut", "gradWeightOut", "gradBiasOut"), outs)))
    for found, wanted in zip(outs, torch.autograd.grad(expected, (x, scale, shift, weight, bias), grad)):
        close(found, wanted, 1e-4)


def images():
    return torch.randn(8, 64, 16, 16)


def empty(*shape):
    return torch.empty(shape)


# name: arguments that fit, and what is put in the place of one of them. Kernels that write rows would go beyond them.
WRONG_SIZES = {
    "aclnnLayerNorm": (lambda: dict(input=empty(99, 8), normalizedShape=[8], eps=1e-5, out=empty(99, 8)),
                       dict(out=empty(0), weightOptional=empty(1), meanOutOptional=empty(1, 1))),
    "aclnnLayerNormBackward": (lambda: dict(gradOut=empty(99, 8), input=empty(99, 8), normalizedShape=[8], mean=empty(99, 1), rstd=empty(99, 1),
                                            outputMask=[True] * 3, gradInputOut=empty(99, 8), gradWeightOut=empty(8), gradBiasOut=empty(8)),
                               dict(gradWeightOut=empty(1), gradBiasOut=empty(1), weightOptional=empty(1), normalizedShape=[4], outputMask=[True])),
    "aclnnAddLayerNormGrad": (lambda: dict(dy=empty(99, 8), x1=empty(99, 8), x2=empty(99, 8), rstd=empty(99, 1), mean=empty(99, 1), gamma=empty(8),
                                           dxOut=empty(99, 8), dgammaOut=empty(8), dbetaOut=empty(8)),
                              dict(dxOut=empty(0), dgammaOut=empty(0), dbetaOut=empty(4), x1=empty(1, 8))),
    "aclnnGroupNorm": (lambda: dict(self=images(), N=8, C=64, HxW=256, group=8, eps=1e-5, out=images(), meanOut=empty(8, 8), rstdOut=empty(8, 8)),
                       dict(out=empty(0), meanOut=empty(1), rstdOut=empty(8, 7), gamma=empty(1))),
    "aclnnGroupNormSilu": (lambda: dict(self=images(), group=8, eps=1e-5, out=images(), meanOut=empty(8, 8), rstdOut=empty(8, 8)),
                           dict(out=empty(0), meanOut=empty(1))),
    "aclnnGroupNormBackward": (lambda: dict(gradOut=images(), input=images(), mean=empty(8, 8), rstd=empty(8, 8), N=8, C=64, HxW=256, group=8,
                                            outputMask=[True] * 3, gradInput=images(), gradGammaOut=empty(64), gradBetaOut=empty(64)),
                               dict(gradGammaOut=empty(1), gradBetaOut=empty(63), outputMask=[True, True])),
    "aclnnBatchNorm": (lambda: dict(input=images(), training=True, momentum=0.1, eps=1e-5, output=images(), saveMean=empty(64), saveInvstd=empty(64)),
                       dict(output=empty(0), weight=empty(1), bias=empty(1), runningMean=empty(1), runningVar=empty(1), saveMean=empty(1),
                            saveInvstd=empty(1))),
    "aclnnBatchNormBackward": (lambda: dict(gradOut=images(), input=images(), saveMean=empty(64), saveInvstd=empty(64), training=True, eps=1e-5,
                                            outputMask=[True] * 3, gradInput=images(), gradWeight=empty(64), gradBias=empty(64)),
                               dict(weight=empty(1), saveMean=empty(0), saveInvstd=empty(1), gradWeight=empty(1), outputMask=[True])),
}


@pytest.mark.parametrize("name", WRONG_SIZES)
def test_sizes_that_do_not_fit_are_refused(call, name):
    fitting, wrong = WRONG_SIZES[name]
    call.named(name, **fitting())
    for parameter, value in wrong.items():
        with pytest.raises(RuntimeError, match="161002"):
            call.named(name, **{**fitting(), parameter: value})


def test_gradients_described_without_elements_are_not_wanted(call):
    x, gradient = torch.randn(6, 8), torch.randn(6, 8)
    mean, rstd, only = x.mean(1, True), 1 / torch.sqrt(x.var(1, correction=0, keepdim=True) + 1e-5), torch.empty(8)
    call.named("aclnnLayerNormBackward", gradOut=gradient, input=x, normalizedShape=[8], mean=mean, rstd=rstd, outputMask=[True] * 3,
               gradInputOut=empty(0), gradWeightOut=empty(0), gradBiasOut=only)
    close(only, gradient.sum(0))
