"""acl.rt: devices, contexts, streams, events, memory, and functions of the client in stream order."""
import ctypes
import itertools

from . import _owners
from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.rt", ("libascendcl.so",), """
set_device reset_device reset_device_force get_device get_device_count get_device_info get_run_mode get_soc_name
get_logic_dev_id_by_user_dev_id get_primary_ctx_state device_can_access_peer device_enable_peer_access
device_disable_peer_access device_get_bare_tgid device_get_stream_priority_range device_task_abort synchronize_device
synchronize_device_with_timeout create_context destroy_context ctx_get_current_default_stream ctx_get_sys_param_opt
ctx_set_sys_param_opt get_sys_param_opt set_sys_param_opt create_stream create_stream_with_config destroy_stream
destroy_stream_force synchronize_stream synchronize_stream_with_timeout stream_query stream_abort stream_get_id
stream_get_flags stream_get_priority stream_wait_event set_stream_failure_mode create_event create_event_with_flag
create_event_ex_with_flag destroy_event record_event reset_event query_event query_event_status
query_event_wait_status synchronize_event synchronize_event_with_timeout event_elapsed_time event_get_timestamp
get_event_id malloc malloc_align32 malloc_cached malloc_host mem_flush mem_invalidate free free_host get_mem_info
mem_get_address_range memcpy memcpy_async memcpy_async_with_condition memcpy_2d memcpy_2d_async memset memset_async
host_register host_register_v2 host_get_device_pointer host_unregister reserve_mem_address release_mem_address map_mem
unmap_mem free_physical ipc_mem_get_export_key ipc_mem_import_by_key ipc_mem_close reduce_async get_overflow_status
reset_overflow_status set_stream_overflow_switch get_stream_overflow_switch get_device_sat_mode set_device_sat_mode
set_op_wait_timeout set_op_execute_time_out get_op_execute_timeout get_last_error peek_at_last_error subscribe_report
process_report launch_callback launch_host_func value_wait value_write get_device_res_limit set_device_res_limit
reset_device_res_limit get_stream_res_limit set_stream_res_limit reset_stream_res_limit
use_stream_res_in_current_thread unuse_stream_res_in_current_thread get_res_in_current_thread
set_op_execute_time_out_v2
set_context aclrtSetCurrentContext
get_context aclrtGetCurrentContext
unsubscribe_report aclrtUnSubscribeReport
ipc_mem_set_import_pid aclrtIpcMemSetImportPid str ptr size
""")
_MANY_COPIES = 64   # of one stream, before it is asked whether they have run
_COMPLETE = 0       # ACL_STREAM_STATUS_COMPLETE
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names


def _queued(ret, stream, *addresses):
    if ret == 0:
        _owners.queued(stream, *addresses)
        before = _owners.waiting(stream)
        if len(before) >= _MANY_COPIES and _TABLE.c("stream_query", stream) == (_COMPLETE, 0):
            _owners.done(stream, before)
    return ret


@_TABLE.family("synchronize_stream", "synchronize_stream_with_timeout", "destroy_stream", "destroy_stream_force")
def _waited(name, stream, *more):
    """A timeout is in milliseconds, -1 without end."""
    before = _owners.waiting(stream)
    ret = _TABLE.c(name, stream, *more)
    if ret == 0:
        _owners.done(stream, before)
    return ret


@_TABLE.family("memcpy_async", "memcpy_async_with_condition", "memcpy_2d_async")
def _copied(name, to, room, source, *more):
    """The stream comes last; `room` of a copy of two dimensions is a pitch."""
    return _queued(_TABLE.c(name, to, room, source, *more), more[-1], to, source)


@_TABLE.function("aclrtIpcMemGetExportKey")
def _ipc_mem_get_export_key(address, size, length, flags):
    """(key, ret); `length` is the room for the key with its null character, 65."""
    room = ctypes.create_string_buffer(length)
    ret = _TABLE.c("ipc_mem_get_export_key", address, size, ctypes.addressof(room), length, flags)
    return room.value.decode(), ret


@_TABLE.function("aclrtIpcMemSetImportPid")
def _ipc_mem_set_import_pid(key, pids, count=None):
    array, length = numbers(pids, ctypes.c_int32)
    return _TABLE.c("ipc_mem_set_import_pid", key, ctypes.addressof(array), length if count is None else min(count, length))


_calls, _keys = {}, itertools.count(1)   # functions that a stream will call


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _arrived(key):
    function, data = _calls.pop(key)
    function(data)   # an exception goes to sys.unraisablehook


def _registered(function, data):
    if not callable(function):
        raise TypeError(f"a function is needed, not {type(function).__name__}")
    key = next(_keys)
    _calls[key] = function, data
    return key


@_TABLE.function("aclrtLaunchCallback")
def _launch_callback(function, user_data, block, stream):
    """`function(user_data)` runs in `process_report` of the thread that subscribed; with `block` 1 the stream waits for it."""
    key = _registered(function, user_data)
    ret = _TABLE.c("launch_callback", ctypes.cast(_arrived, ctypes.c_void_p).value, key, block, stream)
    if ret:
        del _calls[key]
    return ret


@_TABLE.function("aclrtLaunchHostFunc")
def _launch_host_func(stream, function, arguments):
    """`function(arguments)` runs in stream order, in a thread of the library's."""
    key = _registered(function, arguments)
    ret = _TABLE.c("launch_host_func", stream, ctypes.cast(_arrived, ctypes.c_void_p).value, key)
    if ret:
        del _calls[key]
    return ret
