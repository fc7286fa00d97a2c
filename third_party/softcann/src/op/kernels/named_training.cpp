// Operators that clients name: what training needs beside the layers, and operators that move elements. Inputs, outputs and
// attributes are those of CANN's operators of these names.
#include <ATen/ATen.h>
#include <atomic>

#include "op/kernels/common.h"
#include "op/kernels/random.h"
#include "op/named.h"
#include "rt/device/overflow.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;
using Numbers = std::vector<float>;

}  // namespace

// var, m, v, lr, beta1, beta2, epsilon, grad, max_grad_norm, global_grad_norm, weight_decay, step_size; var, m and v again.
NAMED(ApplyAdamV2) {
  const auto mode = call.attribute<std::string>("adam_mode", "adam");
  TORCH_CHECK(mode == "adam" || mode == "mbart_adam", "adam_mode ", mode, " is not known");
  const bool plain = mode == "adam";
  at::Tensor grad = widened(call.in(7));
  const double lr = call.number(3), beta1 = call.number(4), beta2 = call.number(5), most = call.number(8), norm = call.number(9),
               decay = call.number(10);
  if (plain && most > 0 && norm > most) grad = grad * (most / norm);
  const at::Tensor var = widened(call.in(0)), m = widened(call.in(1)) * beta1 + grad * (1 - beta1),
                   v = widened(call.in(2)) * beta2 + grad.square() * (1 - beta2), step = m / (v.sqrt() + call.number(6));
  put(call.out(0), plain ? var - lr * (step + decay * var) : (var - call.number(11) * step) * (1 - lr * decay));
  put(call.out(1), m);
  put(call.out(2), v);
}

// Scores and probabilities [N, C]: the loss [N], and its gradient for the scores.
NAMED(SoftmaxCrossEntropyWithLogits) {
  const at::Tensor scores = widened(call.in(0)), labels = widened(call.in(1));
  put(call.out(0), -(labels * at::log_softmax(scores, 1)).sum(1));
  put(call.out(1), at::softmax(scores, 1) * labels.sum(1, true) - labels);
}

NAMED(SiluGrad) { put(call.out(0), at::silu_backward(widened(call.in(0)), widened(call.in(1)))); }

// x, gamma, beta: y, mean, and one over the deviation.
NAMED(LayerNormV3) {
  const at::Tensor x = widened(call.in(0));
  auto first = call.attribute<int64_t>("begin_norm_axis", 0);
  if (first < 0) first += x.dim();
  TORCH_CHECK(first >= 0 && first < x.dim(), "begin_norm_axis ", first, " of ", x.dim(), " dimensions");
  const auto shape = x.sizes().slice(first);
  const auto part = [&](size_t i) { return call.in(i).defined() ? widened(call.in(i)).reshape(shape) : at::Tensor(); };
  const auto [y, mean, rstd] = at::native_layer_norm(x, shape, part(1), part(2), call.attribute("epsilon", 1e-7F));
  put(call.out(0), y);
  put(call.out(1), mean);
  put(call.out(2), rstd);
}

// [batch, features, steps], of which the first seq_len count: less their mean, over their deviation.
NAMED(NormalizeBatch) {
  const at::Tensor x = widened(call.in(0));
  const auto kind = call.attribute<std::string>("normalize_type", "per_feature");
  TORCH_CHECK(kind == "per_feature" || kind == "all_features", "normalize_type ", kind, " is not known");
  const bool all = kind == "all_features";
  const Integers dims = all ? Integers{1, 2} : Integers{2};
  const at::Tensor within = at::arange(x.size(2)).lt(call.in(1).to(at::kLong).reshape({-1, 1, 1})).to(x.scalar_type());
  const at::Tensor count = within.sum(dims, true) * (all ? x.size(1) : 1), mean = (x * within).sum(dims, true) / count;
  const at::Tensor deviation = (((x - mean).square() * within).sum(dims, true) / (count - 1)).sqrt();
  put(call.out(0), (x - mean) / (deviation + call.attribute("epsilon", 1e-5F)));
}

// Rows of x get value[i] from start[i, row] to end[i, row] along an axis; later ranges win.
NAMED(MaskedFillRange) {
  at::Tensor result = call.in(0).clone();
  auto axis = call.attribute<int64_t>("axis", -1);
  if (axis < 0) axis += result.dim();
  TORCH_CHECK(axis >= 0 && axis < result.dim(), "axis ", axis, " of ", result.dim(), " dimensions");
  const at::Tensor place = at::arange(result.size(axis));
  for (int64_t i = 0; i < call.in(1).size(0); ++i) {
    const at::Tensor hit = place.ge(call.in(1)[i].unsqueeze(1)).logical_and(place.lt(call.in(2)[i].unsqueeze(1)));
    Integers shape(static_cast<size_t>(result.dim()), 1);
    shape[axis] = result.size(axis);
    if (result.dim() > 1) shape[0] = hit.size(0);
    result.masked_fill_(hit.reshape(shape), call.in(3)[i].to(result.scalar_type()));
  }
  put(call.out(0), result);
}

// Signs [n] as bits, the lowest first, 1 where a number is not negative; and back, as 1 and -1.
NAMED(SignBitsPack) {
  const at::Tensor bits =
      at::constant_pad_nd(call.in(0).ge(0).to(at::kLong), {0, (8 - call.in(0).numel() % 8) % 8}).view({-1, 8});
  put(call.out(0), at::bitwise_left_shift(bits, at::arange(8)).sum(1).reshape(call.out(0).sizes()));
}
NAMED(SignBitsUnpack) {
  const at::Tensor bits = at::bitwise_right_shift(call.in(0).to(at::kLong).unsqueeze(-1), at::arange(8)).bitwise_and(1);
  put(call.out(0), (bits * 2 - 1).reshape(call.out(0).sizes()));
}

// Sums of 16 c1_len channels of each, from blocks of 16 on; what lies beyond the channels is 0.
NAMED(StrideAdd) {
  const int64_t count = 16 * call.attribute<int64_t>("c1_len", 0);
  const auto part = [&](size_t i, const char* offset) {
    const at::Tensor x = widened(call.in(i));
    const int64_t first = std::min(x.size(1), 16 * call.attribute<int64_t>(offset, 0)),
                  there = std::min(count, x.size(1) - first);
    Integers missing = x.sizes().vec();
    missing[1] = count - there;
    return at::cat({x.narrow(1, first, there), at::zeros(missing, x.options())}, 1);
  };
  put(call.out(0), part(0, "x1_c1_offset") + part(1, "x2_c1_offset"));
}

// The range in which int8 represents data best: data, its least and greatest value, running sums of its histogram between them;
// the scale and the offset.
NAMED(IFMR) {
  const at::Tensor data = widened(call.in(0)).flatten(), sums = widened(call.in(3)).flatten();
  const auto range = call.attribute<Numbers>("search_range", {});
  const float step = call.attribute("search_step", 0.01F);
  TORCH_CHECK(range.size() == 2 && step > 0 && range[1] >= range[0], "search_range is two numbers, search_step is positive");
  const double low = call.number(1), width = (call.number(2) - low) / static_cast<double>(sums.numel()),
               all = sums[-1].item<double>();
  const auto bins = [&](double share) { return sums.lt(share * all).sum().item<double>(); };
  const double upper = low + (bins(call.attribute("max_percentile", 1.0F)) + 1) * width,
               lower = low + bins(1 - call.attribute("min_percentile", 1.0F)) * width;
  const bool with_offset = call.attribute("with_offset", true);
  const auto steps = static_cast<int64_t>((range[1] - range[0]) / step + 1e-6) + 1;
  double best = std::numeric_limits<double>::infinity(), best_scale = 0, best_offset = 0;
  for (int64_t k = 0; k < steps; ++k) {
    const double factor = range[0] + step * static_cast<double>(k), top = upper * factor, bottom = lower * factor;
    const double scale = std::max(1e-12, with_offset ? (std::max(top, 0.0) - std::min(bottom, 0.0)) / 255
                                                     : std::max(std::abs(upper), std::abs(lower)) * factor / 127);
    const double offset = with_offset ? -std::nearbyint(std::min(bottom, 0.0) / scale) - 128 : 0;
    const at::Tensor stored = ((data / scale).round() + offset).clamp(-128, 127);
    const double error = ((stored - offset) * scale - data).square().sum().item<double>();
    if (error < best) {
      best = error;
      best_scale = scale;
      best_offset = offset;
    }
  }
  put(call.out(0), at::scalar_tensor(best_scale));
  put(call.out(1), at::scalar_tensor(best_offset));
}

namespace {

// A byte for each element, of masks longer than that; and what stays, by the share of what stays.
at::Tensor kept(const at::Tensor& value, const at::Tensor& mask, double share) {
  TORCH_CHECK(mask.numel() >= value.numel(), "a mask of ", mask.numel(), " bytes for ", value.numel(), " elements");
  const at::Tensor stays = mask.flatten().narrow(0, 0, value.numel()).reshape(value.sizes()).ne(0);
  return at::where(stays, value / share, 0.0);
}

}  // namespace

// Clients give the same seeds again and again: each mask is another all the same, and the same in the next run.
NAMED(DropOutGenMaskV3) {
  static std::atomic<int64_t> masks{0};
  at::Tensor drawn = at::empty({call.out(0).numel()}, at::kFloat);
  fill_uniform(drawn, 0, 1,
               key_of(call.attribute<int64_t>("seed", 0), call.attribute<int64_t>("seed2", 0) + 4 * drawn.numel() * masks++));
  put(call.out(0), drawn.lt(call.number(1)));
}
NAMED(DropOutDoMaskV3) { put(call.out(0), kept(widened(call.in(0)), call.in(1), call.number(2))); }
// softmax(x1 + alpha x2), and a dropout of it by a mask.
NAMED(AxpyWithSoftmaxAndDropOutDoMask) {
  const auto axis = call.attribute<Integers>("axis", {-1});
  TORCH_CHECK(axis.size() == 1, "axis is one number");
  const at::Tensor softmax = at::softmax(widened(call.in(0)) + widened(call.in(1)) * call.attribute("alpha", 1.0F), axis[0]);
  put(call.out(0), softmax);
  put(call.out(1), kept(softmax, call.in(2), call.attribute("input_keep_prob", 1.0F)));
}
NAMED(DropoutWithMulsAndSoftmaxGrad) {
  const auto axes = call.attribute<Integers>("axes", {-1});
  TORCH_CHECK(axes.size() == 1, "axes is one number");
  const at::Tensor softmax = widened(call.in(2)),
                   by = kept(widened(call.in(0)), call.in(1), call.attribute("input_keep_prob", 1.0F)) * softmax;
  put(call.out(0), (by - softmax * by.sum(axes[0], true)) * call.attribute("alpha", 1.0F));
}

// The overflow flag of devices that saturate (rt/device/overflow.h): the first of eight words. Those of the first version keep it
// in a tensor of the client's, which they change.
namespace {

void put_status(const at::Tensor& out) {
  out.zero_();
  if (softcann::overflow_noted()) out.flatten()[0].fill_(1);
}

}  // namespace

NAMED(NPUAllocFloatStatus) { call.out(0).zero_(); }
NAMED(NPUGetFloatStatusV2) { put_status(call.out(0)); }
NAMED(NPUGetFloatDebugStatus) { put_status(call.out(0)); }
NAMED(NPUGetFloatStatus) {
  put_status(call.in(0));
  put_status(call.out(0));
}
NAMED(NPUClearFloatStatusV2) { softcann::reset_overflow(); }
NAMED(NPUClearFloatDebugStatus) { softcann::reset_overflow(); }
NAMED(NPUClearFloatStatus) {
  softcann::reset_overflow();
  call.in(0).zero_();
  call.out(0).zero_();
}
