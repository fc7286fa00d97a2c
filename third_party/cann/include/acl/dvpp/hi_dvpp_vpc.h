// CANN's interface, declared anew from its names, types, order and values: image processing (VPC) of the media interface V2.
#pragma once

#include "hi_dvpp_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef hi_s32 hi_vpc_chn;
#define HI_VPC_MAX_CHN_NUM 512

typedef enum {
  HI_BORDER_CONSTANT = 0,
  HI_BORDER_REPLICATE = 1,
  HI_BORDER_REFLECT = 2,
  HI_BORDER_REFLECT_101 = 3,
  HI_BORDER_WRAP = 4,
} hi_vpc_bord_type;

typedef struct {
  hi_s32 attr;
  hi_u32 pic_width;
  hi_u32 pic_height;
} hi_vpc_chn_attr;

typedef hi_pic_info hi_vpc_pic_info;

typedef struct {
  hi_u32 top_offset;
  hi_u32 left_offset;
  hi_u32 crop_width;
  hi_u32 crop_height;
} hi_vpc_crop_region;

typedef struct {
  hi_vpc_pic_info dest_pic_info;
  hi_vpc_crop_region crop_region;
} hi_vpc_crop_region_info;

typedef struct {
  hi_u32 resize_width;
  hi_u32 resize_height;
  hi_u32 interpolation;
} hi_vpc_resize_info;

typedef struct {
  hi_vpc_pic_info dest_pic_info;
  hi_vpc_crop_region crop_region;
  hi_vpc_resize_info resize_info;
} hi_vpc_crop_resize_region;

typedef struct {
  hi_vpc_pic_info dest_pic_info;
  hi_vpc_crop_region crop_region;
  hi_vpc_resize_info resize_info;
  hi_u32 dest_top_offset;
  hi_u32 dest_left_offset;
} hi_vpc_crop_resize_paste_region;

typedef struct {
  hi_double val[4];
} hi_vpc_scalar;

typedef struct {
  hi_vpc_pic_info dest_pic_info;
  hi_vpc_crop_region crop_region;
  hi_vpc_resize_info resize_info;
  hi_u32 dest_top_offset;
  hi_u32 dest_left_offset;
  hi_vpc_bord_type border_type;
  hi_vpc_scalar scalar_value;
} hi_vpc_crop_resize_border_region;

typedef struct {
  hi_u32 top;
  hi_u32 bottom;
  hi_u32 left;
  hi_u32 right;
  hi_vpc_bord_type border_type;
  hi_vpc_scalar scalar_value;
} hi_vpc_make_border_info;

typedef struct {
  hi_u32 histogram_y_or_r[256];
  hi_u32 histogram_u_or_g[256];
  hi_u32 histogram_v_or_b[256];
} hi_vpc_histogram_config;

typedef struct {
  hi_u8 map_value_y_or_r[256];
  hi_u8 map_value_u_or_g[256];
  hi_u8 map_value_v_or_b[256];
} hi_vpc_lut_remap;

hi_s32 hi_mpi_vpc_create_chn(hi_vpc_chn chn, const hi_vpc_chn_attr* attr);
hi_s32 hi_mpi_vpc_sys_create_chn(hi_vpc_chn* chn, const hi_vpc_chn_attr* attr);
hi_s32 hi_mpi_vpc_destroy_chn(hi_vpc_chn chn);
hi_s32 hi_mpi_vpc_crop(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_region_info crop_info[], hi_u32 count,
                       hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_resize(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic, hi_double fx, hi_double fy,
                         hi_u32 interpolation, hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_crop_resize(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_resize_region info[], hi_u32 count,
                              hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_crop_resize_paste(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_resize_paste_region info[],
                                    hi_u32 count, hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_batch_crop_resize_paste(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic[], hi_u32 pic_num,
                                          hi_vpc_crop_resize_paste_region info[], hi_u32 count[], hi_u32* task_id,
                                          hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_crop_resize_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic,
                                          hi_vpc_crop_resize_border_region info[], hi_u32 count, hi_u32* task_id,
                                          hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_batch_crop_resize_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic[], hi_u32 pic_num,
                                                hi_vpc_crop_resize_border_region info[], hi_u32 count[], hi_u32* task_id,
                                                hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_convert_color(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic, hi_u32* task_id,
                                hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_convert_color_to_yuv420(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                          hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_copy_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                   hi_vpc_make_border_info info, hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_pyrdown(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info dest_pic[], hi_u32 filter_level,
                          hi_s8 gaussian_filter[][5], hi_u16 divisor, hi_vpc_make_border_info info, hi_u32* task_id,
                          hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_calc_hist(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_histogram_config* hist, hi_u32* task_id,
                            hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_equalize_hist(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                const hi_vpc_lut_remap* lut, hi_u32* task_id, hi_s32 milli_sec);
hi_s32 hi_mpi_vpc_get_process_result(hi_vpc_chn chn, hi_u32 task_id, hi_s32 milli_sec);

#ifdef __cplusplus
}
#endif
