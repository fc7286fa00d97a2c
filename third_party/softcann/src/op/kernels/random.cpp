// Random numbers.
#include "op/kernels/random.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "op/kernels/common.h"
#include "op/simd/clones.h"
#include "op/simd/lanes.h"

namespace softcann::op {

PhiloxKey key_of(const at::Tensor& seed, const at::Tensor& offset, int64_t more) {
  return key_of(seed.item<int64_t>(), offset.item<int64_t>() + more);
}

at::Generator& generator(PhiloxKey key) {
  static thread_local at::Generator mine = at::make_generator<at::CPUGeneratorImpl>();
  uint64_t mixed = key.seed + 0x9E3779B97F4A7C15ull * (key.offset + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  mine.set_current_seed(mixed ^ (mixed >> 31));
  return mine;
}

namespace {

// Uniform in [0, 1) with as many bits as T's mantissa holds, so that rounding never yields 1.
template <class T>
struct Unit {
  static constexpr int words = 1, digits = std::numeric_limits<T>::digits;
  using Compute = float;
  static float get(const uint32_t* word) { return static_cast<float>(*word >> (32 - digits)) * (1.0f / (1u << digits)); }
};
template <>
struct Unit<double> {
  static constexpr int words = 2;
  using Compute = double;
  static double get(const uint32_t* word) {
    const uint64_t bits = (static_cast<uint64_t>(word[0]) << 32 | word[1]) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
  }
};

// out[i] = f(uniform number in [0, 1)), for floating types.
template <class F>
void fill_from_unit(at::Tensor& out, PhiloxKey key, F&& f) {
  through_contiguous(out, [&](at::Tensor& dense) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dense.scalar_type(), "random", [&] {
      auto* data = dense.mutable_data_ptr<scalar_t>();
      random_pieces(key, dense.numel(), Unit<scalar_t>::words, [&](int64_t first, int64_t count, const uint32_t* words) {
        for (int64_t i = 0; i < count; ++i) {
          data[first + i] = static_cast<scalar_t>(f(Unit<scalar_t>::get(words + i * Unit<scalar_t>::words)));
        }
      });
    });
  });
}

// Box and Muller in float32: even words give radii, odd ones angles. `words` and `out` have room for whole pairs of lanes.
SOFTCANN_CLONES void normal_numbers(const uint32_t* words, int64_t count, float mean, float deviation, float* out) {
  using Words [[gnu::vector_size(sizeof(IntLanes))]] = uint32_t;
  for (int64_t i = 0; i < count; i += 2 * lane_count) {
    Words first, second;
    std::memcpy(&first, words + i, sizeof(first));
    std::memcpy(&second, words + i + lane_count, sizeof(second));
    const Words even = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) >> 8;
    const Words odd = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31) >> 8;
    Lanes radius = 1.0F - __builtin_convertvector(reinterpret_cast<IntLanes>(even), Lanes) * 0x1p-24F;
    take_logarithm(radius);
    radius = -2.0F * radius;
    for (int64_t lane = 0; lane < lane_count; ++lane) radius[lane] = __builtin_sqrtf(radius[lane]);
    Lanes cosine, sine;
    cosine_and_sine(__builtin_convertvector(reinterpret_cast<IntLanes>(odd), Lanes) * 0x1p-24F, cosine, sine);
    cosine = mean + deviation * radius * cosine;
    sine = mean + deviation * radius * sine;
    store(__builtin_shufflevector(cosine, sine, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), out + i);
    store(__builtin_shufflevector(cosine, sine, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
          out + i + lane_count);
  }
}

}  // namespace

void fill_uniform(at::Tensor& out, double from, double to, PhiloxKey key) {
  if (c10::isIntegralType(out.scalar_type(), false)) {  // cut to whole numbers
    at::Tensor wide = at::empty(out.sizes(), out.options().dtype(at::kDouble));
    fill_uniform(wide, from, to, key);
    out.copy_(wide);
    return;
  }
  fill_from_unit(out, key, [=](auto unit) {
    using C = decltype(unit);
    return static_cast<C>(from) + unit * static_cast<C>(to - from);
  });
}

void fill_normal(at::Tensor& out, double mean, double deviation, PhiloxKey key) {
  if (!at::isFloatingType(out.scalar_type())) {  // whole numbers of what float32 would have
    at::Tensor wide = at::empty(out.sizes(), out.options().dtype(at::kFloat));
    fill_normal(wide, mean, deviation, key);
    out.copy_(wide);
    return;
  }
  // Box and Muller: two uniform numbers give two normal ones.
  through_contiguous(out, [&](at::Tensor& dense) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dense.scalar_type(), "normal", [&] {
      auto* data = dense.mutable_data_ptr<scalar_t>();
      if constexpr (std::is_same_v<scalar_t, double>) {
        random_pieces(key, dense.numel(), Unit<double>::words, [&](int64_t first, int64_t count, const uint32_t* words) {
          for (int64_t i = 0; i < count; i += 2) {
            const double radius = std::sqrt(-2 * std::log(1 - Unit<double>::get(words + i * Unit<double>::words)));
            const double angle = 2 * std::numbers::pi * Unit<double>::get(words + (i + 1) * Unit<double>::words);
            data[first + i] = mean + deviation * radius * std::cos(angle);
            if (i + 1 < count) data[first + i + 1] = mean + deviation * radius * std::sin(angle);
          }
        });
      } else {
        random_pieces(key, dense.numel(), 1, [&](int64_t first, int64_t count, const uint32_t* words) {
          alignas(64) float normal[random_chunk];
          normal_numbers(words, count, static_cast<float>(mean), static_cast<float>(deviation), normal);
          for (int64_t i = 0; i < count; ++i) data[first + i] = static_cast<scalar_t>(normal[i]);
        });
      }
    });
  });
}

}  // namespace softcann::op

using namespace softcann::op;

namespace {

double random_cost(const at::Tensor& out, double ns_per_element = 2) {
  constexpr double call_ns = 600;
  return call_ns + (out.defined() ? ns_per_element * static_cast<double>(out.numel()) : 0);
}

// Whole numbers in [from, from + range); range 0 means all 2^64.
void fill_integers(at::Tensor& out, int64_t from, uint64_t range, PhiloxKey key) {
  if (out.is_complex()) {  // real numbers
    at::Tensor real = at::empty(out.sizes(), out.options().dtype(c10::toRealValueType(out.scalar_type())));
    fill_integers(real, from, range, key);
    out.copy_(real);
    return;
  }
  const bool wide = range == 0 || range > std::numeric_limits<uint32_t>::max();
  through_contiguous(out, [&](at::Tensor& dense) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dense.scalar_type(), "random", [&] {
      auto* data = dense.mutable_data_ptr<scalar_t>();
      random_pieces(key, dense.numel(), wide ? 2 : 1, [&](int64_t first, int64_t count, const uint32_t* words) {
        for (int64_t i = 0; i < count; ++i) {
          uint64_t value = wide ? static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1] : words[i];
          if (range) value %= range;
          data[first + i] = static_cast<scalar_t>(static_cast<int64_t>(static_cast<uint64_t>(from) + value));
        }
      });
    });
  });
}

// [0, 2^mantissa] for floating types, [0, largest] for whole ones: torch's random_().
void fill_natural(at::Tensor& out, PhiloxKey key) {
  uint64_t range = 2;  // bool
  if (at::isFloatingType(out.scalar_type())) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "random",
                                    [&] { range = (uint64_t{1} << std::numeric_limits<scalar_t>::digits) + 1; });
  } else if (out.scalar_type() != at::kBool) {
    AT_DISPATCH_INTEGRAL_TYPES(out.scalar_type(), "random",
                               [&] { range = static_cast<uint64_t>(std::numeric_limits<scalar_t>::max()) + 1; });
  }
  fill_integers(out, 0, range, key);
}

void check_range(int64_t from, int64_t to) {
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
}

void fill_bernoulli(at::Tensor& out, double probability, PhiloxKey key) {
  TORCH_CHECK(probability >= 0 && probability <= 1, "probability ", probability, " is not between 0 and 1");
  const auto threshold = static_cast<uint64_t>(std::ldexp(probability, 32));
  through_contiguous(out, [&](at::Tensor& dense) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dense.scalar_type(), "bernoulli", [&] {
      auto* data = dense.mutable_data_ptr<scalar_t>();
      random_pieces(key, dense.numel(), 1, [&](int64_t first, int64_t count, const uint32_t* words) {
        for (int64_t i = 0; i < count; ++i) data[first + i] = static_cast<scalar_t>(words[i] < threshold ? 1 : 0);
      });
    });
  });
}

void fill_bernoulli(at::Tensor& out, const at::Tensor& probabilities, PhiloxKey key) {
  if (probabilities.numel() != 0) {
    const auto [least, greatest] = at::aminmax(probabilities);
    const double from = least.item<double>(), to = greatest.item<double>();
    TORCH_CHECK(from >= 0 && to <= 1, "probabilities from ", from, " to ", to, " are not all between 0 and 1");  // nor is a NaN
  }
  at::Tensor uniform = at::empty(out.sizes(), out.options().dtype(at::kFloat));
  fill_uniform(uniform, 0, 1, key);
  out.copy_(uniform.lt(probabilities));
}

void fill_exponential(at::Tensor& out, double lambda, PhiloxKey key) {
  fill_from_unit(out, key, [=](auto unit) { return -std::log1p(-unit) / static_cast<decltype(unit)>(lambda); });
}

// ATen's kernel writes noise in the order of a contiguous tensor, whatever noise's strides say, and knows no float16. The
// result is the product with the noise that the client gets, rounded to its type: the gradient is taken from that.
void rrelu(const at::Tensor& self, const at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training,
           PhiloxKey key, const at::Tensor& out) {
  if (!training) {
    at::cpu::leaky_relu_outf(self, (lower.toDouble() + upper.toDouble()) / 2, writable(out));
    return;
  }
  PlainResult slopes(noise);
  at::Tensor scratch = at::cpu::empty(noise.sizes(), slopes.value().options());
  at::cpu::rrelu_with_noise_outf(plain(self), slopes.value(), lower, upper, training, generator(key), scratch);
  slopes.finish();
  at::cpu::mul_outf(self, noise, writable(out));
}

}  // namespace

OP_COST(aclnnInplaceUniform, random_cost(selfRef)) { fill_uniform(selfRef, from, to, {seed, offset}); }
OP_COST(aclnnInplaceUniformTensor, random_cost(selfRef)) {
  fill_uniform(selfRef, from, to, key_of(seedTensor, offsetTensor, static_cast<int64_t>(offset)));
}
OP_COST(aclnnInplaceNormal, random_cost(selfRef, 12)) { fill_normal(selfRef, mean, std, key_of(seed, offset)); }
OP_COST(aclnnInplaceNormalTensor, random_cost(selfRef, 12)) {
  fill_normal(selfRef, mean, std, key_of(seedTensor, offsetTensor, offset));
}
OP_COST(aclnnNormalFloatFloat, random_cost(out, 12)) { fill_normal(out, mean, std, key_of(seed, offset)); }
OP_COST(aclnnNormalFloatTensor, random_cost(out, 12)) {
  fill_normal(out, 0, 1, key_of(seed, offset));
  out.mul_(std).add_(mean);
}
OP_COST(aclnnNormalTensorFloat, random_cost(out, 12)) {
  fill_normal(out, 0, std, key_of(seed, offset));
  out.add_(mean);
}
OP_COST(aclnnNormalTensorTensor, random_cost(out, 12)) {
  fill_normal(out, 0, 1, key_of(seed, offset));
  out.mul_(std).add_(mean);
}
OP_COST(aclnnInplaceRandom, random_cost(selfRef)) {
  check_range(from, to);
  fill_integers(selfRef, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), key_of(seed, offset));
}
OP_COST(aclnnInplaceRandomTensor, random_cost(selfRef)) {
  check_range(from, to);
  fill_integers(selfRef, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), key_of(seedTensor, offsetTensor, offset));
}
OP_COST(aclnnInplaceRandomWithoutFromTo, random_cost(selfRef)) { fill_natural(selfRef, key_of(seed, offset)); }
OP_COST(aclnnInplaceRandomWithoutFromToTensor, random_cost(selfRef)) {
  fill_natural(selfRef, key_of(seedTensor, offsetTensor, offset));
}
OP_COST(aclnnInplaceBernoulli, random_cost(selfRef)) { fill_bernoulli(selfRef, prob.toDouble(), key_of(seed, offset)); }
OP_COST(aclnnInplaceBernoulliTensor, random_cost(selfRef)) { fill_bernoulli(selfRef, prob, key_of(seed, offset)); }
OP_COST(aclnnBernoulli, random_cost(out)) { fill_bernoulli(out, prob.toDouble(), key_of(seed, offset)); }
OP_COST(aclnnBernoulliTensor, random_cost(out)) { fill_bernoulli(out, prob, key_of(seed, offset)); }
OP_COST(aclnnSimThreadExponential, random_cost(selfRef, 8)) {
  TORCH_CHECK(count == selfRef.numel(), "count ", count, " differs from selfRef's ", selfRef.numel(), " elements");
  fill_exponential(selfRef, lambda, key_of(seed, offset));
}
OP_COST(aclnnStatelessExponentialTensor, random_cost(self, 8)) {
  fill_exponential(self, lambd, key_of(seedTensor, offsetTensor, offset));
}

OP_COST(aclnnRandperm, random_cost(out, 8)) { at::cpu::randperm_outf(n, generator(key_of(seed, offset)), out); }
OP_COST(aclnnMultinomial, random_cost(self, 20)) {
  at::cpu::multinomial_outf(self, numsamples, replacement, generator(key_of(seed, offset)), out);
}
OP_COST(aclnnMultinomialTensor, random_cost(self, 20)) {
  at::cpu::multinomial_outf(self, numsamples, replacement, generator(key_of(seedTensor, offsetTensor, offset)), out);
}

OP_COST(aclnnRReluWithNoise, random_cost(self, 8)) {
  rrelu(self, writable(noise), lower, upper, training, key_of(seed, offset), out);
}
OP_COST(aclnnInplaceRReluWithNoise, random_cost(self, 8)) {
  rrelu(self, writable(noise), lower, upper, training, key_of(seed, offset), writable(self));
}
