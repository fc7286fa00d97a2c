// Operators of vendor_ops.txt that keep a server's caches and its drafts of tokens.
#include <algorithm>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/pages.h"
#include "op/kernels/sparse_attention.h"
#include "vendor/vendor_ops.h"
#include "vendor/vendor_params.h"

using namespace softcann::op;

namespace {

int64_t number(const at::Tensor& t, int64_t i) { return t[i].item<int64_t>(); }

// A slot of the states [slots, rows, size] begins with the last weight.size(0) - 1 inputs of its sequence. Where drafts of
// tokens may be refused it has the drafts behind them too: the sequence goes on `accepted - 1` rows later.
struct DraftedConvolution {
  const at::Tensor &weight, &bias, &states, &slots, &initial, &accepted;
  int64_t activation, skipped_slot;
  bool update;

  void keep(const at::Tensor& state, const at::Tensor& inputs) const {
    const int64_t before = weight.size(0) - 1, drafts = inputs.size(0) - 1;
    // The operator keeps drafts of convolutions of four taps only.
    const bool all = given(accepted) && weight.size(0) == 4 && drafts <= state.size(0);
    const int64_t rows = all ? drafts : before;
    put(state.narrow(0, 0, rows), inputs.narrow(0, inputs.size(0) - rows, rows));
  }
  void sequence(const at::Tensor& x, const at::Tensor& y, int64_t b) const {
    const int64_t taps = weight.size(0), length = x.size(0), slot = given(slots) ? number(slots, b) : b;
    if (length == 0 || slot == skipped_slot || slot < 0 || slot >= states.size(0)) return;
    const at::Tensor state = states[slot];
    const int64_t offset = given(accepted) ? std::clamp<int64_t>(number(accepted, b) - 1, 0, state.size(0) - (taps - 1)) : 0;
    const bool goes_on = update || (given(initial) && number(initial, b) != 0);
    const at::Tensor before = state.narrow(0, offset, taps - 1);
    const at::Tensor inputs = at::cat({goes_on ? before : at::zeros_like(before), x}), wide = widened(inputs);
    at::Tensor sum = at::zeros({length, x.size(1)}, at::kFloat);
    for (int64_t k = 0; k < taps; ++k) sum = sum + widened(weight[k]) * wide.narrow(0, k, length);
    if (given(bias)) sum = sum + widened(bias);
    put(y, activation == 0 ? sum : at::silu(sum));
    keep(state, inputs);
  }
};

double drafted_cost(const at::Tensor& x, int64_t activation, int64_t mode) {
  if (activation != 0 && activation != 1) {
    invalid("aclnnCausalConv1d: activationMode %d is not supported; 0 (none) and 1 (silu) are", int(activation));
  }
  if (mode != 0 && mode != 1) invalid("aclnnCausalConv1d: runMode %d is not supported; 0 (whole) and 1 (update) are", int(mode));
  return bytes(x) * 4;
}

}  // namespace

OP_COST(aclnnCausalConv1d, drafted_cost(x, activationMode, runMode)) {
  const DraftedConvolution convolution{
      weight,         biasOptional, convStates,  cacheIndicesOptional, initialStateModeOptional, numAcceptedTokensOptional,
      activationMode, padSlotId,    runMode == 1};
  if (given(queryStartLocOptional)) {
    for (int64_t b = 0; b + 1 < queryStartLocOptional.numel(); ++b) {
      const int64_t start = number(queryStartLocOptional, b), end = number(queryStartLocOptional, b + 1);
      convolution.sequence(rows_within(x, 0, start, end), rows_within(yOut, 0, start, end), b);
    }
    return;
  }
  TORCH_CHECK(x.dim() == 3 || runMode == 1, "aclnnCausalConv1d: x of [tokens, size] needs queryStartLoc");
  for (int64_t b = 0; b < x.size(0); ++b) {
    x.dim() == 3 ? convolution.sequence(x[b], yOut[b], b) : convolution.sequence(x.narrow(0, b, 1), yOut.narrow(0, b, 1), b);
  }
}

// A sequence's place in the output: its tokens that count, the newest, those a parallel draft fills in, and padding for its
// refused ones. Where the tokens shift left by one, the first is dropped.
OP(aclnnCopyAndExpandEagleInputs) {
  const auto starts = host_numbers(queryStartLoc), ends = host_numbers(queryEndLoc), newest = host_numbers(nextTokenIds);
  const int64_t shift = shiftInputIds ? 1 : 0, room = numPaddingSlotsPerRequest;
  for (size_t r = 0; r < newest.size(); ++r) {
    const int64_t start = starts.at(r), behind = starts.at(r + 1), end = ends.at(r) + 1;
    const int64_t kept = std::max<int64_t>(end - start - shift, 0), refused = std::max<int64_t>(behind - end, 0);
    const int64_t at = start + static_cast<int64_t>(r) * (room - shift), count = kept + room + refused;
    const auto part = [&](const at::Tensor& out, int64_t from, int64_t size) { return out.narrow(0, at + from, size); };
    // A sequence that says it ends behind its tokens has its last one again.
    const int64_t last = (shiftInputIds ? targetTokenIds.size(0) : behind) - 1;
    part(outInputIds, 0, kept)
        .copy_(targetTokenIds.index_select(0, (at::arange(kept, at::kLong) + (start + shift)).clamp_max(last)));
    part(outInputIds, kept, 1).fill_(newest[r]);
    part(outInputIds, kept + 1, room - 1).fill_(parallelDraftingTokenId);
    part(outInputIds, kept + room, refused).fill_(paddingTokenId);
    part(outPositions, 0, kept + room).copy_(at::arange(kept + room, at::kLong) + number(targetPositions, start));
    part(outPositions, kept + room, refused).zero_();
    part(outIsRejectedTokenMask, 0, count).zero_();
    part(outIsRejectedTokenMask, kept + room, refused).fill_(1);
    part(outIsMaskedTokenMask, 0, count).zero_();
    part(outIsMaskedTokenMask, kept + 1, room - 1).fill_(1);
    outNewTokenIndices.narrow(0, static_cast<int64_t>(r) * room, room).copy_(at::arange(at + kept, at + kept + room, at::kLong));
    if (shiftInputIds) outHiddenStateMapping.slice(0, start, behind).copy_(at::arange(at, at + behind - start, at::kLong));
  }
}

// Blocks that arrived as [parts, tokens, heads of the part], which are [tokens, heads] from now on.
OP(aclnnTransposeKvCacheByBlock) {
  TORCH_CHECK(splitNum > 0 && headNum % splitNum == 0, "aclnnTransposeKvCacheByBlock: ", headNum, " heads in ", splitNum,
              " parts");
  const at::Tensor blocks = blockIDs.to(at::kLong).flatten();
  for (const at::TensorList caches : {kCache, vCache}) {
    TORCH_CHECK(static_cast<int64_t>(caches.size()) == layerNum, "aclnnTransposeKvCacheByBlock: ", caches.size(), " caches of ",
                layerNum, " layers");
    for (const at::Tensor& cache : caches) {
      const at::Tensor arrived = cache.index_select(0, blocks).view({-1, splitNum, blockSize, headNum / splitNum * headDim});
      const at::Tensor whole = arrived.transpose(1, 2).reshape({-1, blockSize, headNum, headDim});
      writable(cache).index_copy_(0, blocks, whole.view_as(cache.index_select(0, blocks)));
    }
  }
}
