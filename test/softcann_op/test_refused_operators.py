"""Operators that libopapi refuses by name, and those that it has in a form of its own."""
import pytest
import torch

from torch_npu._cpu_ops import lossless as twin

INTS, LONG = torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
WINDOWS, ENGINE = "windows of each other's memory", "PMCC"
X = torch.zeros(1, 4, 8)


@pytest.mark.parametrize("name,reason,given", [
    ("aclnnAttentionToFFN", WINDOWS, dict(x=X, sessionId=INTS, microBatchId=INTS, layerId=INTS, expertIds=INTS, expertRankTable=INTS, group="g",
                                          ffnTokenInfoTableShape=[1], ffnTokenDataShape=[1], attnTokenInfoTableShape=[1])),
    ("aclnnFFNToAttention", WINDOWS, dict(x=X[0], sessionIds=INTS, microBatchIds=INTS, tokenIds=INTS, expertOffsets=INTS, actualTokenNum=LONG,
                                          group="g", tokenInfoTableShape=[1], tokenDataShape=[1])),
    ("aclnnAttentionWorkerCombine", WINDOWS, dict(scheduleContext=INTS, expertScales=X, layerId=INTS, y=X, nextLayerId=INTS)),
    ("aclnnFfnWorkerBatching", WINDOWS, dict(scheduleContext=INTS, maxOutShape=[1], y=X, groupList=INTS, sessionIds=INTS, microBatchIds=INTS,
                                             tokenIds=INTS, expertOffsets=INTS, dynamicScale=X, actualTokenNum=LONG)),
    ("aclnnInplaceAttentionWorkerScheduler", WINDOWS, dict(scheduleContextRef=INTS)),
    ("aclnnInplaceFfnWorkerScheduler", WINDOWS, dict(scheduleContextRef=INTS)),
    ("aclnnMatmulCompressDequant", "compressed by a tool", dict(x1=X, x2=X, compressIndex=INTS, deqScale=X, compressInfo=[1], out=X)),
    ("aclnnObfuscationSetupV2", ENGINE, dict(fd=INTS)),
    ("aclnnObfuscationCalculateV2", ENGINE, dict(x=X, y=X)),
])
def test_refused_with_the_reason(call, name, reason, given):
    with pytest.raises(RuntimeError, match=f"161002.*{name} is not supported: .*{reason}"):
        call.named(name, **given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_compressed_and_back(call, dtype):
    x = torch.randn(64, 32).to(dtype)
    rest = x.numel() * (x.element_size() - 1) // x.element_size()
    pdf, mantissa = torch.zeros(1, 256, dtype=torch.int32), torch.zeros(rest, dtype=dtype)
    fixed, var = torch.zeros(512, dtype=dtype), torch.zeros(2048, dtype=dtype)
    call.named("aclnnHansEncode", inputTensor=x, pdfRef=pdf, statistic=True, mantissaOut=mantissa, fixedOut=fixed, varOut=var)
    wanted = [torch.zeros_like(t) for t in (pdf, mantissa, fixed, var)]
    twin.npu_hans_encode_out(x, True, out=wanted)
    assert pdf.sum() == x.numel()
    for found, other in zip((pdf, mantissa, fixed, var), wanted):
        assert torch.equal(found.view(torch.uint8), other.view(torch.uint8))
    back = torch.zeros_like(x)
    call.named("aclnnHansDecode", mantissa=mantissa, fixed=fixed, var=var, pdf=pdf, out=back)
    assert torch.equal(back, x)
    with pytest.raises(RuntimeError, match="needed are"):
        call.named("aclnnHansEncode", inputTensor=x, pdfRef=pdf, mantissaOut=mantissa, fixedOut=fixed[:100], varOut=var[:10])
    with pytest.raises(RuntimeError, match="another number"):
        call.named("aclnnHansDecode", mantissa=mantissa, fixed=fixed, var=var, pdf=pdf, out=back[:2])
