"""acl.prof: the profiler of libmsprofiler. A CANN without a function of it has no such name here."""
import ctypes
import os

from ._base import numbers
from ._binding import Pointer, Table

_TABLE = Table("acl.prof", ("libascendcl.so", "libmsprofiler.so"), """
finalize destroy_config start stop create_stamp destroy_stamp mark push pop range_start range_stop create_step_info
destroy_step_info get_step_timestamp create_subscribe_config get_op_type_len get_op_name_len get_op_type get_op_name
get_op_start get_op_end get_op_duration get_model_id get_op_flag get_op_attri_value destroy_subscribe_config
model_subscribe model_un_subscribe get_op_desc_size get_op_num
init aclprofInit ptr size
create_config aclprofCreateConfig ptr u32 i32 ptr u64 =ptr
set_config aclprofSetConfig i32 ptr size
set_stamp_trace_message aclprofSetStampTraceMessage ptr ptr u32
mark_ex aclprofMarkEx ptr size ptr
""")
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names


@_TABLE.function("aclprofInit")
def _init(path):
    """Profiles go to the folder `path`."""
    return _with_text("init", path)


def _with_text(name, text, *before, after=()):
    """A text is an address and a length in C."""
    data = os.fsencode(text)
    room = ctypes.create_string_buffer(data)
    return _TABLE.c(name, *before, ctypes.addressof(room), len(data), *after)


@_TABLE.function("aclprofSetConfig")
def _set_config(kind, text):
    return _with_text("set_config", text, kind)


@_TABLE.function("aclprofSetStampTraceMessage")
def _set_stamp_trace_message(stamp, message, length=None):
    """`length` is what C wants; the message knows its own."""
    return _with_text("set_stamp_trace_message", message, stamp)


@_TABLE.function("aclprofMarkEx")
def _mark_ex(message, length, stream):
    return _with_text("mark_ex", message, after=(stream,))


@_TABLE.function("aclprofCreateConfig")
def _create_config(devices, metrics, events, data_types):
    """`devices`: their numbers; `events`: 0. The config, 0 where it failed."""
    array, count = numbers(devices, ctypes.c_uint32)
    return _TABLE.c("create_config", ctypes.addressof(array), count, metrics, events, data_types)


@_TABLE.function("aclprofCreateSubscribeConfig")
def _create_subscribe_config(times, metrics, descriptor):
    """`descriptor`: of the pipe's end that is written to. The config, 0 where it failed."""
    number = ctypes.c_int(descriptor)
    config = _TABLE.c("create_subscribe_config", times, metrics, ctypes.addressof(number))
    return Pointer(config, number) if config else 0


@_TABLE.family("get_op_type", "get_op_name")
def _text_of(name, info, size, index, room):
    """(text, ret); `room`: bytes that it may take, with the zero behind it."""
    text = ctypes.create_string_buffer(room)
    ret = _TABLE.c(name, info, size, index, ctypes.addressof(text), room)
    return text.value.decode("utf-8", "replace"), ret
