"""Damaged models and AIPP configs for test_mutated.py: bytes that change, and models that are well-formed and wrong."""
import random

import onnx
from onnx import AttributeProto, TensorProto

NUMBERS = (-(1 << 63), -(1 << 31), -2, -1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
FLOATS = (0.0, -1.0, 1e-38, 1e38, float("inf"), float("nan"))
WORDS = ("", "x", "SAME_UPPER", "\u00e9" * 40, "../../etc", "NOTSET")


def bytes_of(chance, data):
    """The data with a few bytes changed, left out, doubled, or cut off."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place, kind = chance.randrange(len(data)), chance.randrange(4)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[place:place + chance.randrange(1, 5)]
        else:
            data[place:place] = data[place:place + chance.randrange(1, 9)]
        if not data:
            break
    return bytes(data[:chance.randrange(len(data))] if data and chance.randrange(10) == 0 else data)


def nodes_of(graph):
    """All nodes, those of inner graphs too, and the graph that each is in."""
    for node in graph.node:
        yield graph, node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def change_attribute(chance, graph, node):
    if not node.attribute:
        node.attribute.add(name=chance.choice(("axis", "axes", "to", "kernel_shape", "perm")), type=AttributeProto.INT, i=chance.choice(NUMBERS))
        return
    attribute = chance.choice(node.attribute)
    if chance.randrange(6) == 0:
        node.attribute.remove(attribute)
    elif attribute.ints:
        place = chance.randrange(len(attribute.ints))
        if chance.randrange(3) == 0:
            del attribute.ints[place]
        else:
            attribute.ints[place] = chance.choice(NUMBERS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = chance.choice(WORDS).encode()
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice(FLOATS)
    elif attribute.type == AttributeProto.TENSOR:
        change_tensor(chance, attribute.t)
    else:
        attribute.i = chance.choice(NUMBERS)
        if chance.randrange(4) == 0:
            attribute.type = chance.choice((AttributeProto.INT, AttributeProto.FLOATS, AttributeProto.STRING, AttributeProto.GRAPH))


def change_tensor(chance, tensor):
    kind = chance.randrange(4)
    if kind == 0 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(NUMBERS)
    elif kind == 1:
        tensor.data_type = chance.choice((0, 1, 2, 6, 7, 8, 9, 10, 11, 14, 17, 23, 99))
    elif kind == 2 and tensor.raw_data:
        tensor.raw_data = bytes_of(chance, tensor.raw_data)
    else:
        tensor.dims.append(chance.choice(NUMBERS))


def change_wiring(chance, graph, node):
    names = [name for other in graph.node for name in (*other.input, *other.output)] + [info.name for info in graph.input] + ["nowhere", ""]
    if node.input and chance.randrange(2):
        node.input[chance.randrange(len(node.input))] = chance.choice(names)
    elif node.input and chance.randrange(2):
        del node.input[chance.randrange(len(node.input))]
    elif node.output and chance.randrange(2):
        node.output[chance.randrange(len(node.output))] = chance.choice(names)
    else:
        node.input.append(chance.choice(names))


def change_operator(chance, graph, node):
    schemas = [schema.name for schema in onnx.defs.get_all_schemas()]
    node.op_type = chance.choice((*schemas, "None", ""))
    if chance.randrange(8) == 0:
        node.domain = chance.choice(("ai.onnx.ml", "com.microsoft", "x"))


def change_border(chance, model):
    """An input, an output, an initialiser, an opset."""
    graph, kind = model.graph, chance.randrange(6)
    infos = [info for info in (*graph.input, *graph.output) if info.type.HasField("tensor_type")]
    if kind == 0 and infos:
        info = chance.choice(infos)
        dim = info.type.tensor_type.shape.dim.add() if chance.randrange(3) == 0 or not info.type.tensor_type.shape.dim else chance.choice(
            info.type.tensor_type.shape.dim)
        dim.dim_value = chance.choice(NUMBERS)
    elif kind == 1 and infos:
        chance.choice(infos).type.tensor_type.elem_type = chance.choice((0, 1, 7, 8, 9, 10, 14, 17, 23, 99))
    elif kind == 2 and graph.initializer:
        change_tensor(chance, chance.choice(graph.initializer))
    elif kind == 3 and graph.initializer:
        tensor = chance.choice(graph.initializer)
        tensor.data_location = TensorProto.EXTERNAL
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=chance.choice(("../../../etc/passwd", "/etc/passwd", "none.bin", "m.onnx")))
        tensor.external_data.add(key="length", value=chance.choice(("-1", "99999999999", "x")))
    elif kind == 4 and model.opset_import:
        model.opset_import[0].version = chance.choice((-1, 0, 1, 6, 7, 9, 11, 13, 17, 18, 24, 99, 1 << 40))
    elif infos:
        graph.output.add().CopyFrom(chance.choice(infos))


def model_of(chance, data):
    """The bytes of a model that was changed: well-formed for protobuf, mostly not for ONNX."""
    if chance.randrange(4) == 0:
        return bytes_of(chance, data)
    model = onnx.ModelProto.FromString(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        kind, places = chance.randrange(6), list(nodes_of(model.graph))
        if kind == 0 or not places:
            change_border(chance, model)
        elif kind == 5:
            graph, node = chance.choice(places)
            graph.node.remove(node)
        else:
            (change_attribute, change_wiring, change_attribute, change_operator)[kind - 1](chance, *chance.choice(places))
    return model.SerializeToString()


def config_of(chance, text):
    """An AIPP config with lines that are gone, doubled, or say something else; or with bytes that changed."""
    if chance.randrange(6) == 0:
        return bytes_of(chance, text.encode())
    lines = text.splitlines()
    for _ in range(chance.choice((1, 2, 3))):
        place, kind = chance.randrange(1, len(lines) - 1), chance.randrange(5)
        name = lines[place].split(":")[0]
        if kind == 0 and len(lines) > 3:
            del lines[place]
        elif kind == 1:
            lines.insert(place, lines[chance.randrange(1, len(lines) - 1)])
        elif kind == 2:
            lines[place] = f"{name}: {chance.choice((*NUMBERS, *FLOATS, *WORDS, 'true', 'static', 'dynamic', 'RGB888_U8', '[1, 2]'))}"
        else:
            lines[place] = f"{name}: {chance.choice((0, 1, 2, 3, 5, 8, 31, 33, 255, 4096, -1))}"
    return "\n".join(lines).encode()


def seeded(seed):
    return random.Random(seed)
