"""acl.media: DVPP, the image processing of libacl_dvpp. A CANN without that library has none of these names.

Memory for images, `dvpp_malloc`, is device memory. Functions for several pictures take lists, the number of areas of each picture
and the areas of all, and give (the description of the results, ret).
"""
import ctypes

from ._base import numbers
from ._binding import Table

_TABLE = Table("acl.media", ("libacl_dvpp.so",), """
dvpp_malloc dvpp_free dvpp_create_channel_desc dvpp_destroy_channel_desc dvpp_create_pic_desc dvpp_destroy_pic_desc
dvpp_create_resize_config dvpp_destroy_resize_config dvpp_create_jpege_config dvpp_destroy_jpege_config
dvpp_create_border_config dvpp_destroy_border_config dvpp_create_lut_map dvpp_destroy_lut_map dvpp_create_hist
dvpp_destroy_hist dvpp_create_stream_desc dvpp_destroy_stream_desc dvpp_create_channel dvpp_destroy_channel
dvpp_get_channel_desc_channel_id dvpp_set_channel_desc_mode dvpp_set_channel_desc_param dvpp_get_channel_desc_param
dvpp_set_pic_desc_data dvpp_get_pic_desc_data dvpp_set_pic_desc_size dvpp_get_pic_desc_size dvpp_set_pic_desc_format
dvpp_get_pic_desc_format dvpp_set_pic_desc_width dvpp_get_pic_desc_width dvpp_set_pic_desc_height
dvpp_get_pic_desc_height dvpp_set_pic_desc_width_stride dvpp_get_pic_desc_width_stride dvpp_set_pic_desc_height_stride
dvpp_get_pic_desc_height_stride dvpp_set_pic_desc_ret_code dvpp_get_pic_desc_ret_code dvpp_create_batch_pic_desc
dvpp_get_pic_desc dvpp_destroy_batch_pic_desc dvpp_create_roi_config dvpp_destroy_roi_config dvpp_set_roi_config
dvpp_set_roi_config_left dvpp_set_roi_config_right dvpp_set_roi_config_top dvpp_set_roi_config_bottom
dvpp_set_resize_config_interpolation dvpp_get_resize_config_interpolation dvpp_set_jpege_config_level
dvpp_get_jpege_config_level dvpp_set_border_config_value dvpp_get_border_config_value
dvpp_set_border_config_border_type dvpp_get_border_config_border_type dvpp_set_border_config_top
dvpp_get_border_config_top dvpp_set_border_config_bottom dvpp_get_border_config_bottom dvpp_set_border_config_left
dvpp_get_border_config_left dvpp_set_border_config_right dvpp_get_border_config_right dvpp_get_lut_map_dims
dvpp_get_lut_map_data dvpp_get_hist_dims dvpp_get_hist_data dvpp_get_hist_ret_code dvpp_clear_hist
dvpp_vpc_resize_async dvpp_vpc_crop_async dvpp_vpc_crop_resize_async dvpp_vpc_crop_and_paste_async
dvpp_vpc_crop_resize_paste_async dvpp_vpc_convert_color_async dvpp_vpc_pyr_down_async dvpp_vpc_equalize_hist_async
dvpp_vpc_make_border_async dvpp_vpc_calc_hist_async dvpp_jpeg_get_image_info dvpp_jpeg_get_image_info_v2
dvpp_jpeg_predict_dec_size dvpp_jpeg_predict_enc_size dvpp_jpeg_decode_async dvpp_png_get_image_info
dvpp_png_predict_dec_size dvpp_png_decode_async dvpp_set_stream_desc_data dvpp_get_stream_desc_data
dvpp_set_stream_desc_size dvpp_get_stream_desc_size dvpp_set_stream_desc_format dvpp_get_stream_desc_format
dvpp_set_stream_desc_timestamp dvpp_get_stream_desc_timestamp dvpp_set_stream_desc_ret_code
dvpp_get_stream_desc_ret_code dvpp_set_stream_desc_eos dvpp_get_stream_desc_eos vdec_create_channel_desc
vdec_destroy_channel_desc vdec_create_frame_config vdec_destroy_frame_config vdec_create_channel vdec_destroy_channel
venc_create_channel_desc venc_destroy_channel_desc venc_create_frame_config venc_destroy_frame_config
venc_create_channel venc_destroy_channel vdec_set_channel_desc_channel_id vdec_get_channel_desc_channel_id
vdec_set_channel_desc_thread_id vdec_get_channel_desc_thread_id vdec_set_channel_desc_out_pic_format
vdec_get_channel_desc_out_pic_format vdec_set_channel_desc_out_pic_width vdec_get_channel_desc_out_pic_width
vdec_set_channel_desc_out_pic_height vdec_get_channel_desc_out_pic_height vdec_set_channel_desc_ref_frame_num
vdec_get_channel_desc_ref_frame_num vdec_set_channel_desc_bit_depth vdec_get_channel_desc_bit_depth
vdec_set_channel_desc_out_mode vdec_get_channel_desc_out_mode venc_get_channel_desc_channel_id
venc_set_channel_desc_thread_id venc_get_channel_desc_thread_id venc_set_channel_desc_pic_format
venc_get_channel_desc_pic_format venc_set_channel_desc_pic_width venc_get_channel_desc_pic_width
venc_set_channel_desc_pic_height venc_get_channel_desc_pic_height venc_set_channel_desc_key_frame_interval
venc_get_channel_desc_key_frame_interval venc_set_channel_desc_buf_addr venc_get_channel_desc_buf_addr
venc_set_channel_desc_buf_size venc_get_channel_desc_buf_size venc_set_channel_desc_rc_mode
venc_get_channel_desc_rc_mode venc_set_channel_desc_src_rate venc_get_channel_desc_src_rate
venc_set_channel_desc_max_bit_rate venc_get_channel_desc_max_bit_rate venc_set_frame_config_eos
venc_get_frame_config_eos venc_set_frame_config_force_i_frame venc_get_frame_config_force_i_frame vdec_send_frame
vdec_send_skipped_frame venc_send_frame
vdec_set_channel_desc_entype aclvdecSetChannelDescEnType
vdec_get_channel_desc_entype aclvdecGetChannelDescEnType
venc_set_channel_desc_entype aclvencSetChannelDescEnType
venc_get_channel_desc_entype aclvencGetChannelDescEnType
dvpp_vpc_batch_crop_async acldvppVpcBatchCropAsync ptr ptr ptr u32 ptr ptr ptr
dvpp_vpc_batch_crop_resize_async acldvppVpcBatchCropResizeAsync ptr ptr ptr u32 ptr ptr ptr ptr
dvpp_vpc_batch_crop_and_paste_async acldvppVpcBatchCropAndPasteAsync ptr ptr ptr u32 ptr ptr ptr ptr
dvpp_vpc_batch_crop_resize_paste_async acldvppVpcBatchCropResizePasteAsync ptr ptr ptr u32 ptr ptr ptr ptr ptr
dvpp_vpc_batch_crop_resize_make_border_async acldvppVpcBatchCropResizeMakeBorderAsync ptr ptr ptr u32 ptr ptr ptr ptr ptr
dvpp_jpeg_encode_async acldvppJpegEncodeAsync ptr ptr ptr ptr ptr ptr
""")
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names


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


@_TABLE.family(*(name for name in _TABLE.lines if "_batch_crop" in name))
def _crop_batch(name, channel, pictures, counts, results, *more):
    """`(channel, pictures, [areas of each], results, [areas], ..., stream)`; lists become arrays of C."""
    arrays = [numbers(counts, ctypes.c_uint32)]
    values = [channel, pictures, ctypes.addressof(arrays[0][0]), arrays[0][1], results]
    for one in more:
        if isinstance(one, (list, tuple)):
            arrays.append(numbers(one, ctypes.c_void_p))
            one = ctypes.addressof(arrays[-1][0])
        values.append(one)
    return results, _TABLE.c(name, *values)
