"""Operators that compute float16 and bfloat16 in float32 and round once, where ATen has no kernel or a coarser one; whole numbers too."""
import pytest
import torch
import torch.nn.functional as F

HALVES = [torch.float16, torch.bfloat16]


def rounded_once(actual, expected):
    """The nearest number of its type, but for float32's own errors beside an edge."""
    assert (actual != expected.to(actual.dtype)).float().mean() < 0.02
    torch.testing.assert_close(actual.float(), expected.float(), rtol=torch.finfo(actual.dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_distances(call, dtype):
    a, b = torch.randn(5, 7).to(dtype), torch.randn(6, 7).to(dtype)
    x, y = a.float().requires_grad_(), b.float()
    out, grad, dx = torch.empty(5, 6, dtype=dtype), torch.randn(5, 6).to(dtype), torch.empty(5, 7, dtype=dtype)
    for p in (1.0, 2.0):
        call.named("aclnnCdist", x1=a, x2=b, p=p, out=out)
        rounded_once(out, torch.cdist(x.detach(), y, p))
        x.grad = None
        torch.cdist(x, y, p).backward(grad.float())
        distances = torch.cdist(x.detach(), y, p).to(dtype)
        call.named("aclnnCdistBackward", grad=grad, x1=a, x2=b, p=p, cdist=distances, out=dx)
        torch.testing.assert_close(dx.float(), x.grad, rtol=3e-2, atol=5e-2)


@pytest.mark.parametrize("kind", ["bicubic", "bilinear"])
@pytest.mark.parametrize("dtype", HALVES)
def test_antialiased_sizes(call, dtype, kind):
    x = torch.randn(2, 3, 9, 11).to(dtype)
    wide, out = x.float().requires_grad_(), torch.empty(2, 3, 5, 4, dtype=dtype)
    expected = F.interpolate(wide, (5, 4), mode=kind, antialias=True)
    name, given = ("aclnnUpsampleBicubic2dAA", "x") if kind == "bicubic" else ("aclnnUpsampleBilinear2dAA", "input")
    call.named(name, **{given: x}, outputSize=[5, 4], out=out)
    rounded_once(out, expected.detach())
    grad, dx = torch.randn(2, 3, 5, 4).to(dtype), torch.empty_like(x)
    expected.backward(grad.float())
    call.named(name + ("Grad" if kind == "bicubic" else "Backward"), gradOutput=grad, outputSize=[5, 4], inputSize=[2, 3, 9, 11], out=dx)
    rounded_once(dx, wide.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_average_pooling_of_volumes(call, dtype):
    x = torch.randn(2, 3, 6, 6, 6).to(dtype)
    wide, out = x.float().requires_grad_(), torch.empty(2, 3, 3, 3, 3, dtype=dtype)
    expected = F.avg_pool3d(wide, 3, 2, 1)
    settings = {"kernelSize": [3, 3, 3], "stride": [2, 2, 2], "padding": [1, 1, 1], "countIncludePad": True}
    call.named("aclnnAvgPool3d", self=x, **settings, out=out)
    rounded_once(out, expected.detach())
    grad, dx = torch.randn(2, 3, 3, 3, 3).to(dtype), torch.empty_like(x)
    expected.backward(grad.float())
    call.named("aclnnAvgPool3dBackward", gradOutput=grad, self=x, **settings, output=dx)
    rounded_once(dx, wide.grad)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", HALVES)
def test_sampling_on_a_grid(call, dtype, dims):
    x, grid = torch.randn(2, 3, *[5] * dims).to(dtype), (torch.rand(2, *[4] * dims, dims) * 2 - 1).to(dtype)
    image, places, out = x.float().requires_grad_(), grid.float().requires_grad_(), torch.empty(2, 3, *[4] * dims, dtype=dtype)
    expected = F.grid_sample(image, places, align_corners=False)
    call.named(f"aclnnGridSampler{dims}D", input=x, grid=grid, out=out)
    rounded_once(out, expected.detach())
    grad, dx, dgrid = torch.randn(expected.shape).to(dtype), torch.empty_like(x), torch.empty_like(grid)
    expected.backward(grad.float())
    call.named(f"aclnnGridSampler{dims}DBackward", gradOutput=grad, input=x, grid=grid, outputMask=[True, True], inputGrad=dx,
               gridGrad=dgrid)
    rounded_once(dx, image.grad)
    rounded_once(dgrid, places.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_many_elements_at_one_place(call, dtype):
    """So many that a sum which rounds after each of them would stop growing on the way."""
    place, values = torch.arange(9000) % 3, torch.rand(9000, 5).to(dtype)
    expected = torch.ones(3, 5).index_add(0, place, values.float())
    target = torch.ones(3, 5, dtype=dtype)
    call("aclnnIndexPutImpl", target, [place], values, True, False)
    rounded_once(target, expected)
    target = torch.ones(3, 5, dtype=dtype).t()
    call.named("aclnnInplacePut", selfRef=target, index=place, source=values[:, 0].contiguous(), accumulate=True)
    rounded_once(target.flatten()[:3], expected[:, 0])
    target = torch.ones(3, 5, dtype=dtype)
    call("aclnnIndexPutImpl", target, [place[:3]], values[:3], False, False)  # nothing is added
    assert torch.equal(target, values[:3])


@pytest.mark.parametrize("kind", ["reflection", "replication"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_pads(call, dtype, dims, kind):
    x = torch.randn(2, 3, *[5] * dims).to(dtype)
    pads = [4, 3] * dims if kind == "reflection" else [19, 11] * dims
    wide, dx = x.float().requires_grad_(), torch.empty_like(x)
    expected = F.pad(wide, pads, mode="reflect" if kind == "reflection" else "replicate")
    grad = torch.rand(expected.shape).to(dtype)
    expected.backward(grad.float())
    call.named(f"aclnn{kind.capitalize()}Pad{dims}dBackward", gradOutput=grad, self=x, padding=pads, gradInput=dx)
    rounded_once(dx, wide.grad)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", HALVES)
def test_overlapping_windows_of_maxima(call, dtype, dims):
    x = torch.randn(2, 3, *[9] * dims).to(dtype)
    wide, dx = x.float().requires_grad_(), torch.empty_like(x)
    expected, winners = getattr(F, f"max_pool{dims}d")(wide, 5, 1, 2, return_indices=True)
    grad = torch.rand(expected.shape).to(dtype)
    expected.backward(grad.float())
    windows = {"kernelSize": [5] * dims, "stride": [1] * dims, "padding": [2] * dims, "dilation": [1] * dims, "ceilMode": False}
    name = "aclnnMaxPool2dWithIndicesBackward" if dims == 2 else "aclnnMaxPool3dWithArgmaxBackward"
    call.named(name, gradOutput=grad, self=x, indices=winners, **windows, gradInput=dx)
    rounded_once(dx, wide.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_cross_entropy_with_logits(call, dtype):
    x, target, weight, positive = (torch.rand(40, 16).to(dtype) for _ in range(4))
    wide, out, dx = x.float().requires_grad_(), torch.empty_like(x), torch.empty_like(x)
    expected = F.binary_cross_entropy_with_logits(wide, target.float(), weight.float(), reduction="none", pos_weight=positive.float())
    given = {"self": x, "target": target, "weightOptional": weight, "posWeightOptional": positive, "reduction": 0}
    call.named("aclnnBinaryCrossEntropyWithLogits", **given, out=out)
    rounded_once(out, expected.detach())
    grad = torch.randn(40, 16).to(dtype)
    expected.backward(grad.float())
    call.named("aclnnBinaryCrossEntropyWithLogitsBackward", gradOutput=grad, **given, out=dx)
    rounded_once(dx, wide.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8])
def test_histograms(call, dtype):
    x, out = (torch.rand(200) * 20).to(dtype), torch.empty(5, dtype=dtype)
    call.named("aclnnHistc", self=x, bins=5, min=0, max=20, out=out)
    assert torch.equal(out.float(), torch.histc(x.float(), 5, 0, 20))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_whole_normal_numbers(call, dtype):
    wide, out = torch.empty(1000), torch.empty(1000, dtype=dtype)
    call.named("aclnnInplaceNormal", selfRef=wide, mean=30.0, std=5.0, seed=7, offset=0)
    call.named("aclnnInplaceNormal", selfRef=out, mean=30.0, std=5.0, seed=7, offset=0)
    assert torch.equal(out, wide.to(dtype))
    assert abs(wide.mean() - 30) < 1
