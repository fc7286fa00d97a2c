// Discrete Fourier transforms as matrix products: CANN has no operator for them that serves every length.
//
// Note [Transforms by products]
// A length n = n1 * n2 is done as n2 transforms of length n1, a multiplication by roots of unity, and n1 transforms of
// length n2. What does not split and is short is one product with the matrix of the transform, on interleaved real and
// imaginary parts; a long prime length becomes a convolution of a power of two (Bluestein). Roots are computed on the host in
// double, with the exponent reduced first, and kept on the device.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

constexpr int64_t kDirect = 64;         // up to here one product, whatever the factors
constexpr int64_t kLongestPrime = 512;  // beyond it a prime length is convolved

enum class Table { matrix, twiddles, chirp };

// Host tables in double: complex numbers as pairs.
at::Tensor host_table(Table kind, int64_t rows, int64_t columns, int64_t n, int sign) {
  const auto root = [&](int64_t power, int64_t order) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(power % order) / static_cast<double>(order);
    return std::pair(std::cos(angle), std::sin(angle));
  };
  const auto options = at::TensorOptions().dtype(at::kDouble);
  if (kind == Table::matrix) {  // [2n, 2n]: (re, im) in, (re, im) out
    auto table = at::empty({2 * n, 2 * n}, options);
    auto values = table.mutable_data_ptr<double>();
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) {
        const auto [c, s] = root(j * k, n);
        double* cell = values + 2 * j * 2 * n + 2 * k;
        cell[0] = c;
        cell[1] = s;
        cell[2 * n] = -s;
        cell[2 * n + 1] = c;
      }
    }
    return table;
  }
  auto table = at::empty({rows, columns, 2}, options);
  auto values = table.mutable_data_ptr<double>();
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t k = 0; k < columns; ++k) {
      // The chirp is exp(i pi k^2 / n), a root of order 2n.
      const auto [c, s] = kind == Table::twiddles ? root(j * k, n) : root(k * k % (2 * n), 2 * n);
      *values++ = c;
      *values++ = s;
    }
  }
  return table;
}

// Device tables by what they are of; the oldest are dropped, so that a program with many lengths does not collect them.
at::Tensor table_for(const at::Tensor& x, Table kind, int64_t rows, int64_t columns, int64_t n, int sign) {
  using Key = std::tuple<Table, int64_t, int64_t, int64_t, int, at::ScalarType, c10::DeviceIndex>;
  static std::mutex mutex;
  static auto* tables = new std::map<Key, at::Tensor>();
  const auto type = c10::toRealValueType(x.scalar_type());
  const Key key{kind, rows, columns, n, sign, type, x.device().index()};
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = tables->find(key); found != tables->end()) return found->second;
  }
  auto table = host_table(kind, rows, columns, n, sign).to(type).to(x.device());
  if (kind != Table::matrix) table = at::view_as_complex(table);
  std::lock_guard<std::mutex> lock(mutex);
  if (tables->size() >= 64) tables->erase(tables->begin());
  tables->emplace(key, table);
  return table;
}

// The factor of n nearest below its root; 1 for a prime.
int64_t split(int64_t n) {
  for (auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); factor > 1; --factor) {
    if (n % factor == 0) return factor;
  }
  return 1;
}

at::Tensor transform(const at::Tensor& x, int sign);

at::Tensor direct(const at::Tensor& x, int sign) {
  const auto rows = x.size(0), n = x.size(1);
  const auto matrix = table_for(x, Table::matrix, 0, 0, n, sign);
  return at::view_as_complex(at::view_as_real(x.contiguous()).view({rows, 2 * n}).matmul(matrix).view({rows, n, 2}));
}

at::Tensor bluestein(const at::Tensor& x, int sign) {
  const auto n = x.size(1);
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const auto chirp = table_for(x, Table::chirp, 1, n, n, sign);
  const auto inverse = chirp.conj().resolve_conj();
  const auto pad = [&](const at::Tensor& short_one, int64_t by) {
    return at::cat({short_one, at::zeros_like(short_one.narrow(1, 0, 1)).expand({short_one.size(0), by})}, 1);
  };
  const auto signal = pad(x.mul(chirp), length - n);
  // The kernel runs backwards into negative time, that is, from the end.
  const auto kernel = at::cat({pad(inverse, length - 2 * n + 1), inverse.narrow(1, 1, n - 1).flip({1})}, 1);
  const auto product = transform(signal, -1).mul(transform(kernel, -1));
  return transform(product, 1).narrow(1, 0, n).mul(chirp).div_(static_cast<double>(length));
}

// Along the last dimension of [rows, n], not normalized.
at::Tensor transform(const at::Tensor& x, int sign) {
  const auto rows = x.size(0), n = x.size(1);
  if (n <= kDirect) return direct(x, sign);
  const auto n1 = split(n), n2 = n / n1;
  if (n1 == 1) return n <= kLongestPrime ? direct(x, sign) : bluestein(x, sign);
  auto inner = transform(x.reshape({rows, n1, n2}).transpose(1, 2).reshape({rows * n2, n1}), sign).view({rows, n2, n1});
  inner = inner.mul(table_for(x, Table::twiddles, n2, n1, n, sign));
  const auto outer = transform(inner.transpose(1, 2).reshape({rows * n1, n2}), sign).view({rows, n1, n2});
  return outer.transpose(1, 2).reshape({rows, n});
}

at::Tensor along(const at::Tensor& x, int64_t dim, int sign) {
  const auto last = x.transpose(dim, -1);
  return transform(last.reshape({-1, x.size(dim)}), sign).view(last.sizes()).transpose(dim, -1);
}

// 0 none, 1 by the root of the number of elements, 2 by the number.
at::Tensor normalized(at::Tensor x, int64_t normalization, int64_t elements) {
  if (normalization == 0) return x;
  const auto number = static_cast<double>(elements);
  return x.mul_(normalization == 1 ? 1 / std::sqrt(number) : 1 / number);
}

// Note [Memory of a transform]
// A result lies in memory as torch's meta functions tell it: first the dimensions that are not transformed, by the strides
// of what they are read from, then the transformed ones.
at::DimVector by_strides(at::IntArrayRef dims, at::IntArrayRef strides) {
  at::DimVector sorted(dims);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return sorted;
}
at::DimVector order_of(at::IntArrayRef strides, at::IntArrayRef dims) {
  at::DimVector rest;
  for (int64_t dim = 0; dim < static_cast<int64_t>(strides.size()); ++dim) {
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) rest.push_back(dim);
  }
  auto order = by_strides(rest, strides);
  order.append(dims.begin(), dims.end());
  return order;
}
// In memory of its own.
at::Tensor in_order(const at::Tensor& value, at::IntArrayRef order) {
  at::DimVector inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  auto ordered = value.permute(order);
  if (!ordered.is_contiguous() || ordered.storage().nbytes() != ordered.nbytes())
    ordered = ordered.clone(at::MemoryFormat::Contiguous);
  return ordered.permute(inverse);
}
// Without MKL torch's meta functions of real transforms know no order.
at::Tensor in_order_of_mkl(const at::Tensor& value, at::IntArrayRef order) {
  return at::hasMKL() ? in_order(value, order) : value.clone(at::MemoryFormat::Contiguous);
}

int64_t count(const at::Tensor& x, at::IntArrayRef dims) {
  int64_t elements = 1;
  for (const auto dim : dims) elements *= x.size(dim);
  return elements;
}

}  // namespace

at::Tensor _fft_c2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  const NoAutocast as_called;
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex input, got ", self.scalar_type());
  if (dim.empty() || self.numel() == 0) return self.clone();
  auto x = self;
  for (const auto d : dim) x = along(x, d, forward ? -1 : 1);
  return normalized(in_order(x, order_of(self.strides(), by_strides(dim, self.strides()))), normalization, count(self, dim));
}

at::Tensor _fft_r2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  const NoAutocast as_called;
  TORCH_CHECK(self.is_floating_point(), "_fft_r2c: expected a floating input, got ", self.scalar_type());
  const auto last = dim.back();
  auto x = along(at::complex(self, at::zeros_like(self)), last, -1);
  if (onesided) x = x.narrow(last, 0, self.size(last) / 2 + 1);
  for (const auto d : dim.slice(0, dim.size() - 1)) x = along(x, d, -1);
  auto sorted = by_strides(dim.slice(0, dim.size() - 1), self.strides());
  sorted.push_back(last);
  return normalized(in_order_of_mkl(x, order_of(self.strides(), sorted)), normalization, count(self, dim));
}

at::Tensor _fft_c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  const NoAutocast as_called;
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex input, got ", self.scalar_type());
  const auto last = dim.back();
  auto x = self;
  const auto rest = dim.slice(0, dim.size() - 1);
  for (const auto d : rest) x = along(x, d, 1);
  // The other half of the spectrum is the conjugate of the first, backwards.
  const auto half = last_dim_size / 2 + 1;
  x = x.narrow(last, 0, half);
  if (last_dim_size > half) x = at::cat({x, x.narrow(last, 1, last_dim_size - half).flip({last}).conj().resolve_conj()}, last);
  const auto elements = count(self, rest) * last_dim_size;
  at::DimVector strides(self.strides());
  if (!rest.empty()) {  // as of _fft_c2c's result
    int64_t stride = 1;
    const auto order = order_of(self.strides(), by_strides(rest, self.strides()));
    for (auto place = order.rbegin(); place != order.rend(); ++place) {
      strides[*place] = stride;
      stride *= self.size(*place);
    }
  }
  return normalized(in_order_of_mkl(at::real(along(x, last, 1)), order_of(strides, {last})), normalization, elements);
}

at::Tensor& _fft_c2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward, at::Tensor& out) {
  return give(out, native::_fft_c2c(self, dim, normalization, forward));
}
at::Tensor& _fft_r2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided, at::Tensor& out) {
  return give(out, native::_fft_r2c(self, dim, normalization, onesided));
}
at::Tensor& _fft_c2r_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size,
                         at::Tensor& out) {
  return give(out, native::_fft_c2r(self, dim, normalization, last_dim_size));
}

}  // namespace torch_npu::native
