// Copies and conversions.
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <ATen/ops/copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/real.h>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/kernels/transpose.h"
#include "rt/bulk.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

// The same elements in the same order, more than the caches hold, elsewhere.
bool bulk(const at::Tensor& target, const at::Tensor& source) {
  if (target.nbytes() < softcann::kBulkBytes || target.scalar_type() != source.scalar_type() ||
      !target.sizes().equals(source.sizes()) || !target.is_contiguous() || !source.is_contiguous()) {
    return false;
  }
  const auto a = reinterpret_cast<uintptr_t>(target.const_data_ptr()), b = reinterpret_cast<uintptr_t>(source.const_data_ptr());
  return a - b >= target.nbytes() && b - a >= target.nbytes();
}

void assign(const at::Tensor& target, const at::Tensor& source) {
  if (bulk(target, source)) {
    constexpr auto chunk = static_cast<int64_t>(softcann::kBulkBytes);
    auto* to = static_cast<char*>(target.mutable_data_ptr());
    const auto* from = static_cast<const char*>(source.const_data_ptr());
    const auto bytes = static_cast<int64_t>(target.nbytes());
    // The last chunk takes the rest, so that none is too short to bypass the cache.
    at::parallel_for(0, bytes / chunk, 1, [&](int64_t begin, int64_t end) {
      const auto stop = end == bytes / chunk ? bytes : end * chunk;
      softcann::copy_bytes(to + begin * chunk, from + begin * chunk, static_cast<size_t>(stop - begin * chunk));
    });
    return;
  }
  if (!copy_transposed(target, source)) at::compositeexplicitautograd::copy_(writable(target), source);
}

}  // namespace

OP_FULL(aclnnInplaceCopy, elementwise(selfRef, src), fast::copy(selfRef, src)) { assign(selfRef, src); }
OP_FULL(aclnnCast, elementwise(out, self), fast::copy(out, self)) { assign(out, self); }
OP(aclnnReal) { assign(out, self.is_complex() ? at::real(self) : self); }
