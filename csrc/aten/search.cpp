// Scans, modes and reductions by index, composed of sorting, scanning and scattering.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include "aten/argument_checks.h"
#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {

// In the sorted order equal elements are runs: the longest one wins, of equally long ones that of the smallest value.
std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "mode()");
  if (self.dim() == 0) return {self.clone(), at::zeros_like(self, self.options().dtype(at::kLong))};
  auto sizes = at::DimVector(self.sizes());
  if (keepdim)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  if (self.numel() == 0) return {make(shaped(self, sizes)), make(shaped(self, sizes, at::kLong))};
  const auto [values, places] = self.sort(/*stable=*/true, dim, /*descending=*/false);
  const auto n = self.size(dim);
  auto shape = at::DimVector(self.dim(), 1);
  shape[dim] = n;
  const auto position = at::arange(n, self.options().dtype(at::kLong)).view(shape).expand(self.sizes());
  auto begins = at::ones_like(position).to(at::kBool);
  if (n > 1) begins.narrow(dim, 1, n - 1).copy_(values.narrow(dim, 1, n - 1).ne(values.narrow(dim, 0, n - 1)));
  const auto start = std::get<0>(at::cummax(position.mul(begins), dim));
  const auto last = position.sub(start).argmax(dim, true);
  auto value = values.gather(dim, last), index = places.gather(dim, last);
  return keepdim ? std::tuple(value, index) : std::tuple(value.squeeze(dim), index.squeeze(dim));
}

std::tuple<at::Tensor&, at::Tensor&> mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                              at::Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "expected scalar type '", self.scalar_type(), "' but got '",
              values.scalar_type(), "' for values output");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type 'Long' but got '", indices.scalar_type(),
              "' for indices output");
  check_apart(values, {self});
  check_apart(indices, {self});
  const auto [value, index] = native::mode(self, dim, keepdim);
  give(values, value);
  give(indices, index);
  return {values, indices};
}

// Doubling steps: after step k each element holds the sum of 2^k before it.
at::Tensor _logcumsumexp(const at::Tensor& self, int64_t dim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto sum = widened(self).clone();
  if (self.dim() == 0 || self.numel() == 0) return cast(sum, self.scalar_type());
  const auto n = self.size(dim);
  // The imaginary part counts the turns that the sums make on their way, so the way has to be the CPU's.
  if (sum.is_complex()) {
    auto sums = sum.split(1, dim);
    for (size_t i = 1; i < sums.size(); ++i) sums[i] = at::logaddexp(sums[i - 1], sums[i]);
    return cast(at::cat(sums, dim), self.scalar_type());
  }
  for (int64_t step = 1; step < n; step *= 2) {
    const auto rest = at::logaddexp(sum.narrow(dim, step, n - step), sum.narrow(dim, 0, n - step));
    sum = at::cat({sum.narrow(dim, 0, step), rest}, dim);
  }
  return cast(sum, self.scalar_type());
}
at::Tensor& _logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  check_apart(out, {self});
  return give(out, native::_logcumsumexp(self, dim));
}

void index_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                         std::string_view reduce, bool include_self, const at::Tensor& out) {
  auto& target = result(out);
  if (!target.is_same(self)) target.copy_(self);
  if (index.numel() == 0) return;
  auto place = index.reshape({-1});
  if (source.dim() == 0) {
    target.view({1}).scatter_reduce_(0, place, source.view({1}), reduce, include_self);
    return;
  }
  auto shape = at::DimVector(source.dim(), 1);
  shape[dim] = place.numel();
  target.scatter_reduce_(dim, place.view(shape).expand(source.sizes()), source, reduce, include_self);
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  auto places = at::full({size, self.dim()}, fill_value, self.options().dtype(at::kLong));
  const auto found = self.nonzero();
  const auto count = std::min(size, found.size(0));
  places.narrow(0, 0, count).copy_(found.narrow(0, 0, count));
  return places;
}
at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  return give(out, native::nonzero_static(self, size, fill_value));
}

std::tuple<at::Tensor, at::Tensor> _unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  const auto [values, inverse, counts] = at::_unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  return give(out, self.narrow(dim, start, length));
}

// The host waits to see it: an operator that stops the device has no counterpart in CANN.
void _assert_async(const at::Tensor& self) {
  TORCH_CHECK(self.is_nonzero(), "Expected Tensor with single nonzero value, but got zero");
}
void _assert_async_msg(const at::Tensor& self, std::string_view message) {
  TORCH_CHECK(self.is_nonzero(), message.empty() ? std::string_view("Assertion is failed") : message);
}

}  // namespace torch_npu::native
