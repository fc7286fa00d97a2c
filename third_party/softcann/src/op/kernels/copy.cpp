// Copies and conversions.
#include <ATen/Parallel.h>
#include <ATen/ops/copy_compositeexplicitautograd_dispatch.h>
#include <algorithm>
#include <cstring>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/kernels/transpose.h"
#include "rt/base/streaming_copy.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

// The same elements in the same order, elsewhere: what a byte means does not matter.
bool same_bytes(const at::Tensor& target, const at::Tensor& source) {
  if (target.scalar_type() != source.scalar_type() || !target.sizes().equals(source.sizes()) ||
      !target.is_non_overlapping_and_dense() ||
      !(target.strides().equals(source.strides()) || (target.is_contiguous() && source.is_contiguous()))) {
    return false;
  }
  const auto a = reinterpret_cast<uintptr_t>(target.const_data_ptr()), b = reinterpret_cast<uintptr_t>(source.const_data_ptr());
  return a - b >= target.nbytes() && b - a >= target.nbytes();
}

// The C library copies a range of pages faster than ATen's loop does its vectors.
void copy_pages(const at::Tensor& target, const at::Tensor& source) {
  constexpr int64_t page = 4096, least = 32;
  auto* to = static_cast<char*>(target.mutable_data_ptr());
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  const auto bytes = static_cast<int64_t>(target.nbytes()), pages = (bytes + page - 1) / page;
  const auto copy = target.nbytes() < softcann::kBulkBytes ? [](void* a, const void* b, size_t n) { std::memcpy(a, b, n); }
                                                           : softcann::stream_bytes;
  at::parallel_for(0, pages, least, [&](int64_t begin, int64_t end) {
    copy(to + begin * page, from + begin * page, static_cast<size_t>(std::min(end * page, bytes) - begin * page));
  });
}

void assign(const at::Tensor& target, const at::Tensor& source) {
  if (same_bytes(target, source)) return copy_pages(target, source);
  if (!copy_transposed(target, source)) at::compositeexplicitautograd::copy_(writable(target), source);
}

}  // namespace

OP_FULL(aclnnInplaceCopy, elementwise(selfRef, src), fast::copy(selfRef, src)) { assign(selfRef, src); }
OP_FULL(aclnnCast, elementwise(out, self), fast::copy(out, self)) { assign(out, self); }
OP(aclnnReal) { assign(out, self.is_complex() ? at::real(self) : self); }
