// CANN's interface, declared anew from its names, types, order and values: encoding of JPEG and video of the media interface V2.
#pragma once

#include "hi_dvpp_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef hi_s32 hi_venc_chn;
#define HI_VENC_MAX_PACK_INFO_NUM 8
#define HI_VENC_MAX_MPF_NUM 2
#define HI_VENC_JPEG_QT_COEF_NUM 64

typedef enum {
  HI_VENC_JPEG_PACK_ECS = 5,
  HI_VENC_JPEG_PACK_APP = 6,
  HI_VENC_JPEG_PACK_VDO = 7,
  HI_VENC_JPEG_PACK_PIC = 8,
  HI_VENC_JPEG_PACK_DCF = 9,
  HI_VENC_JPEG_PACK_DCF_PIC = 10,
} hi_venc_jpege_pack_type;

typedef union {
  hi_venc_jpege_pack_type jpeg_type;
} hi_venc_data_type;

typedef struct {
  hi_venc_data_type pack_type;
  hi_u32 pack_offset;
  hi_u32 pack_len;
} hi_venc_pack_info;

typedef struct {
  union {
    hi_u64 phys_addr;
    hi_u64 input_addr;  // of the frame
  };
  hi_u8* addr;
  hi_u32 len;
  hi_u64 pts;
  hi_bool is_frame_end;
  hi_venc_data_type data_type;
  hi_u32 offset;
  hi_u32 data_num;
  hi_venc_pack_info pack_info[HI_VENC_MAX_PACK_INFO_NUM];
} hi_venc_pack;

typedef struct {
  hi_u32 pic_bytes;
  hi_u32 update_attr_cnt;
  hi_u32 qfactor;
} hi_venc_jpeg_stream_info;

typedef struct {
  hi_venc_pack* pack;
  hi_u32 pack_cnt;
  hi_u32 seq;
  union {
    hi_venc_jpeg_stream_info jpeg_info;
    hi_u32 video_info[14];
  };
  hi_u64 video_adv_info[48];
} hi_venc_stream;

typedef struct {
  hi_s32 ref_type;
  hi_u32 pic_bytes;
  hi_u32 pic_cnt;
  hi_u32 start_qp;
  hi_u32 mean_qp;
  hi_bool is_p_skip;
  hi_u32 residual_bits;
  hi_u32 head_bits;
  hi_u32 madi_val;
  hi_u32 madp_val;
  hi_u64 sse_sum;
  hi_u32 sse_lcu_cnt;
  hi_double psnr_val;
} hi_venc_stream_info;

typedef struct {
  hi_u32 left_pics;
  hi_u32 left_stream_bytes;
  hi_u32 left_stream_frames;
  hi_u32 cur_packs;
  hi_u32 left_recv_pics;
  hi_u32 left_enc_pics;
  hi_bool is_jpeg_snap_end;
  hi_u64 release_pic_pts;
  hi_venc_stream_info stream_info;
} hi_venc_chn_status;

typedef struct {
  hi_u8 large_thumbnail_num;
  hi_video_size large_thumbnail_size[HI_VENC_MAX_MPF_NUM];
} hi_venc_mpf_cfg;

typedef struct {
  hi_bool dcf_en;
  hi_venc_mpf_cfg mpf_cfg;
  hi_s32 recv_mode;
} hi_venc_jpeg_attr;

typedef struct {
  hi_payload_type type;
  hi_u32 max_pic_width;
  hi_u32 max_pic_height;
  hi_u32 buf_size;
  hi_u32 profile;
  hi_bool is_by_frame;
  hi_u32 pic_width;
  hi_u32 pic_height;
  union {
    hi_venc_jpeg_attr jpeg_attr;
  };
} hi_venc_attr;

typedef struct {
  hi_s32 rc_mode;
  hi_u32 numbers[9];  // rates, groups and quantisers of video, by the mode
} hi_venc_rc_attr;

typedef struct {
  hi_s32 gop_mode;
  hi_s32 numbers[3];
} hi_venc_gop_attr;

typedef struct {
  hi_venc_attr venc_attr;
  hi_venc_rc_attr rc_attr;
  hi_venc_gop_attr gop_attr;
} hi_venc_chn_attr;

typedef struct {
  hi_s32 recv_pic_num;  // -1: as many as come
} hi_venc_start_param;

typedef struct {
  hi_u32 qfactor;  // 1 to 100
  hi_u8 y_qt[HI_VENC_JPEG_QT_COEF_NUM];
  hi_u8 cb_qt[HI_VENC_JPEG_QT_COEF_NUM];
  hi_u8 cr_qt[HI_VENC_JPEG_QT_COEF_NUM];
  hi_u32 mcu_per_ecs;
  hi_bool ecs_output_en;
} hi_venc_jpeg_param;

// Of video only.
typedef struct hi_venc_rc_param hi_venc_rc_param;
typedef struct hi_venc_chn_param hi_venc_chn_param;
typedef hi_s32 hi_venc_scene_mode;

hi_s32 hi_mpi_venc_create_chn(hi_venc_chn chn, const hi_venc_chn_attr* attr);
hi_s32 hi_mpi_venc_destroy_chn(hi_venc_chn chn);
hi_s32 hi_mpi_venc_start_chn(hi_venc_chn chn, const hi_venc_start_param* recv_param);
hi_s32 hi_mpi_venc_stop_chn(hi_venc_chn chn);
hi_s32 hi_mpi_venc_query_status(hi_venc_chn chn, hi_venc_chn_status* status);
// `pack` of the stream is the client's, of `pack_cnt` entries; what it points to then is the channel's until it is released.
hi_s32 hi_mpi_venc_get_stream(hi_venc_chn chn, hi_venc_stream* stream, hi_s32 milli_sec);
hi_s32 hi_mpi_venc_release_stream(hi_venc_chn chn, hi_venc_stream* stream);
hi_s32 hi_mpi_venc_send_frame(hi_venc_chn chn, const hi_video_frame_info* frame, hi_s32 milli_sec);
// The same into memory of the client's.
hi_s32 hi_mpi_venc_send_jpege_frame(hi_venc_chn chn, const hi_video_frame_info* frame, const hi_img_stream* jpege_stream,
                                    hi_s32 milli_sec);
hi_s32 hi_mpi_venc_get_jpege_predicted_size(const hi_video_frame_info* frame, const hi_venc_jpeg_param* jpeg_param, hi_u32* size);
hi_s32 hi_mpi_venc_get_fd(hi_venc_chn chn);
hi_s32 hi_mpi_venc_close_fd(hi_venc_chn chn);
hi_s32 hi_mpi_venc_set_jpeg_param(hi_venc_chn chn, const hi_venc_jpeg_param* jpeg_param);
hi_s32 hi_mpi_venc_get_jpeg_param(hi_venc_chn chn, hi_venc_jpeg_param* jpeg_param);
hi_s32 hi_mpi_venc_set_rc_param(hi_venc_chn chn, const hi_venc_rc_param* rc_param);
hi_s32 hi_mpi_venc_get_rc_param(hi_venc_chn chn, hi_venc_rc_param* rc_param);
hi_s32 hi_mpi_venc_set_chn_param(hi_venc_chn chn, const hi_venc_chn_param* chn_param);
hi_s32 hi_mpi_venc_set_scene_mode(hi_venc_chn chn, const hi_venc_scene_mode scene_mode);
hi_s32 hi_mpi_venc_request_idr(hi_venc_chn chn, hi_bool instant);

#ifdef __cplusplus
}
#endif
