// Batch normalization, alone and synchronized.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "acl/acl_rt.h"
#include "op/simd/clones.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/simd/thresholds.h"

using namespace softcann::op;

namespace {

// Note [saveInvstd]
// What aclnnBatchNorm saves under this name is 1/std on Ascend950 and the (biased) variance on its predecessors; the
// gradient takes it back as it is. Both ends follow the SoC we pretend to be.
bool saves_variance() {
  static const bool value = [] {
    const char* soc = aclrtGetSocName();
    return !soc || std::strncmp(soc, "Ascend950", 9) != 0;
  }();
  return value;
}

// Channel statistics of few elements, in place; never worth an ATen call each.
template <class T, class F>
void each_of(at::Tensor& values, F&& f) {
  T* data = values.mutable_data_ptr<T>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<T>(f(static_cast<double>(data[i])));
}
template <class F>
void each_channel(at::Tensor& values, F&& f) {
  AT_ASSERT(values.is_contiguous());
  values.scalar_type() == at::kDouble ? each_of<double>(values, f) : each_of<float>(values, f);
}
void to_saved(at::Tensor& invstd, double eps) {
  if (saves_variance()) each_channel(invstd, [eps](double inverse) { return 1.0 / (inverse * inverse) - eps; });
}
at::Tensor from_saved(const at::Tensor& saved, double eps) {
  if (!saved.defined() || !saves_variance()) return saved;
  at::Tensor invstd = saved.to(wide_type(saved), false, true).contiguous();
  each_channel(invstd, [eps](double variance) { return 1.0 / std::sqrt(variance + eps); });
  return invstd;
}

bool all_float(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && (tensor.scalar_type() != at::kFloat)) return false;
  }
  return true;
}
// The orders of memory that ATen's variant with given outputs knows; in others it goes wrong.
bool known_order(const at::Tensor& input, const at::Tensor& output) {
  const auto both = [&](at::MemoryFormat format) { return input.is_contiguous(format) && output.is_contiguous(format); };
  return both(at::MemoryFormat::Contiguous) || (input.dim() == 4 && both(at::MemoryFormat::ChannelsLast)) ||
         (input.dim() == 5 && both(at::MemoryFormat::ChannelsLast3d));
}
bool present(const at::Tensor& tensor) { return tensor.defined() && tensor.numel() != 0; }

struct BatchNorm {
  const at::Tensor &input, &weight, &bias, &running_mean, &running_var;
  double momentum, eps;
  const at::Tensor &output, &mean, &saved;
};

// Note [Batch statistics]
// ATen adds up a channel one value after the other, twice. Here each channel is read once for its statistics, in lanes
// that become vectors, and again for the result while it is still in the cache. Values are taken relative to the
// channel's first one: its distance from the mean, squared, is at most `count` variances, so that float64 loses nothing.
struct Sums {
  double first = 0, squared = 0;
  void add(double apart) {
    first += apart;
    squared += apart * apart;
  }
};
// y = (x - center) * factor + shift
struct Line {
  float center, factor, shift;
};

// Training with everything float32 and in order: `images` times `channels` planes of `area` values.
class TrainPlain {
 public:
  explicit TrainPlain(const BatchNorm& n)
      : n_(n), images_(n.input.size(0)), channels_(n.input.size(1)), area_(n.input.numel() / images_ / channels_) {}

  static bool suits(const BatchNorm& n) {
    const auto dense = [](const at::Tensor& t) { return !t.defined() || t.is_contiguous(); };
    return n.input.numel() != 0 && n.input.is_contiguous() && n.output.is_contiguous() && dense(n.weight) && dense(n.bias) &&
           dense(n.running_mean) && dense(n.running_var) && dense(n.mean) && dense(n.saved);
  }

  void run() {
    const bool narrow = area_ < narrow_area;
    at::parallel_for(0, channels_, std::max<int64_t>(1, threshold::grain / (images_ * area_)), [&](int64_t begin, int64_t end) {
      const int64_t step = narrow ? most_columns / area_ : 1;
      for (int64_t c = begin; c < end; c += step) narrow ? columns(c, std::min(c + step, end)) : planes(c);
    });
  }

 private:
  static constexpr int64_t narrow_area = 32, most_columns = 512;

  // One channel of planes that are long enough for vectors.
  void planes(int64_t c) {
    const double center = center_of(c);
    Sums sums;
    for (int64_t i = 0; i < images_; ++i) add_plane(input_ + (i * channels_ + c) * area_, area_, center, sums);
    const Line line = finish(c, sums, center);
    for (int64_t i = 0; i < images_; ++i) {
      const int64_t plane = (i * channels_ + c) * area_;
      apply(input_ + plane, output_ + plane, area_, line);
    }
  }
  // The channels [begin, end) side by side: the vectors go across them.
  void columns(int64_t begin, int64_t end) {
    const int64_t count = (end - begin) * area_, stride = channels_ * area_;
    float center[most_columns], factor[most_columns], shift[most_columns];
    double first[most_columns] = {}, squared[most_columns] = {};
    for (int64_t c = begin; c < end; ++c) {
      std::fill_n(center + (c - begin) * area_, area_, static_cast<float>(center_of(c)));
    }
    const float* input = input_ + begin * area_;
    for (int64_t i = 0; i < images_; ++i) add_row(input + i * stride, count, center, first, squared);
    for (int64_t c = begin; c < end; ++c) {
      const int64_t column = (c - begin) * area_;
      Sums sums;
      for (int64_t i = column; i < column + area_; ++i) {
        sums.first += first[i];
        sums.squared += squared[i];
      }
      const Line line = finish(c, sums, center_of(c));
      std::fill_n(center + column, area_, line.center);
      std::fill_n(factor + column, area_, line.factor);
      std::fill_n(shift + column, area_, line.shift);
    }
    float* output = output_ + begin * area_;
    for (int64_t i = 0; i < images_; ++i) {
      apply_row(input + i * stride, output + i * stride, count, center, factor, shift);
    }
  }

  double center_of(int64_t c) const {
    const float first = input_[c * area_];
    return std::isfinite(first) ? static_cast<double>(first) : 0;
  }
  // Writes what is kept of a channel; gives what its result is made with.
  Line finish(int64_t c, const Sums& sums, double center) {
    const double count = static_cast<double>(images_ * area_), apart = sums.first / count, mean = center + apart;
    double squares = sums.squared - sums.first * apart;
    if (squares < 0) squares = 0;  // rounding; a NaN stays
    const double variance = squares / count, invstd = 1 / std::sqrt(variance + n_.eps);
    if (mean_) mean_[c] = static_cast<float>(mean);
    if (saved_) saved_[c] = static_cast<float>(saves_variance() ? variance : invstd);
    const auto follow = [&](float& state, double value) {
      state = static_cast<float>(n_.momentum * value + (1 - n_.momentum) * static_cast<double>(state));
    };
    if (running_mean_) follow(running_mean_[c], mean);
    if (running_var_) follow(running_var_[c], squares / (count - 1));
    const double factor = invstd * (weight_ ? static_cast<double>(weight_[c]) : 1),
                 bias = bias_ ? static_cast<double>(bias_[c]) : 0;
    const float rounded = std::isfinite(mean) ? static_cast<float>(mean) : 0;  // what rounding took goes into the shift
    return {rounded, static_cast<float>(factor), static_cast<float>(bias - (mean - static_cast<double>(rounded)) * factor)};
  }

  static void add_plane(const float* values, int64_t count, double center, Sums& sums);
  static void add_row(const float* values, int64_t count, const float* center, double* first, double* squared);
  static void apply(const float* from, float* to, int64_t count, Line line);
  static void apply_row(const float* from, float* to, int64_t count, const float* center, const float* factor,
                        const float* shift);
  static float* pointer(const at::Tensor& t) { return present(t) ? t.data_ptr<float>() : nullptr; }

  const BatchNorm& n_;
  const int64_t images_, channels_, area_;
  const float *const input_ = pointer(n_.input), *const weight_ = pointer(n_.weight), *const bias_ = pointer(n_.bias);
  float *const output_ = pointer(n_.output), *const mean_ = pointer(n_.mean), *const saved_ = pointer(n_.saved),
               *const running_mean_ = pointer(n_.running_mean), *const running_var_ = pointer(n_.running_var);
};

SOFTCANN_CLONES void TrainPlain::add_plane(const float* values, int64_t count, double center, Sums& sums) {
  constexpr int64_t lanes = 16;
  double first[lanes] = {}, squared[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const double apart = static_cast<double>(values[i + lane]) - center;
      first[lane] += apart;
      squared[lane] += apart * apart;
    }
  }
  for (; i < count; ++i) sums.add(static_cast<double>(values[i]) - center);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    sums.first += first[lane];
    sums.squared += squared[lane];
  }
}
SOFTCANN_CLONES void TrainPlain::add_row(const float* values, int64_t count, const float* center, double* __restrict first,
                                         double* __restrict squared) {
  for (int64_t i = 0; i < count; ++i) {
    const double apart = static_cast<double>(values[i]) - static_cast<double>(center[i]);
    first[i] += apart;
    squared[i] += apart * apart;
  }
}
SOFTCANN_CLONES void TrainPlain::apply(const float* from, float* to, int64_t count, Line line) {
  for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - line.center) * line.factor + line.shift;
}
SOFTCANN_CLONES void TrainPlain::apply_row(const float* from, float* to, int64_t count, const float* center, const float* factor,
                                           const float* shift) {
  for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - center[i]) * factor[i] + shift[i];
}

}  // namespace

namespace {

// ATen's kernels do not look at the sizes of what is one number for each channel.
void require_channels(const at::Tensor& input, std::initializer_list<const at::Tensor*> all) {
  for (const at::Tensor* each : all) {
    TORCH_CHECK(!present(*each) || each->numel() == input.size(1), "batch norm: ", each->sizes(), " for ", input.size(1),
                " channels");
  }
}

// That of no rows, by which ATen's kernels divide.
void no_gradient(std::initializer_list<at::Tensor> results, c10::ArrayRef<bool> mask) {
  size_t i = 0;
  for (const at::Tensor& result : results) {
    if (mask.at(i++) && given(result)) writable(result).zero_();
  }
}
std::optional<at::Tensor> if_present(const at::Tensor& tensor) { return present(tensor) ? std::optional(tensor) : std::nullopt; }

}  // namespace

namespace {

void normalize(const BatchNorm& n, bool training) {
  const auto& [input, weight, bias, running_mean, running_var, momentum, eps, output, mean, saved] = n;
  if (all_float({input, weight, bias, running_mean, running_var, output, mean, saved}) && known_order(input, output)) {
    if (training && TrainPlain::suits(n)) return TrainPlain(n).run();
    at::Tensor result = output, own_mean = training && present(mean) ? mean : at::empty({0}, input.options()),
               invstd = training && present(saved) ? saved : at::empty({0}, input.options());
    at::cpu::native_batch_norm_outf(input, if_present(weight), if_present(bias), if_present(running_mean),
                                    if_present(running_var), training, momentum, eps, result, own_mean, invstd);
    if (training && present(saved)) to_saved(invstd, eps);
    return;
  }
  // CPU kernels want parameters of one type.
  at::Tensor mean_state = widened(running_mean), var_state = widened(running_var);
  auto [out, own_mean, invstd] = at::native_batch_norm(widened(input), if_present(widened(weight)), if_present(widened(bias)),
                                                       if_present(mean_state), if_present(var_state), training, momentum, eps);
  put(output, out);
  if (!training) return;
  put(running_mean, mean_state);
  put(running_var, var_state);
  if (present(mean)) put(mean, own_mean);
  to_saved(invstd, eps);
  if (present(saved)) put(saved, invstd);
}

// The same through float32, for which the kernels above are.
void normalize_widened(const BatchNorm& n, bool training) {
  const at::Tensor input = widened(n.input), weight = widened(n.weight), bias = widened(n.bias),
                   mean_state = widened(n.running_mean), var_state = widened(n.running_var), output = at::empty_like(input),
                   mean = widened(n.mean), saved = widened(n.saved);
  normalize({input, weight, bias, mean_state, var_state, n.momentum, n.eps, output, mean, saved}, training);
  put(n.output, output);
  if (!training) return;
  for (const auto& [to, from] :
       {std::pair(n.running_mean, mean_state), {n.running_var, var_state}, {n.mean, mean}, {n.saved, saved}})
    if (present(to)) put(to, from);
}

}  // namespace

OP(aclnnBatchNorm) {
  require_channels(input, {&weight, &bias, &runningMean, &runningVar});
  if (training) require_channels(input, {&saveMean, &saveInvstd});
  TORCH_CHECK(training || (present(runningMean) && present(runningVar)), "batch norm: no statistics");
  const BatchNorm all{input, weight, bias, runningMean, runningVar, momentum, eps, output, saveMean, saveInvstd};
  low_precision(input) ? normalize_widened(all, training) : normalize(all, training);
}
#define BATCH_NORM_BACKWARD(NAME)                                                                                  \
  OP(NAME) {                                                                                                       \
    const Placement placement(gradInput);                                                                          \
    require_channels(input, {&weight, &runningMean, &runningVar, &saveMean, &saveInvstd});                         \
    if (input.numel() == 0) return no_gradient({gradInput, gradWeight, gradBias}, outputMask);                     \
    TORCH_CHECK(training ? present(saveMean) && present(saveInvstd) : present(runningMean) && present(runningVar), \
                "batch norm: no statistics");                                                                      \
    const auto [grad, grad_weight, grad_bias] = at::native_batch_norm_backward(                                    \
        widened(gradOut), widened(input), if_present(widened(weight)), if_present(widened(runningMean)),           \
        if_present(widened(runningVar)), training ? if_present(widened(saveMean)) : std::nullopt,                  \
        training ? maybe(from_saved(saveInvstd, eps)) : std::nullopt, training, eps,                               \
        {outputMask.at(0), outputMask.at(1), outputMask.at(2)});                                                   \
    put(gradInput, grad, outputMask.at(0));                                                                        \
    put(gradWeight, grad_weight, outputMask.at(1));                                                                \
    put(gradBias, grad_bias, outputMask.at(2));                                                                    \
  }
BATCH_NORM_BACKWARD(aclnnBatchNormBackward)
BATCH_NORM_BACKWARD(aclnnFastBatchNormBackward)

namespace {

std::vector<int64_t> all_but_channel(const at::Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i != 1) dims.push_back(i);
  }
  return dims;
}
// [C] shaped to broadcast against x.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = x.size(1);
  return widened(values).reshape(sizes);
}

}  // namespace

OP(aclnnBatchNormStats) {
  const auto [variance, average] = at::var_mean(widened(input), all_but_channel(input), 0);
  put(mean, average);
  put(invstd, at::rsqrt(variance + eps));
}
OP(aclnnBatchNormElemt) {
  at::Tensor scale = per_channel(invstd, input);
  if (weight.defined()) scale = scale * per_channel(weight, input);
  at::Tensor result = (widened(input) - per_channel(mean, input)).mul_(scale);
  if (bias.defined()) result.add_(per_channel(bias, input));
  put(output, result);
}
OP(aclnnBatchNormGatherStatsWithCounts) {
  const at::Tensor counted = counts.to(wide_type(mean)).view({-1, 1});
  const at::Tensor total = counted.sum();
  const at::Tensor average = (widened(mean) * counted).sum(0) / total;
  const at::Tensor spread_within = widened(invstd).pow(-2) - eps, apart = (widened(mean) - average).square();
  const at::Tensor variance = ((spread_within + apart) * counted).sum(0) / total;
  put(meanAll, average);
  put(invstdAll, at::rsqrt(variance + eps));
  if (runningMean.defined()) runningMean.mul_(1 - momentum).add_(average, momentum);
  if (runningVar.defined()) runningVar.mul_(1 - momentum).add_(variance * (total / (total - 1)), momentum);
}
OP(aclnnBatchNormReduce) {
  const at::Tensor wide = widened(x);
  put(sum, wide.sum(all_but_channel(x)));
  put(squareSum, wide.square().sum(all_but_channel(x)));
}
OP(aclnnSyncBatchNormGatherStats) {
  const at::Tensor total = sampleCount.to(at::kFloat).sum();
  const at::Tensor average = widened(totalSum).sum(0) / total;
  const at::Tensor spread_out = widened(totalSquareSum).sum(0) / total - average.square();
  put(batchMean, average);
  put(batchInvstd, at::rsqrt(spread_out + eps));
  mean.mul_(1 - momentum).add_(average, momentum);
  variance.mul_(1 - momentum).add_(spread_out * (total / (total - 1)), momentum);
}
OP(aclnnBatchNormReduceBackward) {
  const at::Tensor grad = widened(gradOut);
  const at::Tensor by_bias = grad.sum(all_but_channel(input));
  const at::Tensor by_scale = (grad * (widened(input) - per_channel(mean, input))).sum(all_but_channel(input));
  put(sumDy, by_bias, inputG);
  put(sumDyXmu, by_scale, inputG);
  put(gradWeight, by_scale * widened(invstd), weightG);
  put(gradBias, by_bias, biasG);
}
OP(aclnnBatchNormElemtBackward) {
  const at::Tensor total = counter.to(at::kFloat).sum();
  const at::Tensor inverse = per_channel(invstd, input);
  const at::Tensor slope = per_channel(sumDyXmu, input) / total * inverse.square();
  at::Tensor scale = inverse;
  if (weight.defined()) scale = scale * per_channel(weight, input);
  const at::Tensor centered = widened(input) - per_channel(mean, input);
  put(gradInput, (widened(gradOut) - per_channel(sumDy, input) / total - centered * slope) * scale);
}
OP(aclnnInstanceNorm) {
  TORCH_CHECK(std::string_view(dataFormat) == "NCHW" || !*dataFormat, "aclnnInstanceNorm: dataFormat ", dataFormat,
              " is not supported");
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  const at::Tensor wide = widened(x);
  const auto [spread_out, average] = at::var_mean(wide, dims, 0, true);
  put(y, (wide - average) * at::rsqrt(spread_out + eps) * per_channel(gamma, x) + per_channel(beta, x));
  put(mean, average);
  put(variance, spread_out);
}

namespace {

double integers_cost(const at::Tensor& input) {
  if (given(input) && (input.dim() != 4 || !at::isIntegralType(input.scalar_type(), false)))
    invalid("aclnnQuantizedBatchNorm: input is a whole number's [N, C, H, W]");
  return bytes(input);
}

}  // namespace

OP_COST(aclnnQuantizedBatchNorm, integers_cost(input)) {
  at::Tensor value = (input.to(at::kFloat) - inputZeroPoint) * inputScale;
  value = (value - per_channel(mean, input)) * per_channel(at::rsqrt(widened(var) + static_cast<double>(epsilon)), input);
  if (given(weight)) value = value * per_channel(weight, input);
  if (given(bias)) value = value + per_channel(bias, input);
  const at::Tensor steps = at::round((value / outputScale + outputZeroPoint).to(at::kDouble));
  const bool word = output.scalar_type() == at::kInt, byte = output.scalar_type() == at::kByte;
  put(output, word ? steps.clamp(-2147483648.0, 2147483647.0) : byte ? steps.clamp(0, 255) : steps.clamp(-128, 127));
}
