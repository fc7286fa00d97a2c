// Choosing by a mask.
#include <ATen/MemoryOverlap.h>

#include <cstring>
#include <optional>

#include "op/simd/clones.h"
#include "op/elementwise.h"
#include "op/for_types.h"
#include "op/simd/strips.h"

using namespace softcann::op;

namespace {

// Note [Choosing]
// ATen's loop branches on each element of the mask, which costs a misprediction at every change. Only the elements' size
// matters here.
template <class Bits>
[[gnu::always_inline]] inline void choose(Bits* out, const uint8_t* mask, const Bits* yes, const Bits* no, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const Bits chosen = yes[i], other = no[i];  // both are read, so that there is nothing to branch on
    out[i] = mask[i] ? chosen : other;
  }
}
#define CHOOSE(BITS)                                                                                                     \
  SOFTCANN_CLONES void choose_elements(BITS* out, const uint8_t* mask, const BITS* yes, const BITS* no, int64_t count) { \
    choose(out, mask, yes, no, count);                                                                                   \
  }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)
#undef CHOOSE

// Masks may come as bytes.
bool is_mask(const at::Tensor& mask) { return mask.scalar_type() == at::kBool || mask.scalar_type() == at::kByte; }
// Filling an expanded tensor is allowed still, with a warning of ATen's.
bool fillable(const at::Tensor& self, const at::Tensor& mask) {
  return is_mask(mask) && at::has_internal_overlap(self) != at::MemOverlap::Yes;
}

bool choose_by(const at::Tensor& mask, const at::Tensor& yes, const at::Tensor& no, const at::Tensor& out) {
  const auto type = out.scalar_type();
  if (yes.scalar_type() != type || no.scalar_type() != type || !is_mask(mask)) return false;
  return for_size(out.itemsize(), [&](auto bits) {
    using Bits = decltype(bits);
    at::TensorIterator iterator = strips_of(out, mask, yes, no);
    by_strips<Bits, uint8_t, Bits, Bits>(iterator, [](Bits* to, const uint8_t* m, const Bits* a, const Bits* b, int64_t count) {
      choose_elements(to, m, a, b, count);
    });
  });
}

// The number as an element of this dtype; nothing for dtypes that ATen is left with.
std::optional<uint64_t> element_of(const at::Scalar& value, at::ScalarType type) {
  uint64_t bits = 0;
  switch (type) {
#define ELEMENT(T, NAME)                     \
  case at::ScalarType::NAME: {               \
    const T element = value.to<T>();         \
    std::memcpy(&bits, &element, sizeof(T)); \
    return bits;                             \
  }
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, ELEMENT)
#undef ELEMENT
    default:
      return std::nullopt;
  }
}
// self where the mask is false, else the element of these bits.
bool fill_by(const at::Tensor& self, const at::Tensor& mask, uint64_t element) {
  return for_size(self.itemsize(), [&](auto bits) {
    using Bits = decltype(bits);
    strips::Room<Bits> fill;
    fill.fill(static_cast<Bits>(element));
    at::TensorIterator iterator = strips_of(self, mask, self);
    by_strips<Bits, uint8_t, Bits>(iterator, [&](Bits* to, const uint8_t* m, const Bits* old, int64_t count) {
      choose_elements(to, m, fill.data(), old, count);
    });
  });
}

}  // namespace

OP_COST(aclnnSWhere, elementwise(out, condition, self, other)) {
  if (!choose_by(condition, self, other, out)) at::cpu::where_outf(condition, self, other, out);
}
OP_COST(aclnnInplaceMaskedFillScalar, elementwise(selfRef, mask)) {
  const auto element = fillable(selfRef, mask) ? element_of(value, selfRef.scalar_type()) : std::nullopt;
  if (!element || !fill_by(selfRef, mask, *element)) at::cpu::masked_fill_(selfRef, mask.to(at::kBool), value);
}
OP_COST(aclnnInplaceMaskedFillTensor, elementwise(selfRef, mask)) {
  const at::Tensor element = value.dim() == 0 ? value : value.reshape({});
  if (!fillable(selfRef, mask) || !choose_by(mask, element, selfRef, selfRef))
    at::cpu::masked_fill_(selfRef, mask.to(at::kBool), element);
}
// A tensor times a mask times a number: dropout's arithmetic.
OP_COST(aclnnMaskedScale, elementwise(out, self, mask)) {
  at::cpu::mul_outf(self, mask, out);
  at::cpu::mul_(out, at::scalar_tensor(scale, at::kFloat));
}
