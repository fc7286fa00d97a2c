"""An ONNX model as a program: follows the graph and calls each node's lowering."""

import onnx
import torch

from . import aipp_lower, lower
from .builder import Builder
from .errors import AtcError, Unsupported, first_line
from .lower.node import Node
from .program import Graph, Port, Program, Value
from .tensors import ONNX_DTYPES, limits_of, to_torch, torch_dtype

# Sizes that free dimensions are tried with: all different, so that they are not mistaken for one another or for fixed ones.
TRIED = ((19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67), (71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127))
DEPTH = 32  # of graphs in graphs
# Operators that may have integers of 4 bits as inputs: those that rearrange them, and those that make others of them.
REARRANGE = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Concat", "Gather"}
FROM_NARROW = {*REARRANGE, "Cast", "QuantizeLinear", "DequantizeLinear"}


class FreeDimension(Exception):
    """A size depends on data in a model whose inputs are fixed: it must be compiled with more than one sample."""


class Scope:
    """Names of one graph; those of the graphs around it are seen through it."""

    def __init__(self, parent=None):
        self.names, self.parent = {}, parent

    def find(self, name):
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class Importer:
    """`tried(name, axis, dim)` may give the sizes that a free dimension of an input is tried with."""

    def __init__(self, model, types, folder="", fold=True, precision=None, samples=1, progress=None):
        self.model, self.types, self.folder, self.fold = model, types, folder, fold
        self.precision, self.samples, self.progress = precision, samples, progress
        self.program = Program(model.graph.name or "model")
        self.opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
        self.functions = {(function.domain, function.name): function for function in model.functions}
        self.pictures = {}  # by input: sizes of its AIPP block, and the model's type
        self.free = {}  # name of a free dimension -> its index in TRIED
        self.depth = 0

    def run(self, inputs):
        """The program; `inputs` are (name, dtype, dims, tried) of the graph's inputs, tried sizes for its free dimensions."""
        graph, scope = Graph(self.model.graph.name), Scope()
        self.program.graphs.append(graph)
        builder = Builder(self.program, graph, self.samples, self.fold, self.precision)
        for index, (name, dtype, dims, tried) in enumerate(inputs):
            value = Value(self.program.new_name(), [torch.empty(sizes, dtype=dtype, device="meta") for sizes in tried])
            value.source = name
            graph.inputs.append(Port(value, name, dtype, dims))
            scope.names[name] = self.as_model(builder, value, index)
        self.body(self.model.graph, builder, scope)
        for output in self.model.graph.output:
            graph.outputs.append(self.port(output.name, scope.find(output.name)))
        return self.program

    def as_model(self, builder, value, index):
        """An input as the model wants it that is given otherwise: as a raw picture, or in half precision."""
        if index in self.pictures:
            picture, dtype = self.pictures[index]
            return aipp_lower.lower(Builder(self.program, builder.graph, self.samples, self.fold), picture, value, dtype)
        info = next(info for info in self.model.graph.input if info.name == value.source)
        wanted = torch_dtype(info.type.tensor_type.elem_type)
        half = self.precision is not None and self.precision.mode == "half"
        return value if half else builder.cast(value, wanted)

    def port(self, name, value):
        if value is None:
            raise AtcError("E16001", f"output {name} of the graph is made by no node", solution="Export the model again.")
        return Port(value, name, value.dtype, [-1 if dim is None else dim for dim in value.dims] if value.known else None)

    def body(self, graph, builder, scope):
        """Lowers initialisers and nodes of a graph."""
        for tensor in graph.initializer:
            value = self.constant(builder, to_torch(tensor, self.folder), tensor.name)
            value.limits = limits_of(tensor)
            scope.names[tensor.name] = value
        for sparse in graph.sparse_initializer:
            scope.names[sparse.values.name] = self.constant(builder, dense(sparse), sparse.values.name)
        for index, node in enumerate(graph.node):
            if self.progress is not None and self.depth == 0:
                self.progress(index, len(graph.node))
            self.node(node, builder, scope, self.opsets)

    @staticmethod
    def constant(builder, tensor, name):
        value = builder.constant(tensor)
        value.source = name
        return value

    def node(self, proto, builder, scope, opsets):
        """Lowers one node and names its outputs."""
        inputs = [scope.find(name) if name else None for name in proto.input]
        missing = [name for name, value in zip(proto.input, inputs) if name and value is None]
        if missing:
            raise AtcError(
                "E16001",
                f"input {missing[0]} of node {proto.name or proto.op_type} is made by no node before it",
                solution="Check the model with onnx.checker and export it again.",
            )
        opset = opsets.get(proto.domain or "ai.onnx", 0)
        node = Node(self, builder, proto, inputs, opset)
        node.scope = scope
        limits = next((value.limits for value in inputs if value is not None and value.limits), None)
        if limits and proto.op_type not in FROM_NARROW:
            raise node.refuse("integers of 4 bits are served as constants that DequantizeLinear or Cast takes")
        outer = builder.origin
        builder.origin = (outer[0] or node.type, outer[1] or node.name)
        try:
            outputs = self.dispatch(node, proto, builder, inputs, opsets)
        except (RuntimeError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError, AssertionError) as error:
            text = f"{first_line(error)} is not known" if isinstance(error, KeyError) else first_line(error)
            raise AtcError(
                "E14001",
                f"operator {node.name} of type {node.type} cannot be compiled: {text}",
                solution="Check the sizes and types of its inputs, and --input_shape.",
            ) from error
        finally:
            builder.origin = outer
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        for name, value in zip(proto.output, outputs):
            if name and value is not None:
                if limits and proto.op_type in REARRANGE:
                    value.limits = limits
                scope.names[name] = self.complete(builder, name, value)

    def dispatch(self, node, proto, builder, inputs, opsets):
        function = lower.of(proto)
        if function is not None:
            return function(node)
        local = self.functions.get((proto.domain, proto.op_type))
        body = local or schema_body(proto, node.opset, inputs)
        if body is None:
            domain = proto.domain or "ai.onnx"
            raise Unsupported(
                f"no parser is registered for operator {node.name} of type {domain}::{node.opset}::{proto.op_type}",
                "Export the model without it, or with another opset.",
                "E19010",
            )
        return self.function(body, node, builder, opsets)

    def dispatch_body(self, node):
        """Lowers an operator by the body that the standard gives."""
        body = schema_body(node.proto, node.opset, node.inputs)
        if body is None:
            raise node.refuse("this form of it is not served")
        return self.function(body, node, node.builder, self.opsets)

    def function(self, body, node, builder, opsets):
        """Lowers the body of a function in the place of a node that calls it."""
        self.deeper(node)
        scope = Scope()
        scope.names = {name: value for name, value in zip(body.input, node.inputs) if value is not None}
        inner = {**opsets, **{entry.domain or "ai.onnx": entry.version for entry in body.opset_import}}
        defaults = {attribute.name: attribute for attribute in body.attribute_proto}
        given = {**defaults, **node.attributes}
        for proto in body.node:
            self.node(with_attributes(proto, given), builder, scope, inner)
        self.depth -= 1
        return tuple(scope.find(name) for name in body.output)

    def deeper(self, node):
        self.depth += 1
        if self.depth > DEPTH:
            raise AtcError("E10501", f"operator {node.name} of type {node.type}: functions and graphs nest deeper than {DEPTH}")

    def complete(self, builder, name, value):
        """The value: what the operators did not tell of its type, ONNX's inference may."""
        if value.source == value.name:
            value.source = name
        if value.known or value.is_list:
            return value
        dtype, dims = self.types.get(name) or (None, None)
        if dims is None:
            return value
        if dtype.is_floating_point and builder.precision is not None:  # it may have become another floating point type
            value = builder.cast(value, dtype)
            value.source = name
        value.samples = [
            torch.empty([self.tried(dim, name, axis, index) for axis, dim in enumerate(dims)], dtype=dtype, device="meta")
            for index in range(self.samples)
        ]
        return value

    def tried(self, dim, name, axis, sample):
        """A size for a dimension: itself, or one that the free dimension of this name is tried with."""
        if isinstance(dim, int):
            return dim
        if self.samples == 1:
            raise FreeDimension
        index = self.free.setdefault(dim or (name, axis), len(self.free))
        row = TRIED[sample % len(TRIED)]
        return row[index % len(row)] + 128 * (index // len(row))


def dense(sparse):
    values = to_torch(sparse.values)
    indices = to_torch(sparse.indices)
    result = torch.zeros(list(sparse.dims), dtype=values.dtype)
    if indices.dim() == 1:
        result.view(-1)[indices] = values
    else:
        result[tuple(indices.t())] = values
    return result


def with_attributes(proto, given):
    """A function body's node, its references to the function's attributes resolved."""
    if not any(attribute.ref_attr_name or attribute.type == onnx.AttributeProto.GRAPH for attribute in proto.attribute):
        return proto
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH and not attribute.ref_attr_name:
            new = copy.attribute.add()
            new.CopyFrom(attribute)
            nodes = [with_attributes(inner, given) for inner in attribute.g.node]
            del new.g.node[:]
            new.g.node.extend(nodes)
        elif not attribute.ref_attr_name:
            copy.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in given:
            new = copy.attribute.add()
            new.CopyFrom(given[attribute.ref_attr_name])
            new.name = attribute.name
    return copy


def schema_body(proto, opset, inputs):
    """The body that ONNX's standard gives for an operator, None if it is a primitive."""
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, proto.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_context_dependent_function:
        types = [type_of(value).SerializeToString() for value in inputs]
        for version in sorted(schema.context_dependent_function_opset_versions, reverse=True):
            if version <= opset:
                text = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
                return onnx.FunctionProto.FromString(text) if text else None
    if schema.has_function:
        for version in sorted(schema.function_opset_versions, reverse=True):
            if version <= opset:
                return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
    return None


def type_of(value):
    if value is None or not value.known:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(ONNX_DTYPES[value.dtype], value.dims)


def value_types(graph, known):
    """(dtype, dims) by name of a graph's inferred types, those of its inner graphs too; a dim is a number, a name or None."""
    for info in [*graph.input, *graph.value_info, *graph.output]:
        if info.type.HasField("tensor_type") and info.type.tensor_type.elem_type:
            tensor = info.type.tensor_type
            try:
                dtype = torch_dtype(tensor.elem_type)
            except Unsupported:
                continue
            known[info.name] = (dtype, [dim_of(dim) for dim in tensor.shape.dim] if tensor.HasField("shape") else None)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                value_types(attribute.g, known)
    return known


def dim_of(dim):
    """A number, a free dimension's name, or None; some exporters write -1 for that."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value != -1 else dim.dim_param or None
