#include "aten/custom/shapes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/full.h>
#include <c10/util/accumulate.h>

#include "aten/factory.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnTransQuantParamV2);

at::DimVector row_sizes(const at::Tensor& x, const at::Tensor& gamma) {
  TORCH_CHECK(gamma.dim() <= x.dim(), "normalization: gamma has ", gamma.dim(), " dimensions, the input ", x.dim());
  at::DimVector sizes(x.sizes());
  std::fill(sizes.end() - gamma.dim(), sizes.end(), 1);
  return sizes;
}

at::DimVector halved(const at::Tensor& self, int64_t dim) {
  at::DimVector sizes(self.sizes());
  auto& size = sizes[at::maybe_wrap_dim(dim, self.dim())];
  TORCH_CHECK(size % 2 == 0, "dimension ", dim, " has size ", size, ", which has no halves");
  size /= 2;
  return sizes;
}

at::DimVector inserted(const at::Tensor& self, int64_t dim, int64_t size) {
  at::DimVector sizes(self.sizes());
  sizes.insert(sizes.begin() + at::maybe_wrap_dim(dim, self.dim() + 1), size);
  return sizes;
}

at::DimVector prompt_sizes(const at::Tensor& query, std::string_view layout) {
  at::DimVector sizes(query.sizes());
  if (layout == "BNSD_BSND") std::swap(sizes[1], sizes[2]);
  return sizes;
}

namespace {

// Batch, heads and rows of a query; of packed ones no batch.
struct QueryExtent {
  int64_t batch, heads, rows;
  bool packed;
};

QueryExtent extent_of(const at::Tensor& query, std::string_view layout, int64_t heads) {
  const auto dims = query.dim();
  if (layout == "BSH" && dims == 3) return {query.size(0), heads, query.size(1), false};
  if (layout == "BSND" && dims == 4) return {query.size(0), query.size(2), query.size(1), false};
  if (layout == "BNSD" && dims == 4) return {query.size(0), query.size(1), query.size(2), false};
  if (layout == "TND" && dims == 3) return {0, query.size(1), query.size(0), true};
  if (layout == "NTD" && dims == 3) return {0, query.size(0), query.size(1), true};
  TORCH_CHECK_NOT_IMPLEMENTED(false, "attention: a query of ", dims, " dimensions in the layout ", layout,
                              " is not supported; layouts are BSH, BSND, BNSD, TND, NTD");
}

}  // namespace

at::DimVector infer_sizes(const at::Tensor& query, const at::Tensor& value, std::string_view layout, int64_t heads,
                          int64_t kv_heads, bool paged) {
  const auto bar = std::min(layout.find('_'), layout.size());
  const auto in = layout.substr(0, bar), out = bar < layout.size() ? layout.substr(bar + 1) : in;
  const auto q = extent_of(query, in, heads);
  const bool whole = paged ? value.dim() == 3 : in == "BSH";  // the heads lie in the last dimension
  TORCH_CHECK_VALUE(!whole || (kv_heads ? kv_heads : heads) > 0, "attention: ", heads, " heads and ", kv_heads, " of keys");
  const int64_t size = value.dim() == 5 ? value.size(2) * value.size(4)
                       : whole          ? value.size(-1) / (kv_heads ? kv_heads : heads)
                                        : value.size(-1);
  if (out == "BSH") return {q.batch, q.rows, q.heads * size};
  if (out == "BSND") return {q.batch, q.rows, q.heads, size};
  if (out == "BNSD") return {q.batch, q.heads, q.rows, size};
  if (out == "NBSD") return {q.heads, q.batch, q.rows, size};
  if (out == "TND") return {q.rows, q.heads, size};
  TORCH_CHECK_NOT_IMPLEMENTED(out == "NTD", "attention: results in the layout ", out, " are not supported");
  return {q.heads, q.rows, size};
}

at::DimVector infer_lse_sizes(const at::Tensor& query, std::string_view layout, int64_t heads, bool wanted) {
  if (!wanted) return {1};
  const auto q = extent_of(query, layout.substr(0, layout.find('_')), heads);
  return q.packed ? at::DimVector{q.rows, q.heads, 1} : at::DimVector{q.batch, q.heads, q.rows, 1};
}

int64_t window_rows(const char* op, at::OptionalIntArrayRef ends, int64_t block, int64_t stride) {
  TORCH_CHECK_VALUE(ends.has_value(), op, ": actual_seq_len must be given, the running sums of the lengths");
  TORCH_CHECK_VALUE(block > 0 && stride > 0, op, ": compress_block_size ", block, " and compress_stride ", stride,
                    " must be positive");
  int64_t rows = 0, start = 0;
  for (const int64_t end : *ends) {
    if (end - start >= block) rows += (end - start - block) / stride + 1;
    start = end;
  }
  return rows;
}

at::DimVector paged_attention_sizes(const at::Tensor& query, const at::Tensor& value, std::string_view layout, int64_t heads,
                                    int64_t kv_heads) {
  TORCH_CHECK_VALUE(heads > 0 && kv_heads > 0, "attention: ", heads, " heads and ", kv_heads, " of keys");
  const int64_t width = value.dim() == 3 ? value.size(-1) / kv_heads : value.size(-1);
  at::DimVector sizes(query.sizes());
  sizes.back() = layout == "BSH" ? heads * width : width;
  return sizes;
}

at::DimVector chosen_sizes(const at::Tensor& query, std::string_view layout, int64_t kv_heads, int64_t count) {
  at::DimVector sizes(query.sizes().slice(0, query.dim() - (layout == "BSH" ? 1 : 2)));
  sizes.append({kv_heads, count});
  return sizes;
}

int64_t sinkhorn_steps(const at::Tensor& x, int64_t iterations) {
  TORCH_CHECK_VALUE(x.dim() >= 2, "npu_mhc_sinkhorn: x of ", x.dim(), " dimensions");
  const int64_t n = x.size(-1);
  return n == 0 ? 0 : 2 * iterations * ((n + 7) / 8 * 8) * (x.numel() / (n * n));
}

at::DimVector index_statistic_sizes(const at::Tensor& query) {
  TORCH_CHECK_VALUE(query.dim() == 3 || query.dim() == 4, "indexer: a query of ", query.dim(),
                    " dimensions; 3 or 4 are expected");
  return query.dim() == 3 ? at::DimVector{1, query.size(0)} : at::DimVector{query.size(0), 1, query.size(1)};
}

at::DimVector mx_scale_sizes(at::IntArrayRef sizes, int64_t dim, int64_t block) {
  TORCH_CHECK_VALUE(block > 0, "MX quantization in blocks of ", block);
  at::DimVector scales(sizes);
  int64_t& along = scales[at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()))];
  along = (along + 2 * block - 1) / (2 * block);
  scales.push_back(2);
  return scales;
}

namespace {

constexpr int64_t kByCann = 256;  // numbers of CANN's begin there

// CANN's float4, or 0.
int64_t float4_code(int64_t type) {
  const int64_t code = type > kByCann ? type - kByCann : type;
  return code == ACL_FLOAT4_E2M1 || code == ACL_FLOAT4_E1M2 ? code : 0;
}

}  // namespace

OutSpec mx_like(const char* op, const at::Tensor& input, at::IntArrayRef sizes, int64_t type) {
  if (float4_code(type) == 0) return shaped(input, sizes, float8_type(op, type));
  TORCH_CHECK_VALUE(!sizes.empty() && sizes.back() % 2 == 0, op,
                    ": two numbers of float4 share a byte, and the last dimension is ", sizes.empty() ? 1 : sizes.back());
  at::DimVector bytes(sizes);
  bytes.back() /= 2;
  return shaped(input, bytes, at::kByte);
}

int64_t mx_code(int64_t type) { return float4_code(type) != 0 ? float4_code(type) : float8_code(type); }

at::DimVector mx_numbers(const char* op, const at::Tensor& elements, int64_t type) {
  at::DimVector sizes(elements.sizes());
  if (float4_code(type) == 0) {
    float8_type(op, type);
  } else if (!sizes.empty()) {
    sizes.back() *= 2;
  }
  return sizes;
}

op::AsType mx_elements(const at::Tensor& elements, int64_t type) { return {elements, static_cast<aclDataType>(mx_code(type))}; }

at::ScalarType float8_type(const char* op, int64_t type) {
  if (type == static_cast<int64_t>(at::kFloat8_e5m2) || type == kByCann + ACL_FLOAT8_E5M2) return at::kFloat8_e5m2;
  TORCH_CHECK_NOT_IMPLEMENTED(type == static_cast<int64_t>(at::kFloat8_e4m3fn) || type == kByCann + ACL_FLOAT8_E4M3FN, op,
                              ": dtype number ", type,
                              " is not supported; float8_e5m2 (23, 291) and float8_e4m3fn (24, 292) are");
  return at::kFloat8_e4m3fn;
}

int64_t float8_code(int64_t type) {
  return float8_type("float8", type) == at::kFloat8_e5m2 ? ACL_FLOAT8_E5M2 : ACL_FLOAT8_E4M3FN;
}

at::ScalarType block_type(const char* op, int64_t type) {
  return type == static_cast<int64_t>(at::kChar) ? at::kChar : float8_type(op, type);
}
int64_t block_code(int64_t type) { return type == static_cast<int64_t>(at::kChar) ? int64_t{ACL_INT8} : float8_code(type); }

at::DimVector block_scale_sizes(const at::Tensor& x, int64_t rows, int64_t columns, int64_t groups) {
  TORCH_CHECK_VALUE(x.dim() >= 2 && rows > 0 && columns > 0, "blocks of ", rows, " by ", columns, " of a tensor of ", x.dim(),
                    " dimensions");
  at::DimVector sizes(x.sizes());
  auto& height = sizes[sizes.size() - 2];
  height = groups == 0 ? (height + rows - 1) / rows : height / rows + groups;
  sizes.back() = (sizes.back() + columns - 1) / columns;
  return sizes;
}

std::array<bool, 2> wanted_rows(const std::optional<std::array<bool, 2>>& mask, const std::optional<at::Tensor>& smooth1,
                                const std::optional<at::Tensor>& smooth2) {
  return mask ? *mask : std::array<bool, 2>{true, given(smooth1) && given(smooth2)};
}

at::Tensor given_out(at::TensorList out, size_t count, size_t index, const OutSpec& spec) {
  TORCH_CHECK_VALUE(out.size() == count, "out has ", out.size(), " tensors, not ", count);
  const at::Tensor& given = out[index];
  const auto dtype = c10::typeMetaToScalarType(spec.options.dtype());
  TORCH_CHECK_VALUE(given.numel() == c10::multiply_integers(spec.sizes) && given.is_contiguous(), "out[", index,
                    "] is contiguous and has the sizes ", at::IntArrayRef(spec.sizes), ", but got ", given.sizes(),
                    " with strides ", given.strides());
  TORCH_CHECK_VALUE(given.scalar_type() == dtype || given.numel() == 1, "out[", index, "] has dtype ", dtype, ", but got ",
                    given.scalar_type());
  return given.view(spec.sizes);
}

at::DimVector broadcast_sizes(const at::Tensor& a, const std::optional<at::Tensor>& b) {
  return b && b->defined() ? at::infer_size_dimvector(a.sizes(), b->sizes()) : at::DimVector(a.sizes());
}

at::DimVector loss_sizes(const at::Tensor& target, std::string_view reduction) {
  return reduction == "none" ? at::DimVector(target.sizes()) : at::DimVector{1};
}

int64_t permuted_rows(const at::Tensor& indices, std::optional<int64_t> wanted) {
  const int64_t all = indices.numel(), count = wanted.value_or(0);
  return count > 0 ? std::min(count, all) : std::max<int64_t>(all + count, 0);
}

int64_t routed_rows(const at::Tensor& expert_idx, int64_t wanted) {
  return wanted > 0 ? std::min(wanted, expert_idx.numel()) : expert_idx.numel();
}

at::DimVector rows_of_experts(const at::Tensor& x, int64_t experts, int64_t capacity) {
  TORCH_CHECK_VALUE(experts > 0 && capacity > 0,
                    "npu_moe_init_routing_v2: drop_pad_mode 1 is for all experts, row_idx_type 0 and an ",
                    "expert_capacity, but got ", capacity, " rows for each of ", experts, " experts");
  return {experts, capacity, x.size(1)};
}

int64_t dispatched_rows(const at::Tensor& expert_ids, int64_t ranks, int64_t shared_ranks, int64_t experts,
                        int64_t global_tokens) {
  TORCH_CHECK_NOT_IMPLEMENTED(shared_ranks == 0, "npu_moe_distribute_dispatch: shared_expert_rank_num=", shared_ranks,
                              " is not supported: this chip has no ranks for shared experts");
  TORCH_CHECK_VALUE(ranks > 0 && experts > 0 && experts % ranks == 0, "npu_moe_distribute_dispatch: moe_expert_num=", experts,
                    " does not divide evenly among ep_world_size=", ranks, " ranks");
  const int64_t tokens = global_tokens != 0 ? global_tokens : expert_ids.size(0) * ranks;
  return tokens * std::min(experts / ranks, expert_ids.size(1));
}

at::DimVector routed_counts(at::IntArrayRef range, int64_t experts, int64_t type) {
  TORCH_CHECK_VALUE(range.empty() || range.size() == 2, "active_expert_range has ", range.size(), " numbers, not 2");
  TORCH_CHECK_VALUE(experts > 0, "npu_moe_init_routing_v2: expert_num is ", experts);
  constexpr int64_t kPairs = 2;
  if (type == kPairs) return {experts, 2};
  return {range.empty() ? experts : range[1] - range[0]};
}

namespace {

// An int32 holds eight int4 of the dimension that is dense in memory.
at::DimVector unpacked_sizes(const at::Tensor& matrix) {
  at::DimVector sizes(matrix.sizes());
  if (matrix.scalar_type() != at::kInt) return sizes;
  const bool transposed = matrix.stride(-1) != 1 && matrix.stride(-2) == 1;
  sizes[sizes.size() - (transposed ? 2 : 1)] *= 8;
  return sizes;
}

}  // namespace

at::ScalarType dequantized_type(const at::Tensor& x, const std::optional<at::Tensor>& scale,
                                const std::optional<at::Tensor>& row_scale) {
  if (!given(scale)) return x.scalar_type();
  const bool holds_bits = scale->scalar_type() == at::kLong || scale->scalar_type() == at::kUInt64;
  return holds_bits && !given(row_scale) ? at::kHalf : at::kBFloat16;
}

at::DimVector product_sizes(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "a matrix product of ", a.sizes(), " and ", b.sizes());
  const auto left = unpacked_sizes(a), right = unpacked_sizes(b);
  TORCH_CHECK(left.back() == right[right.size() - 2], "a matrix product of ", a.sizes(), " and ", b.sizes());
  at::DimVector sizes(at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2)));
  sizes.push_back(left[left.size() - 2]);
  sizes.push_back(right.back());
  return sizes;
}

at::ScalarType type_or(std::optional<int64_t> type, at::ScalarType otherwise) {
  if (!type) return otherwise;
  TORCH_CHECK_VALUE(*type >= 0 && *type < static_cast<int64_t>(at::ScalarType::Undefined), "no dtype has the number ", *type);
  return static_cast<at::ScalarType>(*type);
}

at::ScalarType same_or_float(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() ? a.scalar_type() : at::kFloat;
}

at::ScalarType attention_type(const at::Tensor& query, const std::optional<at::Tensor>& quant_scale) {
  if (given(quant_scale)) return at::kChar;
  return query.scalar_type() == at::kChar ? at::kHalf : query.scalar_type();
}

at::ScalarType only_int8(const char* op, std::optional<int64_t> type, bool usual) {
  TORCH_CHECK_NOT_IMPLEMENTED(type_or(type, at::kChar) == at::kChar, op, ": results of dtype ", type_or(type, at::kChar),
                              " are not supported, only int8");
  TORCH_CHECK_NOT_IMPLEMENTED(usual, op, ": only quant_mode 'pertoken' is supported");
  return at::kChar;
}

constexpr int64_t kInt4PerInt32 = 8;

namespace {

OutSpec int4_elements(const char* op, const at::Tensor& input) {
  TORCH_CHECK_VALUE(input.dim() > 0 && input.size(-1) % kInt4PerInt32 == 0, op,
                    ": eight int4 are one int32, and the last dimension of ", input.sizes(), " does not fit");
  at::DimVector sizes(input.sizes());
  sizes.back() /= kInt4PerInt32;
  return shaped(input, sizes, at::kInt);
}

}  // namespace

OutSpec quantized_rows(const char* op, const at::Tensor& input, std::optional<int64_t> type) {
  TORCH_CHECK_VALUE(input.dim() > 1, op, ": the input has ", input.dim(), " dimensions, but needs two or more");
  const at::ScalarType dtype = type_or(type, at::kChar);
  if (dtype == at::kChar) return shaped(input, input.sizes(), dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kQUInt4x2, op, ": results of dtype ", dtype,
                              " are not supported, only int8 and quint4x2");
  return int4_elements(op, input);
}

OutSpec quantized_elements(const at::Tensor& input, int64_t type, bool div_mode) {
  const at::ScalarType dtype = type_or(type, at::ScalarType::Undefined);
  if (dtype != at::kQUInt4x2) return shaped(input, input.sizes(), at::isQIntType(dtype) ? at::toUnderlying(dtype) : dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!div_mode, "npu_quantize: quint4x2 is for div_mode=False");
  return int4_elements("npu_quantize", input);
}

OutSpec quant_scales(const char* op, const at::Tensor& input, std::string_view quant_mode, bool symmetric) {
  at::DimVector sizes(input.sizes());
  if (quant_mode == "pertoken") {
    sizes.pop_back();
  } else if (quant_mode == "pertensor") {
    sizes = {1};
  } else {
    TORCH_CHECK_VALUE(quant_mode == "perchannel", op, ": quant_mode '", quant_mode,
                      "' is not one of pertoken, pertensor, perchannel");
    TORCH_CHECK_NOT_IMPLEMENTED(symmetric, op, ": quant_mode 'perchannel' is not supported");
    sizes.erase(sizes.end() - 2);
  }
  return shaped(input, sizes, at::kFloat);
}

int64_t quantized_code(std::optional<int64_t> type) { return type_or(type, at::kChar) == at::kQUInt4x2 ? ACL_INT4 : ACL_INT8; }

std::optional<at::Tensor> mx_scale(const std::optional<at::Tensor>& scale) {
  constexpr int64_t kPairs = 3;
  if (!given(scale) || (scale->scalar_type() != at::kByte && scale->scalar_type() != at::kChar) || scale->dim() < kPairs)
    return scale;
  return scale->view(at::kFloat8_e8m0fnu);
}
at::Tensor mx_scale(const at::Tensor& scale) { return *mx_scale(std::optional<at::Tensor>(scale)); }

const at::Tensor& quant_scattered(const at::Tensor& target, const at::Tensor& updates, std::string_view reduce,
                                  int64_t quant_axis, std::optional<int64_t> type,
                                  const std::optional<std::string_view>& round_mode) {
  const bool last = quant_axis == -1 || quant_axis == updates.dim() - 1;
  return only_if(
      reduce == "update" && last && type_or(type, at::kChar) == at::kChar && round_mode.value_or("rint") == "rint",
      "npu_quant_scatter: another reduce than 'update', dtype than int8, round_mode than 'rint' and quant_axis than the "
      "last are",
      target);
}

int64_t slots_of(const at::Tensor& routing_map, std::optional<int64_t> wanted, bool drop_and_pad) {
  TORCH_CHECK_VALUE(routing_map.dim() == 2, "routing_map is [tokens, experts], but has ", routing_map.dim(), " dimensions");
  const int64_t among = std::max<int64_t>(1, routing_map.size(drop_and_pad ? 1 : 0));
  return wanted.value_or(routing_map.size(0)) / among * among;
}

int64_t group_code(at::OptionalIntArrayRef sizes) {
  if (!sizes || sizes->empty()) return 0;
  TORCH_CHECK_VALUE(sizes->size() == 3, "sizes of groups are those of m, n and k, but there are ", sizes->size());
  constexpr int kBits = 16;
  return ((*sizes)[0] << (2 * kBits)) | ((*sizes)[1] << kBits) | (*sizes)[2];
}

bool exchange_of_few_bits_is_served(const at::Tensor& x, const std::optional<at::Tensor>& scale, const at::Tensor& weight,
                                    std::optional<int64_t> mode) {
  constexpr int64_t kDynamic = 7, kPairs = 3;
  if (x.element_size() == 1) return !given(scale) || scale->numel() <= 1 || scale->dim() == kPairs;
  return mode.value_or(kDynamic) == kDynamic && weight.scalar_type() == at::kChar;
}

const at::Tensor& expert_scores(const at::Tensor& scores, const char* op) {
  TORCH_CHECK(scores.dim() == 2 || scores.dim() == 3, op, ": the scores have 2 or 3 dimensions, but got ", scores.dim());
  const auto dtype = scores.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, op,
              ": the scores are float32, float16 or bfloat16, but got ", dtype);
  return scores;
}

const at::Tensor& only_if(bool supported, const char* what, const at::Tensor& value) {
  TORCH_CHECK_NOT_IMPLEMENTED(supported, what, " not supported");
  return value;
}

const std::optional<at::Tensor>& ends_of_packed(const char* op, std::string_view layout, const std::optional<at::Tensor>& ends) {
  TORCH_CHECK(layout != "TND" || given(ends), op, ": layout TND needs actual_seq_qlen, the running sums of the lengths");
  return ends;
}

bool is_neox(const std::optional<std::string_view>& rotary_mode, const std::optional<std::string_view>& cache_mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(cache_mode.value_or("default") == "default", "npu_mrope: cache_mode '", *cache_mode,
                              "' is not supported");
  const auto mode = rotary_mode.value_or("half");
  TORCH_CHECK_VALUE(mode == "half" || mode == "interleave", "rotary_mode '", mode, "' is not one of half, interleave");
  return mode == "half";
}

std::string_view quant_mode_name(int64_t mode) {
  TORCH_CHECK_VALUE(mode == 0 || mode == 1, "swiglu with quantization: quant_mode is 0, static, or 1, dynamic, not ", mode);
  return mode ? "dynamic" : "static";
}

const at::Tensor& refusing(const at::Tensor& value, const char* what, at::ArrayRef<std::optional<at::Tensor>> refused) {
  for (const auto& tensor : refused) TORCH_CHECK_NOT_IMPLEMENTED(!tensor || !tensor->defined(), what, " not supported");
  return value;
}

int64_t rotary_mode_number(std::string_view mode, const std::optional<at::Tensor>& rotate) {
  TORCH_CHECK(!rotate || !rotate->defined(), "npu_rotary_mul: a matrix `rotate` is not supported");
  constexpr std::string_view kModes[] = {"half", "interleave", "quarter", "interleave-half"};
  const auto* found = std::find(std::begin(kModes), std::end(kModes), mode);
  TORCH_CHECK_VALUE(found != std::end(kModes), "rotary_mode '", mode,
                    "' is not one of half, interleave, quarter, interleave-half");
  return found - kModes;
}

int64_t rotary_layout_number(std::string_view layout) {
  if (layout == "BSND" || layout == "BSH") return 1;
  if (layout == "SBND") return 2;
  if (layout == "BNSD") return 3;
  if (layout == "TND") return 4;
  TORCH_CHECK_VALUE(false, "layout '", layout, "' is not one of BSND, BSH, SBND, BNSD, TND");
}

const at::Tensor& first_of(at::TensorList list, const char* what) {
  TORCH_CHECK_VALUE(!list.empty(), what, " is an empty list");
  return list[0];
}

std::vector<at::Tensor> one_tensor(const at::Tensor& tensor) { return {tensor}; }

at::Tensor matrix_unit_scale(const at::Tensor& scale, const std::optional<at::Tensor>& offset,
                             const std::optional<at::Tensor>& row_scale, std::optional<int64_t> result) {
  const auto type = type_or(result, at::kChar);
  if (scale.scalar_type() != at::kFloat || given(row_scale) || (type != at::kChar && type != at::kHalf)) return scale;
  auto out = empty_like_with(scale, broadcast_sizes(scale, offset), at::kLong);
  op::run(aclnnTransQuantParamV2, scale, offset, out);
  return out;
}

at::Tensor number_on(const at::Tensor& self, const at::Scalar& number) {
  return at::full({1}, number, self.options().dtype(at::kFloat));
}

}  // namespace torch_npu::native
