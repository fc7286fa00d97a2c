// Copies and conversions.
#include <ATen/CPUFunctions.h>
#include <ATen/ops/copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/real.h>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/tensor.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

void assign(const at::Tensor& target, const at::Tensor& source) {
  at::compositeexplicitautograd::copy_(writable(target), source);
}

bool is_base_format(aclFormat format) {
  switch (format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC: return true;
    default: return false;
  }
}

double format_cast(const at::Tensor& from, const at::Tensor& to) {
  for (const at::Tensor* tensor : {&from, &to}) {
    const aclFormat format = descriptor_of(*tensor)->format;
    if (!is_base_format(format)) invalid("format %d is not supported: devices here keep base formats", format);
  }
  return elementwise(to, from);
}

}  // namespace

OP_FULL(aclnnInplaceCopy, elementwise(selfRef, src), fast::copy(selfRef, src)) { assign(selfRef, src); }
OP_FULL(aclnnCast, elementwise(out, self), fast::copy(out, self)) { assign(out, self); }
OP_COST(aclnnNpuFormatCast, format_cast(srcTensor, dstTensor)) { assign(dstTensor, srcTensor); }
OP(aclnnReal) { assign(out, self.is_complex() ? at::real(self) : self); }
