#include "op/kernels/rectifier.h"

#include <ATen/Parallel.h>
#include <algorithm>

#include "op/clones.h"
#include "rt/bulk.h"

// Note [Results past the cache]
// A result that is larger than the caches is read into them line by line before it is overwritten, and so moves three times
// where it could move once. Here a strip of it is computed into the nearest cache and copied from there past all of them.
namespace softcann::op {
namespace {

constexpr int64_t strip = 2048;     // floats
constexpr int64_t grain = 1 << 18;  // floats of a thread

SOFTCANN_CLONES void rectify(const float* __restrict values, int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = values[i] < 0 ? 0 : values[i];
}
SOFTCANN_CLONES void cut(const float* __restrict grad, const float* __restrict values, float threshold, int64_t count,
                         float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = values[i] <= threshold ? 0 : grad[i];
}

bool passes_cache(const at::Tensor& out, const at::Tensor& in) {
  if (out.nbytes() < kBulkBytes || out.scalar_type() != at::kFloat || in.scalar_type() != at::kFloat ||
      out.sizes() != in.sizes() || out.strides() != in.strides() || !out.is_non_overlapping_and_dense()) {
    return false;
  }
  const auto a = reinterpret_cast<uintptr_t>(out.const_data_ptr()), b = reinterpret_cast<uintptr_t>(in.const_data_ptr());
  return a - b >= out.nbytes() && b - a >= out.nbytes();
}

// compute(first, count, to) for all strips.
template <class Compute>
void in_strips(const at::Tensor& out, const Compute& compute) {
  float* const to = out.mutable_data_ptr<float>();
  at::parallel_for(0, out.numel(), grain, [&](int64_t begin, int64_t end) {
    alignas(64) float values[strip];
    for (int64_t i = begin; i < end; i += strip) {
      const int64_t count = std::min(strip, end - i);
      compute(i, count, values);
      stream_bytes(to + i, values, static_cast<size_t>(count) * sizeof(float));
    }
  });
}

}  // namespace

bool bulk_relu(const at::Tensor& self, const at::Tensor& out) {
  if (!passes_cache(out, self)) return false;
  const float* from = self.const_data_ptr<float>();
  in_strips(out, [from](int64_t first, int64_t count, float* to) { rectify(from + first, count, to); });
  return true;
}

bool bulk_threshold_gradient(const at::Tensor& grad, const at::Tensor& self, double threshold, const at::Tensor& out) {
  if (!passes_cache(out, grad) || !passes_cache(out, self)) return false;
  const float *grads = grad.const_data_ptr<float>(), *values = self.const_data_ptr<float>();
  const auto limit = static_cast<float>(threshold);
  in_strips(out, [=](int64_t first, int64_t count, float* to) { cut(grads + first, values + first, limit, count, to); });
  return true;
}

}  // namespace softcann::op
