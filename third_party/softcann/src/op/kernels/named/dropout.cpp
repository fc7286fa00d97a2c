// Operators that clients name: dropout by masks.
#include <atomic>

#include "op/kernels/common.h"
#include "op/kernels/random.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// A byte for each element, of masks longer than that; and what stays, by the share of what stays.
at::Tensor kept(const at::Tensor& value, const at::Tensor& mask, double share) {
  TORCH_CHECK(mask.numel() >= value.numel(), "a mask of ", mask.numel(), " bytes for ", value.numel(), " elements");
  const at::Tensor stays = mask.flatten().narrow(0, 0, value.numel()).reshape(value.sizes()).ne(0);
  return at::where(stays, value / share, 0.0);
}

}  // namespace

// Clients give the same seeds again and again: each mask is another all the same, and the same in the next run.
NAMED(DropOutGenMaskV3) {
  static std::atomic<int64_t> masks{0};
  at::Tensor drawn = at::empty({call.out(0).numel()}, at::kFloat);
  fill_uniform(drawn, 0, 1,
               key_of(call.attribute<int64_t>("seed", 0), call.attribute<int64_t>("seed2", 0) + 4 * drawn.numel() * masks++));
  put_reshaped(call.out(0), drawn.lt(call.number(1)));
}
// The same of a mask of bits, the lowest first.
NAMED(DropOutDoMask) {
  const at::Tensor bits = at::bitwise_right_shift(call.in(1).flatten().unsqueeze(-1), at::arange(8, at::kByte)).bitwise_and(1);
  put(call.out(0), kept(widened(call.in(0)), bits.flatten(), call.number(2)));
}
NAMED(DropOutDoMaskV3) { put(call.out(0), kept(widened(call.in(0)), call.in(1), call.number(2))); }
// softmax(x1 + alpha x2), and a dropout of it by a mask.
NAMED(AxpyWithSoftmaxAndDropOutDoMask) {
  const auto axis = call.attribute<Integers>("axis", {-1});
  TORCH_CHECK(axis.size() == 1, "axis is one number");
  const at::Tensor softmax = at::softmax(widened(call.in(0)) + widened(call.in(1)) * call.attribute("alpha", 1.0F), axis[0]);
  put(call.out(0), softmax);
  put(call.out(1), kept(softmax, call.in(2), call.attribute("input_keep_prob", 1.0F)));
}
NAMED(DropoutWithMulsAndSoftmaxGrad) {
  const auto axes = call.attribute<Integers>("axes", {-1});
  TORCH_CHECK(axes.size() == 1, "axes is one number");
  const at::Tensor softmax = widened(call.in(2)),
                   by = kept(widened(call.in(0)), call.in(1), call.attribute("input_keep_prob", 1.0F)) * softmax;
  put(call.out(0), (by - softmax * by.sum(axes[0], true)) * call.attribute("alpha", 1.0F));
}
