// What the entries of custom_ops.yaml use besides aten/shape_rules.h: sizes of results, arguments in CANN's form.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "aten/custom/serving_shapes.h"
#include "aten/shape_rules.h"
#include "op/descriptor.h"

namespace torch_npu::native {

// Sizes ----------------------------------------------------------------------------------------------

// Statistics of a normalization of the trailing dimensions that gamma has: 1 for each of them.
at::DimVector row_sizes(const at::Tensor& x, const at::Tensor& gamma);
// `self` with half the size of `dim`, which must be even.
at::DimVector halved(const at::Tensor& self, int64_t dim);
// `self` with a new dimension `dim` of `size`.
at::DimVector inserted(const at::Tensor& self, int64_t dim, int64_t size);
// Attention's result: queries and heads change places in the layout BNSD_BSND.
at::DimVector prompt_sizes(const at::Tensor& query, std::string_view layout);
// The fused attention's: the query's with the heads' size of the values, in the layout behind the "_" of `layout`.
at::DimVector infer_sizes(const at::Tensor& query, const at::Tensor& value, std::string_view layout, int64_t heads,
                          int64_t kv_heads, bool paged);
// logsumexp of its rows, [batch, heads, rows, 1] or [tokens, heads, 1]; [1] where it is not wanted.
at::DimVector infer_lse_sizes(const at::Tensor& query, std::string_view layout, int64_t heads, bool wanted);
// Those windows of `block` rows, `stride` apart, of all sequences, whose lengths are running sums; throws where none are given.
int64_t window_rows(const char* op, at::OptionalIntArrayRef ends, int64_t block, int64_t stride);
// Attention to pages of keys: the query's, with the heads' size of the values; and of the blocks that it chooses.
at::DimVector paged_attention_sizes(const at::Tensor& query, const at::Tensor& value, std::string_view layout, int64_t heads,
                                    int64_t kv_heads);
at::DimVector chosen_sizes(const at::Tensor& query, std::string_view layout, int64_t kv_heads, int64_t count);
// Statistics of an indexer's softmax: [batch, 1, tokens], of packed queries [1, tokens].
// Elements in a column of all steps of Sinkhorn's iteration: rows of matrices are filled up to a multiple of 8.
int64_t sinkhorn_steps(const at::Tensor& x, int64_t iterations);
at::DimVector index_statistic_sizes(const at::Tensor& query);
// MX scales of blocks of `block` numbers along `dim` of `sizes`: in pairs.
at::DimVector mx_scale_sizes(at::IntArrayRef sizes, int64_t dim = -1, int64_t block = 32);
// Scales of blocks of `rows` by `columns` of the last two dimensions; of `groups` of rows (0: none) one after the other, where as
// many rows are left over.
at::DimVector block_scale_sizes(const at::Tensor& x, int64_t rows, int64_t columns, int64_t groups);
// Of both broadcast; of `a` where there is no `b`.
at::DimVector broadcast_sizes(const at::Tensor& a, const std::optional<at::Tensor>& b);
// A loss of a `reduction` given by name.
at::DimVector loss_sizes(const at::Tensor& target, std::string_view reduction);
// Rows of permuted tokens: `wanted` of them, all where it is 0 or not given, all but -wanted where negative.
int64_t permuted_rows(const at::Tensor& indices, std::optional<int64_t> wanted);
// Rows that npu_moe_init_routing_v2 makes of the copies of all tokens: `wanted` of them, all unless that is positive.
int64_t routed_rows(const at::Tensor& expert_idx, int64_t wanted);
// Its rows where each of all experts has `capacity` of them.
at::DimVector rows_of_experts(const at::Tensor& x, int64_t experts, int64_t capacity);
// Its numbers of tokens: one for each expert of `range` (all where it is empty), or pairs of an expert and its number.
at::DimVector routed_counts(at::IntArrayRef range, int64_t experts, int64_t type);
// Rows that npu_moe_distribute_dispatch makes room for: as many as can come from all ranks.
int64_t dispatched_rows(const at::Tensor& expert_ids, int64_t ranks, int64_t shared_ranks, int64_t experts,
                        int64_t global_tokens);
// A matrix product's, batches broadcast; int32 are taken for eight int4 each.
at::DimVector product_sizes(const at::Tensor& a, const at::Tensor& b);

// The dtype of a product of int8, of `x` where nothing was quantized: float16 for a scale that holds a float32's bits, else
// bfloat16.
at::ScalarType dequantized_type(const at::Tensor& x, const std::optional<at::Tensor>& scale,
                                const std::optional<at::Tensor>& row_scale);

// Rows that tokens get by a map [tokens, experts]: `wanted` (by default one for each token) down to a multiple of the tokens, or
// of the experts where each has its capacity.
int64_t slots_of(const at::Tensor& routing_map, std::optional<int64_t> wanted, bool drop_and_pad);

// Results --------------------------------------------------------------------------------------------

// Number `index` of the `count` tensors given for the results, in the rule's sizes. Memory and dtype are the caller's: a graph
// whose task is replaced keeps writing there. Throws ValueError for another number of tensors or of elements, or another dtype;
// one of a single element, for a result that nobody wants, may have any.
at::Tensor given_out(at::TensorList out, size_t count, size_t index, const OutSpec& spec);

// Dtypes ---------------------------------------------------------------------------------------------

// A dtype given as a number, as the published operators take it.
at::ScalarType type_or(std::optional<int64_t> type, at::ScalarType otherwise);
// Of two inputs that are added: theirs, float32 where they differ.
at::ScalarType same_or_float(const at::Tensor& a, const at::Tensor& b);
// The result of attention: int8 with a scale for it, float16 of int8, else as the query.
at::ScalarType attention_type(const at::Tensor& query, const std::optional<at::Tensor>& quant_scale);
// int8; throws NotImplementedError where another dtype or a mode that is not `usual` is asked for.
at::ScalarType only_int8(const char* op, std::optional<int64_t> type, bool usual);
// float8_e5m2 (23, 291) or float8_e4m3fn (24, 292); throws NotImplementedError for others. And CANN's number.
at::ScalarType float8_type(const char* op, int64_t type);
int64_t float8_code(int64_t type);
// int8 (1) or float8 (see float8_type); throws NotImplementedError for others. And CANN's number.
at::ScalarType block_type(const char* op, int64_t type);
int64_t block_code(int64_t type);
// `sizes` numbers of an MX format: float8 (see float8_type), or float4_e2m1 (40, 296) and float4_e1m2 (41, 297), two in a byte,
// for which the last size is halved. Throws NotImplementedError for other formats.
OutSpec mx_like(const char* op, const at::Tensor& input, at::IntArrayRef sizes, int64_t type);
int64_t mx_code(int64_t type);
// The sizes in numbers of what mx_like describes.
at::DimVector mx_numbers(const char* op, const at::Tensor& elements, int64_t type);
// int8 of the input's shape, or for quint4x2 eight int4 in each int32; and CANN's number of the one or the other.
OutSpec quantized_rows(const char* op, const at::Tensor& input, std::optional<int64_t> type);
// The same of any quantized dtype, as the integers that hold it.
OutSpec quantized_elements(const at::Tensor& input, int64_t type, bool div_mode);
// One number for each row, for each column over the rows, or one for all.
OutSpec quant_scales(const char* op, const at::Tensor& input, std::string_view quant_mode, bool symmetric);
int64_t quantized_code(std::optional<int64_t> type);

// Arguments ------------------------------------------------------------------------------------------

// "half" 0, "interleave" 1, "quarter" 2, "interleave-half" 3. Throws for others, and when `rotate` is given.
int64_t rotary_mode_number(std::string_view mode, const std::optional<at::Tensor>& rotate);
// "BSND" and "BSH" 1, "SBND" 2, "BNSD" 3, "TND" 4.
int64_t rotary_layout_number(std::string_view layout);
// The first of a list; throws ValueError, naming `what`, when there is none.
const at::Tensor& first_of(at::TensorList list, const char* what);
// MX scales, which come as bytes, as CANN takes them: a tensor of three dimensions or more; others as they are.
std::optional<at::Tensor> mx_scale(const std::optional<at::Tensor>& scale);
at::Tensor mx_scale(const at::Tensor& scale);
// And their elements.
op::AsType mx_elements(const at::Tensor& elements, int64_t type);
// `target`; throws NotImplementedError for what the operator does not do.
const at::Tensor& quant_scattered(const at::Tensor& target, const at::Tensor& updates, std::string_view reduce,
                                  int64_t quant_axis, std::optional<int64_t> type,
                                  const std::optional<std::string_view>& round_mode);
// CANN's number of the sizes of groups: m, n and k in 16 bits each, the last lowest; 0 without them.
int64_t group_code(at::OptionalIntArrayRef sizes);
// Whether what is exchanged before a product can be quantised as asked: of int8 and float8 with one scale or MX scales, else rows
// that are quantised behind the exchange.
bool exchange_of_few_bits_is_served(const at::Tensor& x, const std::optional<at::Tensor>& scale, const at::Tensor& weight,
                                    std::optional<int64_t> mode);
// Which of two quantised results are wanted: as `mask` says, without it the first, and the second where both are smoothed.
std::array<bool, 2> wanted_rows(const std::optional<std::array<bool, 2>>& mask, const std::optional<at::Tensor>& smooth1,
                                const std::optional<at::Tensor>& smooth2);
// Sizes as they come from Python: plain integers, or symbols of a value. Lists refer to the argument's memory.
inline int64_t concrete(const c10::SymInt& size) { return size.guard_int(__FILE__, __LINE__); }
inline at::IntArrayRef concrete(c10::SymIntArrayRef sizes) { return C10_AS_INTARRAYREF_SLOW(sizes); }
inline at::OptionalIntArrayRef concrete(at::OptionalSymIntArrayRef sizes) {
  return sizes ? at::OptionalIntArrayRef(concrete(*sizes)) : at::OptionalIntArrayRef();
}
// Whether an optional argument is there.
inline bool given(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }
// Scales of columns as the matrix unit takes them where it makes int8 (the default) or float16 of int32 by itself, without scales
// of rows: float32 numbers become int64, see aclnnTransQuantParam, with the offset; others stay as they are.
at::Tensor matrix_unit_scale(const at::Tensor& scale, const std::optional<at::Tensor>& offset,
                             const std::optional<at::Tensor>& row_scale, std::optional<int64_t> result);
// A list of one.
std::vector<at::Tensor> one_tensor(const at::Tensor& tensor);
// The number as a tensor of one element, float32, on `self`'s device.
at::Tensor number_on(const at::Tensor& self, const at::Scalar& number);

// Whether vectors are turned in halves, as GPT-NeoX does it, and not in neighbours.
bool is_neox(const std::optional<std::string_view>& rotary_mode, const std::optional<std::string_view>& cache_mode);
// CANN's name of a mode of quantization: 0 static, 1 dynamic.
std::string_view quant_mode_name(int64_t mode);

// The scores of tokens for experts; throws unless they are [..., tokens, experts] of two or three dimensions and floating.
const at::Tensor& expert_scores(const at::Tensor& scores, const char* op);
// `value`; throws NotImplementedError, "`what` not supported", unless `supported`.
const at::Tensor& only_if(bool supported, const char* what, const at::Tensor& value);
// `ends`, the running sums of the lengths; throws unless they are given where the layout packs sequences.
const std::optional<at::Tensor>& ends_of_packed(const char* op, std::string_view layout, const std::optional<at::Tensor>& ends);
// `value`; throws NotImplementedError, naming `what`, when one of `refused` is given.
const at::Tensor& refusing(const at::Tensor& value, const char* what, at::ArrayRef<std::optional<at::Tensor>> refused);

}  // namespace torch_npu::native
