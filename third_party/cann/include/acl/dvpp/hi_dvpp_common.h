// CANN's interface, declared anew from its names, types, order and values: what its parts share of the media interface V2.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int8_t hi_s8;
typedef int16_t hi_s16;
typedef uint8_t hi_u8;
typedef uint16_t hi_u16;
typedef int32_t hi_s32;
typedef uint32_t hi_u32;
typedef uint64_t hi_u64;
typedef double hi_double;
typedef enum {
  HI_FALSE = 0,
  HI_TRUE = 1,
} hi_bool;

#define HI_SUCCESS 0
#define HI_FAILURE (-1)
#ifndef HI_NULL
#define HI_NULL 0L
#endif
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
  HI_ID_SYS = 2,
  HI_ID_VDEC = 5,
  HI_ID_VPC = 7,
  HI_ID_VENC = 8,
  HI_ID_PNGD = 64,
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
  HI_PT_JPEG = 26,
  HI_PT_H264 = 96,
  HI_PT_H265 = 265,
  HI_PT_PNG = 268,
  HI_PT_MJPEG = 1002,
} hi_payload_type;

typedef enum {
  HI_JPEG_RAW_FORMAT_YUV444 = 0,
  HI_JPEG_RAW_FORMAT_YUV422 = 1,
  HI_JPEG_RAW_FORMAT_YUV420 = 2,
  HI_JPEG_RAW_FORMAT_YUV440 = 3,
  HI_JPEG_RAW_FORMAT_YUV400 = 4,
  HI_JPEG_RAW_FORMAT_YUV411 = 5,
  HI_JPEG_RAW_FORMAT_MAX = 100,
} hi_jpeg_raw_format;

typedef enum {
  HI_PNG_COLOR_FORMAT_GRAY = 0,
  HI_PNG_COLOR_FORMAT_RGB = 2,
  HI_PNG_COLOR_FORMAT_CLUT = 3,
  HI_PNG_COLOR_FORMAT_AGRAY = 4,
  HI_PNG_COLOR_FORMAT_ARGB = 6,
  HI_PNG_COLOR_FORMAT_BUTT = 0x100,
} hi_png_color_format;

typedef enum {
  HI_VIDEO_FIELD_TOP = 1,
  HI_VIDEO_FIELD_BOTTOM = 2,
  HI_VIDEO_FIELD_INTERLACED = 3,
  HI_VIDEO_FIELD_FRAME = 4,
} hi_video_field;

typedef enum {
  HI_VIDEO_FORMAT_LINEAR = 0,
  HI_VIDEO_FORMAT_TILE_64x16 = 1,
} hi_video_format;

typedef enum {
  HI_COMPRESS_MODE_NONE = 0,
  HI_COMPRESS_MODE_SEG = 1,
  HI_COMPRESS_MODE_TILE = 2,
  HI_COMPRESS_MODE_HFBC = 3,
} hi_compress_mode;

typedef enum {
  HI_DYNAMIC_RANGE_SDR8 = 0,
  HI_DYNAMIC_RANGE_SDR10 = 1,
  HI_DYNAMIC_RANGE_HDR10 = 2,
  HI_DYNAMIC_RANGE_HLG = 3,
  HI_DYNAMIC_RANGE_SLF = 4,
  HI_DYNAMIC_RANGE_XDR = 5,
} hi_dynamic_range;

typedef enum {
  HI_COLOR_GAMUT_BT601 = 0,
  HI_COLOR_GAMUT_BT709 = 1,
  HI_COLOR_GAMUT_BT2020 = 2,
  HI_COLOR_GAMUT_USER = 3,
} hi_color_gamut;

#define HI_MAX_COLOR_COMPONENT 3
#define HI_MAX_USER_DATA_NUM 2

typedef struct {
  hi_u64 misc_info_phys_addr;
  hi_u64 jpeg_dcf_phys_addr;
  hi_u64 isp_info_phys_addr;
  hi_u64 low_delay_phys_addr;
  hi_u64 bnr_rnt_phys_addr;
  hi_u64 motion_data_phys_addr;
  hi_u64 frame_dng_phys_addr;
  void* misc_info_virt_addr;
  void* jpeg_dcf_virt_addr;
  void* isp_info_virt_addr;
  void* low_delay_virt_addr;
  void* bnr_mot_virt_addr;
  void* motion_data_virt_addr;
  void* frame_dng_virt_addr;
} hi_video_supplement;

typedef struct {
  hi_u32 width;
  hi_u32 height;
  hi_video_field field;
  hi_pixel_format pixel_format;
  hi_video_format video_format;
  hi_compress_mode compress_mode;
  hi_dynamic_range dynamic_range;
  hi_color_gamut color_gamut;
  hi_u32 header_stride[HI_MAX_COLOR_COMPONENT];
  hi_u32 width_stride[HI_MAX_COLOR_COMPONENT];
  hi_u32 height_stride[HI_MAX_COLOR_COMPONENT];
  hi_u64 header_phys_addr[HI_MAX_COLOR_COMPONENT];
  hi_u64 phys_addr[HI_MAX_COLOR_COMPONENT];
  void* header_virt_addr[HI_MAX_COLOR_COMPONENT];
  void* virt_addr[HI_MAX_COLOR_COMPONENT];
  hi_u32 time_ref;
  hi_u64 pts;
  hi_u64 user_data[HI_MAX_USER_DATA_NUM];
  hi_u32 frame_flag;  // of what a decoder gives: 0, it is a picture; 1, it could not be decoded
  hi_video_supplement supplement;
} hi_video_frame;

typedef struct {
  hi_video_frame v_frame;
  hi_u32 pool_id;
  hi_mod_id mod_id;
} hi_video_frame_info;

typedef struct {
  hi_u32 width;
  hi_u32 height;
} hi_video_size;

typedef struct {
  hi_u32 width;
  hi_u32 height;
  hi_u32 width_stride;
  hi_u32 height_stride;
  hi_u32 img_buf_size;
  union {
    hi_jpeg_raw_format pixel_format;
    hi_png_color_format png_pixel_format;
  };
  hi_u32 reserved[4];
} hi_img_info;

typedef struct {
  hi_payload_type type;
  hi_u8* addr;
  hi_u32 len;
  hi_u64 pts;
  hi_s32 reserved[2];
} hi_img_stream;

typedef struct {
  void* picture_address;
  hi_u32 picture_buffer_size;
  hi_u32 picture_width;
  hi_u32 picture_height;
  hi_u32 picture_width_stride;
  hi_u32 picture_height_stride;
  hi_pixel_format picture_format;
} hi_pic_info;

hi_s32 hi_mpi_dvpp_malloc(hi_u32 dev_id, void** addr_ptr, hi_u64 size);
hi_s32 hi_mpi_dvpp_free(void* addr);

#ifdef __cplusplus
}
#endif
