"""The messages of ge_ir.proto that an .om has, as protobuf classes made at run time: names and numbers are the interface."""

import functools

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto

# message -> (field, number, name of a type, a message or an enum, repeated)
MESSAGES = {
    "ShapeDef": [("dim", 1, "int64", True)],
    "TensorDescriptor": [
        ("name", 1, "string", False),
        ("dtype", 2, "DataType", False),
        ("shape", 3, "ShapeDef", False),
        ("layout", 4, "string", False),
        ("attr", 5, "map", False),
        ("size", 10, "int64", False),
        ("weight_size", 11, "int64", False),
    ],
    "ListValue": [
        ("s", 2, "bytes", True),
        ("i", 3, "int64", True),
        ("f", 4, "float", True),
        ("b", 5, "bool", True),
        ("val_type", 20, "ListValueType", False),
    ],
    "AttrDef": [
        ("list", 1, "ListValue", False),
        ("s", 2, "bytes", False),
        ("i", 3, "int64", False),
        ("f", 4, "float", False),
        ("b", 5, "bool", False),
    ],
    "OpDef": [
        ("name", 1, "string", False),
        ("type", 2, "string", False),
        ("input", 5, "string", True),
        ("attr", 10, "map", False),
        ("id", 21, "int64", False),
        ("stream_id", 22, "int64", False),
        ("input_name", 23, "string", True),
        ("src_name", 24, "string", True),
        ("src_index", 25, "int64", True),
        ("dst_name", 26, "string", True),
        ("dst_index", 27, "int64", True),
        ("input_i", 28, "int64", True),
        ("output_i", 29, "int64", True),
        ("workspace", 30, "int64", True),
        ("workspace_bytes", 31, "int64", True),
        ("is_input_const", 32, "bool", True),
        ("input_desc", 33, "TensorDescriptor", True),
        ("output_desc", 34, "TensorDescriptor", True),
        ("subgraph_name", 35, "string", True),
    ],
    "GraphDef": [
        ("name", 1, "string", False),
        ("input", 4, "string", True),
        ("output", 5, "string", True),
        ("op", 6, "OpDef", True),
        ("attr", 11, "map", False),
    ],
    "ModelDef": [
        ("name", 1, "string", False),
        ("version", 2, "uint32", False),
        ("custom_version", 3, "string", False),
        ("graph", 7, "GraphDef", True),
        ("attr", 11, "map", False),
    ],
}
DATA_TYPES = [
    "UNDEFINED",
    "FLOAT",
    "FLOAT16",
    "INT8",
    "UINT8",
    "INT16",
    "UINT16",
    "INT32",
    "INT64",
    "UINT32",
    "UINT64",
    "BOOL",
    "DOUBLE",
    "STRING",
]
LIST_TYPES = {"NONE": 0, "STRING": 1, "INT": 2, "FLOAT": 3, "BOOL": 4}
NAMED = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "bfloat16": "DT_BF16"}
PACKAGE = "ge.proto"


def data_type_name(dtype):
    """CANN's name of a type: "float32" is DT_FLOAT."""
    return NAMED.get(dtype, f"DT_{dtype.upper()}")


@functools.lru_cache(maxsize=None)
def messages():
    """The classes by name."""
    types = {f"DT_{name}": index for index, name in enumerate(DATA_TYPES)}
    enums = {
        "DataType": {**types, "DT_BF16": 27, "DT_FLOAT8_E5M2": 35, "DT_FLOAT8_E4M3FN": 36},
        "ListValueType": {f"VT_LIST_{name}": number for name, number in LIST_TYPES.items()},
    }
    return classes(PACKAGE, "proto3", enums, MESSAGES)


def classes(package, syntax, enums, messages):
    """Protobuf classes of a table such as MESSAGES, by name; `enums`: name -> {value: number}. In an AttrDef one field is set."""
    file = descriptor_pb2.FileDescriptorProto(name=f"softcann/{package}.proto", package=package, syntax=syntax)
    for name, values in enums.items():
        added = file.enum_type.add(name=name)
        for key, number in values.items():
            added.value.add(name=key, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            add_field(message, f".{package}.", field, number, kind, repeated, enums)
        if name == "AttrDef":
            message.oneof_decl.add(name="value")
            for field in message.field:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def add_field(message, scope, field, number, kind, repeated, enums):
    added = message.field.add(name=field, number=number, label=_F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL)
    if kind == "map":
        entry = message.nested_type.add(name="AttrEntry")
        entry.options.map_entry = True
        add_field(entry, scope, "key", 1, "string", False, enums)
        add_field(entry, scope, "value", 2, "AttrDef", False, enums)
        added.label, added.type, added.type_name = _F.LABEL_REPEATED, _F.TYPE_MESSAGE, f"{scope}{message.name}.AttrEntry"
    elif kind[0].isupper():
        added.type, added.type_name = _F.TYPE_ENUM if kind in enums else _F.TYPE_MESSAGE, scope + kind
    else:
        added.type = getattr(_F, f"TYPE_{kind.upper()}")


def set_attr(attributes, name, value):
    """Writes one attribute: a number, truth value, text, or a list of one of them."""
    target = attributes[name]
    if isinstance(value, (list, tuple)):
        target.list.SetInParent()
        if value and isinstance(value[0], (str, bytes)):
            target.list.s.extend(item.encode() if isinstance(item, str) else item for item in value)
            target.list.val_type = LIST_TYPES["STRING"]
        elif value:
            target.list.i.extend(value)
            target.list.val_type = LIST_TYPES["INT"]
    elif isinstance(value, (str, bytes)):
        target.s = value.encode() if isinstance(value, str) else value
    elif isinstance(value, bool):
        target.b = value
    elif isinstance(value, float):
        target.f = value
    else:
        target.i = value


def get_attr(attributes, name, default=None):
    """An attribute's value, bytes as text; `default` where there is none."""
    if name not in attributes:
        return default
    found = attributes[name]
    kind = found.WhichOneof("value")
    if kind == "list":
        return [item.decode() for item in found.list.s] or list(found.list.i) or list(found.list.f) or list(found.list.b)
    value = getattr(found, kind)
    return value.decode() if isinstance(value, bytes) else value
