"""If, Loop and Scan: bodies become graphs of their own, called by number."""

import torch

from ..builder import Builder
from ..program import Graph, Op, Port, Value
from . import lowers

ROUNDS = 6  # until the sizes of what a loop carries are found


class Body:
    """A graph attribute, lowered: the graph, its number, and the values it yields."""

    def __init__(self, node, proto, inputs):
        from ..importer import Scope

        importer, outer = node.importer, node.builder
        importer.deeper(node)
        scope = Scope(node.scope)
        self.graph = Graph(proto.name or node.name)
        builder = Builder(importer.program, self.graph, outer.samples, outer.fold, outer.precision)
        for info, value in zip(proto.input, inputs):
            dims = [-1 if dim is None else dim for dim in value.dims] if value.known else None
            self.graph.inputs.append(Port(value, info.name, value.dtype, dims))
            scope.names[info.name] = value
        self.number = len(importer.program.graphs)
        importer.program.graphs.append(self.graph)
        importer.body(proto, builder, scope)
        self.builder, self.outputs = builder, [scope.find(output.name) for output in proto.output]
        self.names = [output.name for output in proto.output]
        importer.depth -= 1

    def close(self):
        """Writes down what the graph yields."""
        for name, value in zip(self.names, self.outputs):
            dims = [-1 if dim is None else dim for dim in value.dims] if value.known else None
            self.graph.outputs.append(Port(value, name, value.dtype, dims))
        return self.number


def fresh(node, value):
    """A value like another one, for the input of a body."""
    new = Value(
        node.importer.program.new_name(),
        [None if sample is None else sample.to("meta") for sample in value.samples],
        is_list=value.is_list,
    )
    new.source = value.source
    return new


def merge(node, one, other):
    """Samples of what may be either value: sizes that differ are free."""
    if one.is_list or not one.known or not other.known or one.rank != other.rank or one.dtype != other.dtype:
        return [None] * node.builder.samples
    return [
        torch.empty(
            [
                left if left == right else node.importer.tried(None, f"{node.name}/{axis}", axis, index) + 7 * axis
                for axis, (left, right) in enumerate(zip(first.shape, second.shape))
            ],
            dtype=one.dtype,
            device="meta",
        )
        for index, (first, second) in enumerate(zip(one.samples, other.samples))
    ]


@lowers("If")
def if_(node):
    condition = node.x(0)
    if condition.const is not None:
        return inlined(node, node.attr("then_branch" if bool(condition.const) else "else_branch"))
    then, otherwise = (Body(node, node.attr(name), []) for name in ("then_branch", "else_branch"))
    for index, (left, right) in enumerate(zip(then.outputs, otherwise.outputs)):
        if left.known and right.known and left.dtype != right.dtype:
            then.outputs[index] = then.builder.cast(left, torch.float32)
            otherwise.outputs[index] = otherwise.builder.cast(right, torch.float32)
    condition = node.reshape(condition, []) if condition.known and condition.rank != 0 else condition
    op = Op("softcann::if", [condition, then.close(), otherwise.close()], [], *node.builder.origin, bodies=(1, 2))
    samples = [merge(node, left, right) for left, right in zip(then.outputs, otherwise.outputs)]
    outputs = node.builder.append(op, samples)
    for value, left in zip(outputs, then.outputs):
        value.is_list = left.is_list
    return tuple(outputs)


def inlined(node, proto):
    """The branch that is always taken, in the place of the operator."""
    from ..importer import Scope

    scope = Scope(node.scope)
    node.importer.deeper(node)
    node.importer.body(proto, node.builder, scope)
    node.importer.depth -= 1
    return tuple(scope.find(output.name) for output in proto.output)


def settled(node, proto, carried, make):
    """A body whose carried values keep their types and sizes from one step to the next; sizes that change become free."""
    inputs, freed = [fresh(node, value) for value in carried], set()
    for _ in range(ROUNDS):
        count = len(node.importer.program.graphs)
        body = make(inputs)
        results = body.outputs[-len(proto.output) :][body.lead : body.lead + len(inputs)]
        changed = False
        for index, (value, result) in enumerate(zip(inputs, results)):
            if value.is_list or not value.known:
                continue
            if result.known and result.dtype != value.dtype:
                body.outputs[body.lead + index] = body.builder.cast(result, value.dtype)
                result = body.outputs[body.lead + index]
            moving = differing(value, result)
            if moving is None or not moving <= {axis for place, axis in freed if place == index}:
                inputs[index] = Value(node.importer.program.new_name(), merge(node, value, result))
                freed |= {(index, axis) for axis in moving or ()}
                changed = True
        if not changed:
            return body, inputs
        del node.importer.program.graphs[count:]
        inputs = [fresh(node, value) for value in inputs]
    raise node.refuse("the sizes of what it carries from step to step do not settle")


def differing(one, other):
    """Axes along which two values' sizes differ; None if more than sizes does."""
    if not one.known or not other.known or one.rank != other.rank:
        return None
    return {
        axis
        for left, right in zip(one.samples, other.samples)
        for axis in range(one.rank)
        if left.shape[axis] != right.shape[axis]
    }


@lowers("Loop")
def loop(node):
    proto, builder = node.attr("body"), node.builder
    trips, condition, carried = node.x(0), node.x(1), node.inputs[2:]

    def make(inputs):
        step, go = (
            Value(node.importer.program.new_name(), [torch.empty((), dtype=dtype, device="meta")] * builder.samples)
            for dtype in (torch.int64, torch.bool)
        )
        body = Body(node, proto, [step, go, *inputs])
        body.lead = 1
        return body

    body, inputs = settled(node, proto, carried, make)
    count = len(carried)
    op = Op("softcann::loop", [trips, condition, body.close(), list(carried)], [], *builder.origin, bodies=(2,))
    rows = [stacked(node, value, 0, None) for value in body.outputs[1 + count :]]
    outputs = builder.append(op, [[sample for sample in value.samples] for value in inputs] + rows)
    for value, result in zip(outputs, body.outputs[1 : 1 + count]):
        value.is_list = result.is_list
        if value.is_list:
            value.samples = [None] * builder.samples
    return tuple(outputs)


def stacked(node, value, axis, steps):
    """Samples of the rows that a body yields, stacked; `steps` how many for each sample, None where it is known at run time."""
    if not value.known:
        return [None] * node.builder.samples
    found = []
    for index, sample in enumerate(value.samples):
        sizes = list(sample.shape)
        place = axis + len(sizes) + 1 if axis < 0 else axis
        sizes.insert(place, steps[index] if steps else node.importer.tried(None, f"{node.name}/steps", 0, index))
        found.append(torch.empty(sizes, dtype=value.dtype, device="meta"))
    return found


@lowers("Scan")
def scan(node):
    proto, builder, inputs = node.attr("body"), node.builder, node.inputs
    if node.opset < 9:
        return batched_scan(node)
    count = node.attr("num_scan_inputs")
    states, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    outs = len(proto.output) - len(states)
    axes = [node.axis(value, axis) for value, axis in zip(sequences, node.attr("scan_input_axes", [0] * count))]
    back, out_back = node.attr("scan_input_directions", [0] * count), node.attr("scan_output_directions", [0] * outs)
    items = [
        Value(node.importer.program.new_name(), [sample.to("meta").select(axis, 0) for sample in value.samples])
        for value, axis in zip(sequences, axes)
    ]

    def make(carried):
        body = Body(node, proto, [*carried, *items])
        body.lead = 0
        return body

    body, carried = settled(node, proto, states, make)
    out_axes = [
        axis + value.rank + 1 if axis < 0 else axis
        for axis, value in zip(node.attr("scan_output_axes", [0] * outs), body.outputs[len(states) :])
    ]
    op = Op(
        "softcann::scan",
        [
            body.close(),
            list(states),
            list(sequences),
            axes,
            [bool(one) for one in back],
            out_axes,
            [bool(one) for one in out_back],
        ],
        [],
        *builder.origin,
        bodies=(0,),
    )
    steps = [sample.shape[axes[0]] for sample in sequences[0].samples]
    rows = [stacked(node, value, axis, steps) for value, axis in zip(body.outputs[len(states) :], out_axes)]
    return tuple(builder.append(op, [value.samples for value in carried] + rows))


def batched_scan(node):
    raise node.refuse("Scan of opset 8 is not served: convert the model to opset 9 or newer (onnx.version_converter)")
