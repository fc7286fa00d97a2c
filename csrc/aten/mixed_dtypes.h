// Operands of several dtypes where PyTorch's own kernels want one. See Note [Mixed dtypes].
//
// Note [Mixed dtypes]
// The published torch_npu hands such operands to CANN, whose operators promote them, and programs written for it count on that: a
// product of float16 and float32, an update of float16 in a float32 tensor. torch's meta functions refuse them. So the registry
// names the operands that may differ: `alike` casts one to the dtype that another has (scatter's source), `mixed` computes in the
// dtype that holds them all, and the result has that of the first. `in_float` computes integers in float32, for CANN has floating
// kernels only, and the result is cut to the first one's integers. `casts` gives a result of the operator's own dtype to an out=
// of another that holds it, by torch's rule for casts of results. Complex operands beside real ones stay refused: a cast would
// lose a part.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

#include "aten/shape_rules.h"

namespace torch_npu::native {

// The dtype that `tensor` is to have beside `self`; its own where a cast would drop an imaginary part.
inline at::ScalarType type_for(const at::Tensor& tensor, const at::Tensor& self) {
  return tensor.is_complex() && !self.is_complex() ? tensor.scalar_type() : self.scalar_type();
}
// Of places in a dimension.
inline at::ScalarType place_type(const at::Tensor& index) {
  return index.scalar_type() == at::kInt || index.is_complex() ? index.scalar_type() : at::kLong;
}
inline at::ScalarType whole_type(const at::Tensor& index) { return index.is_complex() ? index.scalar_type() : at::kLong; }
// Of class numbers.
inline at::ScalarType label_type(const at::Tensor& target) {
  return target.scalar_type() == at::kByte || target.is_complex() ? target.scalar_type() : at::kLong;
}

// Losses of two dtypes: of the first operand's; of the target's, where that is floating, for PyTorch computes in the target's
// place.
OutSpec own_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
OutSpec logits_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction);

template <class... Tensors>
bool mixed(const at::Tensor& first, const Tensors&... rest) {
  return ((rest.dtype() != first.dtype()) || ...) && !(first.is_complex() || (rest.is_complex() || ...));
}
inline bool whole(const at::Tensor& first) { return at::isIntegralType(first.scalar_type(), /*includeBool=*/true); }
// Whether out= has another dtype than the result, one that holds it.
inline bool other_type(const at::Tensor& out, at::ScalarType type) {
  return out.scalar_type() != type && at::canCast(type, out.scalar_type());
}
// A bool number beside numbers: `x - True`, which torch refuses.
inline at::ScalarType without_bool(const at::Tensor& number, const at::Tensor& beside) {
  const bool is_number = number.dim() == 0 && number.device().is_cpu() && number.scalar_type() == at::kBool;
  return is_number ? beside.scalar_type() : number.scalar_type();
}
template <class... Tensors>
at::ScalarType common_type(const at::Tensor& first, const Tensors&... rest) {
  auto type = first.scalar_type();
  ((type = at::promote_types(type, rest.scalar_type())), ...);
  return type;
}
// Into a tensor of the caller.
inline at::Tensor& into(at::Tensor& target, const at::Tensor& value) {
  at::native::resize_output(target, value.sizes());
  return target.copy_(value);
}

}  // namespace torch_npu::native
