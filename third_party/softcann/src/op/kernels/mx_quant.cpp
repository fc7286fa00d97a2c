// Microscaling and other quantization in blocks.
//
// Note [MX]
// A block is 32 numbers along an axis with one scale, a power of two, stored as its exponent plus 127 in eight bits. Scales come
// in pairs: the axis has half as many, rounded up, and a last dimension of 2 is added; what fills up the last pair is 0.
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"

using namespace softcann::op;

namespace {

constexpr int64_t block_size = 32, bias = 127;

int64_t pieces(int64_t size, int64_t block) {
  TORCH_CHECK(block > 0, "quantization in blocks of ", block);
  return (size + block - 1) / block;
}
// The exponent of the greatest number of float8 or float4.
int64_t greatest_exponent(const at::Tensor& out) {
  switch (out.scalar_type()) {
    case at::kFloat8_e4m3fn:
      return 8;
    case at::kFloat8_e5m2:
      return 15;
    case at::ScalarType::Float4_e2m1fn_x2:
      return 2;
    case at::ScalarType::Bits8:  // float4_e1m2
      return 0;
    default:
      TORCH_CHECK(false, "MX quantization to ", out.scalar_type(),
                  " is not supported, only to float8_e4m3fn, float8_e5m2, float4_e2m1 and float4_e1m2");
  }
}

// How the scales are found. algorithm 0: from the exponent of a block's greatest number; 1 and 2: the least power of two with
// which nothing is beyond `largest` (0: the format's).
struct Scaling {
  int64_t algorithm;
  double largest;
  std::string_view mode;
  int64_t block = block_size;
  double least = 0;  // of algorithm 1: a block's greatest number counts as this much

  at::Tensor exponents(const at::Tensor& greatest, const at::Tensor& out) const {
    const at::Tensor top = least > 0 ? greatest.clamp_min(least) : greatest;
    TORCH_CHECK(algorithm >= 0 && algorithm <= 2, "MX quantization: scaleAlg ", algorithm, " is not one of 0, 1, 2");
    TORCH_CHECK(halved(out) || mode.empty() || mode == "rint", "MX quantization to float8: round mode '", mode,
                "' is not supported, only rint");
    at::Tensor found;
    if (algorithm == 0) {
      found = std::get<1>(at::frexp(top)) - 1 - greatest_exponent(out);
    } else {
      const double limit = largest != 0 ? largest : quantum_limit(out, -1);
      greatest_exponent(out);  // refuses other formats
      const auto [mantissa, exponent] = at::frexp(top / limit);
      found = at::where(mantissa == 0.5, exponent - 1, exponent);
    }
    return at::where(top > 0, found, -bias).clamp(-bias, bias);
  }
};

// Of ones in the same shape: ldexp warns where it has to broadcast.
at::Tensor power_of_two(const at::Tensor& exponent) { return at::ldexp(at::ones(exponent.sizes(), at::kFloat), exponent); }
void put_codes(const at::Tensor& out, const at::Tensor& codes) {
  const at::Tensor bytes = out.scalar_type() == at::kByte ? out : out.view(at::kByte);
  put(bytes, codes);
}
at::Tensor paired(const at::Tensor& exponents) {
  const at::Tensor codes = exponents + bias;
  return at::constant_pad_nd(codes, {0, codes.size(-1) % 2}, 0).unflatten(-1, at::IntArrayRef{(codes.size(-1) + 1) / 2, 2});
}

struct Blocks {
  at::Tensor values, scales;  // scales: in pairs
};
Blocks in_blocks(const at::Tensor& x, int64_t axis, const at::Tensor& out, const Scaling& scaling) {
  const int64_t along = axis < 0 ? axis + x.dim() : axis;
  const at::Tensor rows = widened(x).movedim(along, -1);
  const int64_t size = rows.size(-1), count = pieces(size, scaling.block);
  const at::Tensor blocks =
      at::constant_pad_nd(rows, {0, count * scaling.block - size}, 0).unflatten(-1, at::IntArrayRef{count, scaling.block});
  const at::Tensor exponent = scaling.exponents(blocks.abs().amax({-1}), out);
  const at::Tensor values = (blocks * power_of_two(-exponent).unsqueeze(-1)).flatten(-2).narrow(-1, 0, size);
  return {values.movedim(-1, along), paired(exponent).movedim(-2, along)};
}
void quantize_blocks(const at::Tensor& x, int64_t axis, const Scaling& scaling, const at::Tensor& out, const at::Tensor& scales) {
  const Blocks blocks = in_blocks(x, axis, out, scaling);
  put_quantized(out, blocks.values, scaling.mode);
  put_codes(scales, blocks.scales);
}
// Along rows within each group; scales of group g begin at pair start / 64 + g, so that each group has room for a last block that
// is not full.
void grouped_blocks(const at::Tensor& x, const at::Tensor& ends, const Scaling& scaling, const at::Tensor& out,
                    const at::Tensor& scales) {
  TORCH_CHECK(scaling.block > 0, "quantization in blocks of ", scaling.block);
  out.view(at::kByte).zero_();
  put_codes(scales, at::zeros({}, at::kByte).expand(scales.sizes()));
  int64_t start = 0, group = 0;
  for (const int64_t end : group_ends(ends, true, x.size(0))) {
    if (end > start) {
      const int64_t place = start / (2 * scaling.block) + group, pairs = pieces(end - start, 2 * scaling.block);
      quantize_blocks(x.slice(0, start, end), 0, scaling, out.slice(0, start, end), scales.slice(0, place, place + pairs));
    }
    start = end;
    ++group;
  }
}
// Along the last axis and along the one before it, in groups where there are `ends`.
void quantize_both(const at::Tensor& x, const at::Tensor& ends, const Scaling& scaling, const at::Tensor& out1,
                   const at::Tensor& scales1, const at::Tensor& out2, const at::Tensor& scales2) {
  quantize_blocks(x, -1, scaling, out1, scales1);
  if (given(ends)) return grouped_blocks(x, ends, scaling, out2, scales2);
  quantize_blocks(x, -2, scaling, out2, scales2);
}

}  // namespace

void softcann::op::quantize_mx(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales) {
  quantize_blocks(value, -1, {0, 0, ""}, out, scales);
}

OP(aclnnDynamicMxQuant) { quantize_blocks(x, axis, {scaleAlg, 0, roundModeOptional, blocksize}, yOut, mxscaleOut); }
OP(aclnnDynamicMxQuantV2) { quantize_blocks(x, axis, {scaleAlg, dstTypeMax, roundModeOptional, blocksize}, yOut, mxscaleOut); }
OP(aclnnDynamicMxQuantV3) {
  TORCH_CHECK(maxLowBound == 0 || (maxLowBound > 0 && scaleAlg == 1), "aclnnDynamicMxQuantV3: maxLowBound ", maxLowBound,
              " with scaleAlg ", scaleAlg, "; 0 is for all, positive numbers for scaleAlg 1");
  quantize_blocks(x, axis, {scaleAlg, dstTypeMax, roundModeOptional, blocksize, maxLowBound}, yOut, mxscaleOut);
}
OP(aclnnDynamicMxQuantWithDualAxis) {
  quantize_both(x, {}, {scaleAlg, 0, roundModeOptional}, y1Out, mxscale1Out, y2Out, mxscale2Out);
}
OP(aclnnDynamicMxQuantWithDualAxisV2) {
  quantize_both(x, {}, {scaleAlg, dstTypeMax, roundModeOptional}, y1Out, mxscale1Out, y2Out, mxscale2Out);
}
OP(aclnnAntiMxQuant) {
  const int64_t along = axis < 0 ? axis + x.dim() : axis;
  const at::Tensor bytes = mxscale.scalar_type() == at::kByte ? mxscale : mxscale.view(at::kByte);
  const at::Tensor exponent = bytes.to(at::kInt).movedim(along, -2).flatten(-2) - bias;
  const at::Tensor rows = unpacked(x).movedim(along, -1);
  const at::Tensor powers = power_of_two(exponent).repeat_interleave(block_size, -1).narrow(-1, 0, rows.size(-1));
  put(y, (rows * powers).movedim(-1, along));
}

// Blocks of level0BlockSize numbers, by a scale in float32 that makes the greatest 6, then MX blocks of those.
OP(aclnnDynamicDualLevelMxQuant) {
  TORCH_CHECK(yOut.scalar_type() == at::ScalarType::Float4_e2m1fn_x2, "aclnnDynamicDualLevelMxQuant: y is not float4_e2m1");
  const at::Tensor wide = given(smoothScaleOptional) ? widened(x) * widened(smoothScaleOptional) : widened(x);
  const int64_t size = wide.size(-1), count = pieces(size, level0BlockSize);
  const at::Tensor blocks =
      at::constant_pad_nd(wide, {0, count * level0BlockSize - size}, 0).unflatten(-1, at::IntArrayRef{count, level0BlockSize});
  const at::Tensor scale = blocks.abs().amax({-1}, true) / quantum_limit(yOut, -1);
  const at::Tensor scaled = at::where(scale > 0, blocks / scale, 0.0).flatten(-2).narrow(-1, 0, size).to(x.scalar_type());
  put(level0ScaleOut, scale.squeeze(-1));
  quantize_blocks(scaled, -1, {0, 0, roundModeOptional, level1BlockSize}, yOut, level1ScaleOut);
}

namespace {

// What aclnnDynamicDualLevelMxQuant made of rows, in float32; turned where its operand is.
at::Tensor of_two_levels(const at::Tensor& x, const at::Tensor& first, const at::Tensor& second, int64_t block0, int64_t block1) {
  const at::Tensor rows = unpacked(x);
  const at::Tensor bytes = second.scalar_type() == at::kByte ? second : second.view(at::kByte);
  const auto spread = [&](const at::Tensor& t, int64_t block) {
    return t.repeat_interleave(block, -1).narrow(-1, 0, rows.size(-1));
  };
  const at::Tensor powers = power_of_two(bytes.to(at::kInt).flatten(-2) - bias);
  return rows * spread(powers, block1) * spread(widened(first), block0);
}

}  // namespace

// x1 [m, k] and x2 [n, k] in two levels: x1 @ x2^T.
OP(aclnnDualLevelQuantMatmulWeightNz) {
  TORCH_CHECK(!transposeX1 && transposeX2, "aclnnDualLevelQuantMatmulWeightNz: x1 must not be transposed, and x2 must");
  const at::Tensor left = of_two_levels(x1, x1Level0Scale, x1Level1Scale, level0GroupSize, level1GroupSize);
  const at::Tensor right = of_two_levels(in_base_format(x2), x2Level0Scale, x2Level1Scale, level0GroupSize, level1GroupSize);
  const at::Tensor product = at::matmul(left, right.t());
  put(out, given(optionalBias) ? product + widened(optionalBias) : product);
}

namespace {

// x / rms(x) * gamma + beta.
at::Tensor normalized(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                      const at::Tensor& rstd, bool wanted) {
  const at::Tensor wide = widened(x), inverse = wide.square().mean({-1}, true).add_(epsilon).rsqrt_();
  put(rstd, inverse, wanted);
  const at::Tensor normal = wide * inverse * widened(gamma);
  return (given(beta) ? normal + widened(beta) : normal).to(x.scalar_type());
}

}  // namespace

OP(aclnnRmsNormDynamicMxQuant) {
  quantize_blocks(normalized(x, gamma, beta, epsilon, rstdOut, outputRstd), -1, {scaleAlg, 0, roundMode}, yOut, mxscaleOut);
}
OP(aclnnAddRmsNormDynamicMxQuant) {
  const at::Tensor sum = (widened(x1) + widened(x2)).to(x1.scalar_type());
  put(xOut, sum);
  quantize_blocks(normalized(sum, gamma, beta, epsilon, rstdOut, outputRstd), -1, {scaleAlg, 0, roundMode}, yOut, mxscaleOut);
}
// swigluMode 0: silu of one half times the other; 1: of the even and the odd numbers, clipped, as aclnnClippedSwiglu; 2: that of
// halves.
OP(aclnnSwigluMxQuant) {
  TORCH_CHECK(!given(groupIndexOptional), "aclnnSwigluMxQuant: groupIndex is not supported");
  const at::Tensor wide = widened(x);
  const int64_t half = wide.size(activateDim) / 2, last = wide.size(-1);
  const bool apart = swigluMode == 1;
  at::Tensor a = apart ? wide.slice(-1, 0, last, 2) : wide.narrow(activateDim, 0, half);
  at::Tensor b = apart ? wide.slice(-1, 1, last, 2) : wide.narrow(activateDim, half, half), value;
  if (swigluMode == 0) {
    value = activateLeft ? at::silu(a) * b : a * at::silu(b);
  } else {
    if (!activateLeft && !apart) std::swap(a, b);
    a = a.clamp_max(clampLimit), b = b.clamp(-clampLimit, clampLimit);
    value = a * at::sigmoid(gluAlpha * a) * (b + gluBias);
  }
  quantize_blocks(value.to(x.scalar_type()), axis, {scaleAlg, maxDtypeValue, roundModeOptional}, yOut, mxscaleOut);
}
OP(aclnnSwigluMxQuantWithDualAxis) {
  const at::Tensor wide = widened(x);
  const int64_t half = wide.size(-1) / 2;
  const at::Tensor a = wide.narrow(-1, 0, half), b = wide.narrow(-1, half, half);
  const at::Tensor value = (activateLeft ? at::silu(a) * b : a * at::silu(b)).to(x.scalar_type());
  quantize_both(value, groupIndexOptional, {scaleAlg, maxDtypeValue, roundModeOptional}, y1Out, mxscale1Out, y2Out, mxscale2Out);
}

OP(aclnnSwigluBackwardMxQuantWithDualAxis) {
  const at::Tensor wide = widened(x), grad = widened(yGrad);
  const int64_t half = wide.size(-1) / 2;
  const at::Tensor a = wide.narrow(-1, 0, half), b = wide.narrow(-1, half, half), &gate = activateLeft ? a : b,
                   &other = activateLeft ? b : a;
  const at::Tensor sigmoid = at::sigmoid(gate);
  const at::Tensor by_gate = grad * other * (sigmoid + gate * sigmoid * (1 - sigmoid)), by_other = grad * gate * sigmoid;
  const at::Tensor by_x = at::cat({activateLeft ? by_gate : by_other, activateLeft ? by_other : by_gate}, -1);
  quantize_both(by_x.to(x.scalar_type()), groupIndexOptional, {scaleAlg, maxDtypeValue, roundModeOptional}, y1Out, mxscale1Out,
                y2Out, mxscale2Out);
}

// Squares of the last two axes with one scale each, which is told for blocks along the one and the other.
OP(aclnnDynamicBlockMxQuant) {
  const at::Tensor wide = widened(x);
  const int64_t rows = wide.size(-2), columns = wide.size(-1), down = pieces(rows, block_size),
                across = pieces(columns, block_size);
  const at::Tensor squares = at::constant_pad_nd(wide, {0, across * block_size - columns, 0, down * block_size - rows}, 0)
                                 .unflatten(-1, at::IntArrayRef{across, block_size})
                                 .unflatten(-3, at::IntArrayRef{down, block_size});
  const at::Tensor shared = Scaling{scaleAlg, dstTypeMax, roundModeOptional}.exponents(squares.abs().amax({-1, -3}), yOut);
  const auto by_rows = [&](const at::Tensor& t, int64_t dim) {
    return t.repeat_interleave(block_size, dim).narrow(dim, 0, rows);
  };
  const auto by_columns = [&](const at::Tensor& t, int64_t dim) {
    return t.repeat_interleave(block_size, dim).narrow(dim, 0, columns);
  };
  put_quantized(yOut, wide * power_of_two(-by_columns(by_rows(shared, -2), -1)), roundModeOptional);
  put_codes(scale1Out, by_rows(paired(shared), -3));
  put_codes(scale2Out, by_columns(paired(shared.transpose(-1, -2)), -3).movedim(-3, -2));
}

// Turned by a matrix, in parts of its size; then int8 with a scale for each row, or MX blocks.
OP(aclnnRotateQuant) {
  TORCH_CHECK(!given(alpha) && !trans, "aclnnRotateQuant: alpha and trans are not supported");
  const int64_t size = rotation.size(0), last = x.size(-1);
  TORCH_CHECK(size > 0 && last % size == 0, "aclnnRotateQuant: rows of ", last, " are not parts of ", size);
  const at::Tensor turned =
      at::matmul(widened(x).unflatten(-1, at::IntArrayRef{last / size, size}), widened(rotation)).flatten(-2);
  if (yOut.scalar_type() == at::kChar || yOut.scalar_type() == at::kInt) return quantize_rows(turned, yOut, scaleOut);
  quantize_blocks(turned.to(x.scalar_type()), axis, {scaleAlg, dstTypeMax, roundMode}, yOut, scaleOut);
}

namespace {

// silu(a) * b of the halves of the last axis, a at most `limit` and b within it where it is positive; rows behind the groups' are
// 0.
struct GroupSwiglu {
  const at::Tensor &x, &weight, &group_index;
  double limit;

  static std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& x) {
    const int64_t half = x.size(-1) / 2;
    return {x.narrow(-1, 0, half), x.narrow(-1, half, half)};
  }
  at::Tensor counted() const {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[0] = x.size(0);
    const at::Tensor place = at::arange(x.size(0), at::kLong).view(shape);
    return given(group_index) ? place < group_index.to(at::kLong).sum() : place >= 0;
  }
  at::Tensor within(const at::Tensor& t, double low) const { return limit > 0 ? t.clamp(low, limit) : t; }
  at::Tensor activated() const {
    const auto [a, b] = halves(widened(x));
    return at::silu(within(a, -std::numeric_limits<double>::infinity())) * within(b, -limit);
  }
  // `all_weights`: the weights' gradients have those of rows behind the groups, too.
  void backward(const char* op, const at::Tensor& given_grad, const at::Tensor& origin, bool all_weights, const at::Tensor& by_x,
                const at::Tensor& by_weight) const {
    at::Tensor grad = at::where(counted(), widened(given_grad), 0.0);
    if (given(weight)) {
      TORCH_CHECK(given(origin), op, ": with weight, yOrigin must be given");
      const at::Tensor rows = all_weights ? widened(given_grad) : grad;
      put(by_weight, (rows * (origin.numel() != 0 ? widened(origin) : activated())).sum({-1}, true));
      grad = grad * widened(weight);
    }
    const auto [a, b] = halves(widened(x));
    const at::Tensor gate = within(a, -std::numeric_limits<double>::infinity()), other = within(b, -limit);
    const at::Tensor sigmoid = at::sigmoid(gate);
    at::Tensor by_gate = grad * other * (sigmoid + gate * sigmoid * (1 - sigmoid)), by_other = grad * gate * sigmoid;
    // Unlike torch's clamp, a number at the limit has no gradient.
    if (limit > 0) by_gate = by_gate * (a < limit), by_other = by_other * (b > -limit).logical_and(b < limit);
    put(by_x, at::cat({by_gate, by_other}, -1));
  }
};

}  // namespace

// quantMode 0: blocks of 128 with a scale in float32, 1: MX blocks.
OP(aclnnSwigluGroupQuant) {
  constexpr double least = 1e-4;  // of a block's greatest value
  const int64_t block = quantMode == 0 ? 128 : block_size;
  TORCH_CHECK(!given(scaleOptional) && (quantMode == 0 || quantMode == 1) && (blockSize == 0 || blockSize == block),
              "aclnnSwigluGroupQuant: quantMode ", quantMode, " with blockSize ", blockSize, " and hifloat8 are not supported");
  const GroupSwiglu swiglu{x, weightOptional, groupIndexOptional, clampLimit};
  const at::Tensor plain = swiglu.activated(), rows = swiglu.counted();
  const at::Tensor y = at::where(rows, given(weightOptional) ? plain * widened(weightOptional) : plain, 0.0);
  const int64_t size = y.size(-1), count = pieces(size, block);
  const at::Tensor blocks = at::constant_pad_nd(y, {0, count * block - size}, 0).unflatten(-1, at::IntArrayRef{count, block});
  const at::Tensor top = at::where(blocks.isfinite(), blocks.abs(), 0.0).amax({-1}).clamp_min(least);
  const at::Tensor shared = Scaling{1, 0, ""}.exponents(top, yOut);
  const at::Tensor scale = quantMode == 1 || roundScale ? power_of_two(shared) : top / quantum_limit(yOut, -1);
  TORCH_CHECK(!halved(yOut), "aclnnSwigluGroupQuant: float4 is not supported; float8 is");
  put_quantized(yOut, (blocks / scale.unsqueeze(-1)).flatten(-2).narrow(-1, 0, size));
  if (quantMode == 0) put(yScaleOut, scale);
  if (quantMode == 1) put_codes(yScaleOut, paired(shared));
  if (outputOrigin) put(yOriginOut, at::where(rows, plain, 0.0));
}
OP(aclnnSwigluGroupQuantGrad) {
  GroupSwiglu{x, weightOptional, groupIndexOptional, clampLimit}.backward("aclnnSwigluGroupQuantGrad", gradY, yOriginOptional,
                                                                          false, gradXOut, gradWeightOutOptional);
}
OP(aclnnSwigluGroup) {
  const GroupSwiglu swiglu{x, weightOptional, groupIndexOptional, clampLimit};
  const at::Tensor y = swiglu.activated();
  put(out, at::where(swiglu.counted(), given(weightOptional) ? y * widened(weightOptional) : y, 0.0));
}
OP(aclnnSwigluGroupGrad) {
  TORCH_CHECK(given(weightOptional) == given(yOriginOptional), "aclnnSwigluGroupGrad: weight and yOrigin go together");
  TORCH_CHECK(clampLimit >= 0, "aclnnSwigluGroupGrad: clampLimit ", clampLimit, " is negative");
  GroupSwiglu{x, weightOptional, groupIndexOptional, clampLimit}.backward("aclnnSwigluGroupGrad", gradY, yOriginOptional, true,
                                                                          gradXOut, gradWeightOutOptional);
}

namespace {

// A scale in float32 for each block of rows and columns: the greatest magnitude over the format's, at least `least`.
struct Squares {
  int64_t rows, columns;
  double least, largest;

  void run(const at::Tensor& x, const at::Tensor& out, const at::Tensor& scales) const {
    const at::Tensor wide = widened(x);
    const int64_t height = wide.size(-2), width = wide.size(-1), down = pieces(height, rows), across = pieces(width, columns);
    const at::Tensor blocks = at::constant_pad_nd(wide, {0, across * columns - width, 0, down * rows - height}, 0)
                                  .unflatten(-1, at::IntArrayRef{across, columns})
                                  .unflatten(-3, at::IntArrayRef{down, rows});
    TORCH_CHECK(!halved(out), "quantization in blocks with float32 scales to float4 is not supported; to int8 and float8 it is");
    const double limit = largest != 0 ? largest : quantum_limit(out, -1);
    const at::Tensor scale = (blocks.abs().amax({-1, -3}) / limit).clamp_min(least);
    const at::Tensor spread =
        scale.repeat_interleave(rows, -2).narrow(-2, 0, height).repeat_interleave(columns, -1).narrow(-1, 0, width);
    put_quantized(out, at::where(spread > 0, wide / spread, 0.0));
    put(scales, scale);
  }
  // The blocks of each group of rows for themselves; their scales follow each other, the rest is 0.
  void run_groups(const at::Tensor& x, const std::vector<int64_t>& ends, const at::Tensor& out, const at::Tensor& scales) const {
    TORCH_CHECK(rows > 0, "quantization in blocks of ", rows, " rows");
    writable(out).zero_(), writable(scales).zero_();
    int64_t start = 0, group = 0;
    for (const int64_t end : ends) {
      const int64_t place = start / rows + group, count = pieces(end - start, rows);  // as in grouped_blocks()
      if (end > start) run(x.slice(-2, start, end), out.slice(-2, start, end), scales.slice(-2, place, place + count));
      start = end, ++group;
    }
  }
};

}  // namespace

OP(aclnnDynamicBlockQuant) { Squares{rowBlockSize, colBlockSize, minScale, 0}.run(x, yOut, scaleOut); }
OP(aclnnDynamicBlockQuantV2) { Squares{rowBlockSize, colBlockSize, minScale, dstTypeMax}.run(x, yOut, scaleOut); }
OP(aclnnGroupedDynamicBlockQuant) {
  Squares{rowBlockSize, colBlockSize, minScale, 0}.run_groups(x, group_ends_of_type(groupList, groupListType, x.size(-2)), yOut,
                                                              scaleOut);
}
OP(aclnnGroupedDynamicBlockQuantV2) {
  Squares{rowBlockSize, colBlockSize, minScale, dstTypeMax}.run_groups(
      x, group_ends_of_type(groupList, groupListType, x.size(-2)), yOut, scaleOut);
}

OP(aclnnGroupedDynamicMxQuant) { grouped_blocks(x, groupIndex, {0, 0, roundMode, blocksize}, y, mxscale); }
OP(aclnnGroupedDynamicMxQuantWithDualAxis) {
  quantize_both(x, groupIndex, {scaleAlg, maxDtypeValue, roundModeOptional}, y1Out, y1ScaleOut, y2Out, y2ScaleOut);
}
OP(aclnnGroupedDynamicMxQuantV2) { grouped_blocks(x, groupIndex, {scaleAlg, dstTypeMax, roundMode, blocksize}, y, mxscale); }
