"""Weights of ONNX's Resize along one axis: for each output the inputs it takes and how much of each. Numbers only."""

import math

import numpy


def coordinates(count, size, scale, mode, roi):
    """Where each of `count` outputs lies in an input of `size`."""
    x = numpy.arange(count, dtype=numpy.float64)
    length = scale * size
    if mode == "align_corners":
        return x * (size - 1) / (length - 1) if length != 1 else numpy.zeros(count)
    if mode == "asymmetric":
        return x / scale
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if length > 1 else numpy.full(count, -0.5)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "half_pixel_symmetric":
        adjustment = count / length
        return size / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = roi
        if length > 1:
            return start * (size - 1) + x * (end - start) * (size - 1) / (length - 1)
        return numpy.full(count, 0.5 * (start + end) * (size - 1))
    return (x + 0.5) / scale - 0.5


def nearest(points, size, rule):
    """The input index of each output."""
    rounded = {
        "floor": numpy.floor,
        "ceil": numpy.ceil,
        "round_prefer_ceil": lambda p: numpy.floor(p + 0.5),
        "round_prefer_floor": lambda p: numpy.ceil(p - 0.5),
    }[rule](points)
    return numpy.clip(rounded, 0, size - 1).astype(numpy.int64)


def triangle(distance):
    return numpy.maximum(0, 1 - numpy.abs(distance))


def cubic(distance, a):
    d = numpy.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return numpy.where(d <= 1, near, numpy.where(d < 2, far, 0))


def matrix(points, size, scale, mode, a=-0.75, antialias=False, exclude_outside=False):
    """[outputs, inputs] of weights for linear and cubic interpolation."""
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    result = numpy.zeros((len(points), size))
    for row, point in enumerate(points):
        taps = numpy.arange(math.floor(point - reach) + 1, math.floor(point + reach) + 1)
        distance = (taps - point) * stretch
        weights = triangle(distance) if mode == "linear" else cubic(distance, a)
        if exclude_outside:
            weights = numpy.where((taps < 0) | (taps >= size), 0, weights)
        if antialias or exclude_outside:
            weights = weights / weights.sum()
        numpy.add.at(result[row], numpy.clip(taps, 0, size - 1), weights)
    return result
