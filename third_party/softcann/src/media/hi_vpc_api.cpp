// libacl_dvpp_mpi: VPC of the media interface V2. A call computes before it returns; the number of its task tells
// hi_mpi_vpc_get_process_result() that it is done.
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "media/hi_channels.h"
#include "media/vpc.h"

using namespace softcann;
using namespace softcann::media;

namespace {

int32_t code_of(Cause cause) { return hi_code(HI_ID_VPC, cause); }
int32_t translated(aclError code) { return hi_translated(HI_ID_VPC, code); }

struct Channel {
  uint32_t tasks = 0;  // how many it has done
  acldvppCscMatrix matrix = ACL_DVPP_CSC_MATRIX_BT601_WIDE;
};
struct Channels {
  std::mutex mutex;
  std::map<hi_vpc_chn, Channel> all;
};

Channels& channels() {
  static auto* instance = new Channels;
  return *instance;
}

Picture picture_of(const hi_vpc_pic_info& info) {
  return {info.picture_address, info.picture_buffer_size,  info.picture_format,       info.picture_width,
          info.picture_height,  info.picture_width_stride, info.picture_height_stride};
}

Region region_of(const hi_vpc_crop_region& region) {
  return {region.left_offset, region.top_offset, region.crop_width, region.crop_height};
}

// Checks with `check`, computes with `work`, and numbers the task.
int32_t run(const char* entry, hi_vpc_chn channel, uint32_t* task, const std::function<aclError()>& check,
            const std::function<void()>& work) {
  {
    const std::lock_guard<std::mutex> lock(channels().mutex);
    if (channels().all.count(channel) == 0) {
      return fail(code_of(kMissing), "%s: there is no channel %d: call hi_mpi_vpc_create_chn", entry, channel);
    }
  }
  if (const aclError code = check()) return translated(code);
  try {
    work();
  } catch (const std::exception& error) {
    return fail(code_of(kNoMemory), "%s: %s", entry, error.what());
  }
  const std::lock_guard<std::mutex> lock(channels().mutex);
  const uint32_t number = channels().all[channel].tasks++;
  if (task != nullptr) *task = number;
  return HI_SUCCESS;
}

int32_t run_steps(const char* entry, hi_vpc_chn channel, uint32_t* task, std::vector<Step> steps) {
  {
    const std::lock_guard<std::mutex> lock(channels().mutex);
    const auto found = channels().all.find(channel);
    for (Step& step : steps) {
      if (found != channels().all.end()) step.matrix = found->second.matrix;
    }
  }
  return run(
      entry, channel, task,
      [&] {
        for (const Step& step : steps) {
          if (const aclError code = check_step(entry, step)) return code;
        }
        return aclError{ACL_SUCCESS};
      },
      [&] {
        for (const Step& step : steps) run_step(step);
      });
}

#define REQUIRE(pointer) HI_REQUIRE(HI_ID_VPC, pointer)

Step step_of(const hi_vpc_pic_info& from, const hi_vpc_pic_info& to) {
  return whole_step(picture_of(from), picture_of(to), ACL_DVPP_CSC_MATRIX_BT601_WIDE);
}

bool set_interpolation(const char* entry, uint32_t interpolation, Step& step) {
  if (interpolation >= kInterpolations) {
    fail(code_of(kBadArgument), "%s: interpolation %u; 0 to %u are possible", entry, interpolation, kInterpolations - 1);
    return false;
  }
  step.interpolation = static_cast<Interpolation>(interpolation);
  return true;
}

template <class Info>
bool set_resize(const char* entry, const Info& info, Step& step) {
  step.cut = region_of(info.crop_region);
  step.width = info.resize_info.resize_width;
  step.height = info.resize_info.resize_height;
  return set_interpolation(entry, info.resize_info.interpolation, step);
}

std::optional<Border> border_of(const char* entry, hi_vpc_bord_type type, const hi_vpc_scalar& value) {
  if (type > HI_BORDER_REFLECT_101) {
    fail(code_of(kUnsupported), "%s: borders of type %d are not served", entry, static_cast<int>(type));
    return std::nullopt;
  }
  Border border;
  border.type = static_cast<acldvppBorderType>(type);
  std::copy_n(value.val, border.value.size(), border.value.begin());
  return border;
}

bool add_paste(const char* entry, const hi_vpc_pic_info& from, const hi_vpc_crop_resize_paste_region& info,
               std::vector<Step>& steps) {
  Step step = step_of(from, info.dest_pic_info);
  step.left = info.dest_left_offset;
  step.top = info.dest_top_offset;
  const bool good = set_resize(entry, info, step);
  steps.push_back(step);
  return good;
}

// The rest of the destination is border.
int32_t add_bordered(const char* entry, const hi_vpc_pic_info& from, const hi_vpc_crop_resize_border_region& info,
                     std::vector<Step>& steps) {
  Step step = step_of(from, info.dest_pic_info);
  if (!set_resize(entry, info, step)) return code_of(kBadArgument);
  std::optional<Border> border = border_of(entry, info.border_type, info.scalar_value);
  if (!border) return code_of(kUnsupported);
  const uint64_t right = uint64_t{info.dest_left_offset} + step.width, bottom = uint64_t{info.dest_top_offset} + step.height;
  if (right > step.to.width || bottom > step.to.height) {
    return fail(code_of(kBadArgument), "%s: %u x %u at %u, %u leaves the destination of %u x %u", entry, step.width, step.height,
                info.dest_left_offset, info.dest_top_offset, step.to.width, step.to.height);
  }
  border->left = info.dest_left_offset;
  border->top = info.dest_top_offset;
  border->right = static_cast<uint32_t>(step.to.width - right);
  border->bottom = static_cast<uint32_t>(step.to.height - bottom);
  step.border = border;
  steps.push_back(step);
  return HI_SUCCESS;
}

int32_t check_same(const char* entry, const Picture& from, const Picture& to, uint32_t width, uint32_t height) {
  if (const aclError code = check_picture(entry, "source", from)) return code;
  if (const aclError code = check_picture(entry, "destination", to)) return code;
  if (from.format == to.format && to.width == width && to.height == height) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: the destination must be of the source's format, %u x %u", entry, width, height);
}

}  // namespace

extern "C" {

hi_s32 hi_mpi_sys_init() {
  SOFTCANN_ENTRY(hi_mpi_sys_init);
  return HI_SUCCESS;  // there is nothing to be made ready
}

hi_s32 hi_mpi_sys_exit() {
  SOFTCANN_ENTRY(hi_mpi_sys_exit);
  const std::lock_guard<std::mutex> lock(channels().mutex);
  channels().all.clear();
  return HI_SUCCESS;
}

hi_s32 hi_mpi_sys_set_chn_csc_matrix(hi_mod_id mod_id, hi_s32 chn, hi_csc_matrix matrix, const void*) {
  SOFTCANN_ENTRY(hi_mpi_sys_set_chn_csc_matrix);
  if (mod_id != HI_ID_VPC || matrix < HI_CSC_MATRIX_BT601_WIDE || matrix > HI_CSC_MATRIX_BT2020_NARROW) {
    return fail(code_of(kUnsupported),
                "hi_mpi_sys_set_chn_csc_matrix: module %d, matrix %d: softcann converts colours in VPC (7) by BT.601, BT.709 or "
                "BT.2020 (0 to 5); a matrix of the client's own can go into AIPP",
                static_cast<int>(mod_id), static_cast<int>(matrix));
  }
  const std::lock_guard<std::mutex> lock(channels().mutex);
  const auto found = channels().all.find(chn);
  if (found == channels().all.end()) {
    return fail(code_of(kMissing), "hi_mpi_sys_set_chn_csc_matrix: there is no channel %d", chn);
  }
  found->second.matrix = static_cast<acldvppCscMatrix>(matrix);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_dvpp_malloc(hi_u32 dev_id, void** addr_ptr, hi_u64 size) {
  SOFTCANN_ENTRY(hi_mpi_dvpp_malloc);
  REQUIRE(addr_ptr);
  // 0 as a device means the current one here, as in CANN's own samples whatever device they are on.
  if (dev_id != 0 && static_cast<int64_t>(dev_id) != current_device()) {
    return fail(code_of(kBadArgument), "hi_mpi_dvpp_malloc: device %u is not the current one, %d", dev_id, current_device());
  }
  return aclrtMalloc(addr_ptr, size, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS ? HI_SUCCESS : code_of(kNoMemory);
}

hi_s32 hi_mpi_dvpp_free(void* addr) {
  SOFTCANN_ENTRY(hi_mpi_dvpp_free);
  return translated(aclrtFree(addr));
}

hi_s32 hi_mpi_vpc_create_chn(hi_vpc_chn chn, const hi_vpc_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_vpc_create_chn);
  REQUIRE(attr);
  if (chn < 0 || chn >= HI_VPC_MAX_CHN_NUM) {
    return fail(code_of(kBadChannel), "hi_mpi_vpc_create_chn: channel %d; 0 to %d are possible", chn, HI_VPC_MAX_CHN_NUM - 1);
  }
  const std::lock_guard<std::mutex> lock(channels().mutex);
  if (!channels().all.emplace(chn, Channel{}).second)
    return fail(code_of(kExists), "hi_mpi_vpc_create_chn: channel %d is there", chn);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vpc_sys_create_chn(hi_vpc_chn* chn, const hi_vpc_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_vpc_sys_create_chn);
  REQUIRE(chn);
  REQUIRE(attr);
  const std::lock_guard<std::mutex> lock(channels().mutex);
  for (hi_vpc_chn free = 0; free < HI_VPC_MAX_CHN_NUM; ++free) {
    if (!channels().all.emplace(free, Channel{}).second) continue;
    *chn = free;
    return HI_SUCCESS;
  }
  return fail(code_of(kBadChannel), "hi_mpi_vpc_sys_create_chn: all %d channels are in use", HI_VPC_MAX_CHN_NUM);
}

hi_s32 hi_mpi_vpc_destroy_chn(hi_vpc_chn chn) {
  SOFTCANN_ENTRY(hi_mpi_vpc_destroy_chn);
  const std::lock_guard<std::mutex> lock(channels().mutex);
  if (channels().all.erase(chn) == 0) return fail(code_of(kMissing), "hi_mpi_vpc_destroy_chn: there is no channel %d", chn);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vpc_get_process_result(hi_vpc_chn chn, hi_u32 task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_get_process_result);
  const std::lock_guard<std::mutex> lock(channels().mutex);
  const auto found = channels().all.find(chn);
  if (found == channels().all.end() || task_id >= found->second.tasks) {
    return fail(code_of(kMissing), "hi_mpi_vpc_get_process_result: channel %d has no task %u", chn, task_id);
  }
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vpc_resize(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic, hi_double fx, hi_double fy,
                         hi_u32 interpolation, hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_resize);
  REQUIRE(source_pic);
  REQUIRE(dest_pic);
  constexpr const char* entry = "hi_mpi_vpc_resize";
  // Factors that are given must be those of the sizes.
  const double width = fx == 0 ? dest_pic->picture_width : std::round(fx * source_pic->picture_width);
  const double height = fy == 0 ? dest_pic->picture_height : std::round(fy * source_pic->picture_height);
  if (width != dest_pic->picture_width || height != dest_pic->picture_height) {
    return fail(code_of(kBadArgument), "%s: fx and fy make %.0f x %.0f, the destination is %u x %u", entry, width, height,
                dest_pic->picture_width, dest_pic->picture_height);
  }
  Step step = step_of(*source_pic, *dest_pic);
  if (!set_interpolation(entry, interpolation, step)) return code_of(kBadArgument);
  return run_steps(entry, chn, task_id, {step});
}

hi_s32 hi_mpi_vpc_crop(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_region_info crop_info[], hi_u32 count,
                       hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_crop);
  REQUIRE(source_pic);
  REQUIRE(crop_info);
  std::vector<Step> steps;
  for (hi_u32 i = 0; i < count; ++i) {
    Step& step = steps.emplace_back(step_of(*source_pic, crop_info[i].dest_pic_info));
    step.cut = region_of(crop_info[i].crop_region);
    step.width = step.cut.width;
    step.height = step.cut.height;
  }
  return run_steps("hi_mpi_vpc_crop", chn, task_id, steps);
}

hi_s32 hi_mpi_vpc_crop_resize(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_resize_region info[], hi_u32 count,
                              hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_crop_resize);
  REQUIRE(source_pic);
  REQUIRE(info);
  std::vector<Step> steps;
  for (hi_u32 i = 0; i < count; ++i) {
    Step& step = steps.emplace_back(step_of(*source_pic, info[i].dest_pic_info));
    if (!set_resize("hi_mpi_vpc_crop_resize", info[i], step)) return code_of(kBadArgument);
  }
  return run_steps("hi_mpi_vpc_crop_resize", chn, task_id, steps);
}

hi_s32 hi_mpi_vpc_batch_crop_resize_paste(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic[], hi_u32 pic_num,
                                          hi_vpc_crop_resize_paste_region info[], hi_u32 count[], hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_batch_crop_resize_paste);
  REQUIRE(source_pic);
  REQUIRE(info);
  REQUIRE(count);
  constexpr const char* entry = "hi_mpi_vpc_batch_crop_resize_paste";
  std::vector<Step> steps;
  for (hi_u32 i = 0; i < pic_num; ++i) {
    REQUIRE(source_pic[i]);
    for (hi_u32 k = 0; k < count[i]; ++k) {
      if (!add_paste(entry, *source_pic[i], info[steps.size()], steps)) return code_of(kBadArgument);
    }
  }
  return run_steps(entry, chn, task_id, steps);
}

hi_s32 hi_mpi_vpc_crop_resize_paste(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_crop_resize_paste_region info[],
                                    hi_u32 count, hi_u32* task_id, hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_vpc_crop_resize_paste);
  return hi_mpi_vpc_batch_crop_resize_paste(chn, &source_pic, 1, info, &count, task_id, milli_sec);
}

hi_s32 hi_mpi_vpc_batch_crop_resize_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic[], hi_u32 pic_num,
                                                hi_vpc_crop_resize_border_region info[], hi_u32 count[], hi_u32* task_id,
                                                hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_batch_crop_resize_make_border);
  REQUIRE(source_pic);
  REQUIRE(info);
  REQUIRE(count);
  constexpr const char* entry = "hi_mpi_vpc_batch_crop_resize_make_border";
  std::vector<Step> steps;
  for (hi_u32 i = 0; i < pic_num; ++i) {
    REQUIRE(source_pic[i]);
    for (hi_u32 k = 0; k < count[i]; ++k) {
      if (const int32_t code = add_bordered(entry, *source_pic[i], info[steps.size()], steps)) return code;
    }
  }
  return run_steps(entry, chn, task_id, steps);
}

hi_s32 hi_mpi_vpc_crop_resize_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic,
                                          hi_vpc_crop_resize_border_region info[], hi_u32 count, hi_u32* task_id,
                                          hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_vpc_crop_resize_make_border);
  return hi_mpi_vpc_batch_crop_resize_make_border(chn, &source_pic, 1, info, &count, task_id, milli_sec);
}

hi_s32 hi_mpi_vpc_convert_color(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic, hi_u32* task_id,
                                hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_convert_color);
  REQUIRE(source_pic);
  REQUIRE(dest_pic);
  if (source_pic->picture_width != dest_pic->picture_width || source_pic->picture_height != dest_pic->picture_height) {
    return fail(code_of(kBadArgument), "hi_mpi_vpc_convert_color: the source is %u x %u, the destination %u x %u",
                source_pic->picture_width, source_pic->picture_height, dest_pic->picture_width, dest_pic->picture_height);
  }
  return run_steps("hi_mpi_vpc_convert_color", chn, task_id, {step_of(*source_pic, *dest_pic)});
}

hi_s32 hi_mpi_vpc_convert_color_to_yuv420(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                          hi_u32* task_id, hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_vpc_convert_color_to_yuv420);
  REQUIRE(dest_pic);
  if (dest_pic->picture_format != PIXEL_FORMAT_YUV_SEMIPLANAR_420 &&
      dest_pic->picture_format != PIXEL_FORMAT_YVU_SEMIPLANAR_420) {
    return fail(code_of(kBadArgument), "hi_mpi_vpc_convert_color_to_yuv420: the destination is of pixel format %u",
                dest_pic->picture_format);
  }
  return hi_mpi_vpc_convert_color(chn, source_pic, dest_pic, task_id, milli_sec);
}

hi_s32 hi_mpi_vpc_copy_make_border(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                   hi_vpc_make_border_info info, hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_copy_make_border);
  REQUIRE(source_pic);
  REQUIRE(dest_pic);
  constexpr const char* entry = "hi_mpi_vpc_copy_make_border";
  Step step = step_of(*source_pic, *dest_pic);
  step.width = step.from.width;
  step.height = step.from.height;
  step.border = border_of(entry, info.border_type, info.scalar_value);
  if (!step.border) return code_of(kUnsupported);
  step.border->left = info.left;
  step.border->right = info.right;
  step.border->top = info.top;
  step.border->bottom = info.bottom;
  return run_steps(entry, chn, task_id, {step});
}

hi_s32 hi_mpi_vpc_pyrdown(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info dest_pic[], hi_u32 filter_level,
                          hi_s8 gaussian_filter[][5], hi_u16 divisor, hi_vpc_make_border_info info, hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_pyrdown);
  REQUIRE(source_pic);
  REQUIRE(dest_pic);
  REQUIRE(gaussian_filter);
  constexpr const char* entry = "hi_mpi_vpc_pyrdown";
  if (divisor == 0 || filter_level == 0)
    return fail(code_of(kBadArgument), "%s: %u levels, a divisor of %u", entry, filter_level, divisor);
  const std::optional<Border> border = border_of(entry, info.border_type, info.scalar_value);
  if (!border) return code_of(kUnsupported);
  std::array<std::array<int8_t, 5>, 5> weights{};
  std::memcpy(weights.data(), gaussian_filter, sizeof(weights));
  const auto level = [&](hi_u32 i) { return picture_of(i == 0 ? *source_pic : dest_pic[i - 1]); };
  return run(
      entry, chn, task_id,
      [&] {
        for (hi_u32 i = 0; i < filter_level; ++i) {
          const Picture from = level(i);
          if (const aclError code = check_same(entry, from, level(i + 1), (from.width + 1) / 2, (from.height + 1) / 2))
            return code;
        }
        return aclError{ACL_SUCCESS};
      },
      [&] {
        for (hi_u32 i = 0; i < filter_level; ++i) {
          write_image(pyramid_down(read_image(level(i)), weights, divisor, border->type), level(i + 1));
        }
      });
}

hi_s32 hi_mpi_vpc_calc_hist(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_histogram_config* hist, hi_u32* task_id,
                            hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_calc_hist);
  REQUIRE(source_pic);
  REQUIRE(hist);
  constexpr const char* entry = "hi_mpi_vpc_calc_hist";
  const Picture picture = picture_of(*source_pic);
  return run(
      entry, chn, task_id, [&] { return check_picture(entry, "source", picture); },
      [&] {
        *hist = {};
        hi_u32* counts[] = {hist->histogram_y_or_r, hist->histogram_u_or_g, hist->histogram_v_or_b};
        const Image image = read_image(picture);
        for (size_t i = 0; i < image.planes.size() && i < std::size(counts); ++i) {
          const Histogram made = histogram(image.planes[i]);
          std::copy(made.begin(), made.end(), counts[i]);
        }
      });
}

hi_s32 hi_mpi_vpc_equalize_hist(hi_vpc_chn chn, const hi_vpc_pic_info* source_pic, hi_vpc_pic_info* dest_pic,
                                const hi_vpc_lut_remap* lut, hi_u32* task_id, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vpc_equalize_hist);
  REQUIRE(source_pic);
  REQUIRE(dest_pic);
  REQUIRE(lut);
  constexpr const char* entry = "hi_mpi_vpc_equalize_hist";
  const Picture from = picture_of(*source_pic), to = picture_of(*dest_pic);
  return run(
      entry, chn, task_id, [&] { return check_same(entry, from, to, from.width, from.height); },
      [&] {
        const hi_u8* tables[] = {lut->map_value_y_or_r, lut->map_value_u_or_g, lut->map_value_v_or_b};
        Image image = read_image(from);
        for (size_t i = 0; i < image.planes.size() && i < std::size(tables); ++i) look_up(image.planes[i], tables[i]);
        write_image(image, to);
      });
}
}
