"""float4 and int4, two in a byte, at the C interface: MX quantization, products, formats; against the CPU twins, exactly."""
import ctypes

import pytest
import torch
from nn_client import FLOAT4_E1M2, FLOAT4_E2M1, INT4, Client, FourBits, close

from torch_npu._cpu_ops import microscaling as twin

FORMATS = {FLOAT4_E2M1: (296, "e2m1"), FLOAT4_E1M2: (297, "e1m2")}
E8M0, NZ, NZ_C0_32 = torch.float8_e8m0fnu, 29, 51


def room(*shape):
    return torch.full(shape, 255, dtype=torch.uint8)


def exponents(scales):
    return scales.view(E8M0)


def sizes(call, descriptor, what):
    values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    assert getattr(call.lib, what)(descriptor, ctypes.byref(values), ctypes.byref(count)) == 0
    return values[:count.value]


@pytest.mark.parametrize("stored", [torch.zeros(3, 5, 8, dtype=torch.uint8), torch.zeros(6, 8, dtype=torch.uint8).t()], ids=["last", "turned"])
def test_a_description_counts_numbers(call, stored):
    given = FourBits(stored, FLOAT4_E2M1)
    descriptor = call.tensor(given)
    shape, strides = given.described()
    assert sizes(call, descriptor, "aclGetViewShape") == shape and sizes(call, descriptor, "aclGetViewStrides") == strides
    assert sizes(call, descriptor, "aclGetStorageShape") == [2 * stored.numel()]
    assert call.lib.aclSetRawTensorAddr(descriptor, ctypes.c_void_p(stored.data_ptr())) == 0
    assert sizes(call, descriptor, "aclGetViewShape") == shape


def test_a_byte_is_not_divided(call):
    longs = ctypes.c_int64 * 2
    data, storage = room(8), (ctypes.c_int64 * 1)(16)
    for shape, strides, offset in (((3, 5), (5, 1), 0), ((2, 4), (5, 1), 0), ((2, 4), (4, 1), 1)):
        assert not call.lib.aclCreateTensor(longs(*shape), ctypes.c_uint64(2), FLOAT4_E2M1, longs(*strides), ctypes.c_int64(offset), 2, storage,
                                            ctypes.c_uint64(1), ctypes.c_void_p(data.data_ptr()))
        assert b"share a byte" in call.acl.aclGetRecentErrMsg()


def test_arithmetic_has_none(call):
    numbers = FourBits(room(4, 4), FLOAT4_E2M1)
    with pytest.raises(RuntimeError, match="aclnnAdd"):
        call("aclnnAdd", numbers, numbers, 1.0, numbers)


@pytest.mark.parametrize("mode", ["rint", "round", "floor"])
@pytest.mark.parametrize("alg,largest", [(0, 0.0), (1, 0.0), (2, 4.0)])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("axis,scales", [(-1, (4, 2, 2)), (0, (1, 96, 2))])
def test_blocks(call, axis, scales, kind, alg, largest, mode):
    number, name = FORMATS[kind]
    x = (torch.randn(4, 96) * torch.logspace(-3, 3, 96)).bfloat16()
    x[0, :32], x[1, :8] = 0, torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0])   # halves between two numbers
    out, found = FourBits(room(4, 48), kind), room(*scales)
    call.named("aclnnDynamicMxQuantV2", x=x, axis=axis, roundModeOptional=mode, blocksize=32, scaleAlg=alg, dstTypeMax=largest,
               yOut=out, mxscaleOut=exponents(found))
    wanted = twin.npu_dynamic_mx_quant(x, axis=axis, dst_type=number, scale_alg=alg, dst_type_max=largest, round_mode=mode)
    assert torch.equal(found, wanted[1]) and torch.equal(out.bytes, wanted[0])
    back = torch.empty(4, 96)
    call.named("aclnnAntiMxQuant", x=out, mxscale=exponents(found), axis=axis, y=back)
    assert torch.equal(back, twin.unscaled(*wanted, axis, name))


def test_other_operators_that_quantise(call):
    x, gamma = torch.randn(70, 128).half(), torch.rand(128).half() + 0.5
    y1, y2, s1, s2 = FourBits(room(70, 64), FLOAT4_E2M1), FourBits(room(70, 64), FLOAT4_E2M1), room(70, 2, 2), room(2, 128, 2)
    both = dict(y1Out=y1, mxscale1Out=exponents(s1), y2Out=y2, mxscale2Out=exponents(s2))
    call.named("aclnnDynamicMxQuantWithDualAxis", x=x, roundModeOptional="rint", **both)
    for found, wanted in zip((y1.bytes, s1, y2.bytes, s2), twin.npu_dynamic_mx_quant_with_dual_axis(x)):
        assert torch.equal(found, wanted)
    call.named("aclnnDynamicBlockMxQuant", x=x, roundModeOptional="floor", yOut=y1, scale1Out=exponents(s1),
               scale2Out=exponents(room(2, 128, 2)))
    wanted = twin.npu_dynamic_block_mx_quant(x, round_mode="floor")
    assert torch.equal(y1.bytes, wanted[0]) and torch.equal(s1, wanted[1])
    rstd = torch.empty(70, 1)
    call.named("aclnnRmsNormDynamicMxQuant", x=x, gamma=gamma, epsilon=1e-6, roundMode="rint", outputRstd=True, yOut=y1,
               mxscaleOut=exponents(s1), rstdOut=rstd)
    wanted = twin.npu_rms_norm_dynamic_mx_quant(x, gamma)
    assert torch.equal(s1, wanted[1]) and (y1.bytes != wanted[0]).float().mean() < 0.02   # float16 rounded otherwise in between
    groups, found = torch.tensor([40, 40, 66], dtype=torch.int32), room(70 // 64 + 3, 128, 2)
    call.named("aclnnGroupedDynamicMxQuantV2", x=x, groupIndex=groups, roundMode="rint", blocksize=32, y=y1, mxscale=exponents(found))
    wanted = twin.npu_grouped_dynamic_mx_quant(x, groups, dst_type=296)
    assert torch.equal(y1.bytes, wanted[0]) and torch.equal(found, wanted[1])
    with pytest.raises(RuntimeError, match="float4 is not supported"):
        call.named("aclnnDynamicBlockQuant", x=x, roundModeOptional="rint", rowBlockSize=1, colBlockSize=128, yOut=y1, scaleOut=torch.empty(70, 1))


def two_levels(call, x, smooth=None):
    rows, size = x.shape
    y, first, second = FourBits(room(rows, size // 2), FLOAT4_E2M1), torch.empty(rows, -(-size // 512)), room(rows, -(-size // 64), 2)
    call.named("aclnnDynamicDualLevelMxQuant", x=x, smoothScaleOptional=smooth, roundModeOptional="rint", level0BlockSize=512,
               level1BlockSize=32, yOut=y, level0ScaleOut=first, level1ScaleOut=exponents(second))
    wanted = twin.npu_dynamic_dual_level_mx_quant(x, smooth_scale=smooth)
    close(first, wanted[1])
    assert torch.equal(second, wanted[2]) and torch.equal(y.bytes, wanted[0])
    return y, first, second


def test_two_levels(call):
    x1, x2, bias = torch.randn(6, 1088).bfloat16() * 50, torch.randn(10, 1088).bfloat16(), torch.randn(10)
    left, right = two_levels(call, x1, torch.rand(1088).bfloat16()), two_levels(call, x2)
    out = torch.empty(6, 10, dtype=torch.bfloat16)
    for given in (None, bias):
        call.named("aclnnDualLevelQuantMatmulWeightNz", x1=left[0], x2=right[0], x1Level0Scale=left[1], x2Level0Scale=right[1],
                   x1Level1Scale=exponents(left[2]), x2Level1Scale=exponents(right[2]), optionalBias=given, transposeX2=True,
                   level0GroupSize=512, level1GroupSize=32, out=out)
        close(out, twin.npu_dual_level_quant_matmul(left[0].bytes, right[0].bytes, left[1], right[1], left[2], right[2], bias=given), 2e-2)


def mx(x, axis, number):
    return twin.npu_dynamic_mx_quant(x, axis=axis, dst_type=number)


@pytest.mark.parametrize("left", [24, 296], ids=["float8", "float4"])
def test_products(call, left):
    """[m, k] by a weight [n, k] that is seen transposed, in the base format and in FRACTAL_NZ, and in groups."""
    x, weight = torch.randn(6, 128), torch.randn(40, 128)
    (a, a_scale), (w, w_scale) = mx(x, -1, left), mx(weight, -1, 296)
    wanted = twin.unscaled(a, a_scale, -1, "e4m3" if left == 24 else "e2m1") @ twin.unscaled(w, w_scale, -1, "e2m1").t()
    first = a if left == 24 else FourBits(a, FLOAT4_E2M1)
    out = torch.empty(6, 40)
    given = dict(x1=first, x1Scale=exponents(a_scale), x2Scale=exponents(w_scale).transpose(0, 1), groupSize=32, out=out)
    call.named("aclnnQuantMatmulV5", x2=FourBits(w.t(), FLOAT4_E2M1), **given)
    close(out, wanted, 1e-4)
    tiles = room(4, 3, 16, 16)   # of 32 numbers: [k / 32, n / 16, 16, 32]
    numbers = FourBits(tiles.as_strided((64, 40), (1, 64)), FLOAT4_E2M1)
    packed = call.four_bits(numbers, NZ_C0_32, [4, 3, 16, 32])
    scale = torch.empty_strided((2, 40, 2), (2, 4, 1), dtype=torch.uint8)
    call.named("aclnnWeightQuantPreprocess", weight=FourBits(w.t(), FLOAT4_E2M1), weightScale=exponents(w_scale).transpose(0, 1),
               xDtype=torch.float8_e4m3fn, xScaleDtype=E8M0, outWeight=packed, outWeightScale=exponents(scale))
    assert torch.equal(scale, w_scale.transpose(0, 1))
    assert torch.equal(tiles.permute(1, 2, 0, 3).reshape(48, 64)[:40], w)
    out.zero_()
    call.named("aclnnQuantMatmulV5", x2=packed, **given)
    close(out, wanted, 1e-4)
    both = torch.stack([w, w.flip(0)])
    scales = torch.stack([w_scale, w_scale.flip(0)]).view(E8M0).transpose(1, 2)
    call.named("aclnnGroupedMatmulV4", x=[first], weight=[FourBits(both.transpose(1, 2), FLOAT4_E2M1)], scaleOptional=[scales],
               perTokenScaleOptional=[exponents(a_scale)], groupListOptional=torch.tensor([2, 6]), groupType=0, out=[out])
    close(out, torch.cat([wanted[:2], wanted[2:].flip(1)]), 1e-4)


def test_int4_in_bytes(call):
    x, weight = torch.randn(4, 64).half(), torch.randint(-8, 8, (64, 16))
    nibbles = (weight & 15).unflatten(1, (-1, 2)).to(torch.uint8)
    stored = nibbles[..., 0] | nibbles[..., 1] << 4
    scale, out = torch.rand(16).half(), torch.empty(4, 16).half()
    call.named("aclnnWeightQuantBatchMatmulV2", x=x, weight=FourBits(stored, INT4), antiquantScale=scale, y=out)
    close(out, x.float() @ (weight * scale.float()), 2e-2)


@pytest.mark.parametrize("shape,form,dtype,wanted", [
    ((3, 40, 20), NZ, -1, [3, 2, 3, 16, 16]), ((40, 20), NZ, 2, [1, 3, 16, 32]), ((40, 20), 2, -1, [40, 20]), ((40, 100), NZ, FLOAT4_E2M1, [2, 3, 16, 64]),
    ((2, 20, 3, 4, 5), 32, -1, [2, 3, 2, 4, 5, 16]), ((20, 20, 3, 4, 5), 33, -1, [120, 2, 16, 16])])
def test_sizes_of_other_formats(call, shape, form, dtype, wanted):
    found, count, actual = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64(), ctypes.c_int()
    descriptor = call.tensor(torch.empty(shape, dtype=torch.half))
    ask = call.lib.aclnnNpuFormatCastCalculateSizeAndFormat
    assert ask(descriptor, form, dtype, ctypes.byref(found), ctypes.byref(count), ctypes.byref(actual)) == 0
    assert found[:count.value] == wanted and actual.value == form
    assert ask(descriptor, 3, -1, ctypes.byref(found), ctypes.byref(count), ctypes.byref(actual)) == 161002
    assert b"FRACTAL_NZ" in call.acl.aclGetRecentErrMsg()


def test_weights_packed(call):
    """A number in each int32 or float32 becomes one of four bits."""
    weight = torch.randint(-8, 8, (3, 16), dtype=torch.int32)
    words, pairs = torch.zeros(3, 2, dtype=torch.int32), torch.zeros(3, 8, dtype=torch.uint8)
    call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=words)
    shifts = torch.arange(0, 32, 4)
    assert torch.equal(words.unsqueeze(-1) >> shifts & 15, (weight & 15).view(3, 2, 8).to(words.dtype))
    call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=FourBits(pairs, INT4))
    assert torch.equal(torch.stack([pairs & 15, pairs >> 4], -1).flatten(1).int(), weight & 15)
    level = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    call.named("aclnnConvertWeightToINT4Pack", weight=level.repeat(3, 1), weightInt4Pack=FourBits(pairs, FLOAT4_E2M1))
    assert torch.equal(level[torch.stack([pairs & 15, pairs >> 4], -1).flatten(1).long()], level.repeat(3, 1))
    floats = torch.zeros(3, 2)
    call.named("aclnnConvertWeightToINT4Pack", weight=level.repeat(3, 1), weightInt4Pack=floats)
    assert torch.equal(floats.view(torch.uint8), pairs)
    with pytest.raises(RuntimeError, match="161002.*multiple of 8"):
        call.named("aclnnConvertWeightToINT4Pack", weight=weight[:, :12], weightInt4Pack=words)
    with pytest.raises(RuntimeError, match="161002.*float4_e2m1"):
        call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=FourBits(pairs, FLOAT4_E2M1))


@pytest.mark.parametrize("width", [2, 8])
def test_weights_packed_into_blocks(libraries, width):
    """FRACTAL_NZ in columns of 16 or 64 numbers, as the client describes them; products take them back."""
    class Blocks(Client):
        def tensor(self, value):
            if not isinstance(value, tuple):
                return super().tensor(value)
            memory, sizes = value

            def longs(values):
                return (ctypes.c_int64 * len(values))(*values)

            return ctypes.c_void_p(self.lib.aclCreateTensor(
                longs(sizes), ctypes.c_uint64(2), 3, longs([sizes[1], 1]), ctypes.c_int64(0), 29, longs(memory.shape),
                ctypes.c_uint64(memory.dim()), ctypes.c_void_p(memory.data_ptr())))

    call = Blocks(libraries)
    weight, words = torch.randint(-8, 8, (20, 80), dtype=torch.int32), torch.zeros(20, 10, dtype=torch.int32)
    call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=words)
    memory = torch.full((-(-10 // width), 2, 16, width), -1, dtype=torch.int32)
    call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=(memory, (20, 10)))
    assert torch.equal(memory.permute(1, 2, 0, 3).reshape(32, -1)[:20, :10], words)
    x, scale, out = torch.randn(3, 20).half(), torch.rand(80).half(), torch.empty(3, 80).half()
    for name in ("aclnnWeightQuantBatchMatmulV2", "aclnnWeightQuantBatchMatmulV3"):
        call.named(name, x=x, weight=(memory, (20, 10)), antiquantScale=scale, y=out)
        close(out, x.float() @ (weight.float() * scale.float()), 5e-3)


def test_products_with_float4_in_words(call):
    """Eight of float4_e2m1 in a float32, with a scale of exponents for 32 rows."""
    level = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6])
    weight, words = level[torch.randint(0, 15, (64, 16))], torch.zeros(64, 2)
    call.named("aclnnConvertWeightToINT4Pack", weight=weight, weightInt4Pack=words)
    exponents, x, out = torch.randint(-3, 4, (2, 16)), torch.randn(3, 64).half(), torch.empty(3, 16).half()
    scale = (exponents + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    call.named("aclnnWeightQuantBatchMatmulV2", x=x, weight=words, antiquantScale=scale, antiquantGroupSize=32, y=out)
    close(out, x.float() @ (weight * (2.0**exponents).repeat_interleave(32, 0)), 1e-2)
