// CANN's interface, declared anew from its names, types, order and values: decoding of JPEG and video of the media interface V2.
#pragma once

#include "hi_dvpp_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef hi_s32 hi_vdec_chn;
#define HI_VDEC_MAX_CHN_NUM 256

typedef enum {
  HI_VDEC_SEND_MODE_STREAM = 0,
  HI_VDEC_SEND_MODE_FRAME = 1,
  HI_VDEC_SEND_MODE_COMPAT = 2,
} hi_vdec_send_mode;

typedef struct {
  hi_u32 ref_frame_num;
  hi_bool temporal_mvp_en;
  hi_u32 tmv_buf_size;
} hi_vdec_video_attr;

typedef struct {
  hi_payload_type type;
  hi_vdec_send_mode mode;
  hi_u32 pic_width;  // the largest
  hi_u32 pic_height;
  hi_u32 stream_buf_size;
  hi_u32 frame_buf_size;
  hi_u32 frame_buf_cnt;
  union {
    hi_vdec_video_attr video_attr;
  };
} hi_vdec_chn_attr;

typedef struct {
  hi_bool end_of_frame;
  hi_bool end_of_stream;
  hi_bool need_display;
  hi_u64 pts;
  hi_u64 private_data;
  hi_u32 len;
  hi_u8* addr;
} hi_vdec_stream;

typedef struct {
  hi_u32 width;
  hi_u32 height;
  hi_u32 width_stride;
  hi_u32 height_stride;
  hi_pixel_format pixel_format;
  hi_u64 vir_addr;
  hi_u32 buffer_size;
  hi_s16 offset_top;  // of the part of a JPEG that is decoded
  hi_s16 offset_bottom;
  hi_s16 offset_left;
  hi_s16 offset_right;
} hi_vdec_pic_info;

typedef struct {
  hi_payload_type type;
  union {
    struct {
      hi_s32 frame_type;
      hi_u32 err_rate;
      hi_u32 poc;
    } video_supplement_info;
  };
} hi_vdec_supplement_info;

typedef struct {
  hi_s32 set_pic_size_err;
  hi_s32 set_protocol_num_err;
  hi_s32 set_ref_num_err;
  hi_s32 set_pic_buf_size_err;
  hi_s32 format_err;
  hi_s32 stream_unsupport;
  hi_s32 pack_err;
  hi_s32 stream_size_over;
  hi_s32 stream_not_release;
} hi_vdec_dec_err;

typedef struct {
  hi_payload_type type;
  hi_u32 left_stream_bytes;
  hi_u32 left_stream_frames;
  hi_u32 left_decoded_frames;
  hi_bool is_started;
  hi_u32 recv_stream_frames;
  hi_u32 dec_stream_frames;
  hi_vdec_dec_err dec_err;
  hi_u32 width;
  hi_u32 height;
  hi_u64 latest_frame_pts;
} hi_vdec_chn_status;

typedef struct {
  hi_bool composite_dec_en;
  hi_bool slice_input_en;
  hi_s32 err_threshold;
  hi_s32 dec_mode;
  hi_s32 out_order;
  hi_compress_mode compress_mode;
  hi_video_format video_format;
  hi_s32 quick_mark_mode;
} hi_vdec_video_param;

typedef struct {
  hi_pixel_format pixel_format;
  hi_u32 alpha;
} hi_vdec_pic_param;

typedef struct {
  hi_payload_type type;
  hi_u32 display_frame_num;
  union {
    hi_vdec_video_param video_param;
    hi_vdec_pic_param pic_param;
  };
} hi_vdec_chn_param;

typedef struct {
  hi_payload_type type;
  hi_s32 numbers[4];  // of slices, and of parameter sets: max_slice_num, max_vps_num..., by the type
} hi_vdec_protocol_param;

hi_s32 hi_mpi_vdec_create_chn(hi_vdec_chn chn, const hi_vdec_chn_attr* attr);
hi_s32 hi_mpi_vdec_destroy_chn(hi_vdec_chn chn);
hi_s32 hi_mpi_vdec_set_chn_attr(hi_vdec_chn chn, const hi_vdec_chn_attr* attr);
hi_s32 hi_mpi_vdec_get_chn_attr(hi_vdec_chn chn, hi_vdec_chn_attr* attr);
hi_s32 hi_mpi_vdec_set_protocol_param(hi_vdec_chn chn, const hi_vdec_protocol_param* protocol_param);
hi_s32 hi_mpi_vdec_get_protocol_param(hi_vdec_chn chn, hi_vdec_protocol_param* protocol_param);
hi_s32 hi_mpi_vdec_start_recv_stream(hi_vdec_chn chn);
hi_s32 hi_mpi_vdec_stop_recv_stream(hi_vdec_chn chn);
hi_s32 hi_mpi_vdec_query_status(hi_vdec_chn chn, hi_vdec_chn_status* status);
hi_s32 hi_mpi_vdec_reset_chn(hi_vdec_chn chn);
hi_s32 hi_mpi_vdec_set_chn_param(hi_vdec_chn chn, const hi_vdec_chn_param* chn_param);
hi_s32 hi_mpi_vdec_get_chn_param(hi_vdec_chn chn, hi_vdec_chn_param* chn_param);
hi_s32 hi_mpi_vdec_send_stream(hi_vdec_chn chn, const hi_vdec_stream* stream, hi_vdec_pic_info* vdec_pic_info, hi_s32 milli_sec);
hi_s32 hi_mpi_vdec_get_frame(hi_vdec_chn chn, hi_video_frame_info* frame_info, hi_vdec_supplement_info* supplement,
                             hi_vdec_stream* stream, hi_s32 milli_sec);
hi_s32 hi_mpi_vdec_release_frame(hi_vdec_chn chn, const hi_video_frame_info* frame_info);
hi_s32 hi_mpi_vdec_get_fd(hi_vdec_chn chn);
hi_s32 hi_mpi_vdec_close_fd(hi_vdec_chn chn);
// Of a JPEG: its size, and the strides and bytes of what its decoder makes.
hi_s32 hi_mpi_dvpp_get_image_info(hi_payload_type img_type, const hi_vdec_stream* stream, hi_img_info* img_info);
// The same for an output format, HI_PIXEL_FORMAT_UNKNOWN: the JPEG's own.
hi_s32 hi_mpi_vdec_get_jpegd_output_info(const hi_vdec_stream* stream, hi_pixel_format output_format, hi_img_info* img_info);

#ifdef __cplusplus
}
#endif
