"""Writes and reads .om files (docs/om_format.md)."""

import ctypes
import hashlib
import os
import struct

import torch

from .errors import AtcError
from .ge_ir import data_type_name, get_attr, messages, set_attr
from .kernels import LISTS
from .program import DTYPE_NAMES, DTYPES, Graph, Op, Port, Program, Value
from .tokens import decode, encode

HEADER, MAGIC, VERSION, FORMAT = 256, 0x444F4D49, 0x20000000, 1
# magic, headsize, version, checksum, length, is_encrypt, is_checksum, modeltype, genmode, name, ops, userdefineinfo,
# om_ir_version, model_num, platform_version, platform_type, padd, model_length, need_check_os_cpu_info, is_unknow_model, reserved
LAYOUT = struct.Struct("<III64sIBBBB32sI32sII20sB3sQBB62s")
MODEL_DEF, WEIGHTS_DATA = 0, 1
TABLE_HEAD, TABLE_ENTRY = struct.Struct("<I4x"), struct.Struct("<I4xQQ")
OLD_TABLE_HEAD, OLD_TABLE_ENTRY = struct.Struct("<I"), struct.Struct("<III")  # of files whose header has no model_length
ALIGN = 64
BODIES = {"softcann::if": (1, 2), "softcann::loop": (2,), "softcann::scan": (0,)}  # arguments that are numbers of graphs
CONVERT = "Convert the ONNX model with softcann's own atc: python -m softcann atc --help."


def aligned(size):
    return -(-size // ALIGN) * ALIGN


def raw_bytes(tensor):
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def dims_text(dims):
    return "?" if dims is None else ",".join(str(dim) for dim in dims) or "-"


def public(name):
    return name.replace("%", "%25").replace(" ", "%20")


def from_public(name):
    return name.replace("%20", " ").replace("%25", "%")


def port_text(port):
    dtype = "list" if port.value.is_list or port.dtype is None else DTYPE_NAMES[port.dtype]
    return f"{port.value.name} {public(port.name)} {dtype} {port.format} {dims_text(port.dims)}"


def constant_text(value, start):
    tensor = value.const
    size = tensor.numel() * tensor.element_size()
    return f"{value.name} {DTYPE_NAMES[tensor.dtype]} {start} {size} {dims_text(tensor.shape)}"


def last_uses(program, graph):
    """For each operator of a graph, the values whose last use it is."""
    keep = {id(port.value) for port in graph.outputs}
    mine = {id(value) for op in graph.ops for value in op.outputs} | {id(port.value) for port in graph.inputs}
    seen, result = set(), []
    for op in reversed(graph.ops):
        last = []
        for value in [*program.needs(op), *op.outputs]:
            if value.const is None and id(value) in mine and id(value) not in keep and id(value) not in seen:
                seen.add(id(value))
                last.append(value)
        result.append(last)
    return result[::-1]


def used_values(program):
    used = {id(port.value) for graph in program.graphs for port in graph.outputs}
    used.update(id(value) for op in program.ops() for value in op.inputs())
    return used


def to_model(program):
    """(ModelDef, list of constants with their offsets, size of the weights)."""
    model = messages()["ModelDef"](name=program.name, version=1)
    constants, offset = [], 0
    for value in program.constants():
        constants.append((value, offset))
        offset += aligned(value.const.numel() * value.const.element_size())
    used = used_values(program)
    for number, graph in enumerate(program.graphs):
        written = model.graph.add(name=graph.name or f"graph_{number}")
        write_graph(program, graph, written, used)
    if program.single_op:
        node = model.graph[0].op.add(name="ascend_single_op", type=program.single_op["op"])
        for name, text in program.single_op.items():
            set_attr(node.attr, name, text)
    set_attr(model.graph[0].attr, "constants", [constant_text(*each) for each in constants])
    set_attr(model.attr, "softcann_format", FORMAT)
    for name, value in program.attrs.items():
        set_attr(model.attr, name, value)
    return model, constants, offset


def write_graph(program, graph, written, used):
    makers = {}  # id of a value -> (operator's name, index), for people
    for port in graph.inputs:
        data = written.op.add(name=port.name, type="Data")
        describe(data.output_desc.add(), port.value, port)
        makers[id(port.value)] = (port.name, 0)
        written.input.append(f"{port.name}:0")
    names = set()
    for index, (op, free) in enumerate(zip(graph.ops, last_uses(program, graph))):
        name = op.name or f"{op.type}_{index}"
        name = name if name not in names else f"{name}_{index}"
        names.add(name)
        node = written.op.add(name=name, type=op.type or op.kernel.rpartition(":")[2], id=index)
        for value in op.inputs():
            maker = makers.get(id(value), (value.source, 0))
            node.input.append(f"{maker[0]}:{maker[1]}")
            node.is_input_const.append(value.const is not None)
            describe(node.input_desc.add(), value)
        for place, value in enumerate(op.outputs):
            makers[id(value)] = (name, place)
            describe(node.output_desc.add(), value)
        set_attr(node.attr, "kernel", op.kernel)
        set_attr(node.attr, "args", [encode(arg) for arg in op.args])
        set_attr(node.attr, "outputs", [value.name if id(value) in used else "-" for value in op.outputs])
        set_attr(node.attr, "free", [value.name for value in free if id(value) in used])
        node.subgraph_name.extend(body.name for body in program.bodies(op))
    last = written.op.add(name="Node_Output", type="NetOutput", id=len(graph.ops))
    for port in graph.outputs:
        maker = makers.get(id(port.value), (port.value.source, 0))
        last.input.append(f"{maker[0]}:{maker[1]}")
        describe(last.input_desc.add(), port.value, port)
        written.output.append(f"{maker[0]}:{maker[1]}")
    set_attr(written.attr, "inputs", [port_text(port) for port in graph.inputs])
    set_attr(written.attr, "outputs", [port_text(port) for port in graph.outputs])
    for name, value in graph.attrs.items():
        set_attr(written.attr, name, value)


def describe(target, value, port=None):
    dtype = port.dtype if port is not None else value.dtype
    target.dtype = (
        target.DESCRIPTOR.fields_by_name["dtype"]
        .enum_type.values_by_name[data_type_name(DTYPE_NAMES[dtype]) if dtype in DTYPE_NAMES else "DT_UNDEFINED"]
        .number
    )
    target.name = value.source if value.source != value.name else ""
    target.layout = port.format if port is not None else "ND"
    dims = (port.dims or []) if port is not None else value.dims if value.known else []
    target.shape.dim.extend(-1 if dim is None else dim for dim in dims)


def write(program, path, soc):
    """Writes an .om; the sizes of its parts."""
    set_count = sum(len(graph.ops) for graph in program.graphs)
    program.attrs["soc_version"] = soc
    model, constants, weight_size = to_model(program)
    head = model.SerializeToString(deterministic=True)
    table = TABLE_HEAD.size + 2 * TABLE_ENTRY.size
    # The weights begin at a multiple of ALIGN in the file, so that they can be used where they are mapped.
    start = aligned(HEADER + table + len(head)) - HEADER - table
    partitions = (
        TABLE_HEAD.pack(2) + TABLE_ENTRY.pack(MODEL_DEF, 0, len(head)) + TABLE_ENTRY.pack(WEIGHTS_DATA, start, weight_size)
    )
    pieces = [partitions, head, b"\0" * (start - len(head))]
    for value, _ in constants:
        data = raw_bytes(value.const)
        pieces += [data, b"\0" * (aligned(len(data)) - len(data))]
    digest, length = hashlib.sha256(), sum(map(len, pieces))
    for piece in pieces:
        digest.update(piece)
    dynamic = any(-1 in (port.dims or []) for port in program.graphs[0].inputs)
    header = LAYOUT.pack(
        MAGIC,
        HEADER,
        VERSION,
        digest.hexdigest().encode(),
        min(length, 2**32 - 1),
        0,
        0,
        0,
        0,
        program.name.encode()[:31],
        set_count,
        b"softcann",
        FORMAT,
        1,
        soc.encode()[:19],
        0,
        b"",
        length,
        0,
        int(dynamic),
        b"",
    )
    try:
        with open(path, "wb") as file:
            file.write(header)
            file.writelines(pieces)
    except OSError as error:
        raise AtcError(
            "E13004", f"{path} cannot be written: {error.strerror}", solution="Check --output: folder, rights, space."
        ) from error
    return {"modeldef_size": len(head), "weight_data_size": weight_size, "file_size": HEADER + length}


def partitions(path, body, head, entry):
    """The partitions of a file by type, by the table of them that `head` and `entry` describe."""
    (count,) = head.unpack_from(body)
    base = head.size + count * entry.size
    if count > 64 or base > len(body):
        raise AtcError(
            "E13005", f"{path} is damaged: its partition table does not fit into it", solution="Convert the model again."
        )
    parts = {}
    for index in range(count):
        kind, offset, size = entry.unpack_from(body, head.size + index * entry.size)
        if base + offset + size > len(body):
            raise AtcError(
                "E13005", f"{path} is truncated: partition {kind} ends behind its end", solution="Convert or copy it again."
            )
        parts[kind] = body[base + offset : base + offset + size]
    return parts


def read_parts(path):
    """(header fields, ModelDef, weights) of an .om, checked."""
    if not os.path.isfile(path):
        raise AtcError("E13001", f"{path} cannot be opened: there is no such file", solution="Check --om.")
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < HEADER + TABLE_HEAD.size or LAYOUT.unpack_from(data)[0] != MAGIC:
        raise AtcError("E13005", f"{path} is not an .om file", solution="Give a file that atc wrote.")
    fields = LAYOUT.unpack_from(data)
    body = memoryview(data)[HEADER:]
    if fields[5]:
        raise AtcError("E10055", f"{path} is encrypted, which softcann does not read: ATC of CANN made it", solution=CONVERT)
    parts = partitions(path, body, *((TABLE_HEAD, TABLE_ENTRY) if fields[17] else (OLD_TABLE_HEAD, OLD_TABLE_ENTRY)))
    model = messages()["ModelDef"]()
    try:
        model.ParseFromString(bytes(parts.get(MODEL_DEF, b"")))
    except Exception as error:  # protobuf has its own classes of errors
        raise AtcError("E13005", f"{path} is damaged: its model cannot be read", solution="Convert the model again.") from error
    version = get_attr(model.attr, "softcann_format")
    if version is None:
        raise AtcError("E10055", f"{path} holds operators for a chip, not for softcann: ATC of CANN made it", solution=CONVERT)
    if version != FORMAT:
        raise AtcError("E10055", f"{path} has format {version} of softcann, this one reads {FORMAT}", solution=CONVERT)
    if hashlib.sha256(body).hexdigest().encode() != fields[3]:
        raise AtcError("E13005", f"{path} is damaged: its checksum does not fit", solution="Convert or copy it again.")
    return fields, model, parts.get(WEIGHTS_DATA, b"")


def read(path):
    """The program of an .om. Types and sizes of values are those of graph inputs and constants only."""
    _, model, weights = read_parts(path)
    values = {}
    for line in get_attr(model.graph[0].attr, "constants", []):
        name, dtype, offset, size, dims = line.split()
        piece = bytearray(weights[int(offset) : int(offset) + int(size)])
        shape = [] if dims == "-" else [int(dim) for dim in dims.split(",")]
        tensor = torch.frombuffer(piece, dtype=DTYPES[dtype]).reshape(shape) if piece else torch.empty(shape, dtype=DTYPES[dtype])
        values[name] = Value(name, [tensor], const=tensor)
    program = Program(model.name)
    for graph in model.graph:
        program.graphs.append(read_graph(graph, values))
    program.attrs = {name: get_attr(model.attr, name) for name in model.attr}
    return program


def read_graph(graph, values):
    def value_of(name):
        return values.setdefault(name, Value(name, [None]))

    result = Graph(graph.name, attrs={name: get_attr(graph.attr, name) for name in graph.attr})
    for kind in ("inputs", "outputs"):
        for line in get_attr(graph.attr, kind, []):
            name, label, dtype, layout, dims = line.split(" ")
            sizes = None if dims == "?" else [] if dims == "-" else [int(dim) for dim in dims.split(",")]
            getattr(result, kind).append(Port(value_of(name), from_public(label), DTYPES.get(dtype), sizes, layout))
            value_of(name).is_list |= dtype == "list"
    for op in graph.op:
        kernel = get_attr(op.attr, "kernel")
        if kernel is None:
            continue
        args = [decode(token, value_of) for token in get_attr(op.attr, "args", [])]
        outputs = [Value(name, [None]) if name == "-" else value_of(name) for name in get_attr(op.attr, "outputs", [])]
        if kernel in LISTS:
            outputs[0].is_list = True
        for value, described in zip(outputs, op.output_desc):
            value.source = described.name or value.name
        result.ops.append(Op(kernel, args, outputs, op.type, op.name, BODIES.get(kernel, ())))
    return result
