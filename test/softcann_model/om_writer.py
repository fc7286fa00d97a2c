"""Writes .om files by hand (third_party/softcann/docs/om_format.md), without the compiler and without protobuf."""
import hashlib
import struct

import torch

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8",
          torch.bool: "bool", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.int8: "int8"}
HEADER = struct.Struct("<III64sIBBBB32sI32sII20sB3sQBB62s")


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, int):
        content = field(3, value)
    elif isinstance(value, (str, bytes)):
        content = field(2, value)
    else:
        content = field(1, b"".join(field(2 if isinstance(item, str) else 3, item) for item in value))
    return field(1, name) + field(2, content)


def operator(kernel, args, outputs, free=(), name=None):
    attributes = {"kernel": kernel, "args": list(args), "outputs": list(outputs), "free": list(free)}
    body = field(1, name or f"{kernel.rpartition(':')[2]}_0") + field(2, kernel.rpartition(":")[2].title())
    return body + b"".join(field(10, attribute(key, value)) for key, value in attributes.items())


def graph(inputs, outputs, ops, **attributes):
    """`inputs` and `outputs`: texts "v0 name dtype format dims"."""
    attributes = {"inputs": list(inputs), "outputs": list(outputs), **attributes}
    ops = [field(1, "data") + field(2, "Data"), *ops]   # one that is there for people
    return field(1, "main") + b"".join(field(6, op) for op in ops) + b"".join(
        field(11, attribute(key, value)) for key, value in attributes.items())


def om(graphs, constants=None, soc="Ascend910B3", model=None):
    """The bytes of a file. `graphs`: arguments of graph(), the program first; `constants`: tensors by name."""
    lines, weights = [], b""
    for name, tensor in (constants or {}).items():
        data = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.reshape(1).view(torch.uint8).numpy().tobytes()
        dims = ",".join(map(str, tensor.shape)) or "-"
        lines.append(f"{name} {DTYPES[tensor.dtype]} {len(weights)} {len(data)} {dims}")
        weights += data + bytes(-len(data) % 64)
    first = dict(graphs[0], constants=lines)
    attributes = {"softcann_format": 1, "soc_version": soc} if model is None else model
    definition = field(1, "tiny") + b"".join(field(7, graph(**one)) for one in [first, *graphs[1:]])
    definition += b"".join(field(11, attribute(key, value)) for key, value in attributes.items())
    return pack(definition, weights)


def pack(definition, weights, **header):
    table = 8 + 2 * 24
    start = (256 + table + len(definition) + 63) // 64 * 64 - 256 - table
    body = struct.pack("<I4xI4xQQI4xQQ", 2, 0, 0, len(definition), 1, start, len(weights))
    body += definition + bytes(start - len(definition)) + weights
    values = {"magic": 0x444F4D49, "checksum": hashlib.sha256(body).hexdigest().encode(), "length": len(body), **header}
    return HEADER.pack(values["magic"], 256, 0x20000000, values["checksum"], values["length"], 0, 0, 0, 0, b"tiny", 1, b"softcann", 1, 1,
                       b"", 0, b"", values["length"], 0, 0, b"") + body
