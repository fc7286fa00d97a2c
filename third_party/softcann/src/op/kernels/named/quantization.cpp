// Operators that clients name: numbers for quantization, and signs as bits.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

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

// Signs [n] as bits, the lowest first, 1 where a number is not negative; and back, as 1 and -1.
NAMED(SignBitsPack) {
  const at::Tensor bits =
      at::constant_pad_nd(call.in(0).ge(0).to(at::kLong), {0, (8 - call.in(0).numel() % 8) % 8}).view({-1, 8});
  put_reshaped(call.out(0), at::bitwise_left_shift(bits, at::arange(8)).sum(1));
}
NAMED(SignBitsUnpack) {
  const at::Tensor bits = at::bitwise_right_shift(call.in(0).to(at::kLong).unsqueeze(-1), at::arange(8)).bitwise_and(1);
  put_reshaped(call.out(0), bits * 2 - 1);
}
