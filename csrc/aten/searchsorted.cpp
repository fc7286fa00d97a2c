// What is found in sorted order: modes, members, places in a sorted sequence.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/Functions.h>

#include "aten/argument_checks.h"
#include "aten/compose.h"
#include "aten/factory.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnIsInScalarTensor);

// In the sorted order equal elements are runs: the longest one wins, of equally long ones that of the smallest value.
std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "mode()");
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"mode\" not implemented for '", self.scalar_type(), "'");
  if (self.dim() == 0) return {self.clone(), at::zeros_like(self, self.options().dtype(at::kLong))};
  auto sizes = at::DimVector(self.sizes());
  if (keepdim)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  if (self.numel() == 0) return {make(shaped(self, sizes)), make(shaped(self, sizes, at::kLong))};
  const auto [values, indices] = self.sort(/*stable=*/true, dim, /*descending=*/false);
  const auto n = self.size(dim);
  auto shape = at::DimVector(self.dim(), 1);
  shape[dim] = n;
  const auto position = at::arange(n, self.options().dtype(at::kLong)).view(shape).expand(self.sizes());
  auto begins = at::ones_like(position).to(at::kBool);
  if (n > 1) begins.narrow(dim, 1, n - 1).copy_(values.narrow(dim, 1, n - 1).ne(values.narrow(dim, 0, n - 1)));
  const auto start = std::get<0>(at::cummax(position.mul(begins), dim));
  const auto last = position.sub(start).argmax(dim, true);
  auto value = values.gather(dim, last), index = indices.gather(dim, last);
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

// Whether each element is one of test_elements: found by search in their sorted order.
at::Tensor isin_tensor_tensor(const at::Tensor& elements, const at::Tensor& test_elements, bool, bool invert) {
  if (test_elements.numel() == 0) {
    auto nothing = empty_like_with(elements, elements.sizes(), at::kBool);
    return nothing.fill_(invert);
  }
  auto dtype = c10::promoteTypes(elements.scalar_type(), test_elements.scalar_type());
  if (dtype == at::kBool) dtype = at::kByte;  // nothing is searched among bools
  const auto sorted = std::get<0>(cast(test_elements, dtype).flatten().sort());
  const auto wanted = cast(elements, dtype);
  // A search among NaNs, which come last and equal nothing, would go astray.
  const auto ordered =
      at::isFloatingType(dtype) ? sorted.masked_fill(sorted.isnan(), std::numeric_limits<double>::infinity()) : sorted;
  const auto index = at::searchsorted(ordered, wanted.contiguous()).clamp_max_(sorted.numel() - 1);
  const auto found = sorted.index({index});
  return invert ? found.ne(wanted) : found.eq(wanted);
}

at::Tensor& isin_tensor_tensor_out(const at::Tensor& elements, const at::Tensor& test_elements, bool assume_unique, bool invert,
                                   at::Tensor& out) {
  return give(out, isin_tensor_tensor(elements, test_elements, assume_unique, invert));
}

at::Tensor isin_scalar_tensor(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert) {
  const auto out = empty_like_with(test_elements, {}, at::kBool);
  op::run(aclnnIsInScalarTensor, element, test_elements, assume_unique, invert, out);
  return out;
}

at::Tensor& isin_scalar_tensor_out(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert,
                                   at::Tensor& out) {
  return give(out, isin_scalar_tensor(element, test_elements, assume_unique, invert));
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return at::bucketize(at::scalar_tensor(self, boundaries.options()), boundaries, out_int32, right);
}
at::Tensor& searchsorted_scalar_out(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32, bool right,
                                    std::optional<std::string_view> side, const std::optional<at::Tensor>& sorter,
                                    at::Tensor& out) {
  return give(out, at::searchsorted(sorted_sequence, self, out_int32, right, side, sorter));
}

}  // namespace torch_npu::native
