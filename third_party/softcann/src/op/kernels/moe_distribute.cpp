// Experts on several ranks: tokens to the ranks of their experts, and their results back.
#include <algorithm>

#include "op/collective.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"

// Note [Tokens and experts]
// Rank r has the experts [r, r + 1) * experts / ranks. A copy is (token, place among its experts). How many copies go from one
// rank to another is known on the device alone, so all ranks get all tokens, and each takes those of its experts: by expert, then
// by the rank they come from, then in order. On the way back all ranks get all results. Tokens are padded to as many as the rank
// with most of them has, expert numbers by kNoExpert.
using namespace softcann::op;

namespace {

constexpr int32_t kNoExpert = -1;

struct Experts {
  const char* group;
  int64_t ranks, rank, count;
  int64_t global_tokens;  // of all ranks, as if each had as many as the one with most; 0: all have as many
  int64_t shared_ranks, tensor_ranks;

  int64_t local() const { return count / ranks; }
  int64_t tokens(const at::Tensor& ids) const { return global_tokens != 0 ? global_tokens / ranks : ids.size(0); }
};

Plan checked_plan(const Experts& experts, const at::Tensor& ids) {
  Plan plan = plan_of(experts.group);
  if (experts.ranks != plan.ranks || experts.rank != plan.rank) {
    invalid("epRankId %ld of epWorldSize %ld, but this is rank %u of the %u of '%s'", static_cast<long>(experts.rank),
            static_cast<long>(experts.ranks), plan.rank, plan.ranks, experts.group);
  }
  if (experts.shared_ranks != 0 || experts.tensor_ranks > 1)
    invalid("ranks for shared experts, and tpWorldSize above 1, are not supported");
  if (experts.count <= 0 || experts.count % experts.ranks != 0) {
    invalid("%ld experts on %ld ranks", static_cast<long>(experts.count), static_cast<long>(experts.ranks));
  }
  if (ids.size(0) > experts.tokens(ids)) invalid("%ld tokens, more than globalBs / epWorldSize", static_cast<long>(ids.size(0)));
  return plan;
}

// The experts of each copy, [tokens, k]; kNoExpert for copies that do not go.
at::Tensor active_experts(const at::Tensor& ids, const at::Tensor& mask, int64_t experts) {
  const at::Tensor there = at::logical_and(ids.ge(0), ids.lt(experts));
  const at::Tensor wanted = mask.defined() ? at::logical_and(there, mask.dim() == 1 ? mask.unsqueeze(1) : mask) : there;
  return ids.to(at::kInt).masked_fill(wanted.logical_not(), kNoExpert);
}

// `rows` followed by rows of `filler`, in the workspace.
void send_padded(const at::Tensor& rows, int64_t count, at::ScalarType dtype, const at::Scalar& filler) {
  const at::Tensor to = stage().sent({count, rows.size(1)}, dtype);
  put(to.slice(0, 0, rows.size(0)), rows);
  if (rows.size(0) < count) to.slice(0, rows.size(0)).fill_(filler);
}

// --- there

struct Dispatch {
  const at::Tensor &x, &ids, &scales, &mask, &weights;
  Experts experts;
  int64_t quant_mode, counts_type;
};
struct Dispatched {
  const at::Tensor &x, &scales, &index, &expert_counts, &ends, &tensor_counts, &weights;
  bool triples;  // index: (rank, token, place) of each row; else the number of a copy among those to its expert
};

Plan dispatch_plan(const Dispatch& in) {
  if (in.quant_mode != 0 && in.quant_mode != 2)
    invalid("quantMode %ld: only 0 and 2 are supported", static_cast<long>(in.quant_mode));
  Plan plan = checked_plan(in.experts, in.ids);
  const int64_t tokens = in.experts.tokens(in.ids), k = in.ids.size(1);
  plan.exchanges = {gather_bytes(tokens * k * 4), gather_bytes(tokens * bytes_of_row(in.x))};
  if (given(in.weights)) plan.exchanges.push_back(gather_bytes(tokens * k * 4));
  return plan;
}

struct Row {
  int64_t rank, token, place;
};

// Fills what says where the rows came from, and returns the rows of this rank's experts.
std::vector<Row> route(const Dispatch& in, const int32_t* ids, int64_t tokens, const Dispatched& out) {
  const Experts& experts = in.experts;
  const int64_t k = in.ids.size(1), local = experts.local();
  std::vector<Row> rows;
  std::vector<int64_t> ends;
  std::vector<int32_t> segment_ends;
  for (int64_t expert = experts.rank * local; expert < (experts.rank + 1) * local; ++expert) {
    for (int64_t rank = 0; rank < experts.ranks; ++rank) {
      for (int64_t i = 0; i < tokens * k; ++i) {
        if (ids[rank * tokens * k + i] == expert) rows.push_back({rank, i / k, i % k});
      }
      segment_ends.push_back(static_cast<int32_t>(rows.size()));
    }
    const int64_t before = ends.empty() || in.counts_type == 0 ? 0 : static_cast<int64_t>(ends.back());
    ends.push_back(static_cast<int64_t>(rows.size()));
    out.expert_counts.select(0, expert - experts.rank * local).fill_(ends.back() - before);
  }
  at::Tensor segments = out.ends.slice(0, 0, static_cast<int64_t>(segment_ends.size()));
  for (size_t i = 0; i < segment_ends.size(); ++i) segments.select(0, static_cast<int64_t>(i)).fill_(segment_ends[i]);
  return rows;
}

void put_index(const Dispatch& in, const std::vector<Row>& rows, const at::Tensor& own_ids, const Dispatched& out) {
  at::Tensor index = at::zeros({out.index.numel()}, at::kInt);
  auto* to = index.mutable_data_ptr<int32_t>();
  if (out.triples) {
    for (size_t i = 0; i < rows.size() && 3 * i + 2 < static_cast<size_t>(index.numel()); ++i) {
      to[3 * i] = static_cast<int32_t>(rows[i].rank);
      to[3 * i + 1] = static_cast<int32_t>(rows[i].token);
      to[3 * i + 2] = static_cast<int32_t>(rows[i].place);
    }
  } else {
    const at::Tensor flat = own_ids.contiguous();
    std::vector<int32_t> seen(static_cast<size_t>(in.experts.count));
    for (int64_t i = 0; i < std::min(flat.numel(), index.numel()); ++i) {
      if (const int32_t expert = flat.const_data_ptr<int32_t>()[i]; expert != kNoExpert)
        to[i] = seen[static_cast<size_t>(expert)]++;
    }
  }
  put(out.index, index);
}

void receive_rows(const Dispatch& in, const Dispatched& out) {
  const Stage& now = stage();
  const int64_t tokens = in.experts.tokens(in.ids), k = in.ids.size(1), ranks = in.experts.ranks;
  const at::Tensor ids = now.received(0, {ranks, tokens, k}, at::kInt);
  const std::vector<Row> rows = route(in, ids.const_data_ptr<int32_t>(), tokens, out);
  const auto count = static_cast<int64_t>(rows.size());
  TORCH_CHECK(count <= out.x.size(0), count, " rows arrive, the output has room for ", out.x.size(0));
  put_index(in, rows, active_experts(in.ids, in.mask, in.experts.count), out);
  if (given(out.tensor_counts)) writable(out.tensor_counts).zero_();
  at::Tensor places = at::empty({count}, at::kLong), copies = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const Row& row = rows[static_cast<size_t>(i)];
    places.mutable_data_ptr<int64_t>()[i] = row.rank * tokens + row.token;
    copies.mutable_data_ptr<int64_t>()[i] = (row.rank * tokens + row.token) * k + row.place;
  }
  const at::Tensor arrived = now.received(1, {ranks * tokens, in.x.size(1)}, in.x.scalar_type()).index_select(0, places);
  writable(out.x).slice(0, count).zero_();
  if (in.quant_mode == 0) {
    put(out.x.slice(0, 0, count), arrived);
  } else {
    at::Tensor values = widened(arrived);
    if (given(in.scales))
      values = values * widened(in.scales).index_select(0, ids.reshape({-1}).index_select(0, copies).to(at::kLong));
    writable(out.scales).zero_();
    quantize_rows(values, out.x.slice(0, 0, count), out.scales.slice(0, 0, count));
  }
  if (!given(in.weights) || !given(out.weights)) return;
  writable(out.weights).zero_();
  put(out.weights.slice(0, 0, count), now.received(2, {ranks * tokens * k}, at::kFloat).index_select(0, copies));
}

void dispatch(const Dispatch& in, const Dispatched& out) {
  const int64_t tokens = in.experts.tokens(in.ids);
  switch (stage().number) {
    case 0:
      return send_padded(active_experts(in.ids, in.mask, in.experts.count), tokens, at::kInt, kNoExpert);
    case 1:
      return send_padded(in.x, tokens, in.x.scalar_type(), 0);
    case 2:
      if (given(in.weights)) return send_padded(in.weights, tokens, at::kFloat, 0);
      [[fallthrough]];
    default:
      return receive_rows(in, out);
  }
}

// --- back

struct Combine {
  const at::Tensor &rows, &ids, &ends, &weights, &mask, &shared;
  Experts experts;
  bool quantised;  // rows are sent as int8
};
// Experts behind the others that are no networks: they make 0, the token, or a1 * token + a2 * v.
struct PlainExperts {
  const at::Tensor &x, &alpha1, &alpha2, &v;
  int64_t zeros, copies, constants;
};

Plan combine_plan(const Combine& in) {
  Plan plan = checked_plan(in.experts, in.ids);
  if (in.ends.numel() < in.experts.count)
    invalid("%ld counts of %ld experts", static_cast<long>(in.ends.numel()), static_cast<long>(in.experts.count));
  plan.exchanges = {gather_bytes(in.experts.count * 4), gather_bytes(in.rows.size(0) * bytes_of_row(in.rows))};
  return plan;
}

// What int8 with a scale for each row leaves of numbers.
at::Tensor through_int8(const at::Tensor& rows) {
  at::Tensor quantised = at::empty(rows.sizes(), at::kChar), scales = at::empty({rows.size(0)}, at::kFloat);
  quantize_rows(widened(rows), quantised, scales);
  return quantised.to(at::kFloat) * scales.unsqueeze(1);
}

// The weighted sums of this rank's tokens, float32.
at::Tensor sums_of_tokens(const Combine& in) {
  const Stage& now = stage();
  const Experts& experts = in.experts;
  const int64_t k = in.ids.size(1), local = experts.local(), room = in.rows.size(0);
  const at::Tensor ids = active_experts(in.ids, in.mask, experts.count).contiguous();
  const at::Tensor ends = now.received(0, {experts.ranks, local, experts.ranks}, at::kInt);
  const auto* end = ends.const_data_ptr<int32_t>();
  std::vector<int64_t> seen(static_cast<size_t>(experts.count)), tokens, copies, places;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const int32_t expert = ids.const_data_ptr<int32_t>()[i];
    if (expert == kNoExpert) continue;
    const int64_t owner = expert / local, segment = (expert % local) * experts.ranks + experts.rank;
    const int64_t before = segment == 0 ? 0 : end[owner * experts.count + segment - 1];
    const int64_t place = before + seen[static_cast<size_t>(expert)]++;
    TORCH_CHECK(place < end[owner * experts.count + segment] && place < room,
                "the counts are not those of the dispatch of these tokens");
    tokens.push_back(i / k), copies.push_back(i), places.push_back(owner * room + place);
  }
  const auto index = [](const std::vector<int64_t>& numbers) { return at::tensor(numbers, at::kLong); };
  const at::Tensor came = now.received(1, {experts.ranks * room, in.rows.size(1)}, in.rows.scalar_type());
  at::Tensor back = came.index_select(0, index(places));
  back = in.quantised ? through_int8(back) : widened(back);
  at::Tensor sums = at::zeros({in.ids.size(0), in.rows.size(1)}, at::kFloat);
  sums.index_add_(0, index(tokens), back * widened(in.weights).reshape({-1}).index_select(0, index(copies)).unsqueeze(1));
  return given(in.shared) ? sums + widened(in.shared).view(sums.sizes()) : sums;
}

at::Tensor with_plain_experts(at::Tensor sums, const Combine& in, const PlainExperts& plain) {
  int64_t first = in.experts.count + plain.zeros;
  const auto weight = [&](const at::Tensor& chosen) { return (widened(in.weights) * chosen).sum({1}, true); };
  if (plain.copies != 0) {
    const at::Tensor chosen = at::logical_and(in.ids.ge(first), in.ids.lt(first + plain.copies));
    sums = sums + widened(plain.x) * weight(chosen);
  }
  first += plain.copies;
  for (int64_t i = 0; i < plain.constants; ++i) {
    const at::Tensor made = widened(plain.alpha1[i]) * widened(plain.x) + widened(plain.alpha2[i]) * widened(plain.v[i]);
    sums = sums + made * weight(in.ids.eq(first + i));
  }
  return sums;
}

// The stages before the last; false in that.
bool send_results(const Combine& in) {
  const Stage& now = stage();
  if (now.number == 0) put(now.sent({in.experts.count}, at::kInt), in.ends.slice(0, 0, in.experts.count));
  if (now.number == 1) put(now.sent(in.rows.sizes(), in.rows.scalar_type()), in.rows);
  return now.number < 2;
}

struct Norm {
  const at::Tensor &residual, &gamma;
  double epsilon;
};

void add_rms_norm(const at::Tensor& x, const Norm& norm, const at::Tensor& y, const at::Tensor& rstd, const at::Tensor& sum) {
  // The sum is rounded as it is stored, as where the two operators follow each other.
  const at::Tensor total = widened((x.view(norm.residual.sizes()) + widened(norm.residual)).to(norm.residual.scalar_type()));
  const at::Tensor scale = at::rsqrt(total.pow(2).mean(at::IntArrayRef{-1}, true) + norm.epsilon);
  put(sum, total);
  put(rstd, scale);
  put(y, total * scale * widened(norm.gamma));
}

}  // namespace

#define EXPERTS \
  Experts { groupEp, epWorldSize, epRankId, moeExpertNum, globalBs, sharedExpertRankNum, tpWorldSize }

#define DISPATCH_V1 \
  Dispatch { x, expertIds, scales, xActiveMask, expertScales, EXPERTS, quantMode, expertTokenNumsType }
OP_COLLECTIVE(aclnnMoeDistributeDispatch, dispatch_plan(DISPATCH_V1)) {
  dispatch(DISPATCH_V1, {expandX, dynamicScales, expandIdx, expertTokenNums, epRecvCounts, tpRecvCounts, expandScales, false});
}
#define DISPATCH_V2 \
  Dispatch { x, expertIds, scalesOptional, xActiveMaskOptional, expertScalesOptional, EXPERTS, quantMode, expertTokenNumsType }
#define MOE_DISPATCH(NAME, ...)                                                                                        \
  OP_COLLECTIVE(NAME, (__VA_ARGS__, dispatch_plan(DISPATCH_V2))) {                                                     \
    dispatch(DISPATCH_V2, {expandXOut, dynamicScalesOut, assistInfoForCombineOut, expertTokenNumsOut, epRecvCountsOut, \
                           tpRecvCountsOut, expandScalesOut, true});                                                   \
  }
MOE_DISPATCH(aclnnMoeDistributeDispatchV2, void())
MOE_DISPATCH(aclnnMoeDistributeDispatchV3, require_absent(elasticInfoOptional, "elasticInfo"))
MOE_DISPATCH(aclnnMoeDistributeDispatchV4, require_absent(elasticInfoOptional, "elasticInfo"),
             require_absent(performanceInfoOptional, "performanceInfo"))

#define COMBINE_V1 \
  Combine{expandX, expertIds, epSendCounts, expertScales, xActiveMask, absent_tensor(), EXPERTS, commQuantMode == 2}
OP_COLLECTIVE(aclnnMoeDistributeCombine, combine_plan(COMBINE_V1)) {
  if (!send_results(COMBINE_V1)) put(x, sums_of_tokens(COMBINE_V1));
}
#define COMBINE_V2 \
  Combine{expandX, expertIds, epSendCounts, expertScales, xActiveMaskOptional, sharedExpertXOptional, EXPERTS, commQuantMode == 2}
#define PLAIN_EXPERTS                                                                                                       \
  PlainExperts {                                                                                                            \
    oriXOptional, constExpertAlpha1Optional, constExpertAlpha2Optional, constExpertVOptional, zeroExpertNum, copyExpertNum, \
        constExpertNum                                                                                                      \
  }
OP_COLLECTIVE(aclnnMoeDistributeCombineV2, combine_plan(COMBINE_V2)) {
  if (!send_results(COMBINE_V2)) put(xOut, sums_of_tokens(COMBINE_V2));
}
#define MOE_COMBINE(NAME, ...)                                                                                           \
  OP_COLLECTIVE(NAME, (__VA_ARGS__, combine_plan(COMBINE_V2))) {                                                         \
    if (!send_results(COMBINE_V2)) put(xOut, with_plain_experts(sums_of_tokens(COMBINE_V2), COMBINE_V2, PLAIN_EXPERTS)); \
  }
MOE_COMBINE(aclnnMoeDistributeCombineV3, require_absent(elasticInfoOptional, "elasticInfo"))
MOE_COMBINE(aclnnMoeDistributeCombineV4, require_absent(elasticInfoOptional, "elasticInfo"),
            require_absent(performanceInfoOptional, "performanceInfo"))
OP_COLLECTIVE(aclnnMoeDistributeCombineAddRmsNorm, combine_plan(COMBINE_V2)) {
  if (send_results(COMBINE_V2)) return;
  add_rms_norm(sums_of_tokens(COMBINE_V2), {residualX, gamma, normEps}, yOut, rstdOut, xOut);
}
OP_COLLECTIVE(aclnnMoeDistributeCombineAddRmsNormV2,
              (require_absent(elasticInfoOptional, "elasticInfo"), combine_plan(COMBINE_V2))) {
  if (send_results(COMBINE_V2)) return;
  add_rms_norm(with_plain_experts(sums_of_tokens(COMBINE_V2), COMBINE_V2, PLAIN_EXPERTS), {residualX, gamma, normEps}, yOut,
               rstdOut, xOut);
}

namespace {

// All ranks send a byte, so that none is through before all are there.
Plan barrier_plan(const char* group, int64_t ranks) {
  Plan plan = plan_of(group);
  if (ranks != plan.ranks) invalid("worldSize %ld, but '%s' has %u ranks", static_cast<long>(ranks), group, plan.ranks);
  plan.exchanges.push_back(gather_bytes(1));
  return plan;
}

}  // namespace

OP_COLLECTIVE(aclnnDistributeBarrier, barrier_plan(group, worldSize)) {
  if (stage().number == 0) stage().sent({1}, at::kByte).zero_();
}
OP_COLLECTIVE(aclnnDistributeBarrierV2,
              (require_absent(timeOut, "timeOut"), require_absent(elasticInfo, "elasticInfo"), barrier_plan(group, worldSize))) {
  if (stage().number == 0) stage().sent({1}, at::kByte).zero_();
}
