// Attention over parts of the keys, into one: what ranks of a ring hand on, and splits of long caches.
#include "op/kernel.h"
#include "op/kernels/attention_inputs.h"
#include "op/kernels/common.h"
#include "op/kernels/parts.h"
#include "op/kernels/sparse_attention.h"

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
// [T, N, D]: see Note [Statistics of packed sequences], unless `statistics` is "TND".
struct RingPart {
  const at::Tensor &out, &maximum, &sum;
};
struct RingUpdate {
  std::string_view layout, statistics;
  const at::Tensor& ends;

  // [T, N, 8] as the queries lie. The ends of the sequences may start with 0.
  at::Tensor by_tokens(const at::Tensor& packed) const {
    if (statistics == "TND") return packed;
    const at::Tensor dense = packed.contiguous();
    at::Tensor whole = at::empty(packed.sizes(), packed.options());
    int64_t start = 0;
    for (const int64_t end : given(ends) ? host_numbers(ends) : std::vector<int64_t>{packed.size(0)}) {
      TORCH_CHECK(end >= start && end <= packed.size(0), "ring attention: actualSeqQlen ", ends, " for ", packed.size(0),
                  " tokens");
      whole.slice(0, start, end).copy_(sequence_statistics(dense, start, end).transpose(0, 1));
      start = end;
    }
    return whole;
  }
  void run(const RingPart& previous, const RingPart& current, const RingPart& joined) const {
    TORCH_CHECK(layout.empty() || layout == "SBH" || layout == "TND", "ring attention: layout '", layout,
                "' is not one of SBH, TND");
    const at::Tensor top = previous.maximum.maximum(current.maximum);
    const at::Tensor before = previous.sum * (previous.maximum - top).exp(), now = current.sum * (current.maximum - top).exp();
    const at::Tensor total = before + now;
    const bool tokens = layout == "TND";
    const auto share = [&](const at::Tensor& part) {
      const at::Tensor all = part / total;
      return (tokens ? by_tokens(all).select(-1, 0) : all.select(-1, 0).permute({2, 0, 1})).unsqueeze(-1);
    };
    const auto heads = [&](const at::Tensor& t) { return tokens ? widened(t) : in_parts(widened(t), -1, top.size(1)); };
    put(joined.out, (heads(previous.out) * share(before) + heads(current.out) * share(now)).reshape(joined.out.sizes()));
    put(joined.maximum, top);
    put(joined.sum, total);
  }
};

}  // namespace

#define RING_UPDATE(NAME, STATISTICS)                                                                                     \
  OP(NAME) {                                                                                                              \
    RingUpdate{inputLayoutOptional, STATISTICS, actualSeqQlenOptional}.run({prevAttnOut, prevSoftmaxMax, prevSoftmaxSum}, \
                                                                           {curAttnOut, curSoftmaxMax, curSoftmaxSum},    \
                                                                           {attnOutOut, softmaxMaxOut, softmaxSumOut});   \
  }
RING_UPDATE(aclnnRingAttentionUpdate, "")
RING_UPDATE(aclnnRingAttentionUpdateV2, inputSoftmaxLayoutOptional)
