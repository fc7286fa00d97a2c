"""The messages of ge_ir.proto that an .om has, as protobuf classes made at run time: names and numbers are the interface."""

import functools

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
STRING, BYTES, INT64, UINT32, FLOAT, BOOL = (
    _F.TYPE_STRING,
    _F.TYPE_BYTES,
    _F.TYPE_INT64,
    _F.TYPE_UINT32,
    _F.TYPE_FLOAT,
    _F.TYPE_BOOL,
)

# message -> (field, number, type or message name, repeated)
MESSAGES = {
    "ShapeDef": [("dim", 1, INT64, True)],
    "TensorDescriptor": [
        ("name", 1, STRING, False),
        ("dtype", 2, "DataType", False),
        ("shape", 3, "ShapeDef", False),
        ("layout", 4, STRING, False),
        ("attr", 5, "map", False),
        ("size", 10, INT64, False),
        ("weight_size", 11, INT64, False),
    ],
    "ListValue": [
        ("s", 2, BYTES, True),
        ("i", 3, INT64, True),
        ("f", 4, FLOAT, True),
        ("b", 5, BOOL, True),
        ("val_type", 20, "ListValueType", False),
    ],
    "AttrDef": [
        ("list", 1, "ListValue", False),
        ("s", 2, BYTES, False),
        ("i", 3, INT64, False),
        ("f", 4, FLOAT, False),
        ("b", 5, BOOL, False),
    ],
    "OpDef": [
        ("name", 1, STRING, False),
        ("type", 2, STRING, False),
        ("input", 5, STRING, True),
        ("attr", 10, "map", False),
        ("id", 21, INT64, False),
        ("stream_id", 22, INT64, False),
        ("input_name", 23, STRING, True),
        ("src_name", 24, STRING, True),
        ("src_index", 25, INT64, True),
        ("dst_name", 26, STRING, True),
        ("dst_index", 27, INT64, True),
        ("input_i", 28, INT64, True),
        ("output_i", 29, INT64, True),
        ("workspace", 30, INT64, True),
        ("workspace_bytes", 31, INT64, True),
        ("is_input_const", 32, BOOL, True),
        ("input_desc", 33, "TensorDescriptor", True),
        ("output_desc", 34, "TensorDescriptor", True),
        ("subgraph_name", 35, STRING, True),
    ],
    "GraphDef": [
        ("name", 1, STRING, False),
        ("input", 4, STRING, True),
        ("output", 5, STRING, True),
        ("op", 6, "OpDef", True),
        ("attr", 11, "map", False),
    ],
    "ModelDef": [
        ("name", 1, STRING, False),
        ("version", 2, UINT32, False),
        ("custom_version", 3, STRING, False),
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
    file = descriptor_pb2.FileDescriptorProto(name="softcann/ge_ir.proto", package=PACKAGE, syntax="proto3")
    enum(file, "DataType", {f"DT_{name}": index for index, name in enumerate(DATA_TYPES)})
    for name, number in (("DT_BF16", 27), ("DT_FLOAT8_E5M2", 35), ("DT_FLOAT8_E4M3FN", 36)):
        file.enum_type[0].value.add(name=name, number=number)
    enum(file, "ListValueType", {f"VT_LIST_{name}": number for name, number in LIST_TYPES.items()})
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            add_field(message, name, field, number, kind, repeated)
        if name == "AttrDef":
            message.oneof_decl.add(name="value")
            for field in message.field:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


def enum(file, name, values):
    added = file.enum_type.add(name=name)
    for key, number in values.items():
        added.value.add(name=key, number=number)


def add_field(message, owner, field, number, kind, repeated):
    added = message.field.add(name=field, number=number, label=_F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL)
    if kind == "map":
        entry = message.nested_type.add(name="AttrEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=STRING, label=_F.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=_F.TYPE_MESSAGE, type_name=f".{PACKAGE}.AttrDef", label=_F.LABEL_OPTIONAL)
        added.label, added.type, added.type_name = _F.LABEL_REPEATED, _F.TYPE_MESSAGE, f".{PACKAGE}.{owner}.AttrEntry"
    elif isinstance(kind, str):
        added.type = _F.TYPE_ENUM if kind in ("DataType", "ListValueType") else _F.TYPE_MESSAGE
        added.type_name = f".{PACKAGE}.{kind}"
    else:
        added.type = kind


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
