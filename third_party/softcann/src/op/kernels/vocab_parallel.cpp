// Cross entropy over a vocabulary that is split among ranks: the logits' statistics of this rank, then (after the ranks have
// agreed on maxima and sums) the loss, then the gradients.
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// Note [Bits of tokens]
// A bit for each token, the first in the highest bit of a byte; 1 where the token's word is another rank's, and behind the last.
at::Tensor bit_places() { return 7 - at::arange(8, at::kInt); }
at::Tensor to_bits(const at::Tensor& mask) {
  const int64_t missing = (8 - mask.numel() % 8) % 8;
  return at::cat({mask, at::ones({missing}, at::kBool)}).view({-1, 8}).to(at::kInt).__lshift__(bit_places()).sum({1});
}
at::Tensor from_bits(const at::Tensor& bits, int64_t count) {
  return bits.reshape({-1, 1}).to(at::kInt).__rshift__(bit_places()).bitwise_and(1).flatten().slice(0, 0, count).to(at::kBool);
}

at::Tensor logits_of(const at::Tensor& input, const at::Tensor& weight) {
  return at::matmul(widened(input), widened(weight).t());
}

double vocab_cost(const at::Tensor& input, const at::Tensor& weight) {
  return static_cast<double>(input.numel()) * static_cast<double>(weight.size(0)) * 0.1;
}

void refuse_smoothing(const char* op, double smoothing) {
  TORCH_CHECK(smoothing == 0, op, ": labelSmoothing ", smoothing, " is not supported; 0 is");
}

}  // namespace

OP_COST(aclnnFusedLinearOnlineMaxSum, vocab_cost(input, weight)) {
  const at::Tensor logits = logits_of(input, weight), highest = logits.amax({1}), shifted = logits - highest.unsqueeze(1);
  const at::Tensor other = (target < vocabStartIndex).logical_or(target > vocabEndIndex);
  const at::Tensor word = at::where(other, 0, target - vocabStartIndex).to(at::kLong);
  put(logitsMaxLocalOut, highest);
  put(sumExpLogitsLocalOut, shifted.exp().sum({1}));
  put(predictedLogitsLocalOut, shifted.gather(1, word.unsqueeze(1)).squeeze(1).masked_fill(other, 0));
  put(targetMaskOut, to_bits(other));
  put(maskedTargetOut, word);
  put(vocabParallelLogitsOutOptional, logits);
}

OP(aclnnFusedCrossEntropyLossWithMaxSum) {
  refuse_smoothing("aclnnFusedCrossEntropyLossWithMaxSum", labelSmoothing);
  // Those two are CANN's reserve for logits that are computed anew: beside the logits it does not read them.
  TORCH_CHECK(given(vocabParallelLogitsOptional) || (!given(inputOptional) && !given(weightOptional)),
              "aclnnFusedCrossEntropyLossWithMaxSum: input and weight are not supported; give vocabParallelLogits");
  put(lossOut, sumExpLogits.log() - predictedLogits);
  if (!given(vocabParallelLogitsOptional) || !given(softMaxOutOptional)) return;
  put(softMaxOutOptional, (widened(vocabParallelLogitsOptional) - logitsMax.unsqueeze(1)).exp() / sumExpLogits.unsqueeze(1));
}

OP_COST(aclnnFusedLinearCrossEntropyLossGrad, 3 * vocab_cost(input, weight)) {
  refuse_smoothing("aclnnFusedLinearCrossEntropyLossGrad", labelSmoothing);
  at::Tensor probabilities = softmaxOptional;
  if (!given(probabilities)) {
    TORCH_CHECK(given(logitsMaxOptional) && given(sumExpLogitsOptional),
                "aclnnFusedLinearCrossEntropyLossGrad: give softmax, or both logitsMax and sumExpLogits");
    probabilities = (logits_of(input, weight) - logitsMaxOptional.unsqueeze(1)).exp() / sumExpLogitsOptional.unsqueeze(1);
  }
  const at::Tensor own = from_bits(targetMask, grad.numel()).logical_not().to(probabilities.scalar_type());
  const at::Tensor hit = at::zeros_like(probabilities).scatter_(1, maskedTarget.to(at::kLong).unsqueeze(1), own.unsqueeze(1));
  const at::Tensor by_logits = (probabilities - hit) * grad.unsqueeze(1);
  put(inputGradOut, at::matmul(by_logits, widened(weight)));
  put(weightGradOut, at::matmul(by_logits.t(), widened(input)));
}

namespace {

double shard_cost(const at::Tensor& logits, int64_t start, int64_t end) {
  if (start < 0 || end <= start || (given(logits) && logits.size(-1) != end - start))
    invalid("aclnnCrossEntropySumExpAndIndexLogit: words %ld to %ld are not those of vocabParallelLogits", long(start),
            long(end));
  return 2 * bytes(logits);
}

}  // namespace

OP_COST(aclnnCrossEntropySumExpAndIndexLogit, shard_cost(vocabParallelLogits, vocabStartIndex, vocabEndIndex)) {
  const at::Tensor shifted = widened(vocabParallelLogits) - widened(globalLogitsMax).unsqueeze(-1), exponents = shifted.exp();
  const at::Tensor other = (target < vocabStartIndex).logical_or(target >= vocabEndIndex);
  const at::Tensor word = at::where(other, 0, target.to(at::kLong) - vocabStartIndex);
  put(predictedLogitsOut, shifted.gather(-1, word.unsqueeze(-1)).squeeze(-1).masked_fill(other, 0));
  put(expLogitsOut, exponents);
  put(sumExpLogitsOut, exponents.sum(-1));
  put(targetOffsetOut, word);
  put(targetMaskOut, other);
}
