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
    close(rstd, wanted[2])
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


@pytest.mark.parametrize("name", ["aclnnGroupedDynamicMxQuant", "aclnnGroupedDynamicMxQuantV2"])
def test_groups_of_rows(call, name):
    x, ends = torch.randn(150, 8).half(), torch.tensor([40, 40, 140], dtype=torch.int32)
    out, found = torch.empty(150, 8).to(torch.float8_e5m2), scales(150 // 64 + 3, 8, 2)
    call.named(name, x=x, groupIndex=ends, roundMode="rint", blocksize=32, y=out, mxscale=found)
    wanted = twin.npu_grouped_dynamic_mx_quant(x, ends)
    same(out, wanted[0])
    same(found, wanted[1])
