// Choosing by a mask.
#include <ATen/CPUFunctions.h>

#include "op/elementwise.h"

using namespace softcann::op;

OP_COST(aclnnSWhere, elementwise(out, condition, self, other)) { at::cpu::where_outf(condition, self, other, out); }

namespace {
// Masks may come as bytes.
at::Tensor truth(const at::Tensor& mask) {
  return mask.scalar_type() == at::kBool ? mask : mask.to(at::kBool);
}
}  // namespace

OP_COST(aclnnInplaceMaskedFillScalar, elementwise(selfRef, mask)) {
  at::cpu::masked_fill_(selfRef, truth(mask), value);
}
OP_COST(aclnnInplaceMaskedFillTensor, elementwise(selfRef, mask)) {
  at::cpu::masked_fill_(selfRef, truth(mask), value.dim() == 0 ? value : value.reshape({}));
}
// A tensor times a mask times a number: dropout's arithmetic.
OP_COST(aclnnMaskedScale, elementwise(out, self, mask)) {
  at::cpu::mul_outf(self, mask, out);
  at::cpu::mul_(out, at::scalar_tensor(scale, at::kFloat));
}
