// Order: sort, top k, search.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"
#include "op/kernels/sort_dim.h"

using namespace softcann::op;

namespace {

bool usable_index(const at::Tensor& indices) { return indices.scalar_type() == at::kLong; }

// Note [Order of equals]
// Where no stability is asked for, ATen leaves equal numbers in an order of its own, which who compares with the CPU sees. Our
// kernels give them in the order of their places. So narrow types, which are full of equals, stay with ATen then, and so does
// the choice of whole numbers.
bool rarely_equal(const at::Tensor& self) {
  constexpr size_t wide = 4;
  return self.itemsize() >= wide;
}

}  // namespace

OP(aclnnSort) {
  if ((stable || rarely_equal(self)) && sort_rows(self, dim, descending, valuesOut, indicesOut)) return;
  if (usable_index(indicesOut)) {
    at::cpu::sort_outf(self, stable, dim, descending, valuesOut, indicesOut);
  } else {
    const auto [values, indices] = at::sort(self, stable, dim, descending);
    put(valuesOut, values);
    put(indicesOut, indices);
  }
}
OP(aclnnArgsort) {
  if (rarely_equal(self)) {
    const at::Tensor values = at::cpu::empty(self.sizes(), self.options());
    if (sort_rows(self, dim, descending, values, out)) return;
  }
  put(out, at::argsort(self, dim, descending));
}
namespace {

void top_k(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, at::Tensor& valuesOut,
           at::Tensor& indicesOut) {
  if (rarely_equal(self) && fractional(self) && topk_rows(self, k, dim, largest, valuesOut, indicesOut)) return;
  if (usable_index(indicesOut)) {
    at::cpu::topk_outf(self, k, dim, largest, sorted, valuesOut, indicesOut);
  } else {
    const auto [values, indices] = at::topk(self, k, dim, largest, sorted);
    put(valuesOut, values);
    put(indicesOut, indices);
  }
}

}  // namespace

OP_COST(aclnnTopk, (require_count_within(self, dim, k), streamed_cost(self, valuesOut, indicesOut))) {
  top_k(self, k, dim, largest, sorted, valuesOut, indicesOut);
}
// sortPolicy chooses how the hardware goes about it.
OP_COST(aclnnTopkV2, (require_count_within(self, dim, k), streamed_cost(self, valuesOut, indicesOut))) {
  top_k(self, k, dim, largest, sorted, valuesOut, indicesOut);
}
OP(aclnnKthvalue) { at::cpu::kthvalue_outf(self, k, dim, keepdim, valuesOut, indicesOut); }

OP(aclnnSearchSorted) { at::cpu::searchsorted_outf(sortedSequence, self, outInt32, right, std::nullopt, maybe(sorter), out); }
OP(aclnnSearchSorteds) { put(out, at::searchsorted(sortedSequence, self, outInt32, right, std::nullopt, maybe(sorter))); }
OP(aclnnBucketize) { at::cpu::bucketize_outf(self, boundaries, outInt32, right, out); }
