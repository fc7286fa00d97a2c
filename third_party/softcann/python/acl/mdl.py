"""acl.mdl: models (.om files): loading, descriptions, datasets, gears, execution.

Dims are `{"name": str, "dimCount": int, "dims": [int]}`.
"""
import ctypes
import os

from . import _owners
from ._base import TABLE as _BASE
from ._binding import Table

_TABLE = Table("acl.mdl", ("libascendcl.so",), """
load_from_file aclmdlLoadFromFile str >u32
load_from_file_with_mem aclmdlLoadFromFileWithMem str >u32 ptr size ptr size
load_from_mem aclmdlLoadFromMem ptr size >u32
load_from_mem_with_mem aclmdlLoadFromMemWithMem ptr size >u32 ptr size ptr size
load_with_config aclmdlLoadWithConfig ptr >u32
unload aclmdlUnload u32
query_size aclmdlQuerySize str >size >size
query_size_from_mem aclmdlQuerySizeFromMem ptr size >size >size
create_config_handle aclmdlCreateConfigHandle =ptr
destroy_config_handle aclmdlDestroyConfigHandle ptr
set_config_opt aclmdlSetConfigOpt ptr i32 ptr size
set_external_weight_address aclmdlSetExternalWeightAddress ptr str ptr size
create_desc aclmdlCreateDesc =ptr
destroy_desc aclmdlDestroyDesc ptr
get_desc aclmdlGetDesc ptr u32
get_desc_from_file aclmdlGetDescFromFile ptr str
get_desc_from_mem aclmdlGetDescFromMem ptr ptr size
get_num_inputs aclmdlGetNumInputs ptr =size
get_num_outputs aclmdlGetNumOutputs ptr =size
get_input_size_by_index aclmdlGetInputSizeByIndex ptr size =size
get_output_size_by_index aclmdlGetOutputSizeByIndex ptr size =size
get_input_data_type aclmdlGetInputDataType ptr size =i32
get_output_data_type aclmdlGetOutputDataType ptr size =i32
get_input_format aclmdlGetInputFormat ptr size =i32
get_output_format aclmdlGetOutputFormat ptr size =i32
get_input_name_by_index aclmdlGetInputNameByIndex ptr size =str
get_output_name_by_index aclmdlGetOutputNameByIndex ptr size =str
get_input_index_by_name aclmdlGetInputIndexByName ptr str >size
get_output_index_by_name aclmdlGetOutputIndexByName ptr str >size
get_tensor_real_name aclmdlGetTensorRealName ptr str =str
get_op_attr aclmdlGetOpAttr ptr str str =str
get_input_dims aclmdlGetInputDims ptr size ptr
get_input_dims_v2 aclmdlGetInputDimsV2 ptr size ptr
get_input_dims_range aclmdlGetInputDimsRange ptr size ptr
get_output_dims aclmdlGetOutputDims ptr size ptr
get_cur_output_dims aclmdlGetCurOutputDims ptr size ptr
get_dynamic_batch aclmdlGetDynamicBatch ptr ptr
get_dynamic_hw aclmdlGetDynamicHW ptr size ptr
get_input_dynamic_gear_count aclmdlGetInputDynamicGearCount ptr size >size
get_input_dynamic_dims aclmdlGetInputDynamicDims ptr size ptr size
set_dynamic_batch_size aclmdlSetDynamicBatchSize u32 ptr size u64
set_dynamic_hw_size aclmdlSetDynamicHWSize u32 ptr size u64 u64
set_input_dynamic_dims aclmdlSetInputDynamicDims u32 ptr size ptr
create_dataset aclmdlCreateDataset =ptr
destroy_dataset aclmdlDestroyDataset ptr
add_dataset_buffer aclmdlAddDatasetBuffer ptr ptr
get_dataset_num_buffers aclmdlGetDatasetNumBuffers ptr =size
get_dataset_buffer aclmdlGetDatasetBuffer ptr size =ptr
set_dataset_tensor_desc aclmdlSetDatasetTensorDesc ptr ptr size
get_dataset_tensor_desc aclmdlGetDatasetTensorDesc ptr size =ptr
execute aclmdlExecute u32 ptr ptr
execute_async aclmdlExecuteAsync u32 ptr ptr ptr
execute_v2 aclmdlExecuteV2 u32 ptr ptr ptr ptr
execute_async_v2 aclmdlExecuteAsyncV2 u32 ptr ptr ptr ptr
create_exec_config_handle aclmdlCreateExecConfigHandle =ptr
destroy_exec_config_handle aclmdlDestroyExecConfigHandle ptr
init_dump aclmdlInitDump
set_dump aclmdlSetDump str
finalize_dump aclmdlFinalizeDump
bundle_load_from_file aclmdlBundleLoadFromFile str >u32
bundle_load_from_mem aclmdlBundleLoadFromMem ptr size >u32
bundle_get_model_num aclmdlBundleGetModelNum u32 >size
bundle_get_model_id aclmdlBundleGetModelId u32 size >u32
bundle_unload aclmdlBundleUnload u32
bundle_create_query_info aclmdlBundleCreateQueryInfo =ptr
bundle_destroy_query_info aclmdlBundleDestroyQueryInfo ptr
bundle_query_info_from_file aclmdlBundleQueryInfoFromFile str ptr
bundle_query_info_from_mem aclmdlBundleQueryInfoFromMem ptr size ptr
bundle_get_query_model_num aclmdlBundleGetQueryModelNum ptr >size
bundle_get_size aclmdlBundleGetSize ptr size >size >size
bundle_get_var_weight_size aclmdlBundleGetVarWeightSize ptr >size
bundle_init_from_file aclmdlBundleInitFromFile str ptr size >u32
bundle_init_from_mem aclmdlBundleInitFromMem ptr size ptr size >u32
bundle_load_model aclmdlBundleLoadModel u32 size >u32
bundle_load_model_with_config aclmdlBundleLoadModelWithConfig u32 size ptr >u32
bundle_load_model_with_mem aclmdlBundleLoadModelWithMem u32 size ptr size ptr size >u32
bundle_unload_model aclmdlBundleUnloadModel u32 u32
ri_capture_begin aclmdlRICaptureBegin ptr i32
ri_capture_end aclmdlRICaptureEnd ptr >ptr
ri_capture_get_info aclmdlRICaptureGetInfo ptr >i32 >ptr
ri_capture_task_grp_begin aclmdlRICaptureTaskGrpBegin ptr
ri_capture_task_grp_end aclmdlRICaptureTaskGrpEnd ptr >ptr
ri_capture_task_update_begin aclmdlRICaptureTaskUpdateBegin ptr ptr
ri_capture_task_update_end aclmdlRICaptureTaskUpdateEnd ptr
ri_debug_json_print aclmdlRIDebugJsonPrint ptr str u32
ri_debug_print aclmdlRIDebugPrint ptr
ri_destroy aclmdlRIDestroy ptr
ri_execute aclmdlRIExecute ptr i32
ri_execute_async aclmdlRIExecuteAsync ptr ptr
ri_get_id aclmdlRIGetId ptr >u32
ri_set_name aclmdlRISetName ptr str
create_aipp aclmdlCreateAIPP u64 =ptr
destroy_aipp aclmdlDestroyAIPP ptr
get_aipp_data_size aclmdlGetAippDataSize u64 >size
get_aipp_type aclmdlGetAippType u32 size >i32 >size
set_aipp_input_format aclmdlSetAIPPInputFormat ptr i32
set_aipp_src_image_size aclmdlSetAIPPSrcImageSize ptr i32 i32
set_aipp_rbuv_swap_switch aclmdlSetAIPPRbuvSwapSwitch ptr i8
set_aipp_ax_swap_switch aclmdlSetAIPPAxSwapSwitch ptr i8
set_aipp_csc_params aclmdlSetAIPPCscParams ptr i8 i16 i16 i16 i16 i16 i16 i16 i16 i16 u8 u8 u8 u8 u8 u8
set_aipp_dtc_pixel_mean aclmdlSetAIPPDtcPixelMean ptr i16 i16 i16 i16 u64
set_aipp_dtc_pixel_min aclmdlSetAIPPDtcPixelMin ptr float float float float u64
set_aipp_pixel_var_reci aclmdlSetAIPPPixelVarReci ptr float float float float u64
set_aipp_crop_params aclmdlSetAIPPCropParams ptr i8 i32 i32 i32 i32 u64
set_aipp_padding_params aclmdlSetAIPPPaddingParams ptr i8 i32 i32 i32 i32 u64
set_aipp_scf_params aclmdlSetAIPPScfParams ptr i8 i32 i32 i32 i32 u64
set_aipp_by_input_index aclmdlSetAIPPByInputIndex u32 ptr size ptr
set_input_aipp aclmdlSetInputAIPP u32 ptr size ptr
""")
_ANY = 2 ** 64 - 1   # the index that pyACL writes as -1
_OF_INT32 = (0, 28)  # the options of aclmdlConfigAttr that are int32; the others have 8 bytes
_PATHS = (2, 14)     # ACL_MDL_PATH_PTR, ACL_MDL_WEIGHT_PATH_PTR
_paths = {}          # config handle: the paths that were set, which C reads when it loads


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()


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


def _paths_of(names):
    """Models are named by str or path-like objects."""
    for name in names:
        symbol = _TABLE.lines[name][0]

        def call(path, *more, name=name):
            return _TABLE.c(name, os.fspath(path), *more)
        _TABLE.written[name] = ((symbol,), call)


_paths_of(("load_from_file", "load_from_file_with_mem", "query_size", "bundle_load_from_file"))


def _dims_of(names):
    """Functions `(desc, index)` that give (dims, ret)."""
    for name in names:
        def call(desc, index, name=name):
            dims = _Dims()
            ret = _TABLE.c(name, desc, index, ctypes.addressof(dims))
            return dims.plain(), ret
        _TABLE.written[name] = ((_TABLE.lines[name][0],), call)


_dims_of(("get_input_dims", "get_input_dims_v2", "get_output_dims", "get_cur_output_dims"))


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
