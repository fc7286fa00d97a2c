"""Operands of several dtypes that PyTorch's own kernels refuse and the published torch_npu takes. Note [Mixed dtypes] in
csrc/aten/mixed_dtypes.h says which dtype is computed in; the expectations are those operands cast on the CPU."""
import pytest
import torch
from torch.nn import functional as F

H, B, F32, I32, L = torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64
PAIRS = [(H, F32), (F32, H), (F32, B), (H, B), (F32, I32), (I32, F32), (I32, L)]


def numbers(dtype, *shape, seed=0):
    return torch.randint(-8, 9, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)   # exact in each dtype


def same(actual, expected, dtype):
    assert actual.dtype == dtype and actual.is_npu
    assert actual.cpu().equal(expected.to(dtype))


PRODUCTS = {
    "mm": (torch.mm, (3, 4), (4, 5)), "bmm": (torch.bmm, (2, 3, 4), (2, 4, 5)), "matmul": (torch.matmul, (2, 3, 4), (4, 5)),
    "linear": (F.linear, (3, 4), (5, 4)),
}


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, first, second):
    """In the dtype that holds both; the result has that of the first."""
    function, *shapes = PRODUCTS[name]
    a, b = numbers(first, *shapes[0]), numbers(second, *shapes[1], seed=1)
    same(function(a.npu(), b.npu()), function(a.double(), b.double()), first)


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
def test_products_with_a_third_operand(first, second):
    c, a, b = numbers(first, 3, 5), numbers(second, 3, 4, seed=1), numbers(second, 4, 5, seed=2)
    expected = torch.addmm(c.double(), a.double(), b.double())
    same(torch.addmm(c.npu(), a.npu(), b.npu()), expected, first)
    same(torch.addmm(c.npu(), a.npu(), b.to(first).npu()), expected, first)
    same(c.npu().addmm_(a.npu(), b.npu()), expected, first)
    same(torch.baddbmm(c.npu()[None], a.npu()[None], b.npu()[None]), expected[None], first)
    same(torch.addbmm(c.npu(), a.npu()[None], b.npu()[None]), expected, first)
    out = torch.empty(0, dtype=first, device="npu")
    assert torch.addmm(c.npu(), a.npu(), b.npu(), out=out) is out
    same(out, expected, first)
    vector = b[:, 0].contiguous()
    same(torch.mv(a.to(first).npu(), vector.npu()), a.double() @ vector.double(), second)
    same(torch.addmv(c[:, 0].npu(), a.npu(), vector.npu()), expected[:, 0], torch.promote_types(first, second))


def test_the_common_dtype_holds_what_the_first_does_not():
    a, b = torch.tensor([[1024.0, 1.0]], dtype=H), torch.tensor([[64.0], [-65535.0]])   # -65535 is infinite in float16
    assert torch.mm(a.npu(), b.npu()).item() == 1.0


def test_gradients_of_a_mixed_product():
    a, b = numbers(H, 3, 4).npu().requires_grad_(), numbers(F32, 4, 5, seed=1).npu().requires_grad_()
    torch.mm(a, b).sum().backward()
    same(a.grad, b.detach().cpu().sum(1).expand(3, 4), H)
    same(b.grad, a.detach().cpu().float().sum(0)[:, None].expand(4, 5), F32)


INDEX = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]])
ROWS = INDEX[:, 0]
UPDATES = {
    "scatter": lambda x, y, d: x.scatter(0, INDEX.to(d), y), "scatter_": lambda x, y, d: x.clone().scatter_(0, INDEX.to(d), y),
    "scatter_multiply": lambda x, y, d: x.scatter(0, INDEX.to(d), y, reduce="multiply"),
    "scatter_add": lambda x, y, d: x.scatter_add(0, INDEX.to(d), y), "scatter_add_": lambda x, y, d: x.clone().scatter_add_(0, INDEX.to(d), y),
    "scatter_reduce": lambda x, y, d: x.scatter_reduce(0, INDEX.to(d), y, "sum"), "index_add": lambda x, y, d: x.index_add(0, ROWS.to(d), y),
    "index_put": lambda x, y, d: x.index_put((ROWS.to(d),), y), "index_put_": lambda x, y, d: x.clone().index_put_((ROWS.to(d),), y),
    "accumulate": lambda x, y, d: x.index_put((ROWS.to(d),), y, accumulate=True),
}


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
@pytest.mark.parametrize("name", UPDATES)
def test_updates(name, first, second):
    """What is written gets the dtype of what it is written to."""
    x, y = numbers(first, 3, 4), numbers(second, 3, 4, seed=1)
    same(UPDATES[name](x.npu(), y.npu(), "npu"), UPDATES[name](x, y.to(first), "cpu"), first)


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
def test_assignments(first, second):
    """The first two PyTorch takes on the CPU as well: a number for the places of a mask."""
    x, y = numbers(first, 3, 4), numbers(second, 3, 4, seed=1)
    for change in (lambda t, v: t.__setitem__(t > 2, v[0, 0]), lambda t, v: t.__setitem__(t > 2, v.reshape(-1)[:1]),
                   lambda t, v: t.__setitem__(ROWS[:2].to(t.device), v[:2])):
        expected, actual = x.clone(), x.npu()
        change(expected, y.to(first))
        change(actual, y.npu())
        same(actual, expected, first)


def test_complex_numbers_are_not_written_to_real_ones():
    x, y = torch.zeros(3, device="npu"), torch.ones(3, dtype=torch.complex64, device="npu")
    with pytest.raises(RuntimeError, match="imaginary part"):
        x[torch.tensor([0, 1, 2], device="npu")] = y
    with pytest.raises(RuntimeError):
        torch.mm(x[None], y[:, None])
    with pytest.raises(RuntimeError):
        x.scatter(0, torch.arange(3, device="npu"), y)


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
def test_closeness(first, second):
    x = numbers(first, 3, 4)
    y = x.to(second)
    y[0, 0] += 1
    wide = torch.promote_types(first, second)
    same(torch.isclose(x.npu(), y.npu()), torch.isclose(x.to(wide), y.to(wide)), torch.bool)
    assert not torch.allclose(x.npu(), y.npu()) and torch.allclose(x.npu()[1:], y.npu()[1:])


@pytest.mark.parametrize("dtype", [I32, F32, H], ids=str)
def test_labels_and_places(dtype):
    scores, labels = torch.randn(3, 4), torch.tensor([1, 0, 3])
    torch.testing.assert_close(F.cross_entropy(scores.npu(), labels.to(dtype).npu()).cpu(), F.cross_entropy(scores, labels))
    image, map_ = torch.randn(2, 4, 3, 3), torch.randint(4, (2, 3, 3))
    there = image.npu().requires_grad_()
    F.cross_entropy(there, map_.to(dtype).npu()).backward()
    image.requires_grad_()
    F.cross_entropy(image, map_).backward()
    torch.testing.assert_close(there.grad.cpu(), image.grad)
    assert scores.npu().gather(0, INDEX.to(dtype).npu()).cpu().equal(scores.gather(0, INDEX))


@pytest.mark.parametrize("first, second", [(H, F32), (F32, H), (H, B), (F32, torch.float64)], ids=str)
def test_losses_have_the_dtype_of_the_cpu(first, second):
    x, y = torch.rand(3, 4).to(first), torch.rand(3, 4).to(second)
    for loss in (F.huber_loss, F.binary_cross_entropy_with_logits, F.soft_margin_loss):
        for reduction in ("none", "mean", "sum"):
            try:
                expected = loss(x, y, reduction=reduction)
            except RuntimeError:   # soft_margin_loss of a wider target writes it to the narrower result
                continue
            actual = loss(x.npu(), y.npu(), reduction=reduction)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual.cpu(), expected, rtol=1e-2, atol=1e-2)   # of bfloat16's 8 bits
    assert F.huber_loss(x.npu(), (y > 0.5).npu()).dtype == first


def test_distances():
    x, y = torch.randn(3, 4).half(), torch.randn(5, 4)
    actual = torch.cdist(x.npu(), y.npu())
    assert actual.dtype == H
    torch.testing.assert_close(actual.cpu().float(), torch.cdist(x.float(), y), rtol=2e-3, atol=2e-3)


WHOLE = [torch.int8, torch.uint8, torch.int16, I32, L]
BOOL = torch.bool


def cut(x, dtype):
    return x.to(dtype)   # towards zero


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_integers(dtype, p):
    """In float32, cut to integers: as the published torch_npu."""
    x, y = numbers(F32, 3, 4).abs().to(dtype), numbers(F32, 5, 4, seed=1).abs().to(dtype)
    same(torch.cdist(x.npu(), y.npu(), p), cut(torch.cdist(x.float(), y.float(), p), dtype), dtype)


@pytest.mark.parametrize("dtype", [*WHOLE, BOOL], ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_integers(dtype, training):
    """In float32, cut to integers; the statistics stay float32."""
    x = numbers(F32, 4, 3, 5).abs().to(dtype)
    weight, bias = torch.full((3,), 2.0), torch.full((3,), 9.5)
    mean, var = torch.ones(3), torch.full((3,), 4.0)
    mean_there, var_there = mean.npu(), var.npu()
    expected = F.batch_norm(x.float(), mean, var, weight, bias, training)
    assert not training or not expected.sub(expected.round()).abs().lt(1e-4).any()   # no result is at the edge of two integers
    same(F.batch_norm(x.npu(), mean_there, var_there, weight.npu(), bias.npu(), training), cut(expected, dtype), dtype)
    torch.testing.assert_close(mean_there.cpu(), mean)
    torch.testing.assert_close(var_there.cpu(), var)


def test_batch_norm_of_integers_updates_integer_statistics():
    mean, var = torch.zeros(3, dtype=L, device="npu"), torch.ones(3, dtype=L, device="npu")
    x = torch.full((2, 3, 4), 50)
    same(F.batch_norm(x.npu(), mean, var, training=True), torch.zeros(2, 3, 4), L)
    assert mean.tolist() == [5, 5, 5] and var.tolist() == [0, 0, 0]   # 0.1 of 50; 0.9 of 1, cut


def test_statistics_of_integers_are_float32():
    x = numbers(L, 2, 6)
    _, mean, rstd = torch.native_layer_norm(x.npu(), (6,), None, None, 1e-5)
    _, expected_mean, expected_rstd = torch.native_layer_norm(x.float(), (6,), None, None, 1e-5)
    assert mean.dtype == rstd.dtype == F32
    torch.testing.assert_close((mean.cpu(), rstd.cpu()), (expected_mean, expected_rstd))


@pytest.mark.parametrize("dtype", [*WHOLE, F32, H, B, torch.complex64], ids=str)
def test_numbers_less_a_bool(dtype):
    """`x - True` counts it as 1; of bool tensors it stays refused."""
    x = numbers(F32, 3, 4).abs().add(1).to(dtype)
    one = torch.ones((), dtype=dtype)
    same(x.npu() - True, x - one, dtype)
    same(x.npu() - torch.tensor(True), x - one, dtype)
    same(torch.tensor(True) - x.npu(), one - x, dtype)
    same(x[0, 0].npu() - True, x[0, 0] - one, dtype)
    same(x.npu().sub_(True), x - one, dtype)
    same(torch.sub(x.npu(), False, out=torch.empty(0, dtype=dtype, device="npu")), x, dtype)
    for refused in (lambda: x.npu() - x.npu().bool(), lambda: x.npu().bool() - True):
        with pytest.raises(RuntimeError):
            refused()


RESULTS = {
    "argmax": (lambda x, **out: torch.argmax(x, 1, **out), L), "argmin": (lambda x, **out: torch.argmin(x, **out), L),
    "addmm": (lambda x, **out: torch.addmm(x, x, x, **out), None), "addmv": (lambda x, **out: torch.addmv(x[0], x, x[1], **out), None),
    "mv": (lambda x, **out: torch.mv(x, x[1], **out), None), "dot": (lambda x, **out: torch.dot(x[0], x[1], **out), None),
    "vdot": (lambda x, **out: torch.vdot(x[0], x[1], **out), None),
    "index_add": (lambda x, **out: torch.index_add(x, 0, torch.arange(3, device=x.device), x, **out), None),
    "scatter_reduce": (lambda x, **out: torch.scatter_reduce(x, 0, torch.zeros(3, 3, dtype=L, device=x.device), x, "sum", **out), None),
    "softmax": (lambda x, **out: torch.softmax(x * 0, 1, **out), None),
}


@pytest.mark.parametrize("first, second", [(F32, torch.float64), (F32, H), (H, F32), (I32, L), (L, I32), (I32, F32), (F32, torch.complex64)], ids=str)
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_another_dtype(name, first, second):
    """out= of another dtype that holds the result gets it cast, as the published torch_npu does it."""
    function, own = RESULTS[name]
    x = numbers(first, 3, 3)
    if name == "softmax" and not first.is_floating_point:
        with pytest.raises(RuntimeError):
            function(x.npu())
        return
    wide = x.double()
    expected = function(wide).to(own or first).to(second)
    out = torch.empty(0, dtype=second, device="npu")
    assert function(x.npu(), out=out) is out
    same(out, expected, second)


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in ("argmax", "argmin")])
def test_results_that_do_not_fit(name):
    with pytest.raises(RuntimeError):
        RESULTS[name][0](numbers(F32, 3, 3).npu(), out=torch.empty(0, dtype=L, device="npu"))
    with pytest.raises(RuntimeError):
        RESULTS[name][0](numbers(F32, 3, 3).npu().to(torch.complex64), out=torch.empty(0, device="npu"))


@pytest.mark.parametrize("first, second", PAIRS, ids=str)
def test_dot(first, second):
    a, b = numbers(first, 6), numbers(second, 6, seed=1)
    same(torch.dot(a.npu(), b.npu()), a.double() @ b.double(), first)
    same(torch.matmul(a.npu(), b.npu()), a.double() @ b.double(), first)


@pytest.mark.parametrize("dtype", [torch.uint8, I32, L, F32, H], ids=str)
def test_masks(dtype):
    x, mask = numbers(F32, 3, 4), numbers(F32, 3, 4, seed=1).abs().to(dtype)
    for value in (7.0, torch.tensor(7.0), torch.tensor(7.0).npu()):
        on_host = value.cpu() if isinstance(value, torch.Tensor) else value
        same(x.npu().masked_fill(mask.npu(), value), x.masked_fill(mask.bool(), on_host), F32)
    same(x.npu().masked_select(mask.npu()), x.masked_select(mask.bool()), F32)


@pytest.mark.parametrize("dtype", [torch.uint8, I32, F32, H], ids=str)
def test_classes(dtype):
    labels = torch.tensor([2, 0, 1])
    same(F.one_hot(labels.to(dtype).npu()), F.one_hot(labels), dtype)
    same(F.one_hot(labels.to(dtype).npu(), 5), F.one_hot(labels, 5), dtype)


@pytest.mark.parametrize("dtype", [I32, torch.uint8, F32], ids=str)
def test_places_of_maxima(dtype):
    pooled, places = F.max_pool2d(numbers(F32, 1, 2, 4, 4), 2, return_indices=True)
    same(F.max_unpool2d(pooled.npu(), places.to(dtype).npu(), 2), F.max_unpool2d(pooled, places, 2), F32)
    pooled, places = F.max_pool3d(numbers(F32, 1, 2, 4, 4, 4), 2, return_indices=True)
    same(F.max_unpool3d(pooled.npu(), places.to(dtype).npu(), 2), F.max_unpool3d(pooled, places, 2), F32)


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, F32, H, BOOL], ids=str)
def test_places_of_a_triangle(dtype):
    for function in (torch.tril_indices, torch.triu_indices):
        same(function(3, 4, 1, dtype=dtype, device="npu"), function(3, 4, 1), dtype)


def test_members_among_bools():
    x, y = torch.tensor([True, False, True]), torch.tensor([True])
    same(torch.isin(x.npu(), y.npu()), x, BOOL)
    same(torch.isin(x.npu(), y.npu(), invert=True), ~x, BOOL)


def test_right_hand_sides_of_another_dtype():
    matrix, right = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([[1.0], [2.0]])
    for dtype in (H, torch.float64, I32, torch.bool):
        same(torch.linalg.solve_triangular(matrix.npu(), right.to(dtype).npu(), upper=True),
             torch.linalg.solve_triangular(matrix, right.to(dtype), upper=True), F32)
    with pytest.raises(RuntimeError, match="same dtype"):   # the CPU drops the imaginary part with a warning
        torch.linalg.solve_triangular(matrix.npu(), right.to(torch.complex64).npu(), upper=True)
