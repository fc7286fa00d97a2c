"""Functions of `acl` itself: start and end, data buffers, descriptions of tensors, errors and the log."""
import ctypes
import os
import sys

from . import _owners
from ._binding import Table

TABLE = Table("acl", ("libascendcl.so", "libacl_op_compiler.so"), """
init aclInit ptr
finalize aclFinalize
get_soc_name aclrtGetSocName =str
get_version aclrtGetVersion >i32 >i32 >i32
get_recent_err_msg aclGetRecentErrMsg =str
get_cann_attribute aclGetCannAttribute i32 >i32
get_device_capability aclGetDeviceCapability u32 i32 >i64
data_type_size aclDataTypeSize i32 =size
float16_to_float aclFloat16ToFloat u16 =float
float_to_float16 aclFloatToFloat16 float =u16
create_data_buffer aclCreateDataBuffer ptr size =ptr
update_data_buffer aclUpdateDataBuffer ptr ptr size
destroy_data_buffer aclDestroyDataBuffer ptr
get_data_buffer_addr aclGetDataBufferAddr ptr =ptr
get_data_buffer_size aclGetDataBufferSize ptr =u32
get_data_buffer_size_v2 aclGetDataBufferSizeV2 ptr =size
create_tensor_desc aclCreateTensorDesc i32 i32 ptr i32 =ptr
destroy_tensor_desc aclDestroyTensorDesc ptr =void
get_tensor_desc_type aclGetTensorDescType ptr =i32
get_tensor_desc_format aclGetTensorDescFormat ptr =i32
get_tensor_desc_size aclGetTensorDescSize ptr =size
get_tensor_desc_element_count aclGetTensorDescElementCount ptr =size
get_tensor_desc_num_dims aclGetTensorDescNumDims ptr =size
get_tensor_desc_dim aclGetTensorDescDim ptr size =i64
get_tensor_desc_dim_v2 aclGetTensorDescDimV2 ptr size >i64
get_tensor_desc_name aclGetTensorDescName ptr =str
get_tensor_desc_address aclGetTensorDescAddress ptr =ptr
get_tensor_desc_by_index aclGetTensorDescByIndex ptr size =ptr
set_tensor_desc_name aclSetTensorDescName ptr str =void
set_tensor_format aclSetTensorFormat ptr i32
set_tensor_shape aclSetTensorShape ptr i32 ptr
set_tensor_place_ment aclSetTensorPlaceMent ptr i32
set_tensor_const aclSetTensorConst ptr ptr size
app_log aclAppLog
get_tensor_desc_dim_range aclGetTensorDescDimRange ptr size size ptr
set_tensor_origin_format aclSetTensorOriginFormat ptr i32
set_tensor_origin_shape aclSetTensorOriginShape ptr i32 ptr
set_tensor_storage_format aclSetTensorStorageFormat ptr i32
set_tensor_storage_shape aclSetTensorStorageShape ptr i32 ptr
set_tensor_dynamic_input aclSetTensorDynamicInput ptr str
trans_tensor_desc_format aclTransTensorDescFormat ptr i32 >ptr
get_compileopt_size aclGetCompileoptSize i32 =size
set_compileopt aclSetCompileopt i32 str
""")


def numbers(values, kind=ctypes.c_int64):
    """An array of C and its length, of a sequence (a NumPy array, too)."""
    made = [int(one) for one in values]
    return (kind * max(len(made), 1))(*made), len(made)


@TABLE.function("aclInit")
def _init(config=None):
    """Starts AscendCL; `config` is the path of a json file. The error code."""
    path = ctypes.create_string_buffer(os.fsencode(config)) if config is not None else None
    return TABLE.c("init", ctypes.addressof(path) if path else None)


@TABLE.function("aclCreateDataBuffer")
def _create_data_buffer(data, size):
    buffer = TABLE.c("create_data_buffer", data, size)
    _owners.keep(buffer, data)
    return buffer


@TABLE.function("aclUpdateDataBuffer")
def _update_data_buffer(buffer, data, size):
    ret = TABLE.c("update_data_buffer", buffer, data, size)
    if ret == 0:
        _owners.keep(buffer, data)
    return ret


@TABLE.function("aclDestroyDataBuffer")
def _destroy_data_buffer(buffer):
    """Destroys it; one that a dataset has is destroyed with the dataset."""
    free = _owners.release(buffer)
    if free is None:
        return TABLE.c("destroy_data_buffer", None)   # CANN's own code for what is no data buffer
    return TABLE.c("destroy_data_buffer", buffer) if free else 0


@TABLE.function("aclCreateTensorDesc")
def _create_tensor_desc(data_type, dims, data_format):
    array, count = numbers(dims)
    return TABLE.c("create_tensor_desc", data_type, count, ctypes.addressof(array), data_format)


@TABLE.function("aclSetTensorShape")
def _set_tensor_shape(desc, dims):
    array, count = numbers(dims)
    return TABLE.c("set_tensor_shape", desc, count, ctypes.addressof(array))


def _shapes_of(names):
    for name in names:
        def call(desc, dims, name=name):
            array, count = numbers(dims)
            return TABLE.c(name, desc, count, ctypes.addressof(array))
        TABLE.written[name] = ((TABLE.lines[name][0],), call)


_shapes_of(("set_tensor_origin_shape", "set_tensor_storage_shape"))


@TABLE.function("aclGetTensorDescDimRange")
def _get_tensor_desc_dim_range(desc, index):
    """([smallest, largest], ret)."""
    found = (ctypes.c_int64 * 2)()
    ret = TABLE.c("get_tensor_desc_dim_range", desc, index, 2, ctypes.addressof(found))
    return list(found), ret


@TABLE.function("aclAppLog")
def _app_log(level, message):
    """Writes a line to CANN's log; 0."""
    caller = sys._getframe(1)
    function = TABLE.c_function("app_log")
    function.restype = None
    function(ctypes.c_int(level), caller.f_code.co_name.encode(), caller.f_code.co_filename.encode("utf-8", "surrogateescape"),
             ctypes.c_uint32(caller.f_lineno), b"%s", message.encode("utf-8", "surrogateescape"))
    return 0
