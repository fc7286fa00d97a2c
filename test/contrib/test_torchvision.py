"""torchvision's operators on the NPU against the formulas: its wheels need a CUDA build of torch, so that a library of its names
stands in for it where there is none (ci/clients/use_torchvision.py runs the real one)."""
import importlib.util
from types import SimpleNamespace

import pytest
import torch

import torch_npu
from torch_npu._cpu_ops import boxes as twins
from torch_npu.contrib import torchvision as kernels
from torch_npu.contrib.module.deform_conv import modulated_deform_conv

SCHEMAS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, "
    "SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
    "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
    "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
]


@pytest.fixture(scope="module")
def ops():
    if importlib.util.find_spec("torchvision") is not None:
        import torchvision  # noqa: F401
        yield torch.ops.torchvision
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("roi_align", lambda maps, rois, scale, rows, columns, samples, aligned: twins.npu_roi_align(
        maps.float(), rois.float(), scale, rows, columns, max(samples, 0), 2 * aligned).double(), "CPU")
    kernels.register(SimpleNamespace(_has_ops=lambda: True))
    yield torch.ops.torchvision


@pytest.fixture(autouse=True)
def nothing_on_the_cpu(request):
    torch_npu.reset_fallbacks()
    yield
    if "double" not in request.node.name:
        assert torch_npu.fallbacks() == {}


def random_boxes(count, size=20.0):
    corner = torch.rand(count, 2) * size
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * size / 2], 1)


def greedy(boxes, scores, threshold):
    """Numbers of the boxes that stay, one after another."""
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        first = boxes[i].double().tolist()
        def ratio(j):
            second = boxes[j].double().tolist()
            sides = [max(min(first[k + 2], second[k + 2]) - max(first[k], second[k]), 0) for k in (0, 1)]
            areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
            return sides[0] * sides[1] / (sum(areas) - sides[0] * sides[1])
        if not any(ratio(j) > threshold for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("rows", [7, 1024])   # boxes in several blocks, and in one
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_boxes_that_stay(ops, monkeypatch, rows, dtype):
    monkeypatch.setattr(kernels, "_ROWS", rows)
    boxes, scores = random_boxes(60).to(dtype), torch.rand(60).to(dtype)
    for threshold in (0.0, 0.2, 0.55, 1.0):
        kept = ops.nms(boxes.npu(), scores.npu(), threshold)
        assert kept.is_npu and kept.dtype == torch.int64 and kept.tolist() == greedy(boxes, scores, threshold)


def test_a_chain_of_boxes_comes_to_rest_and_equal_scores_keep_their_order(ops):
    left = torch.arange(40.0)
    boxes = torch.stack([left, torch.zeros(40), left + 3, torch.ones(40)], 1)   # neighbours overlap by 2 of 4
    assert ops.nms(boxes.npu(), torch.ones(40).npu(), 0.4).tolist() == list(range(0, 40, 2))


@pytest.mark.parametrize("threshold, count", [(0.3, 1), (0.29999999, 1), (0.30000001192092896, 2)])
def test_the_threshold_is_compared_as_the_double_that_it_is(ops, threshold, count):
    boxes = torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 3.0, 1.0]])   # 0.3 rounds up to float32
    assert ops.nms(boxes.npu(), torch.tensor([1.0, 0.5]).npu(), threshold).numel() == count


def test_no_boxes_and_wrong_ones(ops):
    assert ops.nms(torch.empty(0, 4).npu(), torch.empty(0).npu(), 0.5).shape == (0,)
    for boxes, scores in [((3, 5), (3,)), ((3, 4), (2,)), ((12,), (3,))]:
        with pytest.raises(RuntimeError, match="should be"):
            ops.nms(torch.rand(boxes).npu(), torch.rand(scores).npu(), 0.5)
    with pytest.raises(RuntimeError, match="same type"):
        ops.nms(torch.rand(3, 4).npu(), torch.rand(3).half().npu(), 0.5)


def regions(dtype=torch.float32):
    images = torch.tensor([[0.0], [1.0], [1.0]])
    return torch.randn(2, 3, 10, 12).to(dtype), torch.cat([images, random_boxes(3)], 1).to(dtype)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_regions(ops, dtype, samples, aligned):
    maps, rois = regions(dtype)
    wanted = twins.npu_roi_align(maps.float(), rois.float(), 0.5, 4, 5, max(samples, 0), 2 * aligned)
    found = ops.roi_align(maps.npu(), rois.npu(), 0.5, 4, 5, samples, aligned)
    torch.testing.assert_close(found.cpu(), wanted.to(dtype))
    assert ops.roi_align(maps.npu(), rois[:0].npu(), 0.5, 4, 5, samples, aligned).shape == (0, 3, 4, 5)


@pytest.mark.parametrize("aligned", [False, True])
def test_gradients_of_regions(ops, aligned):
    maps, rois = regions()
    maps.requires_grad_()
    grad = torch.randn(3, 3, 4, 5)
    twins.npu_roi_align(maps, rois, 0.5, 4, 5, 2, 2 * aligned).backward(grad)
    found = ops._roi_align_backward(grad.npu(), rois.npu(), 0.5, 4, 5, 2, 3, 10, 12, 2, aligned)
    torch.testing.assert_close(found.cpu(), maps.grad, rtol=1e-4, atol=1e-5)
    assert not ops._roi_align_backward(grad[:0].npu(), rois[:0].npu(), 0.5, 4, 5, 2, 3, 10, 12, 2, aligned).any()


def test_regions_under_autocast_are_in_float32(ops):
    maps, rois = regions()
    with torch.autocast("npu", torch.float16):
        found = ops.roi_align(maps.half().npu(), rois.npu(), 0.5, 4, 5, 2, True)
    wanted = twins.npu_roi_align(maps.half().float(), rois, 0.5, 4, 5, 2, 2)
    torch.testing.assert_close(found.cpu(), wanted.half())


def test_double_regions_run_on_the_cpu_and_are_counted(ops):
    maps, rois = regions(torch.float64)
    found = ops.roi_align(maps.npu(), rois.npu(), 0.5, 4, 5, 2, True)
    assert found.is_npu and found.dtype == torch.float64 and torch_npu.fallbacks()["torchvision_float64::roi_align"]["calls"] == 1


@pytest.mark.parametrize("masked", [False, True])
def test_deformed_convolutions(ops, masked):
    x, weight, bias = torch.randn(2, 4, 7, 9), torch.randn(6, 2, 3, 2), torch.randn(6)
    offset, mask = torch.randn(2, 2 * 6 * 2, 5, 4), torch.rand(2, 2 * 6, 5, 4)
    settings = (1, 2, 1, 0, 2, 1)   # strides, padding, dilations
    given = [t.requires_grad_() for t in (x, weight, offset, mask, bias)]
    wanted = modulated_deform_conv(x, offset, mask if masked else torch.ones_like(mask), weight, bias, settings[:2], settings[2:4],
                                   settings[4:], 2, 2)
    npu = [t.detach().npu() for t in given]
    found = ops.deform_conv2d(*npu, *settings, 2, 2, masked)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    grad = torch.randn_like(wanted)
    wanted.backward(grad)
    for one, back in zip(given, ops._deform_conv2d_backward(grad.npu(), *npu, *settings, 2, 2, masked)):
        expected = torch.zeros_like(one) if one.grad is None else one.grad
        torch.testing.assert_close(back.cpu(), expected, rtol=1e-4, atol=1e-4)
