"""Sequences of tensors, and optional values."""

import torch

from ..program import All
from . import lowers


@lowers("SequenceConstruct")
def construct(node):
    return node.emit("softcann::seq_make", list(node.inputs))


@lowers("SequenceEmpty")
def empty(node):
    return node.emit("softcann::seq_make", [])


@lowers("SequenceAt")
def at(node):
    return node.emit("softcann::seq_at", node.x(0), node.number(1))


@lowers("SequenceInsert")
def insert(node):
    return node.emit("softcann::seq_insert", node.x(0), node.x(1), node.number(2))


@lowers("SequenceErase")
def erase(node):
    return node.emit("softcann::seq_erase", node.x(0), node.number(1))


@lowers("SequenceLength")
def length(node):
    value = node.emit("softcann::seq_length", node.x(0))
    value.samples = [torch.empty((), dtype=torch.int64, device="meta")] * node.builder.samples
    return value


@lowers("SplitToSequence")
def split(node):
    x, axis, keep = node.x(0), node.axis(node.x(0), node.attr("axis", 0)), bool(node.attr("keepdims", 1))
    sizes = node.x(1)
    if sizes is None:
        return node.emit("softcann::seq_split", x, 1, axis, keep)
    chunk = node.number(1) if sizes.known and sizes.rank == 0 else sizes.const.tolist() if sizes.const is not None else All(sizes)
    return node.emit("softcann::seq_split", x, chunk, axis, True)


@lowers("ConcatFromSequence")
def concat(node):
    return node.emit("aten::stack" if node.attr("new_axis", 0) else "aten::cat", node.x(0), node.attr("axis"))


@lowers("Optional", "OptionalGetElement")
def optional(node):
    if node.x(0) is None:
        raise node.refuse("an optional value without an element is not served")
    return node.x(0)


@lowers("OptionalHasElement")
def has_element(node):
    return node.constant(node.x(0) is not None)
