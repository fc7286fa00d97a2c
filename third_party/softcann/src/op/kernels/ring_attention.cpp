// Attention over parts of the keys, into one: what ranks of a ring hand on, and splits of long caches.
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

// Attention over parts of the keys, [rows, size] and the logarithms of the sums of exponentials, [rows], into one.
OP(aclnnAttentionUpdate) {
  TORCH_CHECK(updateType == 0 || updateType == 1, "aclnnAttentionUpdate: updateType ", updateType, " is not supported");
  const at::Tensor sums = widened(at::stack(lse)), top = sums.amax({0}), weights = (sums - top).exp(), total = weights.sum({0});
  put(out, (widened(at::stack(localOut)) * (weights / total).unsqueeze(-1)).sum({0}));
  if (!given(lseOut)) return;
  if (updateType == 1) {
    put(lseOut, top + at::log(total));
  } else {
    writable(lseOut).zero_();
  }
}
namespace {

// Attention over two parts of the keys into one. Statistics are [B, N, S, 8] for attention [S, B, N * D], and [T, N, 8] for
// [T, N, D].
struct RingUpdate {
  const at::Tensor &out, &maximum, &sum;

  void run(const RingUpdate& previous, const RingUpdate& current, std::string_view layout) const {
    TORCH_CHECK(layout.empty() || layout == "SBH" || layout == "TND", "ring attention: layout '", layout,
                "' is not one of SBH, TND");
    const at::Tensor top = previous.maximum.maximum(current.maximum);
    const at::Tensor before = previous.sum * (previous.maximum - top).exp(), now = current.sum * (current.maximum - top).exp();
    const at::Tensor total = before + now;
    const bool tokens = layout == "TND";
    const auto share = [&](const at::Tensor& part) {
      const at::Tensor one = (part / total).select(-1, 0);
      return (tokens ? one : one.permute({2, 0, 1})).unsqueeze(-1);
    };
    const auto heads = [&](const at::Tensor& t) {
      return tokens ? widened(t) : widened(t).unflatten(-1, at::IntArrayRef{top.size(1), t.size(-1) / top.size(1)});
    };
    put(out, (heads(previous.out) * share(before) + heads(current.out) * share(now)).reshape(out.sizes()));
    put(maximum, top);
    put(sum, total);
  }
};

}  // namespace

OP(aclnnRingAttentionUpdate) {
  RingUpdate{attnOutOut, softmaxMaxOut, softmaxSumOut}.run({prevAttnOut, prevSoftmaxMax, prevSoftmaxSum},
                                                           {curAttnOut, curSoftmaxMax, curSoftmaxSum}, inputLayoutOptional);
}
OP(aclnnRingAttentionUpdateV2) {
  RingUpdate{attnOutOut, softmaxMaxOut, softmaxSumOut}.run({prevAttnOut, prevSoftmaxMax, prevSoftmaxSum},
                                                           {curAttnOut, curSoftmaxMax, curSoftmaxSum}, inputLayoutOptional);
}
