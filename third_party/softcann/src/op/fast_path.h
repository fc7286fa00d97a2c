// Small contiguous tensors of one dtype: a loop, where ATen's iterator would cost ten times the arithmetic.
// Results are bit for bit ATen's; where that cannot be had, the fast path says no (returns false).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "op/for_types.h"
#include "op/simd/thresholds.h"

namespace softcann::op::fast {

using Impl = c10::TensorImpl;
[[gnu::always_inline]] inline Impl* impl(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }
[[gnu::always_inline]] inline char* data(const Impl* tensor) {
  return static_cast<char*>(tensor->unsafe_storage().unsafeGetStorageImpl()->mutable_data()) +
         tensor->storage_offset() * static_cast<int64_t>(tensor->itemsize());
}
[[gnu::always_inline]] inline int64_t limit(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? threshold::small_loop_half : threshold::small_loop;
}
[[gnu::always_inline]] inline bool small(const Impl* out) {
  return out->numel() <= threshold::small_loop && out->is_contiguous();
}
[[gnu::always_inline]] inline bool same_layout(const Impl* in, const Impl* out) {
  const auto a = in->sizes(), b = out->sizes();
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return in->is_contiguous();
}
// How often `in`, without gaps, repeats to fill `out`: its dimensions are out's last ones. 0: it does not.
[[gnu::always_inline]] inline int64_t repeats(const Impl* in, const Impl* out) {
  const auto a = in->sizes(), b = out->sizes();
  if (a.size() > b.size() || !in->is_contiguous() || in->numel() == 0) return 0;
  for (size_t i = 0, skipped = b.size() - a.size(); i < a.size(); ++i) {
    if (a[i] != b[i + skipped]) return 0;
  }
  return out->numel() / in->numel();
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
  if (for_types<float, double, at::Half, at::BFloat16>(type, body)) return true;
  if constexpr (Integers) return for_types<int64_t, int32_t>(type, body);
  return false;
}

template <bool Integers, class F>
bool unary(const at::Tensor& self, const at::Tensor& out_tensor, F&& f) {
  const Impl *in = impl(self), *out = impl(out_tensor);
  const int64_t n = out->numel();
  if (!small(out) || in->dtype() != out->dtype() || !same_layout(in, out)) return false;
  const auto type = c10::typeMetaToScalarType(out->dtype());
  char *from = data(in), *to = data(out);
  if (n > limit(type) || !no_partial_overlap(from, to, n * static_cast<int64_t>(out->itemsize()))) return false;
  return for_type<Integers>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    const T* a = reinterpret_cast<const T*>(from);
    T* o = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(f(static_cast<C>(a[i])));
  });
}

// out = f(self, other), where other may be a single element or a row for all rows. `Result` void: of the operands' dtype,
// else of that type.
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
  const int64_t rows = one ? 1 : repeats(right, out);
  if (rows == 0 && n != 0) return false;
  const auto type = c10::typeMetaToScalarType(left->dtype());
  char *a_data = data(left), *b_data = data(right), *o_data = data(out);
  const int64_t size = n * static_cast<int64_t>(std::max(left->itemsize(), out->itemsize()));
  if (n > limit(type) || !no_partial_overlap(a_data, o_data, size)) return false;
  if (!no_partial_overlap(b_data, o_data, size) || ((one || rows > 1) && n > 1 && b_data == o_data)) return false;
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
      const int64_t width = rows ? n / rows : 0;
      for (int64_t row = 0; row < rows; ++row, a += width, o += width) {
#pragma GCC ivdep
        for (int64_t i = 0; i < width; ++i) o[i] = static_cast<R>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
      }
    }
  });
}

// Logic on the bits of whole numbers and truth values, whatever their type: f(byte, byte).
template <class F>
bool bitwise(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out_tensor, F&& f) {
  const Impl *left = impl(self), *right = impl(other), *out = impl(out_tensor);
  if (!small(out) || left->dtype() != out->dtype() || right->dtype() != out->dtype()) return false;
  if (!c10::isIntegralType(c10::typeMetaToScalarType(out->dtype()), true) || !same_layout(left, out) || !same_layout(right, out))
    return false;
  const int64_t size = out->numel() * static_cast<int64_t>(out->itemsize());
  const char *a = data(left), *b = data(right);
  char* o = data(out);
  if (!no_partial_overlap(a, o, size) || !no_partial_overlap(b, o, size)) return false;
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) o[i] = static_cast<char>(f(a[i], b[i]));
  return true;
}

// out = f(self, number). ATen multiplies with the number in the type it computes in, but adds and compares it in the tensor's.
template <bool Integers, class Result = void, bool Rounded = !std::is_void_v<Result>, class F>
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
  if (other.type() == c10::ScalarType::UInt64) return false;  // more than an int64_t holds
  char *from = data(in), *to = data(out);
  const int64_t size = n * static_cast<int64_t>(std::max(in->itemsize(), out->itemsize()));
  if (n > limit(type) || !no_partial_overlap(from, to, size)) return false;
  return for_type<Integers>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    using R = std::conditional_t<std::is_void_v<Result>, T, Result>;
    C value = other.isFloatingPoint() ? static_cast<C>(other.toDouble()) : static_cast<C>(other.toLong());
    if constexpr (Rounded) value = static_cast<C>(static_cast<T>(value));
    const T* a = reinterpret_cast<const T*>(from);
    R* o = reinterpret_cast<R*>(to);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(f(static_cast<C>(a[i]), value));
  });
}

template <class F>
bool added(const at::Tensor& self, const at::Scalar& other, const at::Tensor& out, F&& f) {
  return with_scalar<true, void, true>(self, other, out, std::forward<F>(f));
}

// Bounds that are numbers; a NaN keeps itself, an equal bound changes nothing, not even the sign of a zero.
inline bool clamp(const at::Tensor& self, const at::Scalar& low, const at::Scalar& high, const at::Tensor& out) {
  const auto type = c10::typeMetaToScalarType(impl(out)->dtype());
  if ((type != at::kFloat && type != at::kDouble) || low.isComplex() || high.isComplex()) return false;
  const double from = low.toDouble(), to = high.toDouble();
  if (std::isnan(from) || std::isnan(to)) return false;
  return unary<false>(self, out, [from, to](auto x) {
    const auto least = static_cast<decltype(x)>(from), greatest = static_cast<decltype(x)>(to);
    x = x < least ? least : x;
    return x > greatest ? greatest : x;
  });
}

// Tensors of float32 as `out` is, of up to `limit` elements and without gaps: for loops over plain arrays.
template <class... In>
bool plain_floats_to(int64_t limit, const at::Tensor& out_tensor, const In&... inputs) {
  const Impl* out = impl(out_tensor);
  if (out->numel() > limit || !out->is_contiguous() || out->dtype() != caffe2::TypeMeta::Make<float>()) return false;
  const int64_t size = out->numel() * static_cast<int64_t>(sizeof(float));
  const auto suits = [&](const Impl* in) {
    return in->dtype() == out->dtype() && same_layout(in, out) && no_partial_overlap(data(in), data(out), size);
  };
  return (suits(impl(inputs)) && ...);
}
template <class... In>
bool plain_floats(const at::Tensor& out, const In&... inputs) {
  return plain_floats_to(threshold::small_loop, out, inputs...);
}
inline float* floats(const at::Tensor& tensor) { return reinterpret_cast<float*>(data(impl(tensor))); }

// A factor as the loops over floats take it. False for what ATen has to look at: it refuses numbers beyond the type.
inline bool as_float(const at::Scalar& value, float* result) {
  if (value.isComplex()) return false;
  const double number = value.toDouble();
  *result = static_cast<float>(number);
  return std::isfinite(*result) || !std::isfinite(number);
}

inline bool is_one(const at::Scalar& value) {
  return value.isIntegral(false) ? value.toLong() == 1 : value.isFloatingPoint() && value.toDouble() == 1.0;
}

// Same dtype and layout: a memcpy.
inline bool copy(const at::Tensor& self, const at::Tensor& src) {
  const Impl *out = impl(self), *in = impl(src);
  if (in->dtype() != out->dtype() || !out->is_contiguous() || !same_layout(in, out)) return false;
  const size_t size = static_cast<size_t>(out->numel()) * out->itemsize();
  if (size > static_cast<size_t>(threshold::small_copy_bytes)) return false;
  if (size) std::memmove(data(out), data(in), size);
  return true;
}

// Tensors of one dtype without gaps, one after the other in each of the outer dimensions.
inline bool concatenate(at::TensorList tensors, int64_t dim, const at::Tensor& out_tensor) {
  const Impl* out = impl(out_tensor);
  const int64_t dims = static_cast<int64_t>(out->sizes().size());
  const size_t size = static_cast<size_t>(out->numel()) * out->itemsize();
  if (dim < 0) dim += dims;
  if (size > static_cast<size_t>(threshold::small_copy_bytes) || dim < 0 || dim >= dims || !out->is_contiguous()) return false;
  int64_t outer = 1, along = 0;
  for (int64_t i = 0; i < dim; ++i) outer *= out->sizes()[i];
  char* const begin = data(out);
  for (const at::Tensor& tensor : tensors) {
    const Impl* in = impl(tensor);
    if (in->dtype() != out->dtype() || !in->is_contiguous() || static_cast<int64_t>(in->sizes().size()) != dims) return false;
    for (int64_t i = 0; i < dims; ++i) {
      if (i != dim && in->sizes()[i] != out->sizes()[i]) return false;
    }
    const char* from = data(in);
    if (from < begin + size && begin < from + in->numel() * static_cast<int64_t>(in->itemsize())) return false;
    along += in->sizes()[dim];
  }
  if (along != out->sizes()[dim] || !size) return false;
  const size_t row = size / static_cast<size_t>(outer);
  char* place = begin;
  for (const at::Tensor& tensor : tensors) {
    const Impl* in = impl(tensor);
    const size_t part = static_cast<size_t>(in->numel()) * in->itemsize() / static_cast<size_t>(outer);
    const char* from = data(in);
    if (part) {
      for (int64_t i = 0; i < outer; ++i)
        std::memcpy(place + static_cast<size_t>(i) * row, from + static_cast<size_t>(i) * part, part);
    }
    place += part;
  }
  return true;
}

inline bool fill(const at::Tensor& self, const at::Scalar& value) {
  const Impl* out = impl(self);
  if (!small(out) || value.isComplex()) return false;
  const auto type = c10::typeMetaToScalarType(out->dtype());
  if (c10::isIntegralType(type, false) && !value.isIntegral(false)) return false;
  if (value.type() == c10::ScalarType::UInt64) return false;  // more than an int64_t holds
  // ATen refuses numbers that the type cannot hold.
  constexpr double always_fits = 60000;
  if (value.isFloatingPoint() && std::isfinite(value.toDouble()) && std::abs(value.toDouble()) > always_fits) return false;
  if (value.isIntegral(false) && std::abs(static_cast<double>(value.toLong())) > always_fits) return false;
  return for_type<true>(type, [&](auto tag) {
    using T = decltype(tag);
    using C = typename Compute<T>::type;
    const T element = static_cast<T>(value.isFloatingPoint() ? static_cast<C>(value.toDouble()) : static_cast<C>(value.toLong()));
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
