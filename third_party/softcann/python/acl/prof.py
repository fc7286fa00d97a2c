"""acl.prof: the profiler of libmsprofiler. A CANN without a function of it has no such name here."""
import ctypes
import os

from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.prof", ("libascendcl.so", "libmsprofiler.so"), """
init aclprofInit ptr size
finalize aclprofFinalize
create_config aclprofCreateConfig ptr u32 i32 ptr u64 =ptr
destroy_config aclprofDestroyConfig ptr
set_config aclprofSetConfig i32 str size
start aclprofStart ptr
stop aclprofStop ptr
create_stamp aclprofCreateStamp =ptr
destroy_stamp aclprofDestroyStamp ptr =void
set_stamp_trace_message aclprofSetStampTraceMessage ptr str u32
mark aclprofMark ptr
mark_ex aclprofMarkEx str size ptr
push aclprofPush ptr
pop aclprofPop
range_start aclprofRangeStart ptr >u32
range_stop aclprofRangeStop u32
create_step_info aclprofCreateStepInfo =ptr
destroy_step_info aclprofDestroyStepInfo ptr =void
get_step_timestamp aclprofGetStepTimestamp ptr i32 ptr
create_subscribe_config aclprofCreateSubscribeConfig i8 i32 ptr =ptr
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
    text = os.fsencode(path)
    room = ctypes.create_string_buffer(text)
    return _TABLE.c("init", ctypes.addressof(room), len(text))


@_TABLE.function("aclprofCreateConfig")
def _create_config(devices, metrics, events, data_types):
    """`devices`: their numbers; `events`: 0. The config, 0 where it failed."""
    array, count = numbers(devices, ctypes.c_uint32)
    return _TABLE.c("create_config", ctypes.addressof(array), count, metrics, events, data_types)
