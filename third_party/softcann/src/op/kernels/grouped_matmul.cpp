// Products of groups of rows with a weight each, and what is fused with them.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/parts.h"
#include "op/kernels/quant_product.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"

#include "boost/boost_params.h"

using namespace softcann::op;

namespace {

at::Tensor activated(const at::Tensor& x, int64_t type) {
  switch (type) {
    case 0:
      return x;
    case 1:
      return at::relu(x);
    case 2:
      return at::gelu(x, "tanh");
    case 4:
      return x * at::sigmoid(1.702 * x);
    case 5:
      return at::silu(x);
    default:
      TORCH_CHECK(false, "grouped matmul: activation ", type, " is not supported");
  }
}

const at::Tensor& at_or_only(at::TensorList list, size_t i) { return list.size() == 1 ? list[0] : list.at(i); }

// Note [Eight bits by four]
// Rows of int8 by weights of 4 bits, with a scale for each column or for each part of it, [parts, n]. The matrix unit takes the
// rows as two halves of 4 bits, and moves the lower one by 8 to give it a sign; `correction`, made with the weights as 8 times
// the sum of their columns, moves the product back. Without it the product is the plain one.
at::Tensor eight_by_four(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale, const at::Tensor& correction) {
  const at::Tensor rows = given(correction) ? unpacked(x) - 8 : unpacked(x), w = unpacked(weight);
  if (!given(scale)) return given(correction) ? at::matmul(rows, w) + widened(correction) : at::matmul(rows, w);
  const at::Tensor scales = scale_of(scale).reshape({-1, w.size(1)});
  TORCH_CHECK(scales.size(0) != 0 && w.size(0) % scales.size(0) == 0, "grouped matmul: weights of ", w.size(0), " rows in ",
              scales.size(0), " parts");
  const int64_t part = w.size(0) / scales.size(0);
  at::Tensor sum = at::zeros({rows.size(0), w.size(1)}, at::kFloat);
  for (int64_t i = 0; i < scales.size(0); ++i) {
    sum.add_(at::matmul(rows.narrow(1, i * part, part), w.narrow(0, i * part, part)) * scales[i]);
  }
  return given(correction) ? sum + widened(correction).reshape({1, -1}) : sum;
}

// One group: a product, and what belongs to it.
struct Group {
  at::TensorList weight, bias, scale, offset, antiquant_scale, antiquant_offset;

  // In a list of one tensor the groups lie along its first dimension.
  static at::Tensor part(at::TensorList list, size_t i, int64_t dims) {
    if (list.empty()) return {};
    const at::Tensor& tensor = at_or_only(list, i);
    return list.size() == 1 && tensor.dim() > dims ? tensor.select(0, static_cast<int64_t>(i)) : tensor;
  }
  int64_t count() const {
    return weight.size() == 1 && weight[0].dim() > 2 ? weight[0].size(0) : static_cast<int64_t>(weight.size());
  }
  // Powers of two for blocks along the dimension that is summed over, [k / 64, n, 2]; undefined for other scales.
  at::Tensor mx_scale(size_t i) const {
    if (scale.empty() || at_or_only(scale, i).scalar_type() != at::kFloat8_e8m0fnu) return {};
    return part(scale, i, 3);
  }
  at::Tensor product(const at::Tensor& x, size_t i, const at::Tensor& per_token) const {
    at::Tensor w = part(weight, i, 2);
    if (!antiquant_scale.empty()) {
      w = unpacked(w);
      if (!antiquant_offset.empty()) w = w + widened(part(antiquant_offset, i, 1));
      w = (w * widened(part(antiquant_scale, i, 1))).to(x.scalar_type());  // as the cube unit takes it
    }
    if (const at::Tensor mx = mx_scale(i); mx.defined()) {
      return quantized_value({x, w, mx, {}, per_token, part(bias, i, 1)}, true);
    }
    const at::Tensor b = part(bias, i, 1), s = part(scale, i, 1);
    if (x.scalar_type() == at::kChar && w.scalar_type() == at::kInt) {
      const at::Tensor y = eight_by_four(x, w, s, b);
      return per_token.defined() ? y * widened(per_token).unsqueeze(-1) : y;
    }
    at::Tensor y = w.scalar_type() == at::kInt ? at::matmul(unpacked(x), unpacked(w)) : quantized_matmul(x, w);
    if (b.defined() && !at::isFloatingType(b.scalar_type())) y = y + widened(b);
    if (s.defined()) y = y * scale_of(s);
    if (per_token.defined()) y = y * widened(per_token).unsqueeze(-1);
    return b.defined() && at::isFloatingType(b.scalar_type()) ? y + widened(b) : y;
  }
};

struct GroupedMatmul {
  Group group;
  at::TensorList x, per_token;
  const at::Tensor& list;
  int64_t group_type, list_type, activation;

  // group_type: -1 a product for each x; 0 the rows of one x in groups; 2 its columns.
  void run(at::TensorList out) const {
    if (x.size() > 1 && out.size() == 1) return one_below_another(out.at(0));
    if (!list.defined() || group_type == -1) {
      for (size_t i = 0; i < x.size(); ++i)
        store(at_or_only(out, i), activated(group.product(x.at(i), i, token_scale(i)), activation), i);
      return;
    }
    TORCH_CHECK(x.size() == 1, "grouped matmul: group_list with ", x.size(), " inputs is not supported");
    const auto ends = group_ends_of_type(list, list_type, x.at(0).size(group_type == 0 ? 0 : 1));
    const int64_t weights = group.count();
    TORCH_CHECK(group_type != 0 || weights == static_cast<int64_t>(ends.size()), "grouped matmul: ", ends.size(), " groups and ",
                weights, " weights");
    int64_t start = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (group_type == 0) {
        rows(out, i, start, ends[i]);
      } else {
        const at::Tensor& w = group.weight.at(0);
        put(out.at(0).select(0, static_cast<int64_t>(i)),
            at::matmul(widened(x.at(0).slice(1, start, ends[i])), widened(w.slice(0, start, ends[i]))));
      }
      start = ends[i];
    }
    if (group_type == 0 && out.size() == 1 && start < out.at(0).size(0)) out.at(0).slice(0, start).zero_();
  }
  // Of several x, the rows of each are a group.
  void one_below_another(const at::Tensor& out) const {
    TORCH_CHECK(group_type != 2, "grouped matmul: ", x.size(), " inputs have no columns in groups");
    const auto ends = list.defined() ? group_ends_of_type(list, list_type, out.size(0)) : std::vector<int64_t>();
    TORCH_CHECK(!list.defined() || ends.size() == x.size(), "grouped matmul: ", ends.size(), " groups of ", x.size(), " inputs");
    int64_t start = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t end = start + x.at(i).size(0);
      TORCH_CHECK(!list.defined() || ends[i] == end, "grouped matmul: group ", i, " ends at ", ends[i], ", its input at ", end);
      store(out.slice(0, start, end), activated(group.product(x.at(i), i, token_scale(i)), activation), i);
      start = end;
    }
  }
  void rows(at::TensorList out, size_t i, int64_t start, int64_t end) const {
    const at::Tensor scale = per_token.empty() ? at::Tensor() : per_token.at(0).slice(0, start, end);
    const at::Tensor y = activated(group.product(x.at(0).slice(0, start, end), i, scale), activation);
    store(out.size() == 1 ? out.at(0).slice(0, start, end) : out.at(i), y, i);
  }
  // Results in int8 are shifted by the offset, if there is one.
  void store(const at::Tensor& out, const at::Tensor& y, size_t i) const {
    if (out.scalar_type() != at::kChar) return put(out, y);
    const at::Tensor offset = Group::part(group.offset, i, 1);
    put_quantized(out, offset.defined() ? y + widened(offset) : y);
  }
  at::Tensor token_scale(size_t i) const { return per_token.empty() ? at::Tensor() : per_token.at(i); }
};

std::vector<at::Tensor> in_base_formats(at::TensorList list) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : list) result.push_back(in_base_format(tensor));
  return result;
}

}  // namespace

#define GROUPED_MATMUL(NAME)                                                                                            \
  OP(NAME) {                                                                                                            \
    const std::vector<at::Tensor> base = in_base_formats(weight);                                                       \
    GroupedMatmul{{base, biasOptional, scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional}, \
                  x,                                                                                                    \
                  perTokenScaleOptional,                                                                                \
                  groupListOptional,                                                                                    \
                  groupType,                                                                                            \
                  groupListType,                                                                                        \
                  actType}                                                                                              \
        .run(out);                                                                                                      \
  }
GROUPED_MATMUL(aclnnGroupedMatmulV4)
GROUPED_MATMUL(aclnnGroupedMatmulV5)
GROUPED_MATMUL(aclnnGroupedMatmulWeightNz)
namespace {
at::Tensor tensor_of(at::IntArrayRef ends) { return ends.empty() ? at::Tensor() : at::tensor(ends, at::kLong); }
}  // namespace
#define GROUPED_MATMUL_EARLY(NAME, ENDS, TYPE)                                                                             \
  OP(NAME) {                                                                                                               \
    const at::Tensor ends = ENDS;                                                                                          \
    const std::vector<at::Tensor> base = in_base_formats(weight);                                                          \
    const Group group{base, biasOptional, scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional}; \
    GroupedMatmul{group, x, {}, ends, TYPE, 0, 0}.run(y);                                                                  \
  }
// The groups' ends are numbers of the host in the first two, and the first takes no type.
GROUPED_MATMUL_EARLY(aclnnGroupedMatmul, tensor_of(groupListOptional), ends.defined() && x.size() == 1 ? 0 : -1)
GROUPED_MATMUL_EARLY(aclnnGroupedMatmulV2, tensor_of(groupListOptional), groupType)
GROUPED_MATMUL_EARLY(aclnnGroupedMatmulV3, groupListOptional, groupType)
namespace {

// To the sums of each group goes the product of its rows of x, transposed, with its rows of the weight.
void add_products(const at::Tensor& x, const at::Tensor& weight, const std::vector<int64_t>& ends, const at::Tensor& sums) {
  const at::Tensor parts = sums.view({static_cast<int64_t>(ends.size()), x.size(1), weight.size(1)});
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const at::Tensor y = parts.select(0, static_cast<int64_t>(i));
    put(y, widened(y) + at::matmul(widened(x.slice(0, start, ends[i])).t(), widened(weight.slice(0, start, ends[i]))));
    start = ends[i];
  }
}
void require_gradient_layout(bool transpose_x, bool transpose_weight, int64_t type) {
  TORCH_CHECK(type == 2, "grouped matmul with addition: groupType ", type, " is not supported");
  TORCH_CHECK(transpose_x && !transpose_weight, "grouped matmul with addition: only x transposed is supported");
}

}  // namespace

OP(aclnnGroupedMatmulAdd) {
  require_gradient_layout(transposeX, transposeWeight, groupType);
  add_products(x, weight, group_ends(groupList, true, x.size(0)), yRef);
}
OP(aclnnGroupedMatmulAddV2) {
  require_gradient_layout(transposeX, transposeWeight, groupType);
  add_products(x, weight, group_ends_of_type(groupList, groupListType, x.size(0)), yRef);
}
// Of Ascend's transformer library.
OP(atbGroupedMatmulInplaceAdd) { add_products(x, weight, group_ends(groupList, true, x.size(0)), sums); }

namespace {

// Quantized products of groups of rows times the scales of columns and rows, or of blocks of both, in float32; zero behind the
// last group. `weights`, `scales` and `corrections`, see Note [Eight bits by four], are one tensor for all groups, or one each.
struct QuantGroups {
  at::TensorList weights, scales;
  std::vector<int64_t> ends;
  at::TensorList corrections = {};

  at::Tensor run(const at::Tensor& x, const at::Tensor& x_scale) const {
    TORCH_CHECK(!ends.empty(), "grouped matmul: no groups");
    const bool packed = weights.at(0).scalar_type() == at::kInt;
    const at::Tensor first = Group::part(weights, 0, 2);
    const bool mx = !scales.empty() && scales[0].scalar_type() == at::kFloat8_e8m0fnu;
    at::Tensor out = at::zeros({x.size(0), packed || halved(first) ? unpacked(first).size(-1) : first.size(-1)}, at::kFloat);
    int64_t start = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] == start) continue;
      const at::Tensor w = Group::part(weights, i, 2), rows = x.slice(0, start, ends[i]);
      if (mx) {
        const at::Tensor blocks = Group::part(scales, i, 3);
        out.slice(0, start, ends[i]).copy_(quantized_value({rows, w, blocks, {}, x_scale.slice(0, start, ends[i]), {}}, true));
        start = ends[i];
        continue;
      }
      const at::Tensor scale = Group::part(scales, i, 1), correction = Group::part(corrections, i, 1);
      at::Tensor y = packed ? eight_by_four(rows, w, scale, correction) : quantized_matmul(rows, w);
      if (!packed && given(scale)) y = y * scale_of(scale).reshape({1, -1});
      if (given(x_scale)) y = y * widened(x_scale).reshape({-1, 1}).slice(0, start, ends[i]);
      out.slice(0, start, ends[i]).copy_(y);
      start = ends[i];
    }
    return out;
  }
};

// `mode` 0: a scale for each row; 2: one for each MX block.
void swiglu_rows(const at::Tensor& y, const at::Tensor& smooth, const std::vector<int64_t>& ends, const at::Tensor& out,
                 const at::Tensor& scales, int64_t mode = 0) {
  const int64_t half = y.size(-1) / 2;
  at::Tensor value = at::silu(y.narrow(-1, 0, half)) * y.narrow(-1, half, half);
  if (given(smooth)) {
    const auto groups = static_cast<int64_t>(ends.size());
    const at::Tensor group = groups_of_rows(y.size(0), at::tensor(ends, at::kLong)).clamp_max(groups - 1);
    const at::Tensor factor = widened(smooth).index_select(0, group);
    value = value * (factor.dim() == 1 ? factor.unsqueeze(-1) : factor);
  }
  if (mode == 2) return quantize_mx(value, out, scales);
  quantize_rows(value, out, scales);
  if (ends.back() < out.size(0)) out.slice(0, ends.back()).zero_(), scales.slice(0, ends.back()).zero_();
}

}  // namespace

namespace {

bool packed_weights(at::TensorList weights) { return !weights.empty() && weights[0].scalar_type() == at::kInt; }
// 0: scales of rows and columns, 1: of int4 weights also of parts of them, 2: of MX blocks, before the product and behind it.
void require_scales_of_mode(const char* name, int64_t before, int64_t behind, at::TensorList weights, at::TensorList scales) {
  TORCH_CHECK(before == 0 || (before == 1 && packed_weights(weights)) || before == 2, name, ": dequantMode ", before,
              " is not supported, only 0, 2, and 1 of weights of 4 bits");
  TORCH_CHECK(behind == (before == 2 ? 2 : 0), name, ": quantMode ", behind, " with dequantMode ", before, " is not supported");
  const bool mx = !scales.empty() && scales[0].scalar_type() == at::kFloat8_e8m0fnu;
  TORCH_CHECK(mx == (before == 2), name, ": dequantMode 2 is for scales of float8_e8m0, and they are for it");
}
void require_correctable(const char* name, at::TensorList weights, at::TensorList corrections) {
  TORCH_CHECK(corrections.empty() || packed_weights(weights), name, ": a correction is for weights of 4 bits, not for ",
              weights.at(0).scalar_type());
}

}  // namespace

#define GROUPED_SWIGLU_QUANT(NAME)                                                                                            \
  OP(NAME) {                                                                                                                  \
    TORCH_CHECK(!given(bias), #NAME ": bias is not supported");                                                               \
    require_scales_of_mode(#NAME, dequantMode, quantMode, weight, weightScale);                                               \
    require_correctable(#NAME, weight, weightAssistMatrix);                                                                   \
    const std::vector<at::Tensor> base = in_base_formats(weight);                                                             \
    const QuantGroups groups{base, weightScale, group_ends_of_type(groupList, groupListType, x.size(0)), weightAssistMatrix}; \
    swiglu_rows(groups.run(x, xScale), smoothScale, groups.ends, output, outputScale, quantMode);                             \
  }
GROUPED_SWIGLU_QUANT(aclnnGroupedMatmulSwigluQuantV2)
GROUPED_SWIGLU_QUANT(aclnnGroupedMatmulSwigluQuantWeightNzV2)
namespace {

// Weights that clients describe with the sizes of their blocks, [groups, n / 32, k / 16, 16, 32], as [groups, k, n].
at::Tensor unblocked(const at::Tensor& weight) {
  return weight.dim() == 5 ? weight.permute({0, 2, 3, 1, 4}).flatten(3, 4).flatten(1, 2) : weight;
}

}  // namespace

// `weight` may be in FRACTAL_NZ.
#define GROUPED_SWIGLU_QUANT_ONE(NAME)                                                                \
  OP(NAME) {                                                                                          \
    TORCH_CHECK(!given(offset), #NAME ": offset is not supported");                                   \
    const std::vector<at::Tensor> corrections(given(bias) ? 1 : 0, bias);                             \
    require_correctable(#NAME, weight, corrections);                                                  \
    const at::Tensor base = unblocked(in_base_format(weight));                                        \
    const QuantGroups groups{base, weightScale, group_ends(groupList, true, x.size(0)), corrections}; \
    swiglu_rows(groups.run(x, xScale), {}, groups.ends, output, outputScale);                         \
    if (given(outputOffset)) outputOffset.zero_();                                                    \
  }
GROUPED_SWIGLU_QUANT_ONE(aclnnGroupedMatmulSwigluQuant)
GROUPED_SWIGLU_QUANT_ONE(aclnnGroupedMatmulSwigluQuantWeightNZ)

namespace {

// Products of groups, each row times its logit and added to the row of its token.
struct FinalizedGroups {
  const at::Tensor &shared, &logit, &index;
  double shared_weight;
  int64_t shared_start;

  void run(const at::Tensor& rows, int64_t end, const at::Tensor& out) const {
    at::Tensor result = at::zeros(out.sizes(), at::kFloat);
    if (given(shared)) result.narrow(0, shared_start, shared.size(0)).add_(widened(shared), shared_weight);
    const at::Tensor scaled = given(logit) ? rows * widened(logit).reshape({-1, 1}) : rows;
    const at::Tensor to = given(index) ? index.to(at::kLong) : at::arange(rows.size(0), at::kLong);
    put(out, result.index_add_(0, to.slice(0, 0, end), scaled.slice(0, 0, end)));
  }
};

}  // namespace

#define GROUPED_FINALIZE_OF(NAME, X, W, SCALE, BIAS, OFFSET, LIST, SHARED, LOGIT, INDEX, TURN_X, TURN_W, OUT)           \
  OP(NAME) {                                                                                                            \
    TORCH_CHECK(!given(BIAS) && !given(OFFSET), #NAME ": bias and offset are not supported");                           \
    TORCH_CHECK(!(TURN_X), #NAME ": transposeX1 is not supported");                                                     \
    const at::Tensor stored = in_base_format(W), base = (TURN_W) ? stored.mT() : stored;                                \
    const at::TensorList scales = given(SCALE) ? at::TensorList(SCALE) : at::TensorList();                              \
    const QuantGroups groups{base, scales, group_ends_of_type(LIST, groupListType, (X).size(0))};                       \
    const at::Tensor products = groups.run(X, pertokenScaleOptional);                                                   \
    FinalizedGroups{SHARED, LOGIT, INDEX, sharedInputWeight, sharedInputOffset}.run(products, groups.ends.back(), OUT); \
  }
#define GROUPED_FINALIZE(NAME, SCALE, BIAS, OFFSET, LIST, SHARED, LOGIT, INDEX) \
  GROUPED_FINALIZE_OF(NAME, x1, x2, SCALE, BIAS, OFFSET, LIST, SHARED, LOGIT, INDEX, transposeX1, transposeX2, out)
#define GROUPED_FINALIZE_OPTIONAL(NAME)                                                                                      \
  GROUPED_FINALIZE(NAME, scaleOptional, biasOptional, offsetOptional, groupListOptional, sharedInputOptional, logitOptional, \
                   rowIndexOptional)
GROUPED_FINALIZE_OF(aclnnGroupedMatmulFinalizeRouting, x, w, scaleOptional, biasOptional, at::Tensor(), groupListOptional,
                    sharedInputOptional, logitOptional, rowIndexOptional, transposeX, transposeW, y)
GROUPED_FINALIZE_OPTIONAL(aclnnGroupedMatmulFinalizeRoutingV2)
GROUPED_FINALIZE_OPTIONAL(aclnnGroupedMatmulFinalizeRoutingV3)
GROUPED_FINALIZE(aclnnGroupedMatmulFinalizeRoutingWeightNz, scale, bias, at::Tensor(), groupList, sharedInput, logit, rowIndex)
GROUPED_FINALIZE(aclnnGroupedMatmulFinalizeRoutingWeightNzV2, scale, bias, offsetOptional, groupList, sharedInput, logit,
                 rowIndex)

namespace {

// `x` of twice the columns where the activation is gated: its first half goes through, and multiplies the other.
at::Tensor between_layers(const at::Tensor& x, std::string_view name) {
  if (name == "relu") return activated(x, 1);
  if (name == "gelu") return activated(x, 2);
  if (name == "fastgelu") return activated(x, 4);
  if (name == "silu") return activated(x, 5);
  const auto halves = x.chunk(2, -1);
  if (name == "reglu") return activated(halves[0], 1) * halves[1];
  if (name == "geglu") return activated(halves[0], 2) * halves[1];
  if (name == "swiglu") return activated(halves[0], 5) * halves[1];
  TORCH_CHECK(false, "feed-forward layers: activation '", name, "' is not supported");
}

// One layer; its tensors have groups as first dimension where the weight has.
struct Layer {
  const at::Tensor &weight, &bias, &deq_scale, &antiquant_scale, &antiquant_offset;

  at::Tensor part(const at::Tensor& t, int64_t group) const { return weight.dim() > 2 && t.dim() > 1 ? t.select(0, group) : t; }
  // A number for each column, or for as many rows as there are numbers to a column.
  static at::Tensor spread(const at::Tensor& t, int64_t rows) {
    return t.dim() > 1 ? t.repeat_interleave(equal_parts(rows, t.size(0)), 0) : t;
  }
  at::Tensor real_weight(int64_t group) const {
    at::Tensor w = unpacked(part(weight, group));
    if (given(antiquant_offset)) w = w + spread(widened(part(antiquant_offset, group)), w.size(0));
    return (w * spread(widened(part(antiquant_scale, group)), w.size(0))).to(antiquant_scale.scalar_type());
  }
  at::Tensor value(const at::Tensor& x, int64_t group) const {
    at::Tensor y = quantized_matmul(x, given(antiquant_scale) ? real_weight(group) : part(weight, group));
    if (given(bias)) y = y + widened(part(bias, group));
    return given(deq_scale) ? y * scale_of(part(deq_scale, group)) : y;
  }
};

// Two layers, with weights for each group of rows where `ends` are given. Rows behind the last group become zero. With a scale
// what lies between them is int8 again.
struct Layers {
  Layer first, second;
  const at::Tensor &scale, &offset;
  std::string_view activation;

  at::Tensor both(const at::Tensor& in, int64_t group) const {
    at::Tensor between = between_layers(first.value(in, group), activation);
    if (given(scale)) {
      const auto part = [&](const at::Tensor& t) { return widened(first.weight.dim() > 2 ? t.select(0, group) : t); };
      const at::Tensor shifted = given(offset) ? between * part(scale) + part(offset) : between * part(scale);
      between = at::empty(shifted.sizes(), at::kChar);
      put_quantized(between, shifted);
    }
    return second.value(between, group);
  }
  void run(const at::Tensor& x, const std::vector<int64_t>& ends, const at::Tensor& y) const {
    const bool quantized = x.scalar_type() == at::kChar, real = given(first.antiquant_scale);
    TORCH_CHECK(quantized == given(scale) && quantized == given(first.deq_scale) && quantized == given(second.deq_scale),
                "feed-forward layers: x of ", x.scalar_type(), quantized ? " without" : " with",
                " scale, deqScale1 and deqScale2");
    TORCH_CHECK(!(quantized && real) && real == given(second.antiquant_scale),
                "feed-forward layers: antiquantScale1 and antiquantScale2 go together, with floating point x");
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    if (ends.empty()) return put(y, both(rows, 0).view(y.sizes()));
    at::Tensor out = at::zeros({rows.size(0), y.size(-1)}, at::kFloat);
    int64_t start = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      out.slice(0, start, ends[i]).copy_(both(rows.slice(0, start, ends[i]), static_cast<int64_t>(i)));
      start = ends[i];
    }
    put(y, out.view(y.sizes()));
  }
};

}  // namespace

namespace {
int64_t row_count(const at::Tensor& x) { return c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)); }
}  // namespace

OP(aclnnFFNV3) {
  const auto ends =
      given(expertTokensOptional) ? group_ends(expertTokensOptional, tokensIndexFlag, row_count(x)) : std::vector<int64_t>();
  Layers{{weight1, bias1Optional, deqScale1Optional, antiquantScale1Optional, antiquantOffset1Optional},
         {weight2, bias2Optional, deqScale2Optional, antiquantScale2Optional, antiquantOffset2Optional},
         scaleOptional,
         offsetOptional,
         activation}
      .run(x, ends, y);
}
#define FFN(NAME, ARE_ENDS)                                                                    \
  OP(NAME) {                                                                                   \
    const auto ends = group_ends(at::tensor(expertTokens, at::kLong), ARE_ENDS, row_count(x)); \
    Layers{{weight1, bias1, deqScale1, antiquantScale1, antiquantOffset1},                     \
           {weight2, bias2, deqScale2, antiquantScale2, antiquantOffset2},                     \
           scale,                                                                              \
           offset,                                                                             \
           activation}                                                                         \
        .run(x, ends, y);                                                                      \
  }
FFN(aclnnFFN, false)
FFN(aclnnFFNV2, tokensIndexFlag)

namespace {

// [groups, H] of rows [rows, H] in groups, or of [groups, rows, H].
void sum_groups(const at::Tensor& grad, const at::Tensor& list, int64_t type, const at::Tensor& out) {
  const at::Tensor wide = widened(grad);
  if (!given(list)) return put(out, wide.sum(1));
  at::Tensor sums = at::zeros(out.sizes(), wide.options());
  int64_t start = 0, i = 0;
  for (const int64_t end : group_ends_of_type(list, type, wide.size(0))) {
    sums[i++].copy_(wide.slice(0, start, end).sum(0));
    start = end;
  }
  put(out, sums);
}
double groups_cost(const at::Tensor& grad, const at::Tensor& list, int64_t type) {
  if (given(grad) && grad.dim() != (given(list) ? 2 : 3))
    invalid("gradY has %ld dimensions; 2 are expected with groupIdx and 3 without", long(grad.dim()));
  if (type != 0 && type != 1) invalid("groupIdxType is %ld; 0 and 1 are supported", long(type));
  return bytes(grad);
}

}  // namespace

OP_COST(aclnnGroupedBiasAddGrad, groups_cost(gradY, groupIdxOptional, 0)) { sum_groups(gradY, groupIdxOptional, 0, out); }
OP_COST(aclnnGroupedBiasAddGradV2, groups_cost(gradY, groupIdxOptional, groupIdxType)) {
  sum_groups(gradY, groupIdxOptional, groupIdxType, out);
}
