// Operators that CANN lacks in this form, made of operators it has.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/tril_indices.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/view_as_real.h>

#include "aten/factory.h"
#include "aten/shape_rules.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnEqual);
NPU_OPERATOR(aclnnBincount);
NPU_OPERATOR(aclnnNanToNum);

bool is_set_to(const at::Tensor& self, const at::Tensor& tensor) { return at::native::is_set_to(self, tensor); }

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", other.device(), "!");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  if (self.scalar_type() != other.scalar_type()) {  // under autocast they often differ; CUDA compares them too
    const auto dtype = c10::promoteTypes(self.scalar_type(), other.scalar_type());
    return native::equal(cast(self, dtype), cast(other, dtype));
  }
  auto result = empty_like_with(self, {1}, at::kBool);
  op::run(aclnnEqual, self, other, result);
  return result.item<bool>();
}

// Works on the memory: a conj bit says how to read it and stays.
at::Tensor& conj_physical_(at::Tensor& self) {
  if (!self.is_complex()) return self;
  auto memory = self.detach();
  memory._set_conj(false);
  at::view_as_real(memory).select(-1, 1).neg_();
  return self;
}

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  out.copy_(self);
  return native::conj_physical_(out);
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  resize_output(out, like(self), self);
  if (self.scalar_type() != at::kDouble) {
    op::run(aclnnNanToNum, self, nan.value_or(0), posinf.value_or(finite_limit(self, 1)), neginf.value_or(finite_limit(self, -1)),
            out);
    return out;
  }
  // CANN takes float32 numbers, in which most of float64's have no place.
  constexpr double kMost = std::numeric_limits<double>::max();
  const auto number = [&](double value) { return at::full({}, value, self.options()); };
  const auto infinite = self.isinf(), positive = self.gt(0);
  auto result = at::where(infinite.logical_and(positive), number(posinf.value_or(kMost)), self);
  result = at::where(infinite.logical_and(positive.logical_not()), number(neginf.value_or(-kMost)), result);
  return out.copy_(at::where(self.isnan(), number(nan.value_or(0)), result));
}

// Half the square near the target, linear beyond delta.
at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta, at::Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  const auto distance = self.sub(target).abs_();
  const auto near = distance.clamp_max(delta);
  const auto single = near.mul(distance.sub(near, 0.5));
  const auto result = reduction == at::Reduction::None ? single : reduction == at::Reduction::Mean ? single.mean() : single.sum();
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  auto out = make(loss(self, target, reduction));
  return huber_loss_out(self, target, reduction, delta, out);
}

at::Tensor& huber_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    int64_t reduction, double delta, at::Tensor& grad_input) {
  const double scale = reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
  const auto gradient = self.sub(target).clamp_(-delta, delta).mul_(grad_output).mul_(scale);
  at::native::resize_output(grad_input, gradient.sizes());
  return grad_input.copy_(gradient);
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(!weights || !weights->defined() || weights->sizes() == self.sizes(),
              "weights should be 1-d and have the same length as input");
  const bool counted = !weights || !weights->defined();
  const auto dtype = counted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  int64_t length = 0;
  if (self.numel() != 0) {
    TORCH_CHECK(self.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    length = self.max().item<int64_t>() + 1;
  }
  auto result = empty_like_with(self, {std::max(length, minlength)}, dtype);
  if (self.numel() == 0) return result.zero_();
  op::run(aclnnBincount, self, counted ? std::nullopt : weights, minlength, result);
  return result;
}

// Whether each element is one of test_elements: found by search in their sorted order.
at::Tensor isin_tensor_tensor(const at::Tensor& elements, const at::Tensor& test_elements, bool, bool invert) {
  if (test_elements.numel() == 0) {
    auto nothing = empty_like_with(elements, elements.sizes(), at::kBool);
    return nothing.fill_(invert);
  }
  const auto dtype = c10::promoteTypes(elements.scalar_type(), test_elements.scalar_type());
  const auto sorted = std::get<0>(cast(test_elements, dtype).flatten().sort());
  const auto wanted = cast(elements, dtype);
  // A search among NaNs, which come last and equal nothing, would go astray.
  const auto ordered =
      at::isFloatingType(dtype) ? sorted.masked_fill(sorted.isnan(), std::numeric_limits<double>::infinity()) : sorted;
  const auto place = at::searchsorted(ordered, wanted.contiguous()).clamp_max_(sorted.numel() - 1);
  const auto found = sorted.index({place});
  return invert ? found.ne(wanted) : found.eq(wanted);
}

at::Tensor& isin_tensor_tensor_out(const at::Tensor& elements, const at::Tensor& test_elements, bool assume_unique, bool invert,
                                   at::Tensor& out) {
  const auto result = isin_tensor_tensor(elements, test_elements, assume_unique, invert);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

// Made once on the host: CANN has no operator for them.
at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::tril_indices(row, col, offset, dtype, layout, at::kCPU, false).to(*device);
}
at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::triu_indices(row, col, offset, dtype, layout, at::kCPU, false).to(*device);
}
at::Tensor kaiser_window(int64_t length, bool periodic, double beta, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::kaiser_window(length, periodic, beta, dtype, layout, at::kCPU, false).to(*device);
}
at::Tensor kaiser_window(int64_t length, bool periodic, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin) {
  return native::kaiser_window(length, periodic, 12.0, dtype, layout, device, pin);
}
at::Tensor kaiser_window(int64_t length, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin) {
  return native::kaiser_window(length, true, 12.0, dtype, layout, device, pin);
}

}  // namespace torch_npu::native
