// libacl_dvpp_mpi: what is of no one module: memory, strides that suit several modules, waiting for several channels.
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "media/hi_channels.h"

using namespace softcann;
using namespace softcann::media;

namespace {

int32_t sys_code(Cause cause) { return hi_code(HI_ID_SYS, cause); }

struct Alignment {
  uint32_t width, height;
};

// Of a picture that the module reads or writes; what media.md says of each.
bool alignment_of(hi_module_type module, Alignment* to) {
  switch (module) {
    case HI_MOD_VPC:
    case HI_MOD_VENC:
    case HI_MOD_JPEGE:
      *to = {16, 2};
      return true;
    case HI_MOD_VDEC:
    case HI_MOD_JPEGD:
    case HI_MOD_PNGD:
    case HI_MOD_ALL:
      *to = {64, 16};
      return true;
    default:
      return false;
  }
}

int32_t system_failure(const char* entry) { return fail(sys_code(kSystem), "%s: %s", entry, std::strerror(errno)); }

}  // namespace

namespace softcann::media {

const void* hi_bytes(const char* entry, const void* data, uint32_t size) {
  if (data == nullptr || size == 0) {
    fail(ACL_ERROR_INVALID_PARAM, "%s: the stream has %u bytes at %p", entry, size, data);
    return nullptr;
  }
  if (is_device_pointer(data) && check_device_range(data, size) != ACL_SUCCESS) return nullptr;
  return device_view(data);
}

}  // namespace softcann::media

extern "C" {

hi_s32 hi_mpi_sys_get_image_align_info(const hi_module_type mod_type[], const hi_u32 mod_num,
                                       const hi_img_base_info* img_base_info, hi_img_align_info* img_align_info) {
  SOFTCANN_ENTRY(hi_mpi_sys_get_image_align_info);
  HI_REQUIRE(HI_ID_SYS, mod_type);
  HI_REQUIRE(HI_ID_SYS, img_base_info);
  HI_REQUIRE(HI_ID_SYS, img_align_info);
  const PixelFormat* format = find_format(img_base_info->pixel_format);
  constexpr uint32_t largest = 16384;
  if (format == nullptr || mod_num == 0 || img_base_info->width == 0 || img_base_info->height == 0 ||
      img_base_info->width > largest || img_base_info->height > largest) {
    return fail(sys_code(kBadArgument), "%s: %u modules, %u x %u of pixel format %u", __func__, mod_num, img_base_info->width,
                img_base_info->height, img_base_info->pixel_format);
  }
  Alignment wanted{1, 1};
  for (hi_u32 i = 0; i < mod_num; ++i) {
    Alignment one;
    if (!alignment_of(mod_type[i], &one))
      return fail(sys_code(kBadArgument), "%s: there is no module %d", __func__, static_cast<int>(mod_type[i]));
    wanted = {std::max(wanted.width, one.width), std::max(wanted.height, one.height)};
  }
  *img_align_info = {};
  img_align_info->width_stride = format->width_stride(img_base_info->width, wanted.width);
  img_align_info->height_stride = align_up(img_base_info->height, wanted.height);
  img_align_info->img_buf_size = format->bytes(img_align_info->width_stride, img_align_info->height_stride);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_sys_create_epoll(hi_s32 size, hi_s32* epoll_fd) {
  SOFTCANN_ENTRY(hi_mpi_sys_create_epoll);
  HI_REQUIRE(HI_ID_SYS, epoll_fd);
  if (size <= 0) return fail(sys_code(kBadArgument), "%s: a size of %d", __func__, size);
  *epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  return *epoll_fd >= 0 ? HI_SUCCESS : system_failure(__func__);
}

hi_s32 hi_mpi_sys_ctl_epoll(hi_s32 epoll_fd, hi_s32 operation, hi_s32 fd, hi_dvpp_epoll_event* event) {
  SOFTCANN_ENTRY(hi_mpi_sys_ctl_epoll);
  if (operation < HI_DVPP_EPOLL_CTL_ADD || operation > HI_DVPP_EPOLL_CTL_DEL)
    return fail(sys_code(kBadArgument), "%s: operation %d; 1 (add) to 3 (delete) are possible", __func__, operation);
  epoll_event given{};
  int what = EPOLL_CTL_DEL;
  if (operation != HI_DVPP_EPOLL_CTL_DEL) {
    HI_REQUIRE(HI_ID_SYS, event);
    what = operation == HI_DVPP_EPOLL_CTL_ADD ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    given.events = ((event->events & HI_DVPP_EPOLL_IN) != 0 ? EPOLLIN : 0U) |
                   ((event->events & HI_DVPP_EPOLL_OUT) != 0 ? EPOLLOUT : 0U) |
                   ((event->events & HI_DVPP_EPOLL_ET) != 0 ? EPOLLET : 0U);
    given.data.ptr = event->data;
  }
  return epoll_ctl(epoll_fd, what, fd, &given) == 0 ? HI_SUCCESS : system_failure(__func__);
}

hi_s32 hi_mpi_sys_wait_epoll(hi_s32 epoll_fd, hi_dvpp_epoll_event* events, hi_s32 max_events, hi_s32 timeout, hi_s32* event_num) {
  SOFTCANN_ENTRY(hi_mpi_sys_wait_epoll);
  HI_REQUIRE(HI_ID_SYS, events);
  HI_REQUIRE(HI_ID_SYS, event_num);
  constexpr hi_s32 most = 4096;
  if (max_events <= 0 || max_events > most)
    return fail(sys_code(kBadArgument), "%s: %d events; 1 to %d are possible", __func__, max_events, most);
  std::vector<epoll_event> happened(static_cast<size_t>(max_events));
  const int count = epoll_wait(epoll_fd, happened.data(), max_events, timeout);
  if (count < 0 && errno != EINTR) return system_failure(__func__);
  *event_num = std::max(count, 0);
  for (int i = 0; i < count; ++i) {
    events[i].events = ((happened[i].events & EPOLLIN) != 0 ? HI_DVPP_EPOLL_IN : 0U) |
                       ((happened[i].events & EPOLLOUT) != 0 ? HI_DVPP_EPOLL_OUT : 0U);
    events[i].data = happened[i].data.ptr;
  }
  return HI_SUCCESS;
}

hi_s32 hi_mpi_sys_close_epoll(hi_s32 epoll_fd) {
  SOFTCANN_ENTRY(hi_mpi_sys_close_epoll);
  return close(epoll_fd) == 0 ? HI_SUCCESS : system_failure(__func__);
}
}
