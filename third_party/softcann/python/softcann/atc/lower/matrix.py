"""Products of matrices."""

import torch

from . import lowers
from .node import is_float


@lowers("MatMul", "FusedMatMul")
def matmul(node):
    return node.emit("aten::matmul", node.x(0), node.x(1))


@lowers("Gemm")
def gemm(node):
    a, b, c = node.x(0), node.x(1), node.x(2)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if not is_float(a):
        alpha, beta = int(alpha), int(beta)
    if node.attr("transA", 0):
        a = node.emit("aten::t", a)
    plain = alpha == 1 and (c is None or beta == 1) and is_float(a)
    if plain and (c is None or (c.known and c.rank == 1)) and b.const is not None:
        # The weight as torch's linear has it: [out, in].
        weight = b if node.attr("transB", 0) else node.emit("aten::contiguous", node.emit("aten::t", b))
        if weight.const is not None and (c is None or not c.static or not weight.static or c.dims == weight.dims[:1]):
            return node.emit("aten::linear", a, weight, c)
    if node.attr("transB", 0):
        b = node.emit("aten::t", b)
    if c is None or beta == 0:
        product = node.emit("aten::mm", a, b)
        return product if alpha == 1 else node.emit("aten::mul.Scalar", product, alpha)
    return node.emit("aten::addmm", c, a, b, beta=beta, alpha=alpha)


@lowers("Einsum")
def einsum(node):
    return node.emit("aten::einsum", node.attr("equation").replace(" ", ""), list(node.inputs))


@lowers("Det")
def det(node):
    return node.emit("aten::linalg_det", node.x(0))


@lowers("MatMulInteger")
def matmul_integer(node):
    left, right = (shifted(node, index) for index in (0, 1))
    return node.cast(node.emit("aten::matmul", left, right), torch.int32)


def shifted(node, index):
    """An operand of a quantised product in int32, its zero point subtracted; a vector is one of rows (left) or columns."""
    x, zero = node.cast(node.x(index), torch.int32), node.x(index + 2)
    if zero is None:
        return x
    zero = node.cast(zero, torch.int32)
    if zero.rank == 1 and index == 0 and zero.dims != [1]:
        zero = node.emit("aten::unsqueeze", zero, -1)
    return node.emit("aten::sub.Tensor", x, zero)
