// Small contiguous tensors of one dtype: a loop, where ATen's iterator would cost ten times the arithmetic.
// Results are bit for bit ATen's; where that cannot be had, the fast path says no (returns false).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <algorithm>
#include <cmath>
#include <cstring>

namespace softcann::op::fast {

constexpr int64_t most = 1024;        // elements; beyond, ATen's wider vectors win
constexpr int64_t most_divided = 256; // divisions and roots gain most from these vectors
constexpr int64_t most_reduced = 64;  // bfloat16 and half are converted one by one

using Impl = c10::TensorImpl;
[[gnu::always_inline]] inline Impl* impl(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl();
}
[[gnu::always_inline]] inline char* data(const Impl* tensor) {
  return static_cast<char*>(tensor->unsafe_storage().unsafeGetStorageImpl()->mutable_data()) +
      tensor->storage_offset() * static_cast<int64_t>(tensor->itemsize());
}
[[gnu::always_inline]] inline int64_t limit(at::ScalarType type, int64_t full = most) {
  return type == at::kHalf || type == at::kBFloat16 ? most_reduced : full;
}
[[gnu::always_inline]] inline bool small(const Impl* out) {
  return out->numel() <= most && out->is_contiguous();
}
[[gnu::always_inline]] inline bool same_layout(const Impl* in, const Impl* out) {
  const auto a = in->sizes(), b = out->sizes();
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return in->is_contiguous();
}
// One is the other, or they have no byte in common.
[[gnu::always_inline]] inline bool no_partial_overlap(const char* a, const char* b, int64_t bytes) {
  return a == b || a + bytes <= b || b + bytes <= a;
}

template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<at::Half> {
  using type = float;
};
template <>
struct Compute<at::BFloat16> {
  using type = float;
};

// Calls body(T()) for the dtype; false when it is none of these.
template <bool Integers, class Body>
bool for_type(at::ScalarType type, Body&& body) {
  switch (type) {
    case at::kFloat: body(float()); return true;
    case at::kDouble: body(double()); return true;
    case at::kHalf: body(at::Half()); return true;
    case at::kBFloat16: body(at::BFloat16()); return true;
    case at::kLong:
      if constexpr (Integers) { body(int64_t()); return true; }
      return false;
    case at::kInt:
      if constexpr (Integers) { body(int32_t()); return true; }
      return false;
    default: return false;
  }
}

template <bool Integers, class F>
bool unary(const at::Tensor& self, const at::Tensor& out_tensor, F&& f, int64_t full = most) {
  const Impl *in = impl(self), *out = impl(out_tensor);
  const int64_t n = out->numel();
  if (!small(out) || in->dtype() != out->dtype() || !same_layout(in, out)) return false;
  const auto type = c10::typeMetaToScalarType(out->dtype());
  char *from = data(in), *to = data(out);
  if (n > limit(type, full) || !no_partial_overlap(from, to, n * static_cast<int64_t>(out->itemsize()))) return false;
  return for_type<Integers>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    const T* a = reinterpret_cast<const T*>(from);
    T* o = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(f(static_cast<C>(a[i])));
  });
}

// out = f(self, other), where other may be a single element. `Result` void: of the operands' dtype, else of that type.
template <bool Integers, class Result = void, class F>
bool binary(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out_tensor, F&& f) {
  const Impl *left = impl(self), *right = impl(other), *out = impl(out_tensor);
  const int64_t n = out->numel();
  if (!small(out) || left->dtype() != right->dtype() || !same_layout(left, out)) return false;
  if constexpr (std::is_void_v<Result>) {
    if (left->dtype() != out->dtype()) return false;
  } else {
    if (out->dtype() != caffe2::TypeMeta::Make<Result>()) return false;
  }
  const bool one = right->numel() == 1 && right->dim() <= out->dim();
  if (!one && !same_layout(right, out)) return false;
  const auto type = c10::typeMetaToScalarType(left->dtype());
  char *a_data = data(left), *b_data = data(right), *o_data = data(out);
  const int64_t size = n * static_cast<int64_t>(std::max(left->itemsize(), out->itemsize()));
  if (n > limit(type) || !no_partial_overlap(a_data, o_data, size)) return false;
  if (!no_partial_overlap(b_data, o_data, size) || (one && n > 1 && a_data != b_data && b_data == o_data)) return false;
  return for_type<Integers>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    using R = std::conditional_t<std::is_void_v<Result>, T, Result>;
    const T *a = reinterpret_cast<const T*>(a_data), *b = reinterpret_cast<const T*>(b_data);
    R* o = reinterpret_cast<R*>(o_data);
    if (one) {
      const C value = static_cast<C>(b[0]);
      for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(f(static_cast<C>(a[i]), value));
    } else {
      for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
    }
  });
}

// out = f(self, number). ATen converts the number to the type it computes in.
template <bool Integers, class Result = void, class F>
bool with_scalar(const at::Tensor& self, const at::Scalar& other, const at::Tensor& out_tensor, F&& f) {
  const Impl *in = impl(self), *out = impl(out_tensor);
  const int64_t n = out->numel();
  if (!small(out) || !same_layout(in, out)) return false;
  if constexpr (std::is_void_v<Result>) {
    if (in->dtype() != out->dtype()) return false;
  } else {
    if (out->dtype() != caffe2::TypeMeta::Make<Result>()) return false;
  }
  const auto type = c10::typeMetaToScalarType(in->dtype());
  if (other.isComplex() || (c10::isIntegralType(type, true) && !other.isIntegral(true))) return false;
  char *from = data(in), *to = data(out);
  const int64_t size = n * static_cast<int64_t>(std::max(in->itemsize(), out->itemsize()));
  if (n > limit(type) || !no_partial_overlap(from, to, size)) return false;
  return for_type<Integers>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    using R = std::conditional_t<std::is_void_v<Result>, T, Result>;
    const C value = other.isFloatingPoint() ? static_cast<C>(other.toDouble()) : static_cast<C>(other.toLong());
    const T* a = reinterpret_cast<const T*>(from);
    R* o = reinterpret_cast<R*>(to);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(f(static_cast<C>(a[i]), value));
  });
}

inline bool is_one(const at::Scalar& value) {
  return value.isIntegral(false) ? value.toLong() == 1 : value.isFloatingPoint() && value.toDouble() == 1.0;
}

// Same dtype and layout: a memcpy.
constexpr size_t most_copied = 32 << 10;
inline bool copy(const at::Tensor& self, const at::Tensor& src) {
  const Impl *out = impl(self), *in = impl(src);
  if (in->dtype() != out->dtype() || !out->is_contiguous() || !same_layout(in, out)) return false;
  const size_t size = static_cast<size_t>(out->numel()) * out->itemsize();
  if (size > most_copied) return false;
  if (size) std::memmove(data(out), data(in), size);
  return true;
}

inline bool fill(const at::Tensor& self, const at::Scalar& value) {
  const Impl* out = impl(self);
  if (!small(out) || value.isComplex()) return false;
  const auto type = c10::typeMetaToScalarType(out->dtype());
  if (c10::isIntegralType(type, false) && !value.isIntegral(false)) return false;
  // ATen refuses numbers that the type cannot hold.
  constexpr double always_fits = 60000;
  if (value.isFloatingPoint() && std::isfinite(value.toDouble()) && std::abs(value.toDouble()) > always_fits) return false;
  if (value.isIntegral(false) && std::abs(static_cast<double>(value.toLong())) > always_fits) return false;
  return for_type<true>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    const T element = static_cast<T>(value.isFloatingPoint() ? static_cast<C>(value.toDouble())
                                                             : static_cast<C>(value.toLong()));
    std::fill_n(reinterpret_cast<T*>(data(out)), out->numel(), element);
  });
}

inline bool zero(const at::Tensor& self) {
  const Impl* out = impl(self);
  if (!small(out)) return false;
  if (out->numel()) std::memset(data(out), 0, static_cast<size_t>(out->numel()) * out->itemsize());
  return true;
}

}  // namespace softcann::op::fast
