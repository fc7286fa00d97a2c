"""acl.op: single operators by their name in CANN. Lists of descriptions and buffers are sequences of handles."""
import ctypes

from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.op", ("libascendcl.so", "libacl_op_compiler.so"), """
set_model_dir load create_attr destroy_attr set_attr_bool set_attr_int set_attr_float set_attr_string
set_attr_data_type set_attr_list_bool set_attr_list_int set_attr_list_float set_attr_list_data_type
set_attr_list_string set_attr_list_list_int set_compile_flag set_max_op_queue_num compile execute execute_v2
compile_and_execute compile_and_execute_v2 create_handle destroy_handle start_dump_args stop_dump_args cast
execute_with_handle aclopExecWithHandle
""")
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names


def _handles(values, like):
    """A vector of handles; as many as `like` has."""
    if len(values) != len(like):
        raise ValueError(f"{len(like)} descriptions and {len(values)} buffers are given")
    return (ctypes.c_void_p * max(len(values), 1))(*values)


_ELEMENTS = {"set_attr_list_int": ctypes.c_int64, "set_attr_list_data_type": ctypes.c_int32,
             "set_attr_list_bool": ctypes.c_uint8, "set_attr_list_float": ctypes.c_float}


@_TABLE.family(*_ELEMENTS)
def _set_list(name, attr, key, values):
    kind = _ELEMENTS[name]
    array, count = _floats(values) if kind is ctypes.c_float else numbers(values, kind)
    return _TABLE.c(name, attr, key, count, ctypes.addressof(array))


def _floats(values):
    return (ctypes.c_float * max(len(values), 1))(*map(float, values)), len(values)


@_TABLE.function("aclopSetAttrListListInt")
def _set_attr_list_list_int(attr, key, lists):
    arrays = [numbers(one) for one in lists]
    counts, count = numbers((length for _, length in arrays), ctypes.c_int32)
    places = (ctypes.c_void_p * max(count, 1))(*(ctypes.addressof(array) for array, _ in arrays))
    return _TABLE.c("set_attr_list_list_int", attr, key, count, ctypes.addressof(counts), ctypes.addressof(places))


@_TABLE.family("execute", "execute_v2", "compile_and_execute", "compile_and_execute_v2")
def _run(name, kind, in_descs, inputs, out_descs, outputs, attr, *more):
    """Runs an operator: type, descriptions and buffers of what it reads and of what it writes, attributes, ..."""
    vectors = [_handles(one, like) for one, like in ((in_descs, in_descs), (inputs, in_descs), (out_descs, out_descs),
                                                      (outputs, out_descs))]
    places = [ctypes.addressof(one) for one in vectors]
    return _TABLE.c(name, kind, len(in_descs), *places[:2], len(out_descs), *places[2:], attr, *more)


@_TABLE.function("aclopSetAttrListString")
def _set_attr_list_string(attr, key, values):
    texts = (ctypes.c_char_p * max(len(values), 1))(*(value.encode("utf-8", "surrogateescape") for value in values))
    return _TABLE.c("set_attr_list_string", attr, key, len(values), ctypes.addressof(texts))


@_TABLE.function("aclopCompile")
def _compile(kind, in_descs, out_descs, attr, engine, flag, path):
    given, made = _handles(in_descs, in_descs), _handles(out_descs, out_descs)
    return _TABLE.c("compile", kind, len(in_descs), ctypes.addressof(given), len(out_descs), ctypes.addressof(made), attr, engine,
                    flag, path)


@_TABLE.function("aclopCreateHandle")
def _create_handle(kind, in_descs, out_descs, attr):
    """(handle, ret)."""
    given, made = _handles(in_descs, in_descs), _handles(out_descs, out_descs)
    return _TABLE.c("create_handle", kind, len(in_descs), ctypes.addressof(given), len(out_descs), ctypes.addressof(made), attr)


@_TABLE.function("aclopExecWithHandle")
def _execute_with_handle(handle, inputs, outputs, stream):
    given, made = _handles(inputs, inputs), _handles(outputs, outputs)
    return _TABLE.c("execute_with_handle", handle, len(inputs), ctypes.addressof(given), len(outputs), ctypes.addressof(made),
                    stream)
