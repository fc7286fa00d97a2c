// As shapes.h, for what serving fuses: caches of keys and values, latent attention, causal convolutions, products of few bits.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

namespace torch_npu::native {

// Sizes ----------------------------------------------------------------------------------------------

// Scales of int8 queries: [tokens, heads, 1].
at::DimVector latent_scale_sizes(const at::Tensor& token_x, const at::Tensor& weight_uk);
// The width of part `part` of packed queries, keys and values: its heads times the last of `qkv_size`. Throws ValueError for
// lists of another length than 4 and 3.
int64_t heads_width(at::IntArrayRef qkv_size, at::IntArrayRef head_nums, size_t part);
// Part `part` of rows that are cut into `splits`, as heads of `size`: x's leading sizes, heads, size.
at::DimVector split_heads(const at::Tensor& x, at::IntArrayRef splits, size_t part, int64_t size);
// Columns of a matrix, of which int32 are eight int4 each of the dimension that is dense in memory.
int64_t columns_of_weight(const at::Tensor& weight);
// Columns of the product of groups of rows with weights, of which int32 are eight int4 each. Throws NotImplementedError for
// dtypes that are not multiplied.
int64_t few_bit_columns(const at::Tensor& x, at::TensorList weight);
// Eight of the last dimension's int4 to an int32.
at::DimVector packed_int4_sizes(const char* op, const at::Tensor& x);
// x1 @ x2, each with three dimensions and permuted first, then permuted; no permutation leaves the order.
at::DimVector turned_product_sizes(const at::Tensor& x1, const at::Tensor& x2, at::OptionalIntArrayRef perm1,
                                   at::OptionalIntArrayRef perm2, at::OptionalIntArrayRef perm_y);

// Greatest scores and denominators of a softmax: [batch, 1, tokens, heads], of packed queries ("TND") [1, tokens, heads].
at::DimVector sparse_statistic_sizes(const at::Tensor& query, std::string_view layout);

// Arguments ------------------------------------------------------------------------------------------

// The permutation, or another one where none is given.
at::DimVector permutation_or(at::OptionalIntArrayRef order, std::initializer_list<int64_t> otherwise);
// x3, which "add" and "mul" need; throws ValueError without it, and for what is no operation behind a product.
const std::optional<at::Tensor>& fused_operand(std::string_view operation, const std::optional<at::Tensor>& x3);
// Whether both are int8.
bool is_int8(const at::Tensor& a, const at::Tensor& b);
// Pairs of scales along the rows of groups that are quantized in blocks, with room for a part of a pair in each.
int64_t grouped_scale_rows(const at::Tensor& x, const at::Tensor& groups, int64_t block);
// A result that is wanted; undefined, which CANN does not compute, for one without elements.
at::Tensor filled(const at::Tensor& result);
// Bytes that `dtype`, a number, says are float8, as such; others as they are.
at::Tensor as_float8(const at::Tensor& x, std::optional<int64_t> dtype);
// None 0, silu 1, swish 2; throws NotImplementedError for others.
int64_t activation_number(const std::optional<std::string_view>& name);
// "default" 0; "pangu" 1, which needs the numbers of tokens computed before.
int64_t conv_mode_number(const std::optional<std::string_view>& name, bool knows_computed);
// gelu_erf or gelu_tanh; throws ValueError for others.
std::string_view gelu_name(const std::optional<std::string_view>& approximate);

}  // namespace torch_npu::native
