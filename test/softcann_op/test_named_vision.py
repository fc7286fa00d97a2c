"""Operators for vision that clients such as mmcv name to aclopCompileAndExecute, against plain arithmetic and its gradients."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import close
from test_named import NamedClient


@pytest.fixture(scope="module")
def named(call, libraries):
    return NamedClient(call, libraries)


def empty_like(tensor):
    return torch.full(tensor.shape, math.nan)


GAMMA, ALPHA = 1.5, 0.3


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_focal_loss_of_scores(named, reduction):
    x, is_class, weight = torch.randn(5, 4).requires_grad_(), torch.randint(0, 2, (5, 4), dtype=torch.int32), torch.rand(5, 4)
    p = x.sigmoid()
    loss = torch.where(is_class == 1, -ALPHA * (1 - p) ** GAMMA * p.log(), (ALPHA - 1) * p ** GAMMA * (1 - p).log()) * weight
    loss = {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[reduction]
    attributes = dict(gamma=GAMMA, alpha=ALPHA, reduction=reduction)
    close(named("SigmoidFocalLoss", [x.detach(), is_class, weight], [empty_like(loss)], **attributes)[0], loss.detach(), 1e-5)
    gradient = torch.randn(loss.shape)
    expected, = torch.autograd.grad(loss, x, gradient)
    close(named("SigmoidFocalLossGrad", [x.detach(), 1 - is_class, gradient, weight], [empty_like(x)], **attributes)[0], expected, 1e-5)


def test_focal_loss_of_probabilities(named):
    x, target, weight = torch.randn(5, 4).requires_grad_(), torch.randint(0, 4, (5,)), torch.rand(5, 1).expand(5, 4).contiguous()
    is_class = F.one_hot(target, 4).int()
    p = x.softmax(1)
    loss = (-ALPHA * (1 - p) ** GAMMA * p.log() * is_class * weight).sum(1, keepdim=True).expand(5, 4)
    attributes = dict(gamma=GAMMA, alpha=ALPHA, reduction="none")
    close(named("SoftmaxFocalLoss", [p.detach(), is_class, weight], [empty_like(x)], **attributes)[0], loss.detach(), 1e-5)
    expected, = torch.autograd.grad(loss[:, 0].sum(), x)
    close(named("SoftmaxFocalLossGrad", [p.detach(), is_class, torch.ones(5, 4), weight], [empty_like(x)], **attributes)[0], expected, 1e-5)


def test_a_bias_and_a_leaky_relu(named):
    x, bias, gradient = torch.randn(2, 3, 4).requires_grad_(), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    y = F.leaky_relu(x + bias, 0.1) * 1.5
    expected, = torch.autograd.grad(y, x, gradient)
    attributes = dict(negative_slope=0.1, scale=1.5)
    close(named("FusedBiasLeakyRelu", [x.detach(), bias], [empty_like(x)], **attributes)[0], y.detach(), 1e-6)
    close(named("FusedBiasLeakyReluGrad", [gradient, y.detach()], [empty_like(x)], **attributes)[0], expected, 1e-6)


@pytest.mark.parametrize("kind", [0, 1], ids=["collect", "distribute"])
def test_masks_of_spatial_attention(named, kind):
    height, width, mask_height, mask_width = 3, 4, 5, 3
    x = torch.randn(2, mask_height * mask_width, height, width).requires_grad_()
    rows = []
    spread = torch.zeros(2, height * width, height, width)
    for i, j, h, w in torch.cartesian_prod(*map(torch.arange, (mask_height, mask_width, height, width))).tolist():
        y, z = i + h - 2, j + w - 1
        if 0 <= y < height and 0 <= z < width:
            place = (y * width + z, h, w) if kind == 0 else (h * width + w, y, z)
            rows.append((place, (i * mask_width + j, h, w)))
    for place, source in rows:
        spread[(slice(None), *place)] = x.detach()[(slice(None), *source)]
    attributes = dict(psa_type=kind, num=2, h_feature=height, w_feature=width, h_mask=mask_height, w_mask=mask_width, half_h_mask=2,
                      half_w_mask=1)
    assert named("PSAMask", [x.detach()], [empty_like(spread)], **attributes)[0].equal(spread)
    gradient, expected = torch.randn(spread.shape), torch.zeros(x.shape)
    for place, source in rows:
        expected[(slice(None), *source)] = gradient[(slice(None), *place)]
    assert named("PSAMaskGrad", [gradient], [empty_like(x)], **attributes)[0].equal(expected)


def sampled(maps, x, y):
    """maps [C, H, W] at points [...] that lie within them: [C, ...]."""
    height, width = maps.shape[1:]
    grid = torch.stack([x * 2 / (width - 1) - 1, y * 2 / (height - 1) - 1], -1).reshape(1, 1, -1, 2)
    return F.grid_sample(maps[None], grid, align_corners=True).view(maps.shape[0], *x.shape)


def cells(bins, samples):
    """[bins, samples]: where a bin's samples are, in bins."""
    return torch.arange(bins).unsqueeze(1) + (torch.arange(samples) + 0.5) / samples


def test_regions_by_samples(named, call):
    maps, regions = torch.randn(2, 3, 7, 9), torch.tensor([[0, 1.0, 2, 6, 5], [1, 0, 0, 8.5, 6.5], [1, 3, 3, 3, 3]])
    attributes = dict(pooled_height=2, pooled_width=3, spatial_scale=0.75, sample_num=2, roi_end_mode=2)
    expected, by_maps = torch.empty(3, 3, 2, 3), torch.empty(maps.shape)
    call("aclnnROIAlign", maps, regions, 0.75, 2, 3, 2, 2, expected)
    assert named("ROIAlign", [maps, regions], [empty_like(expected)], **attributes)[0].equal(expected)
    call("aclnnROIAlignBackward", expected, regions, list(maps.shape), 3, 2, 0.75, 2, 2, by_maps)
    assert named("ROIAlignGrad", [expected, regions], [empty_like(maps)], xdiff_shape=list(maps.shape), **attributes)[0].equal(by_maps)


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("ratio", [0, 3])
def test_rotated_regions(named, clockwise, ratio):
    maps = torch.randn(2, 3, 12, 14).requires_grad_()
    regions = torch.tensor([[1, 8.0, 6, 6, 4, 0.6], [0, 7, 7, 5, 3.5, -1.1]])
    expected = []
    for image, x, y, width, height, angle in regions.tolist():
        angle = -angle if clockwise else angle
        samples = ratio or math.ceil(height / 2), ratio or math.ceil(width / 3)
        down = cells(2, samples[0]).view(2, 1, -1, 1) * height / 2 - height / 2
        across = cells(3, samples[1]).view(1, 3, 1, -1) * width / 3 - width / 2
        points = (down * math.sin(angle) + across * math.cos(angle) + x - 0.5, down * math.cos(angle) - across * math.sin(angle) + y - 0.5)
        expected.append(sampled(maps[int(image)], *points).mean((-1, -2)))
    expected = torch.stack(expected).permute(0, 2, 3, 1).contiguous()
    attributes = dict(pooled_h=2, pooled_w=3, spatial_scale=1.0, sampling_ratio=ratio, aligned=True, clockwise=clockwise)
    channels_last = maps.detach().permute(0, 2, 3, 1).contiguous()
    close(named("RoiAlignRotated", [channels_last, regions.t().contiguous()], [empty_like(expected)], **attributes)[0], expected.detach(), 1e-4)
    gradient = torch.randn(expected.shape)
    by_maps, = torch.autograd.grad(expected, maps, gradient)
    found = named("RoiAlignRotatedGrad", [gradient, regions.t().contiguous()], [empty_like(channels_last)],
                  y_grad_shape=list(channels_last.shape), **attributes)[0]
    close(found.permute(0, 3, 1, 2), by_maps, 1e-4)


@pytest.mark.parametrize("moved", [False, True])
def test_deformable_regions(named, moved):
    maps, offsets = torch.randn(2, 3, 12, 14).requires_grad_(), torch.randn(2, 2, 2, 3).clamp(-1.5, 1.5).requires_grad_()
    regions, gamma = torch.tensor([[1, 6.0, 6, 18, 16], [0, 8, 8, 20, 17]]), 0.1
    expected = []
    for (image, left, top, right, bottom), offset in zip(regions.tolist(), offsets if moved else torch.zeros(2, 2, 2, 3)):
        width, height = (right - left) / 2, (bottom - top) / 2
        samples = math.ceil(height / 2), math.ceil(width / 3)
        y = top / 2 - 0.5 + cells(2, samples[0]).view(2, 1, -1, 1) * height / 2 + gamma * height * offset[1].view(2, 3, 1, 1)
        x = left / 2 - 0.5 + cells(3, samples[1]).view(1, 3, 1, -1) * width / 3 + gamma * width * offset[0].view(2, 3, 1, 1)
        expected.append(sampled(maps[int(image)], *torch.broadcast_tensors(x, y)).mean((-1, -2)))
    expected = torch.stack(expected)
    attributes = dict(output_size=[2, 3], spatial_scale=0.5, sampling_ratio=0, gamma=gamma)
    given = [maps.detach(), regions, offsets.detach() if moved else None]
    close(named("DeformableRoiPool", given, [empty_like(expected)], **attributes)[0], expected.detach(), 1e-4)
    gradient = torch.randn(expected.shape)
    by_maps, *by_offsets = torch.autograd.grad(expected, [maps, offsets] if moved else [maps], gradient)
    found = named("DeformableRoiPoolGrad", [gradient, *given], [empty_like(maps), torch.empty(2, 2, 2, 3)],
                  **attributes)
    close(found[0], by_maps, 1e-4)
    for grad in by_offsets:
        close(found[1], grad, 1e-3)


def test_greatest_elements_of_regions(named):
    maps, regions = torch.randn(2, 3, 7, 9), torch.tensor([[0, 1.0, 2, 9, 9], [1, 4, 0, 15, 11], [0, 40, 40, 50, 50]])
    expected, places = torch.zeros(3, 3, 2, 3), torch.full((3, 3, 2, 3), -1, dtype=torch.int32)
    for r, (image, *sides) in enumerate(regions.tolist()):
        left, top, right, bottom = (side * 0.5 for side in (sides[0], sides[1], sides[2] + 1, sides[3] + 1))
        for i in range(2):
            for j in range(3):
                y = [max(0, min(7, round_to(top + k * (bottom - top) / 2))) for k, round_to in ((i, math.floor), (i + 1, math.ceil))]
                x = [max(0, min(9, round_to(left + k * (right - left) / 3))) for k, round_to in ((j, math.floor), (j + 1, math.ceil))]
                part = maps[int(image), :, y[0]:y[1], x[0]:x[1]]
                if part.numel():
                    expected[r, :, i, j] = part.amax((1, 2))
                    at = part.flatten(1).argmax(1)
                    places[r, :, i, j] = (at // (x[1] - x[0]) + y[0]) * 9 + at % (x[1] - x[0]) + x[0]
    attributes = dict(pooled_h=2, pooled_w=3, spatial_scale_h=0.5, spatial_scale_w=0.5, pool_channel=1)
    found = named("RoiPoolingWithArgMax", [maps, regions, torch.zeros(3, dtype=torch.int32)],
                  [empty_like(expected), torch.zeros_like(places)], **attributes)
    assert found[0].equal(expected) and found[1].equal(places)
    gradient, by_maps = torch.randn(expected.shape), torch.zeros(2, 3, 63)
    for r, image in enumerate(regions[:, 0].int()):
        there = places[r].flatten(1) >= 0
        by_maps[image].scatter_add_(1, places[r].flatten(1).long().clamp(min=0), gradient[r].flatten(1) * there)
    last = [t.permute(0, 2, 3, 1).contiguous() for t in (gradient, maps, places)]
    found = named("RoiPoolingGradWithArgMax", [last[0], last[1], regions, torch.zeros(3, dtype=torch.int32), last[2]], [empty_like(last[1])],
                  **attributes)[0]
    close(found.permute(0, 3, 1, 2), by_maps.view(maps.shape), 1e-5)


def test_wrong_regions_are_refused(named):
    with pytest.raises(RuntimeError, match="image 2 of 2"):
        named("ROIAlign", [torch.ones(2, 1, 3, 3), torch.tensor([[2.0, 0, 0, 1, 1]])], [torch.empty(1, 1, 1, 1)])
    with pytest.raises(RuntimeError, match="is not one of none, mean, sum"):
        named("SigmoidFocalLoss", [torch.ones(2, 1), torch.ones(2, 1).int()], [torch.empty(2, 1)], reduction="median")
