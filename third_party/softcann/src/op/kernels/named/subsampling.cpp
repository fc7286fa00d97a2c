// Operators that clients name: samples drawn by masks and labels.
#include "op/kernels/common.h"
#include "op/kernels/random.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Seeds of 0 stand for numbers that differ each time.
at::Tensor shuffled(int64_t count, int64_t seed, int64_t seed2) {
  if (seed != 0 || seed2 != 0) return at::randperm(count, generator(key_of(seed, seed2)), at::TensorOptions(at::kLong));
  static thread_local at::Generator unseeded = at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom());
  return at::randperm(count, unseeded, at::TensorOptions(at::kLong));
}

}  // namespace

// Places of true elements, drawn without repetition, [count, dimensions]; and which of these rows there are.
NAMED(RandomChoiceWithMask) {
  const at::Tensor found = call.in(0).nonzero();
  const int64_t rows = call.out(0).size(0), drawn = std::min(rows, found.size(0));
  const at::Tensor order = shuffled(found.size(0), call.attribute<int64_t>("seed", 0), call.attribute<int64_t>("seed2", 0));
  const at::Tensor places = at::zeros({rows, call.in(0).dim()}, at::kLong);
  places.narrow(0, 0, drawn).copy_(found.index_select(0, order.narrow(0, 0, drawn)));
  put(call.out(0), places);
  put(call.out(1), at::arange(rows).lt(drawn));
}
// Labels (1, 0, -1 for ignored): of the positive ones and of the negative ones a part stays, drawn at random.
NAMED(SubSample) {
  const at::Tensor labels = call.in(0);
  const auto each = call.attribute<int64_t>("batch_size_per_images", 0);
  const at::Tensor positive = labels.eq(1).nonzero().flatten(), negative = labels.eq(0).nonzero().flatten();
  const int64_t yes = std::min<int64_t>(
      positive.numel(), static_cast<int64_t>(static_cast<float>(each) * call.attribute("positive_fraction", 0.0F)));
  const int64_t no = std::min<int64_t>(negative.numel(), each - yes);
  at::Tensor result = at::full_like(labels, -1);
  result.index_fill_(0, positive.index_select(0, shuffled(positive.numel(), 0, 0).narrow(0, 0, yes)), 1);
  result.index_fill_(0, negative.index_select(0, shuffled(negative.numel(), 0, 0).narrow(0, 0, no)), 0);
  put(call.out(0), result);
}
