// Operators that clients name: random numbers that are functions of a seed and an offset, or of a key and a counter.
#include "op/kernels/random.h"

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// shape, key, counter, the algorithm: there is one here. The shape is the output's.
PhiloxKey key_and_counter(const Named& call) { return key_of(call.integers(1).at(0), call.integers(2).back()); }

at::Tensor uniform(at::IntArrayRef sizes, PhiloxKey key) {
  at::Tensor drawn = at::empty(sizes, at::kFloat);
  fill_uniform(drawn, 0, 1, key);
  return drawn;
}

}  // namespace

NAMED(StatelessRandomNormalV2) {
  at::Tensor out = call.out(0);
  fill_normal(out, 0, 1, key_and_counter(call));
}
NAMED(StatelessRandomUniformV2) {
  at::Tensor out = call.out(0);
  fill_uniform(out, 0, 1, key_and_counter(call));
}
// shape, probabilities of 1, seed, offset.
NAMED(StatelessBernoulli) {
  const at::Tensor drawn = uniform(call.out(0).sizes(), key_of(call.integers(2).at(0), call.integers(3).at(0)));
  put(call.out(0), drawn.lt(widened(call.in(1))));
}
// n, seed, offset.
NAMED(StatelessRandperm) {
  put(call.out(0),
      at::randperm(call.integers(0).at(0), generator(key_of(call.integers(1).at(0), call.integers(2).at(0))), at::kLong));
}
// shape, the share of what stays, two seeds, offsets: a bit for each element, the lowest of a byte first.
NAMED(StatelessDropOutGenMask) {
  const Integers offsets = call.in(4).defined() ? call.integers(4) : Integers{0};
  const PhiloxKey key = key_of(call.integers(2).at(0) ^ call.integers(3).at(0) << 32, offsets.back());
  const at::Tensor stays = uniform({call.out(0).numel(), 8}, key).lt(call.number(1));
  const at::Tensor bits = at::bitwise_left_shift(at::ones({8}, at::kByte), at::arange(8, at::kByte));
  put_reshaped(call.out(0), (stays * bits).sum({-1}, false, at::kByte));
}
// Weights, seed, offset.
NAMED(MultinomialWithReplacement) {
  put(call.out(0),
      at::multinomial(widened(call.in(0)), call.attribute<int64_t>("numsamples", 1), call.attribute("replacement", false),
                      generator(key_of(call.integers(1).at(0), call.integers(2).at(0)))));
}
