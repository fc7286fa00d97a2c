"""Caches of keys and values at the C interface, and the projections in front of them, against the CPU twins."""
import pytest
import torch
from nn_client import close

from torch_npu._cpu_ops import kv_cache, kv_cache_rope, latent_attention

TYPES = [torch.float16, torch.bfloat16]


def caches(mode, dtype, *sizes, pages=4, rows=4):
    """An empty cache with one head for each size."""
    lanes = 32 if dtype == torch.int8 else 16
    if mode == "Norm":
        return [torch.zeros(2, 1, 9, size, dtype=dtype) for size in sizes]
    if mode == "PA_NZ":
        return [torch.zeros(pages, size // lanes, rows, lanes, dtype=dtype) for size in sizes]
    return [torch.zeros(pages, rows, 1, size, dtype=dtype) for size in sizes]


@pytest.mark.parametrize("tiled", [False, True])
def test_sequences_are_read(call, tiled):
    shape = (5, 2, 4, 16) if tiled else (5, 4, 2, 16)
    keys, values = torch.randn(shape).half(), torch.randn(shape).half()
    tables, lengths, starts = torch.tensor([[3, 1], [0, 4]], dtype=torch.int32), torch.tensor([5, 2]), torch.tensor([1, 3])
    for given, summed in ((lengths, False), (torch.tensor([0, 5, 7]), True)):
        found, expected = ([torch.zeros(8, 2, 16).half() for _ in range(2)] for _ in range(2))
        call.named("aclnnGatherPaKvCache", keyCache=keys, valueCache=values, blockTables=tables, seqLens=given, keyRef=found[0],
                   valueRef=found[1], seqOffsetOptional=starts, cacheMode="PA_NZ" if tiled else "Norm", isSeqLensCumsum=summed)
        kv_cache.npu_gather_pa_kv_cache(keys, values, tables, given, *expected, seq_offset=starts, is_seq_lens_cumsum=summed)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1]) and found[0][6].any()


@pytest.mark.parametrize("tiled", [False, True])
def test_keys_and_values_that_share_their_pages(call, tiled):
    shape = (4, 2, 2, 5, 16) if tiled else (4, 2, 5, 2, 16)   # pages, keys and values, then a page's own
    shared, apart = torch.zeros(shape).half(), [torch.zeros(shape).half()[:, 0].contiguous() for _ in range(2)]
    key, value, slots = torch.randn(3, 2, 16).half(), torch.randn(3, 2, 16).half(), torch.tensor([7, -1, 19], dtype=torch.int32)
    for both in (apart, [shared[:, 0], shared[:, 1]]):
        call("aclnnScatterPaKvCache", key, both[0], slots, value, both[1], None, None, None, "PA_NZ" if tiled else "Norm",
             "None", [1, 1], [0, 0])
    for i in range(2):
        assert torch.equal(shared[:, i], apart[i]) and apart[i].count_nonzero() == 64


def test_rows_into_pages_by_heads_and_keys_alone(call):
    key, value, slots = torch.randn(3, 2, 16).half(), torch.randn(3, 2, 16).half(), torch.tensor([7, -1, 19], dtype=torch.int32)
    plain, by_heads = ([torch.zeros(shape).half() for _ in range(2)] for shape in ((4, 5, 2, 16), (4, 2, 5, 16)))
    call("aclnnScatterPaKvCache", key, plain[0], slots, value, plain[1], None, None, None, "Norm", "None", [1, 1], [0, 0])
    call("aclnnScatterPaKvCache", key, by_heads[0], slots, value, by_heads[1], None, None, None, "Norm", "NHSD", [1, 1], [0, 0])
    for i in range(2):
        assert torch.equal(by_heads[i].transpose(1, 2), plain[i]) and plain[i].count_nonzero() == 64
    alone, nothing = torch.zeros(4, 5, 2, 16).half(), torch.empty(0).half()
    call("aclnnScatterPaKvCache", key, alone, slots, nothing, nothing, None, None, None, "Norm", "None", [1, 1], [0, 0])
    assert torch.equal(alone, plain[0])
    with pytest.raises(RuntimeError, match="scatter mode 'Rope'"):
        call("aclnnScatterPaKvCache", key, alone, slots, value, plain[1], None, None, None, "Norm", "Rope", [1, 1], [0, 0])


def test_elements_of_a_transposed_tensor_are_written(call):
    target, indices, updates = torch.zeros(3, 4), torch.tensor([[0, 1], [3, 2]]), torch.tensor([5.0, 7.0])
    call("aclnnScatterNdUpdate", target.t(), indices, updates)
    assert target.tolist() == [[0, 0, 0, 0], [5, 0, 0, 0], [0, 0, 0, 7]]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
@pytest.mark.parametrize("name", ["aclnnKvRmsNormRopeCache", "aclnnKvRmsNormRopeCacheV2"])
def test_latent_keys(call, name, mode, quantized):
    batch, length, latent, turned = 2, 3, 64, 32
    kv, gamma = torch.randn(batch, 1, length, latent + turned).half(), torch.randn(latent).half()
    cos, sin = torch.rand(2, batch, 1, length, turned).half()
    if mode == "Norm":
        index = torch.tensor([[0, 1, -1], [4, 5, 6]])
    elif mode.startswith("PA_BLK"):
        index = torch.tensor([4, 8])
    else:
        index = torch.tensor([0, 5, -1, 6, 9, 15])
    dtype = torch.int8 if quantized else torch.float16
    scales = {"k_rope_scale": torch.rand(turned) * 20, "c_kv_scale": torch.rand(latent) * 20} if quantized else {}
    found, expected = (caches(mode, dtype, turned, latent) for _ in range(2))
    outs = torch.empty(batch, 1, length, turned).half(), torch.empty(batch, 1, length, latent).half()
    call.named(name, kv=kv, gamma=gamma, cos=cos, sin=sin, index=index, kCacheRef=found[0], ckvCacheRef=found[1],
               kRopeScaleOptional=scales.get("k_rope_scale"), cKvScaleOptional=scales.get("c_kv_scale"), epsilon=1e-5,
               cacheModeOptional=mode, isOutputKv=True, kRopeOut=outs[0], cKvOut=outs[1])
    wanted = kv_cache_rope.npu_kv_rmsnorm_rope_cache(kv, gamma, cos, sin, index, *expected, **scales, cache_mode=mode, is_output_kv=True)
    for actual, value in zip((*found, *outs), wanted):
        assert value.any()
        close(actual.float(), value.float(), 1 if quantized and actual.dtype == torch.int8 else 5e-3)


@pytest.mark.parametrize("mode", ["PA", "PA_NZ"])
def test_queries_keys_and_values(call, mode):
    tokens, size, heads = 6, 32, [4, 2, 2]
    qkv, gammas = torch.randn(tokens, 8 * size).half(), torch.randn(2, size).half()
    cos, sin = torch.rand(2, tokens, size).half()
    index, scale = torch.tensor([0, 5, -1, 6, 9, 15]), torch.rand(2, size) / 10 + 0.05
    shape = (4, 2 * size // 32, 4, 32) if mode == "PA_NZ" else (4, 4, 2, size)
    found, expected = ([torch.zeros(tokens, 4 * size).half(), torch.zeros(shape, dtype=torch.int8), torch.zeros(shape, dtype=torch.int8)]
                       for _ in range(2))
    outs = [torch.zeros(tokens, n * size).half() for n in heads]
    call.named("aclnnQkvRmsNormRopeCache", qkv=qkv, qGamma=gammas[0], kGamma=gammas[1], cos=cos, sin=sin, index=index, qOut=found[0],
               kCache=found[1], vCache=found[2], kScaleOptional=scale, vScaleOptional=scale, qkvSize=[2, 3, 8, size], headNums=heads,
               epsilon=1e-6, cacheModeOptional=mode, qOutBeforeQuant=outs[0], kOutBeforeQuant=outs[1], vOutBeforeQuant=outs[2])
    wanted = kv_cache_rope.npu_qkv_rms_norm_rope_cache(qkv, gammas[0], gammas[1], cos, sin, index, *expected, [2, 3, 8, size], heads,
                                                  k_scale=scale, v_scale=scale, cache_mode=mode, is_output_qkv=True)
    for actual, value in zip(outs + found[:1], [*wanted, expected[0]]):
        close(actual, value, 5e-3)
    for actual, value in zip(found[1:], expected[1:]):
        assert value.any() and (actual.int() - value.int()).abs().max() <= 1


@pytest.mark.parametrize("mode", ["contiguous", "page"])
def test_rotation_of_an_int32_product(call, mode):
    batch, length, size = 2, 3, 16
    x, weights, rows = torch.randint(-99, 99, (batch, length, 4 * size), dtype=torch.int32), torch.rand(4 * size) / 9, torch.rand(6)
    cos, sin = torch.rand(2, batch, length, 1, size).half()
    scale, bias = torch.rand(2, size) + 0.1, torch.randint(-9, 9, (4 * size,), dtype=torch.int32)
    shape, index = ((2, 8, 1, size), [1, 4]) if mode == "contiguous" else ((4, 4, 1, size), [3, 0, 5, 6, 9, 15])
    found, expected = ([torch.zeros(shape, dtype=torch.int8) for _ in range(2)] for _ in range(2))
    outs = [torch.empty(batch, length, n, size).half() for n in (2, 1, 1)]
    call.named("aclnnDequantRopeQuantKvcache", x=x, cos=cos, sin=sin, kCacheRef=found[0], vCacheRef=found[1],
               indices=torch.tensor(index, dtype=torch.int32), scaleK=scale[0], scaleV=scale[1], weightScaleOptional=weights,
               activationScaleOptional=rows, biasOptional=bias, sizeSplits=[2 * size, size, size], quantModeOptional="static",
               layoutOptional="BSND", kvOutput=True, cacheModeOptional=mode, qOut=outs[0], kOut=outs[1], vOut=outs[2])
    wanted = kv_cache_rope.npu_dequant_rope_quant_kvcache(
        x, cos, sin, *expected, torch.tensor(index, dtype=torch.int32), scale[0], scale[1], [2 * size, size, size], weight_scale=weights,
        activation_scale=rows, bias=bias, kv_output=True, cache_mode=mode)
    for actual, value in zip(outs, wanted):
        close(actual, value, 5e-3)
    for actual, value in zip(found, expected):
        assert value.any() and (actual.int() - value.int()).abs().max() <= 1


def test_step_of_decoding(call):
    def state():
        return [torch.tensor([1, 2, 3, 4]), torch.tensor([4, 2, 7, 1]), torch.tensor([5, 3, 8, 2], dtype=torch.int32), torch.zeros(4).int()]

    sampled, tables = torch.tensor([[50], [60], [70]]), torch.tensor([[3, 1, 2], [0, 4, 5], [6, 7, 8]], dtype=torch.int32)
    found, expected = state(), state()
    call.named("aclnnAdvanceStep", inputTokens=found[0], sampledTokenIds=sampled, inputPositions=found[1], seqLens=found[2],
               slotMapping=found[3], blockTables=tables, numSeqs=4, numQueries=3, blockSize=4)
    kv_cache.npu_advance_step_flashattn(expected[0], sampled, *expected[1:], tables, 4, 3, 4)
    columns = [t.view(4, 1) for t in state()]
    call.named("aclnnAdvanceStep", inputTokens=columns[0], sampledTokenIds=sampled, inputPositions=columns[1], seqLens=columns[2],
               slotMapping=columns[3], blockTables=tables, numSeqs=4, numQueries=3, blockSize=4)
    for actual, same, value in zip(found, columns, expected):
        assert torch.equal(actual, value) and torch.equal(same.view(-1), value)
    assert found[3].tolist() == [5, 3, 32, 0]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("version,mode", [(2, "PA_BSND"), (2, "PA_NZ"), (3, "PA_BSND"), (3, "PA_NZ"), (3, "BSND")])
def test_projections_of_latent_attention(call, version, mode, quantized):
    he, hcq, heads, d, latent, turned, dtype = 64, 32, 2, 16, 32, 16, torch.bfloat16
    x, uk = torch.randn(2, 3, he).to(dtype), torch.randn(heads, d, latent).to(dtype) / 4
    weights = [torch.randn(*s).to(dtype) / 6 for s in ((he, hcq), (hcq, heads * (d + turned)), (he, latent + turned))]
    gammas, rope = [torch.randn(n).to(dtype) for n in (hcq, latent)], torch.rand(2, 2, 3, turned).to(dtype)
    given = {}
    if quantized:
        weights[1] = torch.randint(-99, 99, weights[1].shape, dtype=torch.int8)
        given = {"dequant_scale_w_uq_qr": torch.rand(1, weights[1].shape[1]) / 50, "smooth_scales_cq": torch.rand(1, hcq) + 0.5}
    index = torch.tensor([0, 5, 3, 6, 9, 15])
    if mode == "BSND":
        made = [[torch.zeros(2, 3, 1, n).to(dtype) for n in (latent, turned)] for _ in range(2)]
    else:
        made = [caches(mode, dtype, latent, turned) for _ in range(2)]
    outs = torch.empty(2, 3, heads, latent).to(dtype), torch.empty(2, 3, heads, turned).to(dtype)
    more = {"cacheIndex" if version == 2 else "cacheIndexOptional": index}
    if version == 3:
        more.update(qcQrScale=0.5, kcScale=2.0)
    before = [t.clone() for t in made[0]]
    more.update(tokenX=x, weightDq=weights[0], weightUqQr=weights[1], weightUk=uk, weightDkvKr=weights[2], rmsnormGammaCq=gammas[0],
                rmsnormGammaCkv=gammas[1], ropeSin=rope[0], ropeCos=rope[1], dequantScaleWUqQrOptional=given.get("dequant_scale_w_uq_qr"),
                smoothScalesCqOptional=given.get("smooth_scales_cq"), rmsnormEpsilonCq=1e-5, rmsnormEpsilonCkv=1e-5,
                cacheModeOptional=mode)
    call.named(f"aclnnMlaPrologV{version}WeightNz", kvCacheRef=made[0][0], krCacheRef=made[0][1], queryOut=outs[0], queryRopeOut=outs[1],
               **more)
    for name in {2: ("aclnnMlaProlog", "aclnnMlaPrologV2"), 3: ("aclnnMlaPrologV3",)}[version]:  # weights in the base format
        same = [t.clone() for t in before], [torch.empty_like(t) for t in outs]
        call.named(name, kvCacheRef=same[0][0], krCacheRef=same[0][1], queryOut=same[1][0], queryRopeOut=same[1][1], **more)
        for actual, value in zip((*same[1], *same[0]), (*outs, *made[0])):
            assert torch.equal(actual, value), name
    wanted = latent_attention.npu_mla_prolog_v3(
        x, weights[0], weights[1], uk, weights[2], *gammas, rope[0], rope[1], *made[1], cache_index=index, cache_mode=mode, **given,
        **({"qc_qr_scale": 0.5, "kc_scale": 2.0} if version == 3 else {}))
    for actual, value in zip((*outs, *made[0]), (*wanted[:2], *made[1])):
        assert value.any()
        close(actual, value, 4e-2)
