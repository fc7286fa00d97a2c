"""acl.prof: the profiler of libmsprofiler. A CANN without a function of it has no such name here."""
import ctypes
import os

from ._base import numbers
from ._binding import Pointer, Table

_TABLE = Table("acl.prof", ("libascendcl.so", "libmsprofiler.so"), """
init aclprofInit ptr size
finalize aclprofFinalize
create_config aclprofCreateConfig ptr u32 i32 ptr u64 =ptr
destroy_config aclprofDestroyConfig ptr
set_config aclprofSetConfig i32 ptr size
start aclprofStart ptr
stop aclprofStop ptr
create_stamp aclprofCreateStamp =ptr
destroy_stamp aclprofDestroyStamp ptr =void
set_stamp_trace_message aclprofSetStampTraceMessage ptr ptr u32
mark aclprofMark ptr
mark_ex aclprofMarkEx ptr size ptr
push aclprofPush ptr
pop aclprofPop
range_start aclprofRangeStart ptr >u32
range_stop aclprofRangeStop u32
create_step_info aclprofCreateStepInfo =ptr
destroy_step_info aclprofDestroyStepInfo ptr =void
get_step_timestamp aclprofGetStepTimestamp ptr i32 ptr
create_subscribe_config aclprofCreateSubscribeConfig i8 i32 ptr =ptr
get_op_type_len aclprofGetOpTypeLen ptr size u32 >size
get_op_name_len aclprofGetOpNameLen ptr size u32 >size
get_op_type aclprofGetOpType ptr size u32 ptr size
get_op_name aclprofGetOpName ptr size u32 ptr size
get_op_start aclprofGetOpStart ptr size u32 =u64
get_op_end aclprofGetOpEnd ptr size u32 =u64
get_op_duration aclprofGetOpDuration ptr size u32 =u64
get_model_id aclprofGetModelId ptr size u32 =size
get_op_flag aclprofGetOpFlag ptr size u32 =i32
get_op_attri_value aclprofGetOpAttriValue ptr size u32 i32 =str
destroy_subscribe_config aclprofDestroySubscribeConfig ptr
model_subscribe aclprofModelSubscribe u32 ptr
model_un_subscribe aclprofModelUnSubscribe u32
get_op_desc_size aclprofGetOpDescSize >size
get_op_num aclprofGetOpNum ptr size >u32
""")


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()


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


def _text_of(name, info, size, index, room):
    text = ctypes.create_string_buffer(room)
    ret = _TABLE.c(name, info, size, index, ctypes.addressof(text), room)
    return text.value.decode("utf-8", "replace"), ret


@_TABLE.function("aclprofGetOpType")
def _get_op_type(info, size, index, room):
    """(text, ret); `room`: bytes that it may take, with the zero behind it."""
    return _text_of("get_op_type", info, size, index, room)


@_TABLE.function("aclprofGetOpName")
def _get_op_name(info, size, index, room):
    """(text, ret); `room`: bytes that it may take, with the zero behind it."""
    return _text_of("get_op_name", info, size, index, room)
