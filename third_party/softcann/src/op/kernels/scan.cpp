// Running sums, products, maxima.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/signed_bits.h"
#include "op/kernels/row_scan.h"

using namespace softcann::op;

namespace {

double scan(const at::Tensor& self) {
  constexpr double call_ns = 2000, ns_per_element = 1.5;
  return call_ns + (self.defined() ? ns_per_element * static_cast<double>(self.numel()) : 0);
}

void products(const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  if (scan_along(self, dim, true, out)) return;
  const bool unsigned_numbers =
      c10::isBarebonesUnsignedType(self.scalar_type()) || c10::isBarebonesUnsignedType(out.scalar_type());
  const at::Tensor same = unsigned_numbers ? self.to(out.scalar_type()) : self;
  write_signed_bits(out, [&](at::Tensor& bits) { at::cpu::cumprod_outf(signed_bits(same), dim, bits.scalar_type(), bits); });
}

}  // namespace

OP_COST(aclnnCumsum, scan(self)) {
  if (!scan_along(self, dim, false, out)) at::cpu::cumsum_outf(self, dim, out.scalar_type(), out);
}
OP_COST(aclnnCumprod, scan(input)) { products(input, dim.toLong(), out); }
OP_COST(aclnnInplaceCumprod, scan(input)) { products(input, dim.toLong(), input); }
// exclusive: element i is left out of its own sum. reverse: from the end.
OP_COST(aclnnCumsumV2, 3 * scan(self)) {
  at::Tensor source = reverse ? self.flip(dim) : self;
  at::Tensor sums = at::cpu::cumsum(source, dim, out.scalar_type());
  if (exclusive) sums.sub_(source);
  out.copy_(reverse ? sums.flip(dim) : sums);
}
OP_COST(aclnnCummax, scan(self)) {
  with_long(indicesOut, [&](at::Tensor& positions) { at::cummax_out(valuesOut, positions, self, dim); });
}
OP_COST(aclnnCummin, scan(self)) {
  with_long(indicesOut, [&](at::Tensor& positions) { at::cummin_out(valuesOut, positions, self, dim); });
}

namespace {

double segments_cost(const at::Tensor& shorter, const at::Tensor& longer) {
  if (given(shorter) && given(longer) && longer.dim() != shorter.dim() + 1)
    invalid("sums of segments have %ld dimensions more; 1 is expected", long(longer.dim() - shorter.dim()));
  return 4 * scan(longer);
}

}  // namespace

// Of each segment of the last dimension, from j (which is left out) to i, the exponent of its sum; 0 where j is behind i.
OP_COST(aclnnExpSegsum, segments_cost(self, out)) {
  const int64_t length = self.size(-1);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.push_back(length);
  const at::Tensor sums = widened(self).unsqueeze(-1).expand(sizes).tril(-1).cumsum(-2);
  put(out, at::exp(sums).tril());
}
OP_COST(aclnnExpSegsumBackward, segments_cost(gradInput, gradOutput)) {
  const at::Tensor product = (widened(gradOutput) * widened(gradSelf)).tril(-1);
  put(gradInput, product.flip(-2).cumsum(-2).flip(-2).tril(-1).sum(-1));
}
