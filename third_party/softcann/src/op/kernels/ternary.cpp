// Arithmetic of three operands, and clamping.
#include <ATen/CPUFunctions.h>

#include "op/elementwise.h"
#include "op/fast_path.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

#define COST elementwise(out, self, tensor1, tensor2)
OP_COST(aclnnAddcmul, COST) { at::cpu::addcmul_outf(self, tensor1, tensor2, value, out); }
OP_COST(aclnnAddcdiv, COST) { at::cpu::addcdiv_outf(self, tensor1, tensor2, value, out); }
#undef COST
#define COST elementwise(selfRef, tensor1, tensor2)
OP_COST(aclnnInplaceAddcmul, COST) { at::cpu::addcmul_outf(selfRef, tensor1, tensor2, value, selfRef); }
OP_COST(aclnnInplaceAddcdiv, COST) { at::cpu::addcdiv_outf(selfRef, tensor1, tensor2, value, selfRef); }
#undef COST

OP_COST(aclnnLerp, elementwise(out, self, end, weight)) { at::cpu::lerp_outf(self, end, weight, out); }
OP_COST(aclnnLerps, elementwise(out, self, end)) { at::cpu::lerp_outf(self, end, weight, out); }
OP_COST(aclnnInplaceLerp, elementwise(selfRef, end, weight)) { at::cpu::lerp_outf(selfRef, end, weight, selfRef); }
OP_COST(aclnnInplaceLerps, elementwise(selfRef, end)) { at::cpu::lerp_outf(selfRef, end, weight, selfRef); }

OP_FULL(aclnnClamp, elementwise(out, self),
        given(clipValueMin) && given(clipValueMax) && fast::clamp(self, clipValueMin, clipValueMax, out)) {
  at::cpu::clamp_outf(self, maybe(clipValueMin), maybe(clipValueMax), out);
}
OP_COST(aclnnClampMin, elementwise(out, self)) { at::cpu::clamp_min_outf(self, clipValueMin, out); }
OP_COST(aclnnClampMax, elementwise(out, self)) { at::cpu::clamp_max_outf(self, clipValueMax, out); }
OP_COST(aclnnClampTensor, elementwise(out, self, clipValueMin, clipValueMax)) {
  at::cpu::clamp_outf(self, maybe(clipValueMin), maybe(clipValueMax), out);
}
OP_COST(aclnnClampMinTensor, elementwise(out, self, clipValueMin)) { at::cpu::clamp_min_outf(self, clipValueMin, out); }
OP_COST(aclnnClampMaxTensor, elementwise(out, self, max)) { at::cpu::clamp_max_outf(self, max, out); }
OP_COST(aclnnInplaceClampMax, elementwise(selfRef)) { at::cpu::clamp_max_outf(selfRef, clipValueMax, selfRef); }
OP_COST(aclnnInplaceClampMaxTensor, elementwise(selfRef, max)) { at::cpu::clamp_max_outf(selfRef, max, selfRef); }
OP_COST(aclnnInplaceClampMinTensor, elementwise(selfRef, clipValueMin)) {
  at::cpu::clamp_min_outf(selfRef, clipValueMin, selfRef);
}
