"""Operators of Ascend's own that the published client calls by name (aclopCompileAndExecute), against formulas on the CPU.

Run by test_published_client.py: python named_operators.py. Knows nothing of this repository.
"""
import math
import sys
import warnings

import torch
import torch.nn.functional as F
from ascend_operators import DEVICE, compare, same

import torch_npu

warnings.simplefilter("ignore")


def npu(*tensors):
    return [tensor.to(DEVICE) for tensor in tensors]


def corners(count):
    left_top = torch.rand(count, 2) * 8
    return torch.cat([left_top, left_top + torch.rand(count, 2) * 6 + 1], 1)


def centred(boxes):
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1).t().contiguous()


def overlaps(a, b):
    """(intersection over union, union, the hull's width and height) of boxes (..., 4)."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both
    return both / union, union, torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])


def by_corners(boxes):
    centre, size = boxes.t().split(2, 1)
    return torch.cat([centre - size / 2, centre + size / 2], 1)


def generalized(a, b):
    ratio, union, hull = overlaps(by_corners(a), by_corners(b))
    return (ratio - (hull.prod(-1) - union) / hull.prod(-1)).unsqueeze(1)


def distance(a, b):
    ratio, _, hull = overlaps(by_corners(a), by_corners(b))
    return (ratio - (a[:2] - b[:2]).square().sum(0) / hull.square().sum(-1)).unsqueeze(0)


def complete(a, b):
    turn = torch.atan(b[2] / b[3]) - torch.atan(a[2] / a[3])
    aspect = 4 / math.pi**2 * turn.square()
    ratio = overlaps(by_corners(a), by_corners(b))[0]
    return distance(a, b) - (aspect / (1 - ratio + aspect)).detach() * aspect


def boxes():
    a, b = centred(corners(9)), centred(corners(9))
    compare(lambda a, b: torch_npu.npu_giou(a, b, trans=True, is_cross=False, mode=0), generalized, a, b)
    compare(lambda a, b: torch_npu.npu_diou(a, b, trans=True, is_cross=False, mode=0), distance, a, b)
    compare(lambda a, b: torch_npu.npu_ciou(a, b, trans=True, is_cross=False, mode=0, atan_sub_flag=True), complete, a, b)
    a, b = corners(5), corners(3)
    same(torch_npu.npu_ptiou(*npu(a, b)), overlaps(a[None], b[:, None])[0], 2e-2)
    a, b = corners(6), corners(6)
    deltas = torch_npu.npu_bounding_box_encode(*npu(a, b), 0.1, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    size = (a[:, 2:] - a[:, :2] + 1)
    same(deltas[:, 1:2], ((b[:, 1:2] + b[:, 3:] - a[:, 1:2] - a[:, 3:]) / 2 / size[:, 1:]) / 0.1)
    same(torch_npu.npu_bounding_box_decode(a.to(DEVICE), deltas, 0.1, 0, 0, 0, 0.1, 0.1, 0.2, 0.2, (100, 100), 1e-3), b, 1e-2)
    stride = torch.full((6,), 8, dtype=torch.int32)
    encoded = torch_npu.npu_yolo_boxes_encode(*npu(a, b, stride), False)
    same(encoded[:, 3], ((b[:, 3] - b[:, 1]) / (a[:, 3] - a[:, 1])).log())
    same(encoded[:, 0], (((b[:, 0] + b[:, 2]) - (a[:, 0] + a[:, 2])) / 16 + 0.5).clamp(1e-6, 1 - 1e-6))


def suppression():
    given = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 9, 9], [50, 50, 51, 51]])
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.1])
    _, numbers, stays = torch_npu.npu_nms_with_mask(torch.cat([given, scores[:, None]], 1).to(DEVICE), 0.5)
    assert numbers.tolist() == [0, 1, 2, 3, 4] and stays.tolist() == [1, 0, 1, 0, 1]
    mixed = torch.tensor([3, 1, 0, 2, 4])
    chosen, count = torch_npu.npu_nms_v4(*npu(given[mixed], scores[mixed]), 4, *npu(torch.tensor(0.5), torch.tensor(0.3)),
                                         pad_to_max_output_size=True)
    assert chosen.tolist() == [2, 3, 0, 0] and count.item() == 2
    kept, values, kinds, counts = torch_npu.npu_batch_nms(given[None, :, None].half().to(DEVICE),
                                                          torch.stack([scores, scores.flip(0)], -1)[None].half().to(DEVICE), 0.3, 0.5, 3, 4)
    same(values, torch.tensor([[0.9, 0.9, 0.8, 0.7]]))
    assert counts.tolist() == [4] and sorted(kinds[0].tolist()[:2]) == [0, 1] and kept.shape == (1, 4, 4)
    turned = torch.tensor([[0.0, 0, 4, 2, 0], [0, 0, 2, 4, 90], [20, 0, 4, 2, 45]])
    numbers, count = torch_npu.npu_nms_rotated(*npu(turned, torch.tensor([0.5, 0.9, 0.7])), 0.5, 0, -1, 0)
    assert numbers.tolist() == [1, 2] and count.item() == 2


def turned_boxes():
    square = torch.tensor([[[0.0, 0, 1, 1, 0]]])
    diamond = torch.tensor([[[0.0, 0, 1, 1, 45], [0.5, 0, 1, 1, 0], [3, 3, 1, 1, 30]]])
    octagon = 2 * (math.sqrt(2) - 1)
    same(torch_npu.npu_rotated_overlaps(*npu(square, diamond), False), torch.tensor([[[octagon, 0.5, 0]]]), 1e-5)
    same(torch_npu.npu_rotated_iou(*npu(square, diamond), False, 0, True), torch.tensor([[[octagon / (2 - octagon), 1 / 3, 0]]]), 1e-5)
    a, b = (torch.cat([corners(4), torch.rand(4, 1) * 80], 1).t()[None].contiguous() for _ in range(2))
    weight = torch.tensor([1.0, 2, 3, 4, 5])
    deltas = torch_npu.npu_rotated_box_encode(*npu(a, b, weight))
    same(deltas[:, 4], 5 * (torch.deg2rad(b[:, 4]).tan() - torch.deg2rad(a[:, 4]).tan()), 1e-2)
    same(torch_npu.npu_rotated_box_decode(a.to(DEVICE), deltas, weight.to(DEVICE)), b, 1e-2)


def samples():
    given = torch.rand(50) > 0.5
    places, there = torch_npu.npu_random_choice_with_mask(given.to(DEVICE), 10, 1, 0)
    assert there.all().item() and given[places.cpu().long().flatten()].all() and len(set(places.flatten().tolist())) == 10
    labels = torch.tensor([1, 0, 1, 0, -1, 1, 0, 0], dtype=torch.int32)
    kept = torch_npu.npu_sub_sample(labels.to(DEVICE), 5, 0.4).cpu()
    assert (kept == 1).sum() == 2 and (kept == 0).sum() == 3 and ((kept == labels) | (kept == -1)).all()
    x = torch.rand(2, 8, 6, 6)
    regions = torch.tensor([[[0.0], [0], [0], [5], [5]], [[1.0], [0], [0], [5], [5]]])
    means = x.reshape(2, 2, 2, 2, 2, 3, 2, 3).mean((5, 7))   # image, channel, bin's row and column, halves of rows and columns
    expected = torch.stack([torch.stack([means[:, :, i, j, i, j] for j in range(2)], -1) for i in range(2)], -2)
    same(torch_npu.npu_ps_roi_pooling(*npu(x, regions), 1.0, 2, 2), expected)
    assigned = torch_npu.npu_grid_assign_positive(*npu(torch.zeros(4), torch.tensor([[0.9, 0.2, 0, 0.1], [0.1, 0.4, 0, 0.3]]),
                                                       torch.tensor([1, 1, 1, 0], dtype=torch.uint8), torch.tensor([0.9, 0.4, 0, 0.3]),
                                                       torch.tensor([0, 1, 0, 1], dtype=torch.int32), torch.tensor([0.9, 0.4]),
                                                       torch.tensor([0, 1], dtype=torch.int32)), 2, 0.5, 0.0, True)
    assert assigned.tolist() == [1, 2, 0, 0]


def training():
    grad, var, m, v = torch.randn(6), torch.randn(6), torch.randn(6), torch.rand(6)
    made = torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, grad.to(DEVICE), 1.0, 2.0, 0.01, out=tuple(npu(var, m, v)))
    clipped = grad / 2
    m, v = 0.9 * m + 0.1 * clipped, 0.99 * v + 0.01 * clipped.square()
    for one, other in zip(made, (var - 0.1 * (m / (v.sqrt() + 1e-6) + 0.01 * var), m, v)):
        same(one, other)
    labels = torch.rand(3, 4).softmax(1)
    compare(lambda x: torch_npu.npu_softmax_cross_entropy_with_logits(x, labels.to(DEVICE)), lambda x: F.cross_entropy(x, labels, reduction="none"),
            torch.randn(3, 4))
    x, weight, bias = torch.randn(3, 8), torch.randn(8), torch.randn(8)
    same(torch_npu.npu_layer_norm_eval(*npu(x), [8], *npu(weight, bias), 1e-5), F.layer_norm(x, (8,), weight, bias))
    x, lengths = torch.randn(2, 3, 6), torch.tensor([4, 6], dtype=torch.int32)
    found = torch_npu.npu_normalize_batch(*npu(x, lengths), 0)
    same(found[0], (x[0] - x[0, :, :4].mean(1, True)) / x[0, :, :4].std(1, keepdim=True))
    same(torch_npu.npu_normalize_batch(*npu(x, lengths), 1)[1], (x[1] - x[1].mean()) / x[1].std())
    filled = torch_npu.npu_masked_fill_range(*npu(torch.zeros(3, 6), *(torch.tensor([n], dtype=torch.int32) for n in ([1, 2, 5], [3, 3, 6]))),
                                             torch.tensor([7.0]).to(DEVICE), 1)
    assert filled.tolist() == [[0, 7, 7, 0, 0, 0], [0, 0, 7, 0, 0, 0], [0, 0, 0, 0, 0, 7]]
    signs = torch.randn(32)
    packed = torch_npu.npu_sign_bits_pack(signs.to(DEVICE), 2)
    assert packed.shape == (2, 2)
    same(torch_npu.npu_sign_bits_unpack(packed.flatten(), 1, torch.float32).flatten(), torch.where(signs >= 0, 1.0, -1.0))
    a, b = torch.randn(1, 32, 2, 2), torch.randn(1, 16, 2, 2)
    same(torch_npu.npu_stride_add(*npu(a, b), 1, 0, 1), a[:, 16:] + b)
    same(torch_npu.npu_sort_v2(x.to(DEVICE), -1, True), x.sort(-1, descending=True)[0])
    same(torch_npu.npu_scatter(torch.zeros(2, 3).to(DEVICE), torch.tensor([2, 0], dtype=torch.int32).to(DEVICE), torch.tensor([5.0, 6]).to(DEVICE), 1),
         torch.tensor([[0, 0, 5.0], [6, 0, 0]]))
    compare(lambda x: torch_npu.npu_max(x, 1)[0], lambda x: x.max(1)[0], torch.randn(3, 4))
    data = torch.rand(64)
    scale, offset = torch_npu.npu_ifmr(*npu(data, data.min().reshape(1), data.max().reshape(1), torch.arange(1, 129, dtype=torch.int32)),
                                       1.0, 1.0, 0.7, 1.3, 0.01, True)
    stored = ((data / scale.cpu()).round() + offset.cpu()).clamp(-128, 127)
    same((stored - offset.cpu()) * scale.cpu(), data, 1 / 255)
    mask, softmax, dropped = torch_npu.npu_dropout_with_add_softmax(*npu(torch.randn(64, 64), torch.randn(64, 64)), 0.5, 0.25, -1)
    stays = mask.cpu().flatten()[:4096].reshape(64, 64)
    same(dropped, softmax.cpu() * stays / 0.75)
    assert 0.7 < stays.float().mean() < 0.8 and abs(softmax.sum().item() - 64) < 1e-2


def convolution(name, on_cpu, x, weight, *settings):
    """The operator, and the one that computes its gradients: the client's own autograd does not reach it in all of these."""
    wanted = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    expected = on_cpu(*wanted)
    grad = torch.randn(expected.shape)
    same(getattr(torch_npu, name)(*npu(x, weight), None, *settings), expected)
    found = getattr(torch_npu, f"{name}_backward")(*npu(x, grad, weight), *settings, [True, True, False])
    for one, other in zip(found, torch.autograd.grad(expected, wanted, grad)):
        same(one, other)


def convolutions():
    convolution("npu_conv2d", lambda x, w: F.conv2d(x, w, None, (2, 1), 1, (1, 2), 2), torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3),
                (2, 1), (1, 1), (1, 2), 2)
    convolution("npu_conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, None, 2, (1, 0), (1, 0), 2), torch.randn(2, 4, 7, 6),
                torch.randn(4, 3, 3, 2), (1, 0), (1, 0), (2, 2), (1, 1), 2)
    convolution("npu_conv3d", lambda x, w: F.conv3d(x, w, None, 1, 1), torch.randn(1, 4, 5, 5, 5), torch.randn(2, 4, 3, 3, 3),
                (1, 1, 1), (1, 1, 1), (1, 1, 1), 1)
    x, weight = torch.randn(1, 4, 6, 6), torch.randn(3, 4, 3, 3)
    offset = torch.cat([torch.zeros(1, 18, 4, 4), torch.ones(1, 9, 4, 4)], 1)   # no distances, factors of one
    shape = ([3, 3], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1])
    expected = F.conv2d(x.requires_grad_(), weight)
    found, between = torch_npu.npu_deformable_conv2d(*npu(x.detach(), weight, offset), None, *shape)
    same(found, expected)
    grad = torch.randn(expected.shape)
    made = torch_npu.npu_deformable_conv2dbk(*npu(x.detach(), grad), between, *npu(weight, offset), *shape)
    same(made[0], torch.autograd.grad(expected, x, grad)[0])


def indices_and_masks():
    index, labels = torch.tensor([[0, 2], [1, 0]]), torch.tensor([1, 0, 3], dtype=torch.int32)
    compare(lambda x: torch_npu.npu_gather_sparse_index(x, index.to(DEVICE)), lambda x: x[index], torch.randn(3, 4))
    same(torch_npu.npu_one_hot(labels.to(DEVICE), -1, 5), F.one_hot(labels.long(), 5))
    target = torch.tensor([1, 0, 6, 2, 2])
    compare(lambda x: torch_npu.npu_cross_entropy_loss(x, target.to(DEVICE))[0], lambda x: F.cross_entropy(x, target).reshape(1), torch.randn(5, 7))
    scores, nothing = torch.randn(2, 2, 32, 32).half(), torch.zeros(2, 1, 32, 32, dtype=torch.bool)
    same(torch_npu.npu_scaled_masked_softmax(*npu(scores, nothing), 0.5, True),
         (scores.float() * 0.5).masked_fill(torch.ones(32, 32, dtype=torch.bool).triu(1), -1e4).softmax(-1), 1e-2)
    x, mask = torch.randn(16, 8), torch.randint(0, 256, (16,), dtype=torch.uint8)
    stays = ((mask.unsqueeze(1) >> torch.arange(8)) & 1).bool().reshape(16, 8)
    same(torch_npu.npu_dropout_do_mask(*npu(x, mask), 0.5)[0], torch.where(stays, 2 * x, 0.0))


def steps_and_checks():
    grad, var, m, v = torch.randn(6), torch.randn(6), torch.randn(6), torch.rand(6)
    made = torch_npu.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 1e-6, grad.to(DEVICE), False, True, out=tuple(npu(var, m, v)))
    first, second = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad.square()
    ahead = 0.9 * first + 0.1 * grad
    for one, other in zip(made, (var - 0.1 * 0.01 ** 0.5 / 0.1 * ahead / (second.sqrt() + 1e-6), first, second)):
        same(one, other)
    made = torch_npu.npu_apply_adam_w(0.9, 0.99, 0.1, 0.01, 0.9, 0.99, 1e-6, grad.to(DEVICE), None, False, False, out=tuple(npu(var, m, v)))
    for one, other in zip(made, (var * (1 - 0.001) - 0.1 * (first / 0.19) / ((second / 0.0199).sqrt() + 1e-6), first, second)):
        same(one, other)
    state = npu(torch.ones(3), torch.tensor([50.0]), torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([2.0]), torch.tensor([9]).int())
    level = torch_npu._npu_silent_check(*state, 7, 1e4, 100.0, 1e2, 10.0)
    assert level.item() == 2 and state[0].tolist() == [1] * 3 and [x.item() for x in state[2:5]] == [50.0, 0.5, 50.0]


def older_attention():
    q, k, v, mask = (torch.randn(1, 2, 16, 16).half() for _ in range(4))
    softmax = ((q.float() @ k.float().mT) * 0.3 + mask.float()).softmax(-1)
    found = torch_npu.npu_fused_attention_score(*npu(q, k, v, mask), 0.3, 1.0)
    same(found, (softmax @ v.float()).transpose(1, 2).reshape(16, 32), 1e-2)


def projections():
    """Of a layer norm: queries, keys and values of 2 heads."""
    x, gamma, beta, *kernels = (torch.randn(shape).half() for shape in ((32, 32), (32,), (32,), (32, 32), (32, 32), (32, 32), (32,), (32,), (32,)))
    found = torch_npu.npu_fused_attention_layernorm_qkv_fwd(*npu(x, *kernels[:3], gamma, beta, *kernels[3:]), 16, 2, 1e-5)
    normal = F.layer_norm(x.float(), (32,), gamma.float(), beta.float(), 1e-5)
    same(found[0], normal, 2e-2)
    for one, kernel, bias in zip(found[1:4], kernels[:3], kernels[3:]):
        same(one, (normal @ kernel.float() + bias.float()).view(2, 16, 2, 16).transpose(1, 2), 0.1)
    same(found[4].flatten(), x.float().mean(-1), 1e-2)


def latent_attention():
    """What is written into the caches, and no queries of another dtype, by the operator's name."""
    x, down, up, to_latent, keys = (torch.randn(shape).bfloat16() * 0.3 for shape in ((5, 16), (16, 12), (12, 48), (2, 8, 32), (16, 48)))
    gammas, turns = (torch.ones(12).bfloat16(), torch.ones(32).bfloat16()), (torch.zeros(5, 16).bfloat16(), torch.ones(5, 16).bfloat16())
    caches = npu(torch.zeros(3, 4, 1, 32).bfloat16(), torch.zeros(3, 4, 1, 16).bfloat16())
    found = torch_npu.npu_mla_prolog(*npu(x, down, up, to_latent, keys, *gammas, *turns, torch.tensor([0, 7, 2, 5, 11])), *caches)
    both = x.float() @ keys.float()
    normal = both[:, :32] * (both[:, :32].square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    same(caches[0].flatten(0, 2)[[0, 7, 2, 5, 11]], normal, 0.05)
    assert found[0].shape == (5, 2, 32) and found[0].dtype == torch.bfloat16


def lengths():
    """Of sequences, the longest first: one that has ended keeps its state."""
    x, weight, bias, h, c = torch.randn(3, 2, 5), torch.randn(9, 16), torch.randn(16), torch.randn(1, 2, 4), torch.randn(1, 2, 4)

    def run(lengths, flag):
        return torch_npu.npu_lstm(*npu(x, weight, bias, lengths, h, c), True, 1, 0.0, False, False, False, flag, False)

    whole = run(torch.zeros(0, dtype=torch.int32), False)
    same(run(torch.tensor([3, 3], dtype=torch.int32), True)[0], whole[0].cpu())
    cut = run(torch.tensor([3, 1], dtype=torch.int32), True)
    same(cut[0][:, 0], whole[0][:, 0].cpu())
    same(cut[0][0, 1], whole[0][0, 1].cpu())


def filters_of_one_channel():
    x, weight, grad = torch.randn(2, 3, 6, 6), torch.randn(3, 1, 3, 3), torch.randn(2, 3, 4, 4)
    wanted = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    expected = torch.autograd.grad(F.conv2d(*wanted, groups=3), wanted, grad)
    found = torch_npu._conv_depthwise2d_backward(*npu(grad, x, weight), [3, 3], [1, 1], [0, 0], [1, 1], [True, True])
    for one, other in zip(found, expected):
        same(one, other)


def overflow():
    """Of a device that saturates: the program is run with INF_NAN_MODE_FORCE_DISABLE=1."""
    status = torch_npu.npu_alloc_float_status(torch.zeros(8).to(DEVICE))
    assert status.tolist() == [0.0] * 8
    torch_npu.npu_clear_float_status(status)
    large = torch.full((4,), 60000.0).half().to(DEVICE)
    assert torch_npu.npu_get_float_status(status)[0].item() == 0
    assert (large * 2).tolist() == [65504.0] * 4
    assert torch_npu.npu_get_float_status(status)[0].item() == 1
    torch_npu.npu_clear_float_status(status)
    assert torch_npu.npu_get_float_status(status)[0].item() == 0


if __name__ == "__main__":
    torch.manual_seed(0)
    if sys.argv[1:] == ["overflow"]:
        overflow()
        print("passed")
        sys.exit()
    for subject in (boxes, suppression, turned_boxes, samples, training, convolutions, indices_and_masks, steps_and_checks,
                    older_attention, projections, latent_attention, lengths, filters_of_one_channel):
        subject()
    torch.npu.synchronize()
    print("passed")
