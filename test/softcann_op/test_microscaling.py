"""Quantization in blocks at the C interface, against the CPU twins; scales of powers of two are exact."""
import pytest
import torch
from nn_client import close

from torch_npu._cpu_ops import microscaling as twin

FORMATS = {torch.float8_e4m3fn: 24, torch.float8_e5m2: 23}
EXPONENTS = torch.float8_e8m0fnu


def scales(*shape):
    return torch.zeros(shape, dtype=torch.uint8).view(EXPONENTS)


def same(actual, expected):
    assert torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("alg,largest", [(0, 0.0), (1, 0.0), (2, 4.0)])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("axis,shape", [(-1, (3, 2, 2)), (0, (1, 100, 2))])
def test_blocks(call, axis, shape, dtype, alg, largest):
    x = torch.randn(3, 100).bfloat16() * torch.logspace(-3, 3, 100)
    x = x.bfloat16()
    out, found = torch.empty(3, 100).to(dtype), scales(*shape)
    wanted = twin.npu_dynamic_mx_quant(x, axis=axis, dst_type=FORMATS[dtype], scale_alg=alg, dst_type_max=largest)
    versions = ["aclnnDynamicMxQuantV2", "aclnnDynamicMxQuantV3"] + (["aclnnDynamicMxQuant"] if not largest else [])
    for name in versions:
        more = {"dstTypeMax": largest} if name[-1] != "t" else {}
        call.named(name, x=x, axis=axis, roundModeOptional="rint", blocksize=32, scaleAlg=alg, yOut=out, mxscaleOut=found, **more)
        same(out, wanted[0])
        same(found, wanted[1])
    back = torch.empty(3, 100)
    call.named("aclnnAntiMxQuant", x=out, mxscale=found, axis=axis, y=back)
    close(back, twin.npu_anti_mx_quant(wanted[0], wanted[1], axis=axis, dst_type=6, src_type=FORMATS[dtype]))


def test_blocks_whose_greatest_number_counts_as_more(call):
    x = torch.randn(4, 64) * torch.tensor([[0.01], [0.1], [1.0], [0.0]])
    out, found = torch.empty(4, 64).to(torch.float8_e4m3fn), scales(4, 1, 2)
    given = dict(x=x, axis=-1, roundModeOptional="rint", blocksize=32, yOut=out, mxscaleOut=found)
    call.named("aclnnDynamicMxQuantV3", scaleAlg=1, maxLowBound=0.5, **given)
    top = x.view(4, 2, 32).abs().amax(2).clamp_min(0.5)
    exponent = torch.ceil(torch.log2(top / 448))
    same(found, (exponent + 127).to(torch.uint8).view(4, 1, 2))
    same(out, (x.view(4, 2, 32) * 2.0**-exponent.unsqueeze(2)).view(4, 64).to(torch.float8_e4m3fn))
    for bound, algorithm in ((0.5, 0), (-1.0, 1)):
        with pytest.raises(RuntimeError, match="161002.*maxLowBound"):
            call.named("aclnnDynamicMxQuantV3", scaleAlg=algorithm, maxLowBound=bound, **given)


def test_groups_of_both_axes(call):
    x, ends = torch.randn(100, 64).bfloat16(), torch.tensor([40, 100], dtype=torch.int64)
    outs = [torch.empty(100, 64).to(torch.float8_e4m3fn) for _ in range(2)]
    found = [scales(100, 1, 2), scales(100 // 64 + 2, 64, 2)]
    call.named("aclnnGroupedDynamicMxQuantWithDualAxis", x=x, groupIndex=ends, roundModeOptional="rint", scaleAlg=1, y1Out=outs[0],
               y1ScaleOut=found[0], y2Out=outs[1], y2ScaleOut=found[1])
    rows = twin.npu_dynamic_mx_quant(x, axis=-1, dst_type=FORMATS[torch.float8_e4m3fn], scale_alg=1)
    groups = twin.npu_grouped_dynamic_mx_quant(x, ends, dst_type=FORMATS[torch.float8_e4m3fn], scale_alg=1)
    for actual, wanted in zip((outs[0], found[0], outs[1], found[1]), (*rows, *groups)):
        same(actual, wanted)


@pytest.mark.parametrize("name", ["aclnnDynamicMxQuantWithDualAxis", "aclnnDynamicMxQuantWithDualAxisV2"])
def test_both_axes(call, name):
    x = torch.randn(70, 64).half()
    y1, y2, s1, s2 = torch.empty(70, 64).to(torch.float8_e5m2), torch.empty(70, 64).to(torch.float8_e5m2), scales(70, 1, 2), scales(2, 64, 2)
    call.named(name, x=x, roundModeOptional="rint", scaleAlg=0, y1Out=y1, mxscale1Out=s1, y2Out=y2, mxscale2Out=s2)
    for actual, expected in zip((y1, s1, y2, s2), twin.npu_dynamic_mx_quant_with_dual_axis(x, dst_type=23)):
        same(actual, expected)


def test_norms(call):
    x1, x2, gamma, beta = torch.randn(4, 64).half(), torch.randn(4, 64).half(), torch.randn(64).half(), torch.randn(64).half()
    out, found, rstd, total = torch.empty(4, 64).to(torch.float8_e4m3fn), scales(4, 1, 2), torch.empty(4, 1), torch.empty(4, 64).half()
    given = dict(gamma=gamma, beta=beta, epsilon=1e-6, roundMode="rint", outputRstd=True, yOut=out, mxscaleOut=found, rstdOut=rstd)
    call.named("aclnnRmsNormDynamicMxQuant", x=x1, **given)
    wanted = twin.npu_rms_norm_dynamic_mx_quant(x1, gamma, beta=beta, dst_type=24)
    same(found, wanted[1])
    close(out, wanted[0], 0.13)
    close(rstd, torch.rsqrt(x1.float().square().mean(-1, keepdim=True) + 1e-6))
    call.named("aclnnAddRmsNormDynamicMxQuant", x1=x1, x2=x2, xOut=total, **given)
    wanted = twin.npu_add_rms_norm_dynamic_mx_quant(x1, x2, gamma, beta=beta, dst_type=24)
    same(found, wanted[2])
    close(out, wanted[0], 0.13)
    assert torch.equal(total, wanted[1])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("left", [False, True])
def test_swiglu(call, left, mode):
    x = torch.randn(4, 128).bfloat16() * 3
    out, found = torch.empty(4, 64).to(torch.float8_e4m3fn), scales(4, 1, 2)
    call.named("aclnnSwigluMxQuant", x=x, activateDim=-1, activateLeft=left, swigluMode=mode, clampLimit=7.0, gluAlpha=1.7, gluBias=1.0,
               axis=-1, roundModeOptional="rint", yOut=out, mxscaleOut=found)
    wanted = twin.npu_swiglu_mx_quant(x, activate_left=left, swiglu_mode=mode, glu_alpha=1.7, dst_type=24)
    same(found, wanted[1])
    close(out, wanted[0], 0.13)
    if mode == 0:
        y2, s2 = torch.empty(4, 64).to(torch.float8_e4m3fn), scales(1, 64, 2)
        call.named("aclnnSwigluMxQuantWithDualAxis", x=x, activateLeft=left, roundModeOptional="rint", scaleAlg=1, y1Out=out,
                   mxscale1Out=found, y2Out=y2, mxscale2Out=s2)
        wanted = twin.npu_swiglu_mx_quant_with_dual_axis(x, activate_left=left)
        same(found, wanted[1])
        same(s2, wanted[3])
        close(y2, wanted[2], 0.13)


@pytest.mark.parametrize("dtype,number", [(torch.int8, 1), (torch.float8_e4m3fn, 24)])
def test_squares(call, dtype, number):
    x = torch.randn(10, 200).half()
    out, found = torch.empty(10, 200).to(dtype), torch.empty(3, 2)
    for name in ("aclnnDynamicBlockQuant", "aclnnDynamicBlockQuantV2"):
        call.named(name, x=x, minScale=0.001, roundModeOptional="rint", rowBlockSize=4, colBlockSize=128, yOut=out, scaleOut=found)
        wanted = twin.npu_dynamic_block_quant(x, min_scale=0.001, dst_type=number, row_block_size=4, col_block_size=128)
        close(found, wanted[1])
        same(out, wanted[0])
    ends, found = torch.tensor([3, 3, 9]), torch.full((10 // 4 + 3, 2), 9.0)
    for name in ("aclnnGroupedDynamicBlockQuant", "aclnnGroupedDynamicBlockQuantV2"):
        call.named(name, x=x, groupList=ends, roundModeOptional="rint", rowBlockSize=4, colBlockSize=128, yOut=out, scaleOut=found)
        wanted = twin.npu_grouped_dynamic_block_quant(x, ends, dst_type=number, row_block_size=4, col_block_size=128)
        close(found, wanted[1])
        same(out, wanted[0])
        call.named(name, x=x, groupList=torch.tensor([4, 8, 8]), rowBlockSize=4, colBlockSize=128, yOut=out, scaleOut=found)
        assert found.any(1).tolist() == [True, False, True, False, False]  # group g's at its first row / 4 + g


@pytest.mark.parametrize("name", ["aclnnGroupedDynamicMxQuant", "aclnnGroupedDynamicMxQuantV2"])
def test_groups_of_rows(call, name):
    x, ends = torch.randn(150, 8).half(), torch.tensor([40, 40, 140], dtype=torch.int32)
    out, found = torch.empty(150, 8).to(torch.float8_e5m2), scales(150 // 64 + 3, 8, 2)
    call.named(name, x=x, groupIndex=ends, roundMode="rint", blocksize=32, y=out, mxscale=found)
    wanted = twin.npu_grouped_dynamic_mx_quant(x, ends)
    same(out, wanted[0])
    same(found, wanted[1])
    parts = [mx_scaled(x[:64], 0, 57344.0), mx_scaled(x[64:128], 0, 57344.0)]  # scales have gaps where groups end with a block
    call.named(name, x=x, groupIndex=torch.tensor([64, 128], dtype=torch.int32), roundMode="rint", blocksize=32, y=out,
               mxscale=found[:4], **({"scaleAlg": 1} if name[-1] == "2" else {}))
    filled = found[:4].view(torch.uint8).flatten(1).any(1).tolist()
    assert filled == [True, False, True, False]
    if name[-1] == "2":
        same(out[:128], torch.cat([part[0].to(torch.float8_e5m2) for part in parts]))


@pytest.mark.parametrize("backward", [False, True])
def test_swiglu_in_blocks_of_both_axes_and_groups(call, backward):
    """Along the rows each group for itself; with one group as without."""
    x, grad, ends = torch.randn(128, 64).bfloat16(), torch.randn(128, 32).bfloat16(), torch.tensor([64, 128])
    name = "aclnnSwigluBackwardMxQuantWithDualAxis" if backward else "aclnnSwigluMxQuantWithDualAxis"
    width, more = (64, {"yGrad": grad}) if backward else (32, {})

    def run(rows, groups):
        outs = [torch.empty(len(rows), width).to(torch.float8_e4m3fn) for _ in range(2)]
        found = [scales(len(rows), (width + 63) // 64, 2), scales(len(rows) // 64 + (0 if groups is None else len(groups)), width, 2)]
        call.named(name, x=x[rows], groupIndexOptional=groups, activateLeft=True, roundModeOptional="rint", scaleAlg=1, y1Out=outs[0],
                   mxscale1Out=found[0], y2Out=outs[1], mxscale2Out=found[1], **{key: value[rows] for key, value in more.items()})
        return outs, [f.view(torch.uint8) for f in found]

    (y1, y2), (s1, s2) = run(range(128), ends)
    for group, rows in enumerate((range(64), range(64, 128))):
        (p1, p2), (q1, q2) = run(rows, None)
        same(y1[rows], p1)
        same(y2[rows], p2)
        assert torch.equal(s1[rows], q1) and torch.equal(s2[2 * group:2 * group + 1], q2)


def mx_scaled(x, axis, limit=448.0):
    """Elements and scales by the formula: the least power of two with which no number of 32 is beyond the format's greatest."""
    axis %= x.dim()
    blocks = x.movedim(axis, -1).unflatten(-1, (-1, 32))
    scale = 2.0 ** torch.ceil(torch.log2(blocks.abs().amax(-1) / limit))
    y = (blocks / scale.unsqueeze(-1)).flatten(-2).movedim(-1, axis)
    return y, (torch.log2(scale) + 127).to(torch.uint8).unflatten(-1, (-1, 2)).movedim(-2, axis)


def test_gradient_of_swiglu_in_blocks(call):
    x, grad = torch.randn(64, 128, requires_grad=True), torch.randn(64, 64)
    for left in (True, False):
        a, b = x.chunk(2, -1)
        wanted, = torch.autograd.grad(torch.nn.functional.silu(a if left else b) * (b if left else a), x, grad)
        y1, y2 = torch.empty(64, 128, dtype=torch.float8_e4m3fn), torch.empty(64, 128, dtype=torch.float8_e4m3fn)
        scale1, scale2 = torch.empty(64, 2, 2, dtype=torch.uint8), torch.empty(1, 128, 2, dtype=torch.uint8)
        call.named("aclnnSwigluBackwardMxQuantWithDualAxis", x=x.detach(), yGrad=grad, activateLeft=left, roundModeOptional="rint",
                   scaleAlg=1, dstDtype=36, y1Out=y1, mxscale1Out=scale1, y2Out=y2, mxscale2Out=scale2)
        for y, scale, axis in ((y1, scale1, -1), (y2, scale2, 0)):
            found, exponents = mx_scaled(wanted, axis)
            assert torch.equal(scale, exponents)
            torch.testing.assert_close(y.float(), found, rtol=0.07, atol=2**-9)


def test_squares_with_one_scale(call):
    x = torch.randn(64, 64) * torch.tensor([1.0, 8.0]).repeat_interleave(32)
    y = torch.empty(64, 64, dtype=torch.float8_e4m3fn)
    rows, columns = torch.empty(64, 1, 2, dtype=torch.uint8), torch.empty(1, 64, 2, dtype=torch.uint8)
    call.named("aclnnDynamicBlockMxQuant", x=x, roundModeOptional="rint", dstType=36, scaleAlg=1, dstTypeMax=0.0, yOut=y, scale1Out=rows,
               scale2Out=columns)
    top = x.unflatten(0, (2, 32)).unflatten(2, (2, 32)).abs().amax((1, 3))  # [down, across]
    exponent = torch.ceil(torch.log2(top / 448.0))
    assert torch.equal(rows[:, 0], (exponent + 127).to(torch.uint8).repeat_interleave(32, 0))
    assert torch.equal(columns[0], (exponent + 127).to(torch.uint8).t().repeat_interleave(32, 0))
    scale = (2.0**exponent).repeat_interleave(32, 0).repeat_interleave(32, 1)
    torch.testing.assert_close(y.float() * scale, x, rtol=0.07, atol=0.01)
    with pytest.raises(RuntimeError, match="only to float8"):
        call.named("aclnnDynamicBlockMxQuant", x=x, roundModeOptional="rint", dstType=2, scaleAlg=1, dstTypeMax=0.0,
                   yOut=torch.empty(64, 64, dtype=torch.int8), scale1Out=rows, scale2Out=columns)


def test_rotated_and_quantised(call):
    x, rotation = torch.randn(6, 64), torch.linalg.qr(torch.randn(16, 16))[0].contiguous()
    turned = (x.view(6, 4, 16) @ rotation).flatten(1)
    y, scale = torch.empty(6, 64, dtype=torch.int8), torch.empty(6)
    call.named("aclnnRotateQuant", x=x, rotation=rotation, axis=-1, roundMode="rint", yOut=y, scaleOut=scale)
    torch.testing.assert_close(scale, turned.abs().amax(1) / 127)
    assert (y.float() - turned / scale.unsqueeze(1)).abs().max() <= 0.501
    y, scale = torch.empty(6, 64, dtype=torch.float8_e5m2), torch.empty(6, 1, 2, dtype=torch.uint8)
    call.named("aclnnRotateQuant", x=x, rotation=rotation, axis=-1, roundMode="rint", scaleAlg=1, yOut=y, scaleOut=scale)
    found, exponents = mx_scaled(turned, -1, 57344.0)
    assert torch.equal(scale, exponents)
    torch.testing.assert_close(y.float(), found, rtol=0.13, atol=2**-14)
    with pytest.raises(RuntimeError, match="alpha and trans"):
        call.named("aclnnRotateQuant", x=x, rotation=rotation, axis=-1, roundMode="rint", trans=True, yOut=y, scaleOut=scale)


@pytest.mark.parametrize("mode", [0, 1])
def test_swiglu_of_groups_in_blocks(call, mode):
    x, weight, groups = torch.randn(6, 512), torch.rand(6, 1) + 0.5, torch.tensor([2, 3])
    a, b = x[:, :256].clamp(max=1.0), x[:, 256:].clamp(-1.0, 1.0)
    plain = torch.nn.functional.silu(a) * b
    plain[5] = 0  # behind the groups
    y, origin = torch.empty(6, 256, dtype=torch.float8_e4m3fn), torch.empty(6, 256)
    scale = torch.empty(6, 2) if mode == 0 else torch.empty(6, 4, 2, dtype=torch.uint8)
    call.named("aclnnSwigluGroupQuant", x=x, weightOptional=weight, groupIndexOptional=groups, dstType=36, quantMode=mode, clampLimit=1.0,
               outputOrigin=True, yOut=y, yScaleOut=scale, yOriginOut=origin)
    torch.testing.assert_close(origin, plain)
    wanted, block = plain * weight, 128 if mode == 0 else 32
    spread = (scale if mode == 0 else 2.0 ** (scale.flatten(1).float() - 127)).repeat_interleave(block, 1)
    torch.testing.assert_close(y.float() * spread, wanted, rtol=0.07, atol=0.01)
    top = wanted.unflatten(1, (-1, block)).abs().amax(-1).clamp(min=1e-4)
    if mode == 0:
        torch.testing.assert_close(scale, top / 448)
    else:
        assert torch.equal(scale.flatten(1), (torch.ceil(torch.log2(top / 448)) + 127).to(torch.uint8))


def test_swiglu_of_groups_and_gradients_of_all_weights(call):
    """As in whole numbers, but the weights' gradients have those of rows behind the groups."""
    x, weight, groups = torch.randn(6, 16, requires_grad=True), torch.rand(6, 1), torch.tensor([2, 3])
    plain = torch.nn.functional.silu(x[:, :8].clamp(max=0.5)) * x[:, 8:].clamp(-0.5, 0.5)
    counted, grad = (torch.arange(6) < 5).unsqueeze(1), torch.randn(6, 8)
    out = torch.empty(6, 8)
    call.named("aclnnSwigluGroup", x=x.detach(), weightOptional=weight, groupIndexOptional=groups, clampLimit=0.5, out=out)
    torch.testing.assert_close(out, (plain * weight * counted).detach())
    (plain * weight * counted).backward(grad)
    given = {"gradY": grad, "x": x.detach(), "groupIndexOptional": groups}
    dx, dweight = torch.empty(6, 16), torch.empty(6, 1)
    call.named("aclnnSwigluGroupGrad", weightOptional=weight, yOriginOptional=out, clampLimit=0.5, gradXOut=dx, gradWeightOutOptional=dweight,
               **given)
    torch.testing.assert_close(dx, x.grad)
    torch.testing.assert_close(dweight, (grad * out).sum(1, keepdim=True))
    edge = torch.tensor([[0.5, 0.25, 0.25, 0.25, 0.25, -0.5, 0.5, 0.25]])  # numbers at the limit have no gradient
    by_edge = torch.empty(1, 8)
    for name in ("aclnnSwigluGroupGrad", "aclnnSwigluGroupQuantGrad"):
        call.named(name, gradY=torch.ones(1, 4), x=edge, clampLimit=0.5, gradXOut=by_edge)
        assert by_edge.ne(0).tolist() == [[False, True, True, True, True, False, False, True]], name
    with pytest.raises(RuntimeError, match="161002.*weight and yOrigin go together"):
        call.named("aclnnSwigluGroupGrad", weightOptional=weight, gradXOut=dx, **given)
    with pytest.raises(RuntimeError, match="161002.*clampLimit -1"):
        call.named("aclnnSwigluGroupGrad", clampLimit=-1.0, gradXOut=dx, **given)


def test_gradient_of_swiglu_of_groups(call):
    x, weight, groups = torch.randn(6, 16, requires_grad=True), torch.rand(6, 1, requires_grad=True), torch.tensor([2, 3])
    plain = torch.nn.functional.silu(x[:, :8].clamp(max=0.5)) * x[:, 8:].clamp(-0.5, 0.5)
    grad = torch.randn(6, 8)
    (plain * weight * (torch.arange(6) < 5).unsqueeze(1)).backward(grad)
    for origin in (plain.detach(), torch.empty(0)):  # found again where it is empty
        dx, dweight = torch.empty(6, 16), torch.empty(6, 1)
        call.named("aclnnSwigluGroupQuantGrad", gradY=grad, x=x.detach(), weightOptional=weight.detach(), yOriginOptional=origin,
                   groupIndexOptional=groups, clampLimit=0.5, gradXOut=dx, gradWeightOutOptional=dweight)
        torch.testing.assert_close(dx, x.grad)
        torch.testing.assert_close(dweight, weight.grad)
