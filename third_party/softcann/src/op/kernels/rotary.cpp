// Rotary position embedding in CANN's layouts.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// 0: the halves of a vector form the pairs; 1: neighbours do; 2: quarters, as two halves each; 3: neighbours into halves.
enum RotaryMode : int64_t { half, interleave, quarter, interleave_half };

at::Tensor rotated_halves(const at::Tensor& x) {
  const int64_t size = x.size(-1) / 2;
  return at::cat({-x.narrow(-1, size, size), x.narrow(-1, 0, size)}, -1);
}
at::Tensor rotated_neighbours(const at::Tensor& x) {
  const at::Tensor pairs = x.unflatten(-1, at::IntArrayRef{x.size(-1) / 2, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}
at::Tensor rotated(const at::Tensor& x, int64_t mode) {
  switch (mode) {
    case half: return rotated_halves(x);
    case interleave: return rotated_neighbours(x);
    case quarter: return rotated_halves(x.unflatten(-1, at::IntArrayRef{2, x.size(-1) / 2})).flatten(-2);
    default: TORCH_CHECK(false, "rotary embedding: mode ", mode, " is not supported");
  }
}
// Neighbours into halves, and back.
at::Tensor split(const at::Tensor& x) {
  return x.unflatten(-1, at::IntArrayRef{x.size(-1) / 2, 2}).transpose(-1, -2).flatten(-2);
}
at::Tensor joined(const at::Tensor& x) {
  return x.unflatten(-1, at::IntArrayRef{2, x.size(-1) / 2}).transpose(-1, -2).flatten(-2);
}
at::Tensor embedded(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int64_t mode) {
  const at::Tensor wide = widened(x);
  if (mode == interleave_half) {
    const at::Tensor halves = split(wide);
    return halves * widened(cos) + rotated_halves(halves) * widened(sin);
  }
  return wide * widened(cos) + rotated(wide, mode) * widened(sin);
}
// The rotation is a skew map: its transpose turns back.
at::Tensor rotated_back(const at::Tensor& grad, int64_t mode) {
  return -rotated(grad, mode);
}
at::Tensor summed_to(const at::Tensor& value, const at::Tensor& like) {
  return at::sum_to(value, like.sizes());
}

}  // namespace

OP(aclnnRotaryPositionEmbedding) { put(out, embedded(x, cos, sin, mode)); }
OP(aclnnInterleaveRope) { put(out, embedded(x, cos, sin, interleave_half)); }
OP(aclnnRotaryPositionEmbeddingGrad) {
  const bool apart = mode == interleave_half;
  const int64_t turn = apart ? half : mode;
  const at::Tensor grad = widened(dy), dx = grad * widened(cos) + rotated_back(grad * widened(sin), turn);
  put(dxOut, apart ? joined(dx) : dx);
  if (!xOptional.defined()) return;
  const at::Tensor wide = apart ? split(widened(xOptional)) : widened(xOptional);
  put(dcosOut, summed_to(grad * wide, cos));
  put(dsinOut, summed_to(grad * rotated(wide, turn), sin));
}
OP(aclnnApplyRotaryPosEmb) {
  put(queryRef, embedded(queryRef, cos, sin, half));
  put(keyRef, embedded(keyRef, cos, sin, half));
}
OP(aclnnApplyRotaryPosEmbV2) {
  const std::string_view name = rotaryMode;
  TORCH_CHECK(name.empty() || name == "half" || name == "interleave" || name == "quarter",
              "aclnnApplyRotaryPosEmbV2: rotaryMode '", name, "' is not supported");
  const int64_t mode = name == "interleave" ? interleave : name == "quarter" ? quarter : half;
  put(queryRef, embedded(queryRef, cos, sin, mode));
  put(keyRef, embedded(keyRef, cos, sin, mode));
}
