// Copies and conversions.
#include <ATen/CPUFunctions.h>
#include <ATen/ops/copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/real.h>

#include "op/elementwise.h"
#include "op/fast_path.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

void assign(const at::Tensor& target, const at::Tensor& source) {
  at::compositeexplicitautograd::copy_(writable(target), source);
}

}  // namespace

OP_FULL(aclnnInplaceCopy, elementwise(selfRef, src), fast::copy(selfRef, src)) { assign(selfRef, src); }
OP_FULL(aclnnCast, elementwise(out, self), fast::copy(out, self)) { assign(out, self); }
OP(aclnnReal) { assign(out, self.is_complex() ? at::real(self) : self); }
