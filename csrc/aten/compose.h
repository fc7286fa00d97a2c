// What operators made of other operators have in common.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aten/kernel.h"
#include "aten/shape_rules.h"

namespace torch_npu::native {

// A structured kernel's output is const by torchgen's convention; its elements are not.
inline at::Tensor& result(const at::Tensor& out) { return const_cast<at::Tensor&>(out); }

// Autocast chooses the dtype of the operator that was called, not of the products that it is made of here.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

// The dtype an elementwise operator computes in: half precision is widened, integers become the default floating dtype.
inline at::ScalarType compute_type(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return at::isIntegralType(type, /*includeBool=*/true) ? c10::typeMetaToScalarType(c10::get_default_dtype()) : type;
}

// One operand on the result's device in a dtype. A number on the host is filled in there: a copy would be awaited.
inline at::Tensor operand(const at::Tensor& tensor, const at::Tensor& out, at::ScalarType type) {
  if (!is_host_scalar(tensor)) return tensor.to(out.device(), type);
  return at::scalar_tensor(tensor.to(type).item(), out.options().dtype(type));
}
inline std::pair<at::Tensor, at::Tensor> promoted(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto type = at::result_type(self, other);
  return {operand(self, out, type), operand(other, out, type)};
}
inline std::pair<at::Tensor, at::Tensor> widened(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto type = compute_type(at::result_type(self, other));
  return {operand(self, out, type), operand(other, out, type)};
}
inline at::Tensor widened(const at::Tensor& self) { return cast(self, compute_type(self.scalar_type())); }

// An out overload made of the functional one.
inline at::Tensor& give(at::Tensor& out, const at::Tensor& value) {
  at::native::resize_output(out, value.sizes());
  return out.copy_(value);
}

}  // namespace torch_npu::native
