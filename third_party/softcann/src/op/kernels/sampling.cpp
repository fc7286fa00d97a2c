// Choosing a token for each row of logits, out of the likeliest.
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

struct Likeliest {
  const at::Tensor &top_k, &top_p, &min_p, &q;
  double eps;
  int64_t most;  // of top_k that count; 0: all
  bool logits;

  at::Tensor probabilities(const at::Tensor& x) const { return logits ? at::softmax(x, -1) : x; }

  struct Result {
    at::Tensor tokens, kept, order, sorted;  // sorted: probabilities of those kept, the likeliest first; order: where they were
  };
  Result run(const at::Tensor& input) const {
    const double gone = logits ? -std::numeric_limits<double>::infinity() : 0.0;
    const int64_t size = input.size(-1);
    auto [x, order] = at::sort(widened(input), /*stable=*/true, -1, /*descending=*/true);
    const at::Tensor rank = at::arange(size, at::kLong), k = top_k.to(at::kLong).unsqueeze(-1);
    const at::Tensor limited = k.ge(1).logical_and(k <= (most > 0 ? std::min(size, most) : size));
    x = at::where(limited.logical_and(rank >= k), gone, x);
    const at::Tensor p = widened(top_p).unsqueeze(-1), likely = probabilities(x);
    const at::Tensor enough = (at::cumsum(likely, -1) - likely) >= p;  // what comes before a token suffices
    x = at::where((p < 1).logical_and(enough).logical_and(rank > 0), gone, x);
    if (given(min_p)) {
      const at::Tensor now = probabilities(x);
      x = at::where(now < widened(min_p).unsqueeze(-1) * now.narrow(-1, 0, 1), gone, x);
    }
    Result result{{}, at::empty_like(x), order, at::where(x == gone, 0.0, likely)};
    result.kept.scatter_(-1, order, x);
    at::Tensor weight = probabilities(result.kept);
    if (given(q) && q.numel()) weight = weight / (widened(q).abs() + eps);
    result.tokens = at::argmax(weight, -1);
    return result;
  }
};

}  // namespace

OP(aclnnTopKTopPSample) {
  const at::Tensor none;
  const auto found = Likeliest{topK, topP, none, q, eps, 1024, true}.run(logits);
  put(logitsSelectIdx, found.tokens);
  if (isNeedLogits) put(logitsTopKPSelect, found.kept);
}
OP(aclnnTopKTopPSampleV2) {
  const auto found = Likeliest{topK, topP, minPs, q, eps, ksMax, inputIsLogits}.run(logits);
  if (isNeedSampleResult) {
    put(logitsIdx, found.order);
    put(logitsSortMasked, found.sorted);
  } else {
    put(logitsSelectIdx, found.tokens);
  }
  if (isNeedLogits) put(logitsTopKPSelect, found.kept);
}

OP(aclnnApplyTopKTopP) {
  const auto [sorted, order] = at::sort(widened(logits), -1, false);
  at::Tensor hidden = at::full(sorted.sizes(), false, sorted.options().dtype(at::kBool));
  const int64_t size = sorted.size(-1);
  if (k.defined()) {
    const at::Tensor first = (size - k.to(at::kLong)).clamp(0, size - 1).unsqueeze(-1);
    hidden = sorted < sorted.gather(-1, first);
  }
  if (p.defined()) {
    const at::Tensor weights = at::softmax(at::where(hidden, -std::numeric_limits<double>::infinity(), sorted), -1);
    at::Tensor small = at::cumsum(weights, -1) <= 1 - widened(p).unsqueeze(-1);
    small.select(-1, size - 1).fill_(false);  // at least one stays
    hidden = hidden.logical_or(small);
  }
  const at::Tensor kept = at::where(hidden, -std::numeric_limits<double>::infinity(), sorted);
  put(out, at::empty_like(kept).scatter_(-1, order, kept));
}
