"""--singleop: each operator of a json file becomes an .om of its own."""

import os
import re
import struct

import onnx
from onnx import helper

from . import lower, named_ops
from .configs import read_json
from .errors import AtcError
from .program import Graph, Program

_P = onnx.TensorProto
TYPES = {
    "float": _P.FLOAT,
    "float32": _P.FLOAT,
    "float16": _P.FLOAT16,
    "fp16": _P.FLOAT16,
    "half": _P.FLOAT16,
    "int8": _P.INT8,
    "int32": _P.INT32,
    "uint8": _P.UINT8,
    "int16": _P.INT16,
    "uint16": _P.UINT16,
    "uint32": _P.UINT32,
    "int64": _P.INT64,
    "uint64": _P.UINT64,
    "double": _P.DOUBLE,
    "bool": _P.BOOL,
    "bfloat16": _P.BFLOAT16,
    "bf16": _P.BFLOAT16,
}
NUMBERS = {
    "float": 0,
    "float32": 0,
    "float16": 1,
    "fp16": 1,
    "half": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "uint16": 7,
    "uint32": 8,
    "int64": 9,
    "uint64": 10,
    "double": 11,
    "bool": 12,
    "bfloat16": 27,
    "bf16": 27,
}
FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2}
# CANN's name -> ONNX's, where attributes and inputs are the same.
NAMES = {
    "RealDiv": "Div",
    "BatchMatMul": "MatMul",
    "BatchMatMulV2": "MatMul",
    "MatMulV2": "MatMul",
    "Maximum": "Max",
    "Minimum": "Min",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalNot": "Not",
    "Select": "Where",
    "SelectV2": "Where",
    "LessEqual": "LessOrEqual",
    "GreaterEqual": "GreaterOrEqual",
    "Gelu": "Gelu",
    "Swish": "Swish",
    "Sigmoid": "Sigmoid",
}
OPSET = 21


def build(given, log, command):
    """Writes the .om files into the folder --output."""
    from . import cli

    if not given.get("output"):
        raise AtcError("E10054", "--output is required with --singleop", solution="Give a folder for the .om files.")
    if not given.get("soc_version"):
        raise AtcError("E10054", "--soc_version is required", solution="Give the chip's name, as Ascend910B3.")
    entries = read_json(given["singleop"], "--singleop")
    if not isinstance(entries, list) or not entries:
        raise AtcError(
            "E10026",
            f"{given['singleop']} holds no list of operators",
            solution='Write [{"op": ..., "input_desc": ..., "output_desc": ...}].',
        )
    os.makedirs(given["output"], exist_ok=True)
    for index, entry in enumerate(entries):
        name = file_name(index, entry)
        texts, path = described(entry), os.path.join(given["output"], name)
        if not in_onnx(entry):
            cli.write(Program(name, [Graph(name)], single_op=texts), given, log, command, path)
            continue
        model = os.path.join(given["output"], name + ".onnx")
        onnx.save(model_of(entry), model)
        try:
            words = {key: text for key, text in given.items() if key != "singleop"}
            cli.convert({"precision_mode_v2": "origin", **words, "model": model}, log, command, path, texts)
        finally:
            os.remove(model)


def required(entry, key):
    if not isinstance(entry, dict) or key not in entry:
        raise AtcError(
            "E10029" if key == "op" else "E10030", f'an operator of --singleop has no "{key}"', solution="Correct the json."
        )
    return entry[key]


def file_name(index, entry):
    """The name that CANN gives: index, operator, then type, format and sizes of each tensor."""
    if entry.get("name"):
        return re.sub(r"[^\w.-]", "_", str(entry["name"]))
    parts = [str(index), required(entry, "op")]
    for desc in [*required(entry, "input_desc"), *required(entry, "output_desc")]:
        parts += [
            str(NUMBERS.get(required(desc, "type"), 28)),
            str(FORMATS.get(required(desc, "format"), 2)),
            *map(str, required(desc, "shape")),
        ]
    return "_".join(parts)


def in_onnx(entry):
    """Whether ONNX has the operator with these attributes; otherwise the .om only names what libopapi runs."""
    kind = NAMES.get(required(entry, "op"), entry["op"])
    given = {required(one, "name") for one in entry.get("attr") or []}
    if lower.find(kind) is not None and not given - set(onnx.defs.get_schema(kind, OPSET).attributes):
        return True
    if entry["op"] in named_ops.NAMES:
        return False
    raise AtcError(
        "E10501",
        f"operator {entry['op']} of --singleop is not served" + (f" with the attributes {sorted(given)}" if given else ""),
        solution="Call it by its aclnn function instead.",
    )


def described(entry):
    """What the .om says of its operator: the texts of `ascend_single_op`, see docs/om_format.md."""
    texts = {"op": required(entry, "op")}
    for side in ("input", "output"):
        texts[f"{side}s"] = ";".join(tensor_text(desc) for desc in required(entry, f"{side}_desc"))
    for one in entry.get("attr") or []:
        texts[f"attr:{required(one, 'name')}"] = attribute_text(required(one, "type"), required(one, "value"), one["name"])
    return texts


def tensor_text(desc):
    type_of(desc)
    dims = required(desc, "shape")
    return f"{NUMBERS[desc['type']]} {','.join(str(int(dim)) for dim in dims) or '-'}" + ("!" if desc.get("is_const") else "")


def attribute_text(kind, value, name):
    """As src/rt/single_op/op_models.cpp writes what a client sets."""
    single = {
        "bool": lambda one: str(int(bool(one))),
        "int": lambda one: str(int(one)),
        "float": lambda one: struct.pack(">f", float(one)).hex(),
        "data_type": lambda one: str(NUMBERS[one] if isinstance(one, str) else int(one)),
    }
    letters = {"bool": "b", "int": "i", "float": "f", "data_type": "d"}
    inner = kind[len("list_") :] if kind.startswith("list_") else ""
    try:
        if kind in single:
            return f"{letters[kind]}:{single[kind](value)}"
        if inner in single:
            return f"l{letters[inner]}:" + ",".join(map(single[inner], value))
        if kind == "list_list_int":
            return "lli:" + ";".join(",".join(str(int(one)) for one in row) for row in value)
        if kind == "list_string":
            return "ls:" + "".join(f"[{len(one.encode())}]{one}" for one in value)
        if kind == "string":
            return f"s:{value}"
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        text = f"the attribute {name} of --singleop is no {kind}: {value!r}"
        raise AtcError("E10030", text, solution="Correct the json.") from error
    text = f"the attribute {name} of --singleop has the type {kind!r}"
    raise AtcError("E10030", text, solution="Use bool, int, float, string, data_type, or lists of them.")


def model_of(entry):
    kind = NAMES.get(entry["op"], entry["op"])
    inputs = [value_info(f"x{index}", desc) for index, desc in enumerate(required(entry, "input_desc"))]
    outputs = [value_info(f"y{index}", desc) for index, desc in enumerate(required(entry, "output_desc"))]
    attributes = {required(one, "name"): required(one, "value") for one in entry.get("attr") or []}
    node = helper.make_node(kind, [info.name for info in inputs], [info.name for info in outputs], entry["op"], **attributes)
    constants = [constant(f"x{index}", desc) for index, desc in enumerate(entry["input_desc"]) if desc.get("is_const")]
    fixed = {tensor.name for tensor in constants}
    graph = helper.make_graph([node], entry["op"], [info for info in inputs if info.name not in fixed], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def type_of(desc):
    kind = required(desc, "type")
    if kind not in TYPES:
        raise AtcError("E10027", f'"{kind}" is no type of a tensor', solution=f"Use one of {', '.join(TYPES)}.")
    return TYPES[kind]


def value_info(name, desc):
    dims = [f"{name}_{index}" if dim == -1 else dim for index, dim in enumerate(required(desc, "shape"))]
    return helper.make_tensor_value_info(name, type_of(desc), dims)


def constant(name, desc):
    return helper.make_tensor(name, type_of(desc), required(desc, "shape"), required(desc, "const_value"))
