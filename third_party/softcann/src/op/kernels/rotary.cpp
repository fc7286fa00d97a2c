// Rotary position embedding in CANN's layouts.
#include <ATen/ExpandUtils.h>

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
    case half:
      return rotated_halves(x);
    case interleave:
      return rotated_neighbours(x);
    case quarter:
      return rotated_halves(x.unflatten(-1, at::IntArrayRef{2, x.size(-1) / 2})).flatten(-2);
    default:
      TORCH_CHECK(false, "rotary embedding: mode ", mode, " is not supported");
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
at::Tensor rotated_back(const at::Tensor& grad, int64_t mode) { return -rotated(grad, mode); }
at::Tensor summed_to(const at::Tensor& value, const at::Tensor& like) { return at::sum_to(value, like.sizes()); }

}  // namespace

OP(aclnnRotaryPositionEmbedding) { put(out, embedded(x, cos, sin, mode)); }
// With a matrix, what is turned is x @ rotate.
OP(aclnnRotaryPositionEmbeddingV2) {
  if (!given(rotate)) return put(out, embedded(x, cos, sin, mode));
  put(out, widened(x) * widened(cos) + widened(x).matmul(widened(rotate)) * widened(sin));
}
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

namespace {

// Turns the first `cos.size(-1)` numbers (twice as many with neox: halves, otherwise neighbours) of each head.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int64_t head_size, bool neox) {
  const at::Tensor heads = widened(x).reshape({x.size(0), -1, head_size});
  const int64_t turned = 2 * cos.size(-1);
  const auto twice = [&](const at::Tensor& t) {
    return (neox ? at::cat({t, t}, -1) : at::stack({t, t}, -1).flatten(-2)).unsqueeze(1);
  };
  const at::Tensor head = embedded(heads.narrow(-1, 0, turned), twice(cos), twice(sin), neox ? half : interleave);
  return at::cat({head, heads.narrow(-1, turned, head_size - turned)}, -1).view(x.sizes());
}

struct Cached {
  at::Tensor cos, sin;
};
// The cache has cosines, then sines, for each position; with sections, positions are given three times, and each section
// of a row comes from its own.
Cached cached(const at::Tensor& positions, const at::Tensor& cosSinCache, at::IntArrayRef mropeSection) {
  const at::Tensor rows = widened(cosSinCache).index_select(0, positions.to(at::kLong).reshape({-1}));
  const int64_t size = rows.size(-1) / 2;
  const at::Tensor cosines = rows.narrow(-1, 0, size), sines = rows.narrow(-1, size, size);
  at::Tensor cos = cosines, sin = sines;
  if (positions.dim() == 2) {
    const int64_t tokens = positions.size(1);
    TORCH_CHECK(positions.size(0) == static_cast<int64_t>(mropeSection.size()), "rotary embedding: positions for ",
                positions.size(0), " sections, mropeSection has ", mropeSection.size());
    const auto sections = [&](const at::Tensor& t) {
      std::vector<at::Tensor> parts;
      int64_t start = 0;
      for (size_t i = 0; i < mropeSection.size(); ++i) {
        parts.push_back(t.slice(0, static_cast<int64_t>(i) * tokens, static_cast<int64_t>(i + 1) * tokens)
                            .narrow(-1, start, mropeSection[i]));
        start += mropeSection[i];
      }
      return at::cat(parts, -1);
    };
    cos = sections(cosines);
    sin = sections(sines);
  }
  return {cos, sin};
}

}  // namespace

OP(aclnnRopeWithSinCosCache) {
  const auto [cos, sin] = cached(positions, cosSinCache, mropeSection);
  put(queryOut, turned(queryIn, cos, sin, headSize, isNeoxStyle));
  put(keyOut, turned(keyIn, cos, sin, headSize, isNeoxStyle));
}
OP(aclnnRopeWithSinCosCacheV2) {
  TORCH_CHECK(cacheMode == 0, "aclnnRopeWithSinCosCacheV2: cacheMode ", cacheMode, " is not supported");
  const auto [cos, sin] = cached(positions, cosSinCache, mropeSection);
  put(queryOut, turned(queryIn, cos, sin, headSize, isNeoxStyle));
  put(keyOut, turned(keyIn, cos, sin, headSize, isNeoxStyle));
}
