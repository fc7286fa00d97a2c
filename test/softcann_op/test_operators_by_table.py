"""Operators that no other test of this folder calls: arguments and what torch gives for them, a row each."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import CALLED, close


def t(*shape, low=-2.0, high=2.0, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed + math.prod(shape))) * (high - low) + low


def ints(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


def gradient(function, x, grad=None):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    (made,) = torch.autograd.grad(y, x, torch.ones_like(y) if grad is None else grad)
    return made


# Each function yields name, arguments, results by name. A result named like an argument is that argument, changed.
X, Y = t(4, 6), t(4, 6, seed=1)
A, B = ints(1, 40, 4, 6), ints(1, 40, 4, 6).flip(0)
IMAGE, VOLUME = t(2, 3, 8, 10), t(1, 2, 4, 6, 8)


def arithmetic():
    x, y = X, Y
    a, b = A, B
    complex_x = torch.complex(x, y)
    yield "aclnnAddN", dict(tensors=[x, y, x]), dict(out=x + y + x)
    yield "aclnnAddRelu", dict(self=x, other=y, alpha=2.0), dict(out=F.relu(x + 2 * y))
    yield "aclnnAddRelu", dict(self=x.half(), other=y.half(), alpha=1.0), dict(out=F.relu(x.half() + y.half()))
    yield "aclnnAddRelu", dict(self=a - 20, other=b - 20, alpha=1), dict(out=F.relu(a + b - 40))
    yield "aclnnAddV3", dict(self=3.0, other=x, alpha=2.0), dict(out=3 + 2 * x)
    yield "aclnnPow2", dict(x1=x.abs(), x2=y), dict(out=x.abs() ** y)
    yield "aclnnRemainderScalarTensor", dict(self=7.0, other=y), dict(out=torch.remainder(torch.tensor(7.0), y))
    yield "aclnnGcd", dict(self=a, other=b), dict(out=torch.gcd(a, b))
    yield "aclnnXLogYScalarOther", dict(self=x, other=2.5), dict(out=torch.xlogy(x, 2.5))
    yield "aclnnXLogYScalarSelf", dict(self=2.5, other=x.abs()), dict(out=torch.xlogy(2.5, x.abs()))
    yield "aclnnXlog1py", dict(x=x, y=y.abs()), dict(z=torch.special.xlog1py(x, y.abs()))
    yield "aclnnBitwiseAndTensorOut", dict(self=a, other=b), dict(out=a & b)
    yield "aclnnBitwiseXorScalar", dict(self=a, other=21), dict(out=a ^ 21)
    yield "aclnnLeftShifts", dict(self=a, shiftBits=3), dict(out=a << 3)
    yield "aclnnLessScalar", dict(self=x, other=0.5), dict(out=x < 0.5)
    yield "aclnnReal", dict(self=complex_x), dict(out=x)
    yield "aclnnApplyGradientDescent", dict(varRef=x, alpha=torch.tensor(0.1), delta=y), dict(varRef=x - 0.1 * y)
    yield "aclnnTensorMove", dict(x=x), dict(yOut=x)
    yield "aclnnTanhGrad", dict(y=x, dy=y), dict(zOut=y * (1 - x * x))
    yield "aclnnSquaredRelu", dict(input=x), dict(out=F.relu(x) ** 2)
    yield "aclnnShrink", dict(self=x, lambd=0.5, bias=0.2), dict(out=torch.where(x > 0.5, x - 0.2, torch.where(x < -0.5, x + 0.2, 0)))
    yield "aclnnSeluBackward", dict(gradOutput=y, result=F.selu(x)), dict(gradInput=gradient(F.selu, x, y))
    yield "aclnnMaskedScale", dict(self=x, mask=(y > 0).to(torch.uint8), scale=1.5), dict(out=x * (y > 0) * 1.5)
    yield "aclnnDropoutV3Grad", dict(gradY=t(4, 32), mask=torch.full((16,), 0b01011010, dtype=torch.uint8), scale=2.0), dict(
        gradX=t(4, 32) * torch.tensor([0, 1, 0, 1, 1, 0, 1, 0]).repeat(16).view(4, 32) * 2)
    yield "aclnnGeGlu", dict(self=x, dim=-1, approximate=0), dict(out=x[:, :3] * F.gelu(x[:, 3:]), outGelu=F.gelu(x[:, 3:]))
    yield "aclnnGeGlu", dict(self=x, dim=-1, approximate=1), dict(
        out=x[:, :3] * F.gelu(x[:, 3:], approximate="tanh"), outGelu=F.gelu(x[:, 3:], approximate="tanh"))
    yield "aclnnGeGluBackward", dict(gradOutput=y[:, :3], self=x, gelu=F.gelu(x[:, 3:]), dim=-1, approximate=0), dict(
        gradInput=gradient(lambda v: v[:, :3] * F.gelu(v[:, 3:]), x, y[:, :3]))


def positions():
    x, y = X, Y
    a = A
    image = IMAGE
    volume = VOLUME
    values, inverse = torch.unique(a, return_inverse=True)
    yield "aclnnUnique", dict(self=a, sorted=True, returnInverse=True), dict(valueOut=values, inverseOut=inverse)
    yield "aclnnExpand", dict(self=t(4, 1), size=[3, 4, 5]), dict(out=t(4, 1).expand(3, 4, 5).contiguous())
    yield "aclnnExpandv", dict(self=t(4, 1), shape=[3, 4, 5]), dict(out=t(4, 1).expand(3, 4, 5).contiguous())
    yield "aclnnAsStrided", dict(x=t(24), size=[3, 4], stride=[5, 2], storageOffsetOptional=[2]), dict(yOut=t(24).as_strided((3, 4), (5, 2), 2))
    yield "aclnnFlatten", dict(self=volume, axis=2), dict(out=volume.reshape(2, -1))
    yield "aclnnConfusionTranspose", dict(x=t(2, 3, 4), perm=[2, 0, 1], shape=[4, 6], transpose_first=True), dict(
        out=t(2, 3, 4).permute(2, 0, 1).reshape(4, 6))
    yield "aclnnConfusionTranspose", dict(x=t(2, 3, 4), perm=[1, 0], shape=[4, 6], transpose_first=False), dict(out=t(2, 3, 4).reshape(4, 6).t())
    yield "aclnnDiag", dict(self=t(5), diagonal=1), dict(out=t(5).diag(1))
    yield "aclnnDiag", dict(self=x, diagonal=-1), dict(out=x.diag(-1))
    yield "aclnnDiagFlat", dict(self=t(2, 2), diagonal=-1), dict(out=torch.diagflat(t(2, 2), -1))
    yield "aclnnDiagPart", dict(x=t(5, 5)), dict(yOut=t(5, 5).diagonal().clone())
    yield "aclnnSplitTensor", dict(self=x, splitSections=4, dim=1), dict(out=[v.clone() for v in x.split(4, 1)])
    yield "aclnnChunkCat", dict(tensors=[t(5, 2), t(4, 3)], dim=0, numChunks=2), dict(out=torch._chunk_cat([t(5, 2), t(4, 3)], 0, 2))
    yield "aclnnSliceV2", dict(self=x, starts=[1, 0], ends=[4, 6], axes=[0, 1], steps=[2, 3]), dict(out=x[1:4:2, 0:6:3].clone())
    yield "aclnnStridedSlice", dict(self=x, begin=[1, 0], end=[4, 6], strides=[2, 3]), dict(out=x[1:4:2, 0:6:3].clone())
    yield "aclnnStridedSlice", dict(self=x, begin=[1, 0], end=[2, 5], strides=[1, 2], beginMask=2, shrinkAxisMask=1), dict(out=x[1, :5:2].clone())
    yield "aclnnStridedSliceAssignV2", dict(varRef=x, inputValue=y[:2, :2], begin=[1, 0], end=[4, 6], strides=[2, 3], axesOptional=[0, 1]), dict(
        varRef=(lambda v: (v[1:4:2, 0:6:3].copy_(y[:2, :2]), v)[1])(x.clone()))
    yield "aclnnRepeatInterleave", dict(self=x[0], repeats=torch.tensor([1, 0, 2, 3, 1, 1]), outputSize=8), dict(
        out=x[0].repeat_interleave(torch.tensor([1, 0, 2, 3, 1, 1])))
    yield "aclnnRepeatInterleaveInt", dict(self=x, repeats=3, outputSize=72), dict(out=x.repeat_interleave(3))
    yield "aclnnRepeatInterleaveWithDim", dict(self=x, repeats=torch.tensor([1, 0, 2, 3]), dim=0, outputSize=6), dict(
        out=x.repeat_interleave(torch.tensor([1, 0, 2, 3]), 0))
    yield "aclnnIndexFill", dict(self=x, dim=1, index=torch.tensor([0, 5, 2]), value=9.0), dict(out=x.index_fill(1, torch.tensor([0, 5, 2]), 9))
    yield "aclnnIndexFillTensor", dict(self=x, dim=1, index=[0, 5, 2], value=9.0), dict(out=x.index_fill(1, torch.tensor([0, 5, 2]), 9))
    yield "aclnnIndexAddV2", dict(self=x, dim=0, index=torch.tensor([3, 0, 3]), source=y[:3], alpha=0.5, mode=0), dict(
        out=x.index_add(0, torch.tensor([3, 0, 3]), y[:3], alpha=0.5))
    yield "aclnnScatterNd", dict(data=x, indices=torch.tensor([[1, 2], [3, 5]]), updates=torch.tensor([7.0, 8.0])), dict(
        out=x.index_put((torch.tensor([1, 3]), torch.tensor([2, 5])), torch.tensor([7.0, 8.0])))
    into = torch.tensor([[0, 3, 1], [2, 2, 0]])
    for number, reduce in enumerate((None, "add", "multiply")):
        reduced = {"reduce": reduce} if reduce else {}
        yield "aclnnInplaceScatter", dict(selfRef=x, dim=0, index=into, src=y, reduce=number), dict(selfRef=x.scatter(0, into, y, **reduced))
        yield "aclnnInplaceScatterValue", dict(selfRef=x, dim=0, index=into, value=3.0, reduce=number), dict(
            selfRef=x.scatter(0, into, 3.0, **reduced))
    for number, reduce in enumerate(("sum", "prod", "amax", "amin", "mean"), 1):
        yield "aclnnInplaceScatterReduce", dict(selfRef=x, dim=0, index=into, src=y, reduce=number, includeSelf=True), dict(
            selfRef=x.scatter_reduce(0, into, y, reduce))
    for wrap in (False, True):
        yield "aclnnInplaceFillDiagonal", dict(selfRef=t(7, 3), fillValue=9.0, wrap=wrap), dict(selfRef=t(7, 3).fill_diagonal_(9, wrap))
    yield "aclnnCumsumV2", dict(self=x, dim=1, exclusive=True, reverse=False), dict(out=x.cumsum(1) - x)
    yield "aclnnCumsumV2", dict(self=x, dim=0, exclusive=False, reverse=True), dict(out=x.flip(0).cumsum(0).flip(0))
    yield "aclnnBucketize", dict(self=x, boundaries=torch.tensor([-1.0, 0, 1]), outInt32=False, right=True), dict(
        out=torch.bucketize(x, torch.tensor([-1.0, 0, 1]), right=True))
    yield "aclnnSearchSorteds", dict(sortedSequence=torch.tensor([1.0, 3, 3, 5]), self=3.0, outInt32=False, right=False), dict(out=torch.tensor(1))
    yield "aclnnIsInScalarTensor", dict(element=7, testElements=a), dict(out=torch.isin(7, a))
    yield "aclnnIsInTensorScalar", dict(element=a, testElement=7, invert=True), dict(out=a != 7)
    yield "aclnnCircularPad2d", dict(self=image, padding=[1, 2, 3, 1]), dict(out=F.pad(image, [1, 2, 3, 1], "circular"))
    yield "aclnnCircularPad3d", dict(self=volume, padding=[1, 2, 3, 1, 2, 0]), dict(out=F.pad(volume, [1, 2, 3, 1, 2, 0], "circular"))
    yield "aclnnReflectionPad3d", dict(self=volume, padding=[1, 2, 3, 1, 2, 0]), dict(out=F.pad(volume, [1, 2, 3, 1, 2, 0], "reflect"))
    yield "aclnnReplicationPad3d", dict(self=volume, padding=[1, 2, 3, 1, 2, 0]), dict(out=F.pad(volume, [1, 2, 3, 1, 2, 0], "replicate"))
    yield "aclnnEmbeddingRenorm", dict(selfRef=t(6, 4), indices=torch.tensor([0, 3, 3]), maxNorm=1.0, normType=2.0), dict(
        selfRef=torch.embedding_renorm_(t(6, 4), torch.tensor([0, 3, 3]), 1.0, 2.0))
    yield "aclnnViewCopy", {"in": [x, y]}, dict(out=[x, y])


def reductions():
    x, y = X, Y
    yield "aclnnAminmaxAll", dict(self=x), dict(minOut=x.min(), maxOut=x.max())
    yield "aclnnVar", dict(self=x, dim=[1], unbiased=True, keepdim=False), dict(out=x.var(1))
    yield "aclnnVar", dict(self=x, dim=[0], unbiased=False, keepdim=True), dict(out=x.var(0, unbiased=False, keepdim=True))
    yield "aclnnPdist", dict(self=x, p=3.0), dict(out=torch.pdist(x, 3))
    yield "aclnnGaussianNllLoss", dict(input=x, target=y, var=y.abs(), full=True, eps=1e-6, reductionOptional="mean"), dict(
        out=F.gaussian_nll_loss(x, y, y.abs(), full=True, eps=1e-6))
    yield "aclnnHingeEmbeddingLoss", dict(input=x, target=torch.sign(y), margin=1.5, reduction="sum"), dict(
        loss=F.hinge_embedding_loss(x, torch.sign(y), margin=1.5, reduction="sum"))
    yield "aclnnHuberLoss", dict(predictions=x, targets=y, delta=0.7), dict(loss=F.huber_loss(x, y, delta=0.7, reduction="none"))
    yield "aclnnMseLossOut", dict(self=x, target=y, reduction=1), dict(out=F.mse_loss(x, y))
    yield "aclnnMseLossOut", dict(self=x, target=y, reduction=0), dict(out=(x - y) ** 2)
    yield "aclnnMseLossGrad", dict(predict=x, label=y, dout=torch.ones_like(x), reductionOptional="mean"), dict(yOut=2 * (x - y) / x.numel())
    yield "aclnnKlDivTargetBackward", dict(gradOutput=torch.ones(()), self=x, target=y.abs(), reduction=2, logTarget=False), dict(
        gradTarget=gradient(lambda v: F.kl_div(x, v, reduction="sum"), y.abs()))
    labels = F.one_hot(torch.tensor([0, 5, 2, 1]), 6).float()
    yield "aclnnSoftmaxCrossEntropyWithLogits", dict(features=x, labels=labels), dict(
        loss=F.cross_entropy(x, labels, reduction="none"), backprop=x.softmax(1) - labels)


def linear_algebra():
    x, y = X, Y
    window = torch.hann_window(8)
    yield "aclStft", dict(self=t(2, 40), windowOptional=window, nFft=8, hopLength=4, winLength=8, normalized=False, onesided=True,
                          returnComplex=True), dict(out=torch.stft(t(2, 40), 8, 4, 8, window, center=False, return_complex=True))
    square = t(3, 5, 5) + 3 * torch.eye(5)
    yield "aclnnEinsum", dict(tensors=[x, y], equation="ij,kj->ik"), dict(output=x @ y.t())
    yield "aclnnGer", dict(self=t(3), vec2=t(4)), dict(out=torch.outer(t(3), t(4)))
    yield "aclnnAddrV2", dict(self=t(3, 4), vec1=t(3), vec2=t(4), betaOptional=0.5, alphaOptional=2.0), dict(
        out=torch.addr(t(3, 4), t(3), t(4), beta=0.5, alpha=2))
    tall, wide = t(3, 6), t(4, 3)
    yield ("aclnnGemm", dict(A=tall, B=wide, C=t(6, 4), alpha=1.0, beta=0.0, transA=1, transB=1), dict(out=tall.t() @ wide.t()))
    yield "aclnnGemm", dict(A=x, B=y, C=t(6, 6), alpha=2.0, beta=0.5, transA=1, transB=0), dict(out=2 * x.t() @ y + 0.5 * t(6, 6))
    yield "aclnnLogdet", dict(self=square), dict(out=torch.logdet(square))
    yield "aclnnSlogdet", dict(self=square), dict(signOut=torch.slogdet(square)[0], logOut=torch.slogdet(square)[1])
    q, r = torch.linalg.qr(x)
    yield "aclnnQr", dict(self=x, some=True), dict(Q=q, R=r)
    yield "aclRfft1D", dict(self=x, n=6, dim=1, norm=1), dict(out=torch.view_as_real(torch.fft.rfft(x, 6, 1)))


def normalization():
    x = X
    image = IMAGE
    gamma, beta = t(3, seed=5), t(3, seed=6)
    mean, std = image.mean((0, 2, 3)), (image.var((0, 2, 3), unbiased=False) + 1e-3).rsqrt()
    yield "aclnnBatchNormStats", dict(input=image, eps=1e-3), dict(mean=mean, invstd=std)
    yield "aclnnBatchNormElemt", dict(input=image, weight=gamma, bias=beta, mean=mean, invstd=std, eps=1e-3), dict(
        output=F.batch_norm(image, None, None, gamma, beta, True, 0, 1e-3))
    grad = t(2, 3, 8, 10, seed=9)
    centred = image - mean.view(-1, 1, 1)
    sum_dy, sum_dy_xmu = grad.sum((0, 2, 3)), (grad * centred).sum((0, 2, 3))
    yield "aclnnBatchNormReduceBackward", dict(gradOut=grad, input=image, mean=mean, invstd=std, weight=gamma, inputG=True, weightG=True,
                                               biasG=True), dict(
        sumDy=sum_dy, sumDyXmu=sum_dy_xmu, gradWeight=sum_dy_xmu * std, gradBias=sum_dy)
    yield "aclnnBatchNormElemtBackward", dict(gradOut=grad, input=image, mean=mean, invstd=std, weight=gamma, sumDy=sum_dy, sumDyXmu=sum_dy_xmu,
                                              counter=torch.tensor([160], dtype=torch.int32)), dict(
        gradInput=gradient(lambda v: F.batch_norm(v, None, None, gamma, beta, True, 0, 1e-3), image, grad))
    yield "aclnnGroupNormSiluV2", dict(self=t(2, 4, 5), gamma=t(4, seed=2), beta=t(4, seed=3), group=2, eps=1e-3, activateSilu=True), dict(
        out=F.silu(F.group_norm(t(2, 4, 5), 2, t(4, seed=2), t(4, seed=3), 1e-3)), meanOut=t(2, 4, 5).view(2, 2, 10).mean(-1),
        rstdOut=(t(2, 4, 5).view(2, 2, 10).var(-1, unbiased=False) + 1e-3).rsqrt())
    normed = F.layer_norm(x, [6], t(6, seed=4), t(6, seed=5), 1e-3)
    statistics = dict(meanOutOptional=x.mean(1, True), rstdOutOptional=(x.var(1, False, keepdim=True) + 1e-3).rsqrt())
    weights = dict(normalizedShape=[6], weightOptional=t(6, seed=4), biasOptional=t(6, seed=5), eps=1e-3)
    yield "aclnnFastLayerNorm", dict(input=x, **weights), dict(out=normed, **statistics)
    for mode in (0, 1):
        yield "aclnnLayerNormWithImplMode", dict(input=x, **weights, implMode=mode), dict(out=normed, **statistics)
    yield "aclnnAdaLayerNorm", dict(x=t(2, 5, 6), scale=t(2, 6), shift=t(2, 6, seed=7), epsilon=1e-3), dict(
        out=F.layer_norm(t(2, 5, 6), [6], eps=1e-3) * (1 + t(2, 1, 6)) + t(2, 6, seed=7).unsqueeze(1))
    yield "aclnnInstanceNorm", dict(x=image, gamma=gamma, beta=beta, dataFormat="NCHW", eps=1e-3), dict(
        y=F.instance_norm(image, weight=gamma, bias=beta, eps=1e-3), mean=image.mean((2, 3), True), variance=image.var((2, 3), False, keepdim=True))
    scores, mask = t(2, 3, 4, 8), (t(2, 3, 4, 8, seed=4) > 0)
    yield "aclnnInnerScaledMaskedSoftmaxV2", dict(x=scores.half(), mask=mask, scale=0.5), dict(
        y=(scores.half().float() * 0.5).masked_fill(mask, -10000.0).softmax(-1).half())

    total, squares, counts = t(2, 3, low=5, high=9), t(2, 3, low=40, high=50), torch.tensor([3, 5])
    batch_mean, batch_var = total.sum(0) / 8, squares.sum(0) / 8 - (total.sum(0) / 8) ** 2
    yield "aclnnSyncBatchNormGatherStats", dict(totalSum=total, totalSquareSum=squares, sampleCount=counts, mean=gamma, variance=beta.abs(),
                                                momentum=0.1, eps=1e-3), dict(
        mean=0.9 * gamma + 0.1 * batch_mean, variance=0.9 * beta.abs() + 0.1 * batch_var * 8 / 7, batchMean=batch_mean,
        batchInvstd=(batch_var + 1e-3).rsqrt())
    means, stds = t(2, 3), t(2, 3, low=0.5, high=2)
    all_mean = (means * counts.view(2, 1)).sum(0) / 8
    all_var = ((stds ** -2 - 1e-3 + (means - all_mean) ** 2) * counts.view(2, 1)).sum(0) / 8
    yield "aclnnBatchNormGatherStatsWithCounts", dict(input=image, mean=means, invstd=stds, runningMean=gamma, runningVar=beta.abs(),
                                                      momentum=0.1, eps=1e-3, counts=counts.float()), dict(
        runningMean=0.9 * gamma + 0.1 * all_mean, runningVar=0.9 * beta.abs() + 0.1 * all_var * 8 / 7, meanAll=all_mean,
        invstdAll=(all_var + 1e-3).rsqrt())


def images():
    gamma = t(3, seed=5)
    image = IMAGE
    volume = VOLUME
    yield "aclnnAffineGrid", dict(theta=t(2, 2, 3), size=[2, 3, 4, 5], alignCorners=True), dict(out=F.affine_grid(t(2, 2, 3), [2, 3, 4, 5], True))
    yield "aclnnConvDepthwise2d", dict(self=image, weight=t(3, 1, 3, 3), kernelSize=[3, 3], bias=gamma, stride=[2, 1], padding=[1, 0],
                                       dilation=[1, 2]), dict(out=F.conv2d(image, t(3, 1, 3, 3), gamma, (2, 1), (1, 0), (1, 2), 3))
    yield "aclnnGlobalAveragePool", dict(self=image), dict(out=image.mean((2, 3), True))
    yield "aclnnGlobalMaxPool", dict(self=image), dict(out=image.amax((2, 3), True))
    pooled, where = F.max_pool2d(image, 2, return_indices=True)
    yield "aclnnMaxUnpool2dBackward", dict(gradOutput=image, self=pooled, indices=where, outputSize=[8, 10]), dict(
        out=gradient(lambda v: F.max_unpool2d(v, where, 2, output_size=(8, 10)), pooled, image))
    pooled3, where3 = F.max_pool3d(volume, 2, return_indices=True)
    yield "aclnnMaxUnpool3dBackward", dict(gradOutput=volume, self=pooled3, indices=where3, outputSize=[4, 6, 8], stride=[2, 2, 2],
                                           padding=[0, 0, 0]), dict(
        out=gradient(lambda v: F.max_unpool3d(v, where3, 2, output_size=(4, 6, 8)), pooled3, volume))
    yield "aclnnUpsampleNearest1d", dict(self=t(2, 3, 5), outputSize=[8]), dict(out=F.interpolate(t(2, 3, 5), 8))
    yield "aclnnUpsampleNearest2d", dict(self=image, outputSize=[11, 7]), dict(out=F.interpolate(image, (11, 7)))
    for exact in ("", "Exact"):
        def resize(v, *size, mode="nearest-exact" if exact else "nearest"):
            return F.interpolate(v, size, mode=mode)
        yield f"aclnnUpsampleNearest{exact}3d", dict(self=volume, outputSize=[5, 9, 7]), dict(out=resize(volume, 5, 9, 7))
        yield f"aclnnUpsampleNearest{exact}3dBackward", dict(gradOut=t(1, 2, 5, 9, 7), outputSize=[5, 9, 7], inputSize=[1, 2, 4, 6, 8]), dict(
            gradInput=gradient(lambda v: resize(v, 5, 9, 7), volume, t(1, 2, 5, 9, 7)))
    yield "aclnnUpsampleNearestExact2d", dict(self=image, outputSize=[11, 7]), dict(out=F.interpolate(image, (11, 7), mode="nearest-exact"))
    yield "aclnnUpsampleNearestExact2dBackward", dict(gradOutput=t(2, 3, 11, 7), outputSize=[11, 7], inputSize=[2, 3, 8, 10]), dict(
        out=gradient(lambda v: F.interpolate(v, (11, 7), mode="nearest-exact"), image, t(2, 3, 11, 7)))


ROWS = [row for rows in (arithmetic, positions, reductions, linear_algebra, normalization, images) for row in rows()]


def copied(value):
    return [copied(v) for v in value] if isinstance(value, list) else value.clone() if isinstance(value, torch.Tensor) else value


def empty_like(value):
    if isinstance(value, list):
        return [empty_like(v) for v in value]
    return torch.full(value.shape, 77, dtype=value.dtype) if value.dtype != torch.bool else torch.zeros(value.shape, dtype=torch.bool)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ROWS)])
def test_as_torch(call, row):
    name, arguments, expected = row
    arguments = {key: copied(value) for key, value in arguments.items()}
    results = {key: arguments[key] if key in arguments else empty_like(value) for key, value in expected.items()}
    call.named(name, **{**arguments, **results})
    for key, value in expected.items():
        assert key in {p.name for p in CALLED[name].params}
        for made, wanted in zip(results[key], value) if isinstance(value, list) else [(results[key], value)]:
            close(made, wanted, 2e-3 if wanted.dtype == torch.float16 else 1e-4)
