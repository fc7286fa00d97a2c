"""acl.mdl: models (.om files): loading, descriptions, datasets, gears, execution.

Dims are `{"name": str, "dimCount": int, "dims": [int]}`.
"""
import ctypes
import os

from . import _owners
from ._base import TABLE as _BASE
from ._binding import Table

_TABLE = Table("acl.mdl", ("libascendcl.so",), """
load_from_file load_from_file_with_mem load_from_mem load_from_mem_with_mem load_with_config unload query_size
query_size_from_mem create_config_handle destroy_config_handle set_config_opt set_external_weight_address create_desc
destroy_desc get_desc get_desc_from_file get_desc_from_mem get_num_inputs get_num_outputs get_input_size_by_index
get_output_size_by_index get_input_data_type get_output_data_type get_input_format get_output_format
get_input_name_by_index get_output_name_by_index get_input_index_by_name get_output_index_by_name get_tensor_real_name
get_op_attr get_input_dims get_input_dims_v2 get_input_dims_range get_output_dims get_cur_output_dims
get_dynamic_batch get_input_dynamic_gear_count get_input_dynamic_dims set_dynamic_batch_size set_input_dynamic_dims
create_dataset destroy_dataset add_dataset_buffer get_dataset_num_buffers get_dataset_buffer set_dataset_tensor_desc
get_dataset_tensor_desc execute execute_async execute_v2 execute_async_v2 create_exec_config_handle
destroy_exec_config_handle init_dump set_dump finalize_dump bundle_load_from_file bundle_load_from_mem
bundle_get_model_num bundle_get_model_id bundle_unload bundle_create_query_info bundle_destroy_query_info
bundle_query_info_from_file bundle_query_info_from_mem bundle_get_query_model_num bundle_get_size
bundle_get_var_weight_size bundle_init_from_file bundle_init_from_mem bundle_load_model bundle_load_model_with_config
bundle_load_model_with_mem bundle_unload_model ri_capture_begin ri_capture_end ri_capture_get_info
ri_capture_task_grp_begin ri_capture_task_grp_end ri_capture_task_update_begin ri_capture_task_update_end
ri_debug_json_print ri_debug_print ri_destroy ri_execute ri_execute_async ri_get_id ri_set_name get_aipp_data_size
get_aipp_type
get_dynamic_hw aclmdlGetDynamicHW
set_dynamic_hw_size aclmdlSetDynamicHWSize
create_aipp aclmdlCreateAIPP
destroy_aipp aclmdlDestroyAIPP
set_aipp_input_format aclmdlSetAIPPInputFormat
set_aipp_src_image_size aclmdlSetAIPPSrcImageSize
set_aipp_rbuv_swap_switch aclmdlSetAIPPRbuvSwapSwitch
set_aipp_ax_swap_switch aclmdlSetAIPPAxSwapSwitch
set_aipp_csc_params aclmdlSetAIPPCscParams
set_aipp_dtc_pixel_mean aclmdlSetAIPPDtcPixelMean
set_aipp_dtc_pixel_min aclmdlSetAIPPDtcPixelMin
set_aipp_pixel_var_reci aclmdlSetAIPPPixelVarReci
set_aipp_crop_params aclmdlSetAIPPCropParams
set_aipp_padding_params aclmdlSetAIPPPaddingParams
set_aipp_scf_params aclmdlSetAIPPScfParams
set_aipp_by_input_index aclmdlSetAIPPByInputIndex
set_input_aipp aclmdlSetInputAIPP
""")
_ANY = 2 ** 64 - 1   # the index that pyACL writes as -1
_OF_INT32 = (0, 28)  # the options of aclmdlConfigAttr that are int32; the others have 8 bytes
_PATHS = (2, 14)     # ACL_MDL_PATH_PTR, ACL_MDL_WEIGHT_PATH_PTR
_paths = {}          # config handle: the paths that were set, which C reads when it loads
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names


class _Dims(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 128), ("count", ctypes.c_size_t), ("dims", ctypes.c_int64 * 128)]

    def plain(self):
        return {"name": self.name.decode(), "dimCount": self.count, "dims": self.dims[:self.count]}


class _Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("batch", ctypes.c_uint64 * 128)]


class _Pairs(ctypes.Structure):   # aclmdlHW and aclmdlIODimsRange
    _fields_ = [("count", ctypes.c_size_t), ("pairs", (ctypes.c_int64 * 2) * 128)]

    def plain(self):
        return [list(self.pairs[index]) for index in range(self.count)]


@_TABLE.family("load_from_file", "load_from_file_with_mem", "query_size", "bundle_load_from_file")
def _of_path(name, path, *more):
    """Models are named by str or path-like objects."""
    return _TABLE.c(name, os.fspath(path), *more)


@_TABLE.family("get_input_dims", "get_input_dims_v2", "get_output_dims", "get_cur_output_dims")
def _dims_of(name, desc, index):
    """(dims, ret)."""
    dims = _Dims()
    ret = _TABLE.c(name, desc, index, ctypes.addressof(dims))
    return dims.plain(), ret


@_TABLE.function("aclmdlGetInputDimsRange")
def _get_input_dims_range(desc, index):
    """({"rangeCount", "range": [[smallest, largest], ...]}, ret)."""
    found = _Pairs()
    ret = _TABLE.c("get_input_dims_range", desc, index, ctypes.addressof(found))
    return {"rangeCount": found.count, "range": found.plain()}, ret


@_TABLE.function("aclmdlGetDynamicBatch")
def _get_dynamic_batch(desc):
    """({"batchCount", "batch": [sizes]}, ret)."""
    found = _Batch()
    ret = _TABLE.c("get_dynamic_batch", desc, ctypes.addressof(found))
    return {"batchCount": found.count, "batch": found.batch[:found.count]}, ret


@_TABLE.function("aclmdlGetDynamicHW")
def _get_dynamic_hw(desc, index=-1):
    """({"hwCount", "hw": [[height, width], ...]}, ret)."""
    found = _Pairs()
    ret = _TABLE.c("get_dynamic_hw", desc, index & _ANY, ctypes.addressof(found))
    return {"hwCount": found.count, "hw": found.plain()}, ret


@_TABLE.function("aclmdlGetInputDynamicGearCount")
def _get_input_dynamic_gear_count(desc, index=-1):
    return _TABLE.c("get_input_dynamic_gear_count", desc, index & _ANY)


@_TABLE.function("aclmdlGetInputDynamicDims")
def _get_input_dynamic_dims(desc, index, count):
    """([dims of each gear], ret)."""
    found = (_Dims * max(count, 1))()
    ret = _TABLE.c("get_input_dynamic_dims", desc, index & _ANY, ctypes.addressof(found), count)
    return [one.plain() for one in found[:count]], ret


@_TABLE.function("aclmdlSetInputDynamicDims")
def _set_input_dynamic_dims(model_id, dataset, index, dims):
    """`dims`: one that get_input_dynamic_dims gave, or its like."""
    sizes = dims["dims"]
    if dims.get("dimCount", len(sizes)) != len(sizes) or len(sizes) > 128:
        raise ValueError(f"acl.mdl.set_input_dynamic_dims: dimCount of 128 at most, and as many dims, are needed, not {dims}")
    given = _Dims(dims.get("name", "").encode(), len(sizes))
    given.dims[:len(sizes)] = [int(size) for size in sizes]
    return _TABLE.c("set_input_dynamic_dims", model_id, dataset, index, ctypes.addressof(given))


@_TABLE.function("aclmdlSetConfigOpt")
def _set_config_opt(handle, option, value):
    """`value`: an int, or of ACL_MDL_PATH_PTR and ACL_MDL_WEIGHT_PATH_PTR a path."""
    if option in _PATHS:
        kept = ctypes.create_string_buffer(os.fsencode(value))
        _paths.setdefault(handle, {})[option] = kept
        value = ctypes.addressof(kept)
    given = (ctypes.c_int32 if option in _OF_INT32 else ctypes.c_uint64)(value)
    return _TABLE.c("set_config_opt", handle, option, ctypes.addressof(given), ctypes.sizeof(given))


@_TABLE.function("aclmdlDestroyConfigHandle")
def _destroy_config_handle(handle):
    ret = _TABLE.c("destroy_config_handle", handle)
    if ret == 0:
        _paths.pop(handle, None)
    return ret


@_TABLE.function("aclmdlAddDatasetBuffer")
def _add_dataset_buffer(dataset, buffer):
    """(dataset, ret). The buffer, and what it was made of if acl.util knows it, lives at least as long as the dataset."""
    ret = _TABLE.c("add_dataset_buffer", dataset, buffer)
    if ret == 0:
        _owners.add(dataset, buffer)
    return dataset, ret


@_TABLE.function("aclmdlDestroyDataset")
def _destroy_dataset(dataset):
    ret = _TABLE.c("destroy_dataset", dataset)
    if ret == 0:
        for buffer in _owners.leave(dataset):
            _BASE.c("destroy_data_buffer", buffer)
    return ret


@_TABLE.function("aclmdlSetDatasetTensorDesc")
def _set_dataset_tensor_desc(dataset, desc, index):
    """(dataset, ret)."""
    return dataset, _TABLE.c("set_dataset_tensor_desc", dataset, desc, index)
