"""torch_npu.contrib.function: values by hand."""
import math

import pytest
import torch
from torch.nn import functional

import torch_npu
from torch_npu.contrib import function, matmul_transpose, npu_fused_attention, npu_fused_attention_with_layernorm


def same(actual, expected, **options):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), **options)


A = torch.tensor([[0.0, 0, 10, 10], [5, 5, 20, 20]])
B = torch.tensor([[0.0, 0, 10, 10], [2, 2, 8, 12], [30, 30, 40, 40]])
E = 0.01   # the operator's sides are longer by it
BOTH = torch.tensor([[(10 + E) ** 2, (6 + E) * (8 + E), 0.0], [(5 + E) ** 2, (3 + E) * (7 + E), 0.0]])
AREAS = torch.tensor([(10 + E) ** 2, (15 + E) ** 2]), torch.tensor([(10 + E) ** 2, (6 + E) * (10 + E), (10 + E) ** 2])
IOU = BOTH / (AREAS[0][:, None] + AREAS[1] - BOTH)


@pytest.mark.parametrize("mode", ["iou", "ptiou"])
def test_iou(mode):
    same(function.npu_iou(A.npu(), B.npu(), mode=mode), IOU)
    same(function.npu_iou(A.npu() / 100, B.npu() / 100, mode=mode, is_normalized=True), IOU, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="iof"):
        function.npu_iou(A.npu(), B.npu(), mode="iof")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_iou_of_empty_and_of_large_boxes(dtype):
    """Detectors pad their boxes with zeros and look for overlaps that are at least 0; an area of float16 ends at 65504."""
    boxes = torch.tensor([[0.0, 0, 0, 0], [640, 640, 640, 640], [0, 0, 640, 640]], dtype=dtype).npu()
    for operator in (torch_npu.npu_iou, torch_npu.npu_ptiou):
        for mode in (0, 1):
            found = operator(boxes, boxes, mode)
            assert found.dtype == dtype and torch.equal(found.diagonal().cpu(), torch.ones(3, dtype=dtype))
            assert ((found >= 0) & (found <= 1)).all()


def test_iou_of_whole_numbers_is_a_fraction():
    found = function.npu_iou(A.int().npu(), B.int().npu())
    assert found.dtype == torch.float32
    same(found, function.npu_iou(A.npu(), B.npu()))


def test_scores_at_the_threshold_are_not_above_it():
    """A threshold such as 0.1 is a number of the scores' dtype, as CANN's attribute is."""
    apart = torch.tensor([[0.0, 0, 1, 1], [5, 5, 6, 6]])[None, :, None]
    assert torch_npu.npu_batch_nms(apart.npu(), torch.tensor([[[0.9], [0.1]]]).npu(), 0.1, 0.5, 5, 5)[3].tolist() == [1]


def test_boxes_and_scores_of_other_images_are_told_apart():
    with pytest.raises(ValueError, match="boxes .* and scores"):
        torch_npu.npu_batch_nms(torch.rand(1, 2, 1, 4).npu(), torch.rand(2, 2, 1).npu(), 0.1, 0.5, 5, 5)


def test_suppression_of_many_boxes():
    """The choice that comparing box by box makes, of a detector's two thousand; the classes keep no more than they may."""
    torch.manual_seed(0)
    boxes = torch.rand(2000, 4) * 50
    boxes[:, 2:] += boxes[:, :2] + 1
    scores = torch.rand(2000).sort(descending=True).values
    width, height = ((torch.minimum(boxes[:, None, i + 2], boxes[:, i + 2]) - torch.maximum(boxes[:, None, i], boxes[:, i])).clamp(0)
                     for i in (0, 1))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    over = (width * height / (area + area[:, None] - width * height) > 0.5).tolist()
    kept = []
    for i in range(2000):
        if not any(over[i][j] for j in kept):
            kept.append(i)
    mask = torch_npu.npu_nms_with_mask(torch.cat([boxes, scores[:, None]], 1).npu(), 0.5)[2]
    assert mask.nonzero().flatten().tolist() == kept
    found, best, _, count = torch_npu.npu_batch_nms(boxes[None, :, None].npu(), scores[None, :, None].npu(), 0.0, 0.5, 20, 30)
    same(found[0, :20], boxes[kept[:20]])
    assert count.tolist() == [20] and best[0, 20:].tolist() == [0.0] * 10


def test_pairs_of_boxes():
    a = torch.tensor([[5.0, 5, 10, 10]])          # 0 0 10 10
    b = torch.tensor([[10.0, 5, 10, 10]])         # 5 0 15 10
    iou, hull, distance = 50 / 150, 150, 25 / (15**2 + 10**2)
    same(function.npu_giou(a.npu(), b.npu()), torch.tensor([[iou - (hull - 150) / hull]]))
    assert function.npu_giou(*(torch.rand(8, 4).npu() for _ in range(2))).shape == (8, 1)
    assert function.npu_giou(*(torch.rand(4, 8).npu() for _ in range(2)), is_permuted=False).shape == (8, 1)
    with pytest.raises(ValueError, match="pairs"):
        function.npu_giou(a.npu(), torch.rand(2, 4).npu())
    assert torch_npu.npu_giou(torch.rand(4, 5).npu(), torch.rand(4, 5).npu(), trans=True).shape == (5, 1)   # a column
    same(function.npu_diou(a.npu().t(), b.npu().t()), torch.tensor([[iou - distance]]))
    same(function.npu_ciou(a.npu().t(), b.npu().t()), torch.tensor([[iou - distance]]))  # same aspect ratio


def test_box_coder_there_and_back():
    boxes, truth = A, A + torch.tensor([1.0, 2, 3, 4])
    code = function.npu_bbox_coder_encode_xyxy2xywh(boxes.npu(), truth.npu(), means=[0.0] * 4, stds=[0.1, 0.1, 0.2, 0.2])
    back = function.npu_bbox_coder_decode_xywh2xyxy(boxes.npu(), code, means=[0.0] * 4, stds=[0.1, 0.1, 0.2, 0.2])
    same(back, truth, rtol=1e-4, atol=1e-3)
    clipped = function.npu_bbox_coder_decode_xywh2xyxy(boxes.npu(), code, stds=[0.1, 0.1, 0.2, 0.2], max_shape=(9, 7))
    same(clipped, torch.minimum(truth, torch.tensor([6.0, 8, 6, 8])), rtol=1e-4, atol=1e-3)


def test_responsible_flags():
    flags = function.npu_single_level_responsible_flags((2, 3), torch.tensor([[8.0, 0, 16, 4]]).npu(), (8, 8), 2)
    assert flags.dtype == torch.uint8 and flags.tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_multiclass_nms():
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.3, 0.0], [0.2, 0.7, 0.0]])
    found, labels = function.npu_multiclass_nms(boxes.half().npu(), scores.half().npu(), max_num=4)
    # class 0 keeps boxes 0 and 2, class 1 boxes 2 and 1
    expected = torch.tensor([[0.0, 0, 10, 10, 0.9], [20, 20, 30, 30, 0.7], [1, 1, 10, 10, 0.3], [20, 20, 30, 30, 0.2]])
    same(found, expected.half(), rtol=1e-3, atol=1e-3)
    assert labels.tolist() == [0, 1, 1, 0]


def test_condition_index_put():
    x = torch.randn(3, 4)
    for condition in (x > 0, torch.tensor([True, False, True])):
        y = x.npu()
        expected = x.clone()
        expected[condition] = 9.0
        same(function.npu_fast_condition_index_put(y, condition.npu(), 9.0), expected)
        same(y, x)
    with pytest.raises(TypeError, match="bool"):
        function.npu_fast_condition_index_put(x.npu(), torch.tensor([1, 0, 1]).npu(), 9.0)


def test_roll_and_matmul_transpose():
    x, y = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    same(function.roll(x.npu(), [1, -2], [2, 3]), x.roll([1, -2], [2, 3]))
    same(matmul_transpose(x.npu(), y.npu()), x @ y.transpose(-1, -2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_add_softmax_dropout(training):
    mask, scores = torch.randn(2, 2, 16, 16).half(), torch.randn(2, 2, 16, 16).half()
    out = function.fuse_add_softmax_dropout(training, torch.nn.Dropout(0.0), mask.npu(), scores.npu(), 64, p=0.0)
    same(out, torch.softmax(scores.float() / math.sqrt(64) + mask.float(), -1).half(), rtol=5e-3, atol=5e-3)


def test_add_softmax_dropout_of_other_shapes_is_the_given_layer():
    scores = torch.zeros(2, 2, 16, 16, device="npu")
    assert not function.fuse_add_softmax_dropout(True, torch.nn.Dropout(1.0), scores, scores, 64, p=0.0).any()


def test_fused_attention():
    torch.manual_seed(0)
    batch, heads, length, hidden = 2, 2, 3, 8
    x, mask = torch.randn(batch * length, hidden), torch.zeros(batch, heads, length, length)
    mask[..., -1] = -10000.0
    kernels, biases = torch.randn(3, hidden, hidden), torch.randn(3, hidden)

    def attention(rows):
        q, k, v = ((rows @ w + b).view(batch, length, heads, -1).transpose(1, 2) for w, b in zip(kernels, biases))
        return functional.scaled_dot_product_attention(q, k, v, mask, scale=0.5).transpose(1, 2).reshape(batch * length, hidden)

    arguments = [x.npu(), mask.npu(), *kernels.npu(), *biases.npu()]
    same(npu_fused_attention(*arguments, 0.5), attention(x), rtol=1e-3, atol=1e-3)
    gamma, beta = torch.randn(hidden), torch.randn(hidden)
    norm, out = npu_fused_attention_with_layernorm(*arguments, gamma.npu(), beta.npu(), 0.5)
    expected = functional.layer_norm(x, (hidden,), gamma, beta)
    same(norm, expected, rtol=1e-3, atol=1e-3)
    same(out, attention(expected), rtol=1e-3, atol=1e-3)


def test_responsible_flags_of_boxes_beyond_the_map():
    boxes = torch.tensor([[0.0, 0, 20, 20], [300, 300, 500, 500], [90, 10, 130, 20]])  # cells (0, 0), beyond, (0, 3) of 4 columns
    found = function.npu_single_level_responsible_flags((3, 4), boxes.npu(), (32, 32), 2)
    assert found.view(3, 4, 2)[..., 0].cpu().nonzero().tolist() == [[0, 0], [0, 3]] and found.sum() == 4


def test_dropout_at_its_published_places():
    x = torch.ones(64, 64, device="npu")
    torch.npu.manual_seed(1)
    kept = torch.nn.DropoutWithByteMask(0.5)(x)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert set(functional.dropout_with_byte_mask(x, 0.5).unique().tolist()) == {0.0, 2.0}
    assert torch.equal(torch.nn.DropoutWithByteMask(0.5).eval()(x), x)
