// Dropout. A mask has one bit for each element, lowest bit first, 1 = keep; its length is rounded up to 128 bits.
#include <array>
#include <type_traits>

#include "op/kernels/random.h"

using namespace softcann::op;

namespace {

double dropout_cost(const at::Tensor& tensor) {
  constexpr double call_ns = 800, ns_per_element = 1.5;
  return call_ns + (tensor.defined() ? ns_per_element * static_cast<double>(tensor.numel()) : 0);
}

int64_t bytes_for(int64_t numel) { return (numel + 127) / 128 * 16; }

void check_probability(double p) { TORCH_CHECK(p >= 0 && p <= 1, "dropout probability ", p, " is not between 0 and 1"); }

void make_mask(at::Tensor& mask, int64_t numel, double drop, PhiloxKey key) {
  check_probability(drop);
  const int64_t bytes = bytes_for(numel);
  TORCH_CHECK(mask.is_contiguous() && static_cast<int64_t>(mask.nbytes()) >= bytes, "the mask of ", numel, " elements needs ",
              bytes, " bytes");
  const auto threshold = static_cast<uint64_t>(std::ldexp(drop, 32));
  auto* data = static_cast<uint8_t*>(mask.mutable_data_ptr());
  random_pieces(key, bytes * 8, 1, [&](int64_t first, int64_t count, const uint32_t* words) {
    for (int64_t i = 0; i < count; i += 8) {
      unsigned byte = 0;
      for (int bit = 0; bit < 8; ++bit) byte |= static_cast<unsigned>(words[i + bit] >= threshold) << bit;
      data[(first + i) / 8] = static_cast<uint8_t>(byte);
    }
  });
}

// For each byte eight words, all ones where the byte has a bit: a bit at a time, a mask would cost more than the product.
template <class Word>
constexpr auto spread_bits() {
  std::array<std::array<Word, 8>, 256> rows{};
  for (size_t byte = 0; byte < rows.size(); ++byte) {
    for (size_t bit = 0; bit < 8; ++bit) rows[byte][bit] = static_cast<Word>(byte >> bit & 1 ? -1 : 0);
  }
  return rows;
}

// Elements without a bit become 0, a NaN too.
template <class Word>
void keep_where_set(Word* elements, const uint8_t* bits, int64_t numel) {
  static constexpr auto rows = spread_bits<Word>();
  at::parallel_for(0, numel / 8, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t byte = begin; byte < end; ++byte) {
      for (int64_t i = 0; i < 8; ++i) elements[byte * 8 + i] &= rows[bits[byte]][static_cast<size_t>(i)];
    }
  });
  for (int64_t i = numel / 8 * 8; i < numel; ++i) elements[i] &= rows[bits[i / 8]][static_cast<size_t>(i % 8)];
}

void apply_mask(const at::Tensor& self, const at::Tensor& mask, double scale, at::Tensor& out) {
  if (mask.scalar_type() == at::kBool) {  // one truth value for each element
    at::mul_out(out, self, mask).mul_(scale);
    return;
  }
  TORCH_CHECK(mask.is_contiguous() && static_cast<int64_t>(mask.nbytes()) * 8 >= self.numel(), "the mask has ", mask.nbytes() * 8,
              " bits for ", self.numel(), " elements");
  const auto* bits = static_cast<const uint8_t*>(mask.const_data_ptr());
  through_contiguous(out, [&](at::Tensor& dense) {
    at::mul_out(dense, self, at::scalar_tensor(scale, at::kDouble));
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dense.scalar_type(), "dropout", [&] {
      using Word =
          std::conditional_t<sizeof(scalar_t) == 8, uint64_t, std::conditional_t<sizeof(scalar_t) == 4, uint32_t, uint16_t>>;
      keep_where_set(static_cast<Word*>(dense.mutable_data_ptr()), bits, dense.numel());
    });
  });
}

double scale_for(double drop) {
  check_probability(drop);
  return drop == 1 ? 0 : 1 / (1 - drop);
}

int64_t product(at::IntArrayRef shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

}  // namespace

OP_COST(aclnnDropoutGenMask, dropout_cost(out)) { make_mask(out, product(shape), prob, key_of(seed, offset)); }
OP_COST(aclnnDropoutGenMaskV2, 8 * dropout_cost(out)) { make_mask(out, product(shape), prob, key_of(seed, offset)); }
OP_COST(aclnnDropoutGenMaskV2Tensor, 8 * dropout_cost(out)) {
  make_mask(out, product(shape), prob, key_of(seedTensor, offsetTensor, offset));
}
OP_COST(aclnnDropoutDoMask, dropout_cost(self)) { apply_mask(self, mask, scale_for(prob), out); }
OP_COST(aclnnDropoutBackward, dropout_cost(gradOutput)) { apply_mask(gradOutput, mask, scale, out); }
OP_COST(aclnnDropout, 2 * dropout_cost(input)) {
  if (!train) {
    out.copy_(input);
    maskOut.fill_(maskOut.scalar_type() == at::kBool ? 1 : 255);
    return;
  }
  make_mask(maskOut, input.numel(), p, key_of(seed, offset));
  apply_mask(input, maskOut, scale_for(p), out);
}
OP_COST(aclnnDropoutV3, 2 * dropout_cost(input)) {
  TORCH_CHECK(!optionalNoiseShape.defined() || optionalNoiseShape.numel() == 0, "optionalNoiseShape is not supported");
  make_mask(maskOut, input.numel(), p, key_of(seed, offset));
  apply_mask(input, maskOut, scale_for(p), out);
}
OP_COST(aclnnDropoutV3Tensor, 2 * dropout_cost(input)) {
  TORCH_CHECK(!optionalNoiseShape.defined() || optionalNoiseShape.numel() == 0, "optionalNoiseShape is not supported");
  make_mask(maskOut, input.numel(), p, key_of(seedTensor, offsetTensor, offset));
  apply_mask(input, maskOut, scale_for(p), out);
}
OP_COST(aclnnDropoutV3Grad, dropout_cost(gradY)) { apply_mask(gradY, mask, scale, gradX); }
