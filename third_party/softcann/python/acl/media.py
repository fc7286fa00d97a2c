"""acl.media: DVPP, the image processing of libacl_dvpp. A CANN without that library has none of these names.

Memory for images, `dvpp_malloc`, is device memory.
"""
from ._binding import Table

_TABLE = Table("acl.media", ("libacl_dvpp.so",), """
dvpp_malloc acldvppMalloc >ptr size
dvpp_free acldvppFree ptr
dvpp_create_channel_desc acldvppCreateChannelDesc =ptr
dvpp_destroy_channel_desc acldvppDestroyChannelDesc ptr
dvpp_create_channel acldvppCreateChannel ptr
dvpp_destroy_channel acldvppDestroyChannel ptr
dvpp_create_pic_desc acldvppCreatePicDesc =ptr
dvpp_destroy_pic_desc acldvppDestroyPicDesc ptr
dvpp_set_pic_desc_data acldvppSetPicDescData ptr ptr
dvpp_set_pic_desc_size acldvppSetPicDescSize ptr u32
dvpp_set_pic_desc_format acldvppSetPicDescFormat ptr i32
dvpp_set_pic_desc_width acldvppSetPicDescWidth ptr u32
dvpp_set_pic_desc_height acldvppSetPicDescHeight ptr u32
dvpp_set_pic_desc_width_stride acldvppSetPicDescWidthStride ptr u32
dvpp_set_pic_desc_height_stride acldvppSetPicDescHeightStride ptr u32
dvpp_get_pic_desc_data acldvppGetPicDescData ptr =ptr
dvpp_get_pic_desc_size acldvppGetPicDescSize ptr =u32
dvpp_get_pic_desc_format acldvppGetPicDescFormat ptr =i32
dvpp_get_pic_desc_width acldvppGetPicDescWidth ptr =u32
dvpp_get_pic_desc_height acldvppGetPicDescHeight ptr =u32
dvpp_get_pic_desc_width_stride acldvppGetPicDescWidthStride ptr =u32
dvpp_get_pic_desc_height_stride acldvppGetPicDescHeightStride ptr =u32
dvpp_get_pic_desc_ret_code acldvppGetPicDescRetCode ptr =u32
dvpp_create_roi_config acldvppCreateRoiConfig u32 u32 u32 u32 =ptr
dvpp_destroy_roi_config acldvppDestroyRoiConfig ptr
dvpp_create_resize_config acldvppCreateResizeConfig =ptr
dvpp_destroy_resize_config acldvppDestroyResizeConfig ptr
dvpp_set_resize_config_interpolation acldvppSetResizeConfigInterpolation ptr u32
dvpp_create_jpege_config acldvppCreateJpegeConfig =ptr
dvpp_destroy_jpege_config acldvppDestroyJpegeConfig ptr
dvpp_set_jpege_config_level acldvppSetJpegeConfigLevel ptr u32
dvpp_vpc_resize_async acldvppVpcResizeAsync ptr ptr ptr ptr ptr
dvpp_vpc_crop_async acldvppVpcCropAsync ptr ptr ptr ptr ptr
dvpp_vpc_crop_and_paste_async acldvppVpcCropAndPasteAsync ptr ptr ptr ptr ptr ptr
dvpp_vpc_convert_color_async acldvppVpcConvertColorAsync ptr ptr ptr ptr
dvpp_jpeg_get_image_info acldvppJpegGetImageInfo ptr u32 >u32 >u32 >i32
dvpp_jpeg_predict_dec_size acldvppJpegPredictDecSize ptr u32 i32 >u32
dvpp_jpeg_predict_enc_size acldvppJpegPredictEncSize ptr ptr >u32
dvpp_jpeg_decode_async acldvppJpegDecodeAsync ptr ptr u32 ptr ptr
dvpp_jpeg_encode_async acldvppJpegEncodeAsync ptr ptr ptr ptr ptr ptr
dvpp_png_get_image_info acldvppPngGetImageInfo ptr u32 >u32 >u32 >i32
dvpp_png_predict_dec_size acldvppPngPredictDecSize ptr u32 i32 >u32
dvpp_png_decode_async acldvppPngDecodeAsync ptr ptr u32 ptr ptr
""")


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()
