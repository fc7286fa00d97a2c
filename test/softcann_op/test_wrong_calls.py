"""Arguments that do not fit together, which kernels once took as they were: see wrong_calls.py, which found them."""
import os
import subprocess
import sys

import pytest
import torch
from guarded_heap import built_heap

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
    ("aclnnROIAlign", dict(self=IMAGE, rois=REGIONS, pooledHeight=1, pooledWidth=1, sampleNum=2**31 - 1, spatialScale=1.0,
                           out=torch.zeros(1, 3, 1, 1))),
    *(("aclnnConvolution", {**CONVOLUTION, **wrong}) for wrong in (
        dict(stride=[]), dict(stride=[0, 1]), dict(padding=[]), dict(dilation=[]), dict(dilation=[1, 0]), dict(stride=[1 << 20, 1]), dict(groups=0),
        dict(bias=torch.zeros(1)), dict(weight=torch.randn(2, 4, 3, 3)), dict(output=torch.zeros(1, 2, 2, 2)))),
    *(("aclnnConvolutionBackward", {**GRADIENT, **wrong}) for wrong in (
        dict(stride=[]), dict(stride=[0, 1]), dict(padding=[]), dict(dilation=[]), dict(gradWeight=torch.zeros(2, 2, 3, 3)),
        dict(gradBias=torch.zeros(1)), dict(gradOutput=torch.randn(2, 2, 2, 1)))),
])
def test_refused(call, name, given):
    with pytest.raises(RuntimeError, match=name):
        call.named(name, **given)


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
