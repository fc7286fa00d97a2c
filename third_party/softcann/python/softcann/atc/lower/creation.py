"""Tensors from nothing: constants, ranges, random numbers."""

import torch

from ..tensors import limits_of, to_torch, torch_dtype
from . import lowers
from .elementwise import NARROW


@lowers("Constant")
def constant(node):
    for name, dtype in (
        ("value_float", torch.float32),
        ("value_floats", torch.float32),
        ("value_int", torch.int64),
        ("value_ints", torch.int64),
    ):
        if name in node.attributes:
            return node.constant(node.attr(name), dtype)
    if "sparse_value" in node.attributes:
        from ..importer import dense

        return node.constant(dense(node.attr("sparse_value")))
    if "value" not in node.attributes:
        raise node.refuse("text constants are not served")
    value = node.constant(to_torch(node.attr("value"), node.importer.folder))
    value.limits = limits_of(node.attr("value"))
    return value


@lowers("ConstantOfShape")
def constant_of_shape(node):
    value = node.attr("value")
    if value is not None and limits_of(value):
        raise node.refuse("it fills with integers of 4 bits")
    value = torch.zeros(1) if value is None else to_torch(value)
    return node.emit("aten::full", node.elements(node.x(0)), value.item(), dtype=value.dtype)


@lowers("Range")
def range_(node):
    start, limit, step = (node.number(index) for index in range(3))
    dtype = node.x(0).dtype
    return node.emit("aten::arange.start_step", start, limit, step, dtype=dtype)


@lowers("EyeLike")
def eye_like(node):
    x, offset = node.x(0), node.attr("k", 0)
    dtype = torch_dtype(node.attr("dtype")) if "dtype" in node.attributes else x.dtype
    rows, columns = (node.emit("aten::arange", node.size(x, axis)) for axis in (0, 1))
    hit = node.emit("aten::eq.Tensor", node.emit("aten::unsqueeze", node.emit("aten::add.Scalar", rows, offset), 1), columns)
    if dtype in NARROW:
        hit = node.cast(hit, torch.int64)
    return node.cast(hit, dtype)


@lowers("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def random(node):
    like = node.type.endswith("Like")
    sizes = node.sizes(node.x(0)) if like else node.attr("shape")
    dtype = torch_dtype(node.attr("dtype")) if "dtype" in node.attributes else node.x(0).dtype if like else torch.float32
    if "Normal" in node.type:
        spread, base = node.attr("scale", 1.0), node.attr("mean", 0.0)
        drawn = node.emit("aten::randn", sizes, dtype=dtype)
    else:
        base = node.attr("low", 0.0)
        spread = node.attr("high", 1.0) - base
        drawn = node.emit("aten::rand", sizes, dtype=dtype)
    return node.emit("aten::add.Scalar", node.emit("aten::mul.Scalar", drawn, spread), base)


@lowers("Bernoulli")
def bernoulli(node):
    x = node.x(0)
    dtype = torch_dtype(node.attr("dtype")) if "dtype" in node.attributes else x.dtype
    return node.cast(node.emit("aten::bernoulli", x), dtype)


@lowers("Multinomial")
def multinomial(node):
    weights = node.emit("aten::softmax.int", node.x(0), -1)
    drawn = node.emit("aten::multinomial", weights, node.attr("sample_size", 1), True)
    return node.cast(drawn, torch_dtype(node.attr("dtype", 6)))
