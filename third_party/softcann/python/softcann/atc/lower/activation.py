"""Activation functions."""

from . import lowers

# ONNX type: ATen's operator and the default of the one attribute, alpha.
ALPHA = {"Celu": ("celu", 1.0), "Elu": ("elu", 1.0), "LeakyRelu": ("leaky_relu", 0.01)}


@lowers(*ALPHA)
def with_alpha(node):
    kernel, default = ALPHA[node.type]
    return node.emit(f"aten::{kernel}", node.x(0), node.attr("alpha", default))


@lowers("Selu")
def selu(node):
    gamma, alpha = node.attr("gamma", 1.0507009873554805), node.attr("alpha", 1.6732632423543772)
    return node.emit("aten::elu", node.x(0), alpha, gamma)


@lowers("ThresholdedRelu")
def thresholded_relu(node):
    return node.emit("aten::threshold", node.x(0), node.attr("alpha", 1.0), 0.0)


@lowers("PRelu")
def prelu(node):
    x, slope = node.x(0), node.x(1)
    zero = node.cast(node.constant(0.0), x.dtype)
    return node.emit(
        "aten::where.self",
        node.emit("aten::lt.Scalar", x, 0),
        node.emit("aten::mul.Tensor", x, slope),
        x if x.dtype.is_floating_point else node.emit("aten::maximum", x, zero),
    )


@lowers("HardSigmoid")
def hard_sigmoid(node):
    alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return node.emit("aten::hardsigmoid", node.x(0))
    scaled = node.emit("aten::add.Scalar", node.emit("aten::mul.Scalar", node.x(0), alpha), beta)
    return node.emit("aten::clamp", scaled, 0.0, 1.0)


@lowers("Softsign")
def softsign(node):
    x = node.x(0)
    return node.emit("aten::div.Tensor", x, node.emit("aten::add.Scalar", node.emit("aten::abs", x), 1))


@lowers("Mish", "npu::NPUMish")
def mish(node):
    return node.emit("aten::mish", node.x(0))


@lowers("Gelu", "npu::NPUGeluV2")
def gelu(node):
    return node.emit("aten::gelu", node.x(0), approximate=node.attr("approximate", "none"))


@lowers("Swish")
def swish(node):
    x, alpha = node.x(0), node.attr("alpha", 1.0)
    if alpha == 1.0:
        return node.emit("aten::silu", x)
    return node.emit("aten::mul.Tensor", x, node.emit("aten::sigmoid", node.emit("aten::mul.Scalar", x, alpha)))


@lowers("Shrink")
def shrink(node):
    x, bias, lambd = node.x(0), node.attr("bias", 0.0), node.attr("lambd", 0.5)
    dtype = x.dtype
    if not dtype.is_floating_point:
        bias, lambd = int(bias), lambd
    low = node.emit("aten::add.Scalar", x, bias)
    high = node.emit("aten::sub.Scalar", x, bias)
    zero = node.emit("aten::zeros_like", x)
    above = node.emit("aten::where.self", node.emit("aten::gt.Scalar", x, lambd), high, zero)
    return node.emit("aten::where.self", node.emit("aten::lt.Scalar", x, -lambd), low, above)


def flattened(node, x, axis):
    """Before opset 13 the softmax went over all dimensions from `axis` on."""
    rank = node.rank(x)
    axis = node.axis(x, axis)
    return axis if node.opset >= 13 or axis == rank - 1 else None


def over_axis(node, compute):
    """Applies `compute(x, axis)` along the node's axis, or along the flattened rest before opset 13."""
    x = node.x(0)
    axis = flattened(node, x, node.attr("axis", -1 if node.opset >= 13 else 1))
    if axis is not None:
        return compute(x, axis)
    first = node.axis(x, node.attr("axis", 1))
    flat = node.emit("aten::flatten.using_ints", x, first, -1) if first < node.rank(x) else x
    return node.reshape(compute(flat, first), node.sizes(x))


@lowers("Softmax", "LogSoftmax")
def softmax(node):
    kernel = "aten::softmax.int" if node.type == "Softmax" else "aten::log_softmax.int"
    return over_axis(node, lambda x, axis: node.emit(kernel, x, axis))


@lowers("Hardmax")
def hardmax(node):
    def compute(x, axis):
        index = node.emit("aten::argmax", x, axis, True)
        return node.emit("aten::scatter.value", node.emit("aten::zeros_like", x), axis, index, 1.0)

    return over_axis(node, compute)
