#include "op/kernels/tanh_gelu.h"

#include <ATen/Parallel.h>
#include <limits>

#include "op/simd/clones.h"
#include "op/fast_path.h"
#include "op/simd/lanes.h"
#include "op/simd/thresholds.h"

// Note [GELU by tanh]
// (1 + tanh u) / 2 is 1 / (1 + e^-2u), which takes an exponential and a division where ATen computes the tangent to the last
// place. It also keeps what 1 + tanh u cancels: the results of numbers far below zero.
namespace softcann::op {
namespace {

constexpr float slope = 0.79788456F, bend = 0.044715F;  // u = slope * (x + bend * x^3); slope is the root of 2 / pi

struct Gate {
  Lanes open, closed;  // 1 / (1 + e^-2u) and 1 less that
};
[[gnu::always_inline]] inline void gate_of(const Lanes& x, Gate& gate) {
  Lanes power = -2 * slope * x * (1 + bend * x * x);
  const IntLanes shut = power > 88.0F;  // the exponential would overflow
  power = shut ? Lanes{} + 88.0F : power;
  exponentiate(power);
  gate.open = shut ? Lanes{} : 1 / (1 + power);
  gate.closed = shut ? Lanes{} + 1.0F : power * gate.open;
}
[[gnu::always_inline]] inline void value_of(Lanes& x) {
  Gate gate;
  gate_of(x, gate);
  x *= gate.open;
}
[[gnu::always_inline]] inline void gradient_of(const Lanes& grad, Lanes& x) {
  constexpr float far = 64;  // from here on the gate is open or closed, and the square below must not become infinite
  x = x > far ? Lanes{} + far : x;
  x = x < -far ? Lanes{} - far : x;
  Gate gate;
  gate_of(x, gate);
  x = grad * (gate.open + 2 * slope * x * gate.open * gate.closed * (1 + 3 * bend * x * x));
}

SOFTCANN_CLONES void gelu_values(const float* from, float* out, int64_t count) {
  Lanes x;
  int64_t i = 0;
  for (; i + lane_count <= count; i += lane_count) {
    load(from + i, x);
    value_of(x);
    store(x, out + i);
  }
  if (i == count) return;
  load(from + i, count - i, 0, x);
  value_of(x);
  store(x, count - i, out + i);
}
SOFTCANN_CLONES void gelu_gradients(const float* grad, const float* from, float* out, int64_t count) {
  Lanes by_out, x;
  int64_t i = 0;
  for (; i + lane_count <= count; i += lane_count) {
    load(grad + i, by_out);
    load(from + i, x);
    gradient_of(by_out, x);
    store(x, out + i);
  }
  if (i == count) return;
  load(grad + i, count - i, 0, by_out);
  load(from + i, count - i, 0, x);
  gradient_of(by_out, x);
  store(x, count - i, out + i);
}

constexpr int64_t any_number = std::numeric_limits<int64_t>::max();

}  // namespace

bool tanh_gelu(const at::Tensor& self, const at::Tensor& out) {
  if (!fast::plain_floats_to(any_number, out, self)) return false;
  at::parallel_for(0, out.numel(), threshold::grain / 2, [&](int64_t begin, int64_t end) {
    gelu_values(fast::floats(self) + begin, fast::floats(out) + begin, end - begin);
  });
  return true;
}

bool tanh_gelu_gradient(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& result) {
  if (!fast::plain_floats_to(any_number, result, grad, self)) return false;
  at::parallel_for(0, result.numel(), threshold::grain / 2, [&](int64_t begin, int64_t end) {
    gelu_gradients(fast::floats(grad) + begin, fast::floats(self) + begin, fast::floats(result) + begin, end - begin);
  });
  return true;
}

}  // namespace softcann::op
