#include "aten/custom/serving_shapes.h"

#include <algorithm>
#include <iterator>

#include "aten/custom/shapes.h"

namespace torch_npu::native {

constexpr int64_t kCodesPerInt32 = 8;

at::DimVector latent_scale_sizes(const at::Tensor& token_x, const at::Tensor& weight_uk) {
  return {token_x.numel() / std::max<int64_t>(token_x.size(-1), 1), weight_uk.size(0), 1};
}

int64_t heads_width(at::IntArrayRef qkv_size, at::IntArrayRef head_nums, size_t part) {
  TORCH_CHECK_VALUE(qkv_size.size() == 4 && head_nums.size() == 3, "qkv_size has ", qkv_size.size(), " and head_nums ",
                    head_nums.size(), " numbers, not 4 and 3");
  return head_nums[part] * qkv_size[3];
}

at::DimVector split_heads(const at::Tensor& x, at::IntArrayRef splits, size_t part, int64_t size) {
  TORCH_CHECK_VALUE(splits.size() == 3 && size > 0, "size_splits has ", splits.size(),
                    " numbers, not 3, and heads have the size ", size);
  return with_tail(x, x.dim() - 1, {splits[part] / size, size});
}

namespace {

bool is_float8(const at::Tensor& x) { return x.scalar_type() == at::kFloat8_e5m2 || x.scalar_type() == at::kFloat8_e4m3fn; }
bool multiplies(const at::Tensor& x, const at::Tensor& weight) {
  if (is_float8(x)) return is_float8(weight);
  const bool packed = weight.scalar_type() == at::kInt;
  return x.scalar_type() == at::kInt ? packed : x.scalar_type() == at::kChar && (packed || weight.scalar_type() == at::kChar);
}

at::DimVector permuted(at::IntArrayRef sizes, at::OptionalIntArrayRef order) {
  if (!order || order->empty()) return at::DimVector(sizes);
  TORCH_CHECK_VALUE(order->size() == sizes.size(), "a permutation of ", order->size(), " dimensions for ", sizes.size());
  at::DimVector result;
  for (const int64_t dim : *order) {
    TORCH_CHECK_VALUE(dim >= 0 && dim < static_cast<int64_t>(sizes.size()), "a permutation of ", sizes.size(),
                      " dimensions has the number ", dim);
    result.push_back(sizes[dim]);
  }
  return result;
}

}  // namespace

int64_t columns_of_weight(const at::Tensor& weight) {
  const bool packed = weight.scalar_type() == at::kInt && !(weight.stride(-1) != 1 && weight.stride(-2) == 1);
  return weight.size(-1) * (packed ? kCodesPerInt32 : 1);
}

int64_t few_bit_columns(const at::Tensor& x, at::TensorList weight) {
  const at::Tensor& first = first_of(weight, "weight");
  TORCH_CHECK_NOT_IMPLEMENTED(multiplies(x, first), "x of ", x.scalar_type(), " with weights of ", first.scalar_type(),
                              " is not supported, only int8, int32 (int4) and float8");
  return columns_of_weight(first);
}

at::DimVector packed_int4_sizes(const char* op, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.size(-1) % kCodesPerInt32 == 0, op, ": eight int4 are one int32, and the last dimension is ", x.size(-1));
  return resized_dim(x, -1, x.size(-1) / kCodesPerInt32);
}

at::DimVector turned_product_sizes(const at::Tensor& x1, const at::Tensor& x2, at::OptionalIntArrayRef perm1,
                                   at::OptionalIntArrayRef perm2, at::OptionalIntArrayRef perm_y) {
  TORCH_CHECK_VALUE(x1.dim() == 3 && x2.dim() == 3, "a product of batches of ", x1.sizes(), " and ", x2.sizes());
  const auto left = permuted(x1.sizes(), perm1), right = permuted(x2.sizes(), perm2);
  TORCH_CHECK_VALUE(left[0] == right[0] && left[2] == right[1], "a product of batches of ", at::IntArrayRef(left), " and ",
                    at::IntArrayRef(right));
  return permuted(at::DimVector{left[0], left[1], right[2]}, perm_y);
}

at::DimVector sparse_statistic_sizes(const at::Tensor& query, std::string_view layout) {
  at::DimVector sizes(query.sizes().slice(0, query.dim() - 1));
  sizes.insert(sizes.begin() + (layout == "TND" ? 0 : 1), 1);
  return sizes;
}

at::DimVector permutation_or(at::OptionalIntArrayRef order, std::initializer_list<int64_t> otherwise) {
  return order && !order->empty() ? at::DimVector(*order) : at::DimVector(otherwise);
}

const std::optional<at::Tensor>& fused_operand(std::string_view operation, const std::optional<at::Tensor>& x3) {
  constexpr std::string_view kOperations[] = {"", "relu", "gelu_erf", "gelu_tanh", "add", "mul"};
  TORCH_CHECK_VALUE(std::find(std::begin(kOperations), std::end(kOperations), operation) != std::end(kOperations),
                    "npu_fused_matmul: fused_op_type '", operation, "' is not one of '', relu, gelu_erf, gelu_tanh, add, mul");
  TORCH_CHECK_VALUE(given(x3) || (operation != "add" && operation != "mul"), "npu_fused_matmul: fused_op_type '", operation,
                    "' needs x3");
  return x3;
}

bool is_int8(const at::Tensor& a, const at::Tensor& b) { return a.scalar_type() == at::kChar && b.scalar_type() == at::kChar; }

int64_t grouped_scale_rows(const at::Tensor& x, const at::Tensor& groups, int64_t block) {
  TORCH_CHECK_VALUE(block > 0, "MX quantization in blocks of ", block);
  return x.size(0) / (2 * block) + groups.numel();
}

at::Tensor filled(const at::Tensor& result) { return result.numel() != 0 ? result : at::Tensor(); }

at::Tensor as_float8(const at::Tensor& x, std::optional<int64_t> dtype) {
  return dtype && x.scalar_type() == at::kByte ? x.view(float8_type("few bits by number", *dtype)) : x;
}

int64_t activation_number(const std::optional<std::string_view>& name) {
  const auto given_name = name.value_or("");
  if (given_name.empty() || given_name == "None" || given_name == "none") return 0;
  if (given_name == "silu") return 1;
  TORCH_CHECK_NOT_IMPLEMENTED(given_name == "swish", "npu_fused_causal_conv1d: activation '", given_name,
                              "' is not supported; None, silu and swish are");
  return 2;
}

int64_t conv_mode_number(const std::optional<std::string_view>& name, bool knows_computed) {
  const auto mode = name.value_or("default");
  TORCH_CHECK_VALUE(mode == "default" || mode == "pangu", "npu_fused_causal_conv1d: conv_mode '", mode,
                    "' is neither 'default' nor 'pangu'");
  TORCH_CHECK_VALUE(mode == "default" || knows_computed, "npu_fused_causal_conv1d: conv_mode 'pangu' needs num_computed_tokens");
  return mode == "pangu";
}

std::string_view gelu_name(const std::optional<std::string_view>& approximate) {
  const auto name = approximate.value_or("gelu_erf");
  TORCH_CHECK_VALUE(name == "gelu_erf" || name == "gelu_tanh", "approximate '", name, "' is not one of gelu_erf, gelu_tanh");
  return name;
}

}  // namespace torch_npu::native
