"""What follows a convolution or a product and is linear in each channel goes into its weights and bias."""

import torch

from ..program import Value
from .patterns import Patterns


def foldable(patterns, value):
    """The convolution with constant weights that makes a value which nothing else uses."""
    conv = patterns.made_by(value, "aten::convolution")
    if conv is None or not patterns.once(value) or conv.args[1].const is None:
        return None
    bias, transposed, groups = conv.args[2], conv.args[6], conv.args[8]
    return None if (bias is not None and bias.const is None) or (transposed and groups != 1) else conv


def absorb(patterns, conv, op, factor, shift):
    """`op` becomes the convolution with each output channel multiplied and shifted (float64 vectors)."""
    weight, bias, transposed = conv.args[1], conv.args[2], conv.args[6]
    shape = [1] * weight.exact.dim()
    shape[1 if transposed else 0] = -1
    new = patterns.constant(weight.exact.double() * factor.reshape(shape), weight)
    old = 0.0 if bias is None else bias.exact.double()
    patterns.become(
        op, "aten::convolution", [conv.args[0], new, patterns.constant(old * factor + shift, weight), *conv.args[3:]], conv
    )


def batch_norm(patterns: Patterns):
    count = 0
    for _, op in patterns.each("aten::batch_norm"):
        x, *params = op.args[:5]
        conv = foldable(patterns, x)
        if conv is None or op.args[5] or any(value is not None and value.const is None for value in params) or params[3] is None:
            continue
        channels = params[3].const.numel()
        scale, bias, mean, var = (None if value is None else value.exact.double() for value in params)
        scale = torch.ones(channels, dtype=torch.float64) if scale is None else scale
        factor = scale / torch.sqrt(var + op.args[7])
        absorb(patterns, conv, op, factor, (0.0 if bias is None else bias) - mean * factor)
        count += 1
    return count


def per_channel(value, rank, channels):
    """A constant that has a number for each channel (or one for all) as a vector; None for another."""
    if not isinstance(value, Value) or value.const is None:
        return None
    exact = value.exact.double()
    if exact.numel() == 1 and exact.dim() <= rank:
        return exact.reshape(1).expand(channels)
    aligned = [1] * (rank - exact.dim()) + list(exact.shape)
    return exact.reshape(-1) if aligned == [1, channels] + [1] * (rank - 2) else None


def scale(patterns: Patterns):
    """Products and sums with constants by channel."""
    count = 0
    for kernel in ("aten::mul.Tensor", "aten::add.Tensor"):
        for _, op in patterns.each(kernel):
            for x, other in (op.args[:2], op.args[1::-1]):
                conv = foldable(patterns, x) if isinstance(x, Value) else None
                if conv is None or not x.known or len(op.args) > 2 and op.args[2] != 1:
                    continue
                vector = per_channel(other, x.rank, x.dims[1])
                if vector is None or other.dtype != x.dtype:
                    continue
                one, zero = torch.ones_like(vector), torch.zeros_like(vector)
                absorb(patterns, conv, op, *((vector, zero) if kernel == "aten::mul.Tensor" else (one, vector)))
                count += 1
                break
    return count


def linear(patterns: Patterns):
    """Products with a constant matrix, and the bias behind them."""
    count = 0
    for _, op in patterns.each("aten::add.Tensor"):
        for product, bias in (op.args[:2], op.args[1::-1]):
            matmul = patterns.made_by(product, "aten::matmul")
            if matmul is None or not patterns.once(product) or not fits(matmul) or len(op.args) > 2 and op.args[2] != 1:
                continue
            width = matmul.args[1].const.shape[1]
            if (
                isinstance(bias, Value)
                and bias.const is not None
                and list(bias.const.shape) == [width]
                and bias.dtype == product.dtype
            ):
                patterns.become(op, "aten::linear", [matmul.args[0], turned(patterns, matmul.args[1]), bias], matmul)
                count += 1
                break
    dead = {id(value) for _, op in patterns.each("aten::linear") for value in op.inputs()}
    for _, op in patterns.each("aten::matmul"):
        if fits(op) and id(op.outputs[0]) not in dead and patterns.uses[id(op.outputs[0])]:
            patterns.become(op, "aten::linear", [op.args[0], turned(patterns, op.args[1])])
            count += 1
    return count


def fits(matmul):
    x, weight = matmul.args[:2]
    return (
        weight.const is not None
        and weight.const.dim() == 2
        and weight.dtype.is_floating_point
        and x.known
        and x.rank >= 2
        and x.dtype == weight.dtype
    )


def turned(patterns, weight):
    """The matrix as linear has it, [out, in]; once for each."""
    if "linear" not in weight.casts:
        weight.casts["linear"] = patterns.constant(weight.exact.t(), weight)
        weight.casts["linear"].source = weight.source
    return weight.casts["linear"]
