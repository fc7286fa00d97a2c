"""The operators of detection: known values, and what their definitions say."""

import pytest
import torch

import torch_npu


def npu(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device="npu")


def test_rotated_boxes_known_values():
    anchors = npu([[30.69], [32.6], [45.94], [59.88], [-44.53]])
    boxes = npu([[30.44], [18.72], [33.22], [45.56], [8.5]])
    weight = torch.ones(5, device="npu")
    found = torch_npu.npu_rotated_box_encode(anchors, boxes, weight)
    expected = torch.tensor([-0.4253, -0.5166, -1.7021, -0.0162, 1.1328])
    torch.testing.assert_close(found.cpu().flatten(), expected, rtol=1e-3, atol=1e-3)
    back = torch_npu.npu_rotated_box_decode(anchors, found, weight)
    torch.testing.assert_close(back.cpu(), boxes.cpu(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("pad", [False, True])
def test_the_choice_has_room_for_all_that_were_asked_for(device, pad):
    boxes = torch.tensor([[0.0, 0, 4, 4], [10, 10, 14, 14], [20, 20, 24, 24]]).to(device)
    scores, overlap, least = (torch.tensor(x).to(device) for x in ([0.2, 0.9, 0.05], 0.5, 0.1))
    chosen, count = torch_npu.npu_nms_v4(boxes, scores, 5, overlap, least, pad_to_max_output_size=pad)
    assert chosen.tolist() == [1, 0, 0, 0, 0] and count.item() == 2


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_overlaps_of_pairs_stand_in_each_row(device):
    torch.manual_seed(0)
    a, b = (torch.rand(2, 4, 5).mul(10).to(device) for _ in range(2))
    each, pairs = torch_npu.npu_rotated_iou(a, b), torch_npu.npu_rotated_iou(a, b, is_cross=False)
    assert pairs.shape == (2, 4, 4)
    torch.testing.assert_close(pairs, each.diagonal(dim1=1, dim2=2).unsqueeze(1).expand(-1, 4, -1))


def test_anchor_response_flags_mark_the_cell_of_a_centre():
    boxes = npu([0, 0, 8, 4], [100, 100, 200, 200])  # centres (4, 2) and beyond the map
    flags = torch_npu.npu_anchor_response_flags(boxes, [3, 4], [2, 2], 2)
    assert flags.dtype == torch.uint8 and flags.view(3, 4, 2)[..., 0].cpu().nonzero().tolist() == [[1, 2], [2, 3]]
    assert torch.equal(flags.view(12, 2)[:, 0], flags.view(12, 2)[:, 1])


def test_yolo_boxes_encode():
    found = torch_npu.npu_yolo_boxes_encode(npu([0, 0, 8, 8]), npu([2, 0, 6, 16]), npu(8, dtype=torch.int32))
    expected = torch.tensor([[0.5, 1 - 1e-6, torch.tensor(0.5).log(), torch.tensor(2.0).log()]])
    torch.testing.assert_close(found.cpu(), expected)


def test_random_choice_repeats_by_seed():
    x = torch.rand(6, 7, device="npu") > 0.5
    indices, valid = torch_npu.npu_random_choice_with_mask(x, 8, 3, 1)
    assert indices.dtype == torch.int32 and indices.shape == (8, 2) and bool(valid.all())
    assert bool(x[indices[:, 0].long(), indices[:, 1].long()].all())
    assert torch.unique(indices.cpu(), dim=0).shape[0] == 8
    assert torch.equal(indices, torch_npu.npu_random_choice_with_mask(x, 8, 3, 1)[0])
    indices, valid = torch_npu.npu_random_choice_with_mask(npu(True, False, True, dtype=torch.bool), 4, 1)
    assert valid.tolist() == [True, True, False, False] and sorted(indices[:2, 0].tolist()) == [0, 2]
    assert indices[2:].tolist() == [[0], [0]]
    assert torch_npu.npu_random_choice_with_mask(x, 0)[0].shape[0] == int(x.sum())


def test_sub_sample_keeps_a_fraction():
    labels = npu(*[1] * 6, *[0] * 10, *[-1] * 4, dtype=torch.int32)
    found = torch_npu.npu_sub_sample(labels, 8, 0.5)
    assert [int((found == n).sum()) for n in (1, 0, -1)] == [4, 4, 12]
    assert bool((labels[found >= 0] == found[found >= 0]).all())
    found = torch_npu.npu_sub_sample(labels, 100, 0.5)
    assert torch.equal(found, labels)


def test_ps_roi_pooling_takes_a_channel_a_bin():
    maps = torch.arange(8.0).view(1, 8, 1, 1).expand(1, 8, 4, 4).contiguous().npu()
    out = torch_npu.npu_ps_roi_pooling(maps, npu([[0], [0], [0], [3], [3]]), 1.0, 2, 2)
    assert out.flatten().tolist() == list(range(8))
    assert not torch_npu.npu_ps_roi_pooling(maps, npu([[6], [0], [0], [3], [3]]), 1.0, 2, 2).any()


@pytest.mark.parametrize("modulated", [False, True])
def test_deformable_convolution_without_offsets_is_a_convolution(modulated):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3), torch.randn(6)
    offset = torch.zeros(2, (27 if modulated else 18) * 2, 4, 6)
    if modulated:
        offset[:, 36:] = 0.5
    arguments = ([3, 3], [1, 1, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], 2, 2, modulated)
    own = [t.npu().requires_grad_() for t in (x, weight, offset, bias)]
    out, samples = torch_npu.npu_deformable_conv2d(*own, *arguments)
    expected = torch.nn.functional.conv2d(x, weight * (0.5 if modulated else 1), bias, (2, 1), 1, 1, 2)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert samples.shape == (2, 4, 12, 18)
    grad = torch.randn_like(out)
    out.backward(grad)
    found = torch_npu.npu_deformable_conv2dbk(own[0].detach(), grad, samples.detach(), own[1].detach(), own[2].detach(), *arguments)
    for ours, tensor in zip(found, (own[0], own[1], own[2], own[3])):
        torch.testing.assert_close(ours, tensor.grad, rtol=1e-4, atol=1e-4)


def test_deformable_convolution_moves_its_samples():
    x = torch.arange(25.0).view(1, 1, 5, 5).npu()
    offset = torch.zeros(1, 2, 5, 5)
    offset[:, 0], offset[:, 1] = 0.5, 1.0  # half a pixel to the right, one down
    out = torch_npu.npu_deformable_conv2d(x, torch.ones(1, 1, 1, 1).npu(), offset.npu(), None, [1, 1], [1] * 4, [0] * 4, modulated=False)[0]
    assert out[0, 0, 0].tolist() == [5.5, 6.5, 7.5, 8.5, 4.5] and not out[0, 0, 4].any()


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_complete_overlaps_of_all_pairs_have_the_truth_first(device):
    a, b = torch.rand(4, 5).cumsum(0).to(device), torch.rand(4, 3).cumsum(0).to(device)
    found = torch_npu.npu_ciou(a, b)
    assert found.shape == (3, 5)
    single = torch_npu.npu_ciou(a[:, 1:2].contiguous(), b[:, 2:].contiguous(), is_cross=False)
    assert single.shape == (1, 1)
    torch.testing.assert_close(found[2, 1], single[0, 0])


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_masks_of_boxes_with_more_columns(device):
    boxes = torch.tensor([[0.0, 1, 2, 3, 0.6, 9, 9, 9], [6.0, 7, 8, 9, 0.4, 9, 9, 9]], device=device)
    kept, places, mask = torch_npu.npu_nms_with_mask(boxes, 0.5)
    assert torch.equal(kept, boxes[:, :5]) and places.tolist() == [0, 1] and mask.tolist() == [1, 1]


def test_results_of_crossed_boxes_and_pooled_regions_are_contiguous():
    boxes = torch.rand(4, 5).npu()
    boxes[2:] += 2
    assert torch_npu.npu_ciou(boxes, boxes[:, :3].contiguous()).is_contiguous()
    regions = torch.tensor([[0.0, 1, 1, 5, 5]] * 4).t().unsqueeze(0).contiguous().npu()
    assert torch_npu.npu_ps_roi_pooling(torch.randn(1, 8, 6, 7).npu(), regions, 0.5, 2, 2).is_contiguous()
