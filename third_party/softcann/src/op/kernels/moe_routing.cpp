// Mixtures of experts: routing with capacities, results of experts added up, experts' replicas, and routing by a map.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

// Where copies of tokens go: sorted by expert, or ("padded") each expert's first `capacity` copies into its own part.
struct Routing {
  at::Tensor experts, order;  // of all copies, sorted; numbers behind the last expert are those of tokens that go nowhere
  at::Tensor counts;          // copies of each expert
  int64_t copies_of_each;

  Routing(const at::Tensor& x, const at::Tensor& expert_idx, int64_t expert_count) : copies_of_each(expert_idx.size(-1)) {
    TORCH_CHECK(expert_idx.dim() == 2 && expert_idx.size(0) == x.size(0), "routing: experts ", expert_idx.sizes(), " of tokens ",
                x.sizes());
    std::tie(experts, order) = at::sort(expert_idx.reshape({-1}).to(at::kLong), /*stable=*/true, 0, false);
    const int64_t known = std::max<int64_t>(expert_count, 0);
    TORCH_CHECK(known == 0 || experts.numel() == 0 || experts[-1].item<int64_t>() <= known, "routing: expert ",
                experts[-1].item<int64_t>(), " of ", known);
    counts = at::bincount(experts.clamp_max(known), {}, known + 1).slice(0, 0, known);
  }
  // The number of each copy among those of its expert, in sorted order.
  at::Tensor turns() const { return at::arange(order.numel(), at::kLong) - starts().index_select(0, experts); }
  at::Tensor starts() const { return at::cumsum(counts, 0) - counts; }
  at::Tensor tokens() const { return order.floor_divide(copies_of_each); }
};

struct InitRouting {
  int64_t active, capacity, experts, drop_pad, count_mode;
  bool before_capacity;

  // Calls store(rows of the result, tokens, experts): what the rows become is the caller's.
  template <class Store>
  void run(const at::Tensor& x, const at::Tensor& expert_idx, const at::Tensor& out, const at::Tensor& places,
           const at::Tensor& counts, const at::Tensor& all_counts, Store&& store) const {
    TORCH_CHECK(drop_pad == 0 || drop_pad == 1, "routing: dropPadMode ", drop_pad, " is not one of 0, 1");
    TORCH_CHECK(drop_pad == 0 || (capacity > 0 && experts > 0 && capacity <= out.numel() && experts <= out.numel()),
                "routing: dropPadMode 1 with expertNum ", experts, " and expertCapacity ", capacity, " for ", out.sizes());
    TORCH_CHECK(count_mode >= 0 && count_mode <= 2, "routing: expertTokensCountOrCumsumFlag ", count_mode,
                " is not one of 0, 1, 2");
    const bool counted = given(counts) && drop_pad == 0 && count_mode != 0;
    TORCH_CHECK(!counted || (counts.dim() == 1 && counts.size(0) == experts), "routing: counts ", counts.sizes(), " of ", experts,
                " experts");
    const Routing routing(x, expert_idx, drop_pad == 1 || counted ? experts : 0);
    writable(out).zero_();
    at::Tensor place = at::full({routing.order.numel()}, -1, at::kLong);
    if (drop_pad == 0) {
      place.index_copy_(0, routing.order, at::arange(routing.order.numel(), at::kLong));
      const int64_t rows = std::min<int64_t>(routing.order.numel(), out.size(0));
      store(out.slice(0, 0, rows), at::arange(rows, at::kLong), routing.tokens().slice(0, 0, rows),
            routing.experts.slice(0, 0, rows));
    } else {
      const at::Tensor turn = routing.turns(), kept = (turn < capacity).nonzero().squeeze(1);
      const at::Tensor to = (routing.experts * capacity + turn).index_select(0, kept);
      place.index_copy_(0, routing.order.index_select(0, kept), to);
      write_in_sizes(out, {out.numel() / std::max<int64_t>(out.size(-1), 1), out.size(-1)}, [&](at::Tensor& rows) {
        store(rows, to, routing.tokens().index_select(0, kept), routing.experts.index_select(0, kept));
      });
    }
    put(places, place);
    if (counted) put(counts, count_mode == 1 ? at::cumsum(routing.counts, 0) : routing.counts);
    if (given(all_counts) && drop_pad == 1 && before_capacity) put(all_counts, routing.counts.slice(0, 0, all_counts.size(0)));
  }
};

}  // namespace

OP(aclnnMoeInitRoutingV2) {
  const InitRouting routing{activeNumOptional,
                            expertCapacityOptional,
                            expertNumOptional,
                            dropPadModeOptional,
                            expertTokensCountOrCumsumFlagOptional,
                            expertTokensBeforeCapacityFlagOptional};
  routing.run(x, expertIdx, expandedXOut, expandedRowIdxOut, expertTokensCountOrCumsumOutOptional,
              expertTokensBeforeCapacityOutOptional,
              [&](at::Tensor rows, const at::Tensor& to, const at::Tensor& tokens, const at::Tensor&) {
                rows.index_copy_(0, to, x.index_select(0, tokens));
              });
}
// quantMode 0: round(x * scale + offset), 1: with a scale for each row, after smoothing by a row of `scale` for each expert.
OP(aclnnMoeInitRoutingQuantV2) {
  TORCH_CHECK(quantMode == 0 || quantMode == 1, "aclnnMoeInitRoutingQuantV2: quantMode ", quantMode, " is not one of 0, 1");
  TORCH_CHECK(quantMode == 1 || scaleOptional.defined(), "aclnnMoeInitRoutingQuantV2: quantMode 0 needs scale");
  const InitRouting routing{
      activeNum, expertCapacity, expertNum, dropPadMode, expertTokensCountOrCumsumFlag, expertTokensBeforeCapacityFlag};
  if (given(dynamicQuantScaleOutOptional)) dynamicQuantScaleOutOptional.zero_();
  routing.run(x, expertIdx, expandedXOut, expandedRowIdxOut, expertTokensCountOrCumsumOutOptional,
              expertTokensBeforeCapacityOutOptional,
              [&](at::Tensor rows, const at::Tensor& to, const at::Tensor& tokens, const at::Tensor& experts) {
                at::Tensor value = widened(x).index_select(0, tokens);
                at::Tensor q = at::zeros(value.sizes(), rows.options());
                if (quantMode == 0) {
                  value = value * widened(scaleOptional);
                  put_quantized(q, given(offsetOptional) ? value + widened(offsetOptional) : value);
                } else {
                  if (given(scaleOptional)) {
                    const at::Tensor smooth = widened(scaleOptional);
                    value = value * (smooth.size(0) == 1 ? smooth : smooth.index_select(0, experts));
                  }
                  at::Tensor scales = at::zeros({value.size(0)}, at::kFloat);
                  quantize_rows(value, q, scales);
                  dynamicQuantScaleOutOptional.view({-1}).index_copy_(0, to, scales);
                }
                rows.index_copy_(0, to, q);
              });
}

namespace {

// dropPadMode: 0 and 1 number the copies column by column, 2 and 3 row by row; place -1 (dropped) adds nothing.
struct FinalizeRouting {
  const at::Tensor &rows, &places, &skip1, &skip2, &bias, &scales, &experts;
  int64_t mode;

  // [tokens, k] of `copies`.
  at::Tensor by_token(const at::Tensor& copies, int64_t tokens) const {
    return mode >= 2 ? copies.reshape({tokens, -1}) : copies.reshape({-1, tokens}).t();
  }
  // What each copy gives, [tokens, k, size], before it is scaled.
  at::Tensor results(int64_t tokens) const {
    TORCH_CHECK(mode >= 0 && mode <= 3, "routing: dropPadMode ", mode, " is not one of 0 to 3");
    const at::Tensor place = by_token(places.to(at::kLong), tokens), wide = widened(rows).reshape({-1, rows.size(-1)});
    const at::Tensor there = place.ge(0).logical_and(place < wide.size(0));
    at::Tensor found = wide.index_select(0, at::where(there, place, 0).reshape({-1})).view({tokens, -1, wide.size(-1)});
    if (given(bias)) {
      found = found + widened(bias).index_select(0, experts.reshape({-1}).to(at::kLong)).view_as(found);
    }
    return at::where(there.unsqueeze(-1), found, 0.0);
  }
  void add_up(at::Tensor results, const at::Tensor& out) const {
    TORCH_CHECK(!given(scales) || scales.numel() == results.size(0) * results.size(1), "routing: scales ", scales.sizes(),
                " for copies ", results.sizes());
    if (given(scales)) results = results * widened(scales).reshape({results.size(0), results.size(1), 1});
    at::Tensor sum = results.sum({1});
    if (given(skip1)) sum = sum + widened(skip1);
    if (given(skip2)) sum = sum + widened(skip2);
    put(out, sum);
  }
  void run(const at::Tensor& out) const { add_up(results(out.size(0)), out); }
};

at::Tensor in_range(const at::Tensor& experts, at::IntArrayRef range) {
  TORCH_CHECK(range.empty() || range.size() == 2, "routing: a range of experts ", range, ", not [first, end]");
  return range.size() < 2 ? at::zeros_like(experts, at::kBool) : experts.ge(range[0]).logical_and(experts < range[1]);
}

}  // namespace

OP(aclnnMoeFinalizeRouting) {
  FinalizeRouting{expandedX, expandedRowIdx, x1, x2Optional, bias, scales, expandedExpertIdx, 0}.run(out);
}
OP(aclnnMoeFinalizeRoutingV2) {
  FinalizeRouting{expandedX, expandedRowIdx, x1Optional, x2Optional, biasOptional, scalesOptional, expertIdxOptional, dropPadMode}
      .run(out);
}
// Copies are numbered row by row; gradients of those that went nowhere stay 0.
OP(aclnnMoeFinalizeRoutingV2Grad) {
  TORCH_CHECK(dropPadMode == 0 || dropPadMode == 1, "aclnnMoeFinalizeRoutingV2Grad: dropPadMode ", dropPadMode,
              " is not one of 0, 1");
  const int64_t tokens = gradY.size(0), size = gradY.size(-1);
  const FinalizeRouting forward{expandedXOptional, expandedRowIdx, {}, {}, biasOptional, scalesOptional, expertIdxOptional, 2};
  const at::Tensor place = forward.by_token(expandedRowIdx.to(at::kLong), tokens), grad = widened(gradY).unsqueeze(1);
  at::Tensor copies = grad.expand({tokens, place.size(1), size});
  if (given(scalesOptional)) {
    TORCH_CHECK(given(expandedXOptional) && given(biasOptional) <= given(expertIdxOptional),
                "aclnnMoeFinalizeRoutingV2Grad: scales need expandedX, bias needs expertIdx");
    put(gradScalesOut, (forward.results(tokens) * grad).sum({-1}));
    copies = copies * widened(scalesOptional).reshape({tokens, -1, 1});
  }
  at::Tensor rows = at::zeros({gradExpandedXOut.numel() / size, size}, at::kFloat);
  const at::Tensor kept = place.ge(0).logical_and(place < rows.size(0));
  rows.index_copy_(0, place.masked_select(kept),
                   copies.reshape({-1, size}).index_select(0, kept.reshape({-1}).nonzero().squeeze(1)));
  put(gradExpandedXOut, rows.view(gradExpandedXOut.sizes()));
}
// Experts that compute nothing: zero, the token itself, and a1 * token + a2 * v.
OP(aclnnMoeFinalizeRoutingV4) {
  const FinalizeRouting routing{expandedX,    expandedRowIdx, x1Optional,        x2Optional,
                                biasOptional, scalesOptional, expertIdxOptional, dropPadMode};
  at::Tensor results = routing.results(out.size(0));
  if (given(expertIdxOptional)) {
    const at::Tensor expert = expertIdxOptional.to(at::kLong);
    const auto replace = [&](at::IntArrayRef range, const at::Tensor& value) {
      results = at::where(in_range(expert, range).unsqueeze(-1), value, results);
    };
    replace(zeroExpertRange, at::zeros({}, results.options()));
    if (copyExpertRange.size() == 2) replace(copyExpertRange, widened(xOptional).unsqueeze(1));
    if (constantExpertRange.size() == 2) {
      TORCH_CHECK(constantExpertRange[1] - constantExpertRange[0] <= a1Optional.size(0), "aclnnMoeFinalizeRoutingV4: experts ",
                  constantExpertRange[0], " to ", constantExpertRange[1], " of ", a1Optional.size(0), " rows of a1");
      const at::Tensor which = (expert - constantExpertRange[0]).clamp(0, a1Optional.size(0) - 1).reshape({-1});
      const auto chosen = [&](const at::Tensor& t) { return widened(t).index_select(0, which).view_as(results); };
      replace(constantExpertRange, widened(xOptional).unsqueeze(1) * chosen(a1Optional) + chosen(a2Optional) * chosen(vOptional));
    }
  }
  routing.add_up(results, out);
}

// The expert's replica that serves this rank (balanceMode 0), or replicas in turn; eplbTable: how many replicas, then which.
OP(aclnnMoeUpdateExpert) {
  TORCH_CHECK(balanceMode == 0 || balanceMode == 1, "aclnnMoeUpdateExpert: balanceMode ", balanceMode, " is not one of 0, 1");
  const at::Tensor ids = expertIds.to(at::kLong), table = eplbTable.to(at::kLong);
  const at::Tensor count = table.select(1, 0).index_select(0, ids.reshape({-1})).view_as(ids);
  TORCH_CHECK(ids.numel() == 0 || (count.min().item<int64_t>() > 0 && count.max().item<int64_t>() < table.size(1)),
              "aclnnMoeUpdateExpert: an expert has none of its replicas, or more than eplbTable ", table.sizes(), " names");
  at::Tensor turn;
  if (balanceMode == 0) {
    TORCH_CHECK(worldSize > 0 && localRankId >= 0 && localRankId < worldSize, "aclnnMoeUpdateExpert: localRankId ", localRankId,
                " of ", worldSize, " ranks");
    const at::Tensor each = (count + worldSize - 1).floor_divide(count);
    turn = at::full(ids.sizes(), localRankId, at::kLong).floor_divide(each);
  } else {
    turn = at::arange(ids.size(0), at::kLong).unsqueeze(1).remainder(count);
  }
  turn = at::where(count == 1, 0, turn);
  put(balancedExpertIds, table.index_select(0, ids.reshape({-1})).gather(1, turn.reshape({-1, 1}) + 1).view_as(ids));
  if (!given(balancedActiveMask)) return;
  at::Tensor kept = at::ones(ids.sizes(), at::kBool);
  if (given(expertScalesOptional)) {
    const at::Tensor scales = widened(expertScalesOptional);
    TORCH_CHECK(scales.sizes() == ids.sizes() && pruningThresholdOptional.numel() == ids.size(-1),
                "aclnnMoeUpdateExpert: scales ", scales.sizes(), " and thresholds ", pruningThresholdOptional.sizes(), " of ",
                ids.sizes());
    kept = scales.sum({-1}, true) * widened(pruningThresholdOptional).reshape({1, -1}) < scales;
  }
  TORCH_CHECK(!given(activeMaskOptional) || activeMaskOptional.numel() == ids.size(0), "aclnnMoeUpdateExpert: activeMask ",
              activeMaskOptional.sizes(), " of ", ids.sizes());
  if (given(activeMaskOptional)) kept = kept.logical_and(activeMaskOptional.to(at::kBool).reshape({-1, 1}));
  put(balancedActiveMask, kept);
}
// Of x normalized by softmax (normType 0) or sigmoid (1), the gradient for x by way of the chosen experts' weights.
OP(aclnnMoeGatingTopKBackward) {
  TORCH_CHECK(normType == 0 || normType == 1, "aclnnMoeGatingTopKBackward: normType ", normType, " is not one of 0, 1");
  const at::Tensor normal = widened(xNorm), experts = expertIdx.to(at::kLong);
  at::Tensor grad = widened(gradY) * routedScalingFactor;
  if (normType == 1 || renorm == 1) {  // weights were divided by their sum
    const at::Tensor weights = normal.gather(1, experts), total = weights.sum({-1}, true) + eps;
    grad = grad / total - (grad * weights).sum({-1}, true) / total.square();
  }
  const at::Tensor spread = at::zeros_like(normal).scatter_add_(1, experts, grad);
  put(out, normType == 1 ? spread * normal * (1 - normal) : normal * (spread - (spread * normal).sum({-1}, true)));
}

namespace {

// Note [Routing map]
// A map [tokens, experts] says which expert takes which token; a row of the permuted tokens is called slot. Without padding every
// token has as many experts as the others, and sortedIndices has, token by token, the slots of its copies. With it every
// expert has as many slots, and sortedIndices has the token of each slot.
struct Slots {
  at::Tensor token, expert;  // of each slot
};
at::Tensor tokens_of(const at::Tensor& sorted, int64_t count, bool padded) {
  if (padded) return sorted.to(at::kLong);
  const int64_t copies = std::max<int64_t>(1, sorted.numel() / std::max<int64_t>(1, count));
  const at::Tensor tokens = at::arange(sorted.numel(), at::kLong).floor_divide(copies);
  return at::zeros_like(tokens).scatter_(0, sorted.to(at::kLong), tokens);
}
at::Tensor experts_of(const at::Tensor& token, int64_t experts, const at::Tensor& map, bool padded) {
  if (padded) return at::arange(experts, at::kLong).repeat_interleave(token.numel() / std::max<int64_t>(1, experts));
  TORCH_CHECK(given(map), "routing map: it is needed where there are probs");
  return map.to(at::kBool).t().contiguous().nonzero().slice(0, 0, token.numel()).select(1, 0);
}
void require_map(const at::Tensor& map, const at::Tensor& probs, int64_t tokens) {
  TORCH_CHECK(probs.dim() == 2 && probs.size(0) == tokens && (!given(map) || map.sizes() == probs.sizes()), "routing map: a map ",
              map.sizes(), " and probs ", probs.sizes(), " of ", tokens, " tokens");
}
at::Tensor entries(const at::Tensor& table, const Slots& slots) {
  return table.reshape({-1}).index_select(0, slots.token * table.size(1) + slots.expert);
}
// A table [tokens, experts] of numbers of the slots.
at::Tensor table_of(const at::Tensor& numbers, const Slots& slots, int64_t tokens, int64_t experts) {
  at::Tensor table = at::zeros({tokens * experts}, numbers.options());
  return table.index_add_(0, slots.token * experts + slots.expert, numbers).view({tokens, experts});
}

}  // namespace

OP(aclnnMoeTokenPermuteWithRoutingMap) {
  TORCH_CHECK(routingMap.dim() == 2 && routingMap.size(0) == tokens.size(0) && routingMap.size(1) > 0,
              "aclnnMoeTokenPermuteWithRoutingMap: a map ", routingMap.sizes(), " of tokens ", tokens.sizes());
  const at::Tensor chosen = routingMap.to(at::kBool).t().contiguous();
  const int64_t count = routingMap.size(0), experts = routingMap.size(1);
  Slots slots;
  if (dropAndPad) {
    const int64_t capacity = numOutTokens / experts;
    slots.token = at::argsort(chosen.logical_not().to(at::kByte), /*stable=*/true, 1, false).slice(1, 0, capacity).reshape({-1});
    slots.expert = at::arange(experts, at::kLong).repeat_interleave(capacity);
    put(sortedIndicesOut, slots.token);
  } else {
    const at::Tensor places = chosen.nonzero().slice(0, 0, count == 0 ? 0 : numOutTokens / count * count);
    slots = {places.select(1, 1).contiguous(), places.select(1, 0).contiguous()};
    put(sortedIndicesOut, at::argsort(slots.token, /*stable=*/true, 0, false));
  }
  put(permuteTokensOut, tokens.index_select(0, slots.token));
  if (given(probsOptional)) put(permuteProbsOutOptional, entries(probsOptional, slots));
}
OP(aclnnMoeTokenPermuteWithRoutingMapGrad) {
  Slots slots{tokens_of(sortedIndices, tokensNum, dropAndPad), {}};
  const at::Tensor rows = widened(permutedTokenOutputGrad);
  put(tokensGradOut, at::zeros({tokensNum, rows.size(1)}, rows.options()).index_add_(0, slots.token, rows));
  if (!given(permutedProbsOutputGradOptional) || !given(probsGradOutOptional)) return;
  slots.expert = experts_of(slots.token, numExperts, routingMapOptional, dropAndPad);
  put(probsGradOutOptional, table_of(widened(permutedProbsOutputGradOptional), slots, tokensNum, numExperts));
}
OP(aclnnMoeTokenUnpermuteWithRoutingMap) {
  const int64_t count = unpermutedTokens.size(0);
  Slots slots{tokens_of(sortedIndices, count, paddedMode), {}};
  at::Tensor rows = widened(permutedTokens);
  TORCH_CHECK(rows.size(0) == slots.token.numel(), "aclnnMoeTokenUnpermuteWithRoutingMap: ", rows.size(0), " rows for ",
              slots.token.numel(), " slots");
  if (given(probsOptional)) {
    require_map(routingMapOptional, probsOptional, count);
    slots.expert = experts_of(slots.token, probsOptional.size(1), routingMapOptional, paddedMode);
    const at::Tensor probs = entries(probsOptional, slots);
    rows = rows * widened(probs).unsqueeze(1);
    put(permuteProbs, probs);
  }
  put(unpermutedTokens, at::zeros({count, rows.size(1)}, rows.options()).index_add_(0, slots.token, rows));
  if (paddedMode) {
    const auto [owner, slot] = at::sort(slots.token, /*stable=*/true, 0, false);
    put(outIndex, slot);
    put(permuteTokenId, owner);
  } else {
    put(outIndex, sortedIndices);
    put(permuteTokenId, slots.token.index_select(0, sortedIndices.to(at::kLong)));
  }
}
OP(aclnnMoeTokenUnpermuteWithRoutingMapGrad) {
  // Without padding the places alone say which token a slot has, and clients give them twice.
  Slots slots;
  if (dropAndPad) {
    const at::Tensor owner = permuteTokenId.to(at::kLong);
    slots.token = at::zeros_like(owner).scatter_(0, outIndex.to(at::kLong), owner);
  } else {
    slots.token = tokens_of(outIndex, unpermutedTokensGrad.size(0), false);
  }
  const at::Tensor rows = widened(unpermutedTokensGrad).index_select(0, slots.token);
  if (!given(probsOptional)) return put(permutedTokensGradOut, rows);
  require_map(routingMapOptional, probsOptional, unpermutedTokensGrad.size(0));
  slots.expert = experts_of(slots.token, probsOptional.size(1), routingMapOptional, dropAndPad);
  put(permutedTokensGradOut, rows * widened(entries(probsOptional, slots)).unsqueeze(1));
  if (!given(permutedTokensOptional) || !given(probsGradOutOptional)) return;
  const at::Tensor by_slot = (rows * widened(permutedTokensOptional)).sum({1});
  put(probsGradOutOptional, table_of(by_slot, slots, probsOptional.size(0), probsOptional.size(1)));
}

namespace {

double init_cost(const at::Tensor& grad, int64_t top, int64_t mode) {
  if (top <= 0) invalid("aclnnMoeInitRoutingV2Grad: topK is %ld; it is positive", long(top));
  if (mode != 0 && mode != 1) invalid("aclnnMoeInitRoutingV2Grad: dropPadMode %ld; 0 and 1 are supported", long(mode));
  return bytes(grad);
}

}  // namespace

// Each token's rows are added up; those that were dropped, or are behind the last active one, have none.
OP_COST(aclnnMoeInitRoutingV2Grad, init_cost(gradExpandedX, topK, dropPadMode)) {
  const at::Tensor rows = widened(gradExpandedX).reshape({-1, gradExpandedX.size(-1)}), place = expandedRowIdx.to(at::kLong);
  const at::Tensor there = place.ge(0).logical_and(place.lt(rows.size(0)));
  const at::Tensor taken = rows.index_select(0, at::where(there, place, 0));
  put(out, at::where(there.unsqueeze(-1), taken, 0).view({-1, topK, rows.size(-1)}).sum(1));
}
