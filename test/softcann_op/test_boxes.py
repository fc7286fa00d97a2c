"""Boxes, regions of feature maps, deformed convolutions, and the choice of tokens, against formulas and the CPU twins."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import close

from torch_npu._cpu_ops import activation, boxes, detection, sampling


def random_boxes(count, size=20.0):
    corner = torch.rand(count, 2) * size
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * size / 2], 1)


@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_overlaps(call, mode):
    a, b, out, pairs = random_boxes(5), random_boxes(7), torch.empty(5, 7), torch.empty(5)
    call.named("aclnnIou", bBoxes=a, gtBoxes=b, mode=mode, eps=0.01, aligned=False, overlap=out)
    close(out, boxes.npu_iou(a, b, int(mode == "iof")).t())
    call.named("aclnnIou", bBoxes=a, gtBoxes=b[:5].contiguous(), mode=mode, eps=0.01, aligned=True, overlap=pairs)
    close(pairs, out.diagonal())


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_complete_overlaps(call, centred, cross):
    a, b = random_boxes(4).t().contiguous(), random_boxes(4).t().contiguous()
    shape = (4, 4) if cross else (1, 4)
    out, turn = torch.empty(shape), torch.empty(shape)
    call.named("aclnnCIoU", bBoxes=a, gtBoxes=b, trans=centred, isCross=cross, mode="iou", overlap=out, atanSub=turn)
    close(out.t() if cross else out, boxes.npu_ciou(a, b, centred, cross))   # the adapters turn the pairs
    sizes = [t if centred else torch.stack([t[0], t[1], t[2] - t[0], t[3] - t[1]]) for t in (a, b)]
    angles = [torch.atan(t[2] / t[3]) for t in sizes]
    expected = angles[1] - angles[0].unsqueeze(1) if cross else (angles[1] - angles[0]).unsqueeze(0)
    close(turn, expected)


@pytest.mark.parametrize("end_mode", [0, 1, 2, 3])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions(call, samples, end_mode):
    maps = torch.randn(2, 3, 10, 12)
    rois = torch.cat([torch.tensor([[0.0], [1.0], [1.0]]), random_boxes(3, 30.0)], 1)
    out, grad, dx = torch.empty(3, 3, 4, 5), torch.randn(3, 3, 4, 5), torch.empty_like(maps)
    call.named("aclnnROIAlign", self=maps, rois=rois, spatialScale=0.4, pooledHeight=4, pooledWidth=5, sampleNum=samples,
               roiEndMode=end_mode, out=out)
    close(out, boxes.npu_roi_align(maps, rois, 0.4, 4, 5, samples, end_mode), 1e-4)
    call.named("aclnnROIAlignBackward", ydiff=grad, rois=rois, xdiffShape=[2, 3, 10, 12], pooledWidth=5, pooledHeight=4, spatialScale=0.4,
               sampleNum=samples, roiEndMode=end_mode, xdiff=dx)
    close(dx, detection.npu_roi_alignbk(grad, rois, [2, 3, 10, 12], 5, 4, 0.4, samples, end_mode), 1e-4)


@pytest.mark.parametrize("modulated", [False, True])
def test_deformable_convolution(call, modulated):
    kernel, stride, padding, dilation, parts = [3, 2], [1, 1, 2, 1], [1, 1, 0, 1], [1, 1, 1, 2], 3 if modulated else 2
    rows, columns = (7 + 2 - 3) // 2 + 1, (9 + 1 - 3) + 1
    x, weight, bias = torch.randn(2, 4, 7, 9), torch.randn(6, 2, 3, 2), torch.randn(6)
    offset = torch.randn(2, parts * 2 * 6, rows, columns)
    settings = dict(kernelSize=kernel, stride=stride, padding=padding, dilation=dilation, groups=2, deformableGroups=2, modulated=modulated)
    plain = kernel, stride, padding, dilation, 2, 2, modulated
    out, samples = torch.empty(2, 6, rows, columns), torch.empty(2, 4, rows * 3, columns * 2)
    call.named("aclnnDeformableConv2d", x=x, weight=weight, offset=offset, biasOptional=bias, **settings, out=out, deformOutOptional=samples)
    expected = detection.npu_deformable_conv2d(x, weight, offset, bias, *plain)
    close(out, expected[0], 1e-4)
    close(samples, expected[1], 1e-4)
    dy, grads = torch.randn_like(out), [torch.empty_like(t) for t in (x, weight, offset, bias)]
    call.named("aclnnDeformableConv2dBackward", input=x, gradOutput=dy, offsetOut=samples, weight=weight, offset=offset, **settings,
               gradInput=grads[0], gradWeight=grads[1], gradOffset=grads[2], gradBias=grads[3])
    for actual, wanted in zip(grads, detection.npu_deformable_conv2dbk(x, dy, samples, weight, offset, *plain)):
        close(actual, wanted, 2e-4)


def test_deformable_convolution_without_offsets_is_a_convolution(call):
    x, weight, out = torch.randn(1, 4, 8, 8), torch.randn(6, 4, 3, 3), torch.empty(1, 6, 8, 8)
    offset = torch.zeros(1, 27, 8, 8)
    offset[:, 18:] = 1
    call.named("aclnnDeformableConv2d", x=x, weight=weight, offset=offset, kernelSize=[3, 3], stride=[1] * 4, padding=[1] * 4,
               dilation=[1] * 4, groups=1, deformableGroups=1, modulated=True, out=out)
    close(out, F.conv2d(x, weight, padding=1), 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_are_chosen(call, dtype):
    logits, q = torch.randn(5, 40).to(dtype), torch.rand(5, 40) + 0.1
    k, p = torch.tensor([3, 0, 40, 10, 1], dtype=torch.int32), torch.tensor([0.9, 0.5, 1.0, 0.0, 0.3]).to(dtype)
    least = torch.tensor([0.0, 0.1, 0.2, 0.0, 0.5]).to(dtype)
    tokens, kept = torch.empty(5, dtype=torch.int64), torch.empty(5, 40)
    call.named("aclnnTopKTopPSample", logits=logits, topK=k, topP=p, q=q, eps=1e-8, isNeedLogits=True, topKGuess=32,
               logitsSelectIdx=tokens, logitsTopKPSelect=kept)
    expected = sampling.npu_top_k_top_p_sample(logits, k, p, q, 1e-8, True)
    assert torch.equal(tokens, expected[0]) and torch.equal(kept, expected[1])
    call.named("aclnnTopKTopPSampleV2", logits=logits, topK=k, topP=p, q=q, minPs=least, eps=1e-8, isNeedLogits=True, ksMax=1024,
               inputIsLogits=True, logitsSelectIdx=tokens, logitsTopKPSelect=kept)
    expected = sampling.npu_top_k_top_p_sample(logits, k, p, q, 1e-8, True, min_ps=least)
    assert torch.equal(tokens, expected[0]) and torch.equal(kept, expected[1])
    order, likely = torch.empty(5, 40, dtype=torch.int64), torch.empty(5, 40)  # for a client that draws: what multinomial takes
    call.named("aclnnTopKTopPSampleV2", logits=logits, topK=k, topP=p, minPs=least, eps=1e-8, ksMax=1024, inputIsLogits=True,
               isNeedSampleResult=True, logitsIdx=order, logitsSortMasked=likely)
    assert torch.equal(likely, likely.sort(-1, descending=True)[0]) and (likely.sum(-1) <= 1 + 1e-6).all()
    close(likely / likely.sum(-1, keepdim=True), torch.softmax(kept.gather(-1, order), -1), 1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [-1, 1])
def test_clipped_swiglu(call, dim, interleaved):
    x = torch.randn(3, 8, 6) * 10
    out = torch.empty(3, 8, 3) if dim == -1 else torch.empty(3, 4, 6)
    call.named("aclnnClippedSwiglu", x=x, dim=dim, alpha=1.7, limit=7.0, bias=1.0, interleaved=interleaved, out=out)
    close(out, activation.npu_clipped_swiglu(x, dim=dim, alpha=1.7, interleaved=interleaved))


def test_sparse_rows_are_added_up(call):
    indices, values = torch.tensor([[0, 1], [2, 0], [0, 1]], dtype=torch.int32), torch.randn(3, 4)
    rows, sums = torch.zeros(2, 2, dtype=torch.int32), torch.zeros(2, 4)
    call.named("aclnnCoalesceSparse", uniqueLen=torch.zeros(2), uniqueIndices=torch.tensor([0, 1, 0], dtype=torch.int32), indices=indices,
               values=values, newIndicesOut=rows, newValuesOut=sums)
    assert torch.equal(rows, torch.tensor([[0, 1], [2, 0]], dtype=torch.int32))
    close(sums, torch.stack([values[0] + values[2], values[1]]))


def test_queries_keys_and_values_with_their_bias(call):
    qkv, bias = torch.randn(2, 5, 24), torch.randn(24)
    outs = [torch.empty(2, 4, 5, 2) for _ in range(3)]
    call.named("aclnnTransformBiasRescaleQkv", qkv=qkv, qkvBias=bias, numHeads=4, qOut=outs[0], kOut=outs[1], vOut=outs[2])
    for actual, expected in zip(outs, torch._transform_bias_rescale_qkv(qkv, bias, 4)):
        close(actual, expected)
    q = (qkv + bias)[..., :8].view(2, 5, 4, 2).transpose(1, 2) / math.sqrt(2)
    close(outs[0], q)


def test_top_k_with_a_policy(call):
    x, values, indices = torch.randn(4, 50), torch.empty(4, 5), torch.empty(4, 5, dtype=torch.int64)
    call.named("aclnnTopkV2", self=x, k=5, dim=1, largest=True, sorted=True, sortPolicy=1, valuesOut=values, indicesOut=indices)
    expected = torch.topk(x, 5)
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices)


def test_regions_by_batch_indices(call):
    """The worked example of the operator's page, and regions of two pictures against V2, whose regions name their picture."""
    out = torch.empty(1, 1, 3, 3)
    call.named("aclnnRoiAlign", self=torch.arange(1.0, 37).view(1, 1, 6, 6), rois=torch.tensor([[-2.0, -2, 22, 22]]),
               batchIndices=torch.zeros(1, dtype=torch.int32), mode="avg", outputHeight=3, outputWidth=3, samplingRatio=2,
               spatialScale=0.25, out=out)
    close(out, torch.tensor([4.5, 6.5, 8.5, 16.5, 18.5, 20.5, 28.5, 30.5, 32.5]).view(1, 1, 3, 3))
    maps, regions = torch.randn(2, 3, 9, 9), torch.tensor([[1, 1.0, 2, 14, 13], [0, 4, 0, 9, 15]])
    outs = torch.empty(2, 2, 3, 2, 2)
    call.named("aclnnRoiAlign", self=maps, rois=regions[:, 1:].contiguous(), batchIndices=regions[:, 0].int(), mode="avg", outputHeight=2,
               outputWidth=2, samplingRatio=0, spatialScale=0.5, out=outs[0])
    call.named("aclnnRoiAlignV2", self=maps, boxes=regions, pooledHeight=2, pooledWidth=2, spatialScale=0.5, samplingRatio=0,
               aligned=False, out=outs[1])
    assert outs[0].equal(outs[1])
    with pytest.raises(RuntimeError, match="161002.*mode 'most'"):
        call.named("aclnnRoiAlign", self=maps, rois=regions[:, 1:].contiguous(), batchIndices=regions[:, 0].int(), mode="most",
                   outputHeight=2, outputWidth=2, spatialScale=0.5, out=outs[0])


def test_greatest_sample_of_regions(call):
    """A sample in the middle of four equal pixels has a quarter of each."""
    out = torch.empty(1, 1, 1, 1)
    call.named("aclnnRoiAlign", self=torch.full((1, 1, 4, 4), 8.0), rois=torch.tensor([[0.0, 0, 3, 3]]),
               batchIndices=torch.zeros(1, dtype=torch.int32), mode="max", outputHeight=1, outputWidth=1, samplingRatio=1,
               spatialScale=1.0, out=out)
    assert out.item() == 2


@pytest.mark.parametrize("aligned", [False, True])
def test_aligned_regions_and_their_gradient(call, aligned):
    maps, size = torch.randn(2, 2, 8, 8, dtype=torch.double).requires_grad_(), (2, 3)
    regions = torch.tensor([[1, 2.0, 3, 6, 7], [0, 1, 1, 5, 6]])
    shift, expected = 0.5 if aligned else 0.0, []
    for image, left, top, right, bottom in regions.tolist():
        y = top - shift + (torch.arange(2 * size[0]) + 0.5) * (bottom - top) / (2 * size[0])
        x = left - shift + (torch.arange(2 * size[1]) + 0.5) * (right - left) / (2 * size[1])
        grid = torch.stack(torch.meshgrid(x / 3.5 - 1, y / 3.5 - 1, indexing="xy"), -1).double()
        sampled = F.grid_sample(maps[int(image)][None], grid[None], align_corners=True, padding_mode="border")
        expected.append(F.avg_pool2d(sampled[0], 2))
    expected = torch.stack(expected)
    out, gradient, by_maps = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(2, 2, 8, 8)
    call.named("aclnnRoiAlignV2", self=maps.detach().float(), boxes=regions, pooledHeight=2, pooledWidth=3, spatialScale=1.0,
               samplingRatio=2, aligned=aligned, out=out)
    close(out, expected.detach().float(), 1e-4)
    call.named("aclnnRoiAlignV2Backward", gradOutput=gradient, boxes=regions, inputShape=[2, 2, 8, 8], pooledHeight=2, pooledWidth=3,
               spatialScale=1.0, samplingRatio=2, aligned=aligned, gradInput=by_maps)
    close(by_maps, torch.autograd.grad(expected, maps, gradient.double())[0].float(), 1e-4)


def test_greatest_element_of_regions(call):
    maps, regions = torch.randn(2, 3, 7, 9), torch.tensor([[1, 1.0, 2, 6, 5], [0, 40, 40, 50, 50], [0, 5, 5, 2, 2]])
    y, argmax = torch.empty(3, 3, 2, 2), torch.empty(3, 3, 2, 2, dtype=torch.int32)
    call.named("aclnnRoiPoolingWithArgMax", x=maps, rois=regions, pooled_h=2, pooled_w=2, spatial_scale_h=1.0, spatial_scale_w=1.0,
               y=y, argmax=argmax)
    for i in range(2):
        for j in range(2):
            part = maps[1, :, 2 + 2 * i:4 + 2 * i, 1 + 3 * j:4 + 3 * j]
            assert y[0, :, i, j].equal(part.amax((1, 2)))
    assert maps[1].flatten(1).gather(1, argmax[0].flatten(1).long()).equal(y[0].flatten(1))
    assert (y[1:] == 0).all() and (argmax[1:] == -1).all()  # outside, and of no size
    gradient, by_maps, expected = torch.randn(3, 3, 2, 2), torch.empty(2, 3, 7, 9), torch.zeros(2, 3, 63)
    call.named("aclnnRoiPoolingGradWithArgMax", gradOutput=gradient, gradInputRef=by_maps, rois=regions, argmax=argmax, pooledH=2,
               pooledW=2, spatialScale=1.0)
    expected[1].scatter_add_(1, argmax[0].flatten(1).long(), gradient[0].flatten(1))
    close(by_maps, expected.view(2, 3, 7, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_boxes_that_stay(call, dtype):
    boxes = torch.tensor([[[0, 0, 10, 10], [0, 1, 10, 11], [20, 20, 30, 30], [0, 0, 9, 10]]]).to(dtype)
    scores = torch.tensor([[[0.8, 0.9, 0.3, 0.7], [0.1, 0.2, 0.9, 0.1]]]).to(dtype)
    centred = torch.cat([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    for given, kind in ((boxes, 0), (centred, 1)):
        out = torch.empty(6, 3, dtype=torch.int32)
        call.named("aclnnNonMaxSuppression", boxes=given, scores=scores, maxOutputBoxesPerClass=[3], iouThreshold=[0.5],
                   scoreThreshold=[0.15], centerPointBox=kind, selectedIndices=out)
        assert out.tolist() == [[0, 0, 1], [0, 0, 2], [0, 1, 2], [0, 1, 1], [-1] * 3, [-1] * 3]
    with pytest.raises(RuntimeError, match="161002.*from 0 to 700"):
        call.named("aclnnNonMaxSuppression", boxes=boxes, scores=scores, maxOutputBoxesPerClass=[701], iouThreshold=[0.5],
                   scoreThreshold=[0.0], selectedIndices=out)
