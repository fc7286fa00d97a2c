"""Normalisation."""

import torch

from . import lowers


@lowers("BatchNormalization")
def batch_norm(node):
    x, scale, bias, mean, var = node.inputs[:5]
    epsilon, momentum = node.attr("epsilon", 1e-5), node.attr("momentum", 0.9)
    training = bool(node.attr("training_mode", 0)) if node.opset >= 14 else node.output_count() > 1
    if not training:
        return node.emit("aten::batch_norm", x, scale, bias, mean, var, False, 1 - momentum, epsilon, False)
    axes = [0, *range(2, node.rank(x))]
    y = node.emit("aten::batch_norm", x, scale, bias, None, None, True, 1 - momentum, epsilon, False)
    outputs = [y]
    for old, new in (
        (mean, node.emit("aten::mean.dim", x, axes)),
        (var, node.emit("aten::var.correction", x, axes, correction=0)),
    ):
        mixed = node.emit(
            "aten::add.Tensor", node.emit("aten::mul.Scalar", old, momentum), node.emit("aten::mul.Scalar", new, 1 - momentum)
        )
        outputs.append(mixed)
    return tuple(outputs[: node.output_count()])


@lowers("InstanceNormalization")
def instance_norm(node):
    x, scale, bias = node.inputs
    return node.emit("aten::instance_norm", x, scale, bias, None, None, True, 0.0, node.attr("epsilon", 1e-5), False)


@lowers("LayerNormalization")
def layer_norm(node):
    x, scale, bias = node.x(0), node.x(1), node.x(2)
    axis, epsilon = node.axis(x, node.attr("axis", -1)), node.attr("epsilon", 1e-5)
    sizes = [node.size(x, index) for index in range(axis, node.rank(x))]
    fits = scale.static and scale.dims == sizes and (bias is None or bias.static and bias.dims == sizes)
    kernel = "aten::native_layer_norm" if node.wants(1) or node.wants(2) else "aten::layer_norm"
    inner = (scale, bias) if fits else (None, None)
    result = node.emit(kernel, x, sizes, *inner, epsilon)
    y, *rest = result if isinstance(result, tuple) else (result,)
    if not fits:
        y = node.emit("aten::mul.Tensor", y, scale)
        y = y if bias is None else node.emit("aten::add.Tensor", y, bias)
    # Mean and deviation are float; of half precision the CPU gives them in half precision, whatever torch says.
    return (y, *(node.emit("aten::to.dtype", one, torch.float32) for one in rest))


@lowers("RMSNormalization")
def rms_norm(node):
    x, scale = node.x(0), node.x(1)
    axis = node.axis(x, node.attr("axis", -1))
    sizes = [node.size(x, index) for index in range(axis, node.rank(x))]
    fits = scale.static and scale.dims == sizes
    y = node.emit("aten::rms_norm", x, sizes, scale if fits else None, node.attr("epsilon", 1e-5))
    return y if fits else node.emit("aten::mul.Tensor", y, scale)


@lowers("GroupNormalization")
def group_norm(node):
    x, scale, bias, groups = node.x(0), node.x(1), node.x(2), node.attr("num_groups")
    if node.opset < 21:  # scale and bias for each group
        repeat = x.dims[1] // groups
        scale, bias = (node.emit("aten::repeat_interleave.self_int", value, repeat) for value in (scale, bias))
    return node.emit("aten::group_norm", x, groups, scale, bias, node.attr("epsilon", 1e-5), False)


@lowers("LRN")
def lrn(node):
    x, size = node.x(0), node.attr("size")
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    squares = node.emit("aten::square", x)
    pad = [0, 0] * (node.rank(x) - 2) + [(size - 1) // 2, size - 1 - (size - 1) // 2]
    windows = node.emit("aten::unfold", node.emit("aten::constant_pad_nd", squares, pad, 0.0), 1, size, 1)
    total = node.emit("aten::sum.dim_IntList", windows, [-1], False)
    scale = node.emit("aten::add.Scalar", node.emit("aten::mul.Scalar", total, alpha / size), bias)
    return node.emit("aten::div.Tensor", x, node.emit("aten::pow.Tensor_Scalar", scale, beta))


@lowers("LpNormalization")
def lp_norm(node):
    x, p = node.x(0), node.attr("p", 2)
    norm = node.emit("aten::linalg_vector_norm", x, p, [node.attr("axis", -1)], True)
    zero = node.emit("aten::eq.Scalar", norm, 0)
    one = node.emit("aten::ones_like", norm)
    return node.emit("aten::div.Tensor", x, node.emit("aten::where.self", zero, one, norm))


@lowers("MeanVarianceNormalization")
def mean_variance(node):
    x, axes = node.x(0), node.attr("axes", [0, 2, 3])
    centred = node.emit("aten::sub.Tensor", x, node.emit("aten::mean.dim", x, axes, True))
    deviation = node.emit("aten::sqrt", node.emit("aten::mean.dim", node.emit("aten::square", centred), axes, True))
    return node.emit("aten::div.Tensor", centred, node.emit("aten::add.Scalar", deviation, 1e-9))


PLAIN_ATTENTION = {"is_causal", "scale", "q_num_heads", "kv_num_heads", "softcap"}


@lowers("Attention")
def attention(node):
    """The standard's attention where it is plain; otherwise its body, operator by operator."""
    q, k, v, mask = (node.x(index) for index in range(4))
    plain = (
        not any(node.x(index) is not None for index in (4, 5, 6))
        and not any(node.wants(index) for index in (1, 2, 3))
        and not node.attr("softcap", 0.0)
        and all(value.known and value.rank == 4 for value in (q, k, v))
        and not (node.attr("is_causal", 0) and mask is not None)
        and set(node.attributes) <= PLAIN_ATTENTION
    )
    grouped = plain and q.dims[1] != k.dims[1]
    if not plain:
        return node.importer.dispatch_body(node)
    return node.emit(
        "aten::scaled_dot_product_attention",
        q,
        k,
        v,
        mask,
        0.0,
        bool(node.attr("is_causal", 0)),
        scale=node.attr("scale"),
        enable_gqa=grouped,
    )
