"""Functions of `acl` itself: start and end, data buffers, descriptions of tensors, errors and the log."""
import ctypes
import os
import sys

from . import _owners
from ._binding import Table

TABLE = Table("acl", ("libascendcl.so", "libacl_op_compiler.so"), """
finalize get_recent_err_msg get_cann_attribute get_device_capability data_type_size float16_to_float float_to_float16
create_data_buffer update_data_buffer destroy_data_buffer get_data_buffer_addr get_data_buffer_size
get_data_buffer_size_v2 create_tensor_desc destroy_tensor_desc get_tensor_desc_type get_tensor_desc_format
get_tensor_desc_size get_tensor_desc_element_count get_tensor_desc_num_dims get_tensor_desc_dim get_tensor_desc_dim_v2
get_tensor_desc_name get_tensor_desc_address get_tensor_desc_by_index set_tensor_desc_name set_tensor_format
set_tensor_shape set_tensor_place_ment set_tensor_const app_log set_tensor_origin_format set_tensor_origin_shape
set_tensor_storage_format set_tensor_storage_shape set_tensor_dynamic_input trans_tensor_desc_format
get_compileopt_size set_compileopt
get_soc_name aclrtGetSocName
get_version aclrtGetVersion
init aclInit ptr
get_tensor_desc_dim_range aclGetTensorDescDimRange ptr size size ptr
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


@TABLE.family("set_tensor_shape", "set_tensor_origin_shape", "set_tensor_storage_shape")
def _set_shape(name, desc, dims):
    array, count = numbers(dims)
    return TABLE.c(name, desc, count, ctypes.addressof(array))



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
