// CANN's interface, declared anew from its names, types, order and values: the system of the media interface V2.
#pragma once

#include "hi_dvpp_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  HI_DVPP_EPOLL_CTL_ADD = 1,
  HI_DVPP_EPOLL_CTL_MOD = 2,
  HI_DVPP_EPOLL_CTL_DEL = 3,
} hi_dvpp_epoll_ctl_op;

#define HI_DVPP_EPOLL_IN 1U
#define HI_DVPP_EPOLL_OUT 2U
#define HI_DVPP_EPOLL_ET 0x80000000U

typedef struct {
  hi_u32 events;
  void* data;
} hi_dvpp_epoll_event;

typedef enum {
  HI_MOD_VPC = 0,
  HI_MOD_VENC = 1,
  HI_MOD_VDEC = 2,
  HI_MOD_JPEGE = 3,
  HI_MOD_JPEGD = 4,
  HI_MOD_PNGD = 5,
  HI_MOD_ALL = 100,
  HI_MOD_BUTT = 255,
} hi_module_type;

typedef struct {
  hi_u32 width;
  hi_u32 height;
  hi_pixel_format pixel_format;
  hi_u64 reserved[2];
} hi_img_base_info;

typedef struct {
  hi_u32 width_stride;
  hi_u32 height_stride;
  hi_u64 img_buf_size;
  hi_u64 reserved[2];
} hi_img_align_info;

hi_s32 hi_mpi_sys_init();
hi_s32 hi_mpi_sys_exit(void);
// Of a channel: how it converts colours. `coefficients` are of HI_CSC_MATRIX_USER.
hi_s32 hi_mpi_sys_set_chn_csc_matrix(hi_mod_id mod_id, hi_s32 chn, hi_csc_matrix matrix, const void* coefficients);
// The strides and bytes of a picture that all of the modules take.
hi_s32 hi_mpi_sys_get_image_align_info(const hi_module_type mod_type[], const hi_u32 mod_num,
                                       const hi_img_base_info* img_base_info, hi_img_align_info* img_align_info);
// Waits for results of several channels, by what hi_mpi_*_get_fd gives.
hi_s32 hi_mpi_sys_create_epoll(hi_s32 size, hi_s32* epoll_fd);
hi_s32 hi_mpi_sys_ctl_epoll(hi_s32 epoll_fd, hi_s32 operation, hi_s32 fd, hi_dvpp_epoll_event* event);
hi_s32 hi_mpi_sys_wait_epoll(hi_s32 epoll_fd, hi_dvpp_epoll_event* events, hi_s32 max_events, hi_s32 timeout, hi_s32* event_num);
hi_s32 hi_mpi_sys_close_epoll(hi_s32 epoll_fd);

#ifdef __cplusplus
}
#endif
