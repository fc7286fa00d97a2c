"""Norms, copies and products of numbers of few bits, against formulas in torch and, of several parameters, against the CPU twins."""
import pytest
import torch
import torch.nn.functional as F
from nn_client import FLOAT4_E2M1, FourBits, close, int4_of, packed

from torch_npu._cpu_ops import quant as scales, quant_product as twin


def rms_norm(x, gamma, beta=None, epsilon=1e-6):
    y = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + epsilon) * gamma.float()
    return y if beta is None else y + beta.float()


def int8(value):
    return value.round().clamp(-128, 127).to(torch.int8)


def by_row(value, limit=127):
    scale = value.abs().amax(-1, keepdim=True) / limit
    return (value / scale).round(), scale.squeeze(-1)


def near(actual, expected, most=1):
    """Equal but for numbers on the edge of rounding."""
    assert (actual.int() - expected.int()).abs().max() <= most
    assert (actual.int() != expected.int()).float().mean() < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rms_norms(call, dtype):
    x, gamma, beta = (torch.randn(*s).to(dtype) for s in ((4, 64), (64,), (64,)))
    scale, offset = torch.tensor([20.0]).to(dtype), torch.tensor([3.0]).to(dtype)
    out, rstd = torch.empty(4, 64, dtype=torch.int8), torch.empty(4, 1)
    call.named("aclnnRmsNormQuant", x=x, gamma=gamma, beta=beta, scale=scale, offset=offset, epsilon=1e-6, y=out)
    near(out, int8(rms_norm(x, gamma, beta) * 20 + 3))
    call.named("aclnnRmsNormQuantV3", x=x, gamma=gamma, scale=scale, epsilon=1e-6, divMode=False, outputRstd=True, y=out, rstd=rstd)
    near(out, int8(rms_norm(x, gamma) * 20))
    close(rstd, torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6))
    nibbles = torch.empty(4, 8, dtype=torch.int32)
    call.named("aclnnRmsNormQuantV3", x=x, gamma=gamma, scale=torch.tensor([0.5]).to(dtype), epsilon=1e-6, divMode=True, y=nibbles,
               rstd=rstd)
    near(int4_of(nibbles), (rms_norm(x, gamma) / 0.5).round().clamp(-8, 7))


def test_add_rms_norms(call):
    x1, x2, gamma, beta = torch.randn(4, 64).half(), torch.randn(4, 64).half(), torch.randn(64).half(), torch.randn(64).half()
    y1, y2, x, normal = (torch.empty(4, 64, dtype=t) for t in (torch.int8, torch.int8, torch.half, torch.half))
    expected = rms_norm(x1.float() + x2.float(), gamma, beta)
    scales, zeros = torch.full((64,), 0.1).half(), torch.full((64,), 2, dtype=torch.int32)
    call.named("aclnnAddRmsNormQuantV2", x1=x1, x2=x2, gamma=gamma, scales1=scales, zeroPoints1Optional=zeros, betaOptional=beta,
               axis=-1, epsilon=1e-6, divMode=True, y1Out=y1, y2Out=y2, xOut=x, rmsNormOut=normal)
    near(y1, int8(expected / scales.float() + 2))
    assert not y2.any()
    close(x, x1.float() + x2.float(), 2e-3)
    close(normal, expected, 2e-2)
    smooth, s1, s2 = torch.rand(64).half() + 0.5, torch.empty(4), torch.empty(4)
    call.named("aclnnAddRmsNormDynamicQuantV2", x1=x1, x2=x2, gamma=gamma, smoothScale1Optional=smooth, betaOptional=beta,
               epsilon=1e-6, outputMask=[True, True], y1Out=y1, y2Out=y2, xOut=x, scale1Out=s1, scale2Out=s2)
    for out, scale, value in ((y1, s1, expected * smooth.float()), (y2, s2, expected)):
        close(scale, by_row(value)[1], 1e-4)
        near(out, by_row(value)[0])


def test_gradient_of_rms_norm_as_int8(call):
    x, gamma = torch.randn(6, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    dy = torch.randn(6, 32)
    rms_norm(x, gamma).backward(dy)
    rstd = torch.rsqrt(x.detach().square().mean(-1) + 1e-6)
    dx, dgamma, scale = torch.empty(6, 32, dtype=torch.int8), torch.empty(32), torch.tensor([0.05])
    call.named("aclnnRmsNormGradQuant", dy=dy, x=x.detach(), rstd=rstd, gamma=gamma.detach(), scalesX=scale, quantMode="static",
               divMode=True, dxOut=dx, dgammaOut=dgamma)
    near(dx, int8(x.grad / scale))
    close(dgamma, gamma.grad, 1e-4)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(call, approximate):
    x, scale = torch.randn(5, 32).half(), torch.rand(32).half() + 0.5
    out, scales = torch.empty(5, 32, dtype=torch.int8), torch.empty(5)
    call.named("aclnnGeluQuant", self=x, inputScaleOptional=scale, approximate=approximate, quantMode="dynamic", roundMode="rint",
               dstType=2, y=out, outScaleOptional=scales)
    value = F.gelu(x.float(), approximate=approximate) * scale.float()
    close(scales, by_row(value)[1], 1e-4)
    near(out, by_row(value)[0])
    call.named("aclnnGeluQuant", self=x, inputScaleOptional=scale * 20, inputOffsetOptional=scale, approximate=approximate,
               quantMode="static", roundMode="floor", dstType=2, y=out)
    near(out, (F.gelu(x.float(), approximate=approximate) * (scale * 20).float() + scale.float()).floor().clamp(-128, 127))


def test_copies(call):
    x, scale = torch.randn(8, 16).half() * 20, torch.rand(3, 16).half()
    ends, out = torch.tensor([2, 2, 6]), torch.empty(8, 16, dtype=torch.int8)
    group = torch.tensor([0, 0, 2, 2, 2, 2, 2, 2])
    call.named("aclnnGroupQuant", x=x, scale=scale, groupIndex=ends, offsetOptional=torch.tensor([4.0]).half(), dstType=2, y=out)
    near(out, int8(x.float() * scale.float()[group] + 4))
    for mode, rounding in (("round", torch.round), ("floor", torch.floor), ("ceil", torch.ceil), ("trunc", torch.trunc)):
        call.named("aclnnAscendQuant", x=x, scale=scale[0], offset=scale[1], sqrtMode=False, roundMode=mode, dstType=2, y=out)
        near(out, rounding(x.float() * scale[0].float() + scale[1].float()).clamp(-128, 127))
    nibbles = torch.empty(8, 2, dtype=torch.int32)
    call.named("aclnnAscendQuant", x=x, scale=scale[0] / 10, roundMode="round", dstType=3, y=nibbles)
    near(int4_of(nibbles), (x.float() * (scale[0] / 10).float()).round().clamp(-8, 7))
    whole, bias = torch.randint(-900, 900, (4, 16), dtype=torch.int32), torch.randint(-9, 9, (16,), dtype=torch.int32)
    weights, rows, value = torch.rand(16), torch.rand(4), torch.empty(4, 16, dtype=torch.bfloat16)
    call.named("aclnnDequantBias", x=whole, weightScale=weights, activateScaleOptional=rows, biasOptional=bias, outputDtype=27,
               out=value)
    close(value, (whole + bias) * weights * rows.unsqueeze(1), 1e-2)
    call.named("aclnnDequantBias", x=whole, weightScale=weights, biasOptional=bias.float(), outputDtype=27, out=value)
    close(value, whole * weights + bias, 1e-2)


@pytest.mark.parametrize("mode", ["pertoken", "pertensor", "perchannel"])
def test_dynamic(call, mode):
    x, smooth, ends = torch.randn(6, 32).half(), torch.rand(2, 32).half() + 0.5, torch.tensor([2, 6], dtype=torch.int32)
    out = torch.empty(6, 32, dtype=torch.int8)
    value = x.float() * smooth.float()[torch.tensor([0, 0, 1, 1, 1, 1])]
    sizes = {"pertoken": (6,), "pertensor": (), "perchannel": (32,)}[mode]
    top = {"pertoken": value.abs().amax(1, True), "pertensor": value.abs().amax(), "perchannel": value.abs().amax(0, True)}[mode]
    scales = torch.empty(sizes)
    call.named("aclnnDynamicQuantV3", x=x, smoothScalesOptional=smooth, groupIndexOptional=ends, dstType=2, isSymmetrical=True,
               quantMode=mode, yOut=out, scaleOut=scales)
    close(scales, top.reshape(sizes) / 127, 1e-4)
    near(out, (value / (top / 127)).round())
    for dtype, limit in ((torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344)):
        eight = torch.empty(6, 32, dtype=dtype)
        call.named("aclnnDynamicQuantV4", x=x, smoothScalesOptional=smooth, groupIndexOptional=ends, dstType=36, isSymmetrical=True,
                   quantMode=mode, yOut=eight, scaleOut=scales)
        close(scales, top.reshape(sizes) / limit, 1e-4)
        close(eight, (value / (top / limit)).to(dtype), 0.13)


def test_dynamic_with_offsets_and_int4(call):
    x = torch.randn(6, 32).half()
    out, scales, offsets, packs = (torch.empty(*s, dtype=t) for s, t in (
        ((6, 32), torch.int8), ((6,), torch.float32), ((6,), torch.float32), ((6, 4), torch.int32)))
    call.named("aclnnDynamicQuantV3", x=x, dstType=2, isSymmetrical=False, quantMode="pertoken", yOut=out, scaleOut=scales,
               offsetOut=offsets)
    back = (out.float() - offsets.unsqueeze(1)) * scales.unsqueeze(1)
    assert (back - x.float()).abs().max() <= scales.max() / 2 + 1e-3
    assert (out.amin(1) == -128).all() and (out.amax(1) == 127).all()
    call.named("aclnnDynamicQuantV3", x=x, dstType=3, isSymmetrical=True, quantMode="pertoken", yOut=packs, scaleOut=scales)
    values, expected = by_row(x.float(), 7)
    close(scales, expected, 1e-4)
    near(int4_of(packs), values)


def test_fake_quantization(call):
    x, out, mask = torch.randn(3, 8) * 3, torch.empty(3, 8), torch.empty(3, 8, dtype=torch.bool)
    scale, zero = torch.tensor([0.02]), torch.tensor([3], dtype=torch.int32)
    call.named("aclnnFakeQuantPerTensorAffineCachemask", self=x, scale=scale, zeroPoint=zero, fakeQuantEnabled=1.0, quantMin=-128,
               quantMax=127, out=out, mask=mask)
    close(out, torch.fake_quantize_per_tensor_affine(x, 0.02, 3, -128, 127))
    steps = (x / 0.02).round() + 3
    assert torch.equal(mask, (steps >= -128) & (steps <= 127))
    call.named("aclnnFakeQuantPerTensorAffineCachemask", self=x, scale=scale, zeroPoint=zero, fakeQuantEnabled=0.0, quantMin=-128,
               quantMax=127, out=out, mask=mask)
    assert torch.equal(out, x) and mask.all()
    scale, zero = torch.rand(8) * 0.02 + 0.005, torch.randint(-5, 5, (8,), dtype=torch.int32)
    call.named("aclnnFakeQuantPerChannelAffineCachemask", self=x, scale=scale, zeroPoint=zero, axis=1, quantMin=-128, quantMax=127, out=out,
               mask=mask)
    close(out, torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127))
    steps = (x / scale).round() + zero
    assert torch.equal(mask, (steps >= -128) & (steps <= 127)) and not mask.all()


def test_float8_and_its_maximum(call):
    x, scale = torch.randn(6, 8), torch.tensor([1.5])
    out, top = torch.empty(6, 8, dtype=torch.float8_e5m2), torch.empty(1)
    call.named("aclnnQuantMax", x=x, scale=scale, roundMode="rint", dstType=35, y=out, amax=top)
    close(out, (x * 1.5).to(torch.float8_e5m2))
    assert top.item() == x.abs().max()
    tops, ends, scales = torch.empty(2), torch.tensor([2, 6]), torch.tensor([0.5, 2.0])
    call.named("aclnnGroupedQuantMax", x=x, scale=scales, groupList=ends, roundMode="rint", dstType=35, y=out, amax=tops)
    close(out, torch.cat([x[:2] * 0.5, x[2:] * 2]).to(torch.float8_e5m2))
    close(tops, torch.stack([x[:2].abs().max(), x[2:].abs().max()]))


def test_kronecker_products_as_int4(call):
    x, p1, p2 = torch.randn(3, 4, 8).half(), torch.randn(4, 4).half(), torch.randn(8, 8).half()
    out, scales = torch.empty(3, 4, 1, dtype=torch.int32), torch.empty(3)
    call.named("aclnnFlatQuant", x=x, kroneckerP1=p1, kroneckerP2=p2, clipRatio=0.9, out=out, quantScale=scales)
    value = p1.float() @ x.float() @ p2.float()
    expected = value.abs().amax((1, 2)) * 0.9 / 7
    close(scales, expected, 1e-4)
    near(int4_of(out), (value / expected.view(3, 1, 1)).round().clamp(-8, 7))
    same, steps = torch.empty_like(out), torch.empty_like(scales)
    arguments = dict(x=x, kroneckerP1=p1, kroneckerP2=p2, clipRatio=0.9, out=same, quantScale=steps)
    call.named("aclnnFlatQuantV3", **arguments)
    assert same.equal(out) and steps.equal(scales)
    for kind, groups in enumerate(([1, 2], [1, 1], [[5, 1], [3, 1]])):  # ends, sizes, numbers with sizes: two rows of the three
        same.fill_(-1), steps.fill_(-1)
        call.named("aclnnFlatQuantV3", groupListOptional=torch.tensor(groups), groupListType=kind, **arguments)
        assert same[:2].equal(out[:2]) and steps[:2].equal(scales[:2]) and (same[2] == -1).all() and steps[2] == -1
    with pytest.raises(RuntimeError, match="161002.*groupListType 3"):
        call.named("aclnnFlatQuantV3", groupListOptional=torch.tensor([3]), groupListType=3, **arguments)


def test_scatter(call):
    cache, updates = torch.zeros(2, 1, 6, 8, dtype=torch.int8), torch.randn(2, 1, 1, 8).half() * 10
    scales, zeros, places = torch.rand(1, 1, 1, 8) + 0.1, torch.randint(-3, 4, (1, 1, 1, 8), dtype=torch.int32), torch.tensor([4, 1])
    for name in ("aclnnInplaceQuantScatter", "aclnnInplaceQuantScatterV2"):
        cache.zero_()
        call.named(name, selfRef=cache, indices=places, updates=updates, quantScales=scales, quantZeroPoints=zeros, axis=-2,
                   quantAxis=-1, reduction=1)
        expected = torch.zeros_like(cache)
        for i, place in enumerate(places.tolist()):
            expected[i, :, place] = int8(updates[i, 0] / scales[0, 0] + zeros[0, 0])
        near(cache, expected)


def matrices(m=5, k=64, n=16):
    return torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (k, n), dtype=torch.int8)


def test_products(call):
    x1, x2 = matrices()
    exact = x1.long() @ x2.long()
    scale, rows, bias = torch.rand(16) / 100, torch.rand(5), torch.randint(-999, 999, (16,), dtype=torch.int32)
    out = torch.empty(5, 16, dtype=torch.float16)
    for name in ("aclnnQuantMatmulV5", "aclnnQuantMatmulWeightNz"):
        call.named(name, x1=x1, x2=x2, x1Scale=rows, x2Scale=scale, bias=bias, out=out)
        close(out, (exact + bias) * scale * rows.unsqueeze(1), 2e-3)
        call.named(name, x1=x1.t().contiguous(), x2=x2.t().contiguous(), x2Scale=scale, transposeX1=True, transposeX2=True, out=out)
        close(out, exact * scale, 2e-3)
    extra = torch.randn(5, 16).half()
    kinds = {"": lambda y: y, "relu": F.relu, "gelu_erf": F.gelu, "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
             "add": lambda y: y + extra.float(), "mul": lambda y: y * extra.float()}
    for kind, function in kinds.items():
        for name in ("aclnnFusedQuantMatmul", "aclnnFusedQuantMatmulWeightNz"):
            call.named(name, x1=x1, x2=x2, x1Scale=rows, x2Scale=scale / 20, biasOptional=bias, x3Optional=extra, fusedOpType=kind,
                       out=out)
            close(out, function((exact + bias) * scale / 20 * rows.unsqueeze(1)), 3e-3)


def test_products_of_int4_and_of_blocks(call):
    a, b = torch.randint(-8, 8, (5, 64)), torch.randint(-8, 8, (64, 16))
    out, scale = torch.empty(5, 16, dtype=torch.bfloat16), torch.rand(16)
    call.named("aclnnQuantMatmulV5", x1=packed(a), x2=packed(b), x2Scale=scale, out=out)
    close(out, (a @ b) * scale, 1e-2)
    call.named("aclnnQuantMatmulV5", x1=packed(a), x2=packed(b.t().contiguous()), x2Scale=scale, transposeX2=True, out=out)
    close(out, (a @ b) * scale, 1e-2)
    x1, x2 = torch.randn(4, 256).to(torch.float8_e4m3fn), torch.randn(256, 128).to(torch.float8_e4m3fn)
    rows, blocks, out = torch.rand(4, 2), torch.rand(2, 1), torch.empty(4, 128)
    call.named("aclnnQuantMatmulV5", x1=x1, x2=x2, x1Scale=rows, x2Scale=blocks, groupSize=1 << 32 | 128 << 16 | 128, out=out)
    close(out, (x1.float() * rows.repeat_interleave(128, 1)) @ (x2.float() * blocks.repeat_interleave(128, 0)), 1e-4)


def test_mx_products(call):
    x1, x2 = torch.randn(4, 128).to(torch.float8_e4m3fn), torch.randn(128, 8).to(torch.float8_e4m3fn)
    s1, s2 = torch.randint(-3, 4, (4, 4)), torch.randint(-3, 4, (4, 8))
    e1 = (s1 + 127).to(torch.uint8).view(4, 2, 2).view(torch.float8_e8m0fnu)
    e2 = (s2 + 127).to(torch.uint8).view(2, 2, 8).transpose(1, 2).contiguous().view(torch.float8_e8m0fnu)
    expected = (x1.float() * (2.0**s1).repeat_interleave(32, 1)) @ (x2.float() * (2.0**s2).repeat_interleave(32, 0))
    out = torch.zeros(4, 8)
    call.named("aclnnQuantMatmulV5", x1=x1, x2=x2, x1Scale=e1, x2Scale=e2, groupSize=32, out=out)
    close(out, expected, 1e-4)
    call.named("aclnnQuantBatchMatmulInplaceAdd", x1=x1, x2=x2, x1ScaleOptional=e1, x2Scale=e2, yRef=out, groupSize=32)
    close(out, 2 * expected, 1e-4)
    turned = torch.zeros(4, 8)
    call.named("aclnnQuantMatmulV5", x1=x1, x2=x2.t().contiguous(), x1Scale=e1, x2Scale=e2.transpose(0, 1).contiguous(),
               transposeX2=True, groupSize=32, out=turned)
    close(turned, expected, 1e-4)


def test_products_of_groups_of_int4(call):
    """Scales of 256 rows of x2: of bits with the sums that clients add beforehand, and of numbers with offsets."""
    k, n = 512, 16
    a, b = torch.randint(-128, 128, (3, k), dtype=torch.int8), torch.randint(-8, 8, (k, n))
    scale, rows, sums = torch.rand(2, n) / 100, torch.rand(3, 1), torch.randn(n)
    bits, out = torch.empty(2 * n, dtype=torch.int64), torch.empty(3, n, dtype=torch.float16)
    call.named("aclnnTransQuantParamV2", scale=scale.view(-1), out=bits)
    kept = (scale.view(torch.int32) & -8192).view(torch.float32)  # the matrix unit drops 13 bits
    call.named("aclnnQuantMatmulV5", x1=a, x2=packed(b), x1Scale=rows, x2Scale=bits.view(2, n), yOffset=sums, groupSize=256, out=out)
    close(out, (a.float() @ (b * kept.repeat_interleave(256, 0)) + sums) * rows, 3e-3)
    four, zeros, result = torch.randint(-8, 8, (3, k)), torch.randn(2, n).half(), torch.empty(3, n, dtype=torch.bfloat16)
    call.named("aclnnQuantMatmulV5", x1=packed(four), x2=packed(b.t().contiguous()), x1Scale=rows, x2Scale=scale, x2Offset=zeros,
               transposeX2=True, groupSize=256, out=result)
    wanted = four.float() @ ((b - zeros.float().repeat_interleave(256, 0)) * scale.repeat_interleave(256, 0)) * rows
    close(result, wanted, 1e-2)
    none, half = torch.empty(0, dtype=torch.bfloat16), torch.empty(3, 3).half()   # the published client's word for none
    x1 = a[:, :16].contiguous()
    call.named("aclnnQuantMatmulV5", x1=x1, x2=x1.t().contiguous(), x2Scale=scale[0, :3].contiguous().float(), x1Offset=none,
               yScale=none, yOffset=none, out=half)
    close(half, (x1.float() @ x1.float().t()) * scale[0, :3].float(), 2e-3)
    with pytest.raises(RuntimeError, match="161002.*yOffset is not supported"):
        call.named("aclnnQuantMatmulV5", x1=a, x2=a.t().contiguous(), x2Scale=torch.rand(3), yOffset=torch.rand(3), out=torch.empty(3, 3))


def test_float8_times_float4_with_a_scale_of_the_result(call):
    x1, b = torch.randn(3, 64).to(torch.float8_e4m3fn), torch.randint(0, 256, (8, 32), dtype=torch.uint8)
    scale, steps, out = torch.rand(8, 2).bfloat16(), torch.rand(1, 8), torch.empty(3, 8, dtype=torch.bfloat16)
    bits = torch.empty(1, 8, dtype=torch.int64)
    call.named("aclnnTransQuantParamV2", scale=steps, out=bits)
    kept = (steps.view(torch.int32) & -8192).view(torch.float32)
    call.named("aclnnQuantMatmulV5", x1=x1, x2=FourBits(b, FLOAT4_E2M1), x2Scale=scale, yScale=bits, transposeX2=True, groupSize=32, out=out)
    level = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    level = torch.cat([level, -level])
    numbers = torch.stack([level[(b & 15).long()], level[(b >> 4).long()]], -1).flatten(-2)
    close(out, x1.float() @ (numbers * scale.float().repeat_interleave(32, 1)).t() * kept, 1e-2)
    with pytest.raises(RuntimeError, match="161002.*yScale is not supported"):
        call.named("aclnnQuantMatmulV5", x1=x1, x2=x1.t().contiguous(), x2Scale=torch.rand(3), yScale=bits[:, :3], out=out[:, :3])


def test_groups_added(call):
    x1, x2 = torch.randn(6, 10).to(torch.float8_e5m2), torch.randn(10, 4).to(torch.float8_e5m2)
    s1, s2, sums, start = torch.rand(2), torch.rand(2), torch.randn(2, 6, 4), None
    start = sums.clone()
    call.named("aclnnQuantGroupedMatmulInplaceAdd", x1=x1, x2=x2, scale1Optional=s1, scale2=s2, groupList=torch.tensor([3, 10]),
               yRef=sums)
    for i, part in enumerate((slice(0, 3), slice(3, 10))):
        close(sums[i], start[i] + x1.float()[:, part] @ x2.float()[part] * s1[i] * s2[i], 1e-4)


def test_products_summed_over_the_batch(call):
    a, b = torch.randint(-9, 9, (3, 4, 16), dtype=torch.int8), torch.randint(-9, 9, (3, 16, 8), dtype=torch.int8)
    s1, s2, out = torch.rand(3, 4), torch.rand(8).bfloat16(), torch.empty(4, 8, dtype=torch.bfloat16)
    call.named("aclnnQuantMatmulReduceSumWeightNz", x1=a, x2=b, x1Scale=s1, x2Scale=s2, dims=[0], out=out)
    close(out, twin.npu_quant_matmul_reduce_sum(a, b, x1_scale=s1, x2_scale=s2), 1e-2)


@pytest.mark.parametrize("mode", ["pertoken", "pertensor"])
def test_products_that_quantise_their_input(call, mode):
    x, weight, scale = torch.randn(6, 32).half(), torch.randint(-128, 128, (12, 32), dtype=torch.int8), torch.rand(12) / 50
    smooth, bias, out = torch.rand(32).half() + 0.5, torch.randint(-99, 99, (12,), dtype=torch.int32), torch.empty(6, 12).half()
    given = torch.rand(6) / 30 + 0.01 if mode == "pertoken" else torch.tensor([0.03])
    for x_scale in [given] + [None] * (mode == "pertoken"):
        call.named("aclnnQuantMatmulDequant", x=x, weight=weight, weightScale=scale, biasOptional=bias, xScaleOptional=x_scale,
                   smoothScaleOptional=smooth, xQuantMode=mode, transposeWeight=True, out=out)
        close(out, twin.npu_quant_matmul_dequant(x, weight, scale, bias=bias, x_scale=x_scale, smooth_scale=smooth, quant_mode=mode), 2e-2)
    weights, scales = torch.randint(-128, 128, (2, 12, 32), dtype=torch.int8), torch.rand(2, 12) / 50
    for name in ("aclnnQuantGroupedMatmulDequant", "aclnnQuantGroupedMatmulDequantWeightNZ"):
        call.named(name, x=x, weight=weights, weightScale=scales, groupList=torch.tensor([2, 5]), xScaleOptional=given, xQuantMode=mode,
                   transposeWeight=True, out=out)
        close(out, twin.npu_quant_grouped_matmul_dequant(x, weights, scales, torch.tensor([2, 5]), x_scale=given, quant_mode=mode), 2e-2)


@pytest.mark.parametrize("name", ["aclnnWeightQuantBatchMatmulV2", "aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz"])
def test_products_with_quantised_weights(call, name):
    x, weight = torch.randn(4, 64).half(), torch.randint(-8, 8, (64, 16))
    scale, offset, out = torch.rand(2, 16).half() / 10, torch.randn(2, 16).half(), torch.empty(4, 16).half()
    spread = [t.repeat_interleave(32, 0).float() for t in (scale, offset)]
    expected = x.float() @ ((weight + spread[1]) * spread[0])
    for stored in (weight.to(torch.int8), packed(weight)):
        call.named(name, x=x, weight=stored, antiquantScale=scale, antiquantOffsetOptional=offset, antiquantGroupSize=32, y=out)
        close(out, expected, 1e-2)
    steps, zeros, out = torch.rand(16) + 0.5, torch.randint(-99, 99, (16,)).float(), torch.empty(4, 16, dtype=torch.int8)
    for given in ({"quantScaleOptional": scales.npu_trans_quant_param(steps, zeros)}, {"quantScaleOptional": steps, "quantOffsetOptional": zeros}):
        call.named(name, x=x, weight=weight.to(torch.int8), antiquantScale=scale, antiquantOffsetOptional=offset, antiquantGroupSize=32,
                   **given, y=out)
        assert (out - (expected * steps + zeros).clamp(-128, 127)).abs().max() < 0.55


def test_transposing_products(call):
    x1, x2 = torch.randint(-9, 9, (5, 3, 16), dtype=torch.int8), torch.randint(-9, 9, (3, 16, 8), dtype=torch.int8)
    s1, s2, out = torch.rand(5), torch.rand(8), torch.empty(5, 3, 8).half()
    expected = ((x1.transpose(0, 1).float() @ x2.float()) * s2 * s1.view(1, 5, 1)).transpose(0, 1)
    for name in ("aclnnTransposeQuantBatchMatMul", "aclnnTransposeQuantBatchMatMulWeightNz"):
        call.named(name, x1=x1, x2=x2, x1Scale=s1, x2Scale=s2, dtype=1, permX1=[1, 0, 2], permX2=[0, 1, 2], permY=[1, 0, 2],
                   batchSplitFactor=1, out=out)
        close(out, expected, 3e-3)
    with pytest.raises(RuntimeError, match="161002.*groupSize 32"):
        call.named("aclnnTransposeQuantBatchMatMul", x1=x1, x2=x2, x1Scale=s1, x2Scale=s2, groupSize=32, permX1=[1, 0, 2],
                   permX2=[0, 1, 2], permY=[1, 0, 2], out=out)
    call.named("aclnnTransposeBatchMatMulWeightNz", x1=x1.half(), x2=x2.half(), permX1=[1, 0, 2], permX2=[0, 1, 2], permY=[1, 0, 2],
               batchSplitFactor=1, out=out)
    close(out, (x1.transpose(0, 1).float() @ x2.float()).transpose(0, 1), 3e-3)


def test_transposing_products_of_mx_blocks(call):
    x1, x2 = torch.randn(5, 3, 128).to(torch.float8_e4m3fn), torch.randn(3, 128, 8).to(torch.float8_e4m3fn)
    s1, s2, out = torch.randint(-3, 4, (5, 3, 4)), torch.randint(-3, 4, (3, 4, 8)), torch.empty(5, 3, 8)
    e1 = (s1 + 127).to(torch.uint8).view(5, 3, 2, 2).view(torch.float8_e8m0fnu)
    e2 = (s2 + 127).to(torch.uint8).view(3, 2, 2, 8).transpose(2, 3).contiguous().view(torch.float8_e8m0fnu)
    left, right = x1.float() * (2.0**s1).repeat_interleave(32, 2), x2.float() * (2.0**s2).repeat_interleave(32, 1)
    expected = (left.transpose(0, 1) @ right).transpose(0, 1)
    for name in ("aclnnTransposeQuantBatchMatMul", "aclnnTransposeQuantBatchMatMulWeightNz"):
        call.named(name, x1=x1, x2=x2, x1Scale=e1, x2Scale=e2, permX1=[1, 0, 2], permX2=[0, 1, 2], permY=[1, 0, 2], groupSize=32,
                   out=out.zero_())
        close(out, expected, 1e-4)
    turned = {"x2": x2.mT.contiguous(), "x2Scale": e2.transpose(1, 2).contiguous(), "permX2": [0, 2, 1]}
    call.named("aclnnTransposeQuantBatchMatMul", x1=x1, x1Scale=e1, permX1=[1, 0, 2], permY=[1, 0, 2], groupSize=32, out=out.zero_(), **turned)
    close(out, expected, 1e-4)


def test_convolution(call):
    image, weight = torch.randint(-9, 9, (2, 4, 6, 6), dtype=torch.int8), torch.randint(-9, 9, (8, 4, 3, 3), dtype=torch.int8)
    scale, bias, out = torch.rand(8) / 50, torch.randint(-99, 99, (8,), dtype=torch.int32), torch.empty(2, 8, 3, 3).half()
    call.named("aclnnQuantConvolution", input=image, weight=weight, bias=bias, scale=scale, stride=[2, 2], padding=[1, 1],
               dilation=[1, 1], groups=1, offsetx=5, output=out)
    padded = F.pad(image.float(), (1, 1, 1, 1), value=5)
    close(out, (F.conv2d(padded, weight.float(), stride=2) + bias.view(1, 8, 1, 1)) * scale.view(1, 8, 1, 1), 2e-3)


def test_low_rank_adapters(call):
    y, x, out = torch.randn(5, 12).half(), torch.randn(5, 16).half(), torch.empty(5, 12).half()
    a, b, which = torch.randn(3, 2, 4, 16).half(), torch.randn(3, 2, 8, 4).half(), torch.tensor([0, 2, -1, 1, 0], dtype=torch.int32)
    call.named("aclnnAddLora", y=y, x=x, weightB=b, indices=which, weightAOptional=a, layerIdx=1, scale=0.5, yOffset=2, ySliceSize=8,
               out=out)
    expected = y.float().clone()
    for i, adapter in enumerate(which.tolist()):
        if adapter >= 0:
            expected[i, 2:10] += 0.5 * (x[i].float() @ a[adapter, 1].float().t() @ b[adapter, 1].float().t())
    close(out, expected, 1e-2)


def test_scale_of_the_matrix_unit_rounded_to_nearest(call):
    scale, out = torch.rand(8), torch.empty(8, dtype=torch.int64)
    call.named("aclnnTransQuantParamV3", scale=scale, roundMode=1, out=out)
    kept = (out & 0xFFFFE000).int().view(torch.float32)
    assert ((kept - scale).abs() <= scale * 2**-11).all()  # half of the last bit that is kept
    assert (out >> 46 & 1).all()
    call.named("aclnnTransQuantParamV3", scale=scale, roundMode=0, out=out)
    assert ((out & 0xFFFFE000).int().view(torch.float32) <= scale).all()


def rows_quantized(value):
    scale = value.abs().amax(-1, keepdim=True) / 127
    return (value / scale).round().to(torch.int8), scale.squeeze(-1)


def test_norms_of_sums_by_rows(call):
    x1, x2, gamma, beta, smooth = (torch.randn(shape).half() for shape in ((3, 4, 8), (3, 4, 8), (8,), (8,), (8,)))
    x = x1.float() + x2.float()
    y1, y2 = torch.empty(3, 4, 8, dtype=torch.int8), torch.empty(3, 4, 8, dtype=torch.int8)
    out, s1, s2 = torch.empty(3, 4, 8).half(), torch.empty(3, 4), torch.empty(3, 4)
    outs = dict(y1Out=y1, y2Out=y2, xOut=out)
    normal = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma.float()
    call.named("aclnnAddRmsNormDynamicQuant", x1=x1, x2=x2, gamma=gamma, smoothScale1Optional=smooth, smoothScale2Optional=gamma,
               epsilon=1e-6, **outs, scale1Out=s1, scale2Out=s2)
    for found, steps, factor in ((y1, s1, smooth), (y2, s2, gamma)):
        q, scale = rows_quantized(normal * factor.float())
        near(found, q)
        close(steps, scale, 1e-4)
    close(out, x, 2e-3)
    normal = F.layer_norm(x, (8,), gamma.float(), beta.float())
    for name, more in (("aclnnAddLayerNormQuant", {}), ("aclnnAddLayerNormQuantV2", {"layernormRes": torch.empty(3, 4, 8).half()})):
        inputs = dict(x1=x1, x2=x2, gamma=gamma, beta=beta, epsilon=1e-5, outScales1Out=s1, outScales2Out=s2, **outs, **more)
        call.named(name, **inputs, scales1Optional=smooth, quantMode="dynamic", additionalOutput=True)
        q, scale = rows_quantized(normal * smooth.float())
        near(y1, q)
        close(s1, scale, 1e-4)
        assert (y2 == 0).all()
        call.named(name, **inputs, scales1Optional=torch.full((8,), 0.1).half(), scales2Optional=torch.full((8,), 20.0).half(),
                   zeroPoints1Optional=torch.full((8,), 3.0).half(), quantMode="static", divMode=True)
        near(y1, (normal / 0.1 + 3).clamp(-128, 127).round())
        near(y2, (normal / 20).round())
        for result in more.values():
            close(result, normal, 5e-3)
        with pytest.raises(RuntimeError, match="161002.*quantMode 'some'"):
            call.named(name, **inputs, quantMode="some")


def test_norms_in_whole_numbers(call):
    x, weight, bias, scale, shift, smooth = (torch.randn(shape).half() for shape in ((2, 4, 8), (8,), (8,), (2, 8), (2, 8), (8,)))
    out, steps = torch.empty(2, 4, 8, dtype=torch.int8), torch.empty(2, 4)
    call.named("aclnnAdaLayerNormQuant", x=x, scale=scale, shift=shift, weightOptional=weight, biasOptional=bias,
               smoothScalesOptional=smooth, epsilon=1e-5, quantMode="dynamic", out=out, quantScale=steps)
    normal = F.layer_norm(x.float(), (8,), weight.float(), bias.float())
    q, expected = rows_quantized((normal * (1 + scale.float()[:, None]) + shift.float()[:, None]) * smooth.float())
    near(out, q)
    close(steps, expected, 1e-4)
    arguments = dict(x=x, gammma=weight[None], beta=bias[None], scale=torch.tensor([0.05]).half(), epsilon=1e-5, res=out, scaleOut=steps,
                     zeroPointsOptional=torch.tensor([5], dtype=torch.int8))
    call.named("aclnnLayerNormQuant", **arguments)
    near(out, (normal / torch.tensor(0.05).half().float() + 5).clamp(-128, 127).round())
    with pytest.raises(RuntimeError, match="161002.*quantMode 1"):
        call.named("aclnnLayerNormQuant", **arguments, quantMode=1)


def test_groups_normalized_and_quantized(call):
    x, gamma, beta, scale = torch.randn(2, 6, 5).half(), torch.randn(6).half(), torch.randn(6).half(), torch.rand(6) / 20 + 0.01
    out, mean, rstd = torch.empty(2, 6, 5, dtype=torch.int8), torch.empty(2, 3).half(), torch.empty(2, 3).half()
    call.named("aclnnGroupNormSiluQuant", self=x, gamma=gamma, beta=beta, quantScale=scale, group=3, eps=1e-5, activateSilu=True,
               out=out, meanOut=mean, rstdOut=rstd)
    normal = F.silu(F.group_norm(x.float(), 3, gamma.float(), beta.float()))
    near(out, (normal / scale.view(1, 6, 1)).clamp(-128, 127).round())
    close(mean, x.float().view(2, 3, -1).mean(-1), 2e-3)


def test_bias_gradient_of_groups(call):
    rows, ends = torch.randn(7, 4), torch.tensor([2, 2, 7], dtype=torch.int32)
    expected, out = torch.stack([rows[:2].sum(0), torch.zeros(4), rows[2:].sum(0)]), torch.empty(3, 4)
    call.named("aclnnGroupedBiasAddGrad", gradY=rows, groupIdxOptional=ends, out=out)
    close(out, expected)
    call.named("aclnnGroupedBiasAddGradV2", gradY=rows, groupIdxOptional=torch.tensor([2, 0, 5]), groupIdxType=1, out=out)
    close(out, expected)
    equal = torch.randn(3, 5, 4)
    call.named("aclnnGroupedBiasAddGrad", gradY=equal, out=out)
    close(out, equal.sum(1))
    with pytest.raises(RuntimeError, match="161002.*3 without"):
        call.named("aclnnGroupedBiasAddGrad", gradY=rows, out=out)


def test_first_products_of_eight_bits(call):
    a, b = torch.randint(-99, 99, (3, 4, 32), dtype=torch.int8), torch.randint(-99, 99, (3, 32, 16), dtype=torch.int8)
    bias, out = torch.randint(-99, 99, (16,), dtype=torch.int32), torch.empty(3, 4, 16).half()
    sums = a.double() @ b.double() + bias
    call.named("aclnnQuantMatmul", x1=a, x2=b, bias=bias, deqScale=0.001, out=out)
    close(out, sums * 0.001, 2e-3)
    scale, packed = torch.rand(16) / 1000, torch.empty(16, dtype=torch.int64)
    call.named("aclnnTransQuantParamV2", scale=scale, out=packed)
    kept = (packed & 0xFFFFE000).int().view(torch.float32)
    call.named("aclnnQuantMatmulV2", x1=a.mT.contiguous(), x2=b, bias=bias, deqScale=packed, adjX1=True, out=out)
    close(out, sums * kept, 2e-3)
    call.named("aclnnQuantMatmulV3", x1=a, x2=b.mT.contiguous(), scale=packed, bias=bias, transposeX2=True, out=out)
    close(out, sums * kept, 2e-3)


def test_products_that_become_eight_bits(call):
    a, b, bias, scale = torch.randn(4, 8).half(), torch.randn(16, 8).half(), torch.randn(16).half(), torch.rand(16) + 1
    packed, out = torch.empty(16, dtype=torch.int64), torch.empty(4, 16, dtype=torch.int8)
    call.named("aclnnTransQuantParamV2", scale=scale, offset=torch.full((16,), -3.0), out=packed)
    call.named("aclnnBatchMatmulQuant", x1=a, x2=b, quantParam=packed, bias=bias, transposeX2=True, out=out)
    kept = (packed & 0xFFFFE000).int().view(torch.float32)
    near(out, ((a.float() @ b.float().t() + bias.float()) * kept - 3).clamp(-128, 127).round())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_quantized_by_row(call, dtype):
    x, gamma, beta, smooth = (torch.randn(*s).to(dtype) for s in ((4, 64), (64,), (64,), (64,)))
    for more in ({}, {"betaOptional": beta}, {"betaOptional": beta, "smoothScalesOptional": smooth}):
        out, scales = torch.empty(4, 64, dtype=torch.int8), torch.empty(4)
        call.named("aclnnRmsNormDynamicQuant", x=x, gamma=gamma, epsilon=1e-6, dstType=2, yOut=out, scaleOut=scales, **more)
        value = rms_norm(x, gamma, more.get("betaOptional"))
        whole, steps = by_row(value * smooth.float() if "smoothScalesOptional" in more else value)
        near(out, whole)
        close(scales, steps, 1e-4)
    with pytest.raises(RuntimeError, match="161002.*dstType 3"):
        call.named("aclnnRmsNormDynamicQuant", x=x, gamma=gamma, epsilon=1e-6, dstType=3, yOut=out, scaleOut=scales)


@pytest.mark.parametrize("left", [True, False])
def test_swiglu_of_groups_quantized(call, left):
    """Groups by their ends; without a mode, by row, with the factors of the rows for scales: those behind the groups have 0."""
    x, smooth, offsets = torch.randn(5, 32), torch.rand(2, 16) + 0.5, torch.randn(2, 16)
    ends, out, scales = torch.tensor([2, 5], dtype=torch.int32), torch.empty(5, 16, dtype=torch.int8), torch.empty(5)
    a, b = x.chunk(2, -1)
    value = F.silu(a) * b if left else a * F.silu(b)
    rows = torch.tensor([0, 0, 1, 1, 1])
    given = dict(x=x, smoothScalesOptional=smooth, groupIndexOptional=ends, activateLeft=left, yOut=out, scaleOut=scales)
    whole, steps = by_row(value * smooth[rows])
    for name in ("aclnnSwiGluQuant", "aclnnSwiGluQuantV2"):
        call.named(name, **given)
        near(out, whole)
        close(scales, 1 / steps, 1e-4)
    call.named("aclnnSwiGluQuant", **{**given, "groupIndexOptional": torch.tensor([2, 4], dtype=torch.int32)})
    close(scales[:4], 1 / steps[:4], 1e-4)
    assert scales[4] == 0 and not out[4].any()
    call.named("aclnnSwiGluQuant", offsetsOptional=offsets, quantModeOptional="static", **given)
    near(out, int8(value * smooth[rows] + offsets[rows]))


@pytest.mark.parametrize("rows", [8, 80])
@pytest.mark.parametrize("turned", [False, True])
def test_first_products_with_quantised_weights(call, rows, turned):
    """Up to 64 rows by what the client computed beforehand, otherwise by its parts."""
    x, weight, out = torch.randn(rows, 16).half(), torch.randint(-128, 128, (16, 8), dtype=torch.int8), torch.empty(rows, 8).half()
    add, scale, bias = torch.randint(-9, 9, (8,)).half(), (torch.rand(8) / 50).half(), torch.randn(8)
    bits = torch.empty(8, dtype=torch.int64)
    call.named("aclnnTransQuantParamV2", scale=scale.float() * 0.5, out=bits)
    beforehand = (add.float() / 0.5 - 3).round().int()
    given = dict(x1=x.t().contiguous() if turned else x, x2=weight.t().contiguous() if turned else weight, transposeX1=turned,
                 transposeX2=turned, antiquantScale=0.5, antiquantOffset=3.0, bias=bias, out=out)
    call.named("aclnnWeightQuantBatchMatmul", deqOffset=beforehand, deqScale=bits, addOffset=add, mulScale=scale,
               diagonalMatrix=torch.eye(32, dtype=torch.int8), **given)
    close(out, x.float() @ (((weight.float() - 3) * 0.5 + add.float()) * scale.float()) + bias, 5e-3)
    if rows <= 64:
        with pytest.raises(RuntimeError, match="161002.*deqOffset and deqScale are needed"):
            call.named("aclnnWeightQuantBatchMatmul", addOffset=add, mulScale=scale, **given)
