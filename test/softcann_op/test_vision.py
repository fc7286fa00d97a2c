"""What vision libraries call by name or by aclnn: sets of points, features of oriented objects, deformable attention."""
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
