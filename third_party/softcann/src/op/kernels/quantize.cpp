#include "op/kernels/quantize.h"

#include <array>
#include <cmath>

#include "op/kernels/common.h"

namespace softcann::op {
namespace {

constexpr int64_t nibbles = 8;  // int4 in an int32

constexpr auto e2m1 = at::ScalarType::Float4_e2m1fn_x2, e1m2 = at::ScalarType::Bits8;  // to_scalar_type() says why
using Levels = std::array<float, 8>;  // of float4 without its sign, which is the fourth bit
constexpr Levels e2m1_levels{0, 0.5, 1, 1.5, 2, 3, 4, 6}, e1m2_levels{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75};
const Levels& levels_of(at::ScalarType type) { return type == e2m1 ? e2m1_levels : e1m2_levels; }

enum class Rounding : uint8_t { to_even, away, floor };
Rounding rounding_of_float4(std::string_view mode) {
  if (mode.empty() || mode == "rint") return Rounding::to_even;
  TORCH_CHECK(mode == "round" || mode == "floor", "float4: round mode '", mode, "' is not one of rint, round, floor");
  return mode == "round" ? Rounding::away : Rounding::floor;
}
uint8_t float4_code(float value, const Levels& levels, Rounding rounding) {
  const float size = std::fabs(value);
  uint8_t code = 7;
  while (levels[code] > size) --code;
  if (code < 7 && size > levels[code]) {
    const float low = size - levels[code], high = levels[code + 1U] - size;
    const bool up = rounding == Rounding::floor ? value < 0
                    : low != high               ? low > high
                                                : rounding == Rounding::away || code % 2 != 0;
    if (up) ++code;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

// In bytes of two, along the dimension that is dense in memory.
void put_four_bits(const at::Tensor& out, const at::Tensor& value, std::string_view mode) {
  if (out.dim() > 1 && out.stride(-1) != 1) return put_four_bits(out.mT(), value.mT(), mode);
  const bool floating = out.scalar_type() != at::ScalarType::Bits4x2;
  const at::Tensor numbers = (floating ? value : at::clamp(rounded(value, mode), -8, 7)).to(at::kFloat).contiguous();
  TORCH_CHECK(numbers.dim() > 0 && numbers.size(-1) == 2 * out.size(-1) && numbers.numel() == 2 * out.numel(), "numbers ",
              numbers.sizes(), " do not fit into pairs ", out.sizes());
  const auto rounding = floating ? rounding_of_float4(mode) : Rounding::to_even;
  const Levels& levels = levels_of(out.scalar_type());
  const auto code = [&](float number) {
    return floating ? float4_code(number, levels, rounding) : static_cast<uint8_t>(static_cast<int>(number) & 15);
  };
  const at::Tensor bytes = at::empty(out.sizes(), at::kByte);
  auto* to = bytes.mutable_data_ptr<uint8_t>();
  const auto* from = numbers.const_data_ptr<float>();
  for (int64_t i = 0; i < bytes.numel(); ++i) to[i] = static_cast<uint8_t>(code(from[2 * i]) | code(from[2 * i + 1]) << 4);
  put(out.view(at::kByte), bytes);
}
at::Tensor from_four_bits(const at::Tensor& tensor) {
  if (tensor.dim() > 1 && tensor.stride(-1) != 1) return from_four_bits(tensor.mT()).mT();
  TORCH_CHECK(tensor.dim() > 0, "pairs of four bits without dimensions");
  std::array<float, 16> values{};
  for (size_t code = 0; code < values.size(); ++code) {
    const float size = levels_of(tensor.scalar_type())[code & 7];
    values[code] = tensor.scalar_type() == at::ScalarType::Bits4x2 ? static_cast<float>(code) - (code < 8 ? 0 : 16)
                   : code < 8                                      ? size
                                                                   : -size;
  }
  const at::Tensor bytes = tensor.view(at::kByte).contiguous();
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.back() *= 2;
  const at::Tensor numbers = at::empty(sizes, at::kFloat);
  auto* to = numbers.mutable_data_ptr<float>();
  const auto* from = bytes.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < bytes.numel(); ++i) to[2 * i] = values[from[i] & 15], to[2 * i + 1] = values[from[i] >> 4];
  return numbers;
}

// The range of an output's numbers; values beyond it become its ends.
struct Range {
  double low, high;
};
Range range_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return {0, 255};
    case at::kInt:
      return {-2147483648.0, 2147483520.0};  // the largest float32 below 2^31
    case at::kFloat8_e4m3fn:
      return {-448, 448};
    case at::kFloat8_e5m2:
      return {-57344, 57344};
    case e2m1:
    case e1m2:
      return {-levels_of(type).back(), levels_of(type).back()};
    case at::ScalarType::Bits4x2:
      return {-8, 7};
    default:
      return {-128, 127};
  }
}
bool is_float8(at::ScalarType type) { return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2; }

at::Tensor packed(const at::Tensor& value) {
  const at::Tensor codes = at::bitwise_and(at::clamp(value, -8, 7).to(at::kLong), 15).unflatten(-1, {-1, nibbles});
  const at::Tensor word = codes.bitwise_left_shift(at::arange(0, 4 * nibbles, 4, at::kLong)).sum({-1});
  return at::where(word >= (int64_t{1} << 31), word - (int64_t{1} << 32), word);
}

}  // namespace

double quantum_limit(const at::Tensor& out, int64_t columns) {
  if (out.scalar_type() == at::kInt && out.size(-1) * nibbles == columns) return 7;
  return range_of(out.scalar_type()).high;
}

at::Tensor rounded(const at::Tensor& value, std::string_view mode) {
  if (mode.empty() || mode == "rint" || mode == "round") return at::round(value);
  if (mode == "floor") return value.floor();
  if (mode == "ceil") return value.ceil();
  if (mode == "trunc") return value.trunc();
  TORCH_CHECK(false, "round mode '", mode, "' is not one of rint, round, floor, ceil, trunc");
}

void put_quantized(const at::Tensor& out, const at::Tensor& value, std::string_view mode) {
  if (halved(out)) return put_four_bits(out, value, mode);
  const Range range = range_of(out.scalar_type());
  if (is_float8(out.scalar_type())) return put(out, at::clamp(value, range.low, range.high));
  const at::Tensor whole = rounded(value, mode);
  const bool int4 = value.dim() > 0 && quantum_limit(out, value.size(-1)) == 7;
  put(out, int4 ? packed(whole) : at::clamp(whole, range.low, range.high));
}

void quantize_rows(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales, double limit, bool whole) {
  const at::Tensor top = whole ? value.abs().amax() : value.abs().amax({-1}, true);
  const at::Tensor scale = top / (limit != 0 ? limit : quantum_limit(out, value.size(-1)));
  put_quantized(out, at::where(scale > 0, value / scale, 0.0));
  put(scales, whole ? scale : scale.squeeze(-1));
}

void quantize_rows_with_offset(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales,
                               const at::Tensor& offsets, bool whole) {
  const double limit = quantum_limit(out, value.size(-1));
  const at::Tensor top = whole ? value.amax() : value.amax({-1}, true), least = whole ? value.amin() : value.amin({-1}, true);
  const at::Tensor scale = (top - least) / (2 * limit + 1), offset = at::where(scale > 0, limit - top / scale, 0.0);
  put_quantized(out, at::where(scale > 0, value / scale, 0.0) + offset);
  put(scales, whole ? scale : scale.squeeze(-1));
  put(offsets, whole ? offset : offset.squeeze(-1));
}

at::Tensor unpacked(const at::Tensor& tensor) {
  if (halved(tensor)) return from_four_bits(tensor);
  if (tensor.scalar_type() != at::kInt) return widened(tensor);
  // Eight lie along the dimension that is dense in memory.
  if (tensor.dim() > 1 && tensor.stride(-1) != 1 && tensor.stride(-2) == 1) return unpacked(tensor.mT()).mT();
  const at::Tensor codes =
      at::bitwise_and(tensor.to(at::kLong).unsqueeze(-1).bitwise_right_shift(at::arange(0, 4 * nibbles, 4, at::kLong)), 15);
  return at::where(codes >= 8, codes - 16, codes).flatten(-2).to(at::kFloat);
}

// Note [Deq scale]
// The cube unit takes a scale as 64 bits: a float32 whose last 13 bits count as 0 in bits 0 to 31, a 9-bit offset
// from bit 37 on, and bit 46 set.
at::Tensor scale_of(const at::Tensor& scale) {
  if (!scale.defined() || (scale.scalar_type() != at::kLong && scale.scalar_type() != at::kUInt64)) return widened(scale);
  return scale.view(at::kLong).bitwise_and(0xFFFFE000).to(at::kInt).view(at::kFloat);
}

at::Tensor quantized_matmul(const at::Tensor& a, const at::Tensor& b) {
  if (halved(a) || halved(b)) return at::matmul(unpacked(a), unpacked(b));
  // float32 would not hold the sums of int8 products.
  if (!at::isFloatingType(a.scalar_type())) return at::matmul(a.to(at::kDouble), b.to(at::kDouble)).to(at::kFloat);
  return at::matmul(widened(a), widened(b));
}

at::Tensor groups_of_rows(int64_t rows, const at::Tensor& ends) {
  return at::searchsorted(ends.to(at::kLong).contiguous(), at::arange(rows, at::kLong), false, true);
}

}  // namespace softcann::op
