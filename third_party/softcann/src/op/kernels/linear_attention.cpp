// Linear attention with a state: the gated delta rule, and the short causal convolution in front of it.
#include <algorithm>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/pages.h"
#include "op/kernels/parts.h"
#include "op/kernels/sparse_attention.h"

using namespace softcann::op;

namespace {

// Note [Gated delta rule]
// Token by token, S = S * exp(g) * exp(gk), S += beta (v - S k) k^T, output S q * scale, for each head of the values; a head of
// the keys serves several of them. S: [value heads, value size, key size].
class DeltaRule {
 public:
  DeltaRule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& beta, double scale,
            const at::Tensor& g, const at::Tensor& gk)
      : value_(widened(value).unsqueeze(-1)), beta_(widened(beta).unsqueeze(-1).unsqueeze(-1)) {
    TORCH_CHECK(key.size(1) > 0 && value.size(1) % key.size(1) == 0, "gated delta rule: ", value.size(1),
                " heads of values are no multiple of ", key.size(1), " heads of keys");
    const int64_t repeats = value.size(1) / key.size(1);
    query_ = (widened(query) * scale).repeat_interleave(repeats, 1).unsqueeze(-1);
    key_ = widened(key).repeat_interleave(repeats, 1).unsqueeze(-1);
    if (given(g)) decay_ = widened(g).exp().unsqueeze(-1).unsqueeze(-1);
    if (given(gk)) key_decay_ = widened(gk).exp().unsqueeze(-2);
  }
  // The output of token t, [value heads, value size]; `state` becomes the one after it.
  at::Tensor step(at::Tensor& state, int64_t t) const {
    if (decay_.defined()) state = state * decay_[t];
    if (key_decay_.defined()) state = state * key_decay_[t];
    const at::Tensor error = (value_[t] - at::matmul(state, key_[t])) * beta_[t];
    state = state + error * key_[t].transpose(-1, -2);
    return at::matmul(state, query_[t]).squeeze(-1);
  }

 private:
  at::Tensor query_, key_, value_, beta_, decay_, key_decay_;
};

double delta_cost(const at::Tensor& key, const at::Tensor& value) {
  return static_cast<double>(value.numel()) * static_cast<double>(key.size(-1)) * 2;
}

}  // namespace

OP_COST(aclnnRecurrentGatedDeltaRule, delta_cost(key, value)) {
  const DeltaRule rule(query, key, value, beta, scaleValue, g, gk);
  const std::vector<int64_t> lengths = host_numbers(actualSeqLengths), slots = host_numbers(ssmStateIndices);
  const std::vector<int64_t> accepted =
      given(numAcceptedTokens) ? host_numbers(numAcceptedTokens) : std::vector<int64_t>(lengths.size(), 1);
  int64_t start = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    at::Tensor state = widened(row_at(stateRef, slots.at(static_cast<size_t>(start + accepted.at(i) - 1))));
    for (int64_t t = start; t < start + lengths[i]; ++t) {
      put(out[t], rule.step(state, t));
      put(row_at(stateRef, slots.at(static_cast<size_t>(t))), state);
    }
    start += lengths[i];
  }
}

OP_COST(aclnnChunkGatedDeltaRule, delta_cost(key, value)) {
  const DeltaRule rule(query, key, value, beta, scaleValue, gOptional, {});
  const std::vector<int64_t> lengths = host_numbers(actualSeqLengths);
  int64_t start = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    at::Tensor state = widened(initialState[static_cast<int64_t>(i)]);
    for (int64_t t = start; t < start + lengths[i]; ++t) put(out[t], rule.step(state, t));
    put(finalState[static_cast<int64_t>(i)], state);
    start += lengths[i];
  }
}

namespace {

// Note [Convolution with a cache]
// A slot of the states [slots, rows, size] has the last inputs of a sequence, at its end. With speculative decoding the sequence
// goes on `accepted - 1` rows behind the slot's first. With prefix caching (APC) a sequence has a slot for each block of
// tokens: it begins with one, and leaves the inputs before each block's end in those it fills.
// initialStateMode of a sequence: zeros, the cache, or the cache with no output where the sequence's own tokens do not fill it.
constexpr int64_t from_zeros = 0, from_cache = 1, first_hidden = 2;

struct CachedConvolution {
  at::Tensor weight, states, starts, slots, initial, bias, accepted, computed, first_block, last_block, initial_block;
  int64_t activation, skipped_slot, block, mode;
  bool residual;

  bool in_blocks() const { return initial_block.defined(); }
  static int64_t number(const at::Tensor& t, int64_t i) { return t[i].item<int64_t>(); }
  int64_t slot(int64_t b, const at::Tensor& place) const {
    if (!slots.defined()) return b;
    if (slots.dim() == 1) return number(slots, b);
    return number(slots[b], in_blocks() ? number(place, b) : 0);
  }
  void fill_blocks(const at::Tensor& inputs, int64_t length, int64_t b) const;
  void sequence(const at::Tensor& x, const at::Tensor& y, int64_t b) const;
  void run(const at::Tensor& x, const at::Tensor& y) const;
};

// `inputs`: those of the sequence behind weight.size(0) - 1 earlier ones.
void CachedConvolution::fill_blocks(const at::Tensor& inputs, int64_t length, int64_t b) const {
  const int64_t before = weight.size(0) - 1, rows = states.size(1);
  const int64_t first = number(first_block, b), last = number(last_block, b);
  TORCH_CHECK(block > 0, "convolution with a cache: blocks of ", block, " tokens");
  const int64_t left = block - number(computed, b) % block;
  const int64_t behind = ((length - left) % block + block) % block;
  const int64_t full = behind == 0 ? length - block : length - behind;
  for (int64_t i = 0; i < last - first; ++i) {
    const int64_t end = full - (last - first - i - 1) * block;
    put(row_at(states, number(slots[b], first + i)).narrow(0, rows - before, before), inputs.narrow(0, end, before));
  }
}

void CachedConvolution::sequence(const at::Tensor& x, const at::Tensor& y, int64_t b) const {
  const int64_t taps = weight.size(0), rows = states.size(1), length = x.size(0), from = slot(b, initial_block);
  if (length == 0 || (slots.defined() && from == skipped_slot)) return;
  const bool begins = computed.defined() && number(computed, b) == 0;
  const int64_t offset = begins ? 0 : accepted.defined() ? number(accepted, b) - 1 : rows - (taps - 1);
  const int64_t start = initial.defined() ? number(initial, b) : from_cache;
  at::Tensor before =
      begins ? at::zeros({taps - 1, x.size(1)}, x.options()) : row_at(states, from).narrow(0, 0, offset + taps - 1);
  if (start == from_zeros) before = at::zeros_like(before);
  const at::Tensor padded = at::cat({before, x});
  const int64_t kept = std::min(rows, padded.size(0));
  put(row_at(states, slot(b, last_block)).narrow(0, rows - kept, kept), padded.narrow(0, padded.size(0) - kept, kept));
  const at::Tensor inputs = widened(padded.slice(0, offset));
  if (in_blocks()) fill_blocks(inputs, length, b);
  at::Tensor sum = at::zeros({length, x.size(1)}, at::kFloat);
  for (int64_t k = 0; k < taps; ++k) sum = sum + widened(weight[k]) * inputs.narrow(0, k, length);
  if (mode == 1 && computed.defined()) {
    sum.narrow(0, 0, std::clamp<int64_t>(taps - 1 - number(computed, b), 0, length)).zero_();
  }
  if (start == first_hidden) sum.narrow(0, 0, std::min(taps - 1, length)).zero_();
  if (given(bias)) sum = sum + widened(bias);
  if (activation != 0) sum = at::silu(sum);
  put(y, residual ? sum + widened(x) : sum);
}

void CachedConvolution::run(const at::Tensor& x, const at::Tensor& y) const {
  if (x.dim() == 3) {
    for (int64_t b = 0; b < x.size(0); ++b) sequence(x[b], y[b], b);
    return;
  }
  TORCH_CHECK(starts.defined(), "aclnnFusedCausalConv1d: x of [tokens, size] needs queryStartLoc");
  for (int64_t b = 0; b + 1 < starts.numel(); ++b) {
    const int64_t start = number(starts, b), end = number(starts, b + 1);
    sequence(rows_within(x, 0, start, end), rows_within(y, 0, start, end), b);
  }
}

double convolution_cost(const char* name, const at::Tensor& x, int64_t activation, int64_t mode, const at::Tensor& first,
                        const at::Tensor& last, const at::Tensor& place) {
  if (activation < 0 || activation > 2) {
    invalid("%s: activationMode %d is not supported; 0 (none), 1 (silu) and 2 (swish) are", name, int(activation));
  }
  if (mode != 0 && mode != 1) invalid("%s: convMode %d is not supported; 0 and 1 are", name, int(mode));
  if (given(first) != given(last) || given(first) != given(place)) {
    invalid("%s: blockIdxFirstScheduledToken, blockIdxLastScheduledToken and initialStateIdx belong together; give all or none",
            name);
  }
  return bytes(x) * 4;
}

}  // namespace

#define CAUSAL_CONVOLUTION_COST(NAME) \
  convolution_cost(NAME, x, activationMode, convMode, blockIdxFirstScheduledToken, blockIdxLastScheduledToken, initialStateIdx)
#define CAUSAL_CONVOLUTION                       \
  CachedConvolution{weight,                      \
                    convStates,                  \
                    queryStartLoc,               \
                    cacheIndices,                \
                    initialStateMode,            \
                    bias,                        \
                    numAcceptedTokens,           \
                    numComputedTokens,           \
                    blockIdxFirstScheduledToken, \
                    blockIdxLastScheduledToken,  \
                    initialStateIdx,             \
                    activationMode,              \
                    padSlotId,                   \
                    blockSize,                   \
                    convMode,                    \
                    residualConnection != 0}

OP_COST(aclnnFusedCausalConv1d, CAUSAL_CONVOLUTION_COST("aclnnFusedCausalConv1d")) {
  y.zero_();
  CAUSAL_CONVOLUTION.run(x, y);
}
OP_COST(aclnnInplaceFusedCausalConv1d, CAUSAL_CONVOLUTION_COST("aclnnInplaceFusedCausalConv1d")) { CAUSAL_CONVOLUTION.run(x, x); }

namespace {

// x [steps, ...] `by` steps later, 0 before its start.
at::Tensor delayed(const at::Tensor& x, int64_t by) {
  at::Tensor result = at::zeros_like(x);
  if (by < x.size(0)) result.slice(0, by).copy_(x.slice(0, 0, x.size(0) - by));
  return result;
}
at::Tensor masked_steps(const at::Tensor& x, const at::Tensor& mask) {
  return given(mask) ? widened(x) * mask.t().unsqueeze(-1) : widened(x);
}

}  // namespace

OP(aclnnMaskedCausalConv1d) {
  const at::Tensor wide = widened(x);
  at::Tensor sum = at::zeros_like(wide);
  const int64_t taps = weight.size(0);
  for (int64_t k = 0; k < taps; ++k) sum = sum + widened(weight[k]) * delayed(wide, taps - 1 - k);
  put(out, masked_steps(sum, maskOptional));
}

OP(aclnnMaskedCausalConv1dBackward) {
  const at::Tensor wide = widened(x), grad = masked_steps(gradY, maskOptional), backwards = grad.flip({0});
  at::Tensor by_x = at::zeros_like(wide);
  const int64_t taps = weight.size(0);
  for (int64_t k = 0; k < taps; ++k) {
    by_x = by_x + widened(weight[k]) * delayed(backwards, taps - 1 - k);
    put(gradWeightOut[k], (grad * delayed(wide, taps - 1 - k)).sum(at::IntArrayRef{0, 1}));
  }
  put(gradXOut, by_x.flip({0}));
}
