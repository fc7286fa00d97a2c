// Cost and shape check of elementwise operators.
#pragma once

#include <ATen/ExpandUtils.h>

#include "op/kernel.h"

namespace softcann::op {

constexpr double elementwise_call_ns = 400, elementwise_ns_per_element = 0.12;

// ArrayRef's own comparison calls memcmp.
[[gnu::always_inline]] inline bool same_sizes(at::IntArrayRef a, at::IntArrayRef b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

void refuse_shapes(const at::Tensor& out, const at::Tensor& in);  // throws: `in` does not broadcast to `out`

[[gnu::always_inline]] inline void check_broadcast(const at::Tensor& out, const at::Tensor& in) {
  if (!in.defined() || !out.defined()) return;
  const auto *from = in.unsafeGetTensorImpl(), *to = out.unsafeGetTensorImpl();
  if (__builtin_expect(same_sizes(from->sizes(), to->sizes()) || from->numel() == 1, 1)) return;
  if (!at::is_expandable_to(from->sizes(), to->sizes())) refuse_shapes(out, in);
}

// Nanoseconds; refuses inputs that do not broadcast to the output's shape.
template <class... In>
[[gnu::always_inline]] inline double elementwise(const at::Tensor& out, const In&... in) {
  (check_broadcast(out, in), ...);
  const double elements = out.defined() ? static_cast<double>(out.unsafeGetTensorImpl()->numel()) : 0;
  return elementwise_call_ns + elementwise_ns_per_element * elements * (1 + sizeof...(in));
}

}  // namespace softcann::op
