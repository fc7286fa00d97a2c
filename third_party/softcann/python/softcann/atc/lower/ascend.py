"""Ascend's own operators: nodes of the domain npu, as torch.onnx.export writes them of torch_npu's operators."""

import torch

from ..program import Of
from . import lowers
from .indexing import scatter_nd
from .quant import quantize

MASKED = -10000.0  # a score that a mask hides, as the operator has it: a row that is hidden whole stays finite
STORED = {2: torch.int8, 3: torch.int32, 4: torch.uint8}  # by CANN's numbers of types
FLOATS = {1: torch.float16, 27: torch.bfloat16}


def given(node, index):
    """An optional tensor: None where it is left out, or an empty constant, as the exporter writes what is left out."""
    value = node.x(index)
    return None if value is None or value.known and value.dims == [0] else value


def halves(node, x, axis):
    axis, size = node.axis(x, axis), node.size(x, axis)
    if isinstance(size, Of) or size % 2:
        raise node.refuse("the dimension that it takes apart must have a fixed, even size")
    return [node.emit("aten::slice.Tensor", x, axis, start, start + size // 2, 1) for start in (0, size // 2)]


def inverse_root(node, square, axes, epsilon):
    """1 / sqrt(mean + epsilon) of squares."""
    mean = node.emit("aten::mean.dim", square, axes, True)
    return node.emit("aten::rsqrt", node.emit("aten::add.Scalar", mean, epsilon))


@lowers("npu::NPUFastGelu")
def fast_gelu(node):
    x = node.x(0)
    return node.emit("aten::mul.Tensor", x, node.emit("aten::sigmoid", node.emit("aten::mul.Scalar", x, 1.702)))


@lowers("npu::NPUGeGlu")
def geglu(node):
    linear, active = halves(node, node.x(0), node.attr("dim", -1))
    if node.attr("activate_left", 0):
        linear, active = active, linear
    active = node.emit("aten::gelu", active, approximate="tanh" if node.attr("approximate", 1) else "none")
    return node.emit("aten::mul.Tensor", linear, active), active


@lowers("npu::NPURmsNorm")
def rms_norm(node):
    """Of one tensor, or of the sum of two, which then is the third result."""
    *parts, gamma = node.inputs
    x = parts[0] if len(parts) == 1 else node.emit("aten::add.Tensor", *parts)
    epsilon, sizes = node.attr("epsilon", 1e-6), node.sizes(gamma)
    y = node.emit("aten::rms_norm", x, sizes, gamma, epsilon)
    wide = node.cast(x, torch.float32)
    rstd = inverse_root(node, node.emit("aten::square", wide), list(range(-len(sizes), 0)), epsilon) if node.wants(1) else None
    return (y, rstd, x)[: node.output_count()]


@lowers("npu::NPUDeepNorm")
def deep_norm(node):
    x, more, beta, gamma = node.inputs
    total = node.emit("aten::add.Tensor", node.emit("aten::mul.Scalar", x, node.attr("alpha", 0.3)), more)
    y, mean, rstd = node.emit("aten::native_layer_norm", total, node.sizes(gamma), gamma, beta, node.attr("epsilon", 1e-6))
    # As in LayerNormalization: of half precision the CPU gives them in half precision, whatever torch says.
    return (*(node.emit("aten::to.dtype", one, torch.float32) for one in (mean, rstd)), y)


@lowers("npu::NPUGroupNormSilu")
def group_norm_silu(node):
    x, gamma, beta = node.inputs
    groups, epsilon = node.attr("group"), node.attr("eps", 1e-5)
    y = node.emit("aten::silu", node.emit("aten::group_norm", x, groups, gamma, beta, epsilon, False))
    if not (node.wants(1) or node.wants(2)):
        return y
    parts = node.reshape(x, [node.size(x, 0), groups, -1])
    mean = node.emit("aten::mean.dim", parts, [-1], True)
    rstd = inverse_root(node, node.emit("aten::square", node.emit("aten::sub.Tensor", parts, mean)), [-1], epsilon)
    return (y, *(node.emit("aten::squeeze.dim", one, -1) for one in (mean, rstd)))


def turned(node, x, mode):
    """The last dimension turned by a right angle in the plane of its pairs, which lie as the mode says."""
    size = node.size(x, -1)
    if isinstance(size, Of):
        raise node.refuse("the last dimension must have a fixed size")
    if mode == "interleave":
        pairs = node.reshape(x, [*node.sizes(x)[:-1], size // 2, 2])
        first, second = (node.emit("aten::select.int", pairs, -1, index) for index in (0, 1))
        stacked = node.emit("aten::stack", [node.emit("aten::neg", second), first], -1)
        return node.reshape(stacked, node.sizes(x))
    parts = halves(node, x, -1)
    if mode == "quarter":
        return node.emit("aten::cat", [turned(node, part, "half") for part in parts], -1)
    return node.emit("aten::cat", [node.emit("aten::neg", parts[1]), parts[0]], -1)


@lowers("npu::NPURotaryMul")
def rotary_mul(node):
    x, cosine, sine = node.inputs
    mode = node.attr("rotary_mode", "half")
    if mode not in ("half", "interleave", "quarter", "interleave-half"):
        raise node.refuse(f"rotary_mode {mode!r} is none of half, interleave, quarter, interleave-half")
    if mode == "interleave-half":
        size, mode = node.size(x, -1), "half"
        x = node.emit("aten::cat", [node.emit("aten::slice.Tensor", x, -1, first, size, 2) for first in (0, 1)], -1)
    across = node.emit("aten::mul.Tensor", turned(node, x, mode), sine)
    return node.emit("aten::add.Tensor", node.emit("aten::mul.Tensor", x, cosine), across)


@lowers("npu::NPUScaledMaskedSoftmax")
def scaled_masked_softmax(node):
    x, mask = node.x(0), given(node, 1)
    scores = node.emit("aten::mul.Scalar", x, node.attr("scale", 1.0))
    if node.attr("fixed_triu_mask", 0):
        ones = node.emit("aten::ones", node.sizes(x)[-2:], dtype=torch.bool)
        mask = node.emit("aten::triu", ones, 1)
    if mask is not None:
        scores = node.emit("aten::masked_fill.Scalar", scores, node.cast(mask, torch.bool), MASKED)
    return node.emit("aten::softmax.int", scores, -1)


@lowers("npu::NPUMaskedSoftmaxWithRelPosBias")
def softmax_of_windows(node):
    """x is [B, W, N, S1, S2], the mask [W, S1, S2], the bias [N, S1, S2]."""
    x, mask, bias = node.x(0), given(node, 1), node.x(2)
    rows, columns = node.sizes(x)[-2:]
    scores = node.emit("aten::mul.Scalar", x, node.attr("scale_value", 1.0))
    if mask is not None:
        scores = node.emit("aten::add.Tensor", scores, node.reshape(mask, [-1, 1, rows, columns]))
    scores = node.emit("aten::add.Tensor", scores, node.reshape(bias, [-1, rows, columns]))
    return node.emit("aten::softmax.int", scores, -1)


@lowers("npu::NPUFusedAttentionScore")
def attention_score(node):
    """Heads side by side: [batch * queries, heads * size]. Without dropout, which belongs to training."""
    if node.attr("keep_prob", 1.0) < 1:
        raise node.refuse("dropout belongs to training: export it with keep_prob=1")
    if node.attr("bmm_score_transpose_a", 0):
        raise node.refuse("bmm_score_transpose_a is not served")
    swapped = (
        node.attr("query_transpose", 0),
        node.attr("key_transpose", 0),
        bool(node.attr("value_transpose", 0)) != bool(node.attr("bmm_score_transpose_b", 0)),
    )
    q, k, v = (
        node.emit("aten::transpose.int", value, -2, -1) if swap else value for value, swap in zip(node.inputs[:3], swapped)
    )
    out = node.emit("aten::scaled_dot_product_attention", q, k, v, node.x(3), 0.0, False, scale=node.attr("scale"))
    side_by_side = node.emit("aten::flatten.using_ints", node.emit("aten::transpose.int", out, 1, 2), 2, 3)
    return node.emit("aten::flatten.using_ints", side_by_side, 0, 1)


@lowers("npu::NPUOneHot")
def one_hot(node):
    """float32, with a new dimension of size `depth`, whose place is called num_classes."""
    x = node.cast(node.x(0), torch.int64)
    rank = node.rank(x) + 1
    place = node.attr("num_classes", -1) % rank
    steps = torch.arange(node.attr("depth", 1)).reshape([-1 if axis == place else 1 for axis in range(rank)])
    hit = node.emit("aten::eq.Tensor", node.emit("aten::unsqueeze", x, place), node.constant(steps))
    on, off = (node.constant(float(node.attr(name, default))) for name, default in (("on_value", 1), ("off_value", 0)))
    return node.emit("aten::where.self", hit, on, off)


@lowers("npu::NPUSlice")
def slice_(node):
    x = node.x(0)
    for axis, (offset, size) in enumerate(zip(node.attr("offsetss"), node.attr("sizes"))):
        x = node.emit("aten::slice.Tensor", x, axis, offset, None if size == -1 else offset + size, 1)
    return x


@lowers("npu::NPUIndexing")
def indexing(node):
    def bit(name, index):
        return node.attr(name, 0) >> index & 1

    x, axis = node.x(0), 0
    for index, (first, last, step) in enumerate(zip(node.attr("begins"), node.attr("ends"), node.attr("strides"))):
        if bit("ellipsis_mask", index):
            rest = range(index + 1, len(node.attr("begins")))
            axis = node.rank(x) - sum(not bit("new_axis_mask", one) for one in rest)
        elif bit("new_axis_mask", index):
            x, axis = node.emit("aten::unsqueeze", x, axis), axis + 1
        elif bit("shrink_axis_mask", index):
            x = node.emit("aten::select.int", x, axis, first)
        else:
            bounds = (None if bit("begin_mask", index) else first, None if bit("end_mask", index) else last)
            x, axis = node.emit("aten::slice.Tensor", x, axis, *bounds, step), axis + 1
    return x


@lowers("npu::NPUFormatCast")
def format_cast(node):
    """Formats of storage are the chip's own: the numbers stay."""
    return node.x(0)


@lowers("npu::NPUScatterNdUpdate")
def scatter_nd_update(node):
    return scatter_nd(node)


def along(node, numbers, x, axis):
    """One number for all, or one for each place of an axis, as they broadcast over x."""
    if numbers is None or node.sizes(numbers) in ([], [1]):
        return numbers
    return node.reshape(numbers, [-1 if index == node.axis(x, axis) else 1 for index in range(node.rank(x))])


@lowers("npu::NPUQuantize")
def quantize_(node):
    x, axis = node.x(0), node.attr("axis", 1)
    dtype = STORED.get(node.attr("dtype"))
    if dtype is None:
        raise node.refuse(f"type {node.attr('dtype')} is none of 2 (int8), 3 (int32), 4 (uint8)")
    scale, zero = (along(node, given(node, index), x, axis) for index in (1, 2))
    if node.attr("div_mode", 1):
        return quantize(node, node.cast(x, torch.float32), node.cast(scale, torch.float32), zero, dtype)
    value = node.emit("aten::mul.Tensor", node.cast(x, torch.float32), node.cast(scale, torch.float32))
    if zero is not None:   # before the rounding here
        value = node.emit("aten::add.Tensor", value, node.cast(zero, torch.float32))
    return quantize(node, value, node.constant(1.0), None, dtype)


@lowers("npu::NPUDynamicQuant")
def dynamic_quant(node):
    """int8 with a scale for each row."""
    x, smooth, groups = node.cast(node.x(0), torch.float32), given(node, 1), given(node, 2)
    if groups is not None or node.attr("dst_type", 2) != 2:
        raise node.refuse("only int8 without groups is served")
    if smooth is not None:
        x = node.emit("aten::mul.Tensor", x, node.cast(smooth, torch.float32))
    largest = node.emit("aten::amax", node.emit("aten::abs", x), [-1], True)
    scale = node.emit("aten::div.Scalar", largest, 127.0)
    one = node.constant(1.0)
    safe = node.emit("aten::where.self", node.emit("aten::eq.Scalar", scale, 0), one, scale)
    return quantize(node, x, safe, None, torch.int8), node.emit("aten::squeeze.dim", scale, -1)


@lowers("npu::NPUAntiQuant")
def anti_quant(node):
    value, offset = node.cast(node.x(0), torch.float32), given(node, 2)
    if offset is not None:
        value = node.emit("aten::add.Tensor", value, node.cast(offset, torch.float32))
    value = node.emit("aten::mul.Tensor", value, node.cast(node.x(1), torch.float32))
    return node.cast(value, FLOATS[node.attr("dst_dtype", 1)])


@lowers("npu::NPUWeightQuantBatchMatmulV2")
def weight_quant_matmul(node):
    """x @ ((weight + offset) * scale) + bias of int8 weights; scale and offset for all, by column, or by groups of rows too."""
    x, weight, scale, offset = node.x(0), node.x(1), node.x(2), given(node, 3)
    if given(node, 4) is not None or given(node, 5) is not None:
        raise node.refuse("results that are quantised again are not served")
    if weight.dtype != torch.int8:
        raise node.refuse(f"weights of {weight.dtype} are not served, int8 are")
    wide, group = node.cast(weight, torch.float32), node.attr("antiquant_group_size", 0)

    def of_rows(value):
        value = node.cast(value, torch.float32)
        if not group:
            return value
        value = node.emit("aten::repeat_interleave.self_int", value, group, 0)
        return node.emit("aten::slice.Tensor", value, 0, 0, node.size(weight, 0), 1)

    if offset is not None:
        wide = node.emit("aten::add.Tensor", wide, of_rows(offset))
    wide = node.cast(node.emit("aten::mul.Tensor", wide, of_rows(scale)), x.dtype)
    product, bias = node.emit("aten::matmul", x, wide), given(node, 6)
    return product if bias is None else node.emit("aten::add.Tensor", product, node.cast(bias, x.dtype))
