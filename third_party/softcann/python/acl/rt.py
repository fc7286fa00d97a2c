"""acl.rt: devices, contexts, streams, events, memory, and functions of the client in stream order."""
import ctypes
import itertools

from . import _owners
from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.rt", ("libascendcl.so",), """
set_device aclrtSetDevice i32
reset_device aclrtResetDevice i32
reset_device_force aclrtResetDeviceForce i32
get_device aclrtGetDevice >i32
get_device_count aclrtGetDeviceCount >u32
get_device_info aclrtGetDeviceInfo u32 i32 >i64
get_run_mode aclrtGetRunMode >i32
get_soc_name aclrtGetSocName =str
get_logic_dev_id_by_user_dev_id aclrtGetLogicDevIdByUserDevId i32 >i32
get_primary_ctx_state aclrtGetPrimaryCtxState i32 >u32 >i32
device_can_access_peer aclrtDeviceCanAccessPeer >i32 i32 i32
device_enable_peer_access aclrtDeviceEnablePeerAccess i32 u32
device_disable_peer_access aclrtDeviceDisablePeerAccess i32
device_get_bare_tgid aclrtDeviceGetBareTgid >i32
device_get_stream_priority_range aclrtDeviceGetStreamPriorityRange >i32 >i32
device_task_abort aclrtDeviceTaskAbort i32 u32
synchronize_device aclrtSynchronizeDevice
synchronize_device_with_timeout aclrtSynchronizeDeviceWithTimeout i32
create_context aclrtCreateContext >ptr i32
destroy_context aclrtDestroyContext ptr
set_context aclrtSetCurrentContext ptr
get_context aclrtGetCurrentContext >ptr
ctx_get_current_default_stream aclrtCtxGetCurrentDefaultStream >ptr
ctx_get_sys_param_opt aclrtCtxGetSysParamOpt i32 >i64
ctx_set_sys_param_opt aclrtCtxSetSysParamOpt i32 i64
get_sys_param_opt aclrtGetSysParamOpt i32 >i64
set_sys_param_opt aclrtSetSysParamOpt i32 i64
create_stream aclrtCreateStream >ptr
create_stream_with_config aclrtCreateStreamWithConfig >ptr u32 u32
destroy_stream aclrtDestroyStream ptr
destroy_stream_force aclrtDestroyStreamForce ptr
synchronize_stream aclrtSynchronizeStream ptr
synchronize_stream_with_timeout aclrtSynchronizeStreamWithTimeout ptr i32
stream_query aclrtStreamQuery ptr >i32
stream_abort aclrtStreamAbort ptr
stream_get_id aclrtStreamGetId ptr >i32
stream_get_flags aclrtStreamGetFlags ptr >u32
stream_get_priority aclrtStreamGetPriority ptr >u32
stream_wait_event aclrtStreamWaitEvent ptr ptr
set_stream_failure_mode aclrtSetStreamFailureMode ptr u64
create_event aclrtCreateEvent >ptr
create_event_with_flag aclrtCreateEventWithFlag >ptr u32
create_event_ex_with_flag aclrtCreateEventExWithFlag >ptr u32
destroy_event aclrtDestroyEvent ptr
record_event aclrtRecordEvent ptr ptr
reset_event aclrtResetEvent ptr ptr
query_event aclrtQueryEvent ptr >i32
query_event_status aclrtQueryEventStatus ptr >i32
query_event_wait_status aclrtQueryEventWaitStatus ptr >i32
synchronize_event aclrtSynchronizeEvent ptr
synchronize_event_with_timeout aclrtSynchronizeEventWithTimeout ptr i32
event_elapsed_time aclrtEventElapsedTime >float ptr ptr
event_get_timestamp aclrtEventGetTimestamp ptr >u64
get_event_id aclrtGetEventId ptr >u32
malloc aclrtMalloc >ptr size i32
malloc_align32 aclrtMallocAlign32 >ptr size i32
malloc_cached aclrtMallocCached >ptr size i32
malloc_host aclrtMallocHost >ptr size
mem_flush aclrtMemFlush ptr size
mem_invalidate aclrtMemInvalidate ptr size
free aclrtFree ptr
free_host aclrtFreeHost ptr
get_mem_info aclrtGetMemInfo i32 >size >size
mem_get_address_range aclrtMemGetAddressRange ptr >ptr >size
memcpy aclrtMemcpy ptr size ptr size i32
memcpy_async aclrtMemcpyAsync ptr size ptr size i32 ptr
memcpy_async_with_condition aclrtMemcpyAsyncWithCondition ptr size ptr size i32 ptr
memcpy_2d aclrtMemcpy2d ptr size ptr size size size i32
memcpy_2d_async aclrtMemcpy2dAsync ptr size ptr size size size i32 ptr
memset aclrtMemset ptr size i32 size
memset_async aclrtMemsetAsync ptr size i32 size ptr
host_register aclrtHostRegister ptr u64 i32 >ptr
host_register_v2 aclrtHostRegisterV2 ptr u64 u32
host_get_device_pointer aclrtHostGetDevicePointer ptr >ptr u32
host_unregister aclrtHostUnregister ptr
reserve_mem_address aclrtReserveMemAddress >ptr size size ptr u64
release_mem_address aclrtReleaseMemAddress ptr
map_mem aclrtMapMem ptr size size ptr u64
unmap_mem aclrtUnmapMem ptr
free_physical aclrtFreePhysical ptr
ipc_mem_get_export_key aclrtIpcMemGetExportKey ptr size ptr size u64
ipc_mem_import_by_key aclrtIpcMemImportByKey >ptr str u64
ipc_mem_set_import_pid aclrtIpcMemSetImportPid str ptr size
ipc_mem_close aclrtIpcMemClose str
reduce_async aclrtReduceAsync ptr ptr u64 i32 i32 ptr ptr
get_overflow_status aclrtGetOverflowStatus ptr size ptr
reset_overflow_status aclrtResetOverflowStatus ptr
set_stream_overflow_switch aclrtSetStreamOverflowSwitch ptr u32
get_stream_overflow_switch aclrtGetStreamOverflowSwitch ptr >u32
get_device_sat_mode aclrtGetDeviceSatMode >i32
set_device_sat_mode aclrtSetDeviceSatMode i32
set_op_wait_timeout aclrtSetOpWaitTimeout u32
set_op_execute_time_out aclrtSetOpExecuteTimeOut u32
get_op_execute_timeout aclrtGetOpExecuteTimeout >u32
get_last_error aclrtGetLastError i32
peek_at_last_error aclrtPeekAtLastError i32
subscribe_report aclrtSubscribeReport u64 ptr
unsubscribe_report aclrtUnSubscribeReport u64 ptr
process_report aclrtProcessReport i32
launch_callback aclrtLaunchCallback ptr ptr i32 ptr
launch_host_func aclrtLaunchHostFunc ptr ptr ptr
value_wait aclrtValueWait ptr u64 u32 ptr
value_write aclrtValueWrite ptr u64 u32 ptr
get_device_res_limit aclrtGetDeviceResLimit i32 i32 >u32
set_device_res_limit aclrtSetDeviceResLimit i32 i32 u32
reset_device_res_limit aclrtResetDeviceResLimit i32
get_stream_res_limit aclrtGetStreamResLimit ptr i32 >u32
set_stream_res_limit aclrtSetStreamResLimit ptr i32 u32
reset_stream_res_limit aclrtResetStreamResLimit ptr
use_stream_res_in_current_thread aclrtUseStreamResInCurrentThread ptr
unuse_stream_res_in_current_thread aclrtUnuseStreamResInCurrentThread ptr
get_res_in_current_thread aclrtGetResInCurrentThread i32 >u32
set_op_execute_time_out_v2 aclrtSetOpExecuteTimeOutV2 u64 >u64
""")
_MANY_COPIES = 64   # of one stream, before it is asked whether they have run
_COMPLETE = 0       # ACL_STREAM_STATUS_COMPLETE


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()


def _queued(ret, stream, *addresses):
    if ret == 0:
        _owners.queued(stream, *addresses)
        before = _owners.waiting(stream)
        if len(before) >= _MANY_COPIES and _TABLE.c("stream_query", stream) == (_COMPLETE, 0):
            _owners.done(stream, before)
    return ret


def _waited(name, stream, *more):
    before = _owners.waiting(stream)
    ret = _TABLE.c(name, stream, *more)
    if ret == 0:
        _owners.done(stream, before)
    return ret


@_TABLE.function("aclrtMemcpyAsync")
def _memcpy_async(to, room, source, count, kind, stream):
    return _queued(_TABLE.c("memcpy_async", to, room, source, count, kind, stream), stream, to, source)


@_TABLE.function("aclrtMemcpyAsyncWithCondition")
def _memcpy_async_with_condition(to, room, source, count, kind, stream):
    return _queued(_TABLE.c("memcpy_async_with_condition", to, room, source, count, kind, stream), stream, to, source)


@_TABLE.function("aclrtMemcpy2dAsync")
def _memcpy_2d_async(to, to_pitch, source, pitch, width, height, kind, stream):
    return _queued(_TABLE.c("memcpy_2d_async", to, to_pitch, source, pitch, width, height, kind, stream), stream, to, source)


@_TABLE.function("aclrtSynchronizeStream")
def _synchronize_stream(stream):
    return _waited("synchronize_stream", stream)


@_TABLE.function("aclrtSynchronizeStreamWithTimeout")
def _synchronize_stream_with_timeout(stream, timeout):
    """Waits at most `timeout` milliseconds, -1 without end."""
    return _waited("synchronize_stream_with_timeout", stream, timeout)


@_TABLE.function("aclrtDestroyStream")
def _destroy_stream(stream):
    return _waited("destroy_stream", stream)


@_TABLE.function("aclrtDestroyStreamForce")
def _destroy_stream_force(stream):
    return _waited("destroy_stream_force", stream)


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
