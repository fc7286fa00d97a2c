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
