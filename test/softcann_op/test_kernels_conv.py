"""softcann's convolutions against torch: the libraries' way, and its own for few channels and for few pixels."""
import time

import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, close


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(call, dtype, transposed, groups):
    x, w = torch.randn(3, 4, 9, 8).to(dtype), (torch.randn(4, 6, 3, 3) / 6).to(dtype)
    if not transposed:
        w = (torch.randn(6, 4 // groups, 3, 3) / 6).to(dtype)
    bias = torch.randn(6 * groups if transposed else 6).to(dtype)
    xs, ws, bs = (t.float().requires_grad_() for t in (x, w, bias))
    if transposed:
        expected = F.conv_transpose2d(xs, ws, bs, stride=2, padding=1, output_padding=1, groups=groups)
    else:
        expected = F.conv2d(xs, ws, bs, stride=2, padding=1, groups=groups)
    out = torch.full(expected.shape, 9.0, dtype=dtype)
    extra = [1, 1] if transposed else [0, 0]
    call("aclnnConvolution", x, w, bias, [2, 2], [1, 1], [1, 1], transposed, extra, groups, out, 0)
    close(out, expected, HALVES[dtype])
    grad = torch.randn(expected.shape).to(dtype)
    expected.backward(grad.float())
    dx, dw, db = (torch.full_like(t, 9) for t in (x, w, bias))
    call("aclnnConvolutionBackward", grad, x, w, list(bias.shape), [2, 2], [1, 1], [1, 1], transposed, extra, groups,
         [True, True, True], 0, dx, dw, db)
    for got, leaf in ((dx, xs), (dw, ws), (db, bs)):
        close(got, leaf.grad, 10 * HALVES[dtype])
    dw.fill_(9)
    call("aclnnConvolutionBackward", grad, x, w, None, [2, 2], [1, 1], [1, 1], transposed, extra, groups,
         [False, True, False], 0, None, dw, None)
    close(dw, ws.grad, 10 * HALVES[dtype])


# Input, weight, stride, padding and groups; most of the gradients are what oneDNN computes by its reference implementation in float16.
GRADIENTS = [
    ((16, 1, 28, 28), (6, 1, 5, 5), 1, 2, 1), ((8, 6, 12, 12), (16, 6, 5, 5), 1, 0, 1), ((4, 32, 14, 14), (64, 32, 3, 3), 1, 1, 1),
    ((2, 3, 56, 56), (32, 3, 7, 7), 2, 3, 1), ((4, 32, 14, 14), (32, 1, 3, 3), 1, 1, 32), ((4, 32, 100), (32, 32, 5), 1, 2, 1),
    ((1, 8, 6, 14, 14), (8, 8, 3, 3, 3), 1, 1, 1),
]


@pytest.mark.parametrize("sizes, kernel, stride, pad, groups", GRADIENTS)
def test_gradients_of_float16_are_rounded_once_and_as_fast_as_others(call, sizes, kernel, stride, pad, groups):
    dtype = torch.float16
    spatial = len(sizes) - 2
    how = [[stride] * spatial, [pad] * spatial, [1] * spatial, False, [0] * spatial, groups, [True] * 3, 0]

    def gradients(x, w, grad):
        results = [torch.empty_like(x), torch.empty_like(w), torch.empty(len(w), dtype=x.dtype)]
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            call("aclnnConvolutionBackward", grad, x, w, [len(w)], *how, *results)
            times.append(time.perf_counter() - begin)
        return results, min(times)

    x, w = torch.randn(sizes).to(dtype), torch.randn(kernel).to(dtype)
    shape = torch.convolution(x.float(), w.float(), None, *how[:6]).shape
    grad = torch.randn(shape).to(dtype)
    (results, time_taken), (expected, time_of_float) = gradients(x, w, grad), gradients(x.float(), w.float(), grad.float())
    for result, value in zip(results, expected):
        close(result, value.to(dtype), 1e-6)
    assert time_taken < 10 * time_of_float + 5e-3   # the reference implementation takes 30 to 700 times as long


def test_large_convolution_lands_in_place(call):
    for channels_last in (False, True):
        x, w = torch.randn(8, 16, 32, 32), torch.randn(32, 16, 3, 3)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        expected = F.conv2d(x, w, padding=1)
        out = torch.full(expected.shape, 9.0)
        for _ in range(3):
            call("aclnnConvolution", x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, out, 0)
            close(out, expected, 1e-3)
        out_cl = torch.full(expected.shape, 9.0).contiguous(memory_format=torch.channels_last)
        call("aclnnConvolution", x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, out_cl, 0)
        close(out_cl, expected, 1e-3)
        assert out_cl.is_contiguous(memory_format=torch.channels_last)


# What op/kernels/direct_conv.cpp takes: [images, channels, height, width], outputs, kernel, pad.
FEW_CHANNELS = [
    ((9, 1, 28, 28), 6, 5, 0), ((9, 6, 12, 12), 16, 5, 0), ((9, 3, 13, 13), 7, 3, 1), ((9, 1, 28, 28), 6, 5, 2),
    ((16, 1, 4, 9), 1, 2, 0),      # the smallest kernel, full lanes
    ((33, 2, 5, 11), 5, 4, 3),     # two groups and one image; rows that see padding only in part
    ((8, 8, 7, 10), 32, 7, 3),     # the largest kernel, as high as the image
    ((20, 5, 3, 8), 13, 6, 4),     # a kernel higher than the image
    ((17, 4, 2, 14), 3, 2, 1),
    ((8, 1, 1, 8), 2, 3, 2),       # fewer pixels than lanes
    ((10, 3, 40, 37), 31, 3, 1),   # results that are transposed in bands of rows
    ((600, 2, 9, 12), 4, 3, 0),    # more groups than parts of a sum
]


@pytest.mark.parametrize("size,outputs,kernel,pad", FEW_CHANNELS)
def test_convolution_of_few_channels(call, size, outputs, kernel, pad):
    x, w, bias = torch.randn(size), torch.randn(outputs, size[1], kernel, kernel), torch.randn(outputs)
    leaves = [t.double().requires_grad_() for t in (x, w, bias)]
    expected = F.conv2d(*leaves, padding=pad)
    out, grad = torch.full(expected.shape, 9.0), torch.randn(expected.shape)
    window = ([1, 1], [pad, pad], [1, 1], False, [0, 0], 1)
    call("aclnnConvolution", x, w, bias, *window, out, 0)
    close(out, expected, 1e-4)
    call("aclnnConvolution", x, w, None, *window, out, 0)
    close(out, expected - leaves[2].detach().view(-1, 1, 1), 1e-4)
    expected.backward(grad.double())
    for mask in ([True, True, True], [True, False, False], [False, True, True], [False, True, False]):
        results = [torch.full_like(t, 9.0) if wanted else None for t, wanted in zip((x, w, bias), mask)]
        call("aclnnConvolutionBackward", grad, x, w, [outputs], *window, mask, 0, *results)
        for got, leaf in zip(results, leaves):
            if got is not None:
                close(got, leaf.grad, 1e-3)


# Steps, distances, groups and orders in memory that are not for those kernels, at sizes that are.
@pytest.mark.parametrize("stride,pad,dilation,groups", [((2, 2), (1, 1), (1, 1), 1), ((1, 1), (1, 1), (2, 2), 1), ((1, 1), (1, 0), (1, 1), 1),
                                                        ((1, 1), (1, 1), (1, 1), 2), ((1, 2), (3, 3), (1, 1), 1)])
@pytest.mark.parametrize("order", ["contiguous", "channels_last", "transposed"])
def test_convolution_beside_few_channels(call, stride, pad, dilation, groups, order):
    x, w, bias = torch.randn(9, 4, 12, 13), torch.randn(6, 4 // groups, 3, 3), torch.randn(6)
    x = {"contiguous": x, "channels_last": x.contiguous(memory_format=torch.channels_last), "transposed": x.transpose(2, 3)}[order]
    leaves = [t.double().requires_grad_() for t in (x, w, bias)]
    expected = F.conv2d(*leaves, stride=stride, padding=pad, dilation=dilation, groups=groups)
    out, grad = torch.full(expected.shape, 9.0), torch.randn(expected.shape)
    window = (list(stride), list(pad), list(dilation), False, [0, 0], groups)
    call("aclnnConvolution", x, w, bias, *window, out, 0)
    close(out, expected, 1e-4)
    expected.backward(grad.double())
    results = [torch.full_like(t, 9.0) for t in (x, w, bias)]
    call("aclnnConvolutionBackward", grad, x, w, [6], *window, [True, True, True], 0, *results)
    for got, leaf in zip(results, leaves):
        close(got, leaf.grad, 1e-3)


def test_convolution_past_the_cache(call):
    x, w, bias = torch.randn(1601, 2, 20, 24), torch.randn(8, 2, 5, 5), torch.randn(8)   # the result is of 16 MiB
    expected = F.conv2d(x, w, bias, padding=2)
    out = torch.full(expected.shape, 9.0)
    window = ([1, 1], [2, 2], [1, 1], False, [0, 0], 1)
    call("aclnnConvolution", x, w, bias, *window, out, 0)
    close(out, expected, 1e-4)
    expected = F.conv_transpose2d(out, w, padding=2)
    dx = torch.full_like(x, 9.0)
    call("aclnnConvolutionBackward", out, x, w, None, *window, [True, False, False], 0, dx, None, None)
    close(dx, expected, 1e-2)


def test_few_channels_do_not_depend_on_the_number_of_threads(call):
    x, w, bias, grad = torch.randn(650, 3, 12, 14), torch.randn(7, 3, 5, 5), torch.randn(7), torch.randn(650, 7, 10, 12)
    window, before, seen = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results = [torch.full_like(t, 9.0) for t in (grad, x, w, bias)]
            call("aclnnConvolution", x, w, bias, *window, results[0], 0)
            call("aclnnConvolutionBackward", grad, x, w, [7], *window, [True, True, True], 0, *results[1:])
            seen.append(results)
    finally:
        torch.set_num_threads(before)
    for results in seen[1:]:
        for got, expected in zip(results, seen[0]):
            assert torch.equal(got, expected)


# What op/kernels/unfolded_conv.cpp takes: [images, channels, height, width], [outputs, kernel height, kernel width].
FEW_PIXELS = [
    ((8, 128, 2, 2), (144, 3, 3), 1, 1, 1),    # gradient of the weights
    ((4, 256, 3, 2), (128, 3, 3), 1, 1, 1),    # and the result
    ((8, 64, 4, 4), (256, 3, 3), 2, 1, 1),     # strided: gradient of the input too
    ((3, 130, 5, 5), (1024, 1, 1), 1, 0, 1),   # one tap
    ((2, 8, 9, 7), (12, 1, 1), 2, 0, 1),
    ((2, 3, 12, 18), (16, 4, 6), (4, 6), 0, 1),  # patches
    ((5, 16, 5, 5), (24, 5, 5), 1, 0, 1),      # the whole image
    ((6, 64, 1, 1), (80, 3, 3), 1, 1, 1),      # all taps but one see padding only
    ((6, 16, 3, 2), (40, 7, 5), 5, 2, 1),
    ((3, 64, 4, 3), (300, 3, 3), 1, 2, 2),     # dilated
    ((2, 100, 6, 5), (200, 3, 2), (3, 1), (0, 1), (2, 3)),
]


@pytest.mark.parametrize("image,weights,stride,pad,dilation", FEW_PIXELS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_convolution_of_few_pixels(call, image, weights, stride, pad, dilation, with_bias):
    x, w = torch.randn(image), torch.randn(weights[0], image[1], *weights[1:])
    bias = torch.randn(weights[0]) if with_bias else None
    leaves = [t.double().requires_grad_() for t in (x, w, bias) if t is not None]
    expected = F.conv2d(*leaves, stride=stride, padding=pad, dilation=dilation)
    out, grad = torch.full(expected.shape, 9.0), torch.randn(expected.shape)
    pairs = [[v, v] if isinstance(v, int) else list(v) for v in (stride, pad, dilation)]
    window = (*pairs, False, [0, 0], 1)
    call("aclnnConvolution", x, w, bias, *window, out, 0)
    close(out, expected, 1e-4)
    expected.backward(grad.double())
    results = [torch.full_like(t, 9.0) for t in (x, w)] + [torch.full(weights[:1], 9.0) if with_bias else None]
    call("aclnnConvolutionBackward", grad, x, w, [weights[0]] if with_bias else None, *window, [True, True, with_bias], 0, *results)
    for got, leaf in zip(results, leaves):
        close(got, leaf.grad, 1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_convolution_of_time_batch_and_channels(call, turned):
    """[time, batch, channels] and [kernel, in, out], as they are or with the first two exchanged in memory."""
    def placed(tensor):
        return tensor.transpose(0, 1).contiguous().transpose(0, 1) if turned else tensor.clone()

    x, w, bias, grad = torch.randn(6, 2, 3), torch.randn(3, 3, 4), torch.randn(4), torch.randn(6, 2, 4)
    leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
    expected = F.conv1d(leaves[0].permute(1, 2, 0), leaves[1].permute(2, 1, 0), leaves[2], padding=1).permute(2, 0, 1)
    expected.backward(grad)
    out, by_all = placed(torch.empty(6, 2, 4)), [torch.empty_like(t) for t in (x, w, bias)]
    call("aclnnConvTbc", placed(x), placed(w), bias, 1, out, 0)
    close(out, expected.detach())
    call("aclnnConvTbcBackward", placed(grad), placed(x), placed(w), bias, 1, 0, *by_all)
    for found, leaf in zip(by_all, leaves):
        close(found, leaf.grad)
