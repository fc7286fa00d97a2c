// Mixtures of experts: copies of tokens, sorted by expert, and back.
//
// Note [Routing]
// A token goes to k experts, so there are tokens * k copies. Sorting the copies by expert (stably) gives their places:
// copy i, of token i / k, goes to place[i]. MoeInitRouting numbers copies the other way round, column by column
// (row_idx), the token of copy i being i % tokens.
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

// Place of each copy among the copies sorted by expert.
at::Tensor places_of(const at::Tensor& experts) {
  const at::Tensor order = at::argsort(experts.reshape({-1}), true);
  at::Tensor places = at::empty_like(order);
  places.index_copy_(0, order, at::arange(order.numel(), order.options()));
  return places;
}

}  // namespace

OP(aclnnMoeComputeExpertTokens) {
  TORCH_CHECK(out.numel() == numExperts, "aclnnMoeComputeExpertTokens: out ", out.sizes(), " for ", numExperts, " experts");
  const at::Tensor bounds = at::arange(numExperts, sortedExperts.options());
  put(out, at::searchsorted(sortedExperts.contiguous(), bounds, false, true));
}
namespace {

// Of expanded x, as one row of x for each copy that it has room for.
at::Tensor expanded(const at::Tensor& x, const at::Tensor& row_index, const at::Tensor& expert_index, int64_t rows,
                    const at::Tensor& places_out, const at::Tensor& experts_out) {
  TORCH_CHECK(expert_index.sizes() == row_index.sizes() && expert_index.dim() == 2 && expert_index.size(0) == x.size(0),
              "routing: experts ", expert_index.sizes(), " and rows ", row_index.sizes(), " of tokens ", x.sizes());
  const auto [experts, order] = at::sort(expert_index.reshape({-1}), /*stable=*/true, 0, false);
  const at::Tensor copies = row_index.reshape({-1}).to(at::kLong).index_select(0, order);
  put(experts_out, experts);
  at::Tensor places = at::empty_like(copies);
  places.index_copy_(0, copies, at::arange(copies.numel(), at::kLong));
  put(places_out, places);
  return x.index_select(0, copies.slice(0, 0, rows).remainder(x.size(0)));
}

}  // namespace

OP(aclnnMoeInitRouting) {
  put(expandedXOut, expanded(x, rowIdx, expertIdx, expandedXOut.size(0), expandedRowIdxOut, expandedExpertIdxOut));
}
// round(x * scale + offset) in int8.
OP(aclnnMoeInitRoutingQuant) {
  const at::Tensor rows = expanded(x, rowIdx, expertIdx, expandedXOut.size(0), expandedRowIdxOut, expandedExpertIdxOut);
  put_quantized(expandedXOut, widened(rows) * scale + offset);
}

namespace {

enum CountOfTokens : int64_t { up_to_each = 0, of_each = 1, pairs = 2 };     // expertTokensNumType
enum Quantization : int64_t { unchanged = -1, by_numbers = 0, by_row = 1 };  // quantMode

// How many copies each of the experts [start, end) gets; `experts` are theirs, sorted.
at::Tensor token_counts(const at::Tensor& experts, int64_t start, int64_t end, int64_t type) {
  const at::Tensor counts = at::bincount(experts - start, {}, end - start);
  if (type == of_each) return counts;
  if (type == up_to_each) return at::cumsum(counts, 0);
  TORCH_CHECK(type == pairs, "aclnnMoeInitRoutingV3: expertTokensNumType ", type, " is not supported");
  const at::Tensor used = counts.nonzero().view({-1});
  return at::stack({used + start, counts.index_select(0, used)}, 1);
}

// Of copies sorted by expert, `owners`: those that experts with `capacity` rows each keep, and the rows that these take.
std::pair<at::Tensor, at::Tensor> kept_copies(const at::Tensor& owners, int64_t experts, int64_t capacity) {
  const at::Tensor counts = at::bincount(owners, {}, experts), starts = at::cumsum(counts, 0) - counts;
  const at::Tensor within = at::arange(owners.size(0), at::kLong) - starts.index_select(0, owners);
  const at::Tensor kept = (within < capacity).nonzero().view({-1});
  return {kept, owners.index_select(0, kept) * capacity + within.index_select(0, kept)};
}

void require_supported(const at::Tensor& x, const at::Tensor& experts, const at::Tensor& scale, const at::Tensor& offset,
                       int64_t drop_pad_mode, int64_t quant_mode) {
  TORCH_CHECK(drop_pad_mode == 0 || drop_pad_mode == 1, "aclnnMoeInitRoutingV3: dropPadMode ", drop_pad_mode,
              " is not supported");
  TORCH_CHECK(quant_mode == unchanged || quant_mode == by_numbers || quant_mode == by_row, "aclnnMoeInitRoutingV3: quantMode ",
              quant_mode, " is not supported");
  TORCH_CHECK(offset.defined() == (quant_mode == by_numbers) && (quant_mode != by_numbers || scale.defined()),
              "aclnnMoeInitRoutingV3: scale and offset go with quantMode 0, an offset with no other");
  TORCH_CHECK(experts.dim() == 2 && experts.size(0) == x.size(0), "aclnnMoeInitRoutingV3: experts ", experts.sizes(),
              " of tokens ", x.sizes());
}
// The experts [first, end) of this rank: all of them where no range is told.
std::pair<int64_t, int64_t> own_experts(at::IntArrayRef range, int64_t experts) {
  if (range.empty()) return {0, experts};
  TORCH_CHECK(range.size() == 2 && range[0] >= 0 && range[0] <= range[1], "aclnnMoeInitRoutingV3: activeExpertRange ", range,
              " is not [first, end]");
  return {range[0], range[1]};
}
// Before anything is made of such sizes.
void require_room(int64_t experts, int64_t capacity, const at::Tensor& out) {
  TORCH_CHECK(experts > 0 && capacity > 0 && experts <= out.numel() && capacity <= out.numel(),
              "aclnnMoeInitRoutingV3: ", experts, " experts of ", capacity, " rows in ", out.sizes());
}

}  // namespace

// Rows that no copy of a token fills are zero, their places -1. With dropPadMode 1 each expert has expertCapacity rows, and what
// comes after them is dropped.
OP(aclnnMoeInitRoutingV3) {
  require_supported(x, expertIdx, scaleOptional, offsetOptional, dropPadMode, quantMode);
  const std::pair<int64_t, int64_t> own = own_experts(activeExpertRangeOptional, expertNum);
  const int64_t first = own.first, end = own.second, k = expertIdx.size(-1);
  const at::Tensor wanted = expertIdx.reshape({-1}).to(at::kLong);
  const at::Tensor here = (wanted >= first).logical_and(wanted < end);
  const auto [sorted, order] =
      at::sort(at::where(wanted >= first, wanted, std::numeric_limits<int64_t>::max()), /*stable=*/true, 0, false);
  const int64_t copies = here.sum().item<int64_t>(), rows = std::min(copies, expandedXOut.size(0));
  const at::Tensor active = order.slice(0, 0, copies);
  at::Tensor filled = order.slice(0, 0, rows), experts = sorted.slice(0, 0, rows), slots;
  at::Tensor places = at::empty_like(order).fill_(-1);
  if (dropPadMode == 1) {
    TORCH_CHECK(first == 0 && end == expertNum && rowIdxType == 0 && expertCapacity > 0,
                "aclnnMoeInitRoutingV3: dropPadMode 1 is ", "for all experts, rowIdxType 0 and an expertCapacity, not ",
                expertCapacity);
    require_room(expertNum, expertCapacity, expandedXOut);
    const auto [kept, taken] = kept_copies(sorted.slice(0, 0, copies), expertNum, expertCapacity);
    filled = active.index_select(0, kept);
    experts = sorted.index_select(0, kept);
    slots = taken;
    places.index_copy_(0, filled, slots);
  } else if (rowIdxType == 1) {
    places.copy_(order);  // what belongs to other ranks comes last
  } else {
    places.index_copy_(0, active, at::arange(copies, at::kLong));
  }
  put(expandedRowIdxOut, places);
  const auto store = [&](const at::Tensor& out, const at::Tensor& values) {
    writable(out).zero_();
    if (!slots.defined()) return put(out.slice(0, 0, rows), values);
    at::DimVector sizes(values.sizes());
    sizes[0] = expertNum * expertCapacity;
    put(out, at::zeros(sizes, values.options()).index_copy_(0, slots, values).view(out.sizes()));
  };
  const at::Tensor tokens = filled.floor_divide(k);
  if (quantMode != by_row) writable(expandedScaleOut).zero_();
  if (quantMode == unchanged) {
    store(expandedXOut, x.index_select(0, tokens));
    if (scaleOptional.defined()) store(expandedScaleOut, scaleOptional.reshape({-1}).index_select(0, tokens));
  } else if (quantMode == by_numbers) {
    const at::Tensor values = widened(x).index_select(0, tokens) * widened(scaleOptional) + widened(offsetOptional);
    store(expandedXOut, at::round(values).clamp(-128, 127));
  } else {
    at::Tensor values = widened(x).index_select(0, tokens);
    if (scaleOptional.defined()) {  // one row for each expert here, or one for all
      const at::Tensor smooth = widened(scaleOptional);
      values = values * (smooth.size(0) == 1 ? smooth : smooth.index_select(0, experts - first));
    }
    const at::Tensor scale = values.abs().amax({-1}, true) / 127;
    store(expandedXOut, at::round(at::where(scale > 0, values / scale, 0.0)));
    store(expandedScaleOut, scale.squeeze(-1));
  }
  writable(expertTokensCountOrCumsumOut).zero_();
  if (!expertTokensNumFlag) return;
  TORCH_CHECK(end - first <= expertTokensCountOrCumsumOut.size(0), "aclnnMoeInitRoutingV3: counts of ", end - first,
              " experts in ", expertTokensCountOrCumsumOut.sizes());
  const at::Tensor counts = token_counts(sorted.slice(0, 0, copies), first, end, expertTokensNumType);
  put(expertTokensCountOrCumsumOut.slice(0, 0, counts.size(0)), counts);
}
// From one part for each rank, sorted by expert within, to one part for each expert.
OP(aclnnMoeReRouting) {
  TORCH_CHECK(expertTokenNumTypeOptional == 1, "aclnnMoeReRouting: expertTokenNumType ", expertTokenNumTypeOptional,
              " is not supported");
  TORCH_CHECK(idxTypeOptional == 0, "aclnnMoeReRouting: idxType ", idxTypeOptional, " is not supported");
  const at::Tensor counts = expertTokenNumPerRank.to(at::kLong).contiguous();
  group_ends(counts, false, tokens.size(0));
  const at::Tensor experts = at::arange(counts.size(1), at::kLong).repeat({counts.size(0)});
  const at::Tensor order = at::argsort(at::repeat_interleave(experts, counts.view({-1})), /*stable=*/true, 0, false);
  const int64_t rows = order.size(0);
  const auto moved = [&](const at::Tensor& out, const at::Tensor& value) {
    writable(out).zero_();
    put(out.slice(0, 0, rows), value);
  };
  moved(permuteTokensOut, tokens.index_select(0, order));
  if (perTokenScalesOptional.defined()) moved(permutePerTokenScalesOut, perTokenScalesOptional.index_select(0, order));
  moved(permuteTokenIdxOut, order);
  put(expertTokenNumOut, counts.sum({0}));
}
namespace {

void no_padding(bool padded) { TORCH_CHECK(!padded, "permutation of tokens: the padded mode is not supported"); }
int64_t copies_of_each(const at::Tensor& indices) { return indices.dim() == 2 ? indices.size(1) : 1; }
int64_t copies_of_each(const at::Tensor& indices, int64_t tokens) {
  TORCH_CHECK(tokens > 0 && indices.numel() % tokens == 0, "token unpermute: ", indices.numel(), " indices for ", tokens,
              " tokens");
  return indices.numel() / tokens;
}

// Rows of `source` at `places`, zeros for places that it does not have.
at::Tensor gathered(const at::Tensor& source, const at::Tensor& places) {
  const at::Tensor there = places < source.size(0);
  const at::Tensor rows = source.index_select(0, at::where(there, places, 0));
  return at::where(there.unsqueeze(-1), rows, at::zeros({}, rows.options()));
}

}  // namespace

OP(aclnnMoeTokenPermute) {
  no_padding(paddedMode);
  const int64_t k = copies_of_each(indices);
  const at::Tensor order = at::argsort(indices.reshape({-1}), true);
  put(sortedIndicesOut, places_of(indices));
  put(permuteTokensOut, tokens.index_select(0, order.slice(0, 0, permuteTokensOut.size(0)).floor_divide(k)));
}
OP(aclnnMoeTokenPermuteGrad) {
  no_padding(paddedMode);
  const at::Tensor rows = gathered(widened(permutedOutputGrad), sortedIndices.to(at::kLong));
  put(out, rows.view({-1, numTopk, rows.size(-1)}).sum({1}));
}
OP(aclnnMoeTokenUnpermute) {
  no_padding(paddedMode);
  const int64_t k = probsOptional.defined() ? copies_of_each(probsOptional) : copies_of_each(sortedIndices, out.size(0));
  at::Tensor rows = gathered(widened(permutedTokens), sortedIndices.to(at::kLong)).view({-1, k, permutedTokens.size(-1)});
  if (probsOptional.defined()) rows = rows * widened(probsOptional).reshape({-1, k, 1});
  put(out, rows.sum({1}));
}
OP(aclnnMoeTokenUnpermuteGrad) {
  no_padding(paddedMode);
  const at::Tensor grad = widened(unpermutedTokensGrad), places = sortedIndices.to(at::kLong);
  const int64_t k = copies_of_each(sortedIndices, grad.size(0));
  at::Tensor rows = grad.unsqueeze(1).expand({-1, k, -1});
  if (probsOptional.defined()) {
    const at::Tensor tokens = gathered(widened(permuteTokensOptional), places).view({-1, k, grad.size(-1)});
    put(probsGradOut, (tokens * rows).sum({-1}));
    rows = rows * widened(probsOptional).reshape({-1, k, 1});
  }
  const int64_t count = permutedTokensGradOut.size(0);
  const at::Tensor kept = (places < count).nonzero().squeeze(1);
  at::Tensor result = at::zeros(permutedTokensGradOut.sizes(), at::kFloat);
  result.index_add_(0, places.index_select(0, kept), rows.reshape({-1, grad.size(-1)}).index_select(0, kept));
  put(permutedTokensGradOut, result);
}

namespace {

// Of copies sorted by expert, those of this rank's experts: from range[0] up to range[1], all of `count` where there is none.
struct Own {
  int64_t first, end;

  Own(const char* op, at::IntArrayRef range, int64_t count)
      : first(range.empty() ? 0 : range[0]), end(range.empty() ? count : range[range.size() - 1]) {
    TORCH_CHECK(range.empty() || range.size() == 2, op, ": rangeOptional has ", range.size(), " elements, not 2");
    TORCH_CHECK(first >= 0 && first <= end && end <= count, op, ": range ", first, " to ", end, " of ", count, " copies");
  }
  int64_t size() const { return end - first; }
  // Places among the own ones; size() for those of other ranks.
  at::Tensor own(const at::Tensor& places) const {
    const at::Tensor at_first = places.to(at::kLong) - first;
    return at::where((at_first < 0).logical_or(at_first >= size()), size(), at_first);
  }
};

}  // namespace

OP(aclnnMoeTokenPermuteWithEp) {
  constexpr const char* name = "aclnnMoeTokenPermuteWithEp";
  no_padding(paddedMode);
  const Own own(name, rangeOptional, indices.numel());
  const int64_t k = copies_of_each(indices), rows = permuteTokensOut.size(0);
  TORCH_CHECK(rows <= own.size(), name, ": ", rows, " rows for a range of ", own.size());
  const at::Tensor mine = at::argsort(indices.reshape({-1}), true).narrow(0, own.first, rows);
  put(sortedIndicesOut, places_of(indices));
  put(permuteTokensOut, tokens.index_select(0, mine.floor_divide(k)));
  if (given(probsOptional)) put(permuteProbsOut, probsOptional.reshape({-1}).index_select(0, mine));
}
OP(aclnnMoeTokenPermuteWithEpGrad) {
  no_padding(paddedMode);
  const Own own("aclnnMoeTokenPermuteWithEpGrad", rangeOptional, sortedIndices.numel());
  const at::Tensor places = own.own(sortedIndices), rows = gathered(widened(permutedTokensOutputGrad), places);
  put(tokenGradOut, rows.view({-1, numTopk, rows.size(-1)}).sum({1}));
  if (given(permutedProbsOutputGradOptional)) {
    put_reshaped(probsGradOut, gathered(widened(permutedProbsOutputGradOptional).reshape({-1, 1}), places));
  }
}
OP(aclnnMoeTokenUnpermuteWithEp) {
  no_padding(paddedMode);
  const Own own("aclnnMoeTokenUnpermuteWithEp", rangeOptional, sortedIndices.numel());
  const int64_t k = given(probsOptional) ? copies_of_each(probsOptional) : copies_of_each(sortedIndices, out.size(0));
  at::Tensor rows = gathered(widened(permutedTokens), own.own(sortedIndices)).view({-1, k, permutedTokens.size(-1)});
  if (given(probsOptional)) rows = rows * widened(probsOptional).reshape({-1, k, 1});
  put(out, rows.sum({1}));
}
OP(aclnnMoeTokenUnpermuteWithEpGrad) {
  no_padding(paddedMode);
  const Own own("aclnnMoeTokenUnpermuteWithEpGrad", rangeOptional, sortedIndices.numel());
  const at::Tensor grad = widened(unpermutedTokensGrad), places = own.own(sortedIndices);
  const int64_t k = copies_of_each(sortedIndices, grad.size(0));
  at::Tensor rows = grad.unsqueeze(1).expand({-1, k, -1});
  if (given(probsOptional)) {
    const at::Tensor tokens = gathered(widened(permutedTokensOptional), places).view({-1, k, grad.size(-1)});
    put(probsGradOut, (tokens * rows).sum({-1}));
    rows = rows * widened(probsOptional).reshape({-1, k, 1});
  }
  const at::Tensor kept = (places < own.size()).nonzero().squeeze(1);
  at::Tensor result = at::zeros(permutedTokensGradOut.sizes(), at::kFloat);
  result.index_add_(0, places.index_select(0, kept), rows.reshape({-1, grad.size(-1)}).index_select(0, kept));
  put(permutedTokensGradOut, result);
}
