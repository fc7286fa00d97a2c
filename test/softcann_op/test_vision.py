"""What vision libraries call by name or by aclnn, against plain arithmetic: points, regions of features, losses, deformable attention."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import close
from test_named import NamedClient

INT = torch.int32


@pytest.fixture(scope="module")
def named(call, libraries):
    return NamedClient(call, libraries)


def test_points_of_a_ball(named):
    points, centres, samples = torch.rand(2, 30, 3), torch.rand(2, 5, 3), 4
    points[0, 7] = centres[0, 0]    # belongs to the ball, however large the hole
    centres[1, 1] = 9               # near nothing
    out = torch.full((5, 2, samples), -1, dtype=INT)
    named("BallQuery", [points.transpose(1, 2).contiguous(), centres.transpose(0, 1).contiguous()], [out], min_radius=0.2,
          max_radius=0.5, sample_num=samples)
    distance = (centres.unsqueeze(2) - points.unsqueeze(1)).square().sum(-1)
    held = distance.eq(0) | (distance.ge(0.2 ** 2) & distance.lt(0.5 ** 2))
    for batch in range(2):
        for centre in range(5):
            found = held[batch, centre].nonzero().flatten().tolist()
            expected = (found[:samples] + [found[0]] * samples)[:samples] if found else [0] * samples
            assert out[centre, batch].tolist() == expected


def test_distances_of_sets(named, call):
    first, second = torch.randn(2, 6, 2, requires_grad=True), torch.randn(2, 4, 2, requires_grad=True)
    made = named("ChamferDistance", [t.detach().permute(2, 0, 1).contiguous() for t in (first, second)],
                 [torch.empty(2, 6), torch.empty(2, 4), torch.empty(2, 6, dtype=INT), torch.empty(2, 4, dtype=INT)])
    distance = (first.unsqueeze(2) - second.unsqueeze(1)).square().sum(-1)
    nearest = [distance.min(2), distance.min(1)]
    for i, expected in enumerate(nearest):
        close(made[i], expected.values)
        assert made[2 + i].long().equal(expected.indices)
    grads, out = [torch.randn(2, 6), torch.randn(2, 4)], [torch.full((2, 6, 2), 7.0), torch.full((2, 4, 2), 7.0)]
    torch.autograd.backward([n.values for n in nearest], grads)
    call("aclnnChamferDistanceBackward", first.detach(), second.detach(), made[2], made[3], *grads, *out)
    close(out[0], first.grad)
    close(out[1], second.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_interpolation_between_three_points(named, call, dtype):
    points, numbers = torch.randn(2, 5, 3).to(dtype), torch.randint(0, 5, (2, 6, 3), dtype=INT)
    weights = torch.rand(2, 6, 3).to(dtype)
    share = torch.zeros(2, 6, 5).scatter_add(2, numbers.long(), weights.float())
    for sizes in (2, 6, 3), (2, 3, 6):      # whatever the client says: the memory is [B, N, C]
        out, = named("ThreeInterpolate", [points, numbers, weights], [torch.empty(sizes, dtype=dtype)])
        close(out.view(2, 6, 3).float(), share @ points.float(), 1e-5 if dtype == torch.float32 else 2e-3)
    grad, out = torch.randn(2, 3, 6, 1).to(dtype), torch.empty(2, 3, 5, 1, dtype=dtype)
    call("aclnnThreeInterpolateBackward", grad, numbers, weights, 5, out)
    close(out.squeeze(3).float(), grad.squeeze(3).float() @ share, 1e-5 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("most", [50, 3])
def test_cells_of_points(named, most):
    points = torch.rand(40, 4) * torch.tensor([5.0, 3.0, 2.0, 1.0]) - 0.5
    sides, range = torch.tensor([1.0, 0.5, 1.0]), torch.tensor([0.0, 0.0, 0.0, 4.0, 2.0, 1.0])
    made = named("Voxelization", [points, sides, range],
                 [torch.full((most, 2, 4), 7.0), torch.full((most, 3), 7, dtype=INT), torch.full((most,), 7, dtype=INT), torch.zeros(1, dtype=INT)],
                 max_points=2, max_voxels=most, deterministic=True)
    cells = {}
    for point in points:
        where = (point[:3] / sides).floor().int().tolist()
        if all(0 <= i < n for i, n in zip(where, (4, 4, 1))) and (tuple(where) in cells or len(cells) < most):
            cells.setdefault(tuple(where), []).append(point)
    assert made[3].item() == len(cells)
    for i, (where, held) in enumerate(cells.items()):
        assert made[1][i].tolist() == list(where[::-1]) and made[2][i] == min(2, len(held))
        assert made[0][i].equal(F.pad(torch.stack(held[:2]), (0, 0, 0, 2 - made[2][i].item())))
    assert not any(t[len(cells):].any() for t in made[:3])


def test_points_in_quadrangles(named):
    points = torch.rand(60, 2) * 4 - 2
    turned = [[(math.cos(a), math.sin(a)) for a in (start, start + 1.2, start + 2.5, start + 4.5)] for start in (0.3, 2.0)]
    polygons = torch.tensor(turned + [corners[::-1] for corners in turned]) * 1.5      # either way around
    out, = named("PointsInPolygons", [points, polygons.flatten(1).t().contiguous()], [torch.full((60, 4), 7.0)])
    side, way = polygons.roll(-1, 1) - polygons, points[:, None, None] - polygons
    turn = side[..., 0] * way[..., 1] - side[..., 1] * way[..., 0]
    assert out.equal(((turn > 0).all(-1) | (turn < 0).all(-1)).float())
    arrow = torch.tensor([[0.0, 0.0, 4.0, 2.0, 0.0, 4.0, 1.0, 2.0]]).t().contiguous()   # not convex
    out, = named("PointsInPolygons", [torch.tensor([[0.5, 2.0], [2.0, 2.0], [2.0, 1.0], [4.0, 2.0]]), arrow], [torch.empty(4, 1)])
    assert out.flatten().tolist() == [0, 1, 0, 0]


def test_turned_filters(named):
    filters, places = torch.randn(2, 3, 2, 3, 3), torch.stack([torch.randperm(18) for _ in range(4)], 1)
    inputs = [filters, (places + 1).to(INT).view(2, 3, 3, 4)]
    out, = named("ActiveRotatedFilter", inputs, [torch.empty(8, 6, 3, 3)])
    for rotation in range(4):
        assert out.view(2, 4, 3, 18)[:, rotation][..., places[:, rotation]].equal(filters.flatten(2))
    grad = torch.randn(8, 6, 3, 3)
    for_filters, = named("ActiveRotatedFilterGrad", [grad, inputs[1]], [torch.empty_like(filters)])
    close((for_filters * filters).sum(), (grad * out).sum(), 1e-4)


@pytest.mark.parametrize("points", [1, 5])
def test_features_where_boxes_are(named, points):
    maps, boxes = torch.randn(2, 3, 5, 6, requires_grad=True), torch.rand(2, 5, 5, 6) * 12 - 2
    out, = named("RotatedFeatureAlign", [maps.detach(), boxes], [torch.empty(2, 3, 5, 6)], spatial_scale=0.5, points=points)
    y, x, width, height = (boxes[:, :4] * 0.5).unbind(1)
    cosine, sine = boxes[:, 4].cos(), boxes[:, 4].sin()
    expected = maps
    for a, b in [(0, 0), (1, 1), (-1, 1), (-1, -1), (1, -1)][:points]:
        right, up = a * width / 2, b * height / 2
        place = torch.stack([x + right * cosine - up * sine, y + right * sine + up * cosine], -1)
        size = torch.tensor([6.0, 5.0])
        near = ((place >= -1) & (place <= size)).all(-1)
        expected = expected + F.grid_sample(maps, 2 * place / (size - 1) - 1, padding_mode="border", align_corners=True) * near.unsqueeze(1)
    close(out, expected, 1e-4)
    grad = torch.randn_like(out)
    expected.backward(grad)
    for_maps, = named("RotatedFeatureAlignGrad", [grad, boxes], [torch.empty_like(out)], spatial_scale=0.5, points=points)
    close(for_maps, maps.grad, 1e-4)


@pytest.mark.parametrize("offset", [0, 1])
def test_boxes_that_stay(named, offset):
    boxes = torch.tensor([[0, 0, 9, 9], [1, 0, 9, 9], [20, 20, 23, 22], [20, 20, 23, 24], [20, 20, 23, 24]]).float()
    scores, room = torch.tensor([0.6, 0.9, 0.5, 0.7, 0.01]), torch.full((5,), -1, dtype=INT)
    # the third overlaps the fourth by 6 of 12, with pixels at their ends by 12 of 20
    numbers = [torch.tensor(5, dtype=INT), torch.tensor(0.55), torch.tensor(0.05)]
    named("NonMaxSuppressionV3", [boxes, scores, *numbers], [room], offset=offset)
    assert room.tolist() == [1, 3, -1, -1, -1] if offset else [1, 3, 2, -1, -1]
    room, = named("NonMaxSuppressionV3", [boxes, scores, torch.tensor(1, dtype=INT), *numbers[1:]], [torch.zeros(1, dtype=INT)], offset=offset)
    assert room.tolist() == [1]


@pytest.mark.parametrize("end_mode", [0, 2])
def test_regions_by_name(named, call, end_mode):
    maps, rois = torch.randn(2, 3, 6, 7), torch.tensor([[0, 1.0, 2.0, 9.0, 8.0], [1, 0.0, 1.0, 5.0, 11.0]])
    attributes = dict(spatial_scale=0.5, pooled_height=2, pooled_width=3, sample_num=2, roi_end_mode=end_mode)
    settings = dict(rois=rois, spatialScale=0.5, pooledHeight=2, pooledWidth=3, sampleNum=2, roiEndMode=end_mode)
    expected, for_maps, grad = torch.empty(2, 3, 2, 3), torch.empty_like(maps), torch.randn(2, 3, 2, 3)
    call.named("aclnnROIAlign", self=maps, out=expected, **settings)
    close(named("ROIAlign", [maps, rois], [torch.empty(2, 3, 2, 3)], **attributes)[0], expected)
    call.named("aclnnROIAlignBackward", ydiff=grad, xdiffShape=[2, 3, 6, 7], xdiff=for_maps, **settings)
    close(named("ROIAlignGrad", [grad, rois], [torch.empty_like(maps)], xdiff_shape=[2, 3, 6, 7], **attributes)[0], for_maps)


def test_deformable_attention(call):
    shapes, heads, channels = [(4, 6), (3, 2)], 4, 5
    value = torch.randn(2, 30, heads, channels, requires_grad=True)
    location = (torch.rand(2, 7, heads, 2, 3, 2) * 1.4 - 0.2).requires_grad_()
    weight = torch.rand(2, 7, heads, 2, 3, requires_grad=True)
    expected, start = 0, 0
    for level, (rows, columns) in enumerate(shapes):
        maps = value[:, start:start + rows * columns].permute(0, 2, 3, 1).reshape(2 * heads, channels, rows, columns)
        grid = (2 * location[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
        samples = F.grid_sample(maps, grid, align_corners=False).view(2, heads, channels, 7, 3)
        expected = expected + torch.einsum("bhcqp,bqhp->bqhc", samples, weight[:, :, :, level])
        start += rows * columns
    expected = expected.flatten(2)
    numbers = [torch.tensor(shapes, dtype=INT), torch.tensor([0, 24], dtype=INT)]
    inputs = [value.detach(), *numbers, location.detach(), weight.detach()]
    out = torch.empty(2, 7, heads * channels)
    call("aclnnMultiScaleDeformableAttnFunction", *inputs, out)
    close(out, expected, 1e-4)
    grad, grads = torch.randn_like(out), [torch.full_like(t, 7.0, requires_grad=False) for t in (value, location, weight)]
    expected.backward(grad)
    call("aclnnMultiScaleDeformableAttentionGrad", *inputs, grad, *grads)
    for actual, wanted in zip(grads, (value.grad, location.grad, weight.grad)):
        close(actual, wanted, 1e-3)
    with pytest.raises(RuntimeError, match="level 1 lies outside of value"):
        call("aclnnMultiScaleDeformableAttnFunction", inputs[0], numbers[0], torch.tensor([0, 25], dtype=INT), *inputs[3:], out)


def test_indices_of_each_batch(named):
    x, index = torch.randn(2, 3, 5, 4), torch.randint(0, 5, (2, 6), dtype=INT)
    out, = named("GatherV2", [x, index, [2]], [torch.empty(2, 3, 6, 4)], batch_dims=1)
    assert out.equal(torch.stack([one.index_select(1, i) for one, i in zip(x, index)]))
    x, index = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3, 2, 2), dtype=INT)
    out, = named("GatherV2", [x, index, [-1]], [torch.empty(2, 3, 2, 2)], batch_dims=2)
    assert out.equal(x.gather(2, index.long().flatten(2)).view_as(index))
    with pytest.raises(RuntimeError, match="do not share 1 dimensions"):
        named("GatherV2", [x, index[:1], [2]], [torch.empty(2, 3, 2, 2)], batch_dims=1)


@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_overlaps_with_the_last_pixel(named, call, mode):
    a, b = torch.tensor([[1.0, 1, 3, 4], [2, 2, 3, 4]]), torch.tensor([[0.0, 2, 2, 5], [2, 1, 3, 3]])
    pixels = [[{(x, y) for x in range(int(x1), int(x2) + 1) for y in range(int(y1), int(y2) + 1)} for x1, y1, x2, y2 in boxes.tolist()]
              for boxes in (a, b)]
    expected = torch.tensor([[len(p & q) / len(p | q if mode == "iou" else q) for p in pixels[0]] for q in pixels[1]])
    close(named("Iou", [a, b], [torch.empty(2, 2)], mode=mode, eps=1.0)[0], expected)
    close(named("Iou", [a.t().contiguous(), b.t().contiguous()], [torch.empty(2, 1)], mode=mode, eps=1.0, aligned=True)[0],
          expected.diagonal().unsqueeze(1))
    out = torch.empty(2, 2)
    call.named("aclnnIou", bBoxes=a, gtBoxes=b, mode=mode, eps=1.0, aligned=False, overlap=out)
    close(out, expected.t())


@pytest.mark.parametrize("labels, kept", [([0, 0, 0], [1, 2]), ([], [1, 2]), ([0, 1, 0], [1, 2, 0])])
def test_turned_boxes_that_stay(named, labels, kept):
    boxes = torch.tensor([[0, 0, 4, 2, 0], [0, 0, 2, 4, math.pi / 2], [20, 0, 4, 2, 1]])
    inputs = [boxes, torch.tensor([0.5, 0.9, 0.7]), torch.tensor(labels, dtype=INT)]
    room = [torch.zeros(3, 5), torch.full((3,), -1, dtype=INT)]
    named("RotatedNMS", inputs, room, iou_threshold=0.5, is_angle=False)
    assert room[1].tolist() == kept + [-1] * (3 - len(kept)) and room[0][:len(kept)].equal(boxes[kept])


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
