// Tensors out of nothing: filling, ranges.
#include <ATen/Parallel.h>
#include <chrono>
#include <thread>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "rt/base/streaming_copy.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

constexpr int64_t kChunk = int64_t{4} << 20;  // bytes a thread fills at a time

// A tensor larger than the caches is written past them, which takes half the time.
void fill_all(at::Tensor& out, const at::Scalar& value) {
  softcann::Pattern pattern{};
  const auto size = static_cast<int64_t>(out.element_size());
  if (out.nbytes() < softcann::kBulkBytes || !out.is_contiguous() ||
      reinterpret_cast<uintptr_t>(out.data_ptr()) % sizeof pattern != 0) {
    at::cpu::fill_(out, value);
    return;
  }
  at::Tensor sample = at::from_blob(&pattern, {static_cast<int64_t>(sizeof pattern) / size}, out.options());
  at::cpu::fill_(sample, value);
  auto* data = static_cast<char*>(out.mutable_data_ptr());
  const auto bytes = static_cast<int64_t>(out.nbytes()), chunks = (bytes + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    softcann::fill_bytes(data + begin * kChunk, pattern, static_cast<size_t>(std::min(end * kChunk, bytes) - begin * kChunk));
  });
}

}  // namespace

OP_FULL(aclnnInplaceZero, elementwise(selfRef), fast::zero(selfRef)) { fill_all(selfRef, 0); }
OP_FULL(aclnnInplaceOne, elementwise(selfRef), fast::fill(selfRef, 1)) { fill_all(selfRef, 1); }
OP_FULL(aclnnInplaceFillScalar, elementwise(selfRef), fast::fill(selfRef, value)) { fill_all(selfRef, value); }
OP_COST(aclnnInplaceFillTensor, elementwise(selfRef)) { at::cpu::fill_(selfRef, value.dim() == 0 ? value : value.reshape({})); }
OP(aclnnInplaceFillDiagonal) { selfRef.fill_diagonal_(fillValue, wrap); }

OP_COST(aclnnArange, 4 * elementwise(out)) { at::cpu::arange_outf(start, end, step, out); }
OP_COST(aclnnRange, 4 * elementwise(out)) {
  // Of whole numbers with steps below 1; ATen divides by the step's whole part, which ends the process.
  if (c10::isIntegralType(out.scalar_type(), false) && step.isFloatingPoint() && std::abs(step.toDouble()) < 1 &&
      step.toDouble() != 0) {
    const at::Tensor numbers = at::range(start, end, step, at::kDouble);
    TORCH_CHECK(numbers.sizes() == out.sizes(), "aclnnRange: ", numbers.numel(), " numbers for an output of ", out.sizes());
    out.copy_(numbers);
  } else {
    at::cpu::range_outf(start, end, step, out);
  }
}
OP_COST(aclnnLinspace, 4 * elementwise(out)) { at::cpu::linspace_outf(start, end, steps, out); }
OP_COST(aclnnLogSpace, 8 * elementwise(result)) { at::cpu::logspace_outf(start, end, steps, base, result); }
OP_COST(aclnnEye, elementwise(out)) { at::cpu::eye_outf(n, m, out); }

// Keeps the stream busy: a cycle is a nanosecond here.
OP_COST(aclnnSleep, cycles.empty() ? 0 : static_cast<double>(cycles[0])) {
  TORCH_CHECK(cycles.size() == 1 && cycles[0] >= 0, "cycles must be one number, not negative; got ", cycles);
  std::this_thread::sleep_for(std::chrono::nanoseconds(cycles[0]));
}
