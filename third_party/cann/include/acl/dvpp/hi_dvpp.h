// CANN's interface, declared anew from its names, types, order and values: image processing (VPC) of the media interface V2.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int8_t hi_s8;
typedef uint8_t hi_u8;
typedef uint16_t hi_u16;
typedef int32_t hi_s32;
typedef uint32_t hi_u32;
typedef uint64_t hi_u64;
typedef double hi_double;
typedef hi_s32 hi_vpc_chn;

#define HI_SUCCESS 0
#define HI_FAILURE (-1)
#ifndef HI_NULL
#define HI_NULL 0L
#endif
#define HI_VPC_MAX_CHN_NUM 512
#ifndef ALIGN_UP  // to a multiple of `align`, a power of two
#define ALIGN_UP(val, align) (((val) + ((align) - 1)) & ~((align) - 1))
#endif

// Numbers of acldvppPixelFormat.
typedef hi_u32 hi_pixel_format;

enum {
  HI_PIXEL_FORMAT_YUV_400 = 0,
  HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1,
  HI_PIXEL_FORMAT_YVU_SEMIPLANAR_420 = 2,
  HI_PIXEL_FORMAT_YUV_SEMIPLANAR_422 = 3,
  HI_PIXEL_FORMAT_YVU_SEMIPLANAR_422 = 4,
  HI_PIXEL_FORMAT_YUV_SEMIPLANAR_444 = 5,
  HI_PIXEL_FORMAT_YVU_SEMIPLANAR_444 = 6,
  HI_PIXEL_FORMAT_YUYV_PACKED_422 = 7,
  HI_PIXEL_FORMAT_UYVY_PACKED_422 = 8,
  HI_PIXEL_FORMAT_YVYU_PACKED_422 = 9,
  HI_PIXEL_FORMAT_VYUY_PACKED_422 = 10,
  HI_PIXEL_FORMAT_YUV_PACKED_444 = 11,
  HI_PIXEL_FORMAT_RGB_888 = 12,
  HI_PIXEL_FORMAT_BGR_888 = 13,
  HI_PIXEL_FORMAT_ARGB_8888 = 14,
  HI_PIXEL_FORMAT_ABGR_8888 = 15,
  HI_PIXEL_FORMAT_RGBA_8888 = 16,
  HI_PIXEL_FORMAT_BGRA_8888 = 17,
  HI_PIXEL_FORMAT_YUV_SEMI_PLANNER_420_10BIT = 18,
  HI_PIXEL_FORMAT_YVU_SEMI_PLANNER_420_10BIT = 19,
  HI_PIXEL_FORMAT_YVU_PLANAR_420 = 20,
  HI_PIXEL_FORMAT_YVU_PLANAR_422 = 21,
  HI_PIXEL_FORMAT_YVU_PLANAR_444 = 22,
  HI_PIXEL_FORMAT_RGB_444 = 23,
  HI_PIXEL_FORMAT_BGR_444 = 24,
  HI_PIXEL_FORMAT_ARGB_4444 = 25,
  HI_PIXEL_FORMAT_ABGR_4444 = 26,
  HI_PIXEL_FORMAT_RGBA_4444 = 27,
  HI_PIXEL_FORMAT_BGRA_4444 = 28,
  HI_PIXEL_FORMAT_RGB_555 = 29,
  HI_PIXEL_FORMAT_BGR_555 = 30,
  HI_PIXEL_FORMAT_RGB_565 = 31,
  HI_PIXEL_FORMAT_BGR_565 = 32,
  HI_PIXEL_FORMAT_ARGB_1555 = 33,
  HI_PIXEL_FORMAT_ABGR_1555 = 34,
  HI_PIXEL_FORMAT_RGBA_1555 = 35,
  HI_PIXEL_FORMAT_BGRA_1555 = 36,
  HI_PIXEL_FORMAT_ARGB_8565 = 37,
  HI_PIXEL_FORMAT_ABGR_8565 = 38,
  HI_PIXEL_FORMAT_RGBA_8565 = 39,
  HI_PIXEL_FORMAT_BGRA_8565 = 40,
  HI_PIXEL_FORMAT_RGB_BAYER_8BPP = 50,
  HI_PIXEL_FORMAT_RGB_BAYER_10BPP = 51,
  HI_PIXEL_FORMAT_RGB_BAYER_12BPP = 52,
  HI_PIXEL_FORMAT_RGB_BAYER_14BPP = 53,
  HI_PIXEL_FORMAT_RGB_BAYER_16BPP = 54,
  HI_PIXEL_FORMAT_BGR_888_PLANAR = 70,
  HI_PIXEL_FORMAT_HSV_888_PACKAGE = 71,
  HI_PIXEL_FORMAT_HSV_888_PLANAR = 72,
  HI_PIXEL_FORMAT_LAB_888_PACKAGE = 73,
  HI_PIXEL_FORMAT_LAB_888_PLANAR = 74,
  HI_PIXEL_FORMAT_S8C1 = 75,
  HI_PIXEL_FORMAT_S8C2_PACKAGE = 76,
  HI_PIXEL_FORMAT_S8C2_PLANAR = 77,
  HI_PIXEL_FORMAT_S16C1 = 78,
  HI_PIXEL_FORMAT_U8C1 = 79,
  HI_PIXEL_FORMAT_U16C1 = 80,
  HI_PIXEL_FORMAT_S32C1 = 81,
  HI_PIXEL_FORMAT_U32C1 = 82,
  HI_PIXEL_FORMAT_U64C1 = 83,
  HI_PIXEL_FORMAT_S64C1 = 84,
  HI_PIXEL_FORMAT_UINT32 = 2,
  HI_PIXEL_FORMAT_YUV_SEMIPLANAR_440 = 1000,
  HI_PIXEL_FORMAT_YVU_SEMIPLANAR_440 = 1001,
  HI_PIXEL_FORMAT_FLOAT32 = 1002,
  HI_PIXEL_FORMAT_BUTT = 1003,
  HI_PIXEL_FORMAT_UNKNOWN = 10000,
};

// Modules, by their numbers in error codes.
typedef enum {
  HI_ID_VDEC = 5,
  HI_ID_VPC = 7,
  HI_ID_VENC = 8,
} hi_mod_id;

typedef enum {
  HI_CSC_MATRIX_BT601_WIDE = 0,
  HI_CSC_MATRIX_BT601_NARROW = 1,
  HI_CSC_MATRIX_BT709_WIDE = 2,
  HI_CSC_MATRIX_BT709_NARROW = 3,
  HI_CSC_MATRIX_BT2020_WIDE = 4,
  HI_CSC_MATRIX_BT2020_NARROW = 5,
  HI_CSC_MATRIX_USER = 100,
} hi_csc_matrix;

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

typedef struct {
  void* picture_address;
  hi_u32 picture_buffer_size;
  hi_u32 picture_width;
  hi_u32 picture_height;
  hi_u32 picture_width_stride;
  hi_u32 picture_height_stride;
  hi_pixel_format picture_format;
} hi_vpc_pic_info;

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

hi_s32 hi_mpi_sys_init();
hi_s32 hi_mpi_sys_exit(void);
// Of a channel: how it converts colours. `coefficients` are of HI_CSC_MATRIX_USER.
hi_s32 hi_mpi_sys_set_chn_csc_matrix(hi_mod_id mod_id, hi_s32 chn, hi_csc_matrix matrix, const void* coefficients);
hi_s32 hi_mpi_dvpp_malloc(hi_u32 dev_id, void** addr_ptr, hi_u64 size);
hi_s32 hi_mpi_dvpp_free(void* addr);

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
