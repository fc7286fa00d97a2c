"""Arguments that do not fit together, which kernels once took as they were: see wrong_calls.py, which found them."""
import os
import subprocess
import sys

import pytest
import torch
from guarded_heap import built_heap
from nn_client import Client

ROWS, IMAGE = torch.randn(3, 4), torch.randn(2, 3, 4, 4)
CHANNELS, NONE = torch.ones(3), torch.zeros(0)
WINDOW = dict(kernelSize=[2, 2], stride=[2, 2], padding=[0, 0])
CONVOLUTION = dict(input=IMAGE, weight=torch.randn(2, 3, 3, 3), stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, output=torch.zeros(2, 2, 2, 2))
GRADIENT = dict(gradOutput=torch.randn(2, 2, 2, 2), input=IMAGE, weight=torch.randn(2, 3, 3, 3), biasSizes=[2], stride=[1, 1], padding=[0, 0],
                dilation=[1, 1], groups=1, outputMask=[True, True, True], gradInput=torch.zeros(2, 3, 4, 4), gradWeight=torch.zeros(2, 3, 3, 3),
                gradBias=torch.zeros(2))
NORMAL = dict(input=IMAGE, weight=CHANNELS, bias=CHANNELS, eps=1e-5, output=torch.zeros(2, 3, 4, 4))
NORM_GRADIENT = dict(input=IMAGE, weight=CHANNELS, saveMean=CHANNELS, saveInvstd=CHANNELS, training=True, eps=1e-5, outputMask=[True, True, True],
                     gradInput=torch.zeros(2, 3, 4, 4), gradWeight=torch.zeros(3), gradBias=torch.zeros(3))
REGIONS = torch.tensor([[0.0, 0, 0, 3, 3]])


MASKED = dict(gradOutput=torch.randn(2, 3, 2, 2), self=IMAGE, indices=torch.zeros(2, 3, 4, 64, dtype=torch.int8), kernelSize=[2, 0], stride=[2, 2],
              padding=[0, 0], dilation=[1, 1], gradInput=torch.zeros(2, 3, 4, 4))
LABELS = dict(targets=torch.tensor([[1, 3]]), inputLengths=[4], blank=0)
CTC = dict(logProbs=torch.randn(4, 1, 3), gradOut=torch.ones(1), negLogLikelihood=torch.ones(1), logAlpha=torch.zeros(1, 4, 8), out=torch.zeros(4, 1, 3))
# Two sequences of 3 keys each at most, one head of 4 numbers; or in pages of 2 rows.
INFERENCE = dict(query=torch.randn(2, 1, 4), key=[torch.randn(2, 3, 4)], value=[torch.randn(2, 3, 4)], numHeads=1, scaleValue=1.0, inputLayout="BSH",
                 attentionOut=torch.zeros(2, 1, 4))
PAGES = dict(key=[torch.randn(4, 2, 4)], value=[torch.randn(4, 2, 4)], blockTableOptional=torch.tensor([[0, 1], [2, -1]], dtype=torch.int32))
PACKED = dict(query=torch.randn(4, 1, 4), key=[torch.randn(4, 1, 4)], value=[torch.randn(4, 1, 4)], inputLayout="TND", attentionOut=torch.zeros(4, 1, 4))
TRAINED = dict(query=torch.randn(4, 1, 4), key=torch.randn(4, 1, 4), value=torch.randn(4, 1, 4), scaleValue=1.0, keepProb=1.0, headNum=1,
               inputLayout="TND", attentionOutOut=torch.zeros(4, 1, 4))
GROUPED = dict(x=[torch.randn(5, 4)], weight=[torch.randn(2, 4, 3)], out=[torch.zeros(5, 3)], splitItem=3, groupType=0)
TOKENS = dict(x=torch.randn(3, 4), expertIdx=torch.tensor([[0, 1], [1, 0]], dtype=torch.int32), expandedXOut=torch.zeros(4, 4),
              expandedRowIdxOut=torch.zeros(4, dtype=torch.int32))
STEP = dict(lr=0.1, beta1=0.9, beta2=0.9, eps=1e-6)


def optimized(name, short, **others):
    """With a gradient of fewer rows than its parameter."""
    lists = {key: [torch.ones(2 if key == short else 3, 4)] for key in ("paramsRef", "gradsRef", "expAvgsRef", "expAvgSqsRef")}
    return name, dict(**lists, stateSteps=[torch.ones(1)], **STEP, **others)


def rms(x):
    return dict(dy=x, x=x, rstd=torch.ones(3, 1), gamma=torch.ones(4), dxOut=torch.zeros_like(x), dgammaOut=torch.zeros(4))


def one_hot(**others):
    return {**dict(self=torch.tensor([1, 0]), numClasses=3, onValue=torch.ones(1), offValue=NONE.new_zeros(1), axis=-1, out=torch.zeros(2, 3)), **others}


@pytest.mark.parametrize("name,given", [
    ("aclnnLogSoftmaxBackward", dict(gradOutput=ROWS, output=ROWS[:, :1], dim=1, out=torch.zeros(3, 4))),
    ("aclnnSoftmaxBackward", dict(gradOutput=ROWS, output=ROWS[:1], dim=1, out=torch.zeros(3, 4))),
    ("aclnnAvgPool2dBackward", dict(gradOutput=torch.randn(3, 3, 2, 2), self=IMAGE, gradInput=torch.zeros(2, 3, 4, 4), **WINDOW)),
    ("aclnnAdaptiveAvgPool2dBackward", dict(gradOutput=torch.randn(3, 3, 2, 2), self=IMAGE, out=torch.zeros(2, 3, 4, 4))),
    ("aclnnBatchNorm", dict(runningMean=NONE, runningVar=CHANNELS, training=False, **NORMAL)),
    ("aclnnBatchNormBackward", dict(gradOut=IMAGE[:1], **NORM_GRADIENT)),
    ("aclnnRmsNormGrad", rms(torch.tensor(1.0))),
    ("aclnnRmsNormGrad", rms(NONE)),
    ("aclnnOneHot", one_hot(out=torch.tensor(0.0))),
    ("aclnnOneHot", one_hot(axis=7)),
    ("aclnnOneHot", one_hot(numClasses=2**31 - 1)),
    ("aclnnBincount", dict(self=torch.tensor([1, 2]), minlength=2**31 - 1, out=torch.zeros(3, dtype=torch.int64))),
    ("aclnnBincount", dict(self=torch.tensor([1, 2**40]), minlength=0, out=torch.zeros(3, dtype=torch.int64))),
    ("aclnnMoeComputeExpertTokens", dict(sortedExperts=torch.tensor([0, 1], dtype=torch.int32), numExperts=2**31 - 1,
                                         out=torch.zeros(2, dtype=torch.int32))),
    ("aclnnRoiAlign", dict(self=IMAGE, rois=REGIONS[:, 1:], batchIndices=torch.zeros(1, dtype=torch.int32), mode="avg", outputHeight=1 << 26,
                           outputWidth=1, samplingRatio=1, spatialScale=1.0, out=torch.zeros(1, 3, 1, 1))),
    ("aclnnROIAlign", dict(self=IMAGE, rois=REGIONS, pooledHeight=1, pooledWidth=1, sampleNum=2**31 - 1, spatialScale=1.0,
                           out=torch.zeros(1, 3, 1, 1))),
    *(("aclnnConvolution", {**CONVOLUTION, **wrong}) for wrong in (
        dict(stride=[]), dict(stride=[0, 1]), dict(padding=[]), dict(dilation=[]), dict(dilation=[1, 0]), dict(stride=[1 << 20, 1]), dict(groups=0),
        dict(bias=torch.zeros(1)), dict(weight=torch.randn(2, 4, 3, 3)), dict(output=torch.zeros(1, 2, 2, 2)))),
    *(("aclnnConvolutionBackward", {**GRADIENT, **wrong}) for wrong in (
        dict(stride=[]), dict(stride=[0, 1]), dict(padding=[]), dict(dilation=[]), dict(gradWeight=torch.zeros(2, 2, 3, 3)),
        dict(gradBias=torch.zeros(1)), dict(gradOutput=torch.randn(2, 2, 2, 1)))),
    ("aclnnBatchNormBackward", dict(gradOut=IMAGE, **{**NORM_GRADIENT, "training": False})),
    ("aclnnConstantPadNd", dict(self=ROWS, pad=[2**31 - 1, 0], value=0.0, out=torch.zeros(3, 4))),
    ("aclnnCdistBackward", dict(grad=NONE, x1=ROWS, x2=ROWS, p=2.0, cdist=torch.ones(3, 3), out=torch.zeros(3, 4))),
    ("aclnnMaxPool2dWithMaskBackward", MASKED),
    ("aclnnMaxPool3dWithArgmaxBackward", dict(gradOutput=torch.randn(2, 3, 1, 2, 2), self=torch.randn(2, 3, 2, 4, 4), kernelSize=[2, 2, 2],
                                              stride=[2, 2, 2], padding=[0, 0, 0], dilation=[1, 1, 1], gradInput=torch.zeros(2, 3, 2, 4, 4),
                                              indices=torch.zeros(1, 3, 1, 2, 2, dtype=torch.int32))),
    optimized("aclnnFusedAdam", "gradsRef"), optimized("aclnnFusedAdam", "expAvgsRef"),
    ("aclnnFusedSgd", dict(paramsRef=[ROWS], gradsRef=[ROWS[:1]], lr=0.1)),
    ("aclnnApplyAdamWV2", dict(varRef=torch.ones(3), mRef=torch.ones(2), vRef=torch.ones(3), grad=torch.ones(3), step=torch.ones(1), **STEP)),
    ("aclnnGRU", dict(input=torch.randn(3, 2, 4), params=[torch.randn(1, 4), torch.randn(6, 2)], hx=torch.zeros(1, 2, 2), numLayers=1, train=True,
                      output=torch.zeros(3, 2, 2), hy=torch.zeros(1, 2, 2),
                      **{kept: [torch.zeros(3, 2, 2)] for kept in ("rOut", "zOut", "nOut", "hnOut", "hOut")})),
    ("aclnnForeachAbs", dict(x=[ROWS], out=[torch.zeros(4, 3)])),
    ("aclnnForeachMulScalarInplace", dict(x=[None, torch.ones(2)], scalar=torch.ones(1))),
    ("aclnnCtcLoss", dict(logProbs=CTC["logProbs"], **LABELS, targetlengths=[2], negLogLikelihoodOut=torch.zeros(1),
                          logAlphaOut=torch.zeros(1, 4, 8))),
    ("aclnnCtcLossBackward", {**CTC, **LABELS, "targetLengths": [2]}),
    ("aclnnCtcLossBackward", {**CTC, **LABELS, "targetLengths": [2], "targets": torch.tensor([[1, 2]]), "gradOut": NONE}),
    ("aclnnReplicationPad2dBackward", dict(gradOutput=torch.randn(1, 3, 5, 4), self=IMAGE, padding=[0, 0, 1, 0], gradInput=torch.zeros(2, 3, 4, 4))),
    ("aclnnGridSampler2DBackward", dict(gradOutput=torch.randn(1, 3, 2, 2), input=IMAGE, grid=torch.zeros(2, 2, 2, 2), outputMask=[True, True],
                                        inputGrad=torch.zeros(2, 3, 4, 4), gridGrad=torch.zeros(2, 2, 2, 2))),
    ("aclnnUnfoldGrad", dict(gradOut=torch.randn(3, 2, 1), inputSizes=[3, 4], dim=1, size=2, step=2, gradIn=torch.zeros(3, 4))),
    *(("aclnnFusedInferAttentionScoreV3", {**INFERENCE, **wrong}) for wrong in (
        dict(key=[]), dict(key=[torch.randn(1, 3, 4)] * 2), dict(actualSeqLengthsKvOptional=[4, 3]), dict(actualSeqLengthsKvOptional=[3, -1]),
        dict(PAGES), dict(**PAGES, actualSeqLengthsKvOptional=[5, 1]), dict(inputLayout="BNSD", query=torch.randn(2, 2, 1, 4),
        key=[torch.randn(2, 2, 3, 4)], value=[torch.randn(2, 2, 3, 4)], attentionOut=torch.zeros(2, 2, 1, 4)), dict(numKeyValueHeads=2),
        dict(**PACKED, actualSeqLengthsOptional=[2, 5], actualSeqLengthsKvOptional=[2, 4]),
        dict(**PACKED, actualSeqLengthsOptional=[2, 4], actualSeqLengthsKvOptional=[3, 2]))),
    ("aclnnFlashAttentionVarLenScore", dict(**TRAINED, actualSeqQLenOptional=[2, 5], actualSeqKvLenOptional=[2, 4])),
    ("aclnnGroupedMatmulV4", dict(**GROUPED, groupListOptional=torch.tensor([2, 6]))),
    ("aclnnGroupedMatmulV4", dict(**GROUPED, groupListOptional=torch.tensor([3, 3]), groupListType=1)),
    ("aclnnGroupedMatmulV4", dict(**GROUPED, groupListOptional=torch.tensor([2, 4]), groupListType=2)),
    ("aclnnGroupedMatmulV4", dict(**GROUPED, groupListOptional=torch.tensor([5]))),
    ("aclnnMoeInitRoutingV2", TOKENS),
])
def test_refused(call, name, given):
    with pytest.raises(RuntimeError, match=name):
        call.named(name, **given)


# Hardware would read there, and ends the stream: each has a client of its own.
@pytest.mark.parametrize("name,given", [
    *(("aclnnFusedInferAttentionScoreV3", {**INFERENCE, **PAGES, "blockTableOptional": torch.tensor([[0, page], [2, 3]], dtype=torch.int32),
                                           "actualSeqLengthsKvOptional": [3, 1]}) for page in (4, -1)),
    ("aclnnMaxPool2dWithIndicesBackward", dict(gradOutput=torch.randn(2, 3, 2, 2).half(), self=IMAGE.half(), kernelSize=[2, 2], stride=[2, 2],
                                               padding=[0, 0], dilation=[1, 1], indices=torch.full((2, 3, 2, 2), 16, dtype=torch.int32),
                                               gradInput=torch.zeros(2, 3, 4, 4).half())),
])
def test_leads_outside(libraries, name, given):
    with pytest.raises(RuntimeError, match=f"507035.*{name}"):
        Client(libraries).named(name, **given)


def test_pages_that_no_row_lies_in(call):
    """What a block table says of them means nothing."""
    given = {**INFERENCE, **PAGES, "blockTableOptional": torch.tensor([[1, 9], [2, -1]], dtype=torch.int32), "attentionOut": torch.zeros(2, 1, 4)}
    call.named("aclnnFusedInferAttentionScoreV3", **given, actualSeqLengthsKvOptional=[2, 1])
    for b, page, rows in ((0, 1, 2), (1, 2, 1)):
        keys, values = (given[part][0][page, :rows] for part in ("key", "value"))
        torch.testing.assert_close(given["attentionOut"][b], torch.softmax(given["query"][b] @ keys.T, -1) @ values)


def test_gradient_of_no_images(call):
    """ATen's kernel divides by them."""
    none, sums = torch.zeros(0, 3, 4, 4), [torch.ones(3), torch.ones(3)]
    call.named("aclnnBatchNormBackward", **{**NORM_GRADIENT, "input": none, "gradInput": none.clone(), "gradWeight": sums[0], "gradBias": sums[1]},
               gradOut=none)
    assert not sums[0].any() and not sums[1].any()


def test_regions_of_no_numbers(call):
    """A sample at NaN is none, and outside."""
    out = torch.ones(1, 3, 1, 1)
    call.named("aclnnROIAlign", self=IMAGE, rois=torch.tensor([[0, torch.nan, 0, 3, 3]]), pooledHeight=1, pooledWidth=1, sampleNum=2,
               spatialScale=1.0, out=out)
    assert not out.any()


# What the attack relies on: a block's end is where a page without access begins, and its begin and what alignment leaves are watched.
@pytest.mark.parametrize("wrong,told", [("ctypes.memset(p, 1, 91)", "written before its begin or behind its end"),
                                        ("ctypes.memset(p - 8, 1, 8)", "written before its begin or behind its end"),
                                        ("ctypes.memset(p, 1, 113)", "a fault"), ("heap.free(ctypes.c_void_p(p)); ctypes.string_at(p, 1)", "a fault"),
                                        ("ctypes.memset(p, 1, 90)", None)])
def test_guarded_heap(tmp_path, wrong, told):
    program = ("import ctypes; heap = ctypes.CDLL(None); heap.malloc.restype = ctypes.c_void_p; heap.guarded_heap(1); p = heap.malloc(90)\n"
               f"{wrong}\nheap.free(ctypes.c_void_p(p)); print('ended')")
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "LD_PRELOAD": built_heap(tmp_path)}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert (done.returncode == 0 and "ended" in done.stdout) if told is None else (done.returncode < 0 and told in done.stderr), done.stderr
