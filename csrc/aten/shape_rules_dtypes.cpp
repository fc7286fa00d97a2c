// aten/shape_rules.h: dtypes of results where the registry gives a rule. Structured operators promote theirs in torch's meta
// functions.
#include "aten/shape_rules.h"

namespace torch_npu::native {

at::ScalarType float_type(const at::Tensor& self) {
  return at::isIntegralType(self.scalar_type(), true) ? at::typeMetaToScalarType(at::get_default_dtype()) : self.scalar_type();
}

at::ScalarType real_type(const at::Tensor& self) { return at::toRealValueType(self.scalar_type()); }

at::ScalarType sum_type(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  if (dtype) return *dtype;
  return at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

at::ScalarType stats_type(const at::Tensor& self) {
  return self.scalar_type() == at::kDouble || self.is_complex() ? self.scalar_type() : at::kFloat;
}

at::ScalarType variance_type(const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
              "std and var only support floating point and complex dtypes");
  return real_type(self);
}

}  // namespace torch_npu::native
