// Tensors out of nothing: filling, ranges.
#include <ATen/CPUFunctions.h>
#include <ATen/ops/fill_diagonal.h>
#include <chrono>
#include <thread>

#include "op/elementwise.h"
#include "op/fast_path.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

OP_FULL(aclnnInplaceZero, elementwise(selfRef), fast::zero(selfRef)) { at::cpu::zero_(selfRef); }
OP_FULL(aclnnInplaceOne, elementwise(selfRef), fast::fill(selfRef, 1)) { at::cpu::fill_(selfRef, 1); }
OP_FULL(aclnnInplaceFillScalar, elementwise(selfRef), fast::fill(selfRef, value)) { at::cpu::fill_(selfRef, value); }
OP_COST(aclnnInplaceFillTensor, elementwise(selfRef)) {
  at::cpu::fill_(selfRef, value.dim() == 0 ? value : value.reshape({}));
}
OP(aclnnInplaceFillDiagonal) { selfRef.fill_diagonal_(fillValue, wrap); }

OP_COST(aclnnArange, 4 * elementwise(out)) { at::cpu::arange_outf(start, end, step, out); }
OP_COST(aclnnRange, 4 * elementwise(out)) { at::cpu::range_outf(start, end, step, out); }
OP_COST(aclnnLinspace, 4 * elementwise(out)) { at::cpu::linspace_outf(start, end, steps, out); }
OP_COST(aclnnLogSpace, 8 * elementwise(result)) { at::cpu::logspace_outf(start, end, steps, base, result); }
OP_COST(aclnnEye, elementwise(out)) { at::cpu::eye_outf(n, m, out); }

// Keeps the stream busy: a cycle is a nanosecond here.
OP_COST(aclnnSleep, cycles.empty() ? 0 : static_cast<double>(cycles[0])) {
  TORCH_CHECK(cycles.size() == 1 && cycles[0] >= 0, "cycles must be one number, not negative; got ", cycles);
  std::this_thread::sleep_for(std::chrono::nanoseconds(cycles[0]));
}
