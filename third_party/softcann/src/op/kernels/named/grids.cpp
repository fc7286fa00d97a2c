// Operators that clients name: pictures and volumes that are sampled, unfolded, resized or pooled. Channels come first.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

int64_t place_of(const Named& call, const char* name, const char* otherwise, std::initializer_list<const char*> known) {
  const auto said = call.attribute<std::string>(name, otherwise);
  int64_t place = 0;
  for (const char* each : known) {
    if (said == each) return place;
    ++place;
  }
  TORCH_CHECK(false, name, " ", said, " is not known");
}

struct Sampling {
  explicit Sampling(const Named& call)
      : interpolation(place_of(call, "interpolation_mode", "bilinear", {"bilinear", "nearest", "bicubic"})),
        padding(place_of(call, "padding_mode", "zeros", {"zeros", "border", "reflection"})),
        aligned(call.attribute("align_corners", false)) {}
  int64_t interpolation, padding;
  bool aligned;
};

// A list for the last `count` dimensions, which may have numbers for N and C before, or one for all.
Integers last(const Named& call, const char* name, size_t count, const Integers& otherwise) {
  auto given = call.attribute<Integers>(name, otherwise);
  if (given.size() == 1) given.assign(count, given[0]);
  TORCH_CHECK(given.size() == count || given.size() == count + 2, name, " has ", given.size(), " numbers");
  return {given.end() - static_cast<std::ptrdiff_t>(count), given.end()};
}

// Pads before and after each of them, which are alike; or one for each.
Integers equal_pads(const Named& call, const char* name, size_t count) {
  const auto given = call.attribute<Integers>(name, {0});
  if (given.size() != 2 * count) return last(call, name, count, {0});
  Integers pads;
  for (size_t d = 0; d < count; ++d) {
    TORCH_CHECK(given[2 * d] == given[2 * d + 1], name, " ", given, " differ before and after a dimension");
    pads.push_back(given[2 * d]);
  }
  return pads;
}

struct Pool3d {
  explicit Pool3d(const Named& call)
      : size(last(call, "ksize", 3, {})), stride(last(call, "strides", 3, {})), pads(equal_pads(call, "pads", 3)) {
    const auto format = call.attribute<std::string>("data_format", "NDHWC");
    TORCH_CHECK(format == "NCDHW", "data_format ", format, " is not supported");
    const auto mode = call.attribute<std::string>("padding", "CALCULATED");
    TORCH_CHECK(mode == "CALCULATED" || mode == "VALID", "padding ", mode, " is not supported");
    if (mode == "VALID") pads = {0, 0, 0};
  }
  Integers size, stride, pads;
};

at::Tensor average(const Named& call, const at::Tensor& x, const Pool3d& pool) {
  const auto divisor = call.attribute<int64_t>("divisor_override", 0);
  return at::avg_pool3d(x, pool.size, pool.stride, pool.pads, call.attribute("ceil_mode", false),
                        call.attribute("count_include_pad", true), divisor != 0 ? std::optional(divisor) : std::nullopt);
}

bool corners_aligned(const Named& call) {
  const auto how = call.attribute<std::string>("coordinate_transformation_mode", "half_pixel");
  TORCH_CHECK(how == "align_corners" || how == "half_pixel" || how == "pytorch_half_pixel", "coordinate_transformation_mode ",
              how, " is not supported");
  return how == "align_corners";
}

struct Scales {  // of the last dimensions, none where the sizes tell them
  explicit Scales(const Named& call) : given(call.attribute<Numbers>("scales", {})) {}
  std::optional<double> operator[](size_t from_end) const {
    return given.size() >= from_end && given[given.size() - from_end] > 0 ? std::optional<double>(given[given.size() - from_end])
                                                                          : std::nullopt;
  }
  Numbers given;
};

}  // namespace

NAMED(AffineGrid) {
  put_reshaped(call.out(0),
               at::affine_grid_generator(widened(call.in(0)), call.integers(1), call.attribute("align_corners", false)));
}
NAMED(GridSampler2D) {
  const Sampling how(call);
  put(call.out(0), at::grid_sampler_2d(widened(call.in(0)), widened(call.in(1)), how.interpolation, how.padding, how.aligned));
}
NAMED(GridSampler3D) {
  const Sampling how(call);
  put(call.out(0), at::grid_sampler_3d(widened(call.in(0)), widened(call.in(1)), how.interpolation, how.padding, how.aligned));
}
// The gradient, the picture, the grid.
NAMED(GridSampler2DGrad) {
  const Sampling how(call);
  const auto [picture, grid] = at::grid_sampler_2d_backward(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)),
                                                            how.interpolation, how.padding, how.aligned, {true, true});
  put(call.out(0), picture);
  put(call.out(1), grid);
}
NAMED(GridSampler3DGrad) {
  const Sampling how(call);
  const auto [volume, grid] = at::grid_sampler_3d_backward(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)),
                                                           how.interpolation, how.padding, how.aligned, {true, true});
  put(call.out(0), volume);
  put(call.out(1), grid);
}

NAMED(Im2col) {
  const auto mode = call.attribute<std::string>("padding_mode", "CALCULATED");
  TORCH_CHECK(mode == "CALCULATED", "padding_mode ", mode, " is not supported");
  put_reshaped(call.out(0), at::im2col(call.in(0), last(call, "ksizes", 2, {}), last(call, "dilations", 2, {1}),
                                       equal_pads(call, "pads", 2), last(call, "strides", 2, {1})));
}
// Columns, [.., channels, places of a kernel, places of the picture] or with the two in one; the picture's size.
NAMED(Col2im) {
  const at::Tensor columns = widened(call.in(0));
  put_reshaped(call.out(0), at::col2im(columns.dim() == 4 ? columns.flatten(1, 2) : columns, call.integers(1),
                                       last(call, "kernel_size", 2, {}), last(call, "dilation", 2, {1}),
                                       last(call, "padding", 2, {0}), last(call, "stride", 2, {1})));
}

NAMED(AvgPool3D) {
  call.check_channels_first(0, 5);
  put(call.out(0), average(call, widened(call.in(0)), Pool3d(call)));
}
// The shape of what was pooled, the gradient.
NAMED(AvgPool3DGrad) {
  const Pool3d pool(call);
  const auto divisor = call.attribute<int64_t>("divisor_override", 0);
  put(call.out(0), at::avg_pool3d_backward(widened(call.in(1)), at::zeros(call.integers(0)), pool.size, pool.stride, pool.pads,
                                           call.attribute("ceil_mode", false), call.attribute("count_include_pad", true),
                                           divisor != 0 ? std::optional(divisor) : std::nullopt));
}
NAMED(MaxPool3D) {
  call.check_channels_first(0, 5);
  const Pool3d pool(call);
  put(call.out(0), at::max_pool3d(widened(call.in(0)), pool.size, pool.stride, pool.pads, last(call, "dilation", 3, {1}),
                                  call.attribute<int64_t>("ceil_mode", 0) != 0));
}
// What was pooled, the result, the gradient.
NAMED(MaxPool3DGrad) {
  const Pool3d pool(call);
  const at::Tensor x = widened(call.in(0)), by = widened(call.in(2));
  bool ceil = false;
  at::Tensor indices = std::get<1>(at::max_pool3d_with_indices(x, pool.size, pool.stride, pool.pads, {1, 1, 1}, ceil));
  if (indices.sizes() != by.sizes()) {
    ceil = true;  // the gradient has no attribute for it
    indices = std::get<1>(at::max_pool3d_with_indices(x, pool.size, pool.stride, pool.pads, {1, 1, 1}, ceil));
  }
  put(call.out(0), at::max_pool3d_with_indices_backward(by, x, pool.size, pool.stride, pool.pads, {1, 1, 1}, ceil, indices));
}

NAMED(UpsampleNearest3d) {
  const Scales scales(call);
  put(call.out(0), at::upsample_nearest3d(widened(call.in(0)), call.out(0).sizes().slice(2), scales[3], scales[2], scales[1]));
}
NAMED(UpsampleNearest3dGrad) {
  const Scales scales(call);
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), at::upsample_nearest3d_backward(by, by.sizes().slice(2), call.attribute<Integers>("input_size", {}), scales[3],
                                                   scales[2], scales[1]));
}
NAMED(UpsampleTrilinear3d) {
  const Scales scales(call);
  put(call.out(0), at::upsample_trilinear3d(widened(call.in(0)), call.out(0).sizes().slice(2),
                                            call.attribute("align_corners", false), scales[3], scales[2], scales[1]));
}
NAMED(UpsampleTrilinear3dGrad) {
  const Scales scales(call);
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), at::upsample_trilinear3d_backward(by, by.sizes().slice(2), call.attribute<Integers>("input_size", {}),
                                                     call.attribute("align_corners", false), scales[3], scales[2], scales[1]));
}

// Pictures; those of one row stand for lines, which have no weights across.
NAMED(ResizeD) {
  const Scales scales(call);
  const bool aligned = corners_aligned(call);
  const at::Tensor x = widened(call.in(0));
  const at::IntArrayRef sizes = call.out(0).sizes();
  if (place_of(call, "mode", "nearest", {"linear", "cubic"}) == 1) {
    TORCH_CHECK(call.attribute("cubic_coeff_a", -0.75F) == -0.75F, "cubic_coeff_a other than -0.75 is not supported");
    return put(call.out(0), at::upsample_bicubic2d(x, sizes.slice(2), aligned, scales[2], scales[1]));
  }
  const at::Tensor lines = x.dim() == 4 ? x.squeeze(2) : x;
  TORCH_CHECK(lines.dim() == 3, "linear is of one dimension, not of ", x.sizes());
  put_reshaped(call.out(0), at::upsample_linear1d(lines, {sizes.back()}, aligned, scales[1]));
}
NAMED(ResizeGradD) {
  const Scales scales(call);
  const bool aligned = corners_aligned(call);
  at::Tensor by = widened(call.in(0));
  const auto layout = call.attribute<std::string>("data_format", "NCHW");
  TORCH_CHECK(layout == "NCHW" || layout == "HWNC", "data_format ", layout, " is not supported");
  // Of both; the result's dimensions are told as NCHW.
  if (layout == "HWNC") by = by.permute({2, 3, 0, 1}).contiguous();
  const auto original = call.attribute<Integers>("original_size", {});
  if (place_of(call, "mode", "nearest", {"linear", "cubic"}) == 1) {
    TORCH_CHECK(call.attribute("cubic_coeff_a", -0.75F) == -0.75F, "cubic_coeff_a other than -0.75 is not supported");
    const at::Tensor made = at::upsample_bicubic2d_backward(by, by.sizes().slice(2), original, aligned, scales[2], scales[1]);
    return put_reshaped(call.out(0), layout == "HWNC" ? made.permute({2, 3, 0, 1}).contiguous() : made);
  }
  const at::Tensor lines = by.dim() == 4 ? by.squeeze(2) : by;
  TORCH_CHECK(lines.dim() == 3 && original.size() >= 3, "linear is of one dimension, not of ", by.sizes());
  put_reshaped(call.out(0), at::upsample_linear1d_backward(lines, {lines.size(-1)}, {original[0], original[1], original.back()},
                                                           aligned, scales[1]));
}
