// CANN's interface, declared anew from its names, types, order and values: decoding of PNG of the media interface V2.
#pragma once

#include "hi_dvpp_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef hi_s32 hi_pngd_chn;
#define HI_PNGD_MAX_CHN_NUM 128

typedef struct {
  hi_u32 stream_que_cnt;
  hi_u64 reserved[4];
} hi_pngd_chn_attr;

hi_s32 hi_mpi_pngd_create_chn(hi_pngd_chn chn, const hi_pngd_chn_attr* attr);
hi_s32 hi_mpi_pngd_destroy_chn(hi_pngd_chn chn);
hi_s32 hi_mpi_pngd_send_stream(hi_pngd_chn chn, const hi_img_stream* stream, hi_pic_info* png_pic_info, hi_s32 milli_sec);
hi_s32 hi_mpi_pngd_get_image_data(hi_pngd_chn chn, hi_pic_info* png_pic_info, hi_img_stream* stream, hi_s32 milli_sec);
hi_s32 hi_mpi_png_get_image_info(const hi_img_stream* png_stream, hi_img_info* img_info);

#ifdef __cplusplus
}
#endif
