"""Storage formats at the C interface: conversions there and back, and refusal by operators that take base formats."""
import ctypes

import pytest
import torch
from nn_client import ACL_TYPES, Client

ND, FRACTAL_NZ = 2, 29


class Formatted:
    """Memory of `physical` sizes that stands for a tensor of `sizes` in `format`."""

    def __init__(self, sizes, physical, format, dtype=torch.float32, memory=None):
        self.sizes, self.physical, self.format = sizes, physical, format
        self.memory = torch.full(physical, -1, dtype=dtype) if memory is None else memory
        self.address, self.acl_type = self.memory.data_ptr(), ACL_TYPES[dtype]


class FormatClient(Client):
    def tensor(self, value):
        if not isinstance(value, Formatted):
            return super().tensor(value)

        def longs(values):
            return (ctypes.c_int64 * len(values))(*values)

        strides = torch.empty(value.sizes, device="meta").stride()
        return ctypes.c_void_p(self.lib.aclCreateTensor(
            longs(value.sizes), ctypes.c_uint64(len(value.sizes)), value.acl_type, longs(strides), ctypes.c_int64(0), value.format,
            longs(value.physical), ctypes.c_uint64(len(value.physical)), ctypes.c_void_p(value.address)))


@pytest.fixture(scope="module")
def formats(libraries):
    return FormatClient(libraries)


def test_there_and_back(formats):
    x = torch.randn(20, 18)
    made = Formatted((20, 18), (2, 2, 16, 16), FRACTAL_NZ)
    formats("aclnnNpuFormatCast", x, made)
    padded = torch.zeros(32, 32)
    padded[:20, :18] = x
    assert torch.equal(made.memory, padded.view(2, 16, 2, 16).permute(2, 0, 1, 3))
    back = torch.zeros(20, 18)
    formats("aclnnNpuFormatCast", made, back)
    assert torch.equal(back, x)


def test_from_one_internal_format_to_another(formats):
    x = torch.randn(2, 20, 3, 5)
    first, second = Formatted(x.shape, (2, 2, 3, 5, 16), 3), Formatted(x.shape, (2 * 3 * 5, 1, 16, 16), 4)
    back = torch.zeros(x.shape)
    formats("aclnnNpuFormatCast", x, first)
    formats("aclnnNpuFormatCast", first, second)
    formats("aclnnNpuFormatCast", second, back)
    assert torch.equal(back, x)


def test_other_operators_refuse(formats):
    made, out = Formatted((20, 18), (2, 2, 16, 16), FRACTAL_NZ), torch.zeros(20, 18)
    with pytest.raises(RuntimeError, match="161002.*aclnnAbs: parameter self.*storage format 29; this parameter takes base formats"):
        formats("aclnnAbs", made, out)


def test_the_parameters_beside_a_weight_refuse(formats):
    left, weight = Formatted((20, 18), (2, 2, 16, 16), FRACTAL_NZ), torch.randn(18, 5)
    with pytest.raises(RuntimeError, match="161002.*aclnnMatmulWeightNz: parameter self.*this parameter takes base formats"):
        formats.named("aclnnMatmulWeightNz", self=left, mat2=weight, out=torch.empty(20, 5))


def test_storage_of_another_size_is_an_error(formats):
    made = Formatted((20, 18), (3, 2, 16, 16), FRACTAL_NZ)
    with pytest.raises(RuntimeError, match="takes 1024 elements, but the storage has 1536"):
        formats("aclnnNpuFormatCast", torch.zeros(20, 18), made)


def test_int4_that_came_to_their_format_as_bytes(formats):
    """Weights [2, k, n] of int4, eight in an int32, whose storage is described as the bytes they were."""
    x, words = torch.randint(-128, 128, (5, 32), dtype=torch.int8), torch.randint(-2**31, 2**31, (2, 32, 8), dtype=torch.int32)
    blocks = words.view(torch.int8).view(2, 2, 16, 1, 32).permute(0, 3, 1, 2, 4).contiguous()
    made = Formatted((2, 32, 8), tuple(blocks.shape), FRACTAL_NZ, torch.int32, blocks)
    more = dict(x=x, weightScale=torch.rand(2, 64) / 50, xScale=torch.rand(5), groupList=torch.tensor([2, 5]), bias=torch.randn(2, 64))
    results = []
    for weight in (words, made):
        out, scales = torch.empty(5, 32, dtype=torch.int8), torch.empty(5)
        formats.named("aclnnGroupedMatmulSwigluQuantWeightNZ", weight=weight, output=out, outputScale=scales, **more)
        results.append((out, scales))
    assert results[0][0].any() and all(torch.equal(a, b) for a, b in zip(*results))


def test_storage_described_with_the_sizes_of_the_base(formats):
    """As many elements as the base has, in an allocation that holds the blocks."""
    weight, a, out = torch.randn(20, 18), torch.randn(5, 20), torch.empty(5, 18)
    made = Formatted((20, 18), (2, 2, 16, 16), FRACTAL_NZ)
    formats("aclnnNpuFormatCast", weight, made)
    device = ctypes.c_void_p()
    assert formats.acl.aclrtMalloc(ctypes.byref(device), ctypes.c_size_t(4096), 0) == 0
    formats.acl.aclrtMemcpy(device, ctypes.c_size_t(4096), ctypes.c_void_p(made.memory.data_ptr()), ctypes.c_size_t(4096), 1)
    small = Formatted((20, 18), (360,), FRACTAL_NZ)
    small.address = device.value
    formats.named("aclnnMatmulWeightNz", self=a, mat2=small, out=out)
    torch.testing.assert_close(out, a @ weight)
    formats.acl.aclrtFree(device)
    with pytest.raises(RuntimeError, match="takes 1024 elements, but the storage has 360"):
        formats.named("aclnnMatmulWeightNz", self=a, mat2=Formatted((20, 18), (360,), FRACTAL_NZ), out=out)


def test_quantized_weights_of_products(formats):
    a, weight = torch.randint(-9, 9, (5, 40), dtype=torch.int8), torch.randint(-9, 9, (40, 18), dtype=torch.int8)
    made, scale, out = Formatted((40, 18), (1, 3, 16, 32), FRACTAL_NZ, torch.int8), torch.rand(18), torch.empty(5, 18).half()
    formats("aclnnNpuFormatCast", weight, made)
    for name in ("aclnnQuantMatmulV3", "aclnnQuantMatmulV4", "aclnnQuantMatmulV5"):
        key = "x2Scale" if name[-1] == "5" else "scale"
        formats.named(name, x1=a, x2=made, out=out, **{key: scale})
        torch.testing.assert_close(out, ((a.float() @ weight.float()) * scale).half(), rtol=2e-3, atol=0)


def test_weights_of_products(formats):
    a, weight = torch.randn(5, 20), torch.randn(20, 18)
    made = Formatted((20, 18), (2, 2, 16, 16), FRACTAL_NZ)
    formats("aclnnNpuFormatCast", weight, made)
    out, bias = torch.empty(5, 18), torch.randn(18)
    formats.named("aclnnMatmulWeightNz", self=a, mat2=made, out=out)
    torch.testing.assert_close(out, a @ weight)
    formats.named("aclnnAddmmWeightNz", self=bias, mat1=a, mat2=made, beta=2.0, alpha=0.5, out=out)
    torch.testing.assert_close(out, 2 * bias + 0.5 * (a @ weight))
    batch, results = Formatted((3, 20, 18), (3, 2, 2, 16, 16), FRACTAL_NZ), torch.empty(3, 5, 18)
    weights = torch.randn(3, 20, 18)
    formats("aclnnNpuFormatCast", weights, batch)
    formats.named("aclnnBatchMatMulWeightNz", self=a.expand(3, 5, 20), mat2=batch, out=results)
    torch.testing.assert_close(results, a @ weights)
    formats.named("aclnnGroupedMatmulWeightNz", x=[a], weight=[batch], groupListOptional=torch.tensor([1, 3, 5]), splitItem=3, groupType=0,
                  out=[out])
    torch.testing.assert_close(out, torch.cat([a[:1] @ weights[0], a[1:3] @ weights[1], a[3:] @ weights[2]]))
