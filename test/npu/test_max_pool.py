"""Maximum pooling: softcann has a kernel of its own for float32, so values and places are compared with the CPU's, exactly."""
import itertools

import pytest
import torch
import torch.nn.functional as F

NAN, INF = float("nan"), float("inf")
WINDOWS = [  # kernel, stride, padding, dilation
    (2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), ((2, 3), (3, 1), (1, 0), (1, 2)), (5, 3, 2, 1), (2, 4, 0, 3), (3, 3, 1, 2), (1, 1, 0, 1),
    ((1, 33), (1, 2), (0, 16), 1),
]


def compare(x, *window, ceil=False):
    expected = F.max_pool2d(x, *window, ceil_mode=ceil, return_indices=True)
    got = F.max_pool2d(x.npu(), *window, ceil_mode=ceil, return_indices=True)
    for on_npu, on_cpu in zip(got, expected):
        torch.testing.assert_close(on_npu.cpu(), on_cpu, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("size", [(7, 40), (12, 35), (9, 600), (10, 10), (5, 5)], ids=str)
@pytest.mark.parametrize("ceil", [False, True])
def test_against_cpu(window, size, ceil):
    kernel, stride, padding, dilation = window
    compare(torch.randn(2, 3, *size), kernel, stride, padding, dilation, ceil=ceil)
    compare(torch.randn(3, *size).double(), kernel, stride, padding, dilation, ceil=ceil)
    compare(torch.randn(2, 3, *size).to(memory_format=torch.channels_last), kernel, stride, padding, dilation, ceil=ceil)


def test_ties_nan_and_infinity():
    values = torch.tensor([0.0, -0.0, 1.0, NAN, INF, -INF])
    for window in itertools.product(range(6), repeat=4):
        compare(values[list(window)].reshape(1, 1, 2, 2), 2)
    compare(torch.full((1, 1, 4, 6), -INF), 3, 2, 1)
    compare(torch.full((1, 1, 4, 6), NAN), 3, 2, 1)


@pytest.mark.parametrize("window", [(2, 2, 2, 1), (0, 1, 0, 1), (2, 0, 0, 1), (2, 2, 0, 0), (9, 1, 0, 1)], ids=str)
def test_bad_windows_are_refused(window):
    x = torch.randn(1, 1, 5, 5)
    with pytest.raises(RuntimeError) as on_cpu:
        F.max_pool2d(x, *window)
    with pytest.raises(RuntimeError) as on_npu:
        F.max_pool2d(x.npu(), *window)
    assert type(on_npu.value) is type(on_cpu.value) is RuntimeError   # not the AcceleratorError of a kernel that failed


def test_more_results_than_the_cache_holds():
    compare(torch.randn(2500, 6, 34, 36), 2)
    compare(torch.randn(300, 3, 70, 75), 3, 1, 1)


def gradients(x, *window):
    grads, grad = [], None
    for device in ("cpu", "npu"):
        own = x.clone().to(device).requires_grad_()
        out = F.max_pool2d(own, *window)
        grad = torch.randn(out.shape) if grad is None else grad
        out.backward(grad.to(device))
        grads.append(own.grad.cpu())
    torch.testing.assert_close(*grads, rtol=0, atol=0)


@pytest.mark.parametrize("window", [(2,), (3, 2, 1), (3, 1, 1), (2, 3), ((2, 3), (3, 1), (1, 0), (1, 2))], ids=str)
def test_gradient(window):
    gradients(torch.randn(2, 3, 9, 11), *window)
    gradients(torch.randn(3, 9, 11), *window)
    gradients(torch.randn(2, 3, 9, 11).double(), *window)
    gradients(torch.randn(2, 3, 9, 11).to(memory_format=torch.channels_last), *window)
    gradients(torch.randn(350, 6, 47, 43), *window)      # more than the cache holds
    gradients(torch.randn(2, 8, 520, 530), *window)      # in large planes


def test_gradient_with_places_outside():
    grad, x = torch.ones(1, 1, 2, 2).npu(), torch.ones(1, 1, 4, 4).npu()
    for place in (16, -1):
        places = torch.full((1, 1, 2, 2), place).npu()
        with pytest.raises(RuntimeError):
            torch.ops.aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
            torch.npu.synchronize()


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pool_wants_numbers_for_each_plane(rank):
    pool = getattr(torch.nn.functional, f"fractional_max_pool{rank}d")
    numbers = torch.zeros(0, 4, rank, device="npu")
    with pytest.raises(RuntimeError, match="Expect _random_samples"):
        pool(torch.randn(2, 4, *[8] * rank, device="npu"), 2, output_size=3, _random_samples=numbers)
