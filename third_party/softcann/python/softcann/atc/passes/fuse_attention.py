"""softmax(q @ k^T * scale + mask) @ v as one operator."""

from ..program import Value
from .patterns import Patterns


def probabilities(patterns, value):
    """The softmax over the last axis that makes a value, past a guard against rows of NaN."""
    guard = patterns.made_by(value, "aten::where.self")
    if guard is not None:
        test = patterns.made_by(guard.args[0], "aten::isnan")
        value = (
            guard.args[2] if test is not None and test.args[0] is guard.args[2] and patterns.number(guard.args[1]) == 0 else value
        )
    op = patterns.made_by(value, "aten::softmax.int")
    return op if op is not None and op.args[0].known and op.args[1] in (-1, op.args[0].rank - 1) else None


def scores(patterns, value):
    """(product, scale, mask) of what the softmax is taken of."""
    mask, total = None, patterns.made_by(value, "aten::add.Tensor")
    candidates = [(value, None)]
    if total is not None and all(isinstance(arg, Value) for arg in total.args[:2]):
        candidates = [total.args[:2], total.args[1::-1]]
    for inner, mask in candidates:
        values, scale = patterns.factors(inner)
        product = patterns.made_by(values[0], "aten::matmul") if len(values) == 1 else None
        if product is not None:
            return product, scale, mask
    return None, None, None


def alike(*values):
    """Whether the leading sizes are the same for all samples, four dimensions and one type."""
    if any(not value.known or value.rank != 4 or value.dtype != values[0].dtype for value in values):
        return False
    return all(
        len({tuple(sample.shape[:-2]) for sample in samples}) == 1 for samples in zip(*(value.samples for value in values))
    )


def attention(patterns: Patterns):
    count = 0
    for graph, op in patterns.each("aten::matmul"):
        softmax = probabilities(patterns, op.args[0])
        if softmax is None:
            continue
        product, scale, mask = scores(patterns, softmax.args[0])
        if product is None or (mask is not None and not serves(mask, product)):
            continue
        query, turned, value = product.args[0], product.args[1], op.args[1]
        if not alike(query, turned, value):
            continue
        query, turned, scale = scaled(patterns, query, turned, scale)
        builder = patterns.builder(op)
        key = untransposed(patterns, builder, turned)
        patterns.insert(graph, op, builder)
        patterns.become(op, "aten::scaled_dot_product_attention", [query, key, value, mask, 0.0, False, scale], product, softmax)
        count += 1
    return count


def scaled(patterns, query, turned, scale):
    """Factors of queries and keys, by which exporters split the scale, become part of it."""
    found = []
    for value in (query, turned):
        values, number = patterns.factors(value) if patterns.once(value) else ([value], 1.0)
        found.append((values[0], number) if len(values) == 1 else (value, 1.0))
    return found[0][0], found[1][0], scale * found[0][1] * found[1][1]


def serves(mask, product):
    """A mask of the products' type that broadcasts over them."""
    out = product.outputs[0]
    if not mask.known or not out.known or mask.dtype != out.dtype or mask.rank > 4 or mask.rank < 2:
        return False
    return all(
        size in (1, whole)
        for sample, full in zip(mask.samples, out.samples)
        for size, whole in zip(sample.shape[::-1], full.shape[::-1])
    )


def untransposed(patterns, builder, turned):
    """The keys before their last two axes were exchanged."""
    permuted = patterns.made_by(turned, "aten::permute")
    if permuted is not None:
        order = [axis % 4 for axis in permuted.args[1]]
        return builder.emit("aten::permute", permuted.args[0], [*order[:2], order[3], order[2]])
    return builder.emit("aten::transpose.int", turned, -2, -1)
