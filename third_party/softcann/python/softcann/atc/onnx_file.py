"""Reads an ONNX file, and checks what it holds."""

import os

import onnx

from .errors import AtcError, first_line


def load(path):
    """The checked model of a file and its folder, external data left where it is."""
    model = read(path)
    check(model, path)
    return model, os.path.dirname(os.path.abspath(path))


def read(path):
    """The model of a file, its external data left where it is."""
    if not os.path.isfile(path):
        raise AtcError("E13001", f"the model {path} cannot be opened: there is no such file", solution="Check the path.")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf has its own classes of errors
        raise AtcError(
            "E13005",
            f"{path} is not an ONNX model: {first_line(error)}",
            solution="Export it again; for other frameworks see --framework.",
        ) from error
    if not model.graph.node and not model.graph.output:
        raise AtcError("E16004", f"{path} has no graph", solution="Export the model again.")
    return model


def read_whole(path):
    """The model of a file with its external data."""
    model = read(path)
    onnx.load_external_data_for_model(model, os.path.dirname(os.path.abspath(path)))
    return model


def check(model, path):
    """onnx's own checker, with its text; by the path it finds external data."""
    if not model.opset_import:
        raise AtcError("E16005", "the model names no opset", solution="Export the model again with an opset of 7 or newer.")
    if os.path.getsize(path) > onnx.checker.MAXIMUM_PROTOBUF:
        return  # more than the checker reads
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        for node in unregistered(model):
            raise AtcError(
                "E19010",
                f"no parser is registered for operator {node.name} of type {node.op_type}",
                solution="Export with an opset that knows the operator.",
            ) from error
        raise AtcError("E16001", f"the model is not valid: {first_line(error)}", solution="Export the model again.") from error
    except (ValueError, RuntimeError) as error:
        why = f"the model cannot be checked: {first_line(error)}"
        raise AtcError("E16001", why, solution="Export the model again.") from error


def unregistered(model):
    """Nodes, those of inner graphs too, whose operator is of ONNX's own domains and not in the model's opset."""
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    local = {(function.domain, function.name) for function in model.functions}
    for node in nodes(model.graph):
        domain = node.domain or "ai.onnx"
        if domain.split(".")[:2] == ["ai", "onnx"] and (node.domain, node.op_type) not in local:
            if not onnx.defs.has(node.op_type, opsets.get(domain, 0), node.domain if domain != "ai.onnx" else ""):
                yield node


def nodes(graph):
    """All nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes(inner)
