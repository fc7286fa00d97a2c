"""Fourier transforms and their windows."""

import math

import numpy
import torch

from ..tensors import torch_dtype
from . import lowers


def complex_of(node, x):
    """A tensor whose last axis has one or two numbers (real, imaginary), as a complex one without that axis."""
    if x.dims[-1] == 1:
        x = node.emit("aten::select.int", x, -1, 0)
        return node.emit("aten::complex", x, node.emit("aten::zeros_like", x))
    return node.emit("aten::view_as_complex", node.emit("aten::contiguous", x))


@lowers("DFT")
def dft(node):
    x, length = node.x(0), node.number(1)
    axis = node.attr("axis", 1) if node.opset < 20 else int(node.fixed(2, "axis")[0]) if node.x(2) is not None else -2
    axis = node.axis(x, axis)
    inverse, one_sided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    if one_sided and inverse:
        half = complex_of(node, x)
        real = node.emit("aten::fft_irfft", half, length, axis)
        return node.emit("aten::unsqueeze", real, -1)
    value = complex_of(node, x)
    result = node.emit("aten::fft_ifft" if inverse else "aten::fft_fft", value, length, axis)
    pairs = node.emit("aten::view_as_real", result)
    if one_sided:
        size = length if isinstance(length, int) else x.dims[axis]
        if size is None:
            raise node.refuse("a one-sided transform needs a length that is known before the model runs")
        pairs = node.emit("aten::slice.Tensor", pairs, axis, 0, size // 2 + 1, 1)
    return pairs


@lowers("STFT")
def stft(node):
    signal, step, window = node.x(0), node.number(1), node.x(2)
    length = node.number(3) if node.x(3) is not None else window.dims[0]
    if not isinstance(length, int) or not isinstance(step, int):
        raise node.refuse("frame step and length must be constants")
    one_sided = bool(node.attr("onesided", 1))
    value = node.emit("aten::select.int", signal, -1, 0) if node.rank(signal) == 3 and signal.dims[-1] == 1 else signal
    if node.rank(value) == 3:
        value = complex_of(node, value)
        one_sided = False
    frames = node.emit("aten::unfold", value, 1, length, step)
    if window is not None:
        frames = node.emit("aten::mul.Tensor", frames, window)
    kernel = "aten::fft_rfft" if one_sided else "aten::fft_fft"
    return node.emit("aten::view_as_real", node.emit(kernel, frames, None, -1))


@lowers("HannWindow", "HammingWindow", "BlackmanWindow")
def window(node):
    size, dtype = int(node.fixed(0, "size")[0]), torch_dtype(node.attr("output_datatype", 1))
    period = size if node.attr("periodic", 1) else size - 1
    angle = 2 * math.pi * numpy.arange(size) / max(period, 1)
    terms = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}[
        node.type
    ]
    values = terms[0] - terms[1] * numpy.cos(angle) + terms[2] * numpy.cos(2 * angle)
    return node.constant(torch.from_numpy(values), dtype)


@lowers("MelWeightMatrix")
def mel_weights(node):
    bins, length, rate, low, high = (node.fixed(index, "parameters")[0] for index in range(5))
    spectrum = int(length) // 2 + 1

    def mel(frequency):
        return 2595 * math.log10(1 + frequency / 700)

    edges = mel(low) + numpy.arange(int(bins) + 2) * (mel(high) - mel(low)) / (int(bins) + 2)
    points = ((int(length) + 1) * (700 * (10 ** (edges / 2595) - 1)) // int(rate)).astype(int)
    result = numpy.zeros((spectrum, int(bins)))
    for index in range(int(bins)):
        first, centre, last = points[index : index + 3]
        if centre == first:
            result[centre, index] = 1
        else:
            result[first : centre + 1, index] = (numpy.arange(first, centre + 1) - first) / (centre - first)
        if last > centre:
            result[centre:last, index] = (last - numpy.arange(centre, last)) / (last - centre)
    return node.constant(torch.from_numpy(result), torch_dtype(node.attr("output_datatype", 1)))
