"""acl.media: DVPP, the image processing of libacl_dvpp. A CANN without that library has none of these names.

Memory for images, `dvpp_malloc`, is device memory. Functions for several pictures take lists, the number of areas of each picture
and the areas of all, and give (the description of the results, ret).
"""
import ctypes

from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.media", ("libacl_dvpp.so",), """
dvpp_malloc acldvppMalloc >ptr size
dvpp_free acldvppFree ptr
dvpp_create_channel_desc acldvppCreateChannelDesc =ptr
dvpp_destroy_channel_desc acldvppDestroyChannelDesc ptr
dvpp_create_pic_desc acldvppCreatePicDesc =ptr
dvpp_destroy_pic_desc acldvppDestroyPicDesc ptr
dvpp_create_resize_config acldvppCreateResizeConfig =ptr
dvpp_destroy_resize_config acldvppDestroyResizeConfig ptr
dvpp_create_jpege_config acldvppCreateJpegeConfig =ptr
dvpp_destroy_jpege_config acldvppDestroyJpegeConfig ptr
dvpp_create_border_config acldvppCreateBorderConfig =ptr
dvpp_destroy_border_config acldvppDestroyBorderConfig ptr
dvpp_create_lut_map acldvppCreateLutMap =ptr
dvpp_destroy_lut_map acldvppDestroyLutMap ptr
dvpp_create_hist acldvppCreateHist =ptr
dvpp_destroy_hist acldvppDestroyHist ptr
dvpp_create_stream_desc acldvppCreateStreamDesc =ptr
dvpp_destroy_stream_desc acldvppDestroyStreamDesc ptr
dvpp_create_channel acldvppCreateChannel ptr
dvpp_destroy_channel acldvppDestroyChannel ptr
dvpp_get_channel_desc_channel_id acldvppGetChannelDescChannelId ptr =u64
dvpp_set_channel_desc_mode acldvppSetChannelDescMode ptr u32
dvpp_set_channel_desc_param acldvppSetChannelDescParam ptr i32 size ptr
dvpp_get_channel_desc_param acldvppGetChannelDescParam ptr i32 size >size ptr
dvpp_set_pic_desc_data acldvppSetPicDescData ptr ptr
dvpp_get_pic_desc_data acldvppGetPicDescData ptr =ptr
dvpp_set_pic_desc_size acldvppSetPicDescSize ptr u32
dvpp_get_pic_desc_size acldvppGetPicDescSize ptr =u32
dvpp_set_pic_desc_format acldvppSetPicDescFormat ptr i32
dvpp_get_pic_desc_format acldvppGetPicDescFormat ptr =i32
dvpp_set_pic_desc_width acldvppSetPicDescWidth ptr u32
dvpp_get_pic_desc_width acldvppGetPicDescWidth ptr =u32
dvpp_set_pic_desc_height acldvppSetPicDescHeight ptr u32
dvpp_get_pic_desc_height acldvppGetPicDescHeight ptr =u32
dvpp_set_pic_desc_width_stride acldvppSetPicDescWidthStride ptr u32
dvpp_get_pic_desc_width_stride acldvppGetPicDescWidthStride ptr =u32
dvpp_set_pic_desc_height_stride acldvppSetPicDescHeightStride ptr u32
dvpp_get_pic_desc_height_stride acldvppGetPicDescHeightStride ptr =u32
dvpp_set_pic_desc_ret_code acldvppSetPicDescRetCode ptr u32
dvpp_get_pic_desc_ret_code acldvppGetPicDescRetCode ptr =u32
dvpp_create_batch_pic_desc acldvppCreateBatchPicDesc u32 =ptr
dvpp_get_pic_desc acldvppGetPicDesc ptr u32 =ptr
dvpp_destroy_batch_pic_desc acldvppDestroyBatchPicDesc ptr
dvpp_create_roi_config acldvppCreateRoiConfig u32 u32 u32 u32 =ptr
dvpp_destroy_roi_config acldvppDestroyRoiConfig ptr
dvpp_set_roi_config acldvppSetRoiConfig ptr u32 u32 u32 u32
dvpp_set_roi_config_left acldvppSetRoiConfigLeft ptr u32
dvpp_set_roi_config_right acldvppSetRoiConfigRight ptr u32
dvpp_set_roi_config_top acldvppSetRoiConfigTop ptr u32
dvpp_set_roi_config_bottom acldvppSetRoiConfigBottom ptr u32
dvpp_set_resize_config_interpolation acldvppSetResizeConfigInterpolation ptr u32
dvpp_get_resize_config_interpolation acldvppGetResizeConfigInterpolation ptr =u32
dvpp_set_jpege_config_level acldvppSetJpegeConfigLevel ptr u32
dvpp_get_jpege_config_level acldvppGetJpegeConfigLevel ptr =u32
dvpp_set_border_config_value acldvppSetBorderConfigValue ptr u32 double
dvpp_get_border_config_value acldvppGetBorderConfigValue ptr u32 =double
dvpp_set_border_config_border_type acldvppSetBorderConfigBorderType ptr i32
dvpp_get_border_config_border_type acldvppGetBorderConfigBorderType ptr =i32
dvpp_set_border_config_top acldvppSetBorderConfigTop ptr u32
dvpp_get_border_config_top acldvppGetBorderConfigTop ptr =u32
dvpp_set_border_config_bottom acldvppSetBorderConfigBottom ptr u32
dvpp_get_border_config_bottom acldvppGetBorderConfigBottom ptr =u32
dvpp_set_border_config_left acldvppSetBorderConfigLeft ptr u32
dvpp_get_border_config_left acldvppGetBorderConfigLeft ptr =u32
dvpp_set_border_config_right acldvppSetBorderConfigRight ptr u32
dvpp_get_border_config_right acldvppGetBorderConfigRight ptr =u32
dvpp_get_lut_map_dims acldvppGetLutMapDims ptr =u32
dvpp_get_lut_map_data acldvppGetLutMapData ptr u32 >ptr >u32
dvpp_get_hist_dims acldvppGetHistDims ptr =u32
dvpp_get_hist_data acldvppGetHistData ptr u32 >ptr >u16
dvpp_get_hist_ret_code acldvppGetHistRetCode ptr =u32
dvpp_clear_hist acldvppClearHist ptr
dvpp_vpc_resize_async acldvppVpcResizeAsync ptr ptr ptr ptr ptr
dvpp_vpc_crop_async acldvppVpcCropAsync ptr ptr ptr ptr ptr
dvpp_vpc_crop_resize_async acldvppVpcCropResizeAsync ptr ptr ptr ptr ptr ptr
dvpp_vpc_crop_and_paste_async acldvppVpcCropAndPasteAsync ptr ptr ptr ptr ptr ptr
dvpp_vpc_crop_resize_paste_async acldvppVpcCropResizePasteAsync ptr ptr ptr ptr ptr ptr ptr
dvpp_vpc_convert_color_async acldvppVpcConvertColorAsync ptr ptr ptr ptr
dvpp_vpc_pyr_down_async acldvppVpcPyrDownAsync ptr ptr ptr ptr ptr
dvpp_vpc_equalize_hist_async acldvppVpcEqualizeHistAsync ptr ptr ptr ptr ptr
dvpp_vpc_make_border_async acldvppVpcMakeBorderAsync ptr ptr ptr ptr ptr
dvpp_vpc_calc_hist_async acldvppVpcCalcHistAsync ptr ptr ptr ptr ptr
dvpp_vpc_batch_crop_async acldvppVpcBatchCropAsync ptr ptr ptr u32 ptr ptr ptr
dvpp_vpc_batch_crop_resize_async acldvppVpcBatchCropResizeAsync ptr ptr ptr u32 ptr ptr ptr ptr
dvpp_vpc_batch_crop_and_paste_async acldvppVpcBatchCropAndPasteAsync ptr ptr ptr u32 ptr ptr ptr ptr
dvpp_vpc_batch_crop_resize_paste_async acldvppVpcBatchCropResizePasteAsync ptr ptr ptr u32 ptr ptr ptr ptr ptr
dvpp_vpc_batch_crop_resize_make_border_async acldvppVpcBatchCropResizeMakeBorderAsync ptr ptr ptr u32 ptr ptr ptr ptr ptr
dvpp_jpeg_get_image_info acldvppJpegGetImageInfo ptr u32 >u32 >u32 >i32
dvpp_jpeg_get_image_info_v2 acldvppJpegGetImageInfoV2 ptr u32 >u32 >u32 >i32 >i32
dvpp_jpeg_predict_dec_size acldvppJpegPredictDecSize ptr u32 i32 >u32
dvpp_jpeg_predict_enc_size acldvppJpegPredictEncSize ptr ptr >u32
dvpp_jpeg_decode_async acldvppJpegDecodeAsync ptr ptr u32 ptr ptr
dvpp_jpeg_encode_async acldvppJpegEncodeAsync ptr ptr ptr ptr ptr ptr
dvpp_png_get_image_info acldvppPngGetImageInfo ptr u32 >u32 >u32 >i32
dvpp_png_predict_dec_size acldvppPngPredictDecSize ptr u32 i32 >u32
dvpp_png_decode_async acldvppPngDecodeAsync ptr ptr u32 ptr ptr
dvpp_set_stream_desc_data acldvppSetStreamDescData ptr ptr
dvpp_get_stream_desc_data acldvppGetStreamDescData ptr =ptr
dvpp_set_stream_desc_size acldvppSetStreamDescSize ptr u32
dvpp_get_stream_desc_size acldvppGetStreamDescSize ptr =u32
dvpp_set_stream_desc_format acldvppSetStreamDescFormat ptr i32
dvpp_get_stream_desc_format acldvppGetStreamDescFormat ptr =i32
dvpp_set_stream_desc_timestamp acldvppSetStreamDescTimestamp ptr u64
dvpp_get_stream_desc_timestamp acldvppGetStreamDescTimestamp ptr =u64
dvpp_set_stream_desc_ret_code acldvppSetStreamDescRetCode ptr u32
dvpp_get_stream_desc_ret_code acldvppGetStreamDescRetCode ptr =u32
dvpp_set_stream_desc_eos acldvppSetStreamDescEos ptr u8
dvpp_get_stream_desc_eos acldvppGetStreamDescEos ptr =u8
vdec_create_channel_desc aclvdecCreateChannelDesc =ptr
vdec_destroy_channel_desc aclvdecDestroyChannelDesc ptr
vdec_create_frame_config aclvdecCreateFrameConfig =ptr
vdec_destroy_frame_config aclvdecDestroyFrameConfig ptr
vdec_create_channel aclvdecCreateChannel ptr
vdec_destroy_channel aclvdecDestroyChannel ptr
venc_create_channel_desc aclvencCreateChannelDesc =ptr
venc_destroy_channel_desc aclvencDestroyChannelDesc ptr
venc_create_frame_config aclvencCreateFrameConfig =ptr
venc_destroy_frame_config aclvencDestroyFrameConfig ptr
venc_create_channel aclvencCreateChannel ptr
venc_destroy_channel aclvencDestroyChannel ptr
vdec_set_channel_desc_channel_id aclvdecSetChannelDescChannelId ptr u32
vdec_get_channel_desc_channel_id aclvdecGetChannelDescChannelId ptr =u32
vdec_set_channel_desc_thread_id aclvdecSetChannelDescThreadId ptr u64
vdec_get_channel_desc_thread_id aclvdecGetChannelDescThreadId ptr =u64
vdec_set_channel_desc_entype aclvdecSetChannelDescEnType ptr i32
vdec_get_channel_desc_entype aclvdecGetChannelDescEnType ptr =i32
vdec_set_channel_desc_out_pic_format aclvdecSetChannelDescOutPicFormat ptr i32
vdec_get_channel_desc_out_pic_format aclvdecGetChannelDescOutPicFormat ptr =i32
vdec_set_channel_desc_out_pic_width aclvdecSetChannelDescOutPicWidth ptr u32
vdec_get_channel_desc_out_pic_width aclvdecGetChannelDescOutPicWidth ptr =u32
vdec_set_channel_desc_out_pic_height aclvdecSetChannelDescOutPicHeight ptr u32
vdec_get_channel_desc_out_pic_height aclvdecGetChannelDescOutPicHeight ptr =u32
vdec_set_channel_desc_ref_frame_num aclvdecSetChannelDescRefFrameNum ptr u32
vdec_get_channel_desc_ref_frame_num aclvdecGetChannelDescRefFrameNum ptr =u32
vdec_set_channel_desc_bit_depth aclvdecSetChannelDescBitDepth ptr u32
vdec_get_channel_desc_bit_depth aclvdecGetChannelDescBitDepth ptr =u32
vdec_set_channel_desc_out_mode aclvdecSetChannelDescOutMode ptr u32
vdec_get_channel_desc_out_mode aclvdecGetChannelDescOutMode ptr =u32
venc_get_channel_desc_channel_id aclvencGetChannelDescChannelId ptr =u32
venc_set_channel_desc_thread_id aclvencSetChannelDescThreadId ptr u64
venc_get_channel_desc_thread_id aclvencGetChannelDescThreadId ptr =u64
venc_set_channel_desc_entype aclvencSetChannelDescEnType ptr i32
venc_get_channel_desc_entype aclvencGetChannelDescEnType ptr =i32
venc_set_channel_desc_pic_format aclvencSetChannelDescPicFormat ptr i32
venc_get_channel_desc_pic_format aclvencGetChannelDescPicFormat ptr =i32
venc_set_channel_desc_pic_width aclvencSetChannelDescPicWidth ptr u32
venc_get_channel_desc_pic_width aclvencGetChannelDescPicWidth ptr =u32
venc_set_channel_desc_pic_height aclvencSetChannelDescPicHeight ptr u32
venc_get_channel_desc_pic_height aclvencGetChannelDescPicHeight ptr =u32
venc_set_channel_desc_key_frame_interval aclvencSetChannelDescKeyFrameInterval ptr u32
venc_get_channel_desc_key_frame_interval aclvencGetChannelDescKeyFrameInterval ptr =u32
venc_set_channel_desc_buf_addr aclvencSetChannelDescBufAddr ptr ptr
venc_get_channel_desc_buf_addr aclvencGetChannelDescBufAddr ptr =ptr
venc_set_channel_desc_buf_size aclvencSetChannelDescBufSize ptr u32
venc_get_channel_desc_buf_size aclvencGetChannelDescBufSize ptr =u32
venc_set_channel_desc_rc_mode aclvencSetChannelDescRcMode ptr u32
venc_get_channel_desc_rc_mode aclvencGetChannelDescRcMode ptr =u32
venc_set_channel_desc_src_rate aclvencSetChannelDescSrcRate ptr u32
venc_get_channel_desc_src_rate aclvencGetChannelDescSrcRate ptr =u32
venc_set_channel_desc_max_bit_rate aclvencSetChannelDescMaxBitRate ptr u32
venc_get_channel_desc_max_bit_rate aclvencGetChannelDescMaxBitRate ptr =u32
venc_set_frame_config_eos aclvencSetFrameConfigEos ptr u8
venc_get_frame_config_eos aclvencGetFrameConfigEos ptr =u8
venc_set_frame_config_force_i_frame aclvencSetFrameConfigForceIFrame ptr u8
venc_get_frame_config_force_i_frame aclvencGetFrameConfigForceIFrame ptr =u8
vdec_send_frame aclvdecSendFrame ptr ptr ptr ptr ptr
vdec_send_skipped_frame aclvdecSendSkippedFrame ptr ptr ptr ptr
venc_send_frame aclvencSendFrame ptr ptr ptr ptr ptr
""")


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()


def _callbacks_of(names):
    """Functions `(desc, callable)` for the callbacks of video channels."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    for name, symbol in names:
        def call(desc, function, name=name):
            def called(first, second, data):
                function(first or 0, second or 0, data or 0)
            _callbacks[desc] = kind(called)
            return _TABLE.c(name, desc, ctypes.cast(_callbacks[desc], ctypes.c_void_p).value)
        _TABLE.lines[name] = [symbol, "ptr", "ptr"]
        _TABLE.written[name] = ((symbol,), call)


_callbacks = {}   # channel description: what C calls
_callbacks_of((("vdec_set_channel_desc_callback", "aclvdecSetChannelDescCallback"),
               ("venc_set_channel_desc_callback", "aclvencSetChannelDescCallback")))


def _batches_of(names):
    """Functions `(channel, pictures, [areas of each], results, [areas], ..., stream)`; lists become arrays of C."""
    for name in names:
        def call(channel, pictures, counts, results, *more, name=name):
            arrays = [numbers(counts, ctypes.c_uint32)]
            values = [channel, pictures, ctypes.addressof(arrays[0][0]), arrays[0][1], results]
            for one in more:
                if isinstance(one, (list, tuple)):
                    arrays.append(numbers(one, ctypes.c_void_p))
                    one = ctypes.addressof(arrays[-1][0])
                values.append(one)
            return results, _TABLE.c(name, *values)
        _TABLE.written[name] = (tuple(_TABLE.lines[name][:1]), call)


_batches_of([name for name in _TABLE.lines if "_batch_crop" in name])
